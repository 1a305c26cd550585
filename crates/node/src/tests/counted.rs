//! Counted buckets: key counts from the bucket's count.

use super::many::{Cluster, ask};
use super::test_cluster::wait;
use super::{Place, bytes, reason, set};
use crate::Node;
use base::limits::EVALUATION_ROWS_MAX;
use base::request::{Expiry, OnMissing, SequenceMode};
use base::{Body, BucketName, Call, DirectoryCall, Range, Read, ReadLevel, Reason, Update};
use replication::counts::count_tree_key;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn name(text: &str) -> BucketName {
    BucketName::parse(text).expect("a name")
}

fn counted(is_counted: bool) -> Vec<(String, String)> {
    vec![("counted".into(), is_counted.to_string())]
}

async fn directory(node: &Node, bucket: &str, call: DirectoryCall) -> base::Result<Body> {
    ask(node, &name(bucket), Call::Directory(call)).await.map(|reply| reply.body)
}

async fn count(node: &Node, bucket: &str, level: ReadLevel) -> Body {
    ask(node, &name(bucket), Call::Read(Read::KeyCount, level)).await.expect("a count").body
}

async fn update(node: &Node, bucket: &str, update: Update) -> base::Result<Body> {
    ask(node, &name(bucket), Call::Update(update)).await.map(|reply| reply.body)
}

/// Waits until a bucket's count is complete, and returns it.
async fn complete(node: &Node, bucket: &str) -> (u64, u64) {
    for _ in 0..9_000 {
        if let Body::Size { keys, bytes } = count(node, bucket, ReadLevel::Consistent).await {
            return (keys, bytes);
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("the count of {bucket} is never complete");
}

fn delete(key: &str) -> Update {
    Update::Delete { key: bytes(key), missing: OnMissing::Fail }
}

fn steps(steps: Vec<Update>, mode: SequenceMode) -> Update {
    Update::Sequence { steps, mode }
}

/// Counts the rows of a bucket, and the bytes of their keys and values, one by one.
async fn scanned(node: &Node, bucket: &str) -> (u64, u64) {
    let (mut range, mut found) = (Range::default(), (0, 0));
    loop {
        let call = Call::Read(Read::Range(range.clone()), ReadLevel::Consistent);
        let Body::Page(page) = ask(node, &name(bucket), call).await.expect("a page").body else {
            panic!("a range gives a page")
        };
        for entry in &page.entries {
            let value = entry.row.as_ref().map_or(0, |row| row.value.len());
            found = (found.0 + 1, found.1 + (entry.key.len() + value) as u64);
        }
        match page.entries.last().filter(|_| page.more) {
            Some(last) => range = range.after(last.key.clone()),
            None => return found,
        }
    }
}

/// Returns true if the store of a node has a count of the bucket.
fn has_row(node: &Node, bucket: &str) -> bool {
    let found = node.router.locator.catalog.find(&name(bucket)).expect("it is there");
    let mut key = Vec::new();
    count_tree_key(found.group, found.id, &mut key);
    node.status.trees.get(&key).expect("readable").is_some()
}

#[tokio::test]
async fn counted_bucket_answers_exact_counts_through_updates_and_restarts() {
    let place = Place::new();
    let mut node = place.start().await;
    directory(&node, "b", DirectoryCall::CreateBucket(counted(true))).await.expect("made");
    assert_eq!(complete(&node, "b").await, (0, 0));
    let forget = Update::Set { key: bytes("t"), value: bytes("v"), expiry: Expiry::After(40) };
    for (change, keys, size) in [
        (set("k", "123"), 1, 4),
        (set("k", "1"), 1, 2),
        (set("l", ""), 2, 3),
        (Update::Append { key: bytes("l"), value: bytes("xy") }, 2, 5),
        (delete("k"), 1, 3),
        (steps(vec![set("m", "m"), set("n", "n"), delete("m")], SequenceMode::Batch), 2, 5),
    ] {
        let told = format!("{change:?}");
        update(&node, "b", change).await.expect("it goes");
        let found = count(&node, "b", ReadLevel::Consistent).await;
        assert_eq!(found, Body::Size { keys, bytes: size }, "{told}");
    }
    let failing = steps(vec![set("no", "no"), delete("absent")], SequenceMode::AllOrNothing);
    assert_eq!(reason(update(&node, "b", failing).await), Reason::NotFound);
    let partly = steps(vec![set("o", "o"), delete("absent")], SequenceMode::EachAlone);
    update(&node, "b", partly).await.expect("the first step goes");
    assert_eq!(complete(&node, "b").await, (3, 7));
    update(&node, "b", forget).await.expect("it goes");
    wait("the expiry of a row", || {
        let found = node.router.locator.bucket(&name("b")).ok()?;
        let read = replication::read::read(&found.1, &found.0, &Read::KeyCount).ok()?;
        (read.body == Body::Size { keys: 3, bytes: 7 }).then_some(())
    })
    .await;
    node.stop().await.expect("it stops");
    node = place.start().await;
    let found = count(&node, "b", ReadLevel::Consistent).await;
    assert_eq!(found, Body::Size { keys: 3, bytes: 7 }, "it is there at once");
    assert!(node.has_count(&name("b")) && !node.has_count(&BucketName::default()));
    let emptied = node
        .empty_prefix(&base::Principal::Node, &name("b"), &bytes("l"), None)
        .await
        .expect("it goes");
    assert_eq!((emptied.removed, complete(&node, "b").await), (1, (2, 4)));
    update(&node, "b", Update::DeletePrefix { prefix: bytes("") }).await.expect("it goes");
    assert_eq!(complete(&node, "b").await, (0, 0));
    update(&node, "b", set("k", "v")).await.expect("it goes");
    directory(&node, "b", DirectoryCall::ClearBucket).await.expect("cleared");
    assert_eq!(complete(&node, "b").await, (0, 0));
    directory(&node, "b", DirectoryCall::DropBucket).await.expect("dropped");
    let group = node.router.locator.groups.find(base::GroupId(1)).expect("it is there");
    wait("the end of its count", || group.counted_buckets().is_empty().then_some(())).await;
    node.stop().await.expect("it stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn count_of_an_existing_bucket_is_completed_while_it_is_written() {
    let place = Place::new();
    let node = place.start().await;
    for first in (0..3_000).step_by(1_000) {
        let rows = (first..first + 1_000).map(|row| set(&format!("r{row:05}"), "value"));
        update(&node, "default", steps(rows.collect(), SequenceMode::Batch)).await.expect("fits");
    }
    assert_eq!(count(&node, "default", ReadLevel::Consistent).await, Body::Count(3_000));
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (node, stop) = (node.clone(), stop.clone());
        tokio::spawn(async move {
            let mut written = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                let row = format!("r{:05}", written * 7_919 % 6_000);
                let change = match written % 3 {
                    0 => Update::Delete { key: bytes(&row), missing: OnMissing::Skip },
                    _ => set(&row, &"x".repeat((written % 11) as usize)),
                };
                update(&node, "default", change).await.expect("it goes");
                written += 1;
            }
            written
        })
    };
    for _ in 0..3 {
        directory(&node, "default", DirectoryCall::AlterBucket(counted(true))).await.expect("on");
        complete(&node, "default").await;
        directory(&node, "default", DirectoryCall::AlterBucket(counted(false))).await.expect("off");
        wait("the end of the count", || (!has_row(&node, "default")).then_some(())).await;
    }
    directory(&node, "default", DirectoryCall::AlterBucket(counted(true))).await.expect("on");
    complete(&node, "default").await;
    stop.store(true, Ordering::Relaxed);
    assert!(writer.await.expect("it ends") > 0);
    let rows = scanned(&node, "default").await;
    assert_eq!(complete(&node, "default").await, rows);
    directory(&node, "default", DirectoryCall::AlterBucket(counted(false))).await.expect("off");
    assert_eq!(count(&node, "default", ReadLevel::Consistent).await, Body::Count(rows.0));
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn sequence_over_the_row_budget_of_a_counted_bucket_changes_nothing() {
    let place = Place::new();
    let node = place.start().await;
    directory(&node, "b", DirectoryCall::CreateBucket(counted(true))).await.expect("made");
    complete(&node, "b").await;
    let rows = |count: usize| {
        let sets = (0..count).map(|row| set(&format!("{row:06}"), "v"));
        steps(sets.collect(), SequenceMode::AllOrNothing)
    };
    let refused = update(&node, "b", rows(EVALUATION_ROWS_MAX + 1)).await;
    assert_eq!((reason(refused), complete(&node, "b").await), (Reason::TooLarge, (0, 0)));
    update(&node, "b", rows(EVALUATION_ROWS_MAX - 100)).await.expect("it fits");
    assert_eq!(complete(&node, "b").await.0, EVALUATION_ROWS_MAX as u64 - 100);
    let other = update(&node, "default", rows(EVALUATION_ROWS_MAX + 1)).await;
    other.expect("rows of a bucket that is not counted are not looked up");
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn write_beyond_bytes_max_is_refused_and_deletes_pass() {
    let place = Place::new();
    let node = place.start().await;
    let bytes_max = |max: u64| vec![("bytes_max".to_string(), max.to_string())];
    let alter = async |changes| directory(&node, "b", DirectoryCall::AlterBucket(changes)).await;
    let make = DirectoryCall::CreateBucket([counted(true), bytes_max(10)].concat());
    directory(&node, "b", make).await.expect("made");
    assert_eq!(complete(&node, "b").await, (0, 0));
    update(&node, "b", set("k", "123456789")).await.expect("as many as may be");
    for beyond in [set("l", ""), Update::Append { key: bytes("k"), value: bytes("0") }] {
        assert_eq!(reason(update(&node, "b", beyond).await), Reason::Quota);
    }
    let both = steps(vec![set("l", "12"), delete("k")], SequenceMode::AllOrNothing);
    update(&node, "b", both).await.expect("it deletes more than it writes");
    assert_eq!(complete(&node, "b").await, (1, 3));
    alter(bytes_max(2)).await.expect("altered");
    assert_eq!(reason(update(&node, "b", set("l", "123")).await), Reason::Quota);
    update(&node, "b", set("l", "21")).await.expect("it does not grow");
    update(&node, "b", delete("l")).await.expect("deletes pass");
    assert_eq!(reason(alter(counted(false)).await), Reason::Malformed, "it would bound nothing");
    alter(bytes_max(0)).await.expect("altered");
    update(&node, "b", set("l", "123")).await.expect("there is no bound");
    assert_eq!(complete(&node, "b").await, scanned(&node, "b").await);
    node.stop().await.expect("it stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_of_a_cluster_are_the_same_at_every_node_and_under_a_new_master() {
    let mut cluster = Cluster::new(3).await;
    let bucket = name("b");
    let make = Call::Directory(DirectoryCall::CreateBucket(counted(true)));
    cluster.surely(bucket.clone(), make).await.expect("made");
    for row in 0..60 {
        cluster.put(row % 3, &bucket, &format!("k{row:02}"), "12").await;
    }
    for nth in 0..3 {
        assert_eq!(complete(cluster.node(nth), "b").await, (60, 300), "node {nth}");
    }
    let joined = cluster.join().await;
    wait("the joiner's count", || cluster.node(joined).has_count(&bucket).then_some(())).await;
    let dirty = count(cluster.node(joined), "b", ReadLevel::Dirty).await;
    assert_eq!(dirty, Body::Size { keys: 60, bytes: 300 });
    let master = cluster.master(1).await;
    cluster.stop(master).await;
    let next = cluster.master(1).await;
    cluster.put(next, &bucket, "more", "1234").await;
    let other = (0..4).find(|nth| *nth != master && *nth != next).expect("four are there");
    for nth in [next, other] {
        assert_eq!(complete(cluster.node(nth), "b").await, (61, 308), "node {nth}");
    }
    // Every member's program knows the level in force, that of a node that is away, too.
    let alter = Call::Directory(DirectoryCall::AlterBucket(counted(true)));
    cluster.surely(BucketName::default(), alter).await.expect("the level allows it");
    cluster.start(master).await;
    complete(cluster.node(master), "default").await;
}

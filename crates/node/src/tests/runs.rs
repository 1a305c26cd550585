//! Runs of gets and of sets: each request has the effect and the answer that it would have alone.

use super::sim::index_definition;
use super::test_cluster::TestCluster;
use super::{Place, bytes, get, reason, request, set, update};
use crate::{Flow, Node, SubmitResult, Ticket};
use base::limits::{KEY_BYTES_MAX, UNDECIDED_UPDATES_MAX, VALUE_UPDATES_MAX};
use base::request::Expiry;
use base::{
    Body, BucketName, Call, DirectoryCall, Error, GroupId, Read, ReadLevel, Reason, Request, Row,
    Update,
};
use bytes::Bytes;
use replication::group::Group;
use std::sync::Arc;

/// Returns the flow of a connection that has used the bucket.
async fn warm(node: &Node, bucket: &BucketName) -> Flow {
    let mut flow = Flow::of(base::Principal::Node);
    let call = Call::Read(Read::Get(bytes("warm")), ReadLevel::Consistent);
    let request = Request { bucket: bucket.clone(), call, retry: None };
    let submitted = node.submit(&mut flow, request);
    node.router.wait_reply(submitted).await.expect("a read");
    flow
}

fn group(node: &Node) -> Arc<Group> {
    node.router.locator.groups.find(GroupId::DEFAULT).expect("it is there")
}

/// Reads keys in one run.
fn get_run(node: &Node, flow: &mut Flow, keys: &[String]) -> Vec<Option<Bytes>> {
    let run = node.begin_gets(flow, &BucketName::default()).expect("it is answered here");
    let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
    let mut values = Vec::new();
    let index = run.read(&keys, &mut |value| {
        let value = value.expect("readable");
        assert!(value.is_none_or(|value| value.as_slice() == value.share()));
        values.push(value.map(|value| value.share()));
        true
    });
    assert_eq!(index, Some(group(node).applied.index()));
    values
}

/// Submits sets in one run. Returns the tickets.
fn set_run(node: &Node, flow: &mut Flow, sets: &[(&str, &str)]) -> Vec<Ticket> {
    let run = node.begin_sets(flow, &BucketName::default()).expect("it is evaluated here");
    let sets: Vec<_> = sets.iter().map(|(key, value)| (key.as_bytes(), value.as_bytes())).collect();
    let mut tickets = Vec::new();
    let count = run.submit(flow, &sets, &mut |ticket| tickets.push(ticket));
    assert_eq!(count, tickets.len());
    assert_eq!(flow.last, tickets.last().copied().or(flow.last));
    tickets
}

async fn row(node: &Node, key: &str) -> Option<Row> {
    match super::read(node, Read::Get(bytes(key))).await.expect("a get").body {
        Body::Row(row) => row,
        other => panic!("a get is answered with a row, not {other:?}"),
    }
}

#[tokio::test]
async fn run_of_gets_returns_what_single_gets_return() {
    let place = Place::new();
    let node = place.start().await;
    for n in 0..50 {
        update(&node, set(&format!("k{n}"), &format!("{n}"))).await.expect("a set");
    }
    let (key, value) = (bytes("k7"), bytes("gone"));
    let expires = Update::Set { key, value, expiry: Expiry::After(1) };
    update(&node, expires).await.expect("a set");
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    update(&node, set("k8", "the group's time passes")).await.expect("a set");
    let mut flow = warm(&node, &BucketName::default()).await;
    for count in [0, 1, 15, 16, 17, 64] {
        let keys: Vec<_> = (0..count).map(|n| format!("k{}", n * 7 % 60)).collect();
        let mut single = Vec::new();
        for key in &keys {
            single.push(get(&node, key).await);
        }
        assert_eq!(get_run(&node, &mut flow, &keys), single);
        assert!(count < 64 || single.iter().any(Option::is_none));
    }
    let reads = || node.samples().into_iter().find(|s| s.name == "credenza_reads_total");
    let before = reads().expect("it is counted").value;
    get_run(&node, &mut flow, &["a".into(), "b".into(), "c".into()]);
    assert_eq!(reads().expect("it is counted").value, before + 3.0);
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn sets_of_a_run_keep_order_version_and_ticket() {
    let place = Place::new();
    let node = place.start().await;
    let mut flow = warm(&node, &BucketName::default()).await;
    let tickets = set_run(&node, &mut flow, &[("a", "1"), ("b", "2"), ("a", "3"), ("", "4")]);
    assert_eq!(tickets.len(), 4);
    assert!(tickets.iter().all(|ticket| *ticket == tickets[0]), "they share an entry");
    // A later request of the connection sees them and waits for them.
    assert!(node.begin_gets(&mut flow, &BucketName::default()).is_none());
    let read = Call::Read(Read::Get(bytes("a")), ReadLevel::Consistent);
    let SubmitResult::Pending(ticket, Ok(reply)) = node.submit(&mut flow, request(read)) else {
        panic!("it waits")
    };
    assert_eq!(ticket, tickets[0]);
    assert!(matches!(&reply.body, Body::Row(Some(row)) if row.value == bytes("3")));
    node.wait_decided(ticket).await.expect("decided");
    let mut versions = Vec::new();
    for key in ["b", "a", ""] {
        versions.push(row(&node, key).await.expect("it is there").version.0);
    }
    assert_eq!(versions[1..], [versions[0] + 1, versions[0] + 2], "each has its own");
    assert_eq!(
        get_run(&node, &mut flow, &["a".into(), "".into()]),
        [Some(bytes("3")), Some(bytes("4"))]
    );
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn run_of_sets_continues_in_the_next_entry_when_one_is_full() {
    let place = Place::new();
    let node = place.start().await;
    let mut flow = warm(&node, &BucketName::default()).await;
    for _ in 0..VALUE_UPDATES_MAX - 2 {
        node.submit(&mut flow, request(Call::Update(set("k", "v"))));
    }
    let tickets = set_run(&node, &mut flow, &[("a", "1"), ("b", "2"), ("c", "3")]);
    assert_eq!(tickets[0], tickets[1]);
    assert_eq!(tickets[2].index, tickets[1].index.next());
    node.wait_decided(tickets[2]).await.expect("decided");
    assert_eq!(get(&node, "c").await, Some(bytes("3")));
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn run_of_sets_ends_before_the_first_without_room() {
    let place = Place::new();
    let node = place.start().await;
    let mut flow = warm(&node, &BucketName::default()).await;
    for _ in 0..UNDECIDED_UPDATES_MAX - 2 {
        node.submit(&mut flow, request(Call::Update(set("k", "v"))));
    }
    let sets = [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")];
    let tickets = set_run(&node, &mut flow, &sets);
    assert_eq!(tickets.len(), 2, "the test's thread is the driver's: nothing is decided meanwhile");
    assert_eq!(set_run(&node, &mut flow, &sets[2..]), []);
    let alone = node.submit(&mut flow, request(Call::Update(set("c", "3"))));
    let SubmitResult::Ready(Err(error)) = alone else { panic!("it is refused") };
    assert_eq!(error.reason, Reason::Overloaded);
    node.wait_decided(tickets[1]).await.expect("decided");
    let values = get_run(&node, &mut flow, &["b".into(), "c".into(), "d".into()]);
    assert_eq!(values, [Some(bytes("2")), None, None]);
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn tickets_of_a_run_fail_when_the_node_fails() {
    let place = Place::new();
    let node = place.start().await;
    let mut flow = warm(&node, &BucketName::default()).await;
    let tickets = set_run(&node, &mut flow, &[("a", "1"), ("b", "2")]);
    group(&node).fail(Error::new(Reason::StoreFailed, "a test"));
    for ticket in tickets {
        assert_eq!(reason(node.wait_decided(ticket).await), Reason::InDoubt);
    }
    assert!(node.begin_sets(&flow, &BucketName::default()).is_none());
}

#[tokio::test]
async fn run_of_gets_is_void_if_the_lease_ends_meanwhile() {
    let place = Place::new();
    let node = place.start().await;
    let mut flow = warm(&node, &BucketName::default()).await;
    let run = node.begin_gets(&mut flow, &BucketName::default()).expect("under the lease");
    let mut visited = 0;
    let index = run.read(&[b"a", b"b", b"c"], &mut |_| {
        visited += 1;
        if visited == 2 {
            group(&node).fail(Error::new(Reason::StoreFailed, "a test"));
        }
        true
    });
    assert_eq!((index, visited), (None, 3));
    assert!(node.begin_gets(&mut flow, &BucketName::default()).is_none());
}

#[tokio::test]
async fn visitor_ends_a_run_of_gets() {
    let place = Place::new();
    let node = place.start().await;
    let mut flow = warm(&node, &BucketName::default()).await;
    let run = node.begin_gets(&mut flow, &BucketName::default()).expect("it is answered here");
    let keys: Vec<&[u8]> = vec![b"k"; 40];
    for last in [1, 16, 17, 40] {
        let mut visited = 0;
        run.read(&keys, &mut |_| {
            visited += 1;
            visited < last
        });
        assert_eq!(visited, last);
    }
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn run_begins_only_for_the_bucket_that_was_used_last() {
    let place = Place::new();
    let node = place.start().await;
    let default = BucketName::default();
    let mut flow = Flow::of(base::Principal::Node);
    assert!(node.begin_gets(&mut flow, &default).is_none(), "it was not looked up yet");
    let short = BucketName::parse("short").expect("a name");
    let changes =
        vec![("key_bytes_max".into(), "4".into()), ("value_bytes_max".into(), "5".into())];
    let make = async |name: &BucketName, changes| {
        let call = Call::Directory(DirectoryCall::CreateBucket(changes));
        let request = Request { bucket: name.clone(), call, retry: None };
        node.handle(&base::Principal::Node, request).await.expect("it is made");
    };
    make(&short, changes).await;
    let mut flow = warm(&node, &short).await;
    assert!(node.begin_gets(&mut flow, &default).is_none());
    let run = node.begin_gets(&mut flow, &short).expect("it was used last");
    assert!(run.accepts(b"1234") && !run.accepts(b"12345"));
    let run = node.begin_sets(&flow, &short).expect("it was used last");
    assert!(run.accepts(b"1234", b"12345"));
    assert!(!run.accepts(b"12345", b"") && !run.accepts(b"", b"123456"));
    let mut flow = warm(&node, &default).await;
    let run = node.begin_gets(&mut flow, &default).expect("it was used last");
    assert!(run.accepts(&[0; KEY_BYTES_MAX]) && !run.accepts(&[0; KEY_BYTES_MAX + 1]));
    // A set in a bucket whose rows expire reads the row before.
    let brief = BucketName::parse("brief").expect("a name");
    make(&brief, vec![("ttl_ms".into(), "60000".into())]).await;
    let mut flow = warm(&node, &brief).await;
    assert!(node.begin_sets(&flow, &brief).is_none());
    assert!(node.begin_gets(&mut flow, &brief).is_some());
    // So does one in a bucket that keeps counts.
    let counted = BucketName::parse("counted").expect("a name");
    make(&counted, vec![("counted".into(), "true".into())]).await;
    let mut flow = warm(&node, &counted).await;
    assert!(node.begin_sets(&flow, &counted).is_none());
    assert!(node.begin_gets(&mut flow, &counted).is_some());
    // And one in a bucket that has an index.
    let indexed = BucketName::parse("indexed").expect("a name");
    make(&indexed, Vec::new()).await;
    let mut flow = warm(&node, &indexed).await;
    assert!(node.begin_sets(&flow, &indexed).is_some());
    let (bucket, group) = node.router.locator.bucket(&indexed).expect("it is there");
    let begun = group.begin_index(&bucket, index_definition(1), group.leadership.epoch());
    group.wait_applied(begun.expect("the first").expect("a value")).await.expect("applied");
    assert!(node.begin_sets(&flow, &indexed).is_none());
    assert!(node.begin_gets(&mut flow, &indexed).is_some());
    node.stop().await.expect("it stops");
    assert!(node.begin_gets(&mut flow, &counted).is_none(), "it has stopped");
}

#[tokio::test]
async fn sealed_bucket_begins_no_run_and_accepts_no_set() {
    let place = Place::new();
    let node = place.start().await;
    let mut flow = warm(&node, &BucketName::default()).await;
    let early = node.begin_gets(&mut flow, &BucketName::default()).expect("not sealed yet");
    let (bucket, group) =
        node.router.locator.bucket(&BucketName::default()).expect("a bucket and its group");
    let ticket = group.seal(bucket.id).expect("this node is master");
    // The seal is not applied, but stands before whatever is evaluated from now on.
    assert_eq!(set_run(&node, &mut flow, &[("a", "1")]), []);
    node.wait_decided(ticket).await.expect("decided");
    assert_eq!(early.read(&[b"a"], &mut |_| true), None);
    assert!(node.begin_gets(&mut flow, &BucketName::default()).is_none());
    node.stop().await.expect("it stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_begins_on_the_master_only() {
    let cluster = TestCluster::new(3, 3).await;
    let master = cluster.master().await;
    for call in [DirectoryCall::CreateType(Vec::new()), DirectoryCall::CreateBucket(Vec::new())] {
        let node = cluster.nodes[master].as_ref().expect("it runs");
        node.handle(&base::Principal::Node, request(Call::Directory(call))).await.expect("made");
    }
    for nth in 0..3 {
        let node = cluster.nodes[nth].as_ref().expect("it runs");
        let mut flow = warm(node, &BucketName::default()).await;
        let is_master = cluster.group(nth).leadership.is_master();
        let begins = node.begin_gets(&mut flow, &BucketName::default()).is_some();
        assert!(is_master || !begins);
        assert!(is_master || node.begin_sets(&flow, &BucketName::default()).is_none());
    }
}

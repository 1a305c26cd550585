//! Upkeep of indexes of consistent buckets on a whole node: how its groups begin, build, check and
//! remove them, what is refused once a bucket has changed, and what a drop leaves.

use super::indexed::{call, create, pause_keeper, spec, state};
use super::many::{Cluster, ask};
use super::sim::index_definition;
use super::test_cluster::wait;
use super::{Place, reason, set};
use base::index::{IndexCall, IndexSpec, IndexState};
use base::request::SequenceMode;
use base::{BucketName, Call, DirectoryCall, GroupId, Reason, Update};
use indexes::IndexNumber;
use replica_state::index_check::check_indexes;
use replica_state::layout::{Space, bucket_key, bucket_prefixes};
use replica_state::replicated_index::IndexPhase;
use replication::bucket::Bucket;
use replication::group::Group;
use std::sync::Arc;
use store::{Chunk, RowChange};

const NUMBER: IndexNumber = IndexNumber(3);

pub(super) fn name() -> BucketName {
    BucketName::parse("b").expect("a name")
}

/// Returns a bucket as a node's directory has it now, and its group.
fn present(node: &crate::Node) -> (Arc<Bucket>, Arc<Group>) {
    node.router.locator.bucket(&name()).expect("it is there")
}

pub(super) async fn directory(node: &crate::Node, call: DirectoryCall) {
    ask(node, &name(), Call::Directory(call)).await.expect("it goes");
}

/// Begins an index over lists, and builds it.
async fn build(node: &crate::Node) {
    let (bucket, group) = present(node);
    let epoch = group.leadership.epoch();
    group.begin_index(&bucket, index_definition(NUMBER.0 + 2), epoch).expect("it is the first");
    wait("the index", || {
        let step = group.step_index(&bucket, IndexNumber(NUMBER.0 + 2), epoch).expect("it goes");
        let records = group.indexes.of(bucket.id);
        let is_ready = records.iter().all(|record| record.phase == IndexPhase::Ready);
        (step.is_last && !records.is_empty() && is_ready).then_some(())
    })
    .await;
}

#[tokio::test]
async fn index_of_a_changed_or_sealed_bucket_is_neither_begun_nor_built_nor_ended() {
    let place = Place::new();
    let node = place.start().await;
    directory(&node, DirectoryCall::CreateBucket(vec![])).await;
    ask(&node, &name(), Call::Update(set("k", "{\"n\":1}"))).await.expect("it goes");
    let (former, group) = present(&node);
    let epoch = group.leadership.epoch();
    group.begin_index(&former, index_definition(NUMBER.0), epoch).expect("it is the first");
    let ttl = vec![("ttl_ms".to_string(), "600000".to_string())];
    directory(&node, DirectoryCall::AlterBucket(ttl)).await;
    let refuses = |bucket: &Bucket| {
        let begun = group.begin_index(bucket, index_definition(NUMBER.0 + 1), epoch);
        assert_eq!(reason(begun), Reason::Moved);
        assert_eq!(reason(group.step_index(bucket, NUMBER, epoch)), Reason::Moved);
        assert_eq!(reason(group.end_index(bucket, NUMBER, epoch)), Reason::Moved);
    };
    refuses(&former);
    let (bucket, _) = present(&node);
    assert!(group.step_index(&bucket, NUMBER, epoch).expect("it goes").is_last);
    assert_eq!(reason(group.step_index(&bucket, NUMBER, epoch + 1)), Reason::Changed);
    group.seal(bucket.id).expect("it leads");
    refuses(&bucket);
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn dropped_bucket_leaves_neither_entries_nor_records_of_its_indexes() {
    let place = Place::new();
    let node = place.start().await;
    directory(&node, DirectoryCall::CreateBucket(vec![])).await;
    ask(&node, &name(), Call::Update(set("k", "{\"l\":[1,2]}"))).await.expect("it goes");
    build(&node).await;
    let (bucket, group) = present(&node);
    let rows = || -> usize {
        let snapshot = node.status.trees.snapshot();
        let prefixes = bucket_prefixes(group.id, bucket.id);
        let rows = prefixes.iter().map(|prefix| {
            Chunk::read(&*snapshot, prefix, None, usize::MAX).expect("readable").rows.len()
        });
        rows.sum()
    };
    assert_eq!(rows(), 3, "a row and its entries");
    directory(&node, DirectoryCall::DropBucket).await;
    wait("the end of its indexes", || {
        node.housekeeper.pacer.maintenance.raise();
        (group.indexes.buckets().is_empty() && rows() == 0).then_some(())
    })
    .await;
    node.stop().await.expect("it stops");
}

/// A part of a copy is one update of the target: with entries it may exceed an entry of the log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_whose_entries_fit_into_no_single_update_move_in_smaller_parts() {
    let cluster = Cluster::new(1).await;
    cluster.create(Some(1), &[]).await;
    cluster.master(2).await;
    let node = cluster.node(0);
    directory(node, DirectoryCall::CreateBucket(Vec::new())).await;
    build(node).await;
    let list: Vec<_> = (0..1_000).map(|number| number.to_string()).collect();
    let value = format!("{{\"l\":[{}]}}", list.join(","));
    for number in 0..4 {
        let key = format!("{number}{}", "k".repeat(20_000));
        ask(node, &name(), Call::Update(set(&key, &value))).await.expect("20 MB of entries");
    }
    directory(node, DirectoryCall::MoveBucket { group: GroupId(2) }).await;
    wait("the end of the move", || {
        let (bucket, _) = present(node);
        (bucket.group == GroupId(2) && bucket.moving.is_none()).then_some(())
    })
    .await;
    let (bucket, group) = present(node);
    let phases: Vec<_> = group.indexes.of(bucket.id).iter().map(|one| one.phase).collect();
    assert_eq!(phases, [IndexPhase::Ready], "it came along");
    let snapshot = node.status.trees.snapshot();
    assert_eq!(check_indexes(&*snapshot, group.id, bucket.id, 3), Ok(Vec::new()));
}

/// Writes rows with these values in one update, under keys in the order of their numbers.
pub(super) async fn fill(node: &crate::Node, count: usize, value: impl Fn(usize) -> String) {
    let steps = (0..count).map(|number| set(&format!("{number:04}"), &value(number))).collect();
    let update = Update::Sequence { steps, mode: SequenceMode::AllOrNothing };
    ask(node, &name(), Call::Update(update)).await.expect("it goes");
}

/// Waits until an index is in this state by the directory at a node.
pub(super) async fn reaches(node: &crate::Node, index: &str, expected: &str) {
    wait("a state of the index", || {
        let found = node.router.locator.catalog.indexes.find(&name());
        let found = found.map(|indexes| indexes.describe()).unwrap_or_default();
        let found = found.into_iter().find(|found| found.spec.name == index);
        let state = found.map_or("gone", |found| found.state.name());
        (state == expected).then_some(())
    })
    .await;
}

/// Returns the number of entries of the bucket's indexes at a node, which must be what the rows
/// say.
fn entries(node: &crate::Node) -> usize {
    let (bucket, group) = present(node);
    let snapshot = node.status.trees.snapshot();
    assert_eq!(check_indexes(&*snapshot, group.id, bucket.id, 3), Ok(Vec::new()));
    let mut prefix = Vec::new();
    bucket_key(group.id, Space::Index, bucket.id, &[], &mut prefix);
    Chunk::read(&*snapshot, &prefix, None, usize::MAX).expect("readable").rows.len()
}

#[tokio::test]
async fn declared_index_is_built_over_earlier_rows_and_goes_with_its_entries() {
    let place = Place::new();
    let node = place.start().await;
    let counted = vec![("counted".to_string(), "true".to_string())];
    directory(&node, DirectoryCall::CreateBucket(counted)).await;
    fill(&node, 700, |number| format!("{{\"count\":{}}}", number % 7)).await;
    create(&node, &name(), spec("by-count")).await.expect("made");
    reaches(&node, "by-count", "ready").await;
    assert_eq!(entries(&node), 700);
    ask(&node, &name(), Call::Update(set("more", "{\"count\":1}"))).await.expect("it goes");
    assert_eq!(entries(&node), 701, "it is maintained");
    let drop = IndexCall::Drop { name: "by-count".into() };
    call(&node, &name(), drop).await.expect("it goes");
    reaches(&node, "by-count", "gone").await;
    let (_, group) = present(&node);
    assert_eq!((entries(&node), group.indexes.all().len()), (0, 0));
    create(&node, &name(), spec("by-count")).await.expect("the name is free");
    reaches(&node, "by-count", "ready").await;
    assert_eq!(entries(&node), 701);
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn unique_index_over_rows_with_one_term_fails_with_its_cause_and_can_be_dropped() {
    let place = Place::new();
    let node = place.start().await;
    directory(&node, DirectoryCall::CreateBucket(vec![])).await;
    fill(&node, 2, |_| "{\"count\":5}".into()).await;
    let unique = IndexSpec { is_unique: true, ..spec("by-count") };
    create(&node, &name(), unique).await.expect("made");
    reaches(&node, "by-count", "failed").await;
    let Ok(IndexState::Failed(cause)) = state(&node, &name(), "by-count").await else {
        panic!("it failed")
    };
    assert_eq!(cause, "the keys `0000` and `0001` have the term `5`");
    let drop = IndexCall::Drop { name: "by-count".into() };
    call(&node, &name(), drop).await.expect("it goes");
    reaches(&node, "by-count", "gone").await;
    assert_eq!(entries(&node), 0);
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn index_of_a_cleared_bucket_begins_anew() {
    let place = Place::new();
    let node = place.start().await;
    directory(&node, DirectoryCall::CreateBucket(vec![])).await;
    fill(&node, 3, |number| format!("{{\"count\":{number}}}")).await;
    create(&node, &name(), spec("by-count")).await.expect("made");
    reaches(&node, "by-count", "ready").await;
    let (former, _) = present(&node);
    directory(&node, DirectoryCall::ClearBucket).await;
    let (bucket, group) = present(&node);
    assert_ne!(former.id, bucket.id);
    wait("the index of the new rows", || {
        let records = group.indexes.of(bucket.id);
        records.iter().any(|one| one.phase == IndexPhase::Ready).then_some(())
    })
    .await;
    reaches(&node, "by-count", "ready").await;
    fill(&node, 2, |number| format!("{{\"count\":{number}}}")).await;
    assert_eq!(entries(&node), 2);
    node.stop().await.expect("it stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn next_master_goes_on_with_an_index_where_the_last_one_stopped() {
    let mut cluster = Cluster::new(3).await;
    let made = Call::Directory(DirectoryCall::CreateBucket(vec![]));
    cluster.surely(name(), made).await.expect("made");
    (0..3).for_each(|nth| pause_keeper(cluster.node(nth)));
    let master = cluster.master(1).await;
    let node = cluster.node(master);
    fill(node, 600, |number| format!("{{\"count\":{number}}}")).await;
    let made = create(node, &name(), spec("by-count")).await.expect("made");
    let number = IndexNumber(made.number);
    let (bucket, group) = present(node);
    let definition = wait("the definition", || {
        let found = node.router.locator.catalog.indexes.find(&name())?;
        found.definitions.get(number).cloned()
    })
    .await;
    let epoch = group.leadership.epoch();
    group.begin_index(&bucket, definition, epoch).expect("it is the first");
    assert!(!group.step_index(&bucket, number, epoch).expect("it goes").is_last);
    wait("the step at every replica", || {
        let has_step = |nth: usize| {
            let records = cluster.group(nth, 1).indexes.of(bucket.id);
            records.iter().any(|record| record.rows == 256)
        };
        (0..3).all(has_step).then_some(())
    })
    .await;
    cluster.stop(master).await;
    for nth in (0..3).filter(|nth| *nth != master) {
        let paused = &cluster.node(nth).router.is_index_keeper_paused;
        paused.store(false, std::sync::atomic::Ordering::Release);
    }
    let next = cluster.master(1).await;
    let node = cluster.node(next);
    reaches(node, "by-count", "ready").await;
    let (bucket, group) = present(node);
    let rows: Vec<_> = group.indexes.of(bucket.id).iter().map(|record| record.rows).collect();
    assert_eq!((rows, entries(node)), (vec![600], 600), "no row was read twice");
}

#[tokio::test]
async fn damaged_entries_of_an_index_are_mended_and_counted() {
    let place = Place::new();
    let node = place.start().await;
    directory(&node, DirectoryCall::CreateBucket(vec![])).await;
    fill(&node, 5, |number| format!("{{\"count\":{number}}}")).await;
    create(&node, &name(), spec("by-count")).await.expect("made");
    reaches(&node, "by-count", "ready").await;
    assert_eq!(entries(&node), 5);
    let (bucket, group) = present(&node);
    let mut prefix = Vec::new();
    bucket_key(group.id, Space::Index, bucket.id, &[], &mut prefix);
    let trees = &node.status.trees;
    let rows = Chunk::read(&*trees.snapshot(), &prefix, None, usize::MAX).expect("readable").rows;
    let (first, row) = &rows[0];
    let surplus = [&first[..], b"x"].concat().into();
    let damage = [RowChange::Remove(first.clone()), RowChange::Put(surplus, row.clone())];
    trees.apply(&mut damage.into_iter()).expect("written");
    wait("the mended entries", || {
        let mended = &node.router.metrics.index_entries_mended;
        (mended.load(std::sync::atomic::Ordering::Relaxed) == 2).then_some(())
    })
    .await;
    wait("their update", || {
        let snapshot = trees.snapshot();
        let differences = check_indexes(&*snapshot, group.id, bucket.id, 3).expect("readable");
        differences.is_empty().then_some(())
    })
    .await;
    assert_eq!(entries(&node), 5);
    node.stop().await.expect("it stops");
}

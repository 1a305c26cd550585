//! Upkeep of indexes of consistent buckets by a group on a whole node: what is refused once a
//! bucket has changed, and what a drop leaves.

use super::many::{Cluster, ask};
use super::sim::index_definition;
use super::test_cluster::wait;
use super::{Place, reason, set};
use base::{BucketName, Call, DirectoryCall, GroupId, Reason};
use indexes::IndexNumber;
use replica_state::index_check::check_indexes;
use replica_state::layout::bucket_prefixes;
use replica_state::replicated_index::IndexPhase;
use replication::bucket::Bucket;
use replication::group::Group;
use std::sync::Arc;
use store::Chunk;

const NUMBER: IndexNumber = IndexNumber(3);

fn name() -> BucketName {
    BucketName::parse("b").expect("a name")
}

/// Returns a bucket as a node's directory has it now, and its group.
fn present(node: &crate::Node) -> (Arc<Bucket>, Arc<Group>) {
    node.router.locator.bucket(&name()).expect("it is there")
}

async fn directory(node: &crate::Node, call: DirectoryCall) {
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

//! Moves of buckets from group to group while they are used.
//!
//! Promises: whatever happens to masters and nodes meanwhile, each client finds what it was told.
//! Never: asserts the time that a move takes.

mod apart;
mod broken;
mod indexed;
mod load;
mod quiet;

use super::many::{Cluster, ask};
use super::test_cluster::wait_or_tell;
use crate::Node;
use base::{BucketName, Call, DirectoryCall, GroupId};
use bucket_moves::MovePoint;
use load::{Load, Nodes};
use std::sync::{Arc, Mutex};

/// Number of rows that make several parts.
const ROWS: usize = 120;

fn name(text: &str) -> BucketName {
    BucketName::parse(text).expect("a name")
}

/// The nodes that run, for clients.
fn running(cluster: &Cluster) -> Nodes {
    Arc::new(Mutex::new(cluster.nodes.iter().flatten().cloned().collect()))
}

/// A bucket in group 1 with some rows, and a group 2.
async fn filled(nodes: usize) -> (Cluster, BucketName) {
    let cluster = Cluster::new(nodes).await;
    cluster.create(Some(nodes as u32), &[]).await;
    cluster.master(2).await;
    let bucket = name("moved");
    let make = Call::Directory(DirectoryCall::CreateBucket(Vec::new()));
    cluster.surely(bucket.clone(), make).await.expect("made");
    fill(&cluster, &bucket).await;
    (cluster, bucket)
}

/// Writes the rows, at each node in turn.
async fn fill(cluster: &Cluster, bucket: &BucketName) {
    for row in 0..ROWS {
        let (by, value) = (row % cluster.nodes.len(), format!("value{row}").repeat(20));
        cluster.put(by, bucket, &format!("row{row:04}"), &value).await;
    }
}

async fn begin(cluster: &Cluster, bucket: &BucketName, group: u32) {
    let call = Call::Directory(DirectoryCall::MoveBucket { group: GroupId(group) });
    cluster.surely(bucket.clone(), call).await.expect("it begins");
}

/// Waits until every node knows that a bucket rests in a group.
async fn rests(cluster: &Cluster, bucket: &BucketName, group: u32) {
    let is_present = |node: &Node| {
        node.router
            .locator
            .catalog
            .find(bucket)
            .is_some_and(|found| found.group == GroupId(group) && found.moving.is_none())
    };
    let look = || cluster.nodes.iter().flatten().all(is_present).then_some(());
    wait_or_tell("the end of the move", look, || stand(cluster, bucket)).await;
}

/// Describes a move: what each node knows, does and leads.
fn stand(cluster: &Cluster, bucket: &BucketName) -> String {
    let each = cluster.nodes.iter().flatten().map(|node| {
        let found = node.router.locator.catalog.find(bucket);
        let driven = found.as_ref().and_then(|found| node.moves.transfers.get(found.id));
        let groups = node.router.locator.groups.all().into_iter().map(|group| {
            let (standing, noted) = (*group.leadership.subscribe().borrow(), group.seals.all());
            let (decided, applied) = (group.state().progress.decided, group.applied.index());
            let failed = group.state().lifecycle.failed().cloned();
            format!(
                "\n  group {}: {standing:?}, decided {decided}, applied {applied}, {noted:?}, \
                 failed {failed:?}",
                group.id
            )
        });
        let groups: String = groups.collect();
        let (ready, busy) = (node.readiness(), node.status.trees.pressure());
        format!(
            "\n{}: {ready:?}, {found:?}, {driven:?}, {busy:?}{groups}",
            node.cluster.settings.name
        )
    });
    each.collect()
}

/// Every row that was there from the start is there.
async fn all_rows(cluster: &Cluster, bucket: &BucketName) {
    for row in (0..ROWS).step_by(7) {
        let found = cluster.get(0, bucket, &format!("row{row:04}")).await;
        assert_eq!(found, Some(format!("value{row}").repeat(20).into()), "row {row}");
    }
}

/// Moves wait here, on every node.
fn close_gate(cluster: &Cluster, at: MovePoint) {
    for node in cluster.nodes.iter().flatten() {
        *node.moves.transfers.gate.lock().expect("plain data") = (Some(at), 0);
    }
}

fn open_gate(cluster: &Cluster) {
    for node in cluster.nodes.iter().flatten() {
        node.moves.transfers.gate.lock().expect("plain data").0 = None;
    }
}

/// Waits until a move waits at the gate.
async fn at_gate(cluster: &Cluster, bucket: &BucketName) {
    let waits = |node: &Node| node.moves.transfers.gate.lock().expect("plain data").1 > 0;
    let look = || cluster.nodes.iter().flatten().any(waits).then_some(());
    wait_or_tell("a move at the gate", look, || stand(cluster, bucket)).await;
}

const STEPS: [MovePoint; 5] = [
    MovePoint::Begun,
    MovePoint::Copied,
    MovePoint::Sealed,
    MovePoint::CopiedAgain,
    MovePoint::Closed,
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bucket_moves_there_and_back_under_load_without_loss() {
    let (cluster, bucket) = filled(1).await;
    let load = Load::begin(&running(&cluster), &bucket, 2);
    for round in 0..4 {
        let to = [2, 1][round % 2];
        begin(&cluster, &bucket, to).await;
        rests(&cluster, &bucket, to).await;
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert!(load.end().await > 50, "they were answered all the time");
    all_rows(&cluster, &bucket).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bucket_move_on_three_nodes_under_load_is_known_to_all() {
    let (cluster, bucket) = filled(3).await;
    let load = Load::begin(&running(&cluster), &bucket, 2);
    for to in [2, 1] {
        begin(&cluster, &bucket, to).await;
        rests(&cluster, &bucket, to).await;
    }
    assert!(load.end().await > 20);
    all_rows(&cluster, &bucket).await;
    for nth in 0..3 {
        let node = cluster.node(nth);
        let movement = node.move_status(&bucket).await.expect("it is known");
        assert_eq!((movement.group, movement.to), (GroupId(1), None));
        let count = Call::Read(base::Read::KeyCount, base::ReadLevel::Dirty);
        ask(node, &bucket, count).await.expect("a long read of what is here");
    }
}

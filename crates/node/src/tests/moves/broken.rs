//! Moves that break off at each step: masters go, nodes restart, and the bucket arrives all the
//! same, with everything.

use super::{Load, Nodes, STEPS, at_gate, begin, close_gate, filled, open_gate, rests, running};
use crate::tests::many::{Cluster, leads};
use crate::tests::test_cluster::wait;
use base::{BucketName, GroupId};

/// Another node becomes master of a group.
async fn hand_over(cluster: &Cluster, group: u32) {
    let from = cluster.master(group).await;
    let to = (from + 1) % cluster.nodes.len();
    let successor = format!("n{to}");
    // It may be about to get there: then it is asked again.
    wait("another master", || {
        let _ = cluster.node(from).hand_over(GroupId(group), &successor);
        (!leads(&cluster.group(from, group))).then_some(())
    })
    .await;
    wait("the heir", || leads(&cluster.group(to, group)).then_some(())).await;
}

/// Moves the bucket to the other group, with this happening at each step.
async fn at_each_step(
    cluster: &mut Cluster,
    bucket: &BucketName,
    mut happens: impl AsyncFnMut(&mut Cluster, u32, u32),
) {
    for (round, step) in STEPS.into_iter().enumerate() {
        let (from, to) = if round % 2 == 0 { (1, 2) } else { (2, 1) };
        close_gate(cluster, step);
        begin(cluster, bucket, to).await;
        at_gate(cluster, bucket).await;
        happens(cluster, from, to).await;
        open_gate(cluster);
        rests(cluster, bucket, to).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bucket_move_survives_source_master_change_at_each_step() {
    let (mut cluster, bucket) = filled(3).await;
    let load = Load::begin(&running(&cluster), &bucket, 1);
    at_each_step(&mut cluster, &bucket, async |cluster, from, _| hand_over(cluster, from).await)
        .await;
    load.end().await;
    super::all_rows(&cluster, &bucket).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bucket_move_survives_target_master_change_at_each_step() {
    let (mut cluster, bucket) = filled(3).await;
    let load = Load::begin(&running(&cluster), &bucket, 1);
    at_each_step(&mut cluster, &bucket, async |cluster, _, to| hand_over(cluster, to).await).await;
    load.end().await;
    super::all_rows(&cluster, &bucket).await;
}

/// The node is out of the clients' reach while it restarts.
async fn restart(cluster: &mut Cluster, nodes: &Nodes, nth: usize) {
    nodes.lock().expect("plain data").clear();
    cluster.stop(nth).await;
    cluster.start(nth).await;
    let running = cluster.nodes.iter().flatten().cloned().collect();
    *nodes.lock().expect("plain data") = running;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bucket_move_survives_source_master_restart_at_each_step() {
    let (mut cluster, bucket) = filled(3).await;
    let nodes = running(&cluster);
    let load = Load::begin(&nodes, &bucket, 1);
    let clients = nodes.clone();
    at_each_step(&mut cluster, &bucket, async |cluster, from, _| {
        let master = cluster.master(from).await;
        restart(cluster, &clients, master).await;
    })
    .await;
    load.end().await;
    super::all_rows(&cluster, &bucket).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bucket_move_on_single_node_survives_restart_at_each_step() {
    let (mut cluster, bucket) = filled(1).await;
    let nodes = running(&cluster);
    let load = Load::begin(&nodes, &bucket, 2);
    let clients = nodes.clone();
    at_each_step(&mut cluster, &bucket, async |cluster, _, _| {
        restart(cluster, &clients, 0).await;
    })
    .await;
    load.end().await;
    super::all_rows(&cluster, &bucket).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bucket_move_survives_mover_panic_at_each_step() {
    let (cluster, bucket) = filled(1).await;
    for (round, step) in STEPS.into_iter().enumerate() {
        let to = [2, 1][round % 2];
        let panic_point = &cluster.node(0).moves.transfers.panic_point;
        *panic_point.lock().expect("plain data") = Some(step);
        begin(&cluster, &bucket, to).await;
        rests(&cluster, &bucket, to).await;
        assert_eq!(*panic_point.lock().expect("plain data"), None, "it broke off there");
    }
    super::all_rows(&cluster, &bucket).await;
}

//! The number of partitions doubles and halves while the ring is used: with nodes away, and cut
//! short.

use super::load::{Load, copies_to_receive, is_ring_settled, received_rows, stored_rows};
use super::moving::{cancel_change, commit_changes, even_cluster, join, ring, wait_connected};
use crate::tests::many::Cluster;
use crate::tests::test_cluster::wait;
use base::{Reason, RingCall, RingChange};

/// Returns true if every node knows a ring of so many partitions on which nothing moves.
fn rests_with(cluster: &Cluster, partitions: u32) -> bool {
    let known = |node: &crate::Node| {
        node.router
            .locator
            .catalog
            .available
            .ring()
            .is_some_and(|ring| ring.partitions() == partitions)
    };
    cluster.nodes.iter().flatten().all(known) && is_ring_settled(cluster)
}

/// Number of rows that each node keeps.
fn all_held(cluster: &Cluster) -> Vec<usize> {
    cluster.nodes.iter().flatten().map(|node| stored_rows(node).0).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_double_without_moving_rows_and_halve_under_load() {
    let mut cluster = even_cluster(4).await;
    let mut load = Load::fill(&cluster, 300).await;
    load.check_placement(&cluster).await;
    let before = cluster.node(0).router.locator.catalog.available.ring().expect("a ring");
    let retained = all_held(&cluster);
    commit_changes(&cluster, vec![RingChange::Double]).await;
    wait("twice as many", || rests_with(&cluster, 128).then_some(())).await;
    assert_eq!(all_held(&cluster), retained, "no row has moved");
    load.use_until(&cluster, || rests_with(&cluster, 128)).await;
    load.check(&cluster).await;
    load.check_placement(&cluster).await;

    // Halved at once, everybody has what it had: there is nothing to move either.
    commit_changes(&cluster, vec![RingChange::Halve]).await;
    load.use_until(&cluster, || rests_with(&cluster, 64)).await;
    load.check(&cluster).await;
    let after = cluster.node(0).router.locator.catalog.available.ring().expect("a ring");
    assert_eq!(after.layout(), before.layout());

    // On a finer ring a fifth node's share fits no coarser one: halving brings it together first.
    let fifth = cluster.join().await;
    commit_changes(&cluster, vec![RingChange::Double]).await;
    commit_changes(&cluster, vec![join(fifth)]).await;
    load.use_until(&cluster, || rests_with(&cluster, 128)).await;
    load.check_placement(&cluster).await;
    commit_changes(&cluster, vec![RingChange::Halve]).await;
    load.use_until(&cluster, || rests_with(&cluster, 64)).await;
    load.check(&cluster).await;
    load.check_placement(&cluster).await;
    let rows: u64 = cluster.nodes.iter().flatten().map(|node| received_rows(node).0).sum();
    assert!(rows > 0, "copies had to move");
    let ring = cluster.node(0).router.locator.catalog.available.ring().expect("a ring");
    let loads: Vec<_> = ring.layout().loads().into_values().collect();
    assert!(loads.iter().all(|load| [12, 13].contains(load)), "{loads:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owner_down_during_partition_doubling_receives_its_hints() {
    let mut cluster = even_cluster(4).await;
    let mut load = Load::fill(&cluster, 200).await;
    load.read_contexts(&cluster).await;
    cluster.stop(2).await;
    load.write_until(&cluster, || true).await;
    commit_changes(&cluster, vec![RingChange::Double]).await;
    load.read_contexts(&cluster).await;
    load.write_until(&cluster, || rests_with(&cluster, 128)).await;
    // A node that keeps hints may restart with them.
    cluster.stop(1).await;
    cluster.start(1).await;
    cluster.start(2).await;
    wait_connected(&cluster).await;
    load.use_until(&cluster, || rests_with(&cluster, 128)).await;
    load.check(&cluster).await;
    load.check_placement(&cluster).await;
}

/// Five nodes on a ring of 128 that fits none of 64, which receive slowly; halving has begun: some
/// partitions have gone over, and some have not.
async fn halfway() -> (Cluster, Load) {
    let mut cluster = even_cluster(4).await;
    let fifth = cluster.join().await;
    commit_changes(&cluster, vec![RingChange::Double]).await;
    commit_changes(&cluster, vec![join(fifth)]).await;
    wait("the fifth node", || rests_with(&cluster, 128).then_some(())).await;
    cluster.handoff_bytes_per_second = 6_000;
    for nth in 0..5 {
        cluster.stop(nth).await;
        cluster.start(nth).await;
        wait_connected(&cluster).await;
    }
    let load = Load::fill(&cluster, 300).await;
    commit_changes(&cluster, vec![RingChange::Halve]).await;
    let all =
        wait("the change", || Some(copies_to_receive(&cluster)).filter(|count| *count > 0)).await;
    wait("partitions that have gone over", || {
        (copies_to_receive(&cluster) + 4 < all).then_some(())
    })
    .await;
    assert!(
        copies_to_receive(&cluster) > 0 && !is_ring_settled(&cluster),
        "the others are still to go"
    );
    (cluster, load)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partition_halving_resumes_after_nodes_restart_midway() {
    let (mut cluster, mut load) = halfway().await;
    load.read_contexts(&cluster).await;
    cluster.handoff_bytes_per_second = 0;
    for nth in [0, 3] {
        cluster.stop(nth).await;
        load.write_until(&cluster, || true).await;
        load.read_contexts(&cluster).await;
        cluster.start(nth).await;
        wait_connected(&cluster).await;
    }
    load.use_until(&cluster, || rests_with(&cluster, 64)).await;
    load.check(&cluster).await;
    load.check_placement(&cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partition_halving_can_be_cancelled_and_restarted_under_load() {
    let (cluster, mut load) = halfway().await;
    let finer = cluster.node(0).router.locator.catalog.available.ring().expect("a ring");
    for again in [true, true, false] {
        // Clients go on while it is called off, and while rows go back.
        let off = cancel_change(&cluster);
        tokio::join!(off, load.use_until(&cluster, || rests_with(&cluster, 128)));
        load.check(&cluster).await;
        load.check_placement(&cluster).await;
        let after = cluster.node(0).router.locator.catalog.available.ring().expect("a ring");
        assert_eq!(after.layout(), finer.layout());
        commit_changes(&cluster, vec![RingChange::Halve]).await;
        if again {
            let started =
                wait("the change", || Some(copies_to_receive(&cluster)).filter(|it| *it > 0)).await;
            load.use_until(&cluster, || copies_to_receive(&cluster) + 4 < started).await;
        }
    }
    load.use_until(&cluster, || rests_with(&cluster, 64)).await;
    load.check(&cluster).await;
    load.check_placement(&cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partition_doubling_is_immediate_and_halving_reverts_the_layout() {
    let cluster = even_cluster(4).await;
    let mut load = Load::fill(&cluster, 200).await;
    let before = cluster.node(0).router.locator.catalog.available.ring().expect("a ring");
    for _ in 0..3 {
        commit_changes(&cluster, vec![RingChange::Double]).await;
        let off = ring(&cluster, RingCall::Cancel).await;
        assert_eq!(off.expect_err("nothing is under way").reason, Reason::Changed);
        load.use_until(&cluster, || rests_with(&cluster, 128)).await;
        commit_changes(&cluster, vec![RingChange::Halve]).await;
        load.use_until(&cluster, || rests_with(&cluster, 64)).await;
    }
    load.check(&cluster).await;
    load.check_placement(&cluster).await;
    let after = cluster.node(0).router.locator.catalog.available.ring().expect("a ring");
    assert_eq!(after.layout(), before.layout());
}

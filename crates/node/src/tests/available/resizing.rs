//! The number of partitions doubles and halves while the ring is used: with nodes away, and cut
//! short.

use super::load::{Load, held, moved, rests, to_come};
use super::moving::{begin, call_off, evenly, join, linked, ring};
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
    cluster.nodes.iter().flatten().all(known) && rests(cluster)
}

/// Number of rows that each node keeps.
fn all_held(cluster: &Cluster) -> Vec<usize> {
    cluster.nodes.iter().flatten().map(|node| held(node).0).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_double_and_halve_under_load_and_only_halving_moves_rows() {
    let mut cluster = evenly(4).await;
    let mut load = Load::fill(&cluster, 300).await;
    load.everyone_keeps_what_the_ring_says(&cluster).await;
    let before = cluster.node(0).router.locator.catalog.available.ring().expect("a ring");
    let kept = all_held(&cluster);
    begin(&cluster, vec![RingChange::Double]).await;
    wait("twice as many", || rests_with(&cluster, 128).then_some(())).await;
    assert_eq!(all_held(&cluster), kept, "no row has moved");
    load.use_until(&cluster, || rests_with(&cluster, 128)).await;
    load.check(&cluster).await;
    load.everyone_keeps_what_the_ring_says(&cluster).await;

    // Halved at once, everybody has what it had: there is nothing to move either.
    begin(&cluster, vec![RingChange::Halve]).await;
    load.use_until(&cluster, || rests_with(&cluster, 64)).await;
    load.check(&cluster).await;
    let after = cluster.node(0).router.locator.catalog.available.ring().expect("a ring");
    assert_eq!(after.layout(), before.layout());

    // On a finer ring a fifth node's share fits no coarser one: halving brings it together first.
    let fifth = cluster.join().await;
    begin(&cluster, vec![RingChange::Double]).await;
    begin(&cluster, vec![join(fifth)]).await;
    load.use_until(&cluster, || rests_with(&cluster, 128)).await;
    load.everyone_keeps_what_the_ring_says(&cluster).await;
    begin(&cluster, vec![RingChange::Halve]).await;
    load.use_until(&cluster, || rests_with(&cluster, 64)).await;
    load.check(&cluster).await;
    load.everyone_keeps_what_the_ring_says(&cluster).await;
    let rows: u64 = cluster.nodes.iter().flatten().map(|node| moved(node).0).sum();
    assert!(rows > 0, "copies had to move");
    let ring = cluster.node(0).router.locator.catalog.available.ring().expect("a ring");
    let loads: Vec<_> = ring.layout().loads().into_values().collect();
    assert!(loads.iter().all(|load| [12, 13].contains(load)), "{loads:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_was_away_when_partitions_doubled_gets_what_was_kept_for_it() {
    let mut cluster = evenly(4).await;
    let mut load = Load::fill(&cluster, 200).await;
    load.look(&cluster).await;
    cluster.stop(2).await;
    load.write_until(&cluster, || true).await;
    begin(&cluster, vec![RingChange::Double]).await;
    load.look(&cluster).await;
    load.write_until(&cluster, || rests_with(&cluster, 128)).await;
    // A node that keeps hints may restart with them.
    cluster.stop(1).await;
    cluster.start(1).await;
    cluster.start(2).await;
    linked(&cluster).await;
    load.use_until(&cluster, || rests_with(&cluster, 128)).await;
    load.check(&cluster).await;
    load.everyone_keeps_what_the_ring_says(&cluster).await;
}

/// Five nodes on a ring of 128 that fits none of 64, which receive slowly; halving has begun: some
/// partitions have gone over, and some have not.
async fn halfway() -> (Cluster, Load) {
    let mut cluster = evenly(4).await;
    let fifth = cluster.join().await;
    begin(&cluster, vec![RingChange::Double]).await;
    begin(&cluster, vec![join(fifth)]).await;
    wait("the fifth node", || rests_with(&cluster, 128).then_some(())).await;
    cluster.handoff_bytes_per_second = 6_000;
    for which in 0..5 {
        cluster.stop(which).await;
        cluster.start(which).await;
        linked(&cluster).await;
    }
    let load = Load::fill(&cluster, 300).await;
    begin(&cluster, vec![RingChange::Halve]).await;
    let all = wait("the change", || Some(to_come(&cluster)).filter(|count| *count > 0)).await;
    wait("partitions that have gone over", || (to_come(&cluster) + 4 < all).then_some(())).await;
    assert!(to_come(&cluster) > 0 && !rests(&cluster), "the others are still to go");
    (cluster, load)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn halving_goes_on_after_nodes_have_stopped_in_the_middle() {
    let (mut cluster, mut load) = halfway().await;
    load.look(&cluster).await;
    cluster.handoff_bytes_per_second = 0;
    for which in [0, 3] {
        cluster.stop(which).await;
        load.write_until(&cluster, || true).await;
        load.look(&cluster).await;
        cluster.start(which).await;
        linked(&cluster).await;
    }
    load.use_until(&cluster, || rests_with(&cluster, 64)).await;
    load.check(&cluster).await;
    load.everyone_keeps_what_the_ring_says(&cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn halving_is_called_off_under_load_and_begun_anew() {
    let (cluster, mut load) = halfway().await;
    let finer = cluster.node(0).router.locator.catalog.available.ring().expect("a ring");
    for again in [true, true, false] {
        // Clients go on while it is called off, and while rows go back.
        let off = call_off(&cluster);
        tokio::join!(off, load.use_until(&cluster, || rests_with(&cluster, 128)));
        load.check(&cluster).await;
        load.everyone_keeps_what_the_ring_says(&cluster).await;
        let after = cluster.node(0).router.locator.catalog.available.ring().expect("a ring");
        assert_eq!(after.layout(), finer.layout());
        begin(&cluster, vec![RingChange::Halve]).await;
        if again {
            let begun = wait("the change", || Some(to_come(&cluster)).filter(|it| *it > 0)).await;
            load.use_until(&cluster, || to_come(&cluster) + 4 < begun).await;
        }
    }
    load.use_until(&cluster, || rests_with(&cluster, 64)).await;
    load.check(&cluster).await;
    load.everyone_keeps_what_the_ring_says(&cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doubling_is_done_at_once_and_taken_back_by_halving() {
    let cluster = evenly(4).await;
    let mut load = Load::fill(&cluster, 200).await;
    let before = cluster.node(0).router.locator.catalog.available.ring().expect("a ring");
    for _ in 0..3 {
        begin(&cluster, vec![RingChange::Double]).await;
        let off = ring(&cluster, RingCall::Cancel).await;
        assert_eq!(off.expect_err("nothing is under way").reason, Reason::Changed);
        load.use_until(&cluster, || rests_with(&cluster, 128)).await;
        begin(&cluster, vec![RingChange::Halve]).await;
        load.use_until(&cluster, || rests_with(&cluster, 64)).await;
    }
    load.check(&cluster).await;
    load.everyone_keeps_what_the_ring_says(&cluster).await;
    let after = cluster.node(0).router.locator.catalog.available.ring().expect("a ring");
    assert_eq!(after.layout(), before.layout());
}

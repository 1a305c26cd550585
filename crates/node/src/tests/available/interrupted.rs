//! Interrupted ring changes: a node that stops in one continues when it starts again, and the
//! change may be cancelled.

use super::load::{Load, copies_to_receive, is_ring_settled, received_rows, stored_rows};
use super::moving::{
    cancel_change, claim_ring, commit_changes, even_cluster, join, ring, transfers, wait_connected,
};
use crate::tests::many::Cluster;
use crate::tests::test_cluster::wait;
use base::{BucketName, Call, ClusterCall, DirectoryCall, Reason, RingCall, RingChange};

/// Returns a cluster in which a node joins slowly: some partitions are handed over, others not.
async fn partly_joined(cluster: &mut Cluster) -> (Load, usize) {
    let load = Load::fill(cluster, 300).await;
    cluster.handoff_bytes_per_second = 8_000;
    let fifth = cluster.join().await;
    commit_changes(cluster, vec![join(fifth)]).await;
    let all =
        wait("the change", || Some(copies_to_receive(cluster)).filter(|count| *count > 0)).await;
    wait("partitions that have gone over", || (copies_to_receive(cluster) + 8 < all).then_some(()))
        .await;
    assert!(
        copies_to_receive(cluster) > 0 && !is_ring_settled(cluster),
        "the others are still to go"
    );
    (load, fifth)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarted_handoff_receiver_resumes_from_received_rows() {
    let mut cluster = even_cluster(4).await;
    let (mut load, fifth) = partly_joined(&mut cluster).await;
    load.read_contexts(&cluster).await;
    let had = stored_rows(cluster.node(fifth));
    cluster.stop(fifth).await;
    // Partitions that were handed over miss one owner, others none: all requests succeed.
    load.write_until(&cluster, || true).await;
    cluster.handoff_bytes_per_second = 0;
    cluster.start(fifth).await;
    wait_connected(&cluster).await;
    load.use_until(&cluster, || is_ring_settled(&cluster)).await;
    load.check(&cluster).await;
    load.check_placement(&cluster).await;
    let (rows, _) = received_rows(cluster.node(fifth));
    let needed = stored_rows(cluster.node(fifth)).0;
    assert!(had.0 > 0 && (rows as usize) < needed, "{rows} of {needed}, {} were there", had.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_handoff_sender_is_not_awaited_and_clears_on_return() {
    let mut cluster = even_cluster(4).await;
    let (mut load, _) = partly_joined(&mut cluster).await;
    load.read_contexts(&cluster).await;
    cluster.stop(2).await;
    load.write_until(&cluster, || {
        let ring = cluster.node(0).router.locator.catalog.available.ring();
        ring.is_some_and(|ring| ring.pending().is_none())
    })
    .await;
    assert!(!is_ring_settled(&cluster), "who is away has leftovers");
    cluster.start(2).await;
    wait_connected(&cluster).await;
    load.use_until(&cluster, || is_ring_settled(&cluster)).await;
    load.check(&cluster).await;
    load.check_placement(&cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ring_change_cancelled_midway_restores_previous_layout() {
    let mut cluster = even_cluster(4).await;
    let before = cluster.node(0).router.locator.catalog.available.ring().expect("a ring");
    let (mut load, fifth) = partly_joined(&mut cluster).await;
    let told = transfers(&cluster).await;
    let one = told.nodes.iter().find(|it| it.node == cluster.node(fifth).cluster.links.node);
    let one = one.expect("it is told of");
    assert!(told.left > 0 && one.receiving > 0 && one.bytes > 0, "{told:?}");
    assert!(
        one.bytes_left.is_some_and(|remaining| remaining > 0) && one.eta_ms.is_some(),
        "{one:?}"
    );
    cancel_change(&cluster).await;
    load.use_until(&cluster, || is_ring_settled(&cluster)).await;
    load.check(&cluster).await;
    load.check_placement(&cluster).await;
    assert_eq!(stored_rows(cluster.node(fifth)), (0, 0), "who did not join keeps nothing");
    let after = cluster.node(0).router.locator.catalog.available.ring().expect("a ring");
    assert_eq!(after.layout(), before.layout());
    // The change may be started again, cancelled and started once more: state of one attempt is not
    // mistaken for another's.
    commit_changes(&cluster, vec![join(fifth)]).await;
    let all =
        wait("the change", || Some(copies_to_receive(&cluster)).filter(|count| *count > 0)).await;
    load.use_until(&cluster, || copies_to_receive(&cluster) + 4 < all).await;
    tokio::join!(cancel_change(&cluster), load.use_until(&cluster, || is_ring_settled(&cluster)));
    assert_eq!(stored_rows(cluster.node(fifth)), (0, 0), "who did not join keeps nothing");
    commit_changes(&cluster, vec![join(fifth)]).await;
    load.use_until(&cluster, || is_ring_settled(&cluster)).await;
    load.check(&cluster).await;
    load.check_placement(&cluster).await;
}

/// Returns a cluster in which a dead node leaves and five receive slowly; some partitions are
/// handed over.
async fn with_dead_node_leaving() -> (Cluster, Load) {
    let mut cluster = Cluster::new(1).await;
    cluster.handoff_bytes_per_second = 1_500;
    for _ in 1..5 {
        cluster.join().await;
    }
    claim_ring(&cluster).await;
    let mut load = Load::fill(&cluster, 300).await;
    load.read_contexts(&cluster).await;
    cluster.stop(4).await;
    load.write_until(&cluster, || true).await;
    commit_changes(&cluster, vec![RingChange::Leave { node: "n4".into() }]).await;
    let all =
        wait("the change", || Some(copies_to_receive(&cluster)).filter(|count| *count > 0)).await;
    wait("partitions that have gone over", || {
        (copies_to_receive(&cluster) + 4 < all).then_some(())
    })
    .await;
    (cluster, load)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ring_cancel_is_refused_while_a_node_regaining_rows_is_down() {
    let (mut cluster, mut load) = with_dead_node_leaving().await;
    let before = cluster.node(0).router.locator.catalog.available.ring().expect("a ring");
    let refused = ring(&cluster, RingCall::Cancel).await.expect_err("the dead receive nothing");
    let text = refused.text();
    let helps = text.contains("`n4`") && text.contains("start it") && text.contains("let the");
    assert!(refused.reason == Reason::Changed && helps, "{text}");
    // The change continues despite the refusal; once the dead node is back, it is cancelled.
    assert!(copies_to_receive(&cluster) > 0);
    cluster.handoff_bytes_per_second = 0;
    cluster.start(4).await;
    wait_connected(&cluster).await;
    cancel_change(&cluster).await;
    load.use_until(&cluster, || is_ring_settled(&cluster)).await;
    load.check(&cluster).await;
    load.check_placement(&cluster).await;
    let after = cluster.node(0).router.locator.catalog.available.ring().expect("a ring");
    assert_eq!(after.layout(), before.layout());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removed_handoff_receiver_does_not_block_ring_change() {
    let (mut cluster, mut load) = with_dead_node_leaving().await;
    let second = cluster.node(3).cluster.links.node;
    // Two of five are dead now, in the middle of a change that needs the one and can't be cancelled
    // without the other.
    cluster.stop(3).await;
    load.write_until(&cluster, || true).await;
    for name in ["n3", "n4"] {
        let removed = Call::Directory(DirectoryCall::Cluster(ClusterCall::RemoveMember {
            name: name.into(),
        }));
        cluster.surely(BucketName::default(), removed).await.expect("it can't be reached");
    }
    load.write_until(&cluster, || {
        let ring = cluster.node(0).router.locator.catalog.available.ring();
        ring.is_some_and(|ring| ring.pending().is_none())
    })
    .await;
    // The partitions of the second are given to others, by a change like any other.
    let dead = format!("{:016x}", second.0);
    commit_changes(&cluster, vec![RingChange::Leave { node: dead }]).await;
    load.write_until(&cluster, || is_ring_settled(&cluster)).await;
    load.check(&cluster).await;
    load.check_placement(&cluster).await;
}

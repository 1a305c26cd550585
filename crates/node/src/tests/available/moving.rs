//! Ring changes under load: while the ring is written to, read and listed no answer fails or is
//! incomplete, nothing is lost, nothing comes back, and every node keeps exactly its partitions.

use super::healing::hints;
use super::load::{Load, is_ring_settled, received_rows, stored_rows};
use crate::tests::bytes;
use crate::tests::many::{Cluster, ask};
use crate::tests::test_cluster::wait;
use base::{
    Body, BucketName, Call, DirectoryCall, NodeId, Reason, Result, RingCall, RingChange, RingPlan,
    RingTransfers,
};
use std::collections::BTreeSet;

pub(super) fn join(which: usize) -> RingChange {
    RingChange::Join { node: format!("n{which}"), rack: String::new() }
}

pub(super) async fn ring(cluster: &Cluster, call: RingCall) -> Result<Body> {
    let call = Call::Directory(DirectoryCall::Ring(call));
    cluster.surely(BucketName::default(), call).await.map(|reply| reply.body)
}

/// Cancels a change while all nodes run. A node that was delayed for long may be unreachable for a
/// moment, and then the call is refused.
pub(super) async fn cancel_change(cluster: &Cluster) {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while let Err(error) = ring(cluster, RingCall::Cancel).await {
        let passes = error.text().contains("start it") && std::time::Instant::now() < until;
        assert!(passes, "not called off: {}", error.text());
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

/// Stages one change. Returns the plan.
pub(super) async fn stage(cluster: &Cluster, change: RingChange) -> RingPlan {
    match ring(cluster, RingCall::Stage(change)).await.expect("it is safe") {
        Body::RingPlan(plan) => *plan,
        other => panic!("a plan, not {other:?}"),
    }
}

/// Stages these changes and commits them.
pub(super) async fn commit_changes(cluster: &Cluster, changes: Vec<RingChange>) {
    let mut epoch = None;
    for change in changes {
        epoch = Some(stage(cluster, change).await.epoch);
    }
    ring(cluster, RingCall::Commit { epoch }).await.expect("it begins");
}

pub(super) async fn transfers(cluster: &Cluster) -> RingTransfers {
    match ring(cluster, RingCall::Transfers).await.expect("they are told") {
        Body::RingTransfers(transfers) => transfers,
        other => panic!("transfers, not {other:?}"),
    }
}

/// Returns so many nodes with an even ring.
pub(super) async fn even_cluster(nodes: usize) -> Cluster {
    let cluster = Cluster::new(nodes).await;
    claim_ring(&cluster).await;
    cluster
}

/// Claims an empty ring: each node becomes owner of an even share.
pub(super) async fn claim_ring(cluster: &Cluster) {
    ring(cluster, RingCall::Claim).await.expect("nothing is held");
    wait_ring_at(cluster, &ids(cluster)).await;
}

fn ids(cluster: &Cluster) -> BTreeSet<NodeId> {
    cluster.nodes.iter().flatten().map(|node| node.cluster.links.node).collect()
}

/// Waits until all nodes reach each other, and all hints are handed back.
pub(super) async fn wait_connected(cluster: &Cluster) {
    let linked = || {
        let all = ids(cluster);
        let mut nodes = cluster.nodes.iter().flatten();
        nodes.all(|node| all.iter().all(|other| node.router.available.reaches(*other)))
    };
    wait("the links", || linked().then_some(())).await;
    let retained = || cluster.nodes.iter().flatten().map(hints).sum::<usize>();
    wait("all hints at home", || (retained() == 0).then_some(())).await;
}

/// Waits until the ring is on these nodes according to all, and they reach each other.
pub(super) async fn wait_ring_at(cluster: &Cluster, nodes: &BTreeSet<NodeId>) {
    let ready = || {
        cluster.nodes.iter().flatten().all(|node| {
            let ring = node.router.locator.catalog.available.ring();
            let knows = ring.is_some_and(|ring| ring.layout().nodes().keys().eq(nodes));
            knows && ids(cluster).iter().all(|other| node.router.available.reaches(*other))
        })
    };
    wait("the ring and the links", || ready().then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifth_node_joins_ring_under_load_and_gets_its_share() {
    let mut cluster = even_cluster(4).await;
    let mut load = Load::fill(&cluster, 600).await;
    let fifth = cluster.join().await;
    let plan = stage(&cluster, join(fifth)).await;
    assert_eq!((plan.moves.len(), &plan.refused), (12, &None));
    let news = plan.loads.iter().find(|load| load.before.is_none()).expect("one comes");
    assert!(news.copies_after >= 34 && plan.copies_sent >= 34, "{plan:?}");
    let whole = 600 * 3 * 64 / plan.copies;
    assert!(plan.bytes / plan.copies_sent > whole / 2, "a copy's bytes are known: {}", plan.bytes);
    let commit = RingCall::Commit { epoch: Some(plan.epoch) };
    ring(&cluster, commit).await.expect("it begins");
    load.use_until(&cluster, || is_ring_settled(&cluster)).await;
    load.check(&cluster).await;
    let (rows, bytes) = received_rows(cluster.node(fifth));
    let needed = stored_rows(cluster.node(fifth));
    println!(
        "moved {rows} rows, {bytes} bytes; {} rows, {} bytes had to; {} answers meanwhile",
        needed.0, needed.1, load.answers
    );
    assert!(bytes > 0 && bytes <= needed.1 * 3 / 2, "{bytes} of {}", needed.1);
    let ring = cluster.node(0).router.locator.catalog.available.ring().expect("a ring");
    let loads: BTreeSet<_> = ring.layout().loads().into_values().collect();
    assert_eq!(loads, [12, 13].into());
    load.check_placement(&cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ring_leave_rejoin_and_replace_under_load_lose_no_row() {
    let mut cluster = even_cluster(4).await;
    let mut load = Load::fill(&cluster, 200).await;
    commit_changes(&cluster, vec![RingChange::Leave { node: "n1".into() }]).await;
    load.use_until(&cluster, || is_ring_settled(&cluster)).await;
    load.check(&cluster).await;
    load.check_placement(&cluster).await;
    assert_eq!(stored_rows(cluster.node(1)), (0, 0), "who has left keeps nothing");

    // It comes back: its vnodes are other actors, and no row that comes home is taken for lost.
    commit_changes(&cluster, vec![join(1)]).await;
    load.use_until(&cluster, || is_ring_settled(&cluster)).await;
    load.check(&cluster).await;

    let new = cluster.join().await;
    let (node, by) = ("n2".to_string(), format!("n{new}"));
    commit_changes(&cluster, vec![RingChange::Replace { node, by, rack: String::new() }]).await;
    load.use_until(&cluster, || is_ring_settled(&cluster)).await;
    load.check(&cluster).await;
    load.check_placement(&cluster).await;
    assert_eq!(stored_rows(cluster.node(2)), (0, 0), "who was replaced keeps nothing");
    let ring = cluster.node(0).router.locator.catalog.available.ring().expect("a ring");
    assert!(ring.layout().nodes().contains_key(&cluster.node(new).cluster.links.node));
    assert!(!ring.layout().nodes().contains_key(&cluster.node(2).cluster.links.node));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ring_plans_are_staged_described_cleared_and_refused() {
    let mut cluster = even_cluster(3).await;
    let refused = |body: Result<Body>| match body {
        Err(error) => (error.reason, error.text()),
        Ok(body) => panic!("refused, not {body:?}"),
    };
    let commit = RingCall::Commit { epoch: None };
    let (reason, text) = refused(ring(&cluster, commit.clone()).await);
    assert!(reason == Reason::Changed && text.contains("planned"), "{text}");
    let leave = |which: usize| RingChange::Leave { node: format!("n{which}") };
    let (reason, text) = refused(ring(&cluster, RingCall::Stage(leave(1))).await);
    assert!(reason == Reason::Changed && text.contains("let another node join first"), "{text}");
    let (reason, _) = refused(ring(&cluster, RingCall::Stage(leave(9))).await);
    assert_eq!(reason, Reason::NotFound);
    let (_, text) = refused(ring(&cluster, RingCall::Cancel).await);
    assert!(text.contains("in progress"), "{text}");

    let fourth = cluster.join().await;
    let plan = stage(&cluster, join(fourth)).await;
    let (_, text) = refused(ring(&cluster, RingCall::Stage(join(fourth))).await);
    assert!(text.contains("`n3` is on the ring already"), "{text}");
    ring(&cluster, RingCall::Clear).await.expect("cleared");
    match ring(&cluster, RingCall::Plan).await.expect("shown") {
        Body::RingPlan(plan) => assert!(plan.changes.is_empty() && plan.loads.is_empty()),
        other => panic!("a plan, not {other:?}"),
    }
    // Two changes in one plan, for the ring that was shown and no other.
    stage(&cluster, join(fourth)).await;
    let both = stage(&cluster, leave(1)).await;
    assert_eq!((both.changes.len(), both.epoch), (2, plan.epoch));
    let stale = RingCall::Commit { epoch: Some(plan.epoch - 1) };
    let (_, text) = refused(ring(&cluster, stale).await);
    assert!(text.contains("look at the plan again"), "{text}");
    super::store(cluster.node(0), "k", "v", None).await.expect("a write");
    ring(&cluster, RingCall::Commit { epoch: Some(both.epoch) }).await.expect("it begins");
    let under_way = ring(&cluster, RingCall::Stage(join(1))).await;
    wait("the change", || is_ring_settled(&cluster).then_some(())).await;
    if let Err(error) = under_way {
        assert!(error.text().contains("wait for it, or cancel it"), "{}", error.text());
    }
    let told = transfers(&cluster).await;
    assert!(told.left == 0 && told.nodes.iter().all(|it| it.receiving + it.clearing == 0));
    for which in [0, 2, 3] {
        assert_eq!(super::live_values(cluster.node(which), "k").await, [bytes("v")], "{which}");
    }
    // A node that keeps data and can be reached is not removed from the cluster.
    let removed = base::ClusterCall::RemoveMember { name: "n2".into() };
    let removed = Call::Directory(DirectoryCall::Cluster(removed));
    let master = cluster.master(0).await;
    let answer = ask(cluster.node(master), &BucketName::default(), removed).await;
    let error = answer.expect_err("it keeps data");
    assert!(error.text().contains("ring leave n2"), "{}", error.text());
    let removed = base::ClusterCall::RemoveMember { name: "n1".into() };
    cluster.directory(DirectoryCall::Cluster(removed)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_node_leaving_ring_is_not_awaited_once_removed() {
    let mut cluster = even_cluster(4).await;
    let mut load = Load::fill(&cluster, 200).await;
    load.read_contexts(&cluster).await;
    cluster.stop(3).await;
    load.write_until(&cluster, || true).await;
    commit_changes(&cluster, vec![RingChange::Leave { node: "n3".into() }]).await;
    load.write_until(&cluster, || {
        let ring = cluster.node(0).router.locator.catalog.available.ring();
        ring.is_some_and(|ring| ring.pending().is_none())
    })
    .await;
    let clearing = |told: &RingTransfers| told.nodes.iter().map(|it| it.clearing).sum::<u64>();
    assert!(clearing(&transfers(&cluster).await) > 0, "while it is a member it may come back");
    let removed = base::ClusterCall::RemoveMember { name: "n3".into() };
    cluster.directory(DirectoryCall::Cluster(removed)).await;
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while clearing(&transfers(&cluster).await) > 0 {
        assert!(std::time::Instant::now() < until, "somebody waits for a node that is none");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    wait_connected(&cluster).await;
    load.check(&cluster).await;
    load.check_placement(&cluster).await;
}

//! Interrupted ring changes: a node that stops in one continues when it starts again, and the
//! change may be cancelled.

use super::load::{Load, held, moved, rests, to_come};
use super::moving::{begin, call_off, evenly, give_out, join, linked, ring, transfers};
use crate::tests::many::Cluster;
use crate::tests::test_cluster::wait;
use base::{BucketName, Call, ClusterCall, DirectoryCall, Reason, RingCall, RingChange};

/// A node joins slowly; some partitions have gone over, and some have not.
async fn midway(cluster: &mut Cluster) -> (Load, usize) {
    let load = Load::fill(cluster, 300).await;
    cluster.handoff_bytes_per_second = 8_000;
    let fifth = cluster.join().await;
    begin(cluster, vec![join(fifth)]).await;
    let all = wait("the change", || Some(to_come(cluster)).filter(|count| *count > 0)).await;
    wait("partitions that have gone over", || (to_come(cluster) + 8 < all).then_some(())).await;
    assert!(to_come(cluster) > 0 && !rests(cluster), "the others are still to go");
    (load, fifth)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_stops_goes_on_where_it_was() {
    let mut cluster = evenly(4).await;
    let (mut load, fifth) = midway(&mut cluster).await;
    load.look(&cluster).await;
    let had = held(cluster.node(fifth));
    cluster.stop(fifth).await;
    // Partitions that have gone over miss one owner, others miss none: all goes on.
    load.write_until(&cluster, || true).await;
    cluster.handoff_bytes_per_second = 0;
    cluster.start(fifth).await;
    linked(&cluster).await;
    load.use_until(&cluster, || rests(&cluster)).await;
    load.check(&cluster).await;
    load.everyone_keeps_what_the_ring_says(&cluster).await;
    let (rows, _) = moved(cluster.node(fifth));
    let needed = held(cluster.node(fifth)).0;
    assert!(had.0 > 0 && (rows as usize) < needed, "{rows} of {needed}, {} were there", had.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sender_that_stops_is_not_missed_and_lets_go_when_it_is_back() {
    let mut cluster = evenly(4).await;
    let (mut load, _) = midway(&mut cluster).await;
    load.look(&cluster).await;
    cluster.stop(2).await;
    load.write_until(&cluster, || {
        let ring = cluster.node(0).router.locator.catalog.available.ring();
        ring.is_some_and(|ring| ring.pending().is_none())
    })
    .await;
    assert!(!rests(&cluster), "who is away has leftovers");
    cluster.start(2).await;
    linked(&cluster).await;
    load.use_until(&cluster, || rests(&cluster)).await;
    load.check(&cluster).await;
    load.everyone_keeps_what_the_ring_says(&cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_called_off_midway_leaves_everything_where_it_was() {
    let mut cluster = evenly(4).await;
    let before = cluster.node(0).router.locator.catalog.available.ring().expect("a ring");
    let (mut load, fifth) = midway(&mut cluster).await;
    let told = transfers(&cluster).await;
    let one = told.nodes.iter().find(|it| it.node == cluster.node(fifth).cluster.links.node);
    let one = one.expect("it is told of");
    assert!(told.left > 0 && one.receiving > 0 && one.bytes > 0, "{told:?}");
    assert!(one.bytes_left.is_some_and(|left| left > 0) && one.eta_ms.is_some(), "{one:?}");
    call_off(&cluster).await;
    load.use_until(&cluster, || rests(&cluster)).await;
    load.check(&cluster).await;
    load.everyone_keeps_what_the_ring_says(&cluster).await;
    assert_eq!(held(cluster.node(fifth)), (0, 0), "who did not join keeps nothing");
    let after = cluster.node(0).router.locator.catalog.available.ring().expect("a ring");
    assert_eq!(after.layout(), before.layout());
    // And it may be begun anew, called off and begun again: nothing of one time is taken for
    // another.
    begin(&cluster, vec![join(fifth)]).await;
    let all = wait("the change", || Some(to_come(&cluster)).filter(|count| *count > 0)).await;
    load.use_until(&cluster, || to_come(&cluster) + 4 < all).await;
    tokio::join!(call_off(&cluster), load.use_until(&cluster, || rests(&cluster)));
    assert_eq!(held(cluster.node(fifth)), (0, 0), "who did not join keeps nothing");
    begin(&cluster, vec![join(fifth)]).await;
    load.use_until(&cluster, || rests(&cluster)).await;
    load.check(&cluster).await;
    load.everyone_keeps_what_the_ring_says(&cluster).await;
}

/// A dead node leaves five, of which most receive slowly; some partitions have gone over.
async fn without_the_dead() -> (Cluster, Load) {
    let mut cluster = Cluster::new(1).await;
    cluster.handoff_bytes_per_second = 1_500;
    for _ in 1..5 {
        cluster.join().await;
    }
    give_out(&cluster).await;
    let mut load = Load::fill(&cluster, 300).await;
    load.look(&cluster).await;
    cluster.stop(4).await;
    load.write_until(&cluster, || true).await;
    begin(&cluster, vec![RingChange::Leave { node: "n4".into() }]).await;
    let all = wait("the change", || Some(to_come(&cluster)).filter(|count| *count > 0)).await;
    wait("partitions that have gone over", || (to_come(&cluster) + 4 < all).then_some(())).await;
    (cluster, load)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_is_called_off_only_when_those_are_there_who_get_something_back() {
    let (mut cluster, mut load) = without_the_dead().await;
    let before = cluster.node(0).router.locator.catalog.available.ring().expect("a ring");
    let refused = ring(&cluster, RingCall::Cancel).await.expect_err("the dead receive nothing");
    let text = refused.text();
    let helps = text.contains("`n4`") && text.contains("start it") && text.contains("let the");
    assert!(refused.reason == Reason::Changed && helps, "{text}");
    // It goes on as if nobody had asked; and when the dead is back, it is called off.
    assert!(to_come(&cluster) > 0);
    cluster.handoff_bytes_per_second = 0;
    cluster.start(4).await;
    linked(&cluster).await;
    call_off(&cluster).await;
    load.use_until(&cluster, || rests(&cluster)).await;
    load.check(&cluster).await;
    load.everyone_keeps_what_the_ring_says(&cluster).await;
    let after = cluster.node(0).router.locator.catalog.available.ring().expect("a ring");
    assert_eq!(after.layout(), before.layout());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_is_gone_for_good_is_not_waited_for() {
    let (mut cluster, mut load) = without_the_dead().await;
    let second = cluster.node(3).cluster.links.node;
    // Two of five are dead now, in the middle of a change that needs the one and can't go back
    // without the other.
    cluster.stop(3).await;
    load.write_until(&cluster, || true).await;
    for name in ["n3", "n4"] {
        let gone = Call::Directory(DirectoryCall::Cluster(ClusterCall::RemoveMember {
            name: name.into(),
        }));
        cluster.surely(BucketName::default(), gone).await.expect("it can't be reached");
    }
    load.write_until(&cluster, || {
        let ring = cluster.node(0).router.locator.catalog.available.ring();
        ring.is_some_and(|ring| ring.pending().is_none())
    })
    .await;
    // What the second was given in vain is given to others, by a change like any other.
    let dead = format!("{:016x}", second.0);
    begin(&cluster, vec![RingChange::Leave { node: dead }]).await;
    load.write_until(&cluster, || rests(&cluster)).await;
    load.check(&cluster).await;
    load.everyone_keeps_what_the_ring_says(&cluster).await;
}

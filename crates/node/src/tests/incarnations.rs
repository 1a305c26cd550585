//! Incarnations of members: those on record, those that a node stores, and the refusal of an old
//! copy.

use super::Place;
use super::members::{add, ask, described, remove, settings, start};
use super::test_cluster::wait;
use crate::{Node, NodeSettings};
use base::limits::PEER_LIVES_MAX;
use base::{ClusterDescription, IncarnationId, NodeId, Part, Reason};
use store::DataDir;

fn life(number: u64, token: u64) -> IncarnationId {
    IncarnationId { number, token }
}

/// Returns the numbers of the incarnations that a stopped node stores.
fn told(place: &Place) -> Vec<u64> {
    let data = DataDir::open(place.path()).expect("it is stopped");
    data.incarnations()
        .expect("they are read")
        .iter()
        .map(|incarnation_id| incarnation_id.number)
        .collect()
}

/// Stops the node once its directory holds only these incarnations.
async fn stop_with(node: Node, place: &Place, numbers: &[u64]) {
    let file = place.path().join("LIVES");
    let applied = || {
        let text = std::fs::read_to_string(&file).ok()?;
        let here = |number: &u64| text.contains(&format!("life {number:016x} "));
        let all = text.matches("life ").count() == numbers.len() && numbers.iter().all(here);
        all.then_some(())
    };
    wait("lives that are over are let go of", applied).await;
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn latest_incarnation_of_admitted_member_is_recorded() {
    let (place, two) = (Place::new(), NodeId(2));
    let (node, _) = start(&place).await;
    ask(&node, add(2, "n2", Part::Learner)).await.expect("added");
    let directory = &node.router.directory;
    for (seen, number, incarnation_id) in [
        (life(3, 30), 3, life(3, 30)),
        (life(2, 20), 3, life(3, 30)),
        (life(3, 31), 3, life(3, 30)),
        (life(5, 0), 5, life(3, 30)),
        (life(4, 40), 5, life(3, 30)),
        (life(7, 70), 7, life(7, 70)),
    ] {
        directory.record_incarnation(two, seen).await.expect("recorded");
        let known = described(&node).await;
        assert_eq!(known.member(two).map(|known| known.incarnation), Some(number), "{seen:?}");
        assert_eq!(
            node.router.locator.catalog.incarnation_id(two),
            Some(incarnation_id),
            "{seen:?}"
        );
    }
    directory.record_incarnation(NodeId(9), life(1, 10)).await.expect("a stranger is none of ours");
    assert_eq!(node.router.locator.catalog.incarnation_id(NodeId(9)), None);
    node.stop().await.expect("it stops");
    let (node, _) = start(&place).await;
    assert_eq!(
        node.router.locator.catalog.incarnation_id(two),
        Some(life(7, 70)),
        "after a start, too"
    );
    ask(&node, remove("n2")).await.expect("it leaves");
    node.router.directory.remove_member(two).await.expect("forgotten");
    assert_eq!(node.router.locator.catalog.incarnation_id(two), None);
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn stored_incarnations_are_kept_until_a_later_record_exists() {
    let place = Place::new();
    let (node, _) = start(&place).await;
    stop_with(node, &place, &[1]).await;
    let sole = NodeSettings { peers: None, ..settings(&place) };
    Node::start(sole).await.expect("it starts").stop().await.expect("it stops");
    assert_eq!(told(&place), [1], "who speaks to nobody draws nothing");
    // Lives that nobody saw: as many as are told, and more.
    let data = DataDir::open(place.path()).expect("it is stopped");
    for number in 100..100 + PEER_LIVES_MAX as u64 {
        data.begin_incarnation(number).expect("begins");
    }
    assert_eq!(data.incarnations().expect("read").len(), PEER_LIVES_MAX);
    drop(data);
    let (node, _) = start(&place).await;
    assert!(
        node.cluster.incarnations.known.iter().all(|incarnation_id| incarnation_id.number != 3),
        "it has no token"
    );
    stop_with(node, &place, &[]).await;
    let (node, _) = start(&place).await;
    stop_with(node, &place, &[4]).await;
}

#[tokio::test]
async fn checkpoint_restarts_incarnation_count_of_a_sole_member() {
    let (place, target) = (Place::new(), Place::new());
    for _ in 0..3 {
        let (node, _) = start(&place).await;
        node.stop().await.expect("it stops");
    }
    let (node, own) = start(&place).await;
    let before = node.router.locator.catalog.incarnation_id(NodeId(own)).expect("on record");
    assert_eq!(before.number, 4);
    node.checkpoint(target.path().into()).await.expect("made");
    node.stop().await.expect("it stops");
    let node = Node::start(settings(&target)).await.expect("it starts");
    let recorded = || {
        node.router
            .locator
            .catalog
            .incarnation_id(NodeId(own))
            .filter(|incarnation_id| incarnation_id.number == 1)
    };
    let incarnation_id = wait("its first life on record", recorded).await;
    assert_ne!(incarnation_id.token, before.token);
    assert_eq!(described(&node).await.members[0].incarnation, 1, "others let it in");
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn outdated_directory_copy_does_not_start_until_refounded() {
    let place = Place::new();
    start(&place).await.0.stop().await.expect("it stops");
    let data = DataDir::open(place.path()).expect("it is stopped");
    data.mark_outdated("so they said").expect("written");
    drop(data);
    for _ in 0..2 {
        let refused = Node::start(settings(&place)).await.map(|_| ()).expect_err("it knows");
        assert_eq!(refused.reason, Reason::Forbidden, "{refused}");
        assert!(refused.text().contains("cluster replace"), "{refused}");
        assert!(refused.text().contains("so they said"), "{refused}");
    }
    let data = DataDir::open(place.path()).expect("it is stopped");
    data.found_new_cluster(&ClusterDescription::default()).expect("a new cluster");
    assert_eq!(data.outdated_reason().expect("looks"), None);
}

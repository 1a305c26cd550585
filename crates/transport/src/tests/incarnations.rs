//! Admission over real sockets: other clusters, other nodes, earlier incarnations, copies; and two
//! dials at once.

use super::test_peer::{CLUSTER, PeerEvent, TestPeer, introduce, member, nowhere, settings, until};
use crate::{Broken, Incarnation, Member};
use base::{ClusterId, IncarnationId, NodeId};
use tokio::net::TcpListener;

const ONE: NodeId = NodeId(1);
const TWO: NodeId = NodeId(2);

/// Lets `one` dial `two`; `two` can't dial back.
async fn dials(one: &TestPeer, two: &TestPeer) {
    two.peers.set_members(vec![member(1, nowhere())]);
    one.peers.set_members(vec![member(2, two.address.to_string())]);
}

async fn fails(one: &TestPeer, of: NodeId, words: &str) {
    until(words, || one.status(of).failed.unwrap_or_default().contains(words)).await;
    assert!(!one.connected(of));
}

#[tokio::test]
async fn another_cluster_is_refused() {
    let one = TestPeer::start(settings(1, 1)).await;
    let mut foreign = settings(2, 1);
    foreign.cluster = ClusterId(CLUSTER.0 + 1);
    let two = TestPeer::start(foreign).await;
    dials(&one, &two).await;
    fails(&one, TWO, "refused by the other side: another cluster").await;
    assert!(two.post.told().is_empty());
}

#[tokio::test]
async fn another_node_than_the_one_looked_for_is_refused() {
    let one = TestPeer::start(settings(1, 1)).await;
    let two = TestPeer::start(settings(2, 1)).await;
    two.peers.set_members(vec![member(1, nowhere())]);
    one.peers.set_members(vec![member(3, two.address.to_string())]);
    fails(&one, NodeId(3), "another node than the one looked for lives here").await;
}

#[tokio::test]
async fn a_node_that_dials_itself_is_told_so() {
    let one = TestPeer::start(settings(1, 1)).await;
    one.peers.set_members(vec![one.member(), member(2, one.address.to_string())]);
    fails(&one, TWO, "a node reached itself").await;
}

#[tokio::test]
async fn a_stranger_is_refused() {
    let one = TestPeer::start(settings(1, 1)).await;
    let two = TestPeer::start(settings(2, 1)).await;
    one.peers.set_members(vec![two.member()]);
    fails(&one, TWO, "node 0000000000000001 is no member of the cluster").await;
}

#[tokio::test]
async fn a_restarted_node_is_let_in_and_an_earlier_life_is_not() {
    let one = TestPeer::start(settings(1, 1)).await;
    let two = TestPeer::start(settings(2, 7)).await;
    introduce(&[&one, &two]).await;
    two.peers.stop().await;
    // The next incarnation, at the same address.
    let listener = TcpListener::bind(two.address).await.expect("it is free again");
    let two = TestPeer::at(settings(2, 8), listener);
    two.peers.set_members(vec![one.member()]);
    until("the next life is in", || one.status(TWO).connected == Some(Incarnation(8))).await;
    two.peers.stop().await;
    // Its directory is restored from a copy of incarnation 7, or made anew.
    for life in [7, 1] {
        let wiped = TestPeer::start(settings(2, life)).await;
        wiped.peers.set_members(vec![one.member()]);
        fails(&wiped, ONE, "its life 8 was seen").await;
        wiped.peers.stop().await;
    }
    let incarnations: Vec<_> = one
        .post
        .told()
        .into_iter()
        .filter_map(|told| match told {
            PeerEvent::Connected(_, life) => Some(life.0),
            _ => None,
        })
        .collect();
    assert_eq!(incarnations, [7, 8]);
}

#[tokio::test]
async fn a_node_that_has_just_started_refuses_what_the_cluster_has_outlived() {
    let one = TestPeer::start(settings(1, 1)).await;
    let two = TestPeer::start(settings(2, 3)).await;
    let recorded = Member { incarnation: Incarnation(4), ..two.member() };
    one.peers.set_members(vec![recorded]);
    two.peers.set_members(vec![one.member()]);
    fails(&two, ONE, "its life 4 was seen").await;
    until("the dialler refuses as well", || {
        one.status(TWO).failed.unwrap_or_default().contains("refused by this node")
    })
    .await;
}

#[tokio::test]
async fn an_old_copy_is_refused_whatever_the_number_of_its_life() {
    let life = |number, token| IncarnationId { number, token };
    let mut told = settings(2, 8);
    told.incarnations = vec![life(7, 70), life(8, 80)];
    let one = TestPeer::start(settings(1, 1)).await;
    let two = TestPeer::start(told).await;
    introduce(&[&one, &two]).await;
    assert_eq!(one.status(TWO).incarnation_id, Some(life(8, 80)));
    two.peers.stop().await;
    // A copy made in incarnation 7, started so often that its number is one that nobody has seen.
    let mut copied = settings(2, 9);
    copied.incarnations = vec![life(7, 70), life(8, 81), life(9, 91)];
    let copy = TestPeer::start(copied).await;
    copy.peers.set_members(vec![one.member()]);
    fails(&copy, ONE, "its data directory is an old copy").await;
    until("it knows of itself", || copy.status(ONE).outdates.is_some()).await;
    assert_eq!(one.status(TWO).outdates, None, "the other is none");
    copy.peers.stop().await;
    // A node that has just started knows what the cluster has on record.
    let three = TestPeer::start(settings(3, 1)).await;
    let mut copied = settings(2, 8);
    copied.incarnations = vec![life(7, 70), life(8, 81)];
    let copy = TestPeer::start(copied).await;
    three.peers.set_members(vec![Member { incarnation_id: Some(life(8, 80)), ..copy.member() }]);
    copy.peers.set_members(vec![three.member()]);
    until("the copy is told", || copy.status(NodeId(3)).outdates.is_some()).await;
    assert!(!three.connected(TWO));
}

#[tokio::test]
async fn an_old_copy_that_came_in_before_its_later_life_was_known_is_cut_off() {
    let life = |number, token| IncarnationId { number, token };
    let mut copied = settings(2, 8);
    copied.incarnations = vec![life(7, 70), life(8, 81)];
    let one = TestPeer::start(settings(1, 1)).await;
    let copy = TestPeer::start(copied).await;
    introduce(&[&one, &copy]).await;
    let tell = |number, token| {
        let (incarnation, incarnation_id) = (Incarnation(number), Some(life(number, token)));
        one.peers.set_members(vec![Member { incarnation, incarnation_id, ..copy.member() }]);
    };
    tell(7, 70); // It descends from that one.
    tell(8, 80);
    until("the copy is told", || copy.status(ONE).outdates.is_some()).await;
    assert_eq!(one.post.breaks(), [Broken::Outlived]);
    assert!(!one.connected(TWO));
}

#[tokio::test]
async fn two_processes_of_one_life_are_not_both_let_in() {
    let one = TestPeer::start(settings(1, 1)).await;
    let two = TestPeer::start(settings(2, 3)).await;
    introduce(&[&one, &two]).await;
    let copy = TestPeer::start(settings(2, 3)).await;
    copy.peers.set_members(vec![one.member()]);
    fails(&copy, ONE, "two processes say they are node 0000000000000002").await;
    assert!(one.connected(TWO));
    assert!(one.post.breaks().is_empty());
}

#[tokio::test]
async fn two_dials_at_once_end_as_one_link() {
    for _ in 0..25 {
        let one = TestPeer::start(settings(1, 1)).await;
        let two = TestPeer::start(settings(2, 1)).await;
        introduce(&[&one, &two]).await;
        let link = one.status(TWO).link;
        until("both have the same", || link == two.status(ONE).link).await;
        assert_eq!((one.status(TWO).links, two.status(ONE).links), (1, 1));
        one.peers.stop().await;
        two.peers.stop().await;
    }
}

#[tokio::test]
async fn five_nodes_have_one_link_per_pair() {
    let mut homes = Vec::new();
    for node in 1..=5 {
        homes.push(TestPeer::start(settings(node, 1)).await);
    }
    introduce(&homes.iter().collect::<Vec<_>>()).await;
    for home in &homes {
        for status in home.peers.status() {
            let other = homes.iter().find(|home| home.id == status.node).expect("one of five");
            assert_eq!((status.link, status.links), (other.status(home.id).link, 1));
        }
    }
    for home in &homes {
        home.peers.stop().await;
    }
    for home in &homes {
        let breaks = home.post.breaks();
        assert_eq!(breaks.len(), 4);
        assert!(
            breaks.iter().all(|broken| {
                *broken == Broken::Stopping || matches!(broken, Broken::Closed(_))
            })
        );
    }
}

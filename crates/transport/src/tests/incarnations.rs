//! Admission over real sockets: other clusters, other nodes, earlier incarnations, copies; and two
//! dials at once.

use super::test_peer::{
    CLUSTER, EventLog, PeerEvent, TestPeer, introduce, member, nowhere, settings, until,
};
use crate::endpoint::Endpoint;
use crate::peer::Peer;
use crate::peer_table::PeerTable;
use crate::{Broken, Incarnation, Member};
use base::{ClusterId, IncarnationId, IpNetworks, NodeId};
use std::net::IpAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

const ONE: NodeId = NodeId(1);
const TWO: NodeId = NodeId(2);

/// Makes `one` dial `two`; `two` can't dial back.
async fn dials(one: &TestPeer, two: &TestPeer) {
    two.peers.set_members(vec![member(1, nowhere())]);
    one.peers.set_members(vec![member(2, two.address.to_string())]);
}

async fn fails(one: &TestPeer, of: NodeId, text: &str) {
    until(text, || one.status(of).last_failure.unwrap_or_default().contains(text)).await;
    assert!(!one.connected(of));
}

#[tokio::test]
async fn node_of_another_cluster_is_refused() {
    let one = TestPeer::start(settings(1, 1)).await;
    let mut foreign = settings(2, 1);
    foreign.cluster = ClusterId(CLUSTER.0 + 1);
    let two = TestPeer::start(foreign).await;
    dials(&one, &two).await;
    fails(&one, TWO, "refused by the other node: different clusters").await;
    assert!(two.log.recorded().is_empty());
}

#[tokio::test]
async fn dialled_node_with_an_unexpected_id_is_refused() {
    let one = TestPeer::start(settings(1, 1)).await;
    let two = TestPeer::start(settings(2, 1)).await;
    two.peers.set_members(vec![member(1, nowhere())]);
    one.peers.set_members(vec![member(3, two.address.to_string())]);
    fails(&one, NodeId(3), "another node has this address").await;
}

#[tokio::test]
async fn nodes_outside_the_peer_networks_are_neither_dialled_nor_accepted() {
    let mut elsewhere = settings(1, 1);
    elsewhere.networks = IpNetworks::parse("192.0.2.0/24,fd00::/8").expect("networks");
    let one = TestPeer::start(elsewhere).await;
    let mut here = settings(2, 1);
    here.networks = IpNetworks::parse("127.0.0.0/8,::1").expect("networks");
    let two = TestPeer::start(here).await;
    // Each dials the other.
    one.peers.set_members(vec![two.member()]);
    two.peers.set_members(vec![one.member()]);
    fails(&one, TWO, "`peer_networks` (192.0.2.0/24,fd00::/8)").await;
    until("it is closed", || two.status(ONE).last_failure.is_some()).await;
    assert!(one.log.recorded().is_empty() && two.log.recorded().is_empty());
    let three = TestPeer::start(settings(3, 1)).await;
    introduce(&[&two, &three]).await;
}

#[test]
fn addresses_of_members_are_known_by_their_literals() {
    let table = PeerTable::new(Endpoint::new(settings(1, 1), Arc::<EventLog>::default()));
    let mut peers = table.peers.write().expect("plain data");
    for (node, address) in [(2, "192.0.2.7:1"), (3, "[2001:db8::7]:1"), (4, "n4.example:1")] {
        let peer = Peer::new(member(node, address.into()), mpsc::channel(1).0);
        peers.insert(NodeId(node), Arc::new(peer));
    }
    drop(peers);
    let is_known = |text: &str| table.is_member_address(text.parse::<IpAddr>().expect("one"));
    assert!(is_known("192.0.2.7") && is_known("2001:db8::7"));
    assert!(!is_known("192.0.2.8") && !is_known("127.0.0.1"));
}

#[tokio::test]
async fn node_that_dials_itself_gets_an_error() {
    let one = TestPeer::start(settings(1, 1)).await;
    one.peers.set_members(vec![one.member(), member(2, one.address.to_string())]);
    fails(&one, TWO, "the node connected to itself").await;
}

#[tokio::test]
async fn node_outside_the_cluster_is_refused() {
    let one = TestPeer::start(settings(1, 1)).await;
    let two = TestPeer::start(settings(2, 1)).await;
    one.peers.set_members(vec![two.member()]);
    fails(&one, TWO, "node 0000000000000001 is not a member of the cluster").await;
}

#[tokio::test]
async fn restarted_node_is_admitted_and_an_earlier_incarnation_refused() {
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
    // Its directory is restored from a copy of incarnation 7, or is new.
    for incarnation in [7, 1] {
        let wiped = TestPeer::start(settings(2, incarnation)).await;
        wiped.peers.set_members(vec![one.member()]);
        fails(&wiped, ONE, "its incarnation 8 was seen").await;
        wiped.peers.stop().await;
    }
    let incarnations: Vec<_> = one
        .log
        .recorded()
        .into_iter()
        .filter_map(|event| match event {
            PeerEvent::Connected(_, incarnation) => Some(incarnation.0),
            _ => None,
        })
        .collect();
    assert_eq!(incarnations, [7, 8]);
}

#[tokio::test]
async fn started_node_refuses_peer_older_than_its_recorded_incarnation() {
    let one = TestPeer::start(settings(1, 1)).await;
    let two = TestPeer::start(settings(2, 3)).await;
    let recorded = Member { incarnation: Incarnation(4), ..two.member() };
    one.peers.set_members(vec![recorded]);
    two.peers.set_members(vec![one.member()]);
    fails(&two, ONE, "its incarnation 4 was seen").await;
    until("the dialler refuses as well", || {
        one.status(TWO).last_failure.unwrap_or_default().contains("refused by this node")
    })
    .await;
}

#[tokio::test]
async fn old_copy_is_refused_regardless_of_its_incarnation_number() {
    let id = |number, token| IncarnationId { number, token };
    let mut listed = settings(2, 8);
    listed.incarnations = vec![id(7, 70), id(8, 80)];
    let one = TestPeer::start(settings(1, 1)).await;
    let two = TestPeer::start(listed).await;
    introduce(&[&one, &two]).await;
    assert_eq!(one.status(TWO).incarnation_id, Some(id(8, 80)));
    two.peers.stop().await;
    // A copy of incarnation 7, started until its number is higher than any seen.
    let mut copied = settings(2, 9);
    copied.incarnations = vec![id(7, 70), id(8, 81), id(9, 91)];
    let copy = TestPeer::start(copied).await;
    copy.peers.set_members(vec![one.member()]);
    fails(&copy, ONE, "its data directory is an old copy").await;
    until("it knows of itself", || copy.status(ONE).old_copy_text.is_some()).await;
    assert_eq!(one.status(TWO).old_copy_text, None, "the other is none");
    copy.peers.stop().await;
    // A node that has just started has the incarnation on record.
    let three = TestPeer::start(settings(3, 1)).await;
    let mut copied = settings(2, 8);
    copied.incarnations = vec![id(7, 70), id(8, 81)];
    let copy = TestPeer::start(copied).await;
    three.peers.set_members(vec![Member { incarnation_id: Some(id(8, 80)), ..copy.member() }]);
    copy.peers.set_members(vec![three.member()]);
    until("the copy is told", || copy.status(NodeId(3)).old_copy_text.is_some()).await;
    assert!(!three.connected(TWO));
}

#[tokio::test]
async fn connected_old_copy_is_cut_off_once_a_later_incarnation_is_known() {
    let id = |number, token| IncarnationId { number, token };
    let mut copied = settings(2, 8);
    copied.incarnations = vec![id(7, 70), id(8, 81)];
    let one = TestPeer::start(settings(1, 1)).await;
    let copy = TestPeer::start(copied).await;
    introduce(&[&one, &copy]).await;
    let set_known = |number, token| {
        let (incarnation, incarnation_id) = (Incarnation(number), Some(id(number, token)));
        one.peers.set_members(vec![Member { incarnation, incarnation_id, ..copy.member() }]);
    };
    set_known(7, 70); // The copy descends from this one.
    set_known(8, 80);
    until("the copy is told", || copy.status(ONE).old_copy_text.is_some()).await;
    assert_eq!(one.log.breaks(), [Broken::Superseded]);
    assert!(!one.connected(TWO));
}

#[tokio::test]
async fn second_process_of_one_incarnation_is_refused() {
    let one = TestPeer::start(settings(1, 1)).await;
    let two = TestPeer::start(settings(2, 3)).await;
    introduce(&[&one, &two]).await;
    let copy = TestPeer::start(settings(2, 3)).await;
    copy.peers.set_members(vec![one.member()]);
    fails(&copy, ONE, "two processes have the id of node 0000000000000002").await;
    assert!(one.connected(TWO));
    assert!(one.log.breaks().is_empty());
}

#[tokio::test]
async fn simultaneous_dials_result_in_one_link() {
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
    let mut nodes = Vec::new();
    for node in 1..=5 {
        nodes.push(TestPeer::start(settings(node, 1)).await);
    }
    introduce(&nodes.iter().collect::<Vec<_>>()).await;
    for node in &nodes {
        for status in node.peers.status() {
            let other = nodes.iter().find(|node| node.id == status.node).expect("one of five");
            assert_eq!((status.link, status.links), (other.status(node.id).link, 1));
        }
    }
    for node in &nodes {
        node.peers.stop().await;
    }
    for node in &nodes {
        let breaks = node.log.breaks();
        assert_eq!(breaks.len(), 4);
        assert!(
            breaks.iter().all(|broken| {
                *broken == Broken::Stopping || matches!(broken, Broken::Closed(_))
            })
        );
    }
}

//! Join tokens in the directory: what one allows, and how it ends.

use super::test_cluster::wait;
use super::{Place, reason};
use crate::{Node, NodeSettings, PeerAddresses};
use base::limits::JOIN_TOKENS_MAX;
use base::{
    Body, BucketName, Call, ClusterCall, DirectoryCall, FeatureLevel, GroupId, IncarnationId,
    IpNetworks, JoinToken, JoinTokenTerms, LogIndex, MemberDescription, Membership, NodeId, Part,
    Reason, Request, Result,
};
use std::time::Duration;

async fn ask(node: &Node, call: ClusterCall) -> Result<Body> {
    let call = Call::Directory(DirectoryCall::Cluster(call));
    let request = Request { bucket: BucketName::default(), call, retry: None };
    node.handle(&base::Principal::Node, request).await.map(|reply| reply.body)
}

/// Returns settings of a node that accepts others.
fn settings(place: &Place) -> NodeSettings {
    let listen = "127.0.0.1:0".parse().expect("an address");
    let peers = Some(PeerAddresses { listen, advertise: "127.0.0.1:7712".into() });
    NodeSettings { peers, client_address: "127.0.0.1:7711".into(), ..place.settings() }
}

/// Returns the request of a node that joins.
fn join(node: u64) -> ClusterCall {
    let member = MemberDescription {
        node: NodeId(node),
        name: format!("n{node}"),
        peer: format!("127.0.0.1:{node}"),
        client: format!("127.0.0.1:1{node}"),
        incarnation: 0,
        membership: Membership::Member,
    };
    ClusterCall::AddMember {
        member,
        part: Part::Learner,
        lease_ms: 600,
        level: FeatureLevel::HIGHEST,
    }
}

fn shown(token: &JoinToken, call: ClusterCall) -> ClusterCall {
    ClusterCall::WithToken { digest: token.digest(), call: Box::new(call) }
}

/// Makes a join token by these terms.
async fn create_token(node: &Node, terms: JoinTokenTerms) -> Result<JoinToken> {
    let (token, in_force) = node.make_join_token(&base::Principal::Node, terms).await?;
    assert_eq!(in_force, terms);
    Ok(token)
}

/// Returns terms of a token for any number of nodes.
fn lasting(lifetime_ms: u64) -> JoinTokenTerms {
    JoinTokenTerms { lifetime_ms: Some(lifetime_ms), uses: None }
}

fn replace(by: Option<&str>) -> ClusterCall {
    ClusterCall::ReplaceMember { name: "n2".into(), by: by.map(String::from) }
}

#[tokio::test]
async fn join_token_admits_nodes_until_revoked_and_grants_nothing_else() {
    let place = Place::new();
    let node = Node::start(settings(&place)).await.expect("it starts");
    let foreign = JoinToken::from_secret([1; 20]);
    let refused = ask(&node, shown(&foreign, join(2))).await.expect_err("no token is in force");
    assert_eq!(refused.reason, Reason::Forbidden);
    assert!(refused.text().contains("credenza cluster token"), "{refused}");
    let token = create_token(&node, JoinTokenTerms::STANDING).await.expect("made");
    let Ok(Body::Joined(told, _)) = ask(&node, shown(&token, join(2))).await else {
        panic!("a joiner is told whom it joins")
    };
    assert!(told.member(NodeId(2)).is_some());
    // It may have missed the answer.
    assert!(matches!(ask(&node, shown(&token, join(2))).await, Ok(Body::Joined(..))));
    assert_eq!(reason(ask(&node, shown(&foreign, join(3))).await), Reason::Forbidden);
    for call in [
        ClusterCall::RemoveMember { name: "n2".into() },
        ClusterCall::SetPart { name: "n2".into(), part: Some(Part::Voter), group: None },
        ClusterCall::AddToken { digest: foreign.digest(), terms: JoinTokenTerms::STANDING },
        ClusterCall::RevokeTokens,
        replace(Some("node1")),
        shown(&token, join(3)),
    ] {
        let refused = reason(ask(&node, shown(&token, call.clone())).await);
        assert_eq!(refused, Reason::Forbidden, "{call:?}");
    }
    // A member whose data are damaged asks who the others are.
    let listed = ask(&node, shown(&token, ClusterCall::Describe)).await.expect("listed");
    assert!(matches!(&listed, Body::Cluster(known) if known.member(NodeId(2)).is_some()));
    assert_eq!(ask(&node, shown(&token, replace(None))).await, Ok(Body::Done));
    // They are in force after a restart, and another is made beside the first.
    node.stop().await.expect("it stops");
    let node = Node::start(settings(&place)).await.expect("it starts");
    let other = create_token(&node, lasting(600_000)).await.expect("made");
    assert_ne!(other.text(), token.text());
    for (number, token) in [(3, &token), (4, &other)] {
        ask(&node, shown(token, join(number))).await.expect("let in");
    }
    assert_eq!(ask(&node, ClusterCall::RevokeTokens).await, Ok(Body::Done));
    assert_eq!(ask(&node, ClusterCall::RevokeTokens).await, Ok(Body::Done), "there are none");
    for token in [&token, &other] {
        assert_eq!(reason(ask(&node, shown(token, join(5))).await), Reason::Forbidden);
    }
    ask(&node, join(5)).await.expect("operators need none");
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn single_use_token_admits_one_node_which_may_ask_again_until_it_has_connected() {
    let place = Place::new();
    let node = Node::start(settings(&place)).await.expect("it starts");
    let token = create_token(&node, JoinTokenTerms::single_use(600_000)).await.expect("made");
    let must_be_spent = async |call: ClusterCall| {
        let refused = ask(&node, shown(&token, call.clone())).await.expect_err("it was used");
        assert_eq!(refused.reason, Reason::Forbidden, "{call:?}");
        assert!(refused.text().contains("was used already"), "{refused}");
    };
    ask(&node, shown(&token, ClusterCall::Describe)).await.expect("unused");
    for attempt in 0..3 {
        let joined = ask(&node, shown(&token, join(2))).await;
        assert!(matches!(joined, Ok(Body::Joined(..))), "{attempt}: {joined:?}");
        ask(&node, shown(&token, ClusterCall::Describe)).await.expect("it asks again");
        must_be_spent(join(3)).await;
    }
    must_be_spent(replace(None)).await;
    let refused = node
        .decided_value(&base::Principal::Node, GroupId(0), LogIndex(1), Some(token.digest()))
        .await;
    assert_eq!(reason(refused), Reason::Forbidden);
    // Its answer has the cluster's secret, which the node has stored by the time it connects.
    let connected = IncarnationId { number: 1, token: 7 };
    let directory = &node.router.directory;
    directory.record_incarnation(NodeId(2), connected).await.expect("recorded");
    must_be_spent(join(2)).await;
    must_be_spent(ClusterCall::Describe).await;
    // The use holds across a restart, and the token's place is free again.
    node.stop().await.expect("it stops");
    let node = Node::start(settings(&place)).await.expect("it starts");
    assert_eq!(reason(ask(&node, shown(&token, join(4))).await), Reason::Forbidden);
    for _ in 0..JOIN_TOKENS_MAX {
        create_token(&node, JoinTokenTerms::single_use(600_000)).await.expect("there is room");
    }
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn token_with_a_number_of_uses_counts_every_node_that_asks_for_the_secret() {
    let place = Place::new();
    let node = Node::start(settings(&place)).await.expect("it starts");
    let terms = JoinTokenTerms { lifetime_ms: Some(600_000), uses: Some(2) };
    let token = create_token(&node, terms).await.expect("made");
    // One that an operator added already, or whose first token has ended.
    ask(&node, join(2)).await.expect("operators need none");
    for _ in 0..2 {
        let joined = ask(&node, shown(&token, join(2))).await;
        assert!(matches!(joined, Ok(Body::Joined(..))), "{joined:?}");
    }
    // A damaged member gives its place up, and its successor joins: one use.
    ask(&node, shown(&token, replace(None))).await.expect("it gives its place up");
    let successor = || match join(3) {
        ClusterCall::AddMember { member, part, lease_ms, level } => {
            let member = MemberDescription { name: "n2".into(), ..member };
            ClusterCall::AddMember { member, part, lease_ms, level }
        }
        other => other,
    };
    ask(&node, shown(&token, successor())).await.expect("in its place");
    ask(&node, shown(&token, successor())).await.expect("it asks again");
    assert_eq!(reason(ask(&node, shown(&token, join(4))).await), Reason::Forbidden);
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn join_tokens_expire_and_are_bounded_in_number() {
    let place = Place::new();
    let node = place.start().await;
    let short = create_token(&node, lasting(1)).await.expect("made");
    for _ in 1..JOIN_TOKENS_MAX {
        create_token(&node, lasting(600_000)).await.expect("made");
    }
    // Group time goes on by itself, a step at a time.
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(reason(ask(&node, shown(&short, join(2))).await), Reason::Forbidden);
    create_token(&node, lasting(600_000)).await.expect("in the place of the one that ended");
    let many = create_token(&node, JoinTokenTerms::STANDING).await.expect_err("too many");
    assert_eq!(many.reason, Reason::TooMany);
    assert!(many.text().contains("--revoke"), "{many}");
    assert_eq!(ask(&node, ClusterCall::RevokeTokens).await, Ok(Body::Done));
    create_token(&node, JoinTokenTerms::STANDING).await.expect("there is room");
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn join_token_setting_applies_only_at_founding() {
    let (place, token) = (Place::new(), JoinToken::from_secret([7; 20]));
    let with = |place| NodeSettings { join_token: Some(token.clone()), ..settings(place) };
    let node = Node::start(with(&place)).await.expect("it starts");
    ask(&node, shown(&token, join(2))).await.expect("let in");
    ask(&node, ClusterCall::RevokeTokens).await.expect("revoked");
    node.stop().await.expect("it stops");
    let node = Node::start(with(&place)).await.expect("it starts");
    assert_eq!(reason(ask(&node, shown(&token, join(3))).await), Reason::Forbidden);
    node.stop().await.expect("it stops");
    // A cluster of an earlier version has none, and its first node does not bring one later.
    let older = Place::new();
    older.start().await.stop().await.expect("it stops");
    let node = Node::start(with(&older)).await.expect("it starts");
    assert_eq!(reason(ask(&node, shown(&token, join(2))).await), Reason::Forbidden);
    node.stop().await.expect("it stops");
}

/// Addresses of members come from others, who must not make the node call any address.
#[tokio::test]
async fn member_outside_the_peer_networks_is_not_dialled() {
    let place = Place::new();
    let peer_networks = IpNetworks::parse("192.0.2.0/24").expect("a network");
    let settings = NodeSettings { peer_networks, ..settings(&place) };
    let node = Node::start(settings).await.expect("it starts");
    ask(&node, join(5)).await.expect("it joins");
    let error = wait("an attempt", || {
        let members = node.cluster().members;
        let added = members.into_iter().find(|member| member.member.node == NodeId(5))?;
        added.connection_error
    });
    let error = error.await;
    assert!(error.contains("`peer_networks` (192.0.2.0/24)"), "{error}");
    node.stop().await.expect("it stops");
}

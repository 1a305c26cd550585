//! Members and placement in the directory: effects and refusals of each call.

use super::test_cluster::wait;
use super::{Place, reason};
use crate::{Node, NodeSettings, PeerAddresses};
use base::limits::GROUP_MEMBERS_MAX;
use base::{
    Body, BucketName, Call, ClusterCall, ClusterDescription, DirectoryCall, Error, FeatureLevel,
    GroupId, MemberDescription, Membership, NodeId, Part, Reason, Request, Result,
};

pub(super) async fn ask(node: &Node, call: ClusterCall) -> Result<Body> {
    let call = Call::Directory(DirectoryCall::Cluster(call));
    let request = Request { bucket: BucketName::default(), call, retry: None };
    node.handle(&base::Principal::Node, request).await.map(|reply| reply.body)
}

pub(super) async fn described(node: &Node) -> ClusterDescription {
    match ask(node, ClusterCall::Describe).await.expect("described") {
        Body::Cluster(described) => *described,
        other => panic!("members, not {other:?}"),
    }
}

fn member(node: u64, name: &str) -> MemberDescription {
    MemberDescription {
        node: NodeId(node),
        name: name.into(),
        peer: format!("127.0.0.1:{node}"),
        client: format!("127.0.0.1:1{node}"),
        incarnation: 99,
        membership: Membership::Member,
    }
}

pub(super) fn add(node: u64, name: &str, part: Part) -> ClusterCall {
    ClusterCall::AddMember {
        member: member(node, name),
        part,
        lease_ms: 600,
        level: FeatureLevel::HIGHEST,
    }
}

fn set_part(name: &str, part: Option<Part>, group: Option<u32>) -> ClusterCall {
    ClusterCall::SetPart { name: name.into(), part, group: group.map(GroupId) }
}

pub(super) fn settings(place: &Place) -> NodeSettings {
    let listen = "127.0.0.1:0".parse().expect("an address");
    let peers = Some(PeerAddresses { listen, advertise: "127.0.0.1:7712".into() });
    NodeSettings {
        peers,
        client_address: "127.0.0.1:7711".into(),
        // A leaving member is forgotten when a test says so. By itself it would be after a while,
        // and on a busy machine that was in the midst of one.
        farewell_ms: u64::MAX,
        ..place.settings()
    }
}

pub(super) async fn start(place: &Place) -> (Node, u64) {
    let node = Node::start(settings(place)).await.expect("it starts");
    let (own, incarnation) = (node.status().node, node.status().incarnation);
    let recorded = || {
        node.router.locator.catalog.member(own).is_some_and(|own| own.incarnation == incarnation)
    };
    wait("its life on record", || recorded().then_some(())).await;
    (node, own.0)
}

/// Returns the desired members of a group, by name.
fn placed(known: &ClusterDescription, group: u32) -> Vec<(String, Part)> {
    let named = |node: &NodeId| {
        let found = known.members.iter().find(|member| member.node == *node);
        found.map_or_else(|| "nobody".to_string(), |member| member.name.clone())
    };
    let placement = known.groups.iter().find(|placement| placement.group == GroupId(group));
    let members = placement.expect("the group is placed").members.iter();
    let mut placed: Vec<_> = members.map(|(node, part)| (named(node), *part)).collect();
    placed.sort();
    placed
}

fn parts(parts: &[(&str, Part)]) -> Vec<(String, Part)> {
    parts.iter().map(|(name, part)| (name.to_string(), *part)).collect()
}

#[tokio::test]
async fn founder_is_sole_voter_of_its_groups_across_restart() {
    let place = Place::new();
    let (node, own) = start(&place).await;
    let first = described(&node).await;
    assert_eq!((first.founder, first.lease_ms), (NodeId(own), 600));
    assert_eq!(first.cluster, node.status().cluster);
    let sole = MemberDescription {
        peer: "127.0.0.1:7712".into(),
        client: "127.0.0.1:7711".into(),
        incarnation: 0,
        ..member(own, "node1")
    };
    let unlived =
        |member: &MemberDescription| MemberDescription { incarnation: 0, ..member.clone() };
    assert_eq!(first.members.iter().map(unlived).collect::<Vec<_>>(), [sole]);
    for group in [0, 1] {
        assert_eq!(placed(&first, group), parts(&[("node1", Part::Voter)]));
    }
    node.stop().await.expect("it stops");
    let (node, _) = start(&place).await;
    assert_eq!(described(&node).await.founder, NodeId(own));
    assert_eq!(
        *node.router.locator.catalog.cluster(),
        described(&node).await,
        "found at the start, too"
    );
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn members_are_added_once_under_unique_names() {
    let place = Place::new();
    let (node, _) = start(&place).await;
    let Ok(Body::Joined(told, _)) = ask(&node, add(2, "n2", Part::Voter)).await else {
        panic!("a joiner is told whom it joins")
    };
    assert_eq!(*told, described(&node).await);
    let told_of = |node| told.members.iter().find(|known| known.node == NodeId(node));
    let incarnations = told_of(2).map(|known| known.incarnation);
    assert_eq!(incarnations, Some(0), "no life is on record before it is seen");
    let expected = parts(&[("n2", Part::Voter), ("node1", Part::Voter)]);
    assert_eq!(placed(&told, 0), expected);
    assert_eq!(*node.router.locator.catalog.cluster(), *told, "the catalog follows");
    let Ok(Body::Joined(again, _)) = ask(&node, add(2, "n2", Part::Voter)).await else {
        // As it was asked before: it may have missed the answer.
        panic!("a joiner may ask again")
    };
    assert_eq!(again, told);
    assert_eq!(reason(ask(&node, add(3, "n2", Part::Voter)).await), Reason::AlreadyExists);
    ask(&node, add(3, "n3", Part::Learner)).await.expect("added");
    let three = described(&node).await;
    assert!(placed(&three, 1).contains(&("n3".to_string(), Part::Learner)));
    let moved = ClusterCall::UpdateMember {
        node: NodeId(3),
        name: "n3b".into(),
        peer: "[::1]:3".into(),
        client: "[::1]:4".into(),
    };
    ask(&node, moved).await.expect("moved");
    assert_eq!(described(&node).await.members[1].peer, "[::1]:3");
    for (call, expected) in [
        (add(4, "bad name", Part::Voter), Reason::Malformed),
        (
            ClusterCall::AddMember {
                member: member(4, "n4"),
                part: Part::Voter,
                lease_ms: 2_000,
                level: FeatureLevel::HIGHEST,
            },
            Reason::NotSupported,
        ),
        (
            ClusterCall::UpdateMember {
                node: NodeId(9),
                name: "n9".into(),
                peer: "a:1".into(),
                client: "a:2".into(),
            },
            Reason::NotFound,
        ),
    ] {
        assert_eq!(reason(ask(&node, call.clone()).await), expected, "{call:?}");
    }
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn node_without_peer_address_refuses_new_members() {
    let place = Place::new();
    let node = place.start().await;
    let refused = ask(&node, add(2, "n2", Part::Voter)).await.expect_err("nobody reaches it");
    assert!(refused.text().contains("--peer-listen"), "{refused}");
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn group_parts_and_placement_change_and_last_voter_is_kept() {
    let place = Place::new();
    let (node, _) = start(&place).await;
    ask(&node, add(2, "n2", Part::Learner)).await.expect("added");
    let last = ask(&node, set_part("node1", None, None)).await.expect_err("nobody would lead");
    assert!(last.text().contains("credenza cluster promote"), "{last}");
    assert_eq!(reason(ask(&node, remove("node1")).await), Reason::Changed);
    ask(&node, set_part("n2", Some(Part::Voter), Some(1))).await.expect("promoted");
    let known = described(&node).await;
    assert!(placed(&known, 0).contains(&("n2".to_string(), Part::Learner)));
    assert!(placed(&known, 1).contains(&("n2".to_string(), Part::Voter)));
    let sole =
        ClusterCall::PlaceGroup { group: GroupId(1), members: parts(&[("n2", Part::Voter)]) };
    ask(&node, sole).await.expect("placed");
    assert_eq!(placed(&described(&node).await, 1), parts(&[("n2", Part::Voter)]));
    let twice = parts(&[("n2", Part::Voter), ("n2", Part::Learner)]);
    for (call, expected) in [
        (ClusterCall::PlaceGroup { group: GroupId(1), members: twice }, Reason::Malformed),
        (ClusterCall::PlaceGroup { group: GroupId(1), members: Vec::new() }, Reason::Changed),
        (ClusterCall::PlaceGroup { group: GroupId(9), members: Vec::new() }, Reason::NotFound),
        (set_part("n9", None, None), Reason::NotFound),
        (set_part("n2", None, Some(9)), Reason::NotFound),
        (set_part("n2", Some(Part::Witness), None), Reason::NotSupported),
    ] {
        assert_eq!(reason(ask(&node, call.clone()).await), expected, "{call:?}");
    }
    for number in 3..=8 {
        ask(&node, add(number, &format!("n{number}"), Part::Voter)).await.expect("added");
    }
    let known = described(&node).await;
    let voters = placed(&known, 0).iter().filter(|(_, part)| *part == Part::Voter).count();
    assert_eq!(voters, 7, "whoever comes when there are voters enough learns");
    assert!(placed(&known, 1).contains(&("n8".to_string(), Part::Voter)));
    let more = ask(&node, set_part("n2", Some(Part::Voter), None)).await;
    assert_eq!(reason(more), Reason::TooMany);
    node.stop().await.expect("it stops");
}

pub(super) fn remove(name: &str) -> ClusterCall {
    ClusterCall::RemoveMember { name: name.into() }
}

fn replace(name: &str, by: Option<&str>) -> ClusterCall {
    ClusterCall::ReplaceMember { name: name.into(), by: by.map(String::from) }
}

/// While a group goes from one configuration to the next it has no master for a moment.
async fn forget(node: &Node, member: u64) -> Result<()> {
    loop {
        match node.router.directory.remove_member(NodeId(member)).await {
            Err(error) if error.reason == Reason::NotMaster => tokio::task::yield_now().await,
            done => return done,
        }
    }
}

#[tokio::test]
async fn removed_member_stays_leaving_until_forgotten_and_can_not_return() {
    let place = Place::new();
    let (node, _) = start(&place).await;
    ask(&node, add(2, "n2", Part::Voter)).await.expect("added");
    ask(&node, remove("n2")).await.expect("removed");
    let known = described(&node).await;
    assert_eq!(placed(&known, 0), parts(&[("node1", Part::Voter)]));
    assert_eq!(
        known.members[0].membership,
        Membership::Leaving,
        "its row stays until its groups are left"
    );
    assert_eq!(reason(ask(&node, remove("n2")).await), Reason::NotFound);
    let back: Error = ask(&node, add(2, "n2", Part::Voter)).await.expect_err("it was removed");
    assert_eq!(back.reason, Reason::Forbidden);
    ask(&node, add(3, "n2", Part::Voter)).await.expect("the name is free");
    forget(&node, 3).await.expect("only who leaves is forgotten");
    assert_eq!(described(&node).await.members.len(), 3);
    forget(&node, 2).await.expect("forgotten");
    assert_eq!(described(&node).await.members.len(), 2);
    assert_eq!(*node.router.locator.catalog.cluster(), described(&node).await);
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn replaced_member_is_succeeded_by_fresh_namesake_or_other_member() {
    let place = Place::new();
    let (node, _) = start(&place).await;
    ask(&node, add(2, "n2", Part::Voter)).await.expect("added");
    ask(&node, set_part("n2", Some(Part::Learner), Some(1))).await.expect("set");
    ask(&node, replace("n2", None)).await.expect("its place waits");
    ask(&node, add(3, "n2", Part::Voter)).await.expect("a fresh node of the name");
    let known = described(&node).await;
    let stay = |node| {
        known.members.iter().find(|known| known.node == NodeId(node)).map(|known| known.membership)
    };
    assert_eq!((stay(2), stay(3)), (Some(Membership::Leaving), Some(Membership::Member)));
    assert!(placed(&known, 0).contains(&("n2".to_string(), Part::Voter)));
    assert!(placed(&known, 1).contains(&("n2".to_string(), Part::Learner)), "the same parts");
    assert_eq!(known.groups[0].members.len(), 2, "the old one has none any more");
    ask(&node, add(4, "n4", Part::Learner)).await.expect("added");
    ask(&node, replace("n2", Some("n4"))).await.expect("at once");
    let known = described(&node).await;
    assert!(placed(&known, 0).contains(&("n4".to_string(), Part::Voter)));
    assert_eq!(reason(ask(&node, replace("n4", Some("n4"))).await), Reason::Changed);
    assert_eq!(reason(ask(&node, replace("n4", Some("n5"))).await), Reason::NotFound);
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn member_beyond_group_limit_is_refused() {
    let place = Place::new();
    let (node, _) = start(&place).await;
    for number in 2..=GROUP_MEMBERS_MAX as u64 {
        ask(&node, add(number, &format!("n{number}"), Part::Learner)).await.expect("fits");
    }
    let more = ask(&node, add(999, "more", Part::Learner)).await;
    assert_eq!(reason(more), Reason::TooMany);
    assert_eq!(described(&node).await.members.len(), GROUP_MEMBERS_MAX);
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn sole_node_may_change_its_lease_and_a_member_may_not() {
    let place = Place::new();
    let (node, _) = start(&place).await;
    node.stop().await.expect("it stops");
    let longer = NodeSettings { lease_ms: 2_000, ..settings(&place) };
    let node = Node::start(longer.clone()).await.expect("it starts");
    assert_eq!(described(&node).await.lease_ms, 2_000);
    ask(
        &node,
        ClusterCall::AddMember {
            member: member(2, "n2"),
            part: Part::Learner,
            lease_ms: 2_000,
            level: FeatureLevel::HIGHEST,
        },
    )
    .await
    .expect("added");
    let known = || node.cluster.data.get().as_ref().map(|data| data.members());
    let written = || {
        known().and_then(|known| known.ok().flatten()).is_some_and(|known| known.members.len() == 2)
    };
    wait("the list of members", || written().then_some(())).await;
    node.stop().await.expect("it stops");
    let other = Node::start(settings(&place)).await.err().expect("the others have another");
    assert!(other.text().contains("--lease-ms 2000"), "{other}");
    let alone = NodeSettings { peers: None, ..longer };
    let alone = Node::start(alone).await.err().expect("it is one of two");
    assert!(alone.text().contains("--peer-listen"), "{alone}");
}

#[tokio::test]
async fn witness_keeps_its_part_and_every_majority_holds_data() {
    let place = Place::new();
    let (node, _) = start(&place).await;
    let (voter, witness) = (Part::Voter, Part::Witness);
    ask(&node, add(2, "n2", voter)).await.expect("added");
    ask(&node, add(3, "w", witness)).await.expect("added");
    let known = described(&node).await;
    for group in [0, 1] {
        assert!(placed(&known, group).contains(&("w".to_string(), witness)));
    }
    assert!(known.is_witness(NodeId(3)) && !known.is_witness(NodeId(2)));
    let placing = |group, members: &[(&str, Part)]| ClusterCall::PlaceGroup {
        group: GroupId(group),
        members: parts(members),
    };
    for (call, expected) in [
        (set_part("w", Some(voter), None), Reason::NotSupported),
        (set_part("w", Some(Part::Learner), Some(1)), Reason::NotSupported),
        (set_part("n2", Some(witness), None), Reason::NotSupported),
        (set_part("w", None, None), Reason::NotSupported),
        (set_part("w", None, Some(0)), Reason::NotSupported),
        (placing(1, &[("n2", voter), ("w", voter)]), Reason::NotSupported),
        (placing(0, &[("node1", voter), ("n2", voter)]), Reason::NotSupported),
        (placing(1, &[("w", witness)]), Reason::Changed),
    ] {
        assert_eq!(reason(ask(&node, call.clone()).await), expected, "{call:?}");
    }
    ask(&node, set_part("w", None, Some(1))).await.expect("of another group it may be none");
    ask(&node, set_part("w", Some(witness), Some(1))).await.expect("and again");
    ask(&node, add(4, "w2", witness)).await.expect("two and two");
    let third = ask(&node, add(5, "w3", witness)).await.expect_err("three of five, without data");
    assert!(third.text().contains("more witnesses"), "{third}");
    // The successor of a witness is what it joined as, and the other way round.
    ask(&node, replace("w2", None)).await.expect("its place waits");
    ask(&node, add(6, "w2", voter)).await.expect("a fresh node of the name");
    assert!(placed(&described(&node).await, 1).contains(&("w2".to_string(), voter)));
    ask(&node, replace("n2", Some("w"))).await.expect("at once");
    let known = described(&node).await;
    let remaining = parts(&[("node1", voter), ("w", witness), ("w2", voter)]);
    let mut found = placed(&known, 1);
    found.sort();
    assert_eq!(found, {
        let mut remaining = remaining;
        remaining.sort();
        remaining
    });
    node.stop().await.expect("it stops");
}

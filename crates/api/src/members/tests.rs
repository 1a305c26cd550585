//! Members and placement as JSON.

use super::*;
use base::NodeId;

fn description() -> ClusterDescription {
    let member = |node: u64, membership| MemberDescription {
        node: NodeId(node),
        name: format!("n{node}"),
        peer: String::new(),
        client: "[::1]:7711".into(),
        incarnation: node,
        membership,
    };
    let statuses = [Membership::Member, Membership::Leaving, Membership::Replaceable];
    ClusterDescription {
        cluster: base::ClusterId(u64::MAX),
        founder: NodeId(7),
        lease_ms: 600,
        changes: 12,
        level: FeatureLevel(2),
        members: (1..).zip(statuses).map(|(node, membership)| member(node, membership)).collect(),
        groups: vec![Placement {
            group: GroupId(1),
            members: Part::ALL.into_iter().map(|part| (NodeId(9), part)).collect(),
            replicas: 3,
            founders: vec![NodeId(u64::MAX), NodeId(9)],
            quorum: Some(2),
        }],
    }
}

#[test]
fn members_and_join_reply_json_round_trip() {
    let secret = ClusterSecret::new([0xA5; ClusterSecret::BYTES]);
    for description in [description(), ClusterDescription::default()] {
        let text = serde_json::to_string(&Members::from(&description)).expect("JSON");
        let joined: JoinReply = serde_json::from_str(&text).expect("no secret");
        assert_eq!(joined.secret, None);
        assert_eq!(ClusterDescription::from(joined.members), description);
        let reply = JoinReply::new(&description, &secret);
        let text = serde_json::to_string(&reply).expect("JSON");
        assert_eq!(serde_json::from_str::<JoinReply>(&text).ok(), Some(reply));
    }
}

#[test]
fn unknown_fields_are_ignored_in_replies_and_rejected_in_requests() {
    let group = r#"{"group":1,"members":[],"quorum":null,"colour":"red"}"#;
    let placement: GroupPlacement = serde_json::from_str(group).expect("an answer");
    assert_eq!((placement.group, placement.replicas), (1, 0));
    assert!(serde_json::from_str::<Replacement>(r#"{"by":"n1","colour":"red"}"#).is_err());
    assert!(serde_json::from_str::<DesiredQuorum>("{}").is_err(), "null is said");
}

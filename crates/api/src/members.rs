//! Members and placement: what the directory knows of them, and the changes that operators and
//! joining nodes ask for.

use crate::number::{HexId, Whole};
use crate::schema::{MemberName, MembershipWord, NodeAddress, PartWord, VoterCount, one_of};
use crate::words;
use base::limits::{GROUP_MEMBERS_MAX, GROUP_VOTERS_MAX, JOIN_TOKEN_MS_DEFAULT, JOIN_TOKEN_MS_MAX};
use base::{
    ClusterDescription, ClusterSecret, GroupId, MemberDescription, Membership, Part, Placement,
};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

/// Members of the cluster, and the placement of its groups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Members {
    /// The cluster's durable id.
    pub cluster: HexId,
    /// The node that made the cluster; it may have left since.
    pub founder: HexId,
    /// Lease of masters, milliseconds.
    pub lease_ms: u64,
    /// Number of changes that led here: of two descriptions the one with more is the newer.
    pub changes: u64,
    /// The members.
    pub members: Vec<MemberReply>,
    /// The groups.
    pub groups: Vec<GroupPlacement>,
}

/// A member as the directory knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemberReply {
    /// The node's durable id.
    pub node: HexId,
    /// The node's name.
    pub name: String,
    /// Address at which other nodes reach it.
    pub peer: String,
    /// Address at which clients reach it.
    pub client: String,
    /// Number of times that the node has started on its data.
    pub incarnation: u64,
    /// Membership: a member, leaving, or replaceable by a fresh node of its name.
    #[serde(with = "words")]
    #[schemars(with = "MembershipWord")]
    pub membership: Membership,
}

/// Placement of a group: the members that it is to have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Group")]
pub struct GroupPlacement {
    /// The group's number.
    pub group: u32,
    /// The members that it is to have.
    pub members: Vec<PlacedPart>,
    /// Number of voters that it is to have; 0: every node that joins gets a part.
    #[serde(default)]
    pub replicas: u32,
    /// The voters with which it began; none: it began with the cluster's founder alone.
    #[serde(default)]
    pub founders: Vec<HexId>,
    /// Number of voters that save a value before it is decided; null: a majority.
    #[schemars(with = "Option<VoterCount>")]
    pub quorum: Option<u8>,
}

/// A node's part in a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlacedPart {
    /// The node's durable id.
    pub node: HexId,
    /// Its part.
    #[serde(with = "words")]
    #[schemars(with = "PartWord")]
    pub part: Part,
}

/// Answer to a node that joins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Joined {
    /// Members and placement.
    #[serde(flatten)]
    pub members: Members,
    /// Secret by which the members sign their greetings to each other. A cluster that was founded
    /// by an older version and was given none has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[0-9a-f]{64}$"))]
    pub secret: Option<String>,
}

impl Joined {
    /// Returns what a node is told that joins a cluster with this secret.
    pub fn new(known: &ClusterDescription, secret: &ClusterSecret) -> Joined {
        Joined { members: known.into(), secret: Some(secret.to_hex()) }
    }
}

impl From<&ClusterDescription> for Members {
    fn from(known: &ClusterDescription) -> Members {
        Members {
            cluster: known.cluster.into(),
            founder: known.founder.into(),
            lease_ms: known.lease_ms,
            changes: known.changes,
            members: known.members.iter().map(MemberReply::from).collect(),
            groups: known.groups.iter().map(GroupPlacement::from).collect(),
        }
    }
}

impl From<Members> for ClusterDescription {
    fn from(known: Members) -> ClusterDescription {
        ClusterDescription {
            cluster: base::ClusterId(known.cluster.0),
            founder: known.founder.into(),
            lease_ms: known.lease_ms,
            changes: known.changes,
            members: known.members.into_iter().map(MemberDescription::from).collect(),
            groups: known.groups.into_iter().map(Placement::from).collect(),
        }
    }
}

impl From<&MemberDescription> for MemberReply {
    fn from(member: &MemberDescription) -> MemberReply {
        let MemberDescription { node, name, peer, client, incarnation, membership } = member;
        MemberReply {
            node: (*node).into(),
            name: name.clone(),
            peer: peer.clone(),
            client: client.clone(),
            incarnation: *incarnation,
            membership: *membership,
        }
    }
}

impl From<MemberReply> for MemberDescription {
    fn from(member: MemberReply) -> MemberDescription {
        let MemberReply { node, name, peer, client, incarnation, membership } = member;
        MemberDescription { node: node.into(), name, peer, client, incarnation, membership }
    }
}

impl From<&Placement> for GroupPlacement {
    fn from(placement: &Placement) -> GroupPlacement {
        let placed = placement.members.iter();
        GroupPlacement {
            group: placement.group.0,
            members: placed
                .map(|(node, part)| PlacedPart { node: (*node).into(), part: *part })
                .collect(),
            replicas: placement.replicas,
            founders: placement.founders.iter().map(|node| (*node).into()).collect(),
            quorum: placement.quorum,
        }
    }
}

impl From<GroupPlacement> for Placement {
    fn from(placement: GroupPlacement) -> Placement {
        let placed = placement.members.into_iter();
        Placement {
            group: GroupId(placement.group),
            members: placed.map(|placed| (placed.node.into(), placed.part)).collect(),
            replicas: placement.replicas,
            founders: placement.founders.into_iter().map(Into::into).collect(),
            quorum: placement.quorum,
        }
    }
}

/// A node that joins.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewMember {
    /// The node's durable id.
    #[schemars(with = "HexId")]
    pub node: String,
    /// The node's name.
    #[schemars(with = "MemberName")]
    pub name: String,
    /// Address at which other nodes reach it.
    #[schemars(with = "NodeAddress")]
    pub peer: String,
    /// Address at which clients reach it.
    #[schemars(with = "NodeAddress")]
    pub client: String,
    /// Part in the groups that it gets into; a vote, unless it says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<PartWord>")]
    pub part: Option<String>,
    /// Lease of masters that it is set to, milliseconds: the cluster's own.
    #[schemars(range(min = 1, max = u32::MAX))]
    pub lease_ms: Whole,
}

/// A member whose name or addresses are others now.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangedMember {
    /// The node's durable id.
    #[schemars(with = "HexId")]
    pub node: String,
    /// The node's name.
    #[schemars(with = "MemberName")]
    pub name: String,
    /// Address at which other nodes reach it.
    #[schemars(with = "NodeAddress")]
    pub peer: String,
    /// Address at which clients reach it.
    #[schemars(with = "NodeAddress")]
    pub client: String,
}

/// Replacement of a member.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Replacement {
    /// The member that takes the place; null: the next fresh node of the name that joins.
    #[schemars(with = "Option<MemberName>")]
    pub by: Option<String>,
}

/// Change of a member's part.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SetPart")]
pub struct PartChange {
    /// The part; `none` takes the member out.
    #[schemars(schema_with = "part_or_none")]
    pub part: String,
    /// The group; null: every group.
    #[schemars(range(max = u32::MAX))]
    pub group: Option<Whole>,
}

/// Desired members of a group.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DesiredMembers {
    /// The members that it is to have, and no others.
    #[schemars(length(max = GROUP_MEMBERS_MAX))]
    pub members: Vec<DesiredMember>,
}

/// A desired member of a group.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DesiredMember {
    /// The node's name.
    #[schemars(with = "MemberName")]
    pub name: String,
    /// Its part.
    #[schemars(with = "PartWord")]
    pub part: String,
}

/// Number of voters that save a value before it is decided.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DesiredQuorum {
    /// The number; null: a majority.
    // Null is said, not left out.
    #[serde(deserialize_with = "Option::deserialize")]
    #[schemars(schema_with = "quorum")]
    pub quorum: Option<Whole>,
}

/// A group that is to be made: with so many voters, or with these.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("not" = {
    "required": ["replicas", "members"],
    "properties": {
        "replicas": { "type": "integer" }, "members": { "type": "array", "minItems": 1 },
    },
}))]
pub struct NewGroup {
    /// Number of its voters, on members that are in the fewest groups.
    #[schemars(range(min = 1, max = GROUP_VOTERS_MAX))]
    pub replicas: Option<Whole>,
    /// Its voters by name.
    #[schemars(with = "Option<Vec<MemberName>>", length(max = GROUP_VOTERS_MAX))]
    #[schemars(extend("uniqueItems" = true))]
    pub members: Option<Vec<String>>,
}

/// A join token that is to be made.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("not" = {
    "required": ["lifetime_ms", "standing"],
    "properties": { "lifetime_ms": { "type": "integer" }, "standing": { "const": true } },
}))]
pub struct NewToken {
    /// Time for which it lets nodes in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = JOIN_TOKEN_MS_MAX))]
    #[schemars(extend("default" = JOIN_TOKEN_MS_DEFAULT))]
    pub lifetime_ms: Option<Whole>,
    /// True if it lets nodes in until all tokens are revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    pub standing: Option<bool>,
}

/// A join token that was made.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "JoinToken")]
pub struct JoinTokenReply {
    /// The token; it is told once.
    pub token: String,
    /// Time for which it lets nodes in; null: until all tokens are revoked.
    #[schemars(range(min = 1))]
    pub lifetime_ms: Option<u64>,
    /// The cluster's durable id.
    #[serde(default)]
    pub cluster: HexId,
}

/// Transfer of a group's mastership.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Transfer")]
pub struct MasterTransfer {
    /// Name of the voter that is to be master.
    #[schemars(with = "MemberName")]
    pub to: String,
}

fn quorum(generator: &mut SchemaGenerator) -> Schema {
    Option::<VoterCount>::json_schema(generator)
}

fn part_or_none(_: &mut SchemaGenerator) -> Schema {
    one_of(&["voter", "learner", "witness", "none"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::NodeId;

    fn known() -> ClusterDescription {
        let member = |node: u64, membership| MemberDescription {
            node: NodeId(node),
            name: format!("n{node}"),
            peer: String::new(),
            client: "[::1]:7711".into(),
            incarnation: node,
            membership,
        };
        let stays = [Membership::Member, Membership::Leaving, Membership::Replaceable];
        ClusterDescription {
            cluster: base::ClusterId(u64::MAX),
            founder: NodeId(7),
            lease_ms: 600,
            changes: 12,
            members: (1..).zip(stays).map(|(node, membership)| member(node, membership)).collect(),
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
    fn what_the_directory_knows_is_read_as_it_was_written() {
        let secret = ClusterSecret::new([0xA5; ClusterSecret::BYTES]);
        for known in [known(), ClusterDescription::default()] {
            let text = serde_json::to_string(&Members::from(&known)).expect("JSON");
            let joined: Joined = serde_json::from_str(&text).expect("a cluster without a secret");
            assert_eq!(joined.secret, None);
            assert_eq!(ClusterDescription::from(joined.members), known);
            let told = Joined::new(&known, &secret);
            let text = serde_json::to_string(&told).expect("JSON");
            assert_eq!(serde_json::from_str::<Joined>(&text).ok(), Some(told));
        }
    }

    #[test]
    fn fields_of_later_versions_are_passed_over_in_answers_and_refused_in_requests() {
        let group = r#"{"group":1,"members":[],"quorum":null,"colour":"red"}"#;
        let read: GroupPlacement = serde_json::from_str(group).expect("an answer");
        assert_eq!((read.group, read.replicas), (1, 0));
        assert!(serde_json::from_str::<Replacement>(r#"{"by":"n1","colour":"red"}"#).is_err());
        assert!(serde_json::from_str::<DesiredQuorum>("{}").is_err(), "null is said");
    }
}

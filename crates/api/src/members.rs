//! Members and placement: their state in the directory, and the changes that operators and joining
//! nodes request.

use crate::names;
use crate::number::{HexId, Integer};
use crate::schema::{MemberName, MembershipName, NodeAddress, PartName, VoterCount, one_of};
use crate::secret_text::SecretText;
use base::limits::{
    GROUP_MEMBERS_MAX, GROUP_VOTERS_MAX, JOIN_TOKEN_MS_DEFAULT, JOIN_TOKEN_MS_MAX,
    JOIN_TOKEN_USES_MAX,
};
use base::{
    ClusterDescription, ClusterSecret, FeatureLevel, GroupId, MemberDescription, Membership, Part,
    Placement,
};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

/// Members of the cluster, and placement of its groups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Members {
    /// Durable id of the cluster.
    pub cluster: HexId,
    /// Durable id of the node that founded the cluster. The node may have left since.
    pub founder: HexId,
    /// Time for which voters wait for a silent master, in milliseconds; a lease is half of it.
    pub lease_ms: u64,
    /// Number of changes of members and placement; the description with the higher number is newer.
    pub changes: u64,
    /// Feature level in force; absent in answers of nodes of level 1.
    #[serde(default = "first_level")]
    pub level: u16,
    /// Members of the cluster.
    pub members: Vec<MemberReply>,
    /// Placement of the groups.
    pub groups: Vec<GroupPlacement>,
}

/// Member as stored in the directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemberReply {
    /// Durable id of the node.
    pub node: HexId,
    /// Name of the node.
    pub name: String,
    /// Peer address: host and port for connections from other nodes.
    pub peer: String,
    /// Client address: host and port for connections from clients.
    pub client: String,
    /// Incarnation: number of times that the node has started with its data directory.
    pub incarnation: u64,
    /// Membership: `member`, `leaving`, or `replaceable` by a new node with the same name.
    #[serde(with = "names")]
    #[schemars(with = "MembershipName")]
    pub membership: Membership,
}

/// Placement of a group: its desired members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Group")]
pub struct GroupPlacement {
    /// Number of the group.
    pub group: u32,
    /// Desired members.
    pub members: Vec<PlacedPart>,
    /// Desired number of voters; 0: every node that joins gets a part in the group.
    #[serde(default)]
    pub replicas: u32,
    /// Durable ids of the group's first voters; empty: only the founder of the cluster.
    #[serde(default)]
    pub founders: Vec<HexId>,
    /// Write quorum: number of voters that must save an entry; null: a majority.
    #[schemars(with = "Option<VoterCount>")]
    pub quorum: Option<u8>,
}

/// Part of a node in a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlacedPart {
    /// Durable id of the node.
    pub node: HexId,
    /// Part of the node in the group.
    #[serde(with = "names")]
    #[schemars(with = "PartName")]
    pub part: Part,
}

/// Response to a node that joins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Joined")]
pub struct JoinReply {
    /// Members and placement.
    #[serde(flatten)]
    pub members: Members,
    /// Cluster secret, by which members authenticate peer connections. Absent in a cluster that an
    /// older version founded and that has no secret yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[0-9a-f]{64}$"))]
    pub secret: Option<SecretText>,
}

impl JoinReply {
    /// Returns the response to a node that joins a cluster with this secret.
    pub fn new(description: &ClusterDescription, secret: &ClusterSecret) -> JoinReply {
        JoinReply { members: description.into(), secret: Some(secret.to_hex().into()) }
    }
}

impl From<&ClusterDescription> for Members {
    fn from(description: &ClusterDescription) -> Members {
        Members {
            cluster: description.cluster.into(),
            founder: description.founder.into(),
            lease_ms: description.lease_ms,
            changes: description.changes,
            level: description.level.0,
            members: description.members.iter().map(MemberReply::from).collect(),
            groups: description.groups.iter().map(GroupPlacement::from).collect(),
        }
    }
}

impl From<Members> for ClusterDescription {
    fn from(description: Members) -> ClusterDescription {
        ClusterDescription {
            cluster: base::ClusterId(description.cluster.0),
            founder: description.founder.into(),
            lease_ms: description.lease_ms,
            changes: description.changes,
            level: FeatureLevel(description.level),
            members: description.members.into_iter().map(MemberDescription::from).collect(),
            groups: description.groups.into_iter().map(Placement::from).collect(),
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
        let members = placement.members.iter();
        GroupPlacement {
            group: placement.group.0,
            members: members
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
        let members = placement.members.into_iter();
        Placement {
            group: GroupId(placement.group),
            members: members.map(|member| (member.node.into(), member.part)).collect(),
            replicas: placement.replicas,
            founders: placement.founders.into_iter().map(Into::into).collect(),
            quorum: placement.quorum,
        }
    }
}

/// Node that joins the cluster.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewMember {
    /// Durable id of the node.
    #[schemars(with = "HexId")]
    pub node: String,
    /// Name of the node.
    #[schemars(with = "MemberName")]
    pub name: String,
    /// Peer address: host and port for connections from other nodes.
    #[schemars(with = "NodeAddress")]
    pub peer: String,
    /// Client address: host and port for connections from clients.
    #[schemars(with = "NodeAddress")]
    pub client: String,
    /// Part in the groups that the node becomes a member of; `voter` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<PartName>")]
    pub part: Option<String>,
    /// Setting `lease_ms` of the node, in milliseconds; it must equal the cluster's.
    #[schemars(range(min = 1, max = u32::MAX))]
    pub lease_ms: Integer,
    /// Highest feature level that the node's program knows; it must be at least the cluster's. 1 by
    /// default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = u16::MAX))]
    pub level: Option<Integer>,
}

/// Feature level to bring into force.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RaiseLevel")]
pub struct LevelChange {
    /// The level. Every member's program must know it, and be there; it is never lowered again.
    #[schemars(range(min = 1, max = u16::MAX))]
    pub level: Integer,
}

/// New name or addresses of a member.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "ChangedMember", deny_unknown_fields)]
pub struct MemberUpdate {
    /// Durable id of the node.
    #[schemars(with = "HexId")]
    pub node: String,
    /// New name of the node.
    #[schemars(with = "MemberName")]
    pub name: String,
    /// Peer address: host and port for connections from other nodes.
    #[schemars(with = "NodeAddress")]
    pub peer: String,
    /// Client address: host and port for connections from clients.
    #[schemars(with = "NodeAddress")]
    pub client: String,
}

/// Replacement of a member.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Replacement {
    /// Name of the member that takes over; null: the next new node with the same name that joins.
    #[schemars(with = "Option<MemberName>")]
    pub by: Option<String>,
}

/// Change of a member's part.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SetPart")]
pub struct PartChange {
    /// New part; `none` removes the member from the group.
    #[schemars(schema_with = "part_or_none")]
    pub part: String,
    /// Number of the group; null: all groups.
    #[schemars(range(max = u32::MAX))]
    pub group: Option<Integer>,
}

/// Desired members of a group.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DesiredMembers {
    /// Complete list of the desired members.
    #[schemars(length(max = GROUP_MEMBERS_MAX))]
    pub members: Vec<DesiredMember>,
}

/// Desired member of a group.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DesiredMember {
    /// Name of the node.
    #[schemars(with = "MemberName")]
    pub name: String,
    /// Part of the node in the group.
    #[schemars(with = "PartName")]
    pub part: String,
}

/// Write quorum of a group.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DesiredQuorum {
    /// Number of voters that must save an entry; null: a majority.
    // Required: null must be explicit.
    #[serde(deserialize_with = "Option::deserialize")]
    #[schemars(schema_with = "quorum")]
    pub quorum: Option<Integer>,
}

/// Group to create: either a number of voters, or their names.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("not" = {
    "required": ["replicas", "members"],
    "properties": {
        "replicas": { "type": "integer" }, "members": { "type": "array", "minItems": 1 },
    },
}))]
pub struct NewGroup {
    /// Number of voters, placed on the members with the fewest groups.
    #[schemars(range(min = 1, max = GROUP_VOTERS_MAX))]
    pub replicas: Option<Integer>,
    /// Names of the voters.
    #[schemars(with = "Option<Vec<MemberName>>", length(max = GROUP_VOTERS_MAX))]
    #[schemars(extend("uniqueItems" = true))]
    pub members: Option<Vec<String>>,
}

/// Join token to create.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("not" = {
    "allOf": [
        { "required": ["standing"], "properties": { "standing": { "const": true } } },
        { "anyOf": [
            { "required": ["lifetime_ms"], "properties": { "lifetime_ms": { "type": "integer" } } },
            { "required": ["uses"], "properties": { "uses": { "type": "integer" } } },
        ] },
    ],
}))]
pub struct NewToken {
    /// Lifetime of the token in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = JOIN_TOKEN_MS_MAX))]
    #[schemars(extend("default" = JOIN_TOKEN_MS_DEFAULT))]
    pub lifetime_ms: Option<Integer>,
    /// Number of nodes that the token lets in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = JOIN_TOKEN_USES_MAX))]
    #[schemars(extend("default" = 1))]
    pub uses: Option<Integer>,
    /// True if the token lets in any number of nodes, until all tokens are revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    pub standing: Option<bool>,
}

/// Join token that was created.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "JoinToken")]
pub struct JoinTokenReply {
    /// Token; it is returned only once.
    pub token: SecretText,
    /// Lifetime of the token in milliseconds; null: valid until all tokens are revoked.
    #[schemars(range(min = 1))]
    pub lifetime_ms: Option<u64>,
    /// Number of nodes that the token lets in; null: any number.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub uses: Option<u32>,
    /// Durable id of the cluster.
    #[serde(default)]
    pub cluster: HexId,
}

/// Transfer of a group's mastership.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Transfer")]
pub struct MasterTransfer {
    /// Name of the voter that becomes master.
    #[schemars(with = "MemberName")]
    pub to: String,
}

fn first_level() -> u16 {
    FeatureLevel::FIRST.0
}

fn quorum(generator: &mut SchemaGenerator) -> Schema {
    Option::<VoterCount>::json_schema(generator)
}

fn part_or_none(_: &mut SchemaGenerator) -> Schema {
    one_of(&["voter", "learner", "witness", "none"])
}

#[cfg(test)]
mod tests;

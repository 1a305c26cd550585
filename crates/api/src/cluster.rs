//! The cluster as one node sees it: `GET /v1/cluster`.

use crate::alarm::Alarm;
use crate::names;
use crate::number::HexId;
use crate::schema::{MembershipName, PartName, one_of};
use base::{Membership, Part};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

/// Cluster as one node sees it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "Cluster")]
pub struct ClusterStatus {
    /// Durable id of the cluster.
    pub cluster: HexId,
    /// Durable id of the node that founded the cluster. The node may have left since.
    pub founder: HexId,
    /// Time for which voters wait for a silent master, in milliseconds; a lease is half of it.
    pub lease_ms: u64,
    /// Number of changes of members and placement that this node has applied.
    pub changes: u64,
    /// Feature level in force.
    pub level: u16,
    /// Name of the node that answers.
    pub name: String,
    /// Members, each with the connection from this node.
    pub members: Vec<MemberStatus>,
    /// Groups, with their desired and present members.
    pub groups: Vec<PlaceStatus>,
    /// Alarms of this node that need an operator's attention, most severe first.
    pub alarms: Vec<Alarm>,
}

/// Member, and the connection to it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MemberStatus {
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
    /// True if this node is connected to the member; always true for itself.
    pub connected: bool,
    /// Milliseconds since the last message from the member; null: none was received.
    pub last_heard_ms_ago: Option<u64>,
    /// Milliseconds since the connection was lost; null: connected, or this node does not dial the
    /// member.
    pub unreachable_ms: Option<u64>,
    /// Round-trip time in microseconds; 0: not measured.
    pub rtt_us: u64,
    /// Error of the last connection attempt; null while connected.
    pub connection_error: Option<String>,
    /// Health of the member, by the failure detector of this node.
    #[schemars(schema_with = "health")]
    pub health: String,
    /// Number of rows of available buckets that this node stores as hints for the member.
    pub hints: u64,
    /// Highest feature level that the member's program knows; null: not known yet.
    pub level: Option<u16>,
}

/// Group: its desired members, its present members, and the steps from these to those.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PlaceStatus {
    /// Number of the group.
    pub group: u32,
    /// True if this node is a member of the group; otherwise `members` is unknown.
    pub local: bool,
    /// Name of the master; null: no master is known.
    pub master: Option<String>,
    /// Desired members.
    pub desired: Vec<GroupMember>,
    /// Present members.
    pub members: Vec<GroupMember>,
    /// Write quorum: number of voters that must save an entry; null: unknown at this node.
    pub quorum: Option<u64>,
    /// Election quorum: number of voters that must elect a master; null: unknown at this node.
    pub quorum_elects: Option<u64>,
    /// Planned steps from the present members to the desired ones, in words.
    pub plan: Vec<String>,
    /// Conditions that the next step waits for, in words.
    pub waits_for: Vec<String>,
    /// True if the group stays available while this node restarts.
    pub expect_progress_possible: bool,
    /// Comparison of the replicas; null: this node is not the master, or there was no comparison
    /// yet.
    pub comparison: Option<Comparison>,
}

/// Member of a group.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct GroupMember {
    /// Durable id of the node.
    #[serde(default)]
    pub node: HexId,
    /// Name of the node.
    pub name: String,
    /// Part of the node in the group.
    #[serde(with = "names")]
    #[schemars(with = "PartName")]
    pub part: Part,
    /// Highest log index known to be on the member's disk. The master knows it for all members.
    pub match_index: Option<u64>,
}

/// Comparison of a group's replicas.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Comparison {
    /// True if a comparison of all rows is running.
    pub running: bool,
    /// Number of comparisons that ended since this node became master, failed ones included.
    pub passes: u64,
    /// Error of the last comparison; null: no error.
    pub error: Option<String>,
    /// Milliseconds since the last complete comparison; null: none was completed.
    pub ended_ms_ago: Option<u64>,
    /// Number of the master's rows compared in the running comparison, or in the last one.
    pub rows: u64,
    /// Size of these rows in bytes.
    pub bytes: u64,
    /// Other replicas, with the number of rows compared.
    pub replicas: Vec<ComparedReplica>,
    /// Key ranges in which replicas differ, a limited number.
    pub differences: Vec<Difference>,
}

/// Replica that was compared with the master's.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ComparedReplica {
    /// Name of the replica's node.
    pub name: String,
    /// Number of its rows that were compared.
    pub rows: u64,
}

/// Key range in which replicas have different rows.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Difference {
    /// Name of the bucket; null: internal rows of the group.
    pub bucket: Option<String>,
    /// First key of the range (inclusive), as escaped text.
    pub from: String,
    /// End of the range (exclusive), as escaped text; empty: the end of the bucket.
    pub upto: String,
    /// Sets of replicas, by node name, that have the same rows; largest set first.
    pub agreeing: Vec<Vec<String>>,
    /// Description of the difference in one sentence.
    pub text: String,
}

/// Comparison that was requested by `POST /v1/cluster/groups/{group}/verify`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Pass")]
pub struct ComparisonPass {
    /// Number of the comparison; it has ended once `passes` of the group's `comparison` reaches it.
    pub pass: u64,
}

fn health(_: &mut SchemaGenerator) -> Schema {
    one_of(&["up", "suspect", "down"])
}

//! The cluster as one node sees it: `GET /v1/cluster`.

use crate::number::HexId;
use crate::schema::{MembershipWord, PartWord, one_of};
use crate::words;
use base::{Membership, Part};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

/// The cluster as a node sees it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "Cluster")]
pub struct ClusterStatus {
    /// The cluster's durable id.
    pub cluster: HexId,
    /// The node that made the cluster; it may have left since.
    pub founder: HexId,
    /// Lease of masters, milliseconds.
    pub lease_ms: u64,
    /// Number of changes of members and placement that this node knows.
    pub changes: u64,
    /// The name of the node that says this.
    pub name: String,
    /// The members, each with this node's connection to it.
    pub members: Vec<MemberStatus>,
    /// The groups that have a place.
    pub groups: Vec<PlaceStatus>,
    /// Alarms that an operator should know and act on, the gravest first.
    pub warnings: Vec<String>,
}

/// A member, with the connection to it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MemberStatus {
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
    /// True if there is a connection to it; a node has one to itself.
    pub connected: bool,
    /// Milliseconds since its last message; null: there was none.
    pub last_heard_ms_ago: Option<u64>,
    /// Milliseconds without a connection; null: there is one, or this node does not dial it.
    pub unreachable_ms: Option<u64>,
    /// Round trip to it, microseconds; 0: not measured.
    pub rtt_us: u64,
    /// Error of the last attempt to connect, while there is no connection.
    pub connection_error: Option<String>,
    /// Its health by this node's failure detector.
    #[schemars(schema_with = "health")]
    pub health: String,
    /// Rows of available buckets that are stored here as hints for it.
    pub hints: u64,
}

/// A group: its desired members, its members, and the way from these to those.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PlaceStatus {
    /// The group's number.
    pub group: u32,
    /// True if this node is a member of the group; otherwise `members` is unknown.
    pub local: bool,
    /// The master's name; null: none is known.
    pub master: Option<String>,
    /// Members as configured.
    pub desired: Vec<GroupMember>,
    /// Members at present.
    pub members: Vec<GroupMember>,
    /// Number of voters that save a value before it is decided; null: unknown here.
    pub quorum: Option<u64>,
    /// Number of voters that elect a master; null: unknown here.
    pub quorum_elects: Option<u64>,
    /// Steps from the present members to the desired ones, in words.
    pub plan: Vec<String>,
    /// Conditions that the next step waits for, in words.
    pub waits_for: Vec<String>,
    /// True if the group goes on while this node is restarted.
    pub expect_progress_possible: bool,
    /// Comparison of its replicas; null: only its master knows, or there was none yet.
    pub comparison: Option<Comparison>,
}

/// A member of a group.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct GroupMember {
    /// The node's durable id.
    #[serde(default)]
    pub node: HexId,
    /// The node's name.
    pub name: String,
    /// The node's part in the group.
    #[serde(with = "words")]
    #[schemars(with = "PartWord")]
    pub part: Part,
    /// Highest log index known to be on its disk; the master knows it of all members.
    pub match_index: Option<u64>,
}

/// Comparison of a group's replicas.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Comparison {
    /// True if a pass over all rows is under way.
    pub running: bool,
    /// Passes that ended since this node is master, also those that broke off.
    pub passes: u64,
    /// Error that broke the last pass off.
    pub error: Option<String>,
    /// Milliseconds since the last whole pass; null: there was none.
    pub ended_ms_ago: Option<u64>,
    /// The master's rows that were compared in the pass that runs, or ran last.
    pub rows: u64,
    /// Bytes of these rows.
    pub bytes: u64,
    /// The other replicas.
    pub replicas: Vec<ComparedReplica>,
    /// Places where replicas differ, a few at most.
    pub differences: Vec<Difference>,
}

/// A replica that was compared with the master's.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ComparedReplica {
    /// Name of its node.
    pub name: String,
    /// Rows of it that were compared.
    pub rows: u64,
}

/// A range of keys in which replicas do not hold the same.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Difference {
    /// The bucket; null: what the group keeps for itself.
    pub bucket: Option<String>,
    /// The first key, as escaped text.
    pub from: String,
    /// The first key behind, as escaped text; empty: the bucket's end.
    pub upto: String,
    /// Replicas by name, in sets that hold the same rows; the largest set first.
    pub agreeing: Vec<Vec<String>>,
    /// Sentence that says all of it.
    pub text: String,
}

/// A comparison that was begun: `POST /v1/cluster/groups/{group}/verify`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Pass {
    /// Number of the pass: it has ended once `passes` of the group's `comparison` is as high.
    pub pass: u64,
}

fn health(_: &mut SchemaGenerator) -> Schema {
    one_of(&["up", "suspect", "down"])
}

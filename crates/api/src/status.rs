//! A node as it sees itself: `GET /status`.

use crate::cluster::{Comparison, GroupMember, MemberStatus};
use crate::number::HexId;
use crate::schema::one_of;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

/// A node as it sees itself.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "Status")]
pub struct NodeStatus {
    /// The node's name (`name`).
    pub name: String,
    /// The node's durable id: 16 hexadecimal digits.
    pub node: HexId,
    /// The cluster's durable id: 16 hexadecimal digits.
    pub cluster: HexId,
    /// Number of times that the node has started on its data, this time counted.
    pub incarnation: u64,
    /// The program's version.
    pub version: String,
    /// Milliseconds since the start.
    pub uptime_ms: u64,
    /// The groups with a part on this node; group 0 is the directory, group 1 holds the buckets for
    /// which none is named.
    pub groups: Vec<GroupStatus>,
    /// Snapshots of groups that this node receives.
    pub snapshots: Vec<SnapshotStatus>,
    /// The transaction log.
    pub log: LogStatus,
    /// The store: tables, and what is in memory.
    pub store: StoreStatus,
    /// The disk under the data directory.
    pub disk: DiskStatus,
    /// The process' memory.
    pub memory: MemoryStatus,
    /// Available buckets: the ring, and what is kept for nodes that are away.
    pub available: AvailableStatus,
    /// Lease of masters, milliseconds.
    pub lease_ms: u64,
    /// The members of the cluster, with this node's connection to each.
    pub members: Vec<MemberStatus>,
    /// Consistent buckets.
    pub buckets: u64,
    /// Buckets whose writes are acknowledged before they are synced (`sync=interval`), at most 100.
    pub interval_buckets: Vec<String>,
    /// Alarms that an operator should know and act on, the gravest first.
    pub warnings: Vec<String>,
    /// True if it serves; the same as 200 of `/ready`.
    pub ready: bool,
    /// Reason why it is not ready: whom it misses and what to do; null: it is ready.
    pub not_ready: Option<String>,
    /// True if addresses beyond loopback are allowed (`insecure`).
    pub insecure: bool,
    /// Listeners for clients and operators.
    pub listeners: Vec<ListenerStatus>,
    /// Client connections open now.
    pub connections: u64,
    /// Requests answered since the start, by protocol.
    pub requests: RequestCounts,
}

/// A group with a part here.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct GroupStatus {
    /// The group's number.
    pub id: u32,
    /// Role of this node.
    #[schemars(schema_with = "role")]
    pub role: String,
    /// The master's name; null: none is known.
    pub master: Option<String>,
    /// The highest ballot this node promised: round, a dot, node id.
    pub ballot: String,
    /// Log index up to which entries are known to be decided: synced by enough voters.
    pub decided: u64,
    /// Log index up to which entries are applied: reads here see them.
    pub applied: u64,
    /// Log index up to which the effects stand in the store's tables. The rest is as durable: the
    /// log holds it until then.
    pub flushed: u64,
    /// Updates taken and not decided yet.
    pub undecided: u64,
    /// Open sessions.
    pub sessions: u64,
    /// True if the group goes on while this node is restarted; never true where one or two vote.
    pub expect_progress_possible: bool,
    /// The group's members, as they are in force.
    pub members: Vec<GroupMember>,
    /// Comparison of its replicas; null: this node is not the master, or has not compared
    /// them yet.
    pub comparison: Option<Comparison>,
}

/// A snapshot on its way.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SnapshotStatus {
    /// Group it is of.
    pub group: u32,
    /// The node that sends it.
    pub from: HexId,
    /// The last log index that it covers; 0: not known yet.
    pub last_index: u64,
    /// Rows received.
    pub rows: u64,
    /// Estimated number of rows, an upper bound; 0: not known yet.
    pub rows_estimated: u64,
    /// Bytes of keys and values received.
    pub bytes: u64,
    /// Bytes a second since it began.
    pub bytes_per_second: u64,
    /// Estimated time until it is complete; null: not known yet.
    pub eta_ms: Option<u64>,
    /// Number of times that a lost part was requested again.
    pub resumes: u64,
    /// Number of times that it began again from the start.
    pub restarts: u64,
}

/// The transaction log.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LogStatus {
    /// Bytes that can't be truncated yet.
    pub bytes: u64,
    /// Segments in use.
    pub segments: u64,
    /// Syncs since the start.
    pub syncs: u64,
    /// Median time of the last syncs, microseconds.
    pub sync_us_p50: u64,
    /// 99th percentile of the last syncs, microseconds.
    pub sync_us_p99: u64,
    /// Average time of a sync now, microseconds.
    pub sync_us_mean: u64,
    /// True if syncs take so long that they bound the node.
    pub slow: bool,
    /// True if the disk has not finished what the log asked of it for two leases.
    pub hangs: bool,
    /// Time for which the log has waited for the disk now.
    pub unanswered_ms: u64,
}

/// The store: tables, and what is in memory.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StoreStatus {
    /// Bytes of its files.
    pub disk_bytes: u64,
    /// Bytes of writes that are not flushed to tables yet.
    pub memory_bytes: u64,
    /// Rows in the row cache.
    pub cached_rows: u64,
    /// Bytes of the row cache and of tables kept in memory.
    pub cached_bytes: u64,
    /// Estimated number of rows; deleted ones that are not collected yet count.
    pub rows_estimated: u64,
}

/// The disk under the data directory.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DiskStatus {
    /// Size of the disk.
    pub total_bytes: u64,
    /// Bytes that are free.
    pub free_bytes: u64,
    /// Files (inodes) that can still be made; null: the file system has no such limit.
    pub free_files: Option<u64>,
    /// True if writes are refused for lack of space.
    pub full: bool,
}

/// The process' memory.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MemoryStatus {
    /// Memory that the process uses; null: the machine does not tell.
    pub resident_bytes: Option<u64>,
}

/// Available buckets.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AvailableStatus {
    /// The epoch of the ring that this node knows; 0: none.
    pub ring_epoch: u64,
    /// Partitions of which this node is the first owner.
    pub partitions: u64,
    /// Nodes of the ring that this node suspects: others are asked instead.
    pub suspected_nodes: Vec<String>,
    /// Rows kept here for nodes that were away (hinted handoff).
    pub hints: Vec<HintsStatus>,
}

/// Hints for one node.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HintsStatus {
    /// The node that they are for, by name.
    pub node: String,
    /// Number of rows.
    pub rows: u64,
    /// Time for which hints have been pending without a break.
    pub age_ms: u64,
}

/// A listener.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ListenerStatus {
    /// Address and port at which it listens.
    pub address: String,
    /// Audience that it serves there.
    #[schemars(schema_with = "served")]
    pub serves: String,
}

/// Requests since the start.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RequestCounts {
    /// By HTTP/JSON.
    pub http: u64,
    /// By Redis' protocol.
    pub resp: u64,
    /// By Arakoon's protocol.
    pub arakoon: u64,
    /// By Riak's HTTP.
    pub riak: u64,
}

fn role(_: &mut SchemaGenerator) -> Schema {
    one_of(&["master", "follower", "candidate"])
}

fn served(_: &mut SchemaGenerator) -> Schema {
    one_of(&["clients and operators", "clients", "operators", "arakoon", "riak"])
}

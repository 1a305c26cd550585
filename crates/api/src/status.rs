//! A node as it sees itself: `GET /status`.

use crate::alarm::Alarm;
use crate::cluster::{Comparison, GroupMember, MemberStatus};
use crate::number::HexId;
use crate::schema::one_of;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

/// Status of a node.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "Status")]
pub struct NodeStatus {
    /// Name of the node (setting `name`).
    pub name: String,
    /// Durable id of the node: 16 hexadecimal digits.
    pub node: HexId,
    /// Durable id of the cluster: 16 hexadecimal digits.
    pub cluster: HexId,
    /// Incarnation: number of times that the node has started with its data directory, this start
    /// included.
    pub incarnation: u64,
    /// Version of the program.
    pub version: String,
    /// Milliseconds since the start of the node.
    pub uptime_ms: u64,
    /// Groups of which this node is a member. Group 0 is the directory; group 1 is the default
    /// group of buckets.
    pub groups: Vec<GroupStatus>,
    /// Snapshots of groups that this node is receiving.
    pub snapshots: Vec<SnapshotStatus>,
    /// Write-ahead log.
    pub log: LogStatus,
    /// Store (LSM tree): tables and memory.
    pub store: StoreStatus,
    /// Disk of the data directory.
    pub disk: DiskStatus,
    /// Memory of the process.
    pub memory: MemoryStatus,
    /// Available buckets: the ring, and hints for unreachable nodes.
    pub available: AvailableStatus,
    /// Time for which voters wait for a silent master, in milliseconds; a lease is half of it.
    pub lease_ms: u64,
    /// Members of the cluster, each with the connection from this node.
    pub members: Vec<MemberStatus>,
    /// Number of consistent buckets.
    pub buckets: u64,
    /// Buckets whose writes are acknowledged before they are synced (`sync=interval`), at most 100.
    pub interval_buckets: Vec<String>,
    /// Alarms that need an operator's attention, most severe first.
    pub alarms: Vec<Alarm>,
    /// Beats of long tasks, at most 100: first those of tasks that stand still, then those that
    /// changed longest ago.
    pub beats: Vec<TaskBeat>,
    /// True if the node is ready: `/ready` returns 200.
    pub ready: bool,
    /// Reason why the node is not ready, with the missing nodes and the remedy; null: it is ready.
    pub not_ready: Option<String>,
    /// True if listening beyond loopback is allowed (setting `insecure`).
    pub insecure: bool,
    /// Listeners for clients and operators.
    pub listeners: Vec<ListenerStatus>,
    /// Number of open client connections.
    pub connections: u64,
    /// Requests answered since the start, by protocol.
    pub requests: RequestCounts,
}

/// Group of which this node is a member.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct GroupStatus {
    /// Number of the group.
    pub id: u32,
    /// Role of this node in the group.
    #[schemars(schema_with = "role")]
    pub role: String,
    /// Name of the master; null: no master is known.
    pub master: Option<String>,
    /// Highest ballot that this node promised: round, a dot, node id.
    pub ballot: String,
    /// Highest log index known to be decided: synced by a quorum of voters.
    pub decided: u64,
    /// Highest applied log index: reads at this node see the entries up to it.
    pub applied: u64,
    /// Highest log index whose effects are flushed to the store's tables. Later entries are durable
    /// in the log.
    pub flushed: u64,
    /// Number of updates that are accepted but not decided yet.
    pub undecided: u64,
    /// Number of open sessions.
    pub sessions: u64,
    /// True if the group stays available while this node restarts; never true with one or two
    /// voters.
    pub expect_progress_possible: bool,
    /// Members of the present configuration.
    pub members: Vec<GroupMember>,
    /// Comparison of the replicas; null: this node is not the master, or there was no comparison
    /// yet.
    pub comparison: Option<Comparison>,
}

/// Snapshot that is being received.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SnapshotStatus {
    /// Number of the group.
    pub group: u32,
    /// Durable id of the sender.
    pub from: HexId,
    /// Last log index that the snapshot covers; 0: unknown.
    pub last_index: u64,
    /// Number of rows received.
    pub rows: u64,
    /// Estimated total number of rows, an upper bound; 0: unknown.
    pub rows_estimated: u64,
    /// Number of bytes of keys and values received.
    pub bytes: u64,
    /// Average transfer rate in bytes per second.
    pub bytes_per_second: u64,
    /// Estimated time until completion in milliseconds; null: unknown.
    pub eta_ms: Option<u64>,
    /// Number of times that a lost part was requested again.
    pub resumes: u64,
    /// Number of restarts from the beginning.
    pub restarts: u64,
}

/// Write-ahead log.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LogStatus {
    /// Size in bytes that can't be truncated yet.
    pub bytes: u64,
    /// Number of segments.
    pub segments: u64,
    /// Number of syncs since the start of the node.
    pub syncs: u64,
    /// Median duration of recent syncs in microseconds.
    pub sync_us_p50: u64,
    /// 99th percentile of the duration of recent syncs in microseconds.
    pub sync_us_p99: u64,
    /// Moving average of the duration of a sync in microseconds.
    pub sync_us_mean: u64,
    /// True if syncs are so slow that they limit the node.
    pub slow: bool,
    /// True if the disk has not completed an operation of the log for twice `lease_ms`.
    pub hangs: bool,
    /// Age of the oldest incomplete disk operation of the log in milliseconds.
    pub unanswered_ms: u64,
}

/// Store (LSM tree): tables and memory.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StoreStatus {
    /// Size of the store's files in bytes.
    pub disk_bytes: u64,
    /// Size of the memtables in bytes.
    pub memory_bytes: u64,
    /// Number of rows in the row cache.
    pub cached_rows: u64,
    /// Size in bytes of the row cache and of cached tables.
    pub cached_bytes: u64,
    /// Estimated number of rows, tombstones included.
    pub rows_estimated: u64,
    /// Number of sorted runs of rows on disk.
    pub runs: u64,
    /// Number of runs that no merge has read yet.
    pub unmerged_runs: u64,
    /// Size in bytes of the runs whose merge is due.
    pub merge_debt_bytes: u64,
    /// Slow-down of writes while merges lag: 0 (none) to 1,000 (the most).
    pub write_slowdown_permille: u64,
    /// Time in milliseconds for which writers have waited for flushes and merges since the start.
    pub writes_waited_ms: u64,
}

/// Disk of the data directory.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DiskStatus {
    /// Size of the disk in bytes.
    pub total_bytes: u64,
    /// Free space in bytes.
    pub free_bytes: u64,
    /// Number of free inodes; null: the file system has no limit.
    pub free_files: Option<u64>,
    /// True if writes are refused for lack of disk space.
    pub full: bool,
}

/// Memory of the process.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MemoryStatus {
    /// Resident memory size in bytes; null: unknown on this system.
    pub resident_bytes: Option<u64>,
}

/// Status of available buckets at this node.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AvailableStatus {
    /// Epoch of the ring that this node knows; 0: no ring.
    pub ring_epoch: u64,
    /// Number of partitions of which this node is the first owner.
    pub partitions: u64,
    /// Names of ring nodes that this node suspects; coordinators here skip them.
    pub suspected_nodes: Vec<String>,
    /// Hints stored here for unreachable nodes (hinted handoff).
    pub hints: Vec<HintsStatus>,
}

/// Hints for one node.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HintsStatus {
    /// Name of the node that the hints are for.
    pub node: String,
    /// Number of hints.
    pub rows: u64,
    /// Time in milliseconds since which there has been at least one hint.
    pub age_ms: u64,
}

/// Listener.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ListenerStatus {
    /// Address and port of the listener.
    pub address: String,
    /// Audience or protocol that it serves.
    #[schemars(schema_with = "served")]
    pub serves: String,
}

/// Number of requests since the start of the node, by protocol.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RequestCounts {
    /// Requests by the native HTTP API.
    pub http: u64,
    /// Requests by the Redis protocol (RESP).
    pub resp: u64,
    /// Requests by the Arakoon protocol.
    pub arakoon: u64,
    /// Requests by the Riak HTTP API.
    pub riak: u64,
}

/// Beat of a long task.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TaskBeat {
    /// Name of the task, behind that of its scope.
    pub name: String,
    /// Activity of the task.
    #[schemars(schema_with = "activity")]
    pub activity: String,
    /// Event that the task waits for in the middle of a round; null: unknown, or it does not wait.
    pub waits_for: Option<String>,
    /// Time since the last beat in milliseconds, to a second; of a task that waits in the middle of
    /// a round, since the round began.
    pub unchanged_ms: u64,
    /// True if the task stands still.
    pub stalled: bool,
}

fn activity(_: &mut SchemaGenerator) -> Schema {
    one_of(&["rests", "works", "uses the disk", "waits"])
}

fn role(_: &mut SchemaGenerator) -> Schema {
    one_of(&["master", "follower", "candidate"])
}

fn served(_: &mut SchemaGenerator) -> Schema {
    one_of(&["clients and operators", "clients", "operators", "arakoon", "riak", "riak pbc"])
}

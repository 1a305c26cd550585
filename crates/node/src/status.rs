//! Status of a node: one struct for health checks, one list of samples for metrics.

use crate::cluster::{MemberStatus, PartStatus};
use base::{Alarm, Ballot, ClusterId, GroupId, LogIndex, NodeId};
use dynamo::AvailableStatus;
use replica_state::comparison::ComparisonStatus;
use replica_state::snapshot::SnapshotStatus;
use runtime::BeatStatus;

/// Status of a node, for health checks.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// The node's name.
    pub name: String,
    /// The node's durable id.
    pub node: NodeId,
    /// Number of incarnations that the node has begun, including this one.
    pub incarnation: u64,
    /// The cluster's durable id.
    pub cluster: ClusterId,
    /// The program's version.
    pub version: &'static str,
    /// Milliseconds since the start.
    pub uptime_ms: u64,
    /// True if it takes writes.
    pub ready: bool,
    /// Each group this node has a part in.
    pub groups: Vec<GroupStatus>,
    /// Snapshots of groups that are being received from other nodes.
    pub snapshots: Vec<SnapshotStatus>,
    /// The transaction log.
    pub log: LogStatus,
    /// The local store.
    pub store: StoreStatus,
    /// The disk under the data directory.
    pub disk: DiskStatus,
    /// Memory of the process, if the system reports it.
    pub resident_bytes: Option<u64>,
    /// Status of available buckets: the ring, and the hints for nodes that are away.
    pub available: AvailableStatus,
    /// Number of buckets.
    pub buckets: usize,
    /// Lease of masters, in milliseconds.
    pub lease_ms: u64,
    /// The members of the cluster, and this node's connections with them.
    pub members: Vec<MemberStatus>,
    /// Full names of buckets whose updates are acknowledged before they are synced (at most 100).
    pub interval_buckets: Vec<String>,
    /// Alarms, the gravest first. Empty: all is well.
    pub alarms: Vec<Alarm>,
    /// Beats of long tasks: first those of tasks that stand still, then those that changed longest
    /// ago (at most 100).
    pub beats: Vec<BeatStatus>,
}

/// One group.
#[derive(Clone, Debug, Default)]
pub struct GroupStatus {
    /// Id of the group.
    pub id: GroupId,
    /// `master`, `follower`, `candidate`.
    pub role: &'static str,
    /// The master's name, if known.
    pub master: Option<String>,
    /// The present ballot.
    pub ballot: Ballot,
    /// The last decided value.
    pub decided: LogIndex,
    /// The last applied value.
    pub applied: LogIndex,
    /// Index of the last entry whose effects stand in the store's tables. Later ones are durable by
    /// the log alone, and read from memory.
    pub flushed: LogIndex,
    /// Updates that wait undecided.
    pub undecided: u64,
    /// Open sessions.
    pub sessions: u64,
    /// On a witness: values kept for a voter that may lack them.
    pub kept_values: u64,
    /// Their bytes.
    pub kept_bytes: u64,
    /// Reason for which nothing new is taken, if a witness keeps all it may.
    pub waits_for_witness: Option<String>,
    /// Consequence of a torn log, in a sentence: no master until others show their logs, or the
    /// group went on and may lack entries.
    pub torn: Option<String>,
    /// True if this node can't be elected any more: no ballot of this configuration is left.
    pub lacks_ballots: bool,
    /// Name of a member that lately sent what no member can send.
    pub unsound: Option<String>,
    /// True if this node may be restarted without stopping the group (Arakoon's word).
    pub expect_progress_possible: bool,
    /// Its members, as they are in force; only the master knows how far the others have come.
    pub members: Vec<PartStatus>,
    /// Comparison of its replicas. `None` if this node is not the master.
    pub comparison: Option<ComparisonStatus>,
}

/// The transaction log.
#[derive(Clone, Debug, Default)]
pub struct LogStatus {
    /// Bytes that could not be collapsed yet.
    pub bytes: u64,
    /// Segments in use.
    pub segments: u64,
    /// Syncs since the start.
    pub syncs: u64,
    /// Time of a sync, microseconds: median of the last ones.
    pub sync_us_p50: u64,
    /// Time of a sync, microseconds: 99th percentile of the last ones.
    pub sync_us_p99: u64,
    /// Average time of a sync now, in microseconds.
    pub sync_us_mean: u64,
    /// True if syncs take so long that they bound the node.
    pub slow: bool,
    /// True if the disk has not finished a call of the log for twice `lease_ms` at least.
    pub hangs: bool,
    /// For how long the log has waited for it now, milliseconds.
    pub unanswered_ms: u64,
}

/// The local store.
#[derive(Clone, Debug, Default)]
pub struct StoreStatus {
    /// Bytes on disk.
    pub disk_bytes: u64,
    /// Bytes in memory not yet flushed.
    pub memory_bytes: u64,
    /// Rows in the row cache.
    pub cached_rows: u64,
    /// Bytes of the row cache.
    pub cached_bytes: u64,
    /// About how many rows, deleted ones that are not yet collected counted.
    pub rows_estimated: u64,
    /// Runs: sorted sequences of rows on disk. A read may have to ask each of them.
    pub runs: u64,
    /// Runs that a flush wrote, and no merge has read yet.
    pub unmerged_runs: u64,
    /// Bytes of runs whose merge is due.
    pub merge_debt_bytes: u64,
    /// Slow-down of writes now, for flushes and merges that lag: 0 (none) to 1,000 (the most).
    pub write_slowdown_permille: u64,
    /// Time for which writers have waited for flushes and merges since the start, all together.
    pub writes_waited_ms: u64,
}

/// The disk under the data directory.
#[derive(Clone, Debug, Default)]
pub struct DiskStatus {
    /// Its size.
    pub total_bytes: u64,
    /// Free space, in bytes.
    pub free_bytes: u64,
    /// Number of files (inodes) that can still be created. `None`: the file system has no such
    /// limit.
    pub free_files: Option<u64>,
    /// True if writes are refused for lack of space.
    pub full: bool,
}

//! What a node says of itself: one struct for health checks, one list of samples for metrics.

use crate::available::AvailableStatus;
use crate::cluster::{MemberStatus, PartStatus};
use base::{Ballot, ClusterId, GroupId, LogIndex, NodeId};

/// Everything a health check needs.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// The node's name.
    pub name: String,
    /// The node's durable id.
    pub node: NodeId,
    /// How many lives the node has begun, this one included.
    pub incarnation: u64,
    /// The cluster's durable id.
    pub cluster: ClusterId,
    /// The program's version.
    pub version: &'static str,
    /// Milliseconds since the start.
    pub uptime_ms: u64,
    /// Whether it takes writes.
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
    /// Memory of the process, where the machine tells it.
    pub resident_bytes: Option<u64>,
    /// The ring, and what is kept for nodes that are away.
    pub available: AvailableStatus,
    /// How many buckets there are.
    pub buckets: usize,
    /// The lease of masters, milliseconds.
    pub lease_ms: u64,
    /// The members of the cluster, and this node's connections with them.
    pub members: Vec<MemberStatus>,
    /// Full names of buckets whose updates are acknowledged before they are synced (at most 100).
    pub interval_buckets: Vec<String>,
    /// What an operator should know, in sentences; empty when all is well.
    pub warnings: Vec<String>,
}

/// One group.
#[derive(Clone, Debug, Default)]
pub struct GroupStatus {
    /// Which.
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
    /// The last value whose effects stand in the store's tables; what is behind it is durable by
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
    /// Why nothing new is taken, where a witness keeps all it may.
    pub waits_for_witness: Option<String>,
    /// What a torn log led to here, in a sentence: nobody leads until others show their logs, or
    /// the group went on and may lack values.
    pub torn: Option<String>,
    /// This node can't be elected any more: no ballot of this configuration is left.
    pub lacks_ballots: bool,
    /// Name of a member that lately sent what no member can send.
    pub unsound: Option<String>,
    /// Whether this node may be restarted without stopping the group (Arakoon's word).
    pub expect_progress_possible: bool,
    /// Its members, as they are in force; only the master knows how far the others have come.
    pub members: Vec<PartStatus>,
    /// Whether its replicas hold the same; only the master knows.
    pub comparison: Option<ComparisonStatus>,
}

/// What comparing a group's replicas led to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ComparisonStatus {
    /// A pass over all rows is under way.
    pub running: bool,
    /// Passes that ended while this node is master, also those that broke off.
    pub passes: u64,
    /// Why the last one broke off, if it did.
    pub trouble: Option<String>,
    /// Milliseconds since the last whole one.
    pub ended_ms_ago: Option<u64>,
    /// The master's rows that were compared in the pass that runs, or ran last.
    pub rows: u64,
    /// The same in bytes.
    pub bytes: u64,
    /// Other replicas, and with how many of these rows each was compared.
    pub compared: Vec<(String, u64)>,
    /// Where they differ, at most a few places.
    pub differences: Vec<DifferenceStatus>,
}

/// A range of keys in which replicas do not hold the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DifferenceStatus {
    /// The bucket; none: what the group keeps for itself.
    pub bucket: Option<String>,
    /// The first key, as escaped text.
    pub from: String,
    /// The first key behind, as escaped text; empty: the bucket's end.
    pub upto: String,
    /// Names of those who hold the same, the most first.
    pub camps: Vec<Vec<String>>,
    /// All of it in words.
    pub text: String,
}

/// How far a snapshot is that comes from another node.
#[derive(Clone, Debug, Default)]
pub struct SnapshotStatus {
    /// Of which group.
    pub group: GroupId,
    /// Who sends it.
    pub from: NodeId,
    /// The group's state will be that after this value; 0 until it is known.
    pub upto: LogIndex,
    /// Rows that are here.
    pub rows: u64,
    /// At most about so many rows in all; 0 until it is known.
    pub rows_about: u64,
    /// Bytes of keys and values that are here.
    pub bytes: u64,
    /// Bytes a second since it began.
    pub bytes_per_second: u64,
    /// At most about how long it still takes, milliseconds; none: nobody knows yet.
    pub left_ms: Option<u64>,
    /// How often something was lost and asked for again.
    pub resumed: u64,
    /// How often it began anew.
    pub anew: u64,
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
    /// What a sync takes now, on average, microseconds.
    pub sync_us_mean: u64,
    /// That is so long that it bounds the node.
    pub slow: bool,
    /// The disk does not finish what the log asked of it: for two leases at least.
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
    pub rows_about: u64,
}

/// The disk under the data directory.
#[derive(Clone, Debug, Default)]
pub struct DiskStatus {
    /// Its size.
    pub total_bytes: u64,
    /// What is free.
    pub free_bytes: u64,
    /// How many files (inodes) can still be made; none: the file system has no such limit.
    pub free_files: Option<u64>,
    /// Whether writes are refused for lack of space.
    pub full: bool,
}

/// How a sample behaves over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleKind {
    /// Only goes up.
    Counter,
    /// Goes up and down.
    Gauge,
}

/// One measured number. Names follow Prometheus' customs: base units, `_total` for counters.
#[derive(Clone, Debug)]
pub struct Sample {
    /// `credenza_...`, or `process_...` where every program has it.
    pub name: &'static str,
    /// One line.
    pub help: &'static str,
    /// Counter or gauge.
    pub kind: SampleKind,
    /// Label names and values.
    pub labels: Vec<(&'static str, String)>,
    /// The number.
    pub value: f64,
}

impl Sample {
    /// The number of the first sample of this name; 0 where there is none.
    pub fn value_of(samples: &[Sample], name: &str) -> f64 {
        samples.iter().find(|sample| sample.name == name).map_or(0.0, |sample| sample.value)
    }
}

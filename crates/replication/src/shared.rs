//! Handles that all groups of a node share, and the observer of rows that applied entries change.

use base::NodeId;
use base::limits::UNDECIDED_BYTES_MAX;
use bytes::Bytes;
use replica_state::comparison::Comparisons;
use replica_state::snapshot::Snapshots;
use runtime::log_writer::LogWriterHandle;
use runtime::metrics::Metrics;
use runtime::write_pacer::WritePacer;
use runtime::{BuildPacer, TaskScope};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use store::{LogReader, Trees};
use transport::Peers;

/// Part of the store's memory that undecided updates may take in addition to it.
const UNDECIDED_PART: u64 = 4;

/// Handles that all groups of a node share.
#[derive(Clone)]
pub struct Shared {
    /// Id of this node.
    pub node: NodeId,
    /// Store of the rows.
    pub trees: Arc<dyn Trees>,
    /// Queue of the log writer.
    pub log_writer: Arc<LogWriterHandle>,
    /// Reader of the log.
    pub reader: LogReader,
    /// Counters of this node.
    pub metrics: Arc<Metrics>,
    /// Pauses of writers while the store lags, and the signal that it must be flushed.
    pub pacer: Arc<WritePacer>,
    /// Pace of the builds of indexes and feeds, by the latency of clients' updates.
    pub build_pacer: Arc<BuildPacer>,
    /// Connections to the other nodes. Never set on a node that accepts no peers.
    pub peers: Arc<OnceLock<Peers>>,
    /// Snapshots that are sent and received.
    pub snapshots: Arc<Snapshots>,
    /// Comparisons of the replicas.
    pub comparisons: Arc<Comparisons>,
    /// Bounds of memory, time and traffic.
    pub limits: GroupLimits,
    /// Parent of blocking tasks of requests.
    pub tasks: TaskScope,
    /// True if this node is a witness: it keeps rows of the directory only.
    pub is_witness: bool,
    /// Id of the only node that may become master of groups in which it votes. 0: any voter may.
    pub forced_master: Arc<AtomicU64>,
}

/// Bounds that a node's settings give to each of its groups.
#[derive(Clone, Copy, Debug)]
pub struct GroupLimits {
    /// Bytes of the store's memory. Undecided entries may take a part of as much in addition.
    pub memory_bytes_max: u64,
    /// Time for which voters wait for a silent master, in milliseconds. A lease lasts half of it.
    pub lease_ms: u64,
    /// Rate at which missing entries are sent to a member, in bytes a second.
    pub catch_up_bytes_per_second: u64,
    /// Bytes of one group's entries at which a witness is full.
    pub kept_bytes_max: u64,
}

impl GroupLimits {
    /// Returns the maximum of undecided bytes of one group.
    pub(super) fn undecided_bytes_max(&self) -> usize {
        let part = self.memory_bytes_max / UNDECIDED_PART;
        usize::try_from(part).unwrap_or(usize::MAX).min(UNDECIDED_BYTES_MAX)
    }
}

/// Observer of the rows of bucket 0 that applied entries change. It is called in the order of the
/// log, before the rows count as applied.
pub trait Observer: Send + Sync {
    /// Reports a row's new bytes. `None`: the row was removed.
    fn changed(&self, key: &[u8], row: Option<&Bytes>);
}

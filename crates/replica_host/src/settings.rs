//! Settings of the replicas on a node; `node` fills them from its own.

use std::path::PathBuf;

/// Settings of the replicas on a node. Sizes in bytes, times in milliseconds.
#[derive(Clone, Debug)]
pub struct HostSettings {
    /// The data directory; made if it does not exist.
    pub data_dir: PathBuf,
    /// The log is collapsed to stay under this.
    pub log_bytes_max: u64,
    /// Size of one log segment.
    pub segment_bytes: u64,
    /// The store's memory: tables being filled, block cache and row cache share it.
    pub memory_bytes_max: u64,
    /// Writes are refused when less than this is free on the disk (or an eighth of the disk, if
    /// that is less).
    pub disk_reserve_bytes: u64,
    /// Time for which voters wait for a silent master; the same at every member.
    pub lease_ms: u64,
    /// True if this node, as master, answers reads under its lease; else each read asks a quorum.
    pub lease_reads: bool,
    /// Rate at which a master compares replicas, in bytes a second read at each of them. 0: only on
    /// request, and then at [`SCRUB_BYTES_PER_SECOND`].
    pub scrub_bytes_per_second: u64,
    /// Time between two such comparisons of a group.
    pub scrub_interval_ms: u64,
}

/// Rate of comparisons of replicas unless another one is set.
pub const SCRUB_BYTES_PER_SECOND: u64 = 8 << 20;

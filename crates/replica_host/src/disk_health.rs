//! Health of the disk under the log: full, slow, hanging.

use replication::group::Shared;
use runtime::log_writer::LogWriterHandle;
use runtime::{DiskSpace, Metrics};
use std::sync::Arc;

/// Measurements of the disk.
pub struct DiskHealth {
    /// Log writer: measures for how long the disk has not answered.
    pub log_writer: Arc<LogWriterHandle>,
    /// Counters of the node, and times of syncs.
    pub metrics: Arc<Metrics>,
    /// Free space.
    pub space: Arc<DiskSpace>,
    /// Time without an answer after which the disk counts as hung, in milliseconds.
    pub lease_ms: u64,
}

impl DiskHealth {
    /// Returns the measurements of the disk under these handles.
    pub fn new(shared: &Shared, space: &Arc<DiskSpace>, lease_ms: u64) -> DiskHealth {
        let (log_writer, metrics) = (shared.log_writer.clone(), shared.metrics.clone());
        DiskHealth { log_writer, metrics, space: space.clone(), lease_ms }
    }

    /// Returns true if calls on the log's files do not return.
    pub fn hangs(&self) -> bool {
        self.log_writer.is_hung(self.lease_ms)
    }

    /// Returns true if the state of this disk makes another node the better master.
    pub fn is_unfit(&self) -> bool {
        self.metrics.is_slow() || self.space.is_full() || self.hangs()
    }
}

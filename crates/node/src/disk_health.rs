//! Health of the disk under the log: full, slow, hanging.

use runtime::log_writer::LogWriterHandle;
use runtime::{DiskSpace, Metrics};
use std::sync::Arc;

/// Measurements of the disk.
pub(crate) struct DiskHealth {
    /// The log writer: knows for how long the disk has not answered.
    pub log_writer: Arc<LogWriterHandle>,
    /// Counters of the node, and times of syncs.
    pub metrics: Arc<Metrics>,
    /// Room that is left.
    pub space: Arc<DiskSpace>,
    /// Time without an answer after which the disk counts as hung, in milliseconds.
    pub lease_ms: u64,
}

impl DiskHealth {
    /// Returns true if calls on the log's files do not return.
    pub(crate) fn hangs(&self) -> bool {
        self.log_writer.hangs(self.lease_ms)
    }

    /// Returns true if this disk makes another node the better master.
    pub(crate) fn is_unfit(&self) -> bool {
        self.metrics.is_slow() || self.space.is_full() || self.hangs()
    }
}

//! Disk alarm: logs that calls on the log's files do not return.
//!
//! The log writer records since when it waits (`runtime/log_writer.rs`). Groups whose master is
//! here check that themselves with every tick (`replication/ticks.rs`), because a master must step
//! down without help. This task only writes to the process' log, which nothing else can do while
//! the disk hangs.

use crate::disk_health::DiskHealth;
use runtime::{CancellationToken, world};
use std::sync::Arc;
use std::time::Duration;

/// Period of the checks.
const PERIOD: Duration = Duration::from_millis(500);

/// Watches the disk until the node stops.
pub async fn watch(disk: Arc<DiskHealth>, stop: CancellationToken) {
    let mut hangs_for = 0;
    while !stop.is_cancelled() {
        let unanswered_ms = disk.log_writer.unanswered_ms();
        match disk.hangs() {
            true => {
                if hangs_for == 0 {
                    tracing::warn!(
                        target: "log", unanswered_ms,
                        "the disk hangs: writes to the log do not complete; other nodes take over \
                         the groups that this node leads"
                    );
                }
                hangs_for = unanswered_ms;
            }
            false if hangs_for > 0 => {
                tracing::info!(
                    target: "log", hung_ms = hangs_for, "the disk completes writes to the log again"
                );
                hangs_for = 0;
            }
            false => {}
        }
        world::next_or_cancelled(&stop, PERIOD).await;
    }
}

//! Timeouts of requests to replicas, and long reads on blocking threads.

use crate::Available;
use base::Result;
use base::error::shutting_down;
use runtime::world;
use std::time::Duration;

/// Time without an answer, in milliseconds, after which the node counts as late: the request also
/// asks a fallback, and the failure detector suspects the node.
pub const LATE_MS: u64 = 500;
/// Maximum wait for asked nodes after a request has ended, in milliseconds: until they have
/// answered, or were recorded as late.
pub const DRAIN_MS_MAX: u64 = 2 * LATE_MS;

/// Returns the remaining time until `ms`, in milliseconds of this node's clock.
pub fn time_until(ms: u64) -> Duration {
    Duration::from_millis(ms.saturating_sub(world::milliseconds()))
}

/// Returns the timeout of a call to a node for a request with this remaining time. It is at least
/// [`LATE_MS`]. Otherwise urgent requests would never lead to the suspicion of a silent node.
pub fn call_timeout(remaining: Duration) -> Duration {
    remaining.max(Duration::from_millis(LATE_MS))
}

impl Available {
    /// Runs a long read on a blocking thread. Errors: the node is stopping.
    pub(super) async fn read_blocking<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let stopping = || Err(shutting_down());
        self.tasks.run_blocking(read).await.unwrap_or_else(stopping)
    }
}

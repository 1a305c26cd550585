//! Time of requests to replicas, and long reads off the threads that answer.

use crate::Available;
use base::Result;
use base::error::shutting_down;
use runtime::world;
use std::time::Duration;

/// Silence of a node that counts against it, in milliseconds: the request asks a fallback as well,
/// and doubts the node.
pub const LATE_MS: u64 = 500;
/// Maximum wait for asked nodes after a request has ended: until they have answered, or their
/// silence was noted.
pub const TO_THE_END: Duration = Duration::from_millis(2 * LATE_MS);

/// Returns the time that is left until then, milliseconds of this node's clock.
pub fn until(ms: u64) -> Duration {
    Duration::from_millis(ms.saturating_sub(world::milliseconds()))
}

/// Returns the time for which a node is asked by a request with so much time left. It is at least
/// the time after which silence is noted. Otherwise a silent node would never be doubted by urgent
/// requests.
pub fn asked_for(left: Duration) -> Duration {
    left.max(Duration::from_millis(LATE_MS))
}

impl Available {
    /// Does a long read off the threads that answer.
    pub(super) async fn unhurried<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let stopping = || Err(shutting_down());
        self.tasks.run_blocking(read).await.unwrap_or_else(stopping)
    }
}

//! Time of requests to replicas, and long reads off the threads that answer.

use base::Result;
use base::error::shutting_down;
use runtime::world;
use std::time::Duration;

/// Silence of a node, milliseconds, that counts against it: a request has a fallback asked beside
/// it, and doubts it.
pub const LATE_MS: u64 = 500;
/// Longest wait, behind a request that has ended, for nodes that were asked: until they have
/// answered, or their silence was heard.
pub const TO_THE_END: Duration = Duration::from_millis(2 * LATE_MS);

/// Returns the time that is left until then, milliseconds of this node's clock.
pub fn until(ms: u64) -> Duration {
    Duration::from_millis(ms.saturating_sub(world::milliseconds()))
}

/// Returns for how long a node is asked by a request that has so much time left: also by one in a
/// hurry long enough for its silence to be heard. Else who is silent would never be doubted by such
/// requests, and who is merely slower than they would like would be.
pub fn asked_for(left: Duration) -> Duration {
    left.max(Duration::from_millis(LATE_MS))
}

/// Does a long read off the threads that answer.
pub async fn unhurried<T: Send + 'static>(
    read: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let stopping = || Err(shutting_down());
    world::apart(read).await.unwrap_or_else(stopping)
}

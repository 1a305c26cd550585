//! Deadline of a list that a Riak client asked for with a timeout.

use base::{Error, Reason, Reply};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Returns the time by which a list must be complete. `None`: no limit.
pub(super) fn deadline(timeout_ms: Option<u64>) -> Option<Instant> {
    Instant::now().checked_add(Duration::from_millis(timeout_ms?))
}

/// Waits for a reply until the deadline. Fails with `DeadlinePassed` after it.
pub(super) async fn with_deadline(
    deadline: Option<Instant>,
    reply: impl Future<Output = Result<Reply, Error>>,
) -> Result<Reply, Error> {
    let Some(deadline) = deadline else { return reply.await };
    let answer = timeout_at(deadline, reply).await;
    // A timer fires a little late, and a future that is ready at once never checks it.
    match answer {
        Ok(answer) if Instant::now() <= deadline => answer,
        _ => Err(Error::new(Reason::DeadlinePassed, "the list was not complete in time")),
    }
}

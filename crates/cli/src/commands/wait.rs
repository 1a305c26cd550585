//! Waiting for work that the nodes go on with by themselves.

use base::Kind;
use program::{Failure, Outcome};
use std::time::{Duration, Instant};

/// Looks again and again until nothing is left to do. Gives up when nothing has changed for as long
/// as the timeout, and leaves the work as it is.
///
/// `look` returns how far the work is and what it waits for; none: it is done. `stuck` says in a
/// sentence that it does not get on.
pub async fn until_done<T: PartialEq>(
    (timeout, pause): (Duration, Duration),
    mut look: impl AsyncFnMut() -> Outcome<Option<(T, String)>>,
    stuck: impl FnOnce(&str) -> String,
) -> Outcome {
    let (mut before, mut moved) = (None, Instant::now());
    loop {
        let waits_for = match look().await {
            Ok(None) => return Ok(()),
            Ok(Some((state, waits_for))) => {
                if before.as_ref() != Some(&state) {
                    (before, moved) = (Some(state), Instant::now());
                }
                waits_for
            }
            // A node that is asked while it restarts or hands over answers a moment later.
            Err(failure) if failure.kind() == Some(Kind::Unavailable) => failure.to_string(),
            Err(failure) => return Err(failure),
        };
        if moved.elapsed() > timeout {
            return Err(Failure::new(Kind::Unavailable, stuck(&waits_for)));
        }
        tokio::time::sleep(pause).await;
    }
}

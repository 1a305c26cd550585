//! Waiting for work that the nodes go on with by themselves.

use base::Kind;
use program::{Failure, Outcome};
use std::time::{Duration, Instant};

/// Polls until the work is done. Fails if the state has not changed for the length of the timeout;
/// the work itself continues.
///
/// `poll` returns the progress, and the condition that the work waits for. `None`: it is done.
/// `timeout_text` returns the error text for that condition.
pub async fn until_done<T: PartialEq>(
    (timeout, pause): (Duration, Duration),
    mut poll: impl AsyncFnMut() -> Outcome<Option<(T, String)>>,
    timeout_text: impl FnOnce(&str) -> String,
) -> Outcome {
    let (mut last_state, mut last_change) = (None, Instant::now());
    loop {
        let waits_for = match poll().await {
            Ok(None) => return Ok(()),
            Ok(Some((state, waits_for))) => {
                if last_state.as_ref() != Some(&state) {
                    (last_state, last_change) = (Some(state), Instant::now());
                }
                waits_for
            }
            // A node that restarts or hands over mastership answers a moment later.
            Err(failure) if failure.kind() == Some(Kind::Unavailable) => failure.to_string(),
            Err(failure) => return Err(failure),
        };
        if last_change.elapsed() > timeout {
            return Err(Failure::new(Kind::Unavailable, timeout_text(&waits_for)));
        }
        tokio::time::sleep(pause).await;
    }
}

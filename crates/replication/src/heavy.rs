//! Heavy updates, which take long to evaluate: one at a time in a group. After each the group's
//! lock is free for others for as long as it was held.
//!
//! A client that sends only such updates, over however many connections, gets half of the lock's
//! time at most. Updates of others wait for one of them at most.

use base::limits::FORWARD_MS_MAX;
use base::{Error, Reason, Result};
use runtime::world::{self, timeout};
use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard};

/// See the head of this file.
#[derive(Default)]
pub struct HeavyUpdates {
    /// Time at which the next update may begin, in milliseconds. Callers queue for this lock.
    begins_ms: Mutex<u64>,
}

/// Turn of one update.
pub struct Turn<'a> {
    begins_ms: MutexGuard<'a, u64>,
}

impl HeavyUpdates {
    /// Waits for the caller's turn. `Overloaded` after `FORWARD_MS_MAX`.
    pub async fn turn(&self) -> Result<Turn<'_>> {
        let waiting = async {
            let begins_ms = self.begins_ms.lock().await;
            let pause = begins_ms.saturating_sub(world::milliseconds());
            if pause > 0 {
                world::sleep(Duration::from_millis(pause)).await;
            }
            Turn { begins_ms }
        };
        timeout(Duration::from_millis(FORWARD_MS_MAX), waiting).await.ok_or_else(|| {
            let text = "nothing was done: too many long requests wait for this group: retry later, \
                        or ask for less at a time";
            Error::new(Reason::Overloaded, text)
        })
    }
}

impl Turn<'_> {
    /// Ends the turn. `held_ms`: time for which the lock was held.
    pub(super) fn end(&mut self, held_ms: u64) {
        *self.begins_ms = world::milliseconds() + held_ms;
    }
}

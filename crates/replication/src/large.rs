//! Large updates, whose records take the log's disk much longer than a sync: one of a group at a
//! time on its way to this node's log, while smaller updates come too.
//!
//! Records of a group keep their order, so a small update waits for every large one that was
//! evaluated before it. Large updates therefore wait for their turn before they are evaluated. A
//! turn lasts until this node's log has the record. If smaller updates waited behind it, the next
//! turn begins after a pause of the same length: they get half of the disk's time.
//!
//! Large updates without smaller ones in between take no turns, and share commits.

use base::limits::FORWARD_MS_MAX;
use base::{Error, Reason, Result};
use runtime::world::{self, timeout};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Longest pause between two turns, in milliseconds, however long the disk took.
const PAUSE_MS_MAX: u64 = 50;

/// See the head of this file.
pub struct LargeUpdates {
    /// One permit, in order of arrival. Closed once the group has failed.
    turns: Arc<Semaphore>,
    /// Time at which the next turn may begin, in milliseconds.
    begins_ms: AtomicU64,
}

/// Turn of one update; ends at the latest when it is dropped.
pub struct LargeTurn {
    /// `None`: the group has failed, and refuses the update itself.
    _permit: Option<OwnedSemaphorePermit>,
    began_ms: u64,
}

impl Default for LargeUpdates {
    fn default() -> LargeUpdates {
        LargeUpdates { turns: Arc::new(Semaphore::new(1)), begins_ms: AtomicU64::new(0) }
    }
}

impl LargeUpdates {
    /// Begins a turn if that is possible without waiting.
    pub fn try_turn(&self) -> Option<LargeTurn> {
        let permit = self.turns.clone().try_acquire_owned().ok()?;
        let began_ms = world::milliseconds();
        let may_begin = began_ms >= self.begins_ms.load(Ordering::Acquire);
        may_begin.then_some(LargeTurn { _permit: Some(permit), began_ms })
    }

    /// Waits for the caller's turn. `Overloaded` after `FORWARD_MS_MAX`.
    pub async fn turn(&self) -> Result<LargeTurn> {
        let waiting = async {
            let permit = self.turns.clone().acquire_owned().await.ok();
            let begins_ms = self.begins_ms.load(Ordering::Acquire);
            let pause_ms = begins_ms.saturating_sub(world::milliseconds());
            if pause_ms > 0 {
                world::sleep(Duration::from_millis(pause_ms)).await;
            }
            LargeTurn { _permit: permit, began_ms: world::milliseconds() }
        };
        timeout(Duration::from_millis(FORWARD_MS_MAX), waiting).await.ok_or_else(|| {
            let text = "nothing was done: too many large updates wait for this group's log: retry \
                        later, or write smaller values";
            Error::new(Reason::Overloaded, text)
        })
    }

    /// Ends a turn: this node's log has the update. `has_waiters`: true if others wait behind it.
    pub(super) fn end(&self, turn: LargeTurn, has_waiters: bool) {
        if has_waiters {
            let now_ms = world::milliseconds();
            let took_ms = now_ms.saturating_sub(turn.began_ms).min(PAUSE_MS_MAX);
            self.begins_ms.store(now_ms + took_ms, Ordering::Release);
        }
    }

    /// Ends all waits: the group has failed.
    pub(super) fn close(&self) {
        self.turns.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn large_updates_take_turns_in_order_of_arrival() {
        let updates = LargeUpdates::default();
        let first = updates.try_turn().expect("nobody else");
        assert!(updates.try_turn().is_none());
        let (second, third) = (updates.turn(), updates.turn());
        tokio::pin!(second, third);
        let soon = Duration::from_millis(20);
        assert!(tokio::time::timeout(soon, &mut second).await.is_err(), "it waits");
        assert!(tokio::time::timeout(soon, &mut third).await.is_err(), "it waits too");
        updates.end(first, false);
        let second = second.await.expect("its turn");
        assert!(tokio::time::timeout(soon, &mut third).await.is_err(), "behind the second");
        drop(second);
        third.await.expect("a dropped turn has ended");
    }

    #[tokio::test]
    async fn pause_behind_a_turn_is_as_long_as_the_turn_if_others_waited() {
        world::set_time(Some(1_000_000_000));
        let at_ms = |ms: u64| world::set_time(Some(1_000_000_000 + ms * 1_000_000));
        let updates = LargeUpdates::default();
        let turn = updates.try_turn().expect("nobody else");
        at_ms(7);
        updates.end(turn, true);
        assert!(updates.try_turn().is_none());
        at_ms(13);
        assert!(updates.try_turn().is_none());
        at_ms(14);
        let turn = updates.try_turn().expect("the pause is over");
        at_ms(1_000);
        updates.end(turn, true);
        at_ms(1_000 + PAUSE_MS_MAX - 1);
        assert!(updates.try_turn().is_none());
        at_ms(1_000 + PAUSE_MS_MAX);
        let turn = updates.try_turn().expect("no pause is longer");
        updates.end(turn, false);
        assert!(updates.try_turn().is_some(), "nobody waited");
        world::set_time(None);
    }

    #[tokio::test]
    async fn waiting_large_update_goes_on_when_the_group_fails() {
        let updates = LargeUpdates::default();
        let _held = updates.try_turn().expect("nobody else");
        let waiting = updates.turn();
        tokio::pin!(waiting);
        let soon = Duration::from_millis(20);
        assert!(tokio::time::timeout(soon, &mut waiting).await.is_err(), "it waits");
        updates.close();
        waiting.await.expect("the group refuses it");
        assert!(updates.try_turn().is_none());
    }
}

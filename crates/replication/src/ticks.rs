//! Ticks of a group's replica: the times at which it gets a tick event.
//!
//! While work is in progress ticks are frequent, because lost messages are repeated only by time. A
//! replica at rest returns its next due time: a group without work costs its heartbeats and nothing
//! else, however many groups a node has.

use base::Millis;
use logic::consensus::Replica;
use std::time::Duration;

/// Number of ticks in the duration of a lease, while work is in progress.
const TICKS_PER_LEASE: u64 = 16;
/// Ticks of groups at rest fall on multiples of this part of a lease: so the messages of a node's
/// groups to one peer share few frames.
const GRID_PER_LEASE: u64 = 48;
/// Longest sleep of a group that needs no ticks.
const IDLE: Duration = Duration::from_secs(1);

/// See the head of this file.
#[derive(Default)]
pub struct Ticks {
    /// Time of the next tick, in milliseconds. `u64::MAX`: not before an event.
    next: u64,
    /// Time of the last tick, in milliseconds.
    last: u64,
}

impl Ticks {
    /// Returns true if a tick is due.
    pub(super) fn are_due(&self, now: Millis) -> bool {
        now.0 >= self.next || self.next == u64::MAX
    }

    /// Stops the ticks: the group has no other members.
    pub(super) fn stop(&mut self) {
        self.next = u64::MAX;
    }

    /// Notes that the replica got a tick.
    pub(super) fn ticked(&mut self, now: Millis) {
        self.last = now.0;
        self.next = now.0 + 1;
    }

    /// Plans the next tick. A replica that rests until a due time gets none before it.
    pub(super) fn plan(&mut self, replica: &Replica, lease_ms: u64) {
        if self.next == u64::MAX {
            return;
        }
        let usual = self.last + (lease_ms / TICKS_PER_LEASE).max(1);
        let rest_until = replica.idle_until();
        #[cfg(debug_assertions)]
        rest_until.into_iter().for_each(|until| assert_rest(replica, until));
        let grid = (lease_ms / GRID_PER_LEASE).max(1);
        self.next = rest_until.map_or(usual, |until| until.0.next_multiple_of(grid));
    }

    /// Returns the time until the next tick.
    pub(super) fn sleep(&self, now: Millis) -> Duration {
        match self.next {
            u64::MAX => IDLE,
            at => Duration::from_millis(at.saturating_sub(now.0)).min(IDLE),
        }
    }
}

/// Checks that a replica at rest does nothing when it gets a tick before its due time.
#[cfg(debug_assertions)]
fn assert_rest(replica: &Replica, until: Millis) {
    use logic::consensus::Event;
    let (mut copy, mut effects) = (replica.clone(), Vec::new());
    copy.step(Event::Tick { now: Millis(until.0.saturating_sub(1)) }, &mut effects);
    assert!(effects.is_empty(), "it does not rest: {effects:?}");
}

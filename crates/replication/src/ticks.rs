//! Ticks of a group's replica: the times at which it gets a tick event.
//!
//! While work is in progress ticks are frequent, because lost messages are repeated only by time. A
//! replica at rest returns its next due time: a group without work costs its heartbeats and nothing
//! else, however many groups a node has.

use base::Millis;
use logic::consensus::{Replica, Role};
use runtime::world;
use std::time::Duration;

/// Number of ticks in the duration of a lease, while work is in progress.
const TICKS_PER_LEASE: u64 = 16;
/// Ticks of followers at rest fall on multiples of this part of a lease: so those of a node's
/// groups share wake-ups.
const GRID_PER_LEASE: u64 = 48;
/// Ticks of masters at rest fall on multiples of this part, the interval of heartbeats: those of
/// all groups of a node leave together. The first interval of a master at rest is up to twice as
/// long, which is less than a lease.
const HEARTBEATS_PER_LEASE: u64 = 6;
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

    /// Returns the time that a due tick carries: the planned one, unless it is late by half of a
    /// heartbeat's interval. A lease counts from that time, so it only ends sooner. With the time
    /// of its arrival, each heartbeat would delay the next one by a whole interval.
    pub(super) fn time(&self, now: Millis, lease_ms: u64) -> Millis {
        let late_ms = now.0.saturating_sub(self.next);
        let is_punctual = now.0 >= self.next && late_ms < lease_ms / HEARTBEATS_PER_LEASE / 2;
        if is_punctual { Millis(self.next) } else { now }
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
        let is_master = replica.role() == Role::Master;
        let parts = if is_master { HEARTBEATS_PER_LEASE } else { GRID_PER_LEASE };
        let grid = (lease_ms / parts).max(1);
        self.next = rest_until.map_or(usual, |until| until.0.next_multiple_of(grid));
    }

    /// Returns the time until the next tick, to the nanosecond: groups whose ticks fall on the same
    /// millisecond wake together.
    pub(super) fn sleep(&self) -> Duration {
        match self.next {
            u64::MAX => IDLE,
            at => {
                let at_ns = at.saturating_mul(1_000_000);
                Duration::from_nanos(at_ns.saturating_sub(world::nanoseconds())).min(IDLE)
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn punctual_tick_carries_the_time_for_which_it_was_planned() {
        let ticks = Ticks { next: 1_200, last: 1_100 };
        for (now, expected) in [(1_200, 1_200), (1_201, 1_200), (1_249, 1_200), (1_250, 1_250)] {
            assert_eq!(ticks.time(Millis(now), 600), Millis(expected), "at {now}");
        }
        let stopped = Ticks { next: u64::MAX, last: 0 };
        assert_eq!(stopped.time(Millis(7), 600), Millis(7));
        assert_eq!(Ticks::default().time(Millis(5_000), 600), Millis(5_000), "the first one");
    }
}

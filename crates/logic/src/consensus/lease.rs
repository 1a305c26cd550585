//! Until when a master may answer reads by itself.
//!
//! A voter that acknowledges a heartbeat sent at `t` answers no higher ballot for a while, so the
//! master may be sure of its mastership until `t + L(1-e)` on its own clock, where `e` bounds how
//! far two clocks drift apart. The voter's half of the bargain (keeping silent for `L(1+e)`, also
//! after a restart) comes with the second voter: a sole voter can only have granted a lease to
//! itself, and the data directory's lock keeps a second process of it away.

use super::quorum::Tally;
use base::{Millis, NodeId};

/// The two numbers of the bargain; every member of a group must use the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseClock {
    /// `L`: how long a grant lasts.
    pub length: Millis,
    /// `e`, in parts per million: how far any two members' clocks may drift apart. At most
    /// 1,000,000.
    pub drift_ppm: u32,
}

impl Default for LeaseClock {
    /// 600 ms, and clocks that drift by less than one in a hundred.
    fn default() -> LeaseClock {
        LeaseClock { length: Millis(600), drift_ppm: 10_000 }
    }
}

impl LeaseClock {
    /// `sent + L(1-e)`, rounded down: the end of what a grant for a heartbeat sent at `sent`
    /// allows.
    fn end(self, sent: Millis) -> Millis {
        let kept_ppm = 1_000_000_u128.saturating_sub(u128::from(self.drift_ppm));
        let length = u128::from(self.length.0) * kept_ppm / 1_000_000;
        let length = u64::try_from(length).expect("a part of a u64 is a u64");
        Millis(sent.0.saturating_add(length))
    }
}

/// The grants a master holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lease {
    clock: LeaseClock,
    granted: Tally<Millis>,
}

impl Lease {
    /// No grants yet.
    pub(super) fn new(clock: LeaseClock, voters: impl Iterator<Item = NodeId>) -> Lease {
        Lease { clock, granted: Tally::new(voters) }
    }

    /// Notes that `voter` granted the heartbeat sent at `sent`.
    pub(super) fn grant(&mut self, voter: NodeId, sent: Millis) {
        self.granted.raise(voter, self.clock.end(sent));
    }

    /// Whether a majority's grants still last at `now`.
    pub(super) fn holds(&self, now: Millis) -> bool {
        self.granted.agreed().is_some_and(|end| now < end)
    }

    /// Gives all grants back.
    pub(super) fn release(&mut self) {
        self.granted.clear();
    }
}

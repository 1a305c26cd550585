//! Leases: until when a master may answer reads by itself, and until when a voter must not help
//! another.
//!
//! A voter that acknowledges a heartbeat sent at `t` on the master's clock promises no higher
//! ballot, and does not lead, for `L(1+e)` from when it heard it; the master may be sure of its
//! mastership until `t + L(1-e)`. `e` bounds how far any two clocks drift apart while `L` passes,
//! so the voter's wait ends last (Gray and Cheriton, SOSP 1989). A voter that was restarted has
//! forgotten its grants, so it keeps quiet for as long as any of them could last.

use super::quorum::VoterTally;
use super::rules::{Rule, broken};
use base::{Ballot, Millis, NodeId};

/// The bargain. Every member of a group must use the same two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseClock {
    /// `L`: how long a grant lasts.
    pub length: Millis,
    /// `e`, in parts per million: how far any two members' clocks may drift apart. At most
    /// 1,000,000.
    pub drift_ppm: u32,
    /// Whether a master relies on its lease to answer reads. Without that each read asks a
    /// majority, and a clock that stands still (a paused virtual machine) makes none of them old.
    /// This is the master's own affair: grants are asked for and given all the same.
    pub reads: bool,
}

impl Default for LeaseClock {
    /// 600 ms, and clocks that drift by less than one in a hundred.
    fn default() -> LeaseClock {
        LeaseClock { length: Millis(600), drift_ppm: 10_000, reads: true }
    }
}

impl LeaseClock {
    /// `sent + L(1-e)`, rounded down: the end of what a grant for a heartbeat sent at `sent`
    /// allows.
    pub(super) fn end(self, sent: Millis) -> Millis {
        let drift_ppm = if broken(Rule::LeaseEndsEarly) { 0 } else { self.drift_ppm };
        let kept_ppm = 1_000_000_u128.saturating_sub(u128::from(drift_ppm));
        let length = u128::from(self.length.0) * kept_ppm / 1_000_000;
        let length = u64::try_from(length).expect("a part of a u64 is a u64");
        Millis(sent.0.saturating_add(length))
    }

    /// `heard + L(1+e)`, rounded up: the end of what a grant given at `heard` forbids.
    pub(super) fn bound(self, heard: Millis) -> Millis {
        let drift_ppm = if broken(Rule::GrantEndsLate) { 0 } else { self.drift_ppm };
        let grown_ppm = 1_000_000 + u128::from(drift_ppm);
        let length = (u128::from(self.length.0) * grown_ppm).div_ceil(1_000_000);
        Millis(heard.0.saturating_add(u64::try_from(length).unwrap_or(u64::MAX)))
    }

    /// Time from one heartbeat to the next: a lease outlives the loss of a few.
    pub(super) fn beat(self) -> u64 {
        (self.length.0 / 6).max(1)
    }

    /// How long a voter that seeks a master waits for answers, at first.
    pub(super) fn round(self) -> u64 {
        (self.length.0 / 12).max(1)
    }

    /// After so long without an answer it is asked for again; a master that heard no majority for
    /// so long asks for no lease.
    pub(super) fn patience(self) -> u64 {
        (self.length.0 / 2).max(1)
    }
}

/// The grants a master holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lease {
    clock: LeaseClock,
    /// When the heartbeats were sent that each voter granted.
    granted: VoterTally<Millis>,
}

impl Lease {
    /// No grants yet; those of `needed` voters make a lease.
    pub(super) fn new(
        clock: LeaseClock,
        voters: impl Iterator<Item = NodeId>,
        needed: usize,
    ) -> Lease {
        Lease { clock, granted: VoterTally::new(voters, needed) }
    }

    /// Notes that `voter` granted the heartbeat sent at `sent`.
    pub(super) fn grant(&mut self, voter: NodeId, sent: Millis) {
        self.granted.raise(voter, sent);
    }

    /// When the last heartbeat was sent that enough voters granted.
    pub(super) fn heard(&self) -> Option<Millis> {
        self.granted.agreed()
    }

    /// Until when their grants last.
    pub(super) fn until(&self) -> Option<Millis> {
        self.heard().map(|sent| self.clock.end(sent))
    }

    /// Whether they still last at `now`.
    pub(super) fn holds(&self, now: Millis) -> bool {
        self.until().is_some_and(|until| now < until)
    }
}

/// What a voter granted: until then it helps nobody else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct LeaseBound {
    /// To whom.
    pub ballot: Ballot,
    /// Until when.
    pub until: Millis,
}

impl LeaseBound {
    /// Whether `ballot` must wait. The lease's own holder need not, and nobody must once it was
    /// given back.
    pub(super) fn forbids(self, ballot: Ballot, released: Ballot, now: Millis) -> bool {
        let other = self.ballot.node != ballot.node && self.ballot != released;
        other && now < self.until
    }
}

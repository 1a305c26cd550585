//! Leases: the time for which a master may answer reads by itself, and for which a voter must not
//! help another candidate.
//!
//! A voter that acknowledges a heartbeat sent at `t` on the master's clock promises no higher
//! ballot, and does not lead, for `S(1+e)` from its arrival; the master may be sure of its
//! mastership until `t + S(1-e)`. `e` bounds how far any two clocks drift apart while `S` passes,
//! so the voter's wait ends last (Gray and Cheriton, SOSP 1989). A restarted voter has forgotten
//! its grants, so it waits for as long as any of them could last.
//!
//! `S` is half of the length `L`. A voter has *patience* for all of `L`: it seeks no other master
//! before its end, unless the connection with the master ended. Patience is for the peace of the
//! group, the promise for its safety: a link's end shortens the first, never the second.

use super::quorum::VoterTally;
use super::rules::{Rule, broken};
use base::{Ballot, Millis, NodeId};

/// Parameters of leases. Every member of a group must use the same length and drift.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseClock {
    /// `L`: time for which voters wait for a silent master. A lease lasts half of it.
    pub length: Millis,
    /// `e`, in parts per million: bound on the drift between any two members' clocks. At most
    /// 1,000,000.
    pub drift_ppm: u32,
    /// True if a master answers reads under its lease. Otherwise each read asks a majority, and a
    /// clock that stands still (a paused virtual machine) makes none of them stale. This concerns
    /// the master alone: grants are asked for and given all the same.
    pub allows_reads: bool,
}

/// Divisor of the length of which a lease is the quotient.
const HALF: u128 = 2;

/// Term of a lease, as a heartbeat requests it and a voter grants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeaseTerm {
    /// Half of the length.
    Half,
    /// Whole length: masters of former versions request it, and answer reads for so long.
    Whole,
}

impl Default for LeaseClock {
    /// Returns 600 ms, and clocks that drift by less than one in a hundred.
    fn default() -> LeaseClock {
        LeaseClock { length: Millis(600), drift_ppm: 10_000, allows_reads: true }
    }
}

impl LeaseClock {
    /// Returns `sent + S(1-e)`, rounded down: the end of the time for which a grant of a heartbeat
    /// sent at `sent` lets the master answer reads.
    pub(super) fn lease_end(self, sent: Millis) -> Millis {
        let drift_ppm = if broken(Rule::LeaseEndsEarly) { 0 } else { self.drift_ppm };
        let remaining_ppm = 1_000_000_u128.saturating_sub(u128::from(drift_ppm));
        let lease = u128::from(self.length.0) * remaining_ppm / (1_000_000 * HALF);
        let lease = u64::try_from(lease).expect("a part of a u64 is a u64");
        Millis(sent.0.saturating_add(lease))
    }

    /// Returns the end, rounded up, of the time for which a grant of this term made at `received`
    /// binds the voter: `S(1+e)` or `L(1+e)` later.
    pub(super) fn grant_end(self, received: Millis, term: LeaseTerm) -> Millis {
        let drift_ppm = if broken(Rule::GrantEndsLate) { 0 } else { self.drift_ppm };
        let extended_ppm = 1_000_000 + u128::from(drift_ppm);
        let part = if term == LeaseTerm::Half { HALF } else { 1 };
        let length = (u128::from(self.length.0) * extended_ppm).div_ceil(1_000_000 * part);
        Millis(received.0.saturating_add(u64::try_from(length).unwrap_or(u64::MAX)))
    }

    /// Returns the interval of heartbeats in milliseconds: a lease outlives the loss of one, and a
    /// voter's patience that of four.
    pub(super) fn heartbeat_interval_ms(self) -> u64 {
        (self.length.0 / 6).max(1)
    }

    /// Returns the first length of an election round in milliseconds.
    pub(super) fn round_ms(self) -> u64 {
        (self.length.0 / 12).max(1)
    }

    /// Returns the milliseconds without an answer after which a request is repeated; a master that
    /// no majority has answered for that long requests no lease.
    pub(super) fn answer_timeout_ms(self) -> u64 {
        (self.length.0 / 2).max(1)
    }
}

/// Grants that a master holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lease {
    clock: LeaseClock,
    /// Send times of the last heartbeats that each voter granted.
    granted: VoterTally<Millis>,
}

impl Lease {
    /// Returns a lease without grants; those of `needed` voters make it valid.
    pub(super) fn new(
        clock: LeaseClock,
        voters: impl Iterator<Item = NodeId>,
        needed: usize,
    ) -> Lease {
        Lease { clock, granted: VoterTally::new(voters, needed) }
    }

    /// Records that `voter` granted the heartbeat sent at `sent`.
    pub(super) fn grant(&mut self, voter: NodeId, sent: Millis) {
        self.granted.raise(voter, sent);
    }

    /// Returns the send time of the last heartbeat that enough voters granted.
    pub(super) fn last_grant(&self) -> Option<Millis> {
        self.granted.agreed()
    }

    /// Returns the end of the lease. `None`: it was never valid.
    pub(super) fn until(&self) -> Option<Millis> {
        self.last_grant().map(|sent| self.clock.lease_end(sent))
    }

    /// Returns true if the lease is valid at `now`.
    pub(super) fn is_valid(&self, now: Millis) -> bool {
        self.until().is_some_and(|until| now < until)
    }
}

/// Lease that a voter granted: until it ends, the voter promises no other candidate anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct LeaseGrant {
    /// Ballot of the holder.
    pub ballot: Ballot,
    /// End of the promise.
    pub until: Millis,
    /// End of the voter's patience: before it the voter seeks no other master. Not before `until`.
    pub patience_until: Millis,
}

impl LeaseGrant {
    /// Returns true if `ballot` must wait for the end of the promise. The lease's own holder need
    /// not, and no ballot must once the lease was released.
    pub(super) fn forbids(self, ballot: Ballot, released: Ballot, now: Millis) -> bool {
        let is_other_holder = self.ballot.node != ballot.node && self.ballot != released;
        is_other_holder && now < self.until
    }

    /// Ends the patience with the connection of the holder. The promise stays: the holder may live
    /// and answer reads under its lease, whatever ended the connection.
    pub(super) fn end_patience(&mut self) {
        if broken(Rule::PromiseOutlivesLink) {
            self.until = Millis(0);
        }
        self.patience_until = self.until;
    }
}

//! Host of a replica, as the replica knows it: the node's id, the time, and what keeps it from
//! leading.
//!
//! Promises: time never runs backwards, even if two of the node's threads hand over their events
//! out of order.
//! Never: changes by a message of another member.

use super::lease::{LeaseClock, LeaseGrant, LeaseTerm};
use base::{Ballot, Millis, NodeId};

/// Identity, time and health of the host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Host {
    pub node: NodeId,
    /// Length and drift of leases: the same for the whole group.
    pub clock: LeaseClock,
    /// Latest time of an event.
    pub now: Millis,
    /// True if another voter is preferred as master.
    pub is_yielding: bool,
    /// True if the disk hangs: neither a promise nor an entry can be saved.
    pub disk_hangs: bool,
}

impl Host {
    /// Builds the state of a node whose disk answers, at time 0.
    pub(super) fn new(node: NodeId, clock: LeaseClock) -> Host {
        Host { node, clock, now: Millis(0), is_yielding: false, disk_hangs: false }
    }

    /// Advances the time to `now`, unless it is later already.
    pub(super) fn advance(&mut self, now: Millis) {
        self.now = self.now.max(now);
    }

    /// Returns the time this many milliseconds from now.
    pub(super) fn after(&self, milliseconds: u64) -> Millis {
        Millis(self.now.0.saturating_add(milliseconds))
    }

    /// Returns the time this many lengths of a lease from now.
    pub(super) fn after_leases(&self, lengths: u64) -> Millis {
        self.after(self.clock.length.0.saturating_mul(lengths))
    }

    /// Returns a lease granted to `ballot` now.
    pub(super) fn grant(&self, ballot: Ballot, term: LeaseTerm) -> LeaseGrant {
        let until = self.clock.grant_end(self.now, term);
        let patience_until = self.clock.grant_end(self.now, LeaseTerm::Whole);
        LeaseGrant { ballot, until, patience_until }
    }
}

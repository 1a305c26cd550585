//! The node that a replica runs on, as its replica knows it: which one it is, what time it is, and
//! what keeps it from leading.
//!
//! Promises: time never runs backwards, even if two of the node's threads hand their events in out
//! of order.
//! Never: changes by anything that another member says.

use super::lease::{LeaseBound, LeaseClock};
use base::{Ballot, Millis, NodeId};

/// Identity, time and health of the node below a replica.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Host {
    pub node: NodeId,
    /// The two numbers that all leases of the group are computed with.
    pub clock: LeaseClock,
    /// The latest time that an event brought.
    pub now: Millis,
    /// Another voter is to be master whenever anyone is.
    pub yields: bool,
    /// The disk answers nothing: neither a promise nor a value could be saved.
    pub hangs: bool,
}

impl Host {
    /// A node whose disk answers, at time 0.
    pub(super) fn new(node: NodeId, clock: LeaseClock) -> Host {
        Host { node, clock, now: Millis(0), yields: false, hangs: false }
    }

    /// Moves the time on to `now`, unless it is later already.
    pub(super) fn advance(&mut self, now: Millis) {
        self.now = self.now.max(now);
    }

    /// The moment so many milliseconds from now.
    pub(super) fn after(&self, milliseconds: u64) -> Millis {
        Millis(self.now.0.saturating_add(milliseconds))
    }

    /// The moment so many lengths of a lease from now.
    pub(super) fn after_leases(&self, lengths: u64) -> Millis {
        self.after(self.clock.length.0.saturating_mul(lengths))
    }

    /// A lease granted to `ballot` now.
    pub(super) fn grant(&self, ballot: Ballot) -> LeaseBound {
        LeaseBound { ballot, until: self.clock.bound(self.now) }
    }
}

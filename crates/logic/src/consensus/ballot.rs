//! Ballots that a replica has promised and seen, and the next one of its own.
//!
//! Promises: the promised ballot only rises; a promise counts as on disk only once the log reported
//! so.
//! Never: knows the log; `log.rs` holds the ballot under which entries were accepted.

use super::effect::Effect;
use base::{Ballot, ConfigurationId, NodeId};

/// Number of bits of a round that count attempts. The configuration stands above them, so every
/// ballot of a later configuration is above all ballots of an earlier one.
const ATTEMPT_BITS: u32 = 40;

/// Ballots of one replica. A master or candidate has promised its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ballots {
    /// Highest ballot promised, or being saved as a promise.
    pub promised: Ballot,
    /// Highest ballot whose promise is on disk.
    pub saved: Ballot,
    /// Highest ballot that any member is known to have promised or tried.
    pub highest: Ballot,
}

impl Ballots {
    /// Restores the ballots of a replica that has `promised` on disk.
    pub(super) fn restore(promised: Ballot) -> Ballots {
        Ballots { promised, saved: promised, highest: promised }
    }

    /// Returns true if the promise is on disk.
    pub(super) fn is_saved(&self) -> bool {
        self.saved == self.promised
    }

    /// Records that a member promised or tried `ballot`.
    pub(super) fn observe(&mut self, ballot: Ballot) {
        self.highest = self.highest.max(ballot);
    }

    /// Returns the lowest ballot of `node` above all promised or seen ones. `None`: none is left in
    /// this configuration.
    pub(super) fn next(&self, node: NodeId, configuration: ConfigurationId) -> Option<Ballot> {
        next_above(self.promised.max(self.highest), node, configuration)
    }

    /// Promises `ballot`; the promise counts once it is on disk.
    pub(super) fn promise(&mut self, ballot: Ballot, effects: &mut Vec<Effect>) {
        self.promised = ballot;
        effects.push(Effect::SavePromise { ballot });
    }

    /// Records that the promise is on disk. Returns false if that changes nothing: the promise is
    /// of an earlier attempt, of one that was given up, or was copied to the log's head.
    ///
    /// # Panics
    /// If it is of a ballot that was never requested to be saved.
    pub(super) fn record_saved(&mut self, ballot: Ballot) -> bool {
        assert!(ballot <= self.promised, "only what was asked for can be saved as promised");
        let changed = ballot == self.promised && ballot != self.saved;
        if changed {
            self.saved = ballot;
        }
        changed
    }

    /// Checks the invariants, after every step.
    pub(super) fn check(&self, configuration: ConfigurationId) {
        assert!(self.saved <= self.promised, "saved <= promised");
        let is_later_ballot = is_later(self.promised, configuration);
        assert!(!is_later_ballot, "one promises in the present configuration");
    }
}

/// Returns the lowest ballot of `node` in this configuration that is above `highest`. `None`: none
/// is left, since the last one was seen.
///
/// A node never uses a round twice, because it saves the promise before it sends it; two nodes
/// never share a ballot, because the node is part of it (*Paxos Made Simple*, section 2.5: disjoint
/// sets of numbers).
pub(super) fn next_above(
    highest: Ballot,
    node: NodeId,
    configuration: ConfigurationId,
) -> Option<Ballot> {
    let first = u64::from(configuration.0).checked_mul(1 << ATTEMPT_BITS)?;
    let round = highest.round.checked_add(1)?.max(first);
    Some(Ballot { round, node }).filter(|ballot| !is_later(*ballot, configuration))
}

/// Returns true if a ballot belongs to a later configuration than this one.
pub(super) fn is_later(ballot: Ballot, configuration: ConfigurationId) -> bool {
    ballot.round >> ATTEMPT_BITS > u64::from(configuration.0)
}

/// Returns true if a ballot belongs to an earlier configuration than this one.
pub(super) fn is_earlier(ballot: Ballot, configuration: ConfigurationId) -> bool {
    ballot.round >> ATTEMPT_BITS < u64::from(configuration.0)
}

//! The ballots that a replica has promised and heard of, and the next one of its own.
//!
//! Promises: what is promised only rises; a promise counts as on disk only once the log said so.
//! Never: knows of the log; what was accepted under a ballot is in `log.rs`.

use super::effect::Effect;
use base::{Ballot, ConfigurationId, NodeId};

/// Bits of a round that count attempts. Above them stands the configuration: whatever is accepted
/// in a later configuration is above all that was in an earlier one.
const ATTEMPT_BITS: u32 = 40;

/// The ballots of one replica. A master, and whoever tries to be one, has promised its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ballots {
    /// The highest promised, or being saved as a promise.
    pub promised: Ballot,
    /// The highest whose promise is on disk.
    pub saved: Ballot,
    /// The highest anyone was heard to have promised or tried.
    pub highest: Ballot,
}

impl Ballots {
    /// A replica that has `promised` on disk.
    pub(super) fn restore(promised: Ballot) -> Ballots {
        Ballots { promised, saved: promised, highest: promised }
    }

    /// True if the promise is on disk.
    pub(super) fn is_saved(&self) -> bool {
        self.saved == self.promised
    }

    /// Notes that somebody promised or tried `ballot`.
    pub(super) fn hear(&mut self, ballot: Ballot) {
        self.highest = self.highest.max(ballot);
    }

    /// The lowest ballot of `node` above all that was promised or heard of; none: there is none any
    /// more in this configuration.
    pub(super) fn next(&self, node: NodeId, configuration: ConfigurationId) -> Option<Ballot> {
        above(self.promised.max(self.highest), node, configuration)
    }

    /// Promises `ballot`, which counts once it is on disk.
    pub(super) fn promise(&mut self, ballot: Ballot, effects: &mut Vec<Effect>) {
        self.promised = ballot;
        effects.push(Effect::SavePromise { ballot });
    }

    /// The promise is on disk. False: that says nothing new, for it is of an earlier attempt, of
    /// one that was given up, or was copied to the log's head.
    ///
    /// # Panics
    /// When it is of a ballot that was never asked to be saved.
    pub(super) fn save(&mut self, ballot: Ballot) -> bool {
        assert!(ballot <= self.promised, "only what was asked for can be saved as promised");
        let news = ballot == self.promised && ballot != self.saved;
        if news {
            self.saved = ballot;
        }
        news
    }

    /// The invariants, after every step.
    pub(super) fn check(&self, configuration: ConfigurationId) {
        assert!(self.saved <= self.promised, "saved <= promised");
        let later = is_later(self.promised, configuration);
        assert!(!later, "one promises in the present configuration");
    }
}

/// The lowest ballot of `node` in this configuration that is above `highest`; none: there is none
/// any more, for somebody was heard with the last.
///
/// A round is never used twice by one node, because the promise for it is saved before it is
/// spoken; two nodes never share a ballot, because the node is part of it (*Paxos Made Simple*,
/// section 2.5: disjoint sets of numbers).
pub(super) fn above(
    highest: Ballot,
    node: NodeId,
    configuration: ConfigurationId,
) -> Option<Ballot> {
    let first = u64::from(configuration.0).checked_mul(1 << ATTEMPT_BITS)?;
    let round = highest.round.checked_add(1)?.max(first);
    Some(Ballot { round, node }).filter(|ballot| !is_later(*ballot, configuration))
}

/// Whether a ballot belongs to a later configuration than this one.
pub(super) fn is_later(ballot: Ballot, configuration: ConfigurationId) -> bool {
    ballot.round >> ATTEMPT_BITS > u64::from(configuration.0)
}

/// Whether a ballot belongs to an earlier configuration than this one.
pub(super) fn is_earlier(ballot: Ballot, configuration: ConfigurationId) -> bool {
    ballot.round >> ATTEMPT_BITS < u64::from(configuration.0)
}

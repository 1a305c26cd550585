//! State that a replica needs to continue after a restart, and its validation.

use super::ballot;
use super::configuration::Configuration;
use super::lease::LeaseClock;
use super::tear::Tear;
use base::{Ballot, LogIndex, NodeId};
use std::fmt;

/// State of a replica from its earlier incarnations; [`super::Replay`] gathers it from the log's
/// records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredState {
    /// Id of this node.
    pub node: NodeId,
    /// Members of the group: the configuration in force after `decided`; for a joining node, one of
    /// which it is not a member.
    pub configuration: Configuration,
    /// Index of the stop-sign with which it began; 0 for the first.
    pub base: LogIndex,
    /// Stop-signs that are accepted and not known to be decided, in order.
    pub signs: Vec<(LogIndex, Configuration)>,
    /// Highest ballot promised; zero in a first incarnation.
    pub promised: Ballot,
    /// Highest ballot under which anything was accepted; zero in a first incarnation.
    pub accepted_ballot: Ballot,
    /// Last index that is accepted, or applied by the store; 0 in a first incarnation.
    pub last: LogIndex,
    /// Last index known to be decided (the log recorded it, or the store has applied it).
    pub decided: LogIndex,
    /// Last tear of the log that is not known to be mended: entries that were accepted under
    /// `accepted_ballot` may be missing after `last`. Promises and adoptions never are: the log
    /// states that they are durable before they are sent.
    pub tear: Option<Tear>,
    /// Length and drift of leases.
    pub lease: LeaseClock,
}

/// Reason why a replica can't be restored. Each needs a person or a later version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreError {
    /// The numbers contradict each other; the text says which.
    Contradiction(&'static str),
}

impl RestoredState {
    /// Checks that the numbers do not contradict each other.
    pub(super) fn check(&self) -> Result<(), RestoreError> {
        if self.accepted_ballot > self.promised {
            return Err(RestoreError::Contradiction("accepted under a ballot never promised"));
        }
        if self.signs.iter().any(|(index, _)| *index <= self.decided || *index > self.last) {
            return Err(RestoreError::Contradiction("a stop-sign outside the undecided values"));
        }
        if ballot::is_later(self.promised, self.configuration.id()) {
            return Err(RestoreError::Contradiction("promised before its configuration began"));
        }
        if self.decided > self.last {
            return Err(RestoreError::Contradiction("decided what was never accepted"));
        }
        Ok(())
    }
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RestoreError::Contradiction(what) => write!(f, "the log contradicts itself: {what}"),
        }
    }
}

impl std::error::Error for RestoreError {}

//! State that a replica needs to continue after a restart, and checks that it is complete.

use super::ballot;
use super::configuration::Configuration;
use super::lease::LeaseClock;
use super::tear::Tear;
use base::{Ballot, LogIndex, NodeId};
use std::fmt;

/// What a replica remembers of its earlier lives; [`super::Replay`] gathers it from the log's
/// records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// This node.
    pub node: NodeId,
    /// The group's members: the configuration in force behind `decided`; for who joins, one that it
    /// is no member of.
    pub configuration: Configuration,
    /// The index of the stop-sign it began with; 0 for the first.
    pub base: LogIndex,
    /// Stop-signs that are accepted and not known to be decided, in order.
    pub signs: Vec<(LogIndex, Configuration)>,
    /// The highest ballot promised; zero in a first life.
    pub promised: Ballot,
    /// The highest ballot anything was accepted under; zero in a first life.
    pub accepted_ballot: Ballot,
    /// The last index that is accepted, or applied by the store; 0 in a first life.
    pub last: LogIndex,
    /// The last index known to be decided (it stood in the log, or the store has applied it).
    pub decided: LogIndex,
    /// The last tear of the log that is not known to be made good: values that were accepted under
    /// `accepted_ballot` may be missing behind `last`. Promises and adoptions never are: the log
    /// states that they are durable before they are told.
    pub tear: Option<Tear>,
    /// The lease's two numbers.
    pub lease: LeaseClock,
}

/// Why nothing can be restored. Each means that a person or a later version is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreError {
    /// The remembered numbers contradict each other; the words say which.
    Contradiction(&'static str),
}

impl Restored {
    /// Whether such a memory can be.
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

//! Replay of one group's log records, in the order of the stream, to the state that its replica
//! must have.
//!
//! The records come from disk, so they are checked, not asserted. `V` is the caller's form of an
//! entry: its bytes, or its position in the log.
//!
//! An unreadable part of the log is a hole ([`Replay::replay_hole`]). A replica must not forget how
//! far its log goes, under which ballot it accepted that, and what it promised; each of these only
//! ever replaces its former state. So once a promise and the mark of an adopted log
//! ([`Replay::replay_adoption`]) stand *after* a hole, the hole matters only for entries, and it is
//! known which ones are missing. A decided entry is the same at every replica: another one can give
//! it back ([`Replay::mend`]). Source: Alagappan et al., *Protocol-Aware Recovery for
//! Consensus-Based Storage*, FAST 2018.

use super::tear::Tear;
use base::{Ballot, LogIndex};
use std::collections::BTreeMap;
use std::fmt;

/// Replay in progress.
///
/// Entries known to be decided can be taken out during the replay ([`Replay::next_decided`]), so
/// that memory holds the undecided tail only.
#[derive(Clone, Debug)]
pub struct Replay<V> {
    promised: Ballot,
    accepted_ballot: Ballot,
    /// Decided index by the records replayed so far; the store may hold more, from records still to
    /// come.
    decided: LogIndex,
    /// Last entry that was taken out, or that the store held from the beginning.
    applied: LogIndex,
    /// Accepted entries above `applied`.
    tail: BTreeMap<LogIndex, V>,
    /// Entries of a log that was being adopted, and their ballot.
    staged: (Ballot, BTreeMap<LogIndex, V>),
    /// Last accepted index, whether its entry was readable or not.
    end: LogIndex,
    hole: Option<Hole>,
    /// Last tear that is not known to be mended.
    tear: Option<Tear>,
}

/// Records found since the last hole that restate the state lost in it.
#[derive(Clone, Copy, Debug, Default)]
struct Hole {
    promise: bool,
    mark: bool,
}

/// Result of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayResult<V> {
    /// Highest ballot promised.
    pub promised: Ballot,
    /// Highest ballot under which anything was accepted.
    pub accepted_ballot: Ballot,
    /// Last accepted index.
    pub last: LogIndex,
    /// Last index known to be decided.
    pub decided: LogIndex,
    /// Last tear that is not known to be mended.
    pub tear: Option<Tear>,
    /// Accepted entries that were not taken out, by index, without gaps, ending at `last`.
    pub tail: BTreeMap<LogIndex, V>,
}

/// Error of records that one replica cannot have written in this order: the log is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayError {
    /// An entry was accepted, or a log adopted, under a lower ballot than one before it.
    BallotDecreased {
        /// The lower ballot.
        found: Ballot,
        /// The ballot before it.
        before: Ballot,
    },
    /// Entries known to be decided were voided.
    DecidedVoided {
        /// Last index that was kept.
        kept: LogIndex,
        /// Last index known to be decided.
        decided: LogIndex,
    },
    /// The log lacks this entry, but holds, or presumes, a later one.
    Missing(LogIndex),
    /// The store has applied entries, but the log holds no promise: the entries are from another
    /// log.
    NoPromise,
    /// After an unreadable part the log does not state what was promised, or how far it goes.
    StateLost,
}

impl<V> Replay<V> {
    /// Begins a replay over a store that durably holds the effects of everything up to `applied`.
    /// Records of such entries must still be replayed, but their entries are dropped.
    pub fn new(applied: LogIndex) -> Replay<V> {
        Replay {
            promised: Ballot::default(),
            accepted_ballot: Ballot::default(),
            decided: LogIndex(0),
            applied,
            tail: BTreeMap::new(),
            staged: (Ballot::default(), BTreeMap::new()),
            end: LogIndex(0),
            hole: None,
            tear: None,
        }
    }

    /// Replays an unreadable part of the log. It may have held anything: entries above those known
    /// to be decided may have been replaced in it.
    pub fn replay_hole(&mut self) {
        self.hole = Some(Hole::default());
        self.tail.split_off(&self.decided.max(self.applied).next());
        self.staged = (Ballot::default(), BTreeMap::new());
    }

    /// Returns the entries that were accepted and are unreadable, above those the store holds:
    /// ranges, both ends included.
    pub fn missing(&self) -> Vec<(LogIndex, LogIndex)> {
        let mut missing = Vec::new();
        let mut expected = self.applied.next();
        for index in self.tail.keys().copied().chain([self.end.next()]) {
            if expected < index {
                missing.push((expected, LogIndex(index.0 - 1)));
            }
            expected = expected.max(index.next());
        }
        missing
    }

    /// Restores an entry lost in a hole that is known to be decided.
    pub fn mend(&mut self, index: LogIndex, value: V) {
        if self.hole.is_some() && index > self.applied {
            self.tail.entry(index).or_insert(value);
        }
    }

    /// Replays a promise ([`super::Effect::SavePromise`]). One that is not above the others was
    /// copied to the log's head.
    pub fn replay_promise(&mut self, ballot: Ballot) {
        self.promised = self.promised.max(ballot);
        if let Some(hole) = &mut self.hole {
            hole.promise = true;
        }
    }

    /// Replays a cut torn tail. It held no promise and no mark of an adopted log: these count only
    /// once the log states that they are durable. So a replica that has promised nothing lost
    /// nothing.
    pub fn replay_torn_tail(&mut self, tear: Tear) {
        if self.promised > Ballot::default() {
            self.tear = Some(tear);
        }
    }

    /// Replays the statement which tear is not mended yet. `None`: all are.
    pub fn replay_open_tear(&mut self, tear: Option<Tear>) {
        self.tear = tear;
    }

    /// Replays a staged entry ([`super::Effect::Stage`]): it waits for the mark of its ballot.
    pub fn replay_staged(&mut self, index: LogIndex, ballot: Ballot, value: V) {
        // A replica stages for one ballot at a time, the highest: entries staged before are void.
        if ballot > self.staged.0 {
            self.staged = (ballot, BTreeMap::new());
        }
        self.promised = self.promised.max(ballot);
        if ballot == self.staged.0 && index > self.applied {
            self.staged.1.insert(index, value);
        }
    }

    /// Replays an adoption ([`super::Effect::Adopt`]), or its mark copied to the log's head.
    pub fn replay_adoption(
        &mut self,
        ballot: Ballot,
        from: LogIndex,
        last: LogIndex,
    ) -> Result<(), ReplayError> {
        self.raise_ballot(ballot)?;
        if last < self.decided {
            return Err(ReplayError::DecidedVoided { kept: last, decided: self.decided });
        }
        self.tail.split_off(&last.next());
        self.end = last;
        if let Some(hole) = &mut self.hole {
            hole.mark = true;
        }
        if self.staged.0 == ballot && from < last {
            let mut staged = std::mem::take(&mut self.staged.1);
            staged.split_off(&last.next());
            let mut staged = staged.split_off(&from.next());
            let mut expected = from.max(self.applied).next();
            for index in staged.keys().filter(|index| **index > self.applied) {
                if *index != expected {
                    break;
                }
                expected = expected.next();
            }
            // After a hole another replica may return them; without a hole this log lost entries
            // that it reported as durable.
            if expected <= last && self.hole.is_none() {
                return Err(ReplayError::Missing(expected));
            }
            self.tail.split_off(&from.next());
            self.tail.append(&mut staged);
        }
        // A copied mark of an earlier adoption must not drop entries staged for a later one.
        if self.staged.0 <= ballot {
            self.staged.1.clear();
        }
        Ok(())
    }

    /// Replays an accepted entry ([`super::Effect::Save`]), or its copy at the log's head.
    pub fn replay_accepted(
        &mut self,
        index: LogIndex,
        ballot: Ballot,
        decided: LogIndex,
        value: V,
    ) -> Result<(), ReplayError> {
        self.raise_ballot(ballot)?;
        self.end = self.end.max(index);
        if index > self.applied {
            self.tail.insert(index, value);
        }
        self.replay_decided(decided);
        Ok(())
    }

    /// Replays a decided index ([`super::Effect::SaveDecided`]).
    pub fn replay_decided(&mut self, last: LogIndex) {
        self.decided = self.decided.max(last);
    }

    fn raise_ballot(&mut self, ballot: Ballot) -> Result<(), ReplayError> {
        if ballot < self.accepted_ballot {
            return Err(ReplayError::BallotDecreased {
                found: ballot,
                before: self.accepted_ballot,
            });
        }
        self.accepted_ballot = ballot;
        self.promised = self.promised.max(ballot); // Its record may come later, as a copy.
        Ok(())
    }

    /// Takes out the next entry that is known to be decided, in order; later records can't change
    /// it any more.
    pub fn next_decided(&mut self) -> Option<(LogIndex, V)> {
        let first = self.tail.first_entry()?;
        let index = *first.key();
        if index != self.applied.next() || index > self.decided {
            return None;
        }
        self.applied = index;
        Some((index, first.remove()))
    }

    /// Ends the replay, after all records.
    pub fn finish(self) -> Result<ReplayResult<V>, ReplayError> {
        if let Some(hole) = self.hole {
            // Each replaces its former state, so a record after the hole supersedes any in it.
            if !(hole.promise && hole.mark) {
                return Err(ReplayError::StateLost);
            }
            if let Some((first, _)) = self.missing().first() {
                return Err(ReplayError::Missing(*first));
            }
        }
        let mut last = self.applied;
        for index in self.tail.keys() {
            if *index != last.next() {
                return Err(ReplayError::Missing(last.next()));
            }
            last = *index;
        }
        if self.decided > last {
            return Err(ReplayError::Missing(last.next()));
        }
        if self.applied > LogIndex(0) && self.promised == Ballot::default() {
            return Err(ReplayError::NoPromise);
        }
        Ok(ReplayResult {
            promised: self.promised,
            accepted_ballot: self.accepted_ballot,
            last,
            decided: self.decided.max(self.applied),
            tear: self.tear,
            tail: self.tail,
        })
    }
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayError::BallotDecreased { found, before } => {
                write!(f, "ballot {found} was accepted after ballot {before}")
            }
            ReplayError::DecidedVoided { kept, decided } => {
                write!(f, "entries were cut after {kept}, but {decided} was decided")
            }
            ReplayError::Missing(index) => write!(f, "the log lacks entry {index}"),
            ReplayError::NoPromise => {
                write!(f, "the store holds applied values, but the log holds no promise")
            }
            ReplayError::StateLost => {
                write!(f, "what was promised and accepted last may stand where it can't be read")
            }
        }
    }
}

impl std::error::Error for ReplayError {}

//! Replay of one group's log records, in the order of the stream, to the state that its replica
//! must have.
//!
//! The records come from disk, so they are checked, not asserted. `V` is whatever the caller keeps
//! of a value: its bytes, or its place in the log.
//!
//! A part of the log that can't be read is a hole ([`Replay::hole`]). What a replica must not
//! forget is how far its log goes, under which ballot it accepted that, and what it promised; all
//! of these only ever replace what they were before. So once a promise and the mark of an adopted
//! log ([`Replay::adopted`]) stand *behind* a hole, nothing in it counts any more but values, and
//! of these it is known which ones are missing. A decided value is the same everywhere: another
//! replica can give it back ([`Replay::mend`]). Source: Alagappan et al., *Protocol-Aware Recovery
//! for Consensus-Based Storage*, FAST 2018.

use super::tear::Tear;
use base::{Ballot, LogIndex};
use std::collections::BTreeMap;
use std::fmt;

/// What is gathered so far.
///
/// Values known to be decided can be taken out while the reading goes on
/// ([`Replay::next_decided`]), so that memory holds the undecided tail only.
#[derive(Clone, Debug)]
pub struct Replay<V> {
    promised: Ballot,
    accepted_ballot: Ballot,
    /// What the records shown so far say is decided; the store may hold more, from records still to
    /// come.
    decided: LogIndex,
    /// The last value that was taken out, or that the store held from the beginning.
    applied: LogIndex,
    /// Accepted values above `applied`.
    tail: BTreeMap<LogIndex, V>,
    /// Values of a log that was being adopted, and under which ballot.
    staged: (Ballot, BTreeMap<LogIndex, V>),
    /// The last accepted index, whether its value could be read or not.
    end: LogIndex,
    hole: Option<Hole>,
    /// The last tear that is not known to be made good.
    tear: Option<Tear>,
}

/// What has been said again since the last hole.
#[derive(Clone, Copy, Debug, Default)]
struct Hole {
    promise: bool,
    mark: bool,
}

/// What the records amount to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayResult<V> {
    /// The highest ballot promised.
    pub promised: Ballot,
    /// The highest ballot anything was accepted under.
    pub accepted_ballot: Ballot,
    /// The last accepted index.
    pub last: LogIndex,
    /// The last index known to be decided.
    pub decided: LogIndex,
    /// The last tear that is not known to be made good.
    pub tear: Option<Tear>,
    /// The accepted values that were not taken out, by index, without gaps, ending at `last`.
    pub tail: BTreeMap<LogIndex, V>,
}

/// Records that one replica cannot have written in this order. The log is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayError {
    /// A value was accepted, or a log adopted, under a lower ballot than one before it.
    BallotFell {
        /// The lower one.
        found: Ballot,
        /// The one before it.
        before: Ballot,
    },
    /// Values known to be decided were voided.
    DecidedVoided {
        /// The last index that was kept.
        kept: LogIndex,
        /// The last index known to be decided.
        decided: LogIndex,
    },
    /// The log does not hold this value, but does hold, or presumes, a later one.
    Missing(LogIndex),
    /// The store has applied values, but the log holds no promise: it is not the log they came
    /// from.
    NoPromise,
    /// Behind a part that can't be read the log does not say what was promised, or how far it goes.
    Unstated,
}

impl<V> Replay<V> {
    /// Begins with a store that durably holds the effects of everything up to `applied`. Records of
    /// such values are still to be shown, but their values are dropped.
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

    /// A part of the log can't be read. It may have held anything: values above those known to be
    /// decided may have been replaced in it.
    pub fn hole(&mut self) {
        self.hole = Some(Hole::default());
        self.tail.split_off(&self.decided.max(self.applied).next());
        self.staged = (Ballot::default(), BTreeMap::new());
    }

    /// Which values were accepted and can't be read, above those the store holds: stretches, both
    /// ends included.
    pub fn missing(&self) -> Vec<(LogIndex, LogIndex)> {
        let mut missing = Vec::new();
        let mut wanted = self.applied.next();
        for index in self.tail.keys().copied().chain([self.end.next()]) {
            if wanted < index {
                missing.push((wanted, LogIndex(index.0 - 1)));
            }
            wanted = wanted.max(index.next());
        }
        missing
    }

    /// A value that a hole swallowed, and that is known to be decided.
    pub fn mend(&mut self, index: LogIndex, value: V) {
        if self.hole.is_some() && index > self.applied {
            self.tail.entry(index).or_insert(value);
        }
    }

    /// A promise ([`super::Effect::SavePromise`]). One that is not above the others was copied to
    /// the log's head.
    pub fn promised(&mut self, ballot: Ballot) {
        self.promised = self.promised.max(ballot);
        if let Some(hole) = &mut self.hole {
            hole.promise = true;
        }
    }

    /// Here a torn tail was cut. It held no promise and no mark of an adopted log: the log states
    /// that these are durable before they count. So of who has promised nothing it held nothing.
    pub fn torn(&mut self, tear: Tear) {
        if self.promised > Ballot::default() {
            self.tear = Some(tear);
        }
    }

    /// A record of a promise says which tear is not made good yet; none: all are.
    pub fn states(&mut self, tear: Option<Tear>) {
        self.tear = tear;
    }

    /// A value was staged ([`super::Effect::Stage`]): it waits for the mark of its ballot.
    pub fn staged(&mut self, index: LogIndex, ballot: Ballot, value: V) {
        if ballot > self.staged.0 {
            self.staged = (ballot, BTreeMap::new());
        }
        self.promised = self.promised.max(ballot);
        if ballot == self.staged.0 && index > self.applied {
            self.staged.1.insert(index, value);
        }
    }

    /// A log was adopted ([`super::Effect::Adopt`]), or the mark of that was copied to the log's
    /// head.
    pub fn adopted(
        &mut self,
        ballot: Ballot,
        from: LogIndex,
        upto: LogIndex,
    ) -> Result<(), ReplayError> {
        self.rise(ballot)?;
        if upto < self.decided {
            return Err(ReplayError::DecidedVoided { kept: upto, decided: self.decided });
        }
        self.tail.split_off(&upto.next());
        self.end = upto;
        if let Some(hole) = &mut self.hole {
            hole.mark = true;
        }
        if self.staged.0 == ballot && from < upto {
            let mut staged = std::mem::take(&mut self.staged.1);
            staged.split_off(&upto.next());
            let mut staged = staged.split_off(&from.next());
            let mut wanted = from.max(self.applied).next();
            for index in staged.keys().filter(|index| **index > self.applied) {
                if *index != wanted {
                    break;
                }
                wanted = wanted.next();
            }
            if wanted <= upto && self.hole.is_none() {
                return Err(ReplayError::Missing(wanted));
            }
            self.tail.split_off(&from.next());
            self.tail.append(&mut staged);
        }
        if self.staged.0 <= ballot {
            self.staged.1.clear();
        }
        Ok(())
    }

    /// A value was accepted ([`super::Effect::Save`]), or copied to the log's head.
    pub fn accepted(
        &mut self,
        index: LogIndex,
        ballot: Ballot,
        decided: LogIndex,
        value: V,
    ) -> Result<(), ReplayError> {
        self.rise(ballot)?;
        self.end = self.end.max(index);
        if index > self.applied {
            self.tail.insert(index, value);
        }
        self.decided(decided);
        Ok(())
    }

    /// A decided index was logged ([`super::Effect::SaveDecided`]).
    pub fn decided(&mut self, upto: LogIndex) {
        self.decided = self.decided.max(upto);
    }

    fn rise(&mut self, ballot: Ballot) -> Result<(), ReplayError> {
        if ballot < self.accepted_ballot {
            return Err(ReplayError::BallotFell { found: ballot, before: self.accepted_ballot });
        }
        self.accepted_ballot = ballot;
        self.promised = self.promised.max(ballot); // Its record may stand further on, copied.
        Ok(())
    }

    /// Takes out the next value that is known to be decided, in order; later records can't change
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

    /// All records were shown.
    pub fn finish(self) -> Result<ReplayResult<V>, ReplayError> {
        if let Some(hole) = self.hole {
            if !(hole.promise && hole.mark) {
                return Err(ReplayError::Unstated);
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
            ReplayError::BallotFell { found, before } => {
                write!(f, "ballot {found} was accepted after ballot {before}")
            }
            ReplayError::DecidedVoided { kept, decided } => {
                write!(f, "values were cut after {kept}, but {decided} was decided")
            }
            ReplayError::Missing(index) => write!(f, "the log lacks value {index}"),
            ReplayError::NoPromise => {
                write!(f, "the store holds applied values, but the log holds no promise")
            }
            ReplayError::Unstated => {
                write!(f, "what was promised and accepted last may stand where it can't be read")
            }
        }
    }
}

impl std::error::Error for ReplayError {}

//! Log of one replica as far as consensus knows it: what is accepted, on disk, decided, staged.
//!
//! Positions only: the node keeps the entries, by index.
//!
//! Promises: `recorded <= decided <= synced <= last`; a decided entry stays, and is never replaced;
//! staged entries count for nothing until they are adopted as a whole.
//! Never: checks who leads; the caller has done that.

use super::configuration::Configuration;
use super::effect::Effect;
use super::message::LogSummary;
use super::restored::RestoredState;
use super::rules::{Rule, broken};
use super::tear::TornTail;
use base::{Ballot, LogIndex};

/// Log that is being adopted: kept up to `from`, received up to `received`, complete at `last`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Staging {
    pub ballot: Ballot,
    pub from: LogIndex,
    pub received: LogIndex,
    pub last: LogIndex,
    /// Stop-signs among the staged entries, in order.
    pub signs: Vec<(LogIndex, Configuration)>,
}

/// Accepted log of one replica, and the part of it that is decided.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct AcceptedLog {
    /// Ballot under which all of it counts as accepted, or is being saved as adopted.
    pub ballot: Ballot,
    /// Last index accepted, or being saved.
    pub last: LogIndex,
    /// Last index on disk under `ballot`. `None` while the adoption is not on disk.
    pub synced: Option<LogIndex>,
    pub decided: LogIndex,
    /// Highest index covered by a `SaveDecided`. Accept records may imply a higher one.
    recorded: LogIndex,
    /// Highest index that a master reported as decided, and the ballot under which a log must be
    /// accepted for that to apply to it.
    pub reported: (Ballot, LogIndex),
    /// Last index whose entry can't be sent any more, since the log was truncated.
    pub floor: LogIndex,
    /// Stop-signs accepted and not known to be decided, in order.
    pub signs: Vec<(LogIndex, Configuration)>,
    /// Stop-signs that came with the message being handled.
    pub incoming_signs: Vec<(LogIndex, Configuration)>,
    pub staging: Option<Staging>,
    /// Torn end of the log, which may lack entries. `None`: the log is complete.
    pub torn: Option<TornTail>,
}

impl Staging {
    /// Returns a staging with nothing staged yet after `from`.
    pub(super) fn new(ballot: Ballot, from: LogIndex, last: LogIndex) -> Staging {
        Staging { ballot, from, received: from, last, signs: Vec::new() }
    }

    /// Returns true if all entries to adopt are staged.
    pub(super) fn is_complete(&self) -> bool {
        self.received == self.last
    }
}

impl AcceptedLog {
    /// Restores the log that an earlier incarnation left.
    pub(super) fn restore(restored: RestoredState) -> AcceptedLog {
        let torn = restored.open_tear().map(|tear| TornTail::new(tear, restored.accepted_ballot));
        AcceptedLog {
            ballot: restored.accepted_ballot,
            last: restored.last,
            synced: Some(restored.last),
            decided: restored.decided,
            recorded: restored.decided,
            reported: (restored.accepted_ballot, restored.decided),
            floor: LogIndex(0),
            signs: restored.signs,
            incoming_signs: Vec::new(),
            staging: None,
            torn,
        }
    }

    /// Returns the summary that a promise carries.
    pub(super) fn accepted(&self) -> LogSummary {
        LogSummary { ballot: self.ballot, last: self.last, decided: self.decided }
    }

    /// Returns the number of entries that are accepted and not decided.
    pub(super) fn undecided(&self) -> usize {
        usize::try_from(self.last.0 - self.decided.0).expect("the window's limit is small")
    }

    /// Returns true if passing time alone causes no effect.
    pub(super) fn is_idle(&self) -> bool {
        self.decided == self.last
            && self.recorded == self.decided
            && self.signs.is_empty()
            && self.staging.is_none()
    }

    /// Accepts the entries up to `last`: those that came with a message, or the proposed one.
    pub(super) fn append(&mut self, last: LogIndex, effects: &mut Vec<Effect>) {
        while self.last < last {
            self.last = self.last.next();
            let (index, ballot, decided) = (self.last, self.ballot, self.decided);
            let sign = self.incoming_signs.iter().find(|(at, _)| *at == index);
            self.signs.extend(sign.cloned());
            effects.push(Effect::Save { index, ballot, decided });
        }
    }

    /// Records that everything up to `last` is on disk; returns the index up to which everything is
    /// by now. `None`: the record is of an earlier ballot.
    ///
    /// # Panics
    /// If it was never requested to be saved.
    pub(super) fn record_saved(&mut self, ballot: Ballot, last: LogIndex) -> Option<LogIndex> {
        assert!(ballot <= self.ballot, "only what was asked for can be saved");
        if ballot < self.ballot {
            return None;
        }
        assert!(last <= self.last, "only what was asked for can be saved");
        // A snapshot may have brought more meanwhile.
        let last = last.max(self.decided);
        self.synced = self.synced.max(Some(last));
        Some(last)
    }

    /// Stages entries of the log that is being adopted: logged beside those that they will replace.
    pub(super) fn stage(&mut self, after: LogIndex, last: LogIndex, effects: &mut Vec<Effect>) {
        let Some(staging) = &mut self.staging else { return };
        if after > staging.received {
            return;
        }
        while staging.received < last.min(staging.last) {
            staging.received = staging.received.next();
            let (index, ballot) = (staging.received, staging.ballot);
            let sign = self.incoming_signs.iter().find(|(at, _)| *at == index);
            staging.signs.extend(sign.cloned());
            effects.push(Effect::Stage { index, ballot });
        }
    }

    /// Drops the staged entries: they will not be adopted.
    pub(super) fn unstage(&mut self) {
        self.staging = None;
    }

    /// Adopts the staged log: it counts as accepted under the staged ballot.
    pub(super) fn adopt(&mut self, effects: &mut Vec<Effect>) {
        let staging = self.staging.take().expect("a log is staged before it is adopted");
        assert!(staging.is_complete(), "adopted as a whole");
        let Staging { ballot, from, last, signs, .. } = staging;
        assert!(from <= last && self.decided <= from, "what is decided is never replaced");
        self.ballot = ballot;
        self.last = last;
        self.synced = None;
        self.signs.retain(|(index, _)| *index <= from);
        self.signs.extend(signs);
        effects.push(Effect::Adopt { ballot, from, last });
    }

    /// Records the index that the master of a ballot reports as decided.
    pub(super) fn record_reported_decided(&mut self, ballot: Ballot, decided: LogIndex) {
        self.reported = (self.reported.0.max(ballot), self.reported.1.max(decided));
    }

    /// Decides up to the index that a master reported, as far as it applies to this log and is on
    /// disk. Returns true if the decided index rose.
    pub(super) fn decide_reported(&mut self, effects: &mut Vec<Effect>) -> bool {
        let (ballot, last) = self.reported;
        let Some(synced) = self.synced else { return false };
        let is_this_log = self.ballot >= ballot || broken(Rule::DecidedInThisLog);
        is_this_log && self.decide(last.min(synced), effects)
    }

    /// Decides everything up to `last`. Returns true if the decided index rose.
    pub(super) fn decide(&mut self, last: LogIndex, effects: &mut Vec<Effect>) -> bool {
        let advanced = last > self.decided;
        if advanced {
            self.decided = last;
            effects.push(Effect::Decided { last });
        }
        advanced
    }

    /// Logs the decided index, unless a record covers it already.
    pub(super) fn record_decided(&mut self, effects: &mut Vec<Effect>) {
        if self.recorded < self.decided {
            self.recorded = self.decided;
            effects.push(Effect::SaveDecided { last: self.decided });
        }
    }

    /// Replaces everything up to `last` by a snapshot, which needs no record of its own. The ballot
    /// stays: entries after the snapshot were accepted under it, and nothing else was.
    pub(super) fn install(&mut self, last: LogIndex, effects: &mut Vec<Effect>) {
        self.unstage();
        self.signs.retain(|(index, _)| *index > last);
        self.last = self.last.max(last);
        self.synced = self.synced.map(|synced| synced.max(last));
        self.floor = self.floor.max(last);
        self.decide(last, effects);
        self.recorded = self.decided;
    }

    /// Records that the entries up to `last` can't be sent any more.
    pub(super) fn collapse(&mut self, last: LogIndex) {
        self.floor = self.floor.max(last.min(self.decided));
    }

    /// Closes the tear if all entries lost by it are here again or known to be void.
    pub(super) fn mend(&mut self, promised: Ballot, effects: &mut Vec<Effect>) {
        let (Some(torn), Some(synced)) = (&self.torn, self.synced) else { return };
        if torn.is_mended_by(self.ballot, synced) {
            self.close_tear(promised, effects);
        }
    }

    /// Closes the tear; the record of a promise states that.
    pub(super) fn close_tear(&mut self, promised: Ballot, effects: &mut Vec<Effect>) {
        if self.torn.take().is_some() {
            effects.push(Effect::SavePromise { ballot: promised });
        }
    }

    /// Checks the invariants, after every step.
    pub(super) fn check(&self) {
        assert!(self.recorded <= self.decided, "recorded <= decided");
        assert!(self.decided <= self.last, "decided <= last");
        if let Some(synced) = self.synced {
            assert!(self.decided <= synced && synced <= self.last, "decided <= synced <= last");
        }
    }
}

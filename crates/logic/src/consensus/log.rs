//! Log of one replica as far as consensus knows it: what is accepted, on disk, decided, staged.
//!
//! Positions only: the node keeps the entries, by index.
//!
//! Promises: `recorded <= decided <= synced <= last`; a decided entry stays, and is never replaced;
//! staged entries count for nothing until they are adopted as a whole.
//! Never: checks who leads; the caller has done that.

use super::configuration::Configuration;
use super::effect::Effect;
use super::message::Accepted;
use super::restored::Restored;
use super::rules::{Rule, broken};
use super::tear::TornTail;
use base::{Ballot, LogIndex};

/// Log that is being adopted: kept up to `from`, staged up to `have`, complete at `upto`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Staging {
    pub ballot: Ballot,
    pub from: LogIndex,
    pub have: LogIndex,
    pub upto: LogIndex,
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
    /// Highest index that a master called decided, and the ballot under which a log must be
    /// accepted for that to apply to it.
    pub heard: (Ballot, LogIndex),
    /// Last index whose entry can't be sent any more.
    pub floor: LogIndex,
    /// Stop-signs accepted and not known to be decided, in order.
    pub signs: Vec<(LogIndex, Configuration)>,
    /// Stop-signs that came with the message being handled.
    pub incoming: Vec<(LogIndex, Configuration)>,
    pub staging: Option<Staging>,
    /// Torn end of the log, which may lack entries. `None`: the log is whole.
    pub torn: Option<TornTail>,
}

impl Staging {
    /// Returns a staging with nothing staged yet after `from`.
    pub(super) fn new(ballot: Ballot, from: LogIndex, upto: LogIndex) -> Staging {
        Staging { ballot, from, have: from, upto, signs: Vec::new() }
    }

    /// Returns true if all that is to be adopted is here.
    pub(super) fn is_complete(&self) -> bool {
        self.have == self.upto
    }
}

impl AcceptedLog {
    /// Restores the log that an earlier incarnation left.
    pub(super) fn restore(restored: Restored) -> AcceptedLog {
        let torn = restored.open_tear().map(|tear| TornTail::new(tear, restored.accepted_ballot));
        AcceptedLog {
            ballot: restored.accepted_ballot,
            last: restored.last,
            synced: Some(restored.last),
            decided: restored.decided,
            recorded: restored.decided,
            heard: (restored.accepted_ballot, restored.decided),
            floor: LogIndex(0),
            signs: restored.signs,
            incoming: Vec::new(),
            staging: None,
            torn,
        }
    }

    /// Returns the summary that a promise carries.
    pub(super) fn accepted(&self) -> Accepted {
        Accepted { ballot: self.ballot, last: self.last, decided: self.decided }
    }

    /// Returns the number of entries that are accepted and not decided.
    pub(super) fn undecided(&self) -> usize {
        usize::try_from(self.last.0 - self.decided.0).expect("the window's limit is small")
    }

    /// Returns true if nothing is due here by time alone.
    pub(super) fn is_settled(&self) -> bool {
        self.decided == self.last
            && self.recorded == self.decided
            && self.signs.is_empty()
            && self.staging.is_none()
    }

    /// Accepts the entries up to `upto`: those that came with a message, or the proposed one.
    pub(super) fn append(&mut self, upto: LogIndex, effects: &mut Vec<Effect>) {
        while self.last < upto {
            self.last = self.last.next();
            let (index, ballot, decided) = (self.last, self.ballot, self.decided);
            let sign = self.incoming.iter().find(|(at, _)| *at == index);
            self.signs.extend(sign.cloned());
            effects.push(Effect::Save { index, ballot, decided });
        }
    }

    /// Records that everything up to `upto` is on disk; returns the index up to which that is the
    /// case by now. `None`: the record is of a ballot that is over.
    ///
    /// # Panics
    /// If it was never requested to be saved.
    pub(super) fn save(&mut self, ballot: Ballot, upto: LogIndex) -> Option<LogIndex> {
        assert!(ballot <= self.ballot, "only what was asked for can be saved");
        if ballot < self.ballot {
            return None;
        }
        assert!(upto <= self.last, "only what was asked for can be saved");
        // A snapshot may have brought more meanwhile.
        let upto = upto.max(self.decided);
        self.synced = self.synced.max(Some(upto));
        Some(upto)
    }

    /// Stages entries for the log that is being adopted: logged beside those they will replace.
    pub(super) fn stage(&mut self, after: LogIndex, upto: LogIndex, effects: &mut Vec<Effect>) {
        let Some(staging) = &mut self.staging else { return };
        if after > staging.have {
            return;
        }
        while staging.have < upto.min(staging.upto) {
            staging.have = staging.have.next();
            let (index, ballot) = (staging.have, staging.ballot);
            let sign = self.incoming.iter().find(|(at, _)| *at == index);
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
        let Staging { ballot, from, upto, signs, .. } = staging;
        assert!(from <= upto && self.decided <= from, "what is decided is never replaced");
        self.ballot = ballot;
        self.last = upto;
        self.synced = None;
        self.signs.retain(|(index, _)| *index <= from);
        self.signs.extend(signs);
        effects.push(Effect::Adopt { ballot, from, upto });
    }

    /// Records the index that the master of a ballot calls decided.
    pub(super) fn learn_decided(&mut self, ballot: Ballot, decided: LogIndex) {
        self.heard = (self.heard.0.max(ballot), self.heard.1.max(decided));
    }

    /// Decides what a master called decided, as far as it is this very log and on disk. Returns
    /// true if the decided index rose.
    pub(super) fn decide_heard(&mut self, effects: &mut Vec<Effect>) -> bool {
        let (ballot, upto) = self.heard;
        let Some(synced) = self.synced else { return false };
        let this_log = self.ballot >= ballot || broken(Rule::DecidedInThisLog);
        this_log && self.decide(upto.min(synced), effects)
    }

    /// Decides everything up to `upto`. Returns true if the decided index rose.
    pub(super) fn decide(&mut self, upto: LogIndex, effects: &mut Vec<Effect>) -> bool {
        let news = upto > self.decided;
        if news {
            self.decided = upto;
            effects.push(Effect::Decided { upto });
        }
        news
    }

    /// Logs the decided index, unless a record covers it already.
    pub(super) fn record_decided(&mut self, effects: &mut Vec<Effect>) {
        if self.recorded < self.decided {
            self.recorded = self.decided;
            effects.push(Effect::SaveDecided { upto: self.decided });
        }
    }

    /// Replaces everything up to `upto` by a snapshot, which needs no record of its own. The ballot
    /// stays: entries after the snapshot were accepted under it, and nothing else was.
    pub(super) fn install(&mut self, upto: LogIndex, effects: &mut Vec<Effect>) {
        self.unstage();
        self.signs.retain(|(index, _)| *index > upto);
        self.last = self.last.max(upto);
        self.synced = self.synced.map(|synced| synced.max(upto));
        self.floor = self.floor.max(upto);
        self.decide(upto, effects);
        self.recorded = self.decided;
    }

    /// Records that the entries up to `upto` can't be sent any more.
    pub(super) fn collapse(&mut self, upto: LogIndex) {
        self.floor = self.floor.max(upto.min(self.decided));
    }

    /// Forgets the tear, if all that was lost by it is here again or is known to be void.
    pub(super) fn mend(&mut self, promised: Ballot, effects: &mut Vec<Effect>) {
        let (Some(torn), Some(synced)) = (&self.torn, self.synced) else { return };
        if torn.is_made_good(self.ballot, synced) {
            self.close_tear(promised, effects);
        }
    }

    /// Ends the tear; the record of a promise says so.
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

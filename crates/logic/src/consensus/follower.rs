//! Follower: promises, accepts, grants leases, and learns what is decided.
//!
//! A candidate or a master also answers `Prepare` here: it may have to step down.

use super::effect::Effect;
use super::lease::LeaseTerm;
use super::log::Staging;
use super::message::{Body, LogSummary};
use super::progress::MESSAGE_VALUES_MAX;
use super::replica::Replica;
use super::rules::{Rule, broken};
use base::{Ballot, LogIndex, Millis, NodeId};

/// Methods that span ballots, log, lease and role: a follower's answers depend on all of them.
impl Replica {
    /// Handles a candidate's `Prepare`: promises, unless a higher promise or a lease forbids it.
    pub(super) fn on_prepare(
        &mut self,
        from: NodeId,
        ballot: Ballot,
        released: Ballot,
        effects: &mut Vec<Effect>,
    ) {
        if ballot.node != from {
            return;
        }
        if ballot == self.ballots.promised {
            // A repeated `Prepare`: the promise was lost, or is on disk only now.
            return self.resend_promise(effects);
        }
        // A refusal is always safe. A master with a majority refuses even a higher ballot: a member
        // that joins late, or was cut off, must not depose it.
        let lower = ballot < self.ballots.promised && !broken(Rule::PromisesRise);
        let granted = self.grant.forbids(ballot, released, self.host.now)
            && !broken(Rule::GrantForbidsPromises);
        if lower || self.leads_majority() || granted {
            return self.refuse(from, ballot, effects);
        }
        if self.role.is_active() {
            self.step_down(effects);
        }
        // The staged entries belong to the log of the superseded ballot; the next log may differ.
        if !broken(Rule::StagedUnderOneBallot) {
            self.log.unstage();
        }
        self.role.follow(None);
        self.election.end_rounds();
        // Reserves time for this attempt: with promises to each next candidate at once, two
        // candidates could supersede each other for ever.
        self.grant = self.host.grant(ballot, LeaseTerm::Whole);
        self.ballots.promise(ballot, effects);
        self.announce(effects);
    }

    /// Repeats the promise, with the log as it is on disk by now.
    pub(super) fn resend_promise(&self, effects: &mut Vec<Effect>) {
        let synced =
            if broken(Rule::PromisedLogOnDisk) { Some(self.log.last) } else { self.log.synced };
        // Silent until both are on disk: a candidate relies on them, and a crash could undo them.
        // `PromiseSaved` or `Saved` sends the promise later.
        if let (true, Some(last)) = (self.ballots.is_saved(), synced) {
            self.send_promise(LogSummary { last, ..self.log.accepted() }, effects);
        }
    }

    fn refuse(&self, to: NodeId, ballot: Ballot, effects: &mut Vec<Effect>) {
        let promised = self.ballots.promised;
        self.send_under(ballot, to, Body::Refused { promised }, effects);
    }

    /// Returns true if messages of this ballot's master apply: only under the last promised ballot,
    /// and once the promise is on disk. Otherwise sends a refusal.
    pub(super) fn accepts_master(
        &mut self,
        from: NodeId,
        ballot: Ballot,
        effects: &mut Vec<Effect>,
    ) -> bool {
        if ballot.node != from {
            return false;
        }
        // Also for a higher ballot: its `Prepare` was missed, and the refusal makes its master
        // repeat it.
        if ballot != self.ballots.promised {
            self.refuse(from, ballot, effects);
            return broken(Rule::OnlyPromisedBallot);
        }
        if self.role.follow(Some(from)) != Some(from) {
            self.election.awaited_logs = None;
            self.announce(effects);
        }
        // After a crash an unsaved promise is forgotten, and a lower ballot could be promised
        // beside the grant or the entries of this one.
        self.ballots.saved == ballot || broken(Rule::PromiseBeforeGrants)
    }

    /// Handles the master's heartbeat: grants the lease if it is requested.
    pub(super) fn on_heartbeat(
        &mut self,
        beat: u64,
        sent: Millis,
        lease: Option<LeaseTerm>,
        effects: &mut Vec<Effect>,
    ) {
        self.election.end_rounds();
        if let Some(term) = lease {
            self.grant = self.host.grant(self.ballots.promised, term);
        }
        let granted = Body::Granted { beat, sent, lease, is_full: self.witness.full };
        self.send(self.ballots.promised.node, granted, effects);
        self.try_decide(effects);
    }

    /// Handles a candidate's request for entries that we accepted.
    pub(super) fn on_fetch(
        &mut self,
        from: NodeId,
        ballot: Ballot,
        after: LogIndex,
        effects: &mut Vec<Effect>,
    ) {
        if ballot.node != from || ballot != self.ballots.promised || after >= self.log.last {
            return;
        }
        if after < self.log.floor {
            return self.send(from, Body::Behind, effects);
        }
        let last = self.log.last.0.min(after.0 + MESSAGE_VALUES_MAX);
        self.send(from, Body::Fetched { after, last: LogIndex(last) }, effects);
    }

    /// Handles the master's `Adopt`: where our logs agree, and where the log it adopted ends.
    pub(super) fn on_adopt(
        &mut self,
        master: NodeId,
        ballot: Ballot,
        from: LogIndex,
        last: LogIndex,
        effects: &mut Vec<Effect>,
    ) {
        if !self.accepts_master(master, ballot, effects) {
            return;
        }
        if self.log.ballot == ballot {
            // A duplicate: adopting again would void entries accepted under this ballot since.
            return self.report_synced(effects);
        }
        if from < self.log.decided || from > self.log.last || last < from {
            // It refers to a log that a snapshot has replaced since: send the current one.
            return self.resend_promise(effects);
        }
        // The master repeats it while entries are in flight: those already staged stay.
        let is_same_adoption = |staging: &Staging| {
            self.is_for_promised_ballot(staging) && staging.from == from && staging.last == last
        };
        if broken(Rule::AdoptedAsAWhole) {
            self.log.staging = Some(Staging::new(ballot, from, from));
        } else if !self.log.staging.as_ref().is_some_and(is_same_adoption) {
            self.log.staging = Some(Staging::new(ballot, from, last));
        }
        self.adopt_if_complete(effects);
    }

    /// Returns true if the staging belongs to the promised ballot. Entries of an ended
    /// configuration are staged under a ballot of their own: they are decided, while those of this
    /// master need not be.
    fn is_for_promised_ballot(&self, staging: &Staging) -> bool {
        staging.ballot == self.ballots.promised || broken(Rule::StagedUnderOneBallot)
    }

    fn adopt_if_complete(&mut self, effects: &mut Vec<Effect>) {
        if self.log.staging.as_ref().is_some_and(Staging::is_complete) {
            self.log.adopt(effects);
        }
    }

    /// Handles entries of the master, to be accepted in order.
    pub(super) fn on_accept(&mut self, after: LogIndex, last: LogIndex, effects: &mut Vec<Effect>) {
        let master = self.ballots.promised.node;
        if self.log.ballot < self.ballots.promised {
            let staging = self.log.staging.as_ref();
            // Without an `Adopt` it is unknown where the logs agree: it was lost or overtaken, or a
            // restart forgot it. A repeated promise makes the master resend it.
            let Some(staging) = staging.filter(|staging| self.is_for_promised_ballot(staging))
            else {
                return self.resend_promise(effects);
            };
            if after > staging.received {
                return self.send(master, Body::Gap { last: staging.received }, effects);
            }
            self.log.stage(after, last, effects);
            self.adopt_if_complete(effects);
            // Still incomplete: without a report to the master, an adoption longer than one flight
            // would never end. When complete, the rest of the message is accepted below.
            if let Some(Staging { received: last, .. }) = self.log.staging {
                if !broken(Rule::StagedIsReported) {
                    self.send(master, Body::Staged { last }, effects);
                }
                return;
            }
        }
        if after > self.log.last {
            return self.send(master, Body::Gap { last: self.log.last }, effects);
        }
        if last <= self.log.last {
            // All entries are here: the acknowledgement was lost, and no further save will cause
            // another.
            self.report_synced(effects);
        }
        self.log.append(last, effects);
        if broken(Rule::AcceptedOnDisk) {
            self.send(master, Body::Accepted { last: self.log.last }, effects);
        }
        self.try_decide(effects);
    }

    pub(super) fn report_synced(&self, effects: &mut Vec<Effect>) {
        if let Some(last) = self.log.synced {
            self.send(self.ballots.promised.node, Body::Accepted { last }, effects);
        }
    }

    /// Decides up to the index that a master reported, as far as it applies to this log and is on
    /// disk.
    pub(super) fn try_decide(&mut self, effects: &mut Vec<Effect>) {
        if self.log.decide_reported(effects) {
            self.enter_decided_configurations(effects);
        }
    }

    /// Decides like [`Replica::try_decide`] when another ballot was promised in between. If its log
    /// is being adopted from an index below the decided one, reports that to its master: a decided
    /// entry is never replaced.
    pub(super) fn try_decide_late(&mut self, effects: &mut Vec<Effect>) {
        self.try_decide(effects);
        if self.log.staging.as_ref().is_some_and(|staging| staging.from < self.log.decided) {
            self.log.unstage();
            self.resend_promise(effects);
        }
    }
}

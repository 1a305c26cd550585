//! Follower: promises, accepts, grants leases, and learns what is decided.
//!
//! A candidate or a master answers others' `Prepare` here, too: it may have to step down.

use super::effect::Effect;
use super::log::Staging;
use super::message::{Accepted, Body};
use super::progress::MESSAGE_VALUES_MAX;
use super::replica::Replica;
use super::rules::{Rule, broken};
use base::{Ballot, LogIndex, Millis, NodeId};

/// Methods that span ballots, log, lease and role: a follower's answer depends on all of them.
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
            return self.promise_again(effects);
        }
        // To refuse is always safe. A master in office refuses even a higher ballot: a member that
        // joins late, or was cut off, must not depose it.
        let lower = ballot < self.ballots.promised && !broken(Rule::PromisesRise);
        let granted = self.bound.forbids(ballot, released, self.host.now)
            && !broken(Rule::GrantForbidsPromises);
        if lower || self.in_office() || granted {
            return self.refuse(from, ballot, effects);
        }
        if self.role.is_active() {
            self.step_down(effects);
        }
        // What is staged belongs to the log of the ballot now outbid; the next one may differ from
        // it.
        if !broken(Rule::StagedUnderOneBallot) {
            self.log.unstage();
        }
        self.role.follow(None);
        self.election.rest();
        // Time for the attempt: promising the next one at once would let two never finish.
        self.bound = self.host.grant(ballot);
        self.ballots.promise(ballot, effects);
        self.announce(effects);
    }

    /// Repeats the promise, with the log as it is on disk by now.
    pub(super) fn promise_again(&self, effects: &mut Vec<Effect>) {
        let synced =
            if broken(Rule::PromisedLogOnDisk) { Some(self.log.last) } else { self.log.synced };
        // Silent until both are on disk: a candidate relies on them, and a crash could undo them.
        // `PromiseSaved` or `Saved` sends the promise later.
        if let (true, Some(last)) = (self.ballots.is_saved(), synced) {
            self.tell_promise(Accepted { last, ..self.log.accepted() }, effects);
        }
    }

    fn refuse(&self, to: NodeId, ballot: Ballot, effects: &mut Vec<Effect>) {
        let promised = self.ballots.promised;
        self.send_under(ballot, to, Body::Refused { promised }, effects);
    }

    /// Returns true if the master of this ballot is to be obeyed: only under the last promised
    /// ballot, and once the promise is on disk. Otherwise answers it.
    pub(super) fn accepts_master(
        &mut self,
        from: NodeId,
        ballot: Ballot,
        effects: &mut Vec<Effect>,
    ) -> bool {
        if ballot.node != from {
            return false;
        }
        // A higher ballot, too: its `Prepare` was missed, and the refusal makes its master ask
        // again.
        if ballot != self.ballots.promised {
            self.refuse(from, ballot, effects);
            return broken(Rule::OnlyThePromised);
        }
        if self.role.follow(Some(from)) != Some(from) {
            self.election.awaited = None;
            self.announce(effects);
        }
        // After a crash an unsaved promise is forgotten, and a lower ballot could be promised
        // beside the grant or the entries of this one.
        self.ballots.saved == ballot || broken(Rule::PromiseBeforeGrants)
    }

    /// Handles the master's heartbeat: grants the lease if asked.
    pub(super) fn on_heartbeat(
        &mut self,
        beat: u64,
        sent: Millis,
        asks: bool,
        effects: &mut Vec<Effect>,
    ) {
        self.election.rest();
        if asks {
            self.bound = self.host.grant(self.ballots.promised);
        }
        let granted = Body::Granted { beat, sent, asked: asks, full: self.witness.full };
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
        let upto = self.log.last.0.min(after.0 + MESSAGE_VALUES_MAX);
        self.send(from, Body::Fetched { after, upto: LogIndex(upto) }, effects);
    }

    /// Handles the master's `Adopt`: where our logs agree, and where the log it adopted ends.
    pub(super) fn on_adopt(
        &mut self,
        master: NodeId,
        ballot: Ballot,
        from: LogIndex,
        upto: LogIndex,
        effects: &mut Vec<Effect>,
    ) {
        if !self.accepts_master(master, ballot, effects) {
            return;
        }
        if self.log.ballot == ballot {
            // A duplicate: adopting again would void entries accepted under this ballot since.
            return self.tell_synced(effects);
        }
        if from < self.log.decided || from > self.log.last || upto < from {
            // It refers to a log that a snapshot has replaced since: send the current one.
            return self.promise_again(effects);
        }
        // The master repeats it while entries are in flight: those already staged stay.
        let same = |staging: &Staging| {
            self.is_of_promised(staging) && staging.from == from && staging.upto == upto
        };
        if broken(Rule::AdoptedAsAWhole) {
            self.log.staging = Some(Staging::new(ballot, from, from));
        } else if !self.log.staging.as_ref().is_some_and(same) {
            self.log.staging = Some(Staging::new(ballot, from, upto));
        }
        self.adopt_if_complete(effects);
    }

    /// Returns true if the staging belongs to the promised ballot. Entries of an ended
    /// configuration are staged under a ballot of their own: they are decided, while those of this
    /// master need not be.
    fn is_of_promised(&self, staging: &Staging) -> bool {
        staging.ballot == self.ballots.promised || broken(Rule::StagedUnderOneBallot)
    }

    fn adopt_if_complete(&mut self, effects: &mut Vec<Effect>) {
        if self.log.staging.as_ref().is_some_and(Staging::is_complete) {
            self.log.adopt(effects);
        }
    }

    /// Handles entries of the master, to be accepted in order.
    pub(super) fn on_accept(&mut self, after: LogIndex, upto: LogIndex, effects: &mut Vec<Effect>) {
        let master = self.ballots.promised.node;
        if self.log.ballot < self.ballots.promised {
            let staging = self.log.staging.as_ref();
            // Without an `Adopt` it is unknown where the logs agree: it was lost or overtaken, or a
            // restart forgot it. A repeated promise makes the master resend it.
            let Some(staging) = staging.filter(|staging| self.is_of_promised(staging)) else {
                return self.promise_again(effects);
            };
            if after > staging.have {
                return self.send(master, Body::Gap { last: staging.have }, effects);
            }
            self.log.stage(after, upto, effects);
            self.adopt_if_complete(effects);
            // Still incomplete. The master learns what is here, or an adoption longer than one
            // flight would never end; when complete, the rest of the message is accepted below.
            if let Some(Staging { have: upto, .. }) = self.log.staging {
                if !broken(Rule::StagedIsTold) {
                    self.send(master, Body::Staged { upto }, effects);
                }
                return;
            }
        }
        if after > self.log.last {
            return self.send(master, Body::Gap { last: self.log.last }, effects);
        }
        if upto <= self.log.last {
            // All of it is here: the acknowledgement was lost, and nothing new will be saved to
            // bring another.
            self.tell_synced(effects);
        }
        self.log.append(upto, effects);
        if broken(Rule::AcceptedOnDisk) {
            self.send(master, Body::Accepted { upto: self.log.last }, effects);
        }
        self.try_decide(effects);
    }

    pub(super) fn tell_synced(&self, effects: &mut Vec<Effect>) {
        if let Some(upto) = self.log.synced {
            self.send(self.ballots.promised.node, Body::Accepted { upto }, effects);
        }
    }

    /// Decides what a master called decided, as far as it is this very log and on disk.
    pub(super) fn try_decide(&mut self, effects: &mut Vec<Effect>) {
        if self.log.decide_heard(effects) {
            self.pass_signs(effects);
        }
    }

    /// Decides like [`Replica::try_decide`] when another ballot was promised in between. If its log
    /// is being adopted from before what was decided, its master must learn that: what is decided
    /// is never replaced.
    pub(super) fn try_decide_late(&mut self, effects: &mut Vec<Effect>) {
        self.try_decide(effects);
        if self.log.staging.as_ref().is_some_and(|staging| staging.from < self.log.decided) {
            self.log.unstage();
            self.promise_again(effects);
        }
    }
}

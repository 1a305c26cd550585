//! Candidate: gathers promises, then the log to adopt.
//!
//! Promises: a candidate sends its `Prepare` only once its own promise is on disk; it adopts the
//! log accepted under the highest ballot among enough promises (Sequence Paxos; *Paxos Made Simple*
//! P2c).

use super::configuration::Configuration;
use super::effect::Effect;
use super::log::Staging;
use super::master::Master;
use super::message::{Body, LogSummary};
use super::replica::Replica;
use super::role::RoleState;
use super::rules::{Rule, broken};
use super::tear::Tear;
use base::{Ballot, LogIndex, Millis, NodeId};

/// Attempt to lead.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Candidate {
    /// Deadline of the attempt; extended when it progresses to fetching.
    pub deadline: Millis,
    /// Lease that was given back in favour of this candidate.
    pub released: Ballot,
    /// Promises received so far, this replica's own included; one per member.
    pub promises: Vec<VoterPromise>,
    /// True if torn logs leave open what was decided, and no remaining promise can settle it.
    pub uncertain: bool,
    /// Log to adopt, whose missing entries are fetched. `None` while promises are gathered.
    pub source: Option<LogSource>,
}

/// Promise of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct VoterPromise {
    pub node: NodeId,
    /// Log that it has accepted.
    pub log: LogSummary,
    /// True if its log was torn: it may have accepted more.
    pub torn: bool,
}

/// Log that a candidate is going to adopt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct LogSource {
    /// Node from which missing entries are fetched.
    pub node: NodeId,
    /// Ballot under which it counts as accepted until it is adopted.
    pub ballot: Ballot,
}

impl Candidate {
    pub(super) fn new(released: Ballot, deadline: Millis) -> Candidate {
        Candidate { deadline, released, promises: Vec::new(), uncertain: false, source: None }
    }

    /// Records a promise; a later one of the same member replaces it.
    pub(super) fn record_promise(&mut self, promise: VoterPromise) {
        match self.promises.iter_mut().find(|known| known.node == promise.node) {
            Some(known) => *known = promise,
            None => self.promises.push(promise),
        }
    }

    /// Returns the promise of one member.
    pub(super) fn promise_of(&self, node: NodeId) -> Option<&VoterPromise> {
        self.promises.iter().find(|promise| promise.node == node)
    }

    /// Returns true if enough voters promised.
    fn is_elected(&self, configuration: &Configuration) -> bool {
        let counts = |node: NodeId| configuration.is_voter(node) || broken(Rule::LearnersDontElect);
        let promised = self.promises.iter().filter(|promise| counts(promise.node)).count();
        promised >= configuration.quorums().elect
    }

    /// Returns the highest log among the promises, and the node that has it.
    fn highest_log(&self) -> Option<(LogSummary, NodeId)> {
        let promises = self.promises.iter().map(|promise| (promise.log, promise.node));
        if broken(Rule::HighestBallotFirst) {
            return promises.max_by_key(|(log, node)| (log.last, *node));
        }
        promises.max()
    }
}

/// Methods that span ballots, log and members: an attempt to lead.
impl Replica {
    /// Begins an attempt: promises a ballot above all seen ones. `Prepare` is sent once that is on
    /// disk, so that no round is ever used twice.
    pub(super) fn stand_for_election(&mut self, released: Ballot, effects: &mut Vec<Effect>) {
        // No ballot is left if the last one was seen: see `lacks_ballots`.
        let Some(ballot) = self.next_ballot() else { return };
        self.election.end_rounds();
        // Entries staged under an earlier ballot: its master may have voided them since.
        self.log.unstage();
        self.role = RoleState::Candidate(Candidate::new(released, self.host.after_leases(1)));
        self.progress.begin_attempt(self.host.now);
        self.ballots.promise(ballot, effects);
        self.announce(effects);
        if broken(Rule::OwnPromiseOnDisk) {
            self.prepare(effects);
        }
    }

    /// Returns the lowest ballot of this replica above all that it has promised or seen. `None`:
    /// none is left in this configuration.
    pub(super) fn next_ballot(&self) -> Option<Ballot> {
        self.ballots.next(self.host.node, self.membership.configuration.id())
    }

    /// Requests the other members' promises, once the own one is on disk.
    pub(super) fn prepare(&mut self, effects: &mut Vec<Effect>) {
        self.promise_to_self();
        for place in 0..self.progress.followers.len() {
            self.request_promise(self.progress.followers[place].node, effects);
        }
        self.try_to_adopt(effects);
    }

    /// Requests a member's promise.
    pub(super) fn request_promise(&mut self, to: NodeId, effects: &mut Vec<Effect>) {
        let Some(follower) = self.progress.follower_mut(to) else { return };
        follower.mark_requested(self.host.now);
        self.send(to, Body::Prepare { released: self.role.released() }, effects);
    }

    /// Counts this replica's own promise.
    pub(super) fn promise_to_self(&mut self) {
        let (node, log) = (self.host.node, self.log.accepted());
        let torn = self.log.torn.is_some();
        if let Some(candidate) = self.role.candidate_mut() {
            candidate.record_promise(VoterPromise { node, log, torn });
        }
    }

    /// Handles a promise for our ballot: one more for the majority, or a late one, whose sender is
    /// sent the log now.
    pub(super) fn on_promise(
        &mut self,
        from: NodeId,
        log: LogSummary,
        tear: Option<Tear>,
        effects: &mut Vec<Effect>,
    ) {
        match &mut self.role {
            RoleState::Candidate(candidate) => {
                candidate.record_promise(VoterPromise { node: from, log, torn: tear.is_some() });
                self.try_to_adopt(effects);
            }
            RoleState::Master(_) => {
                // First: entries that it acknowledged and then lost must not count when `send_log`
                // decides.
                if let Some(tear) = tear {
                    self.on_torn_promise(from, log, tear, effects);
                }
                self.send_log(from, log, effects);
            }
            _ => {}
        }
    }

    /// Once there are enough promises, selects the log accepted under the highest ballot among them
    /// (Sequence Paxos; *Paxos Made Simple* P2c for every index at once). Entries missing here are
    /// fetched first.
    pub(super) fn try_to_adopt(&mut self, effects: &mut Vec<Effect>) {
        let RoleState::Candidate(candidate) = &self.role else { return };
        let is_gathering = candidate.source.is_none();
        let elected = is_gathering && candidate.is_elected(&self.membership.configuration);
        if !elected || !self.torn_logs_allow() {
            return;
        }
        // Chosen once: a promise that comes later can name nothing decided that this log lacks.
        let Some(candidate) = self.role.candidate_mut() else { return };
        let (best, source) = candidate.highest_log().expect("enough is somebody");
        candidate.source = Some(LogSource { node: source, ballot: best.ballot });
        // The chosen log holds everything that any promise reports as decided. The index is
        // recorded with the ballot, so nothing here is decided before that log is adopted.
        let reported = candidate.promises.iter().map(|promise| promise.log.decided).max();
        self.log
            .record_reported_decided(self.ballots.promised, reported.unwrap_or(self.log.decided));
        let own = self.log.accepted();
        let own_is_longest = broken(Rule::HighestBallotFirst) && best.last <= own.last;
        let own_is_highest = own_is_longest || (best.ballot, best.last) <= (own.ballot, own.last);
        // Logs accepted under one ballot are prefixes of each other; logs accepted under different
        // ballots share what is decided.
        let from = if own_is_highest || best.ballot == own.ballot { own.last } else { own.decided };
        let last = if own_is_highest { own.last } else { best.last };
        self.log.staging = Some(Staging::new(self.ballots.promised, from, last));
        if from == last {
            return self.adopt_staged(effects); // That log never had the entries voided here.
        }
        self.fetch(effects);
    }

    fn fetch(&mut self, effects: &mut Vec<Effect>) {
        let RoleState::Candidate(candidate) = &mut self.role else { return };
        candidate.deadline = self.host.after_leases(1);
        self.request_missing(effects);
    }

    /// Requests the entries that are not staged yet from the source.
    fn request_missing(&self, effects: &mut Vec<Effect>) {
        let RoleState::Candidate(Candidate { source: Some(source), .. }) = &self.role else {
            return;
        };
        if let Some(staging) = &self.log.staging {
            self.send(source.node, Body::Fetch { after: staging.received }, effects);
        }
    }

    /// Repeats the request if a fetch or its answer was lost.
    pub(super) fn retry_fetch(&self, effects: &mut Vec<Effect>) {
        let RoleState::Candidate(candidate) = &self.role else { return };
        let half = self.host.clock.length.0 / 2;
        if candidate.deadline.0.saturating_sub(half) <= self.host.now.0 {
            self.request_missing(effects);
        }
    }

    /// Handles fetched entries.
    pub(super) fn on_fetched(
        &mut self,
        from: NodeId,
        after: LogIndex,
        last: LogIndex,
        effects: &mut Vec<Effect>,
    ) {
        if !self.role.is_fetching_from(from) {
            return;
        }
        self.log.stage(after, last, effects);
        match &self.log.staging {
            Some(staging) if staging.is_complete() => self.adopt_staged(effects),
            // Each part extends the attempt, so a long log can be fetched at any speed.
            _ => self.fetch(effects),
        }
    }

    /// Adopts the staged log: it counts as accepted under our ballot, here and at every follower.
    fn adopt_staged(&mut self, effects: &mut Vec<Effect>) {
        let RoleState::Candidate(candidate) = &mut self.role else { return };
        let (promises, uncertain) = (std::mem::take(&mut candidate.promises), candidate.uncertain);
        self.log.adopt(effects);
        let adopted = self.log.last;
        let master = Master::new(candidate, adopted, &self.membership.configuration, &self.host);
        self.role = RoleState::Master(master);
        self.election.awaited_logs = None;
        if uncertain {
            effects.push(Effect::PossibleLoss { after: adopted });
        }
        for VoterPromise { node, log, .. } in promises {
            if node != self.host.node {
                self.send_log(node, log, effects);
            }
        }
        // Immediately, not one interval later: it ends the rounds of voters that promised nothing,
        // and the lease counts from its sending.
        self.send_heartbeat(effects);
    }
}

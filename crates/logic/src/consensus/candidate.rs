//! Candidate: gathers promises, then the log to adopt.
//!
//! Promises: a candidate asks others only once its own promise is on disk; it adopts the log
//! accepted under the highest ballot among enough promises (Sequence Paxos; *Paxos Made Simple*
//! P2c).

use super::configuration::Configuration;
use super::effect::Effect;
use super::log::Staging;
use super::master::Master;
use super::message::{Accepted, Body};
use super::replica::Replica;
use super::role::RoleState;
use super::rules::{Rule, broken};
use super::tear::Tear;
use base::{Ballot, LogIndex, Millis, NodeId};

/// Attempt to lead.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Candidate {
    /// Deadline of the attempt; extended when it progresses to fetching.
    pub ends: Millis,
    /// Lease that was given back in favour of this candidate.
    pub released: Ballot,
    /// Promises received so far, this replica's own included; one per member.
    pub promises: Vec<VoterPromise>,
    /// True if torn logs leave open what was decided, and no member is left that could tell.
    pub uncertain: bool,
    /// Log to adopt, whose missing entries are fetched. `None` while promises are gathered.
    pub source: Option<LogSource>,
}

/// Promise of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct VoterPromise {
    pub node: NodeId,
    /// Log that it has accepted.
    pub log: Accepted,
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
    pub(super) fn new(released: Ballot, ends: Millis) -> Candidate {
        Candidate { ends, released, promises: Vec::new(), uncertain: false, source: None }
    }

    /// Records a promise; a later one of the same member replaces it.
    pub(super) fn note(&mut self, promise: VoterPromise) {
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
        let counts = |node: NodeId| configuration.votes(node) || broken(Rule::LearnersElectNobody);
        let promised = self.promises.iter().filter(|promise| counts(promise.node)).count();
        promised >= configuration.quorums().elect
    }

    /// Returns the highest log among the promises, and the node that has it.
    fn best(&self) -> Option<(Accepted, NodeId)> {
        let promises = self.promises.iter().map(|promise| (promise.log, promise.node));
        if broken(Rule::HighestBallotFirst) {
            return promises.max_by_key(|(log, node)| (log.last, *node));
        }
        promises.max()
    }
}

/// Methods that span ballots, log and members: an attempt to lead.
impl Replica {
    /// Begins an attempt: promises a ballot above all seen ones. The others are asked once that is
    /// on disk, so that no round is ever used twice.
    pub(super) fn stand(&mut self, released: Ballot, effects: &mut Vec<Effect>) {
        // No ballot is left if the last one was seen: see `lacks_ballots`.
        let Some(ballot) = self.next_ballot() else { return };
        self.election.rest();
        // Staged under a ballot that is over: that master may have voided it since.
        self.log.unstage();
        self.role = RoleState::Candidate(Candidate::new(released, self.host.after_leases(1)));
        self.progress.begin(self.host.now);
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

    /// Asks the others for their promises, once our own is on disk.
    pub(super) fn prepare(&mut self, effects: &mut Vec<Effect>) {
        self.promise_to_self();
        for place in 0..self.progress.followers.len() {
            self.ask_promise(self.progress.followers[place].node, effects);
        }
        self.try_to_adopt(effects);
    }

    /// Asks a member for its promise.
    pub(super) fn ask_promise(&mut self, to: NodeId, effects: &mut Vec<Effect>) {
        let Some(follower) = self.progress.of_mut(to) else { return };
        follower.ask(self.host.now);
        self.send(to, Body::Prepare { released: self.role.released() }, effects);
    }

    /// Counts this replica's own promise.
    pub(super) fn promise_to_self(&mut self) {
        let (node, log) = (self.host.node, self.log.accepted());
        let torn = self.log.torn.is_some();
        if let Some(candidate) = self.role.candidate_mut() {
            candidate.note(VoterPromise { node, log, torn });
        }
    }

    /// Handles a promise for our ballot: one more for the majority, or a late one, whose sender now
    /// gets the log.
    pub(super) fn on_promise(
        &mut self,
        from: NodeId,
        log: Accepted,
        tear: Option<Tear>,
        effects: &mut Vec<Effect>,
    ) {
        match &mut self.role {
            RoleState::Candidate(candidate) => {
                candidate.note(VoterPromise { node: from, log, torn: tear.is_some() });
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

    /// Once there are enough promises, takes the log accepted under the highest ballot among them
    /// (Sequence Paxos; *Paxos Made Simple* P2c for every index at once). Entries missing here are
    /// fetched first.
    pub(super) fn try_to_adopt(&mut self, effects: &mut Vec<Effect>) {
        let RoleState::Candidate(candidate) = &self.role else { return };
        let gathers = candidate.source.is_none();
        let elected = gathers && candidate.is_elected(&self.membership.configuration);
        if !elected || !self.torn_logs_allow() {
            return;
        }
        // Chosen once: a promise that comes later can name nothing decided that this log lacks.
        let Some(candidate) = self.role.candidate_mut() else { return };
        let (best, source) = candidate.best().expect("enough is somebody");
        candidate.source = Some(LogSource { node: source, ballot: best.ballot });
        // All that any promise calls decided is in the chosen log. `heard` keeps the ballot with
        // it, so nothing here is decided before that log is adopted.
        let known = candidate.promises.iter().map(|promise| promise.log.decided).max();
        self.log.learn_decided(self.ballots.promised, known.unwrap_or(self.log.decided));
        let own = self.log.accepted();
        let longest = broken(Rule::HighestBallotFirst) && best.last <= own.last;
        let ours = longest || (best.ballot, best.last) <= (own.ballot, own.last);
        // Logs accepted under one ballot are prefixes of each other; logs accepted under different
        // ballots share what is decided.
        let from = if ours || best.ballot == own.ballot { own.last } else { own.decided };
        let upto = if ours { own.last } else { best.last };
        self.log.staging = Some(Staging::new(self.ballots.promised, from, upto));
        if from == upto {
            return self.adopt_staged(effects); // That log never had the entries voided here.
        }
        self.fetch(effects);
    }

    fn fetch(&mut self, effects: &mut Vec<Effect>) {
        let RoleState::Candidate(candidate) = &mut self.role else { return };
        candidate.ends = self.host.after_leases(1);
        self.fetch_again(effects);
    }

    /// Asks the source for the entries that are not staged yet.
    fn fetch_again(&self, effects: &mut Vec<Effect>) {
        let RoleState::Candidate(Candidate { source: Some(source), .. }) = &self.role else {
            return;
        };
        if let Some(staging) = &self.log.staging {
            self.send(source.node, Body::Fetch { after: staging.have }, effects);
        }
    }

    /// Asks again if a fetch or its answer was lost.
    pub(super) fn insist_on_fetch(&self, effects: &mut Vec<Effect>) {
        let RoleState::Candidate(candidate) = &self.role else { return };
        let half = self.host.clock.length.0 / 2;
        if candidate.ends.0.saturating_sub(half) <= self.host.now.0 {
            self.fetch_again(effects);
        }
    }

    /// Handles fetched entries.
    pub(super) fn on_fetched(
        &mut self,
        from: NodeId,
        after: LogIndex,
        upto: LogIndex,
        effects: &mut Vec<Effect>,
    ) {
        if !self.role.fetches_from(from) {
            return;
        }
        self.log.stage(after, upto, effects);
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
        self.election.awaited = None;
        if uncertain {
            effects.push(Effect::MayLack { behind: adopted });
        }
        for VoterPromise { node, log, .. } in promises {
            if node != self.host.node {
                self.send_log(node, log, effects);
            }
        }
        // At once, not a beat later: it ends the rounds of voters that promised nothing, and the
        // lease counts from its sending.
        self.beat(effects);
    }
}

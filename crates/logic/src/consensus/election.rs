//! Election: decides which voter tries to lead while there is no master.
//!
//! The idea is that of Omni-Paxos' *ballot leader election*: a voter qualifies to lead by hearing
//! enough others, not by the length of its log; a voter that can't hear so many takes no part. So
//! the group goes on even where only one voter is still connected to a majority. Rounds are held
//! only while a voter knows no master; heartbeats announce a master in office.
//!
//! A voter stands for election only once a majority, itself included, is bound by no lease. Bound
//! voters would refuse it, and its attempt would only raise ballots (the *pre-vote* of Ongaro's
//! thesis, 9.6, has the same reason).
//!
//! A voter whose connection with the master ended seeks another as soon as its promise is over. A
//! master that only lost this connection stays: the other voters say that they are bound.

use super::effect::Effect;
use super::message::{Body, LogSummary, ProbeReply};
use super::quorum::Quorums;
use super::replica::Replica;
use super::rules::{Rule, broken};
use super::tear::AwaitedLogs;
use base::{Ballot, Millis, NodeId};

/// Number of rounds in a row that a voter leaves to a better candidate; then it stands anyway.
const DEFERRED_MAX: u32 = 4;

/// Number of times that a late answer lengthens a round, each by its first length.
const LATE_MAX: u32 = 2;

/// Rounds of one voter that seeks a master.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Election {
    /// Number of the last round that was begun; 0: none.
    pub round: u64,
    /// Time at which the round is judged unless all answer before; afterwards, the start of the
    /// next.
    deadline: Millis,
    /// Answers to it, in the order of their arrival, one per node.
    answers: Vec<(NodeId, ProbeReply)>,
    /// True while a round is in progress.
    open: bool,
    /// True if a majority answered the last judged round (Omni-Paxos: *quorum-connected*).
    pub quorum_connected: bool,
    /// Number of rounds in a row that were left to a better candidate.
    deferred: u32,
    /// Number of answers that came after the end of their round.
    late_answers: u32,
    /// True if a voter that had to abstain in this round seeks a master by now: it is free, and the
    /// next round need not wait.
    has_freed_voter: bool,
    /// Members whose connection ended, and that were not heard since. No round waits for them.
    unlinked: Vec<NodeId>,
    /// Time before which this replica holds no rounds: it was master, lost contact with a majority,
    /// and leaves mastership to another voter.
    pub abstains_until: Millis,
    /// Members for whose logs an attempt to lead waits.
    pub awaited_logs: Option<AwaitedLogs>,
}

/// Outcome of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoundOutcome {
    /// Stand for election.
    Stand,
    /// Hold another round.
    NextRound,
}

impl Election {
    /// Returns true if the round is to be judged, or the next one is to begin. `voters`: the other
    /// voters; a round is complete with the answers of all that are connected. A judged round still
    /// lasts until its deadline, so that rounds do not follow each other at network speed.
    fn is_over(&self, mut voters: impl Iterator<Item = NodeId>, now: Millis) -> bool {
        let has_answered = |voter: NodeId| self.answers.iter().any(|(node, _)| *node == voter);
        let is_early = match self.open {
            true => voters.all(|voter| has_answered(voter) || self.unlinked.contains(&voter)),
            false => self.has_freed_voter,
        };
        is_early || now >= self.deadline
    }

    /// Returns the current length of a round in multiples of its first length.
    pub(super) fn length_factor(&self) -> u64 {
        u64::from(self.late_answers) + 1
    }

    /// Begins a round.
    pub(super) fn begin(&mut self, deadline: Millis) {
        self.round += 1;
        self.deadline = deadline;
        self.answers.clear();
        self.has_freed_voter = false;
        self.open = true;
    }

    /// Records that a voter seeks a master. Returns true if it had to abstain in this round: it was
    /// bound, and is free now.
    fn note_seeker(&mut self, voter: NodeId) -> bool {
        let mut answers = self.answers.iter_mut();
        let Some((_, reply)) = answers.find(|(node, _)| *node == voter) else { return false };
        let is_freed = std::mem::take(&mut reply.must_abstain);
        self.has_freed_voter |= is_freed;
        is_freed
    }

    /// Records that the connection with a member ended.
    fn note_unlinked(&mut self, node: NodeId) {
        if !self.unlinked.contains(&node) {
            self.unlinked.push(node);
        }
    }

    /// Records that a member was heard: there is a connection again.
    #[inline]
    pub(super) fn note_heard(&mut self, node: NodeId) {
        if !self.unlinked.is_empty() {
            self.unlinked.retain(|unlinked| *unlinked != node);
        }
    }

    /// Records an answer; one of an older round only counts as late.
    pub(super) fn record_answer(&mut self, from: NodeId, round: u64, standing: ProbeReply) {
        let is_current = self.open && round == self.round;
        if round < self.round {
            self.late_answers = (self.late_answers + 1).min(LATE_MAX);
        }
        if is_current && self.answers.iter().all(|(node, _)| *node != from) {
            self.answers.push((from, standing));
        }
    }

    /// Judges the round of this node, which has accepted `log`, by the group's quorums. Of the
    /// candidates, the one with the longest log stands: it has the fewest entries to fetch.
    pub(super) fn judge(
        &mut self,
        node: NodeId,
        log: LogSummary,
        quorums: Quorums,
    ) -> RoundOutcome {
        self.open = false;
        let was_connected = self.quorum_connected;
        self.quorum_connected = self.answers.len() + 1 >= quorums.required_connected();
        if !was_connected {
            // Other voters can't report yet that they may stand: voters that begin to seek a master
            // at the same moment would all stand, and split the promises among them.
            if self.quorum_connected {
                self.deadline = Millis(0);
            }
            return RoundOutcome::NextRound;
        }
        let free = self.answers.iter().filter(|(_, standing)| !standing.must_abstain);
        if free.clone().count() + 1 < quorums.elect {
            self.deferred = 0;
            return RoundOutcome::NextRound;
        }
        let is_better = |(other, standing): &(NodeId, ProbeReply)| {
            standing.is_candidate && (standing.log, *other) > (log, node)
        };
        // Bounded: a majority may answer the better candidate of which too few voters are free.
        if free.clone().any(is_better) && self.deferred < DEFERRED_MAX {
            self.deferred += 1;
            return RoundOutcome::NextRound;
        }
        self.deferred = 0;
        RoundOutcome::Stand
    }

    /// Ends the rounds: there is a master, or an attempt to lead.
    pub(super) fn end_rounds(&mut self) {
        self.open = false;
        self.quorum_connected = false;
        self.has_freed_voter = false;
        self.deferred = 0;
        self.late_answers = 0;
        self.deadline = Millis(0);
    }
}

/// Methods that span the rounds, the role, the granted lease, and the conditions that keep this
/// replica from leading.
impl Replica {
    /// Begins a round, or judges the one that is over, while no master is known. Members that may
    /// not lead send probes too: one may be the only member with the configuration in force.
    pub(super) fn run_election(&mut self, effects: &mut Vec<Effect>) {
        let may_lead = self.may_lead();
        // A replica that can't save a promise can't lead; the master that it follows may still
        // lead.
        if self.host.now < self.quiet_until()
            || !self.role.is_following()
            || self.membership.removed
            || self.host.disk_hangs
        {
            return;
        }
        if self.role.follow(None).is_some() {
            self.announce(effects);
        }
        let quorums = self.membership.configuration.quorums();
        let voter_count = self.membership.other_voters(self.host.node).count();
        loop {
            if !self.is_round_over() {
                return;
            }
            if self.election.open {
                let outcome = self.election.judge(self.host.node, self.log.accepted(), quorums);
                if outcome == RoundOutcome::Stand && may_lead {
                    return self.stand_for_election(Ballot::default(), effects);
                }
                continue;
            }
            let length_ms =
                self.host.clock.round_ms().saturating_mul(self.election.length_factor());
            self.election.begin(self.host.after(length_ms));
            let round = self.election.round;
            for voter in self.membership.other_voters(self.host.node) {
                self.send(voter, Body::Probe { round }, effects);
            }
            // A sole voter awaits no answers, and completes both rounds at once.
            if voter_count > 0 {
                return;
            }
        }
    }

    fn is_round_over(&self) -> bool {
        let voters = self.membership.other_voters(self.host.node);
        self.election.is_over(voters, self.host.now)
    }

    /// Returns the time before which this replica holds no rounds: it has patience with a master,
    /// or leaves mastership to another voter.
    fn quiet_until(&self) -> Millis {
        let is_bound =
            self.grant.ballot.node != self.host.node && !broken(Rule::GrantForbidsStanding);
        let patience_until = if is_bound { self.grant.patience_until } else { Millis(0) };
        patience_until.max(self.election.abstains_until)
    }

    /// Returns the time before which passing time alone changes nothing for a follower. `None`: it
    /// needs a tick.
    pub(super) fn election_due(&self) -> Option<Millis> {
        match self.quiet_until() {
            until if self.host.now < until => Some(until),
            // The next tick forgets the master, or ends the round.
            _ if self.role.followed_master().is_some() || self.is_round_over() => None,
            _ => Some(self.election.deadline),
        }
    }

    /// Handles the end of the connection with another member. If that one is the master, its
    /// process may have ended: then nobody need wait longer than for the promise that it was given.
    pub(super) fn on_link_ended(&mut self, node: NodeId, now: Millis, effects: &mut Vec<Effect>) {
        self.advance_clock(now);
        if !self.membership.has(node) || node == self.host.node {
            return;
        }
        let members = &self.membership;
        self.election.unlinked.retain(|unlinked| members.has(*unlinked));
        self.election.note_unlinked(node);
        if self.grant.ballot.node == node {
            self.grant.end_patience();
        }
        self.run_election(effects);
    }

    /// Returns true if this replica may become master.
    pub(super) fn may_lead(&self) -> bool {
        self.membership.configuration.may_lead(self.host.node)
            && !self.host.is_yielding
            && !self.host.disk_hangs
    }

    /// Answers a member that seeks a master with this replica's standing.
    pub(super) fn on_probe(&mut self, from: NodeId, round: u64, effects: &mut Vec<Effect>) {
        // A master with a majority is not replaced, even without leases.
        let is_leading = self.leads_majority();
        let granted = self.grant.ballot.node != from && self.host.now < self.grant.patience_until;
        let is_seeking =
            self.role.is_following() && self.election.quorum_connected && self.may_lead();
        let reply = ProbeReply {
            // A voter whose disk hangs could not save the promise that the candidate needs.
            must_abstain: is_leading
                || self.host.disk_hangs
                || (granted && !self.role.is_replicating()),
            is_candidate: is_seeking || self.role.is_candidate(),
            log: self.log.accepted(),
        };
        self.send(from, Body::Probed { round, reply }, effects);
        if self.role.is_following() && self.election.note_seeker(from) {
            self.run_election(effects);
        }
    }

    /// Handles a voter's answer to a round.
    pub(super) fn on_probed(
        &mut self,
        from: NodeId,
        round: u64,
        standing: ProbeReply,
        effects: &mut Vec<Effect>,
    ) {
        let is_voter = self.membership.configuration.is_voter(from);
        if self.role.is_following() && is_voter {
            self.election.record_answer(from, round, standing);
            let voters = self.membership.other_voters(self.host.node);
            // Time 0: only the last answer ends the round here; its deadline is for the tick.
            if self.election.open && self.election.is_over(voters, Millis(0)) {
                self.run_election(effects);
            }
        }
    }

    /// Returns true if this replica leads with a majority: then no other master is needed.
    pub(super) fn leads_majority(&self) -> bool {
        self.role.master().is_some_and(|master| {
            let heartbeats = &master.heartbeats;
            heartbeats.has_majority_contact(&self.host) || heartbeats.lease.is_valid(self.host.now)
        })
    }
}

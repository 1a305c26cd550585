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

use super::effect::Effect;
use super::message::{Accepted, Body, ProbeReply};
use super::quorum::Quorums;
use super::replica::Replica;
use super::rules::{Rule, broken};
use super::tear::AwaitedLogs;
use base::{Ballot, Millis, NodeId};

/// Number of rounds that a voter leaves to a better candidate; then it stands all the same.
const DEFERRED_MAX: u32 = 4;

/// Number of times that a late answer lengthens a round, each by its first length.
const LATE_MAX: u32 = 2;

/// Rounds of one voter that seeks a master.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Election {
    /// Number of the last round begun; 0: none.
    pub round: u64,
    /// Time at which the round is judged unless all answer before; afterwards, the start of the
    /// next.
    ends: Millis,
    /// Answers to it, in the order of their arrival, one per node.
    answers: Vec<(NodeId, ProbeReply)>,
    /// True while a round is in progress.
    open: bool,
    /// True if the last judged round heard a majority.
    pub connected: bool,
    /// Number of rounds in a row that were left to a better candidate.
    deferred: u32,
    /// Number of answers that came after the end of their round.
    late: u32,
    /// End of a time without rounds: this replica was master, no longer heard a majority, and
    /// leaves mastership to others.
    pub left_until: Millis,
    /// Members for whose logs an attempt to lead waits.
    pub awaited: Option<AwaitedLogs>,
}

/// Outcome of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoundOutcome {
    /// Stand for election.
    Stand,
    /// Hold another round.
    Again,
}

impl Election {
    /// Returns true if the round is to be judged: all answered, or its time is over. A judged round
    /// still lasts that long, so that rounds do not follow each other at network speed.
    pub(super) fn is_over(&self, others: usize, now: Millis) -> bool {
        (self.open && self.answers.len() >= others) || now >= self.ends
    }

    /// Returns true if a round is in progress.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// Returns the current length of a round in multiples of its first length.
    pub(super) fn pace(&self) -> u64 {
        u64::from(self.late) + 1
    }

    /// Begins a round.
    pub(super) fn begin(&mut self, ends: Millis) {
        self.round += 1;
        self.ends = ends;
        self.answers.clear();
        self.open = true;
    }

    /// Records an answer; one of an older round only counts as late.
    pub(super) fn answer(&mut self, from: NodeId, round: u64, standing: ProbeReply) {
        let fresh = self.open && round == self.round;
        if round < self.round {
            self.late = (self.late + 1).min(LATE_MAX);
        }
        if fresh && self.answers.iter().all(|(node, _)| *node != from) {
            self.answers.push((from, standing));
        }
    }

    /// Judges the round of this node, which has accepted `log`, by the group's quorums. Of the
    /// candidates, the one with the longest log stands: it has the fewest entries to fetch.
    pub(super) fn judge(&mut self, node: NodeId, log: Accepted, quorums: Quorums) -> RoundOutcome {
        self.open = false;
        let known = self.connected;
        self.connected = self.answers.len() + 1 >= quorums.most();
        if !known {
            // Others do not know yet who may stand: voters that begin to seek at the same moment
            // would all stand, and split the promises among them.
            self.ends = Millis(0);
            return RoundOutcome::Again;
        }
        let free = self.answers.iter().filter(|(_, standing)| !standing.bound);
        if free.clone().count() + 1 < quorums.elect {
            self.deferred = 0;
            return RoundOutcome::Again;
        }
        let better = |(other, standing): &(NodeId, ProbeReply)| {
            standing.candidate && (standing.log, *other) > (log, node)
        };
        // Not for ever: the better one may hear a majority of which too few are free.
        if free.clone().any(better) && self.deferred < DEFERRED_MAX {
            self.deferred += 1;
            return RoundOutcome::Again;
        }
        self.deferred = 0;
        RoundOutcome::Stand
    }

    /// Ends the rounds: there is a master, or an attempt to lead.
    pub(super) fn rest(&mut self) {
        self.open = false;
        self.connected = false;
        self.deferred = 0;
        self.late = 0;
        self.ends = Millis(0);
    }
}

/// Methods that span the rounds, the role, the lease that binds this replica, and what keeps it
/// from leading.
impl Replica {
    /// Holds a round, or judges the one that is over, while no master is heard. Members that may
    /// not lead ask too: one may be the only member that knows the configuration in force.
    pub(super) fn run_election(&mut self, effects: &mut Vec<Effect>) {
        let may_lead = self.may_lead();
        let bound = self.bound.ballot.node != self.host.node
            && self.host.now < self.bound.until
            && !broken(Rule::GrantForbidsStanding);
        let left = self.host.now < self.election.left_until;
        // A replica that can't save a promise can't lead; the master that it knows may be in
        // office.
        if left || !self.role.follows() || self.membership.dismissed || bound || self.host.hangs {
            return;
        }
        if self.role.follow(None).is_some() {
            self.announce(effects);
        }
        let quorums = self.membership.configuration.quorums();
        let others = self.membership.voters_beside(self.host.node).count();
        loop {
            if !self.election.is_over(others, self.host.now) {
                return;
            }
            if self.election.is_open() {
                let verdict = self.election.judge(self.host.node, self.log.accepted(), quorums);
                if verdict == RoundOutcome::Stand && may_lead {
                    return self.stand(Ballot::default(), effects);
                }
                continue;
            }
            let lasts = self.host.clock.round().saturating_mul(self.election.pace());
            self.election.begin(self.host.after(lasts));
            let round = self.election.round;
            for voter in self.membership.voters_beside(self.host.node) {
                self.send(voter, Body::Probe { round }, effects);
            }
            // A sole voter has nobody to wait for, and goes through both rounds at once.
            if others > 0 {
                return;
            }
        }
    }

    /// Returns true if this replica may become master.
    pub(super) fn may_lead(&self) -> bool {
        self.membership.configuration.leads(self.host.node) && !self.host.yields && !self.host.hangs
    }

    /// Answers a member that seeks a master with this replica's standing.
    pub(super) fn on_probe(&mut self, from: NodeId, round: u64, effects: &mut Vec<Effect>) {
        // A master in office is left there, even without leases.
        let leads = self.in_office();
        let granted = self.bound.ballot.node != from && self.host.now < self.bound.until;
        let seeks = self.role.follows() && self.election.connected && self.may_lead();
        let standing = ProbeReply {
            // A voter whose disk hangs could not save the promise that the candidate needs.
            bound: leads || self.host.hangs || (granted && !self.role.replicates()),
            candidate: seeks || self.role.attempts(),
            log: self.log.accepted(),
        };
        self.send(from, Body::Probed { round, standing }, effects);
    }

    /// Handles a voter's answer to a round.
    pub(super) fn on_probed(
        &mut self,
        from: NodeId,
        round: u64,
        standing: ProbeReply,
        effects: &mut Vec<Effect>,
    ) {
        let votes = self.membership.configuration.votes(from);
        if self.role.follows() && votes {
            self.election.answer(from, round, standing);
            let others = self.membership.voters_beside(self.host.node).count();
            // Time 0: only the last answer ends the round here; its deadline is for the tick.
            if self.election.is_open() && self.election.is_over(others, Millis(0)) {
                self.run_election(effects);
            }
        }
    }

    /// Returns true if this replica leads and hears a majority: then no other master is needed.
    pub(super) fn in_office(&self) -> bool {
        self.role.master().is_some_and(|master| {
            let heartbeats = &master.heartbeats;
            heartbeats.hears_majority(&self.host) || heartbeats.lease.holds(self.host.now)
        })
    }
}

//! Election: who tries to lead, when nobody does.
//!
//! The idea is that of Omni-Paxos' *ballot leader election*: what qualifies a voter to lead is that
//! it hears enough others, not how long its log is; and who can't hear so many takes no part. So
//! the group goes on even where only one voter is still connected to a majority. Rounds are held
//! only while a voter knows no master: a master in office is told by its heartbeats.
//!
//! A voter stands for election only once a majority, itself included, is bound by no lease. Those
//! bound would refuse it, and its attempt would only raise ballots (the *pre-vote* of Ongaro's
//! thesis, 9.6, has the same reason).

use super::effect::Effect;
use super::message::{Accepted, Body, ProbeReply};
use super::quorum::Quorums;
use super::replica::Replica;
use super::rules::{Rule, broken};
use super::tear::AwaitedLogs;
use base::{Ballot, Millis, NodeId};

/// A voter leaves it to a better one for so many rounds; then it stands all the same.
const DEFERRED_MAX: u32 = 4;

/// A round grows by its first length when an answer came too late, so often.
const LATE_MAX: u32 = 2;

/// The rounds of one voter that seeks a master.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Election {
    /// The last round that was begun; 0: none.
    pub round: u64,
    /// When it is judged, if not all answer before; once it was, the next begins then.
    ends: Millis,
    /// Who answered it, in order of arrival, each once.
    answers: Vec<(NodeId, ProbeReply)>,
    /// Whether a round is under way.
    open: bool,
    /// Whether the last judged round heard a majority.
    pub connected: bool,
    /// How many rounds in a row were left to a better candidate.
    deferred: u32,
    /// How many answers came when their round was over.
    late: u32,
    /// The end of a time without rounds: this one was master, heard no majority any more, and
    /// leaves it to others.
    pub left_until: Millis,
    /// Members whose logs an attempt to lead waits for.
    pub awaited: Option<AwaitedLogs>,
}

/// What a round came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoundOutcome {
    /// Lead.
    Stand,
    /// Ask again.
    Again,
}

impl Election {
    /// Whether the round is to be judged: all answered, or its time is over. One that was judged
    /// still lasts that long, so that rounds don't follow each other as fast as the network goes.
    pub(super) fn is_over(&self, others: usize, now: Millis) -> bool {
        (self.open && self.answers.len() >= others) || now >= self.ends
    }

    /// Whether a round was held that waits for its verdict.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// How many times its first length a round lasts by now.
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

    /// Notes an answer; one of an older round says nothing any more.
    pub(super) fn answer(&mut self, from: NodeId, round: u64, standing: ProbeReply) {
        let fresh = self.open && round == self.round;
        if round < self.round {
            self.late = (self.late + 1).min(LATE_MAX);
        }
        if fresh && self.answers.iter().all(|(node, _)| *node != from) {
            self.answers.push((from, standing));
        }
    }

    /// Judges the round: so many are enough in this group, and this one has accepted `log`. Of
    /// those who may stand, the one with the longest log does: it has the least to fetch.
    pub(super) fn judge(&mut self, node: NodeId, log: Accepted, quorums: Quorums) -> RoundOutcome {
        self.open = false;
        let known = self.connected;
        self.connected = self.answers.len() + 1 >= quorums.most();
        if !known {
            // Nobody has been told yet who else may stand: those who begin to seek at one moment
            // would all stand, and share the promises out among them.
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
        if free.clone().any(better) && self.deferred < DEFERRED_MAX {
            self.deferred += 1;
            return RoundOutcome::Again;
        }
        self.deferred = 0;
        RoundOutcome::Stand
    }

    /// There is a master, or an attempt to lead: no round is held.
    pub(super) fn rest(&mut self) {
        self.open = false;
        self.connected = false;
        self.deferred = 0;
        self.late = 0;
        self.ends = Millis(0);
    }
}

/// Across the rounds, the role, the lease that binds this replica, and what keeps it from leading.
impl Replica {
    /// Nobody is heard to lead: hold a round, or judge the one that is over. Who may not lead asks,
    /// too: it may be the only one left who knows which configuration is in force.
    pub(super) fn run_election(&mut self, effects: &mut Vec<Effect>) {
        let may_lead = self.may_lead();
        let bound = self.bound.ballot.node != self.host.node
            && self.host.now < self.bound.until
            && !broken(Rule::GrantForbidsStanding);
        let left = self.host.now < self.election.left_until;
        // Whoever can't save a promise can't lead; the master that it knows may be in office.
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
            if others > 0 {
                return;
            }
        }
    }

    /// True if this replica may become master.
    pub(super) fn may_lead(&self) -> bool {
        self.membership.configuration.leads(self.host.node) && !self.host.yields && !self.host.hangs
    }

    /// Somebody seeks a master: say how we stand.
    pub(super) fn on_probe(&mut self, from: NodeId, round: u64, effects: &mut Vec<Effect>) {
        // A master in office is left there, also where there are no leases.
        let leads = self.in_office();
        let granted = self.bound.ballot.node != from && self.host.now < self.bound.until;
        let seeks = self.role.follows() && self.election.connected && self.may_lead();
        let standing = ProbeReply {
            bound: leads || self.host.hangs || (granted && !self.role.replicates()),
            candidate: seeks || self.role.attempts(),
            log: self.log.accepted(),
        };
        self.send(from, Body::Probed { round, standing }, effects);
    }

    /// A voter said how it stands.
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
            if self.election.is_open() && self.election.is_over(others, Millis(0)) {
                self.run_election(effects);
            }
        }
    }

    /// True if this replica leads and hears a majority: then there is no need for another master.
    pub(super) fn in_office(&self) -> bool {
        self.role.master().is_some_and(|master| {
            let heartbeats = &master.heartbeats;
            heartbeats.hears_majority(&self.host) || heartbeats.lease.holds(self.host.now)
        })
    }
}

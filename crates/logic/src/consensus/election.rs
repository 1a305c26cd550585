//! Who should try to lead, when nobody does.
//!
//! The idea is that of Omni-Paxos' *ballot leader election*: what qualifies a voter to lead is that
//! it hears enough others, not how long its log is; and who can't hear so many takes no part. So
//! the group goes on even where only one voter is still connected to a majority. Rounds are held
//! only while a voter knows no master: a master in office is told by its heartbeats.
//!
//! A voter stands for election only once a majority, itself included, is bound by no lease. Those
//! bound would refuse it, and its attempt would only raise ballots (the *pre-vote* of Ongaro's
//! thesis, 9.6, has the same reason).

use super::message::{Accepted, ProbeReply};
use super::quorum::Quorums;
use base::{Millis, NodeId};

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

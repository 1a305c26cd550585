//! What a replica keeps while it tries to lead, and while it leads.

use super::configuration::{Configuration, Member};
use super::event::ReadToken;
use super::lease::{Lease, LeaseClock};
use super::message::Accepted;
use super::quorum::{Quorums, VoterTally};
use super::rules::{Rule, broken};
use super::window::Window;
use base::{Ballot, LogIndex, Millis, NodeId};
use std::collections::VecDeque;

/// Values that may be on their way to one follower, not yet acknowledged.
pub(super) const FLIGHT_VALUES_MAX: u64 = 1_024;
/// Values named by one message.
pub(super) const MESSAGE_VALUES_MAX: u64 = 64;
/// Reads that may wait for a majority's word at once.
pub(super) const READS_WAITING_MAX: usize = 65_536;

/// How far the master has come with another member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Follower {
    pub node: NodeId,
    pub phase: Phase,
    /// Up to here its log agreed with the master's when it adopted it.
    pub from: LogIndex,
    /// Values up to here were sent.
    pub sent: LogIndex,
    /// Values up to here it has received, though it has not adopted them yet.
    pub staged: LogIndex,
    /// It is a witness that keeps as much as it may.
    pub full: bool,
    /// Values up to here are on its disk, under the master's ballot.
    pub saved: Option<LogIndex>,
    /// When something was last asked of it, or came from it.
    pub moved: Millis,
    /// Where it was last gone back to, and until when the same gap is not told anew: what was sent
    /// behind the gap tells of it once more with every message.
    pub rewound: (LogIndex, Millis),
    /// The last promise that was acted upon, and until when the same one is not: each value that
    /// overtakes the `Adopt` before it brings the same promise again.
    pub heeded: (Accepted, Millis),
}

/// One member's promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Promised {
    pub node: NodeId,
    /// What it has accepted.
    pub log: Accepted,
    /// Its log was torn: it may have accepted more.
    pub torn: bool,
}

/// What is to be done next for a follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// It has not promised yet.
    Asked,
    /// It promised, and is sent the log.
    Streaming,
    /// It needs a snapshot first.
    Behind,
}

/// A read that waits until a majority says that this replica was still master when it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct WaitingRead {
    pub token: ReadToken,
    /// The heartbeat that must be answered: the first sent after the read came.
    pub beat: u64,
    /// What it must see.
    pub index: LogIndex,
}

/// The books of one attempt to lead.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lead {
    /// When the attempt is given up, while a majority's promises are awaited.
    pub ends: Millis,
    /// Who promised, with what log, this replica included.
    pub promises: Vec<Promised>,
    /// Torn logs left open what was decided, and nobody is left who could tell.
    pub uncertain: bool,
    /// The ballot the adopted log counted as accepted under before.
    pub base: Ballot,
    /// The end of the adopted log.
    pub adopted: LogIndex,
    /// Whom missing values are fetched from.
    pub source: Option<NodeId>,
    /// How far each voter saved the log under this ballot.
    pub saved: VoterTally<LogIndex>,
    pub followers: Vec<Follower>,
    pub lease: Lease,
    /// When the heartbeats were sent that each voter answered, granted or not.
    pub contact: VoterTally<Millis>,
    /// Which heartbeat each voter answered last.
    pub beats: VoterTally<u64>,
    /// The last heartbeat that was sent.
    pub beat: u64,
    /// When the next is due.
    pub next_beat: Millis,
    pub window: Window,
    pub reads: VecDeque<WaitingRead>,
    /// Who is to lead next, and until when that is tried.
    pub heir: Option<(NodeId, Millis)>,
}

impl Follower {
    /// Up to here it need not be sent anything again.
    pub(super) fn done(&self) -> LogIndex {
        self.saved.unwrap_or(self.staged).max(self.from)
    }
}

impl Lead {
    pub(super) fn new(node: NodeId, configuration: &Configuration, clock: LeaseClock) -> Lead {
        let others = configuration.members().iter().filter(|member| member.node != node);
        let follower = |node| Follower {
            node,
            phase: Phase::Asked,
            from: LogIndex(0),
            sent: LogIndex(0),
            staged: LogIndex(0),
            full: false,
            saved: None,
            moved: Millis(0),
            rewound: (LogIndex(0), Millis(0)),
            heeded: (Accepted::default(), Millis(0)),
        };
        let counts = |member: &&Member| member.part.votes() || broken(Rule::LearnersDontCount);
        let counting = configuration.members().iter().filter(counts).map(|member| member.node);
        let all = Quorums::of(counting.clone().count(), configuration.quorum()).save;
        let needed = configuration.quorums().save;
        Lead {
            ends: Millis(0),
            promises: Vec::new(),
            uncertain: false,
            base: Ballot::default(),
            adopted: LogIndex(0),
            source: None,
            saved: VoterTally::new(counting, all),
            followers: others.map(|member| follower(member.node)).collect(),
            lease: Lease::new(clock, configuration.voters(), needed),
            contact: VoterTally::new(configuration.voters(), needed),
            beats: VoterTally::new(configuration.voters(), needed),
            beat: 0,
            next_beat: Millis(0),
            window: Window::default(),
            reads: VecDeque::new(),
            heir: None,
        }
    }

    /// The same for another configuration, of which nothing is known yet.
    pub(super) fn anew(
        &self,
        node: NodeId,
        configuration: &Configuration,
        clock: LeaseClock,
    ) -> Lead {
        Lead { beat: self.beat, ..Lead::new(node, configuration, clock) }
    }

    /// A new attempt: everything learned in an earlier one is forgotten, only the count of
    /// heartbeats goes on.
    pub(super) fn begin(&mut self, now: Millis, ends: Millis) {
        self.ends = ends;
        self.promises.clear();
        self.uncertain = false;
        self.source = None;
        self.saved.clear();
        self.lease.release();
        self.contact.clear();
        self.beats.clear();
        self.next_beat = now;
        self.window.land(0);
        self.heir = None;
        for follower in &mut self.followers {
            follower.phase = Phase::Asked;
            follower.saved = None;
            follower.full = false;
            follower.moved = now;
            follower.rewound = (LogIndex(0), Millis(0));
            follower.heeded = (Accepted::default(), Millis(0));
        }
    }

    /// Notes a promise; a later one of the same member tells more.
    pub(super) fn promised(&mut self, promise: Promised) {
        match self.promises.iter_mut().find(|known| known.node == promise.node) {
            Some(known) => *known = promise,
            None => self.promises.push(promise),
        }
    }

    /// The highest log among the promises, and whose it is.
    pub(super) fn best(&self) -> Option<(Accepted, NodeId)> {
        let promises = self.promises.iter().map(|promise| (promise.log, promise.node));
        if broken(Rule::HighestBallotFirst) {
            return promises.max_by_key(|(log, node)| (log.last, *node));
        }
        promises.max()
    }

    /// Where a member stands among the followers.
    pub(super) fn place(&self, node: NodeId) -> Option<usize> {
        self.followers.iter().position(|follower| follower.node == node)
    }

    pub(super) fn follower(&mut self, node: NodeId) -> Option<&mut Follower> {
        self.followers.iter_mut().find(|follower| follower.node == node)
    }

    /// Values of the adopted log reached a member, which can't say yet that it accepted them.
    pub(super) fn staged_by(&mut self, node: NodeId, upto: LogIndex, now: Millis) {
        let Some(follower) = self.follower(node) else { return };
        let news = follower.done() < upto && upto <= follower.sent;
        if follower.phase == Phase::Streaming && follower.saved.is_none() && news {
            follower.staged = upto;
            follower.moved = now;
        }
    }
}

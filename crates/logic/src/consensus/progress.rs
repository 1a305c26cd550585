//! Replication progress: up to where each other member was sent the log, and has it on disk.
//!
//! Positions belong to the ballot that was promised last, if that is this replica's own. They
//! outlive the reign: a former master that has promised no other ballot still holds the log it led
//! with, and answers a follower's `Gap` from it.
//!
//! Promises: a follower is sent nothing twice unless it says that it lacks it; no more than
//! [`FLIGHT_VALUES_MAX`] values are under way to one.
//! Never: decides; what a majority has saved is counted in `master.rs`.

use super::configuration::Configuration;
use super::log::AcceptedLog;
use super::message::{Accepted, Body};
use base::{LogIndex, Millis, NodeId};

/// Values that may be on their way to one follower, not yet acknowledged.
const FLIGHT_VALUES_MAX: u64 = 1_024;
/// Values named by one message.
pub(super) const MESSAGE_VALUES_MAX: u64 = 64;

/// The progress of all other members, in the order of their ids.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ProgressTracker {
    /// The last heartbeat that was sent to them, counted through all reigns: an answer to an old
    /// one answers none of a later reign.
    pub beat: u64,
    pub followers: Vec<FollowerProgress>,
}

/// A master's progress with one other member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FollowerProgress {
    pub node: NodeId,
    pub phase: ProgressPhase,
    /// Up to here its log agreed with the master's when it adopted it.
    pub from: LogIndex,
    /// Values up to here were sent.
    pub sent: LogIndex,
    /// Values up to here it has received, though it has not adopted them yet.
    staged: LogIndex,
    /// It is a witness that keeps as much as it may.
    pub full: bool,
    /// Values up to here are on its disk, under the master's ballot.
    pub saved: Option<LogIndex>,
    /// Time at which something was last asked of it, or came from it.
    pub moved: Millis,
    /// Index it was last gone back to, and the end of the time in which the same gap is not told
    /// anew: what was sent behind the gap tells of it once more with every message.
    rewound: (LogIndex, Millis),
    /// The last promise that was acted upon, and until when the same one is not: each value that
    /// overtakes the `Adopt` before it brings the same promise again.
    heeded: (Accepted, Millis),
}

/// The next thing to do for a follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ProgressPhase {
    /// It has not promised yet.
    Asked,
    /// It promised, and is sent the log.
    Streaming,
    /// It needs a snapshot first.
    Behind,
}

impl ProgressTracker {
    /// Nothing is known yet of the other members of `configuration`.
    pub(super) fn new(node: NodeId, configuration: &Configuration) -> ProgressTracker {
        let others = configuration.members().iter().filter(|member| member.node != node);
        let followers = others.map(|member| FollowerProgress::new(member.node)).collect();
        ProgressTracker { beat: 0, followers }
    }

    /// Another configuration is in force, of whose members nothing is known yet.
    pub(super) fn enter(&mut self, node: NodeId, configuration: &Configuration) {
        let beat = self.beat;
        *self = ProgressTracker { beat, ..ProgressTracker::new(node, configuration) };
    }

    /// A new attempt to lead: what was learned in an earlier one is forgotten.
    pub(super) fn begin(&mut self, now: Millis) {
        for follower in &mut self.followers {
            // Positions stay until the follower's log is known: they still tell how much may be on
            // its way.
            let FollowerProgress { from, sent, staged, .. } = *follower;
            let fresh = FollowerProgress::new(follower.node);
            *follower = FollowerProgress { from, sent, staged, moved: now, ..fresh };
        }
    }

    /// The progress of a member; none: it is no other member.
    pub(super) fn of(&self, node: NodeId) -> Option<&FollowerProgress> {
        self.followers.iter().find(|follower| follower.node == node)
    }

    pub(super) fn of_mut(&mut self, node: NodeId) -> Option<&mut FollowerProgress> {
        self.followers.iter_mut().find(|follower| follower.node == node)
    }

    /// The way to a member was full: what was not sent is sent later.
    pub(super) fn unsend(&mut self, to: NodeId, after: LogIndex) {
        let Some(follower) = self.of_mut(to) else { return };
        if follower.phase == ProgressPhase::Streaming && after < follower.sent {
            follower.sent = after.max(follower.done());
        }
    }

    /// A member that can lead, and has everything up to `last`: the one that was heard last.
    pub(super) fn level_heir(
        &self,
        configuration: &Configuration,
        last: LogIndex,
    ) -> Option<NodeId> {
        let level = self
            .followers
            .iter()
            .filter(|follower| configuration.leads(follower.node) && follower.saved == Some(last));
        let heir = level.max_by_key(|follower| (follower.moved, follower.node));
        heir.map(|follower| follower.node)
    }
}

impl FollowerProgress {
    fn new(node: NodeId) -> FollowerProgress {
        FollowerProgress {
            node,
            phase: ProgressPhase::Asked,
            from: LogIndex(0),
            sent: LogIndex(0),
            staged: LogIndex(0),
            full: false,
            saved: None,
            moved: Millis(0),
            rewound: (LogIndex(0), Millis(0)),
            heeded: (Accepted::default(), Millis(0)),
        }
    }

    /// Up to here it need not be sent anything again.
    pub(super) fn done(&self) -> LogIndex {
        self.saved.unwrap_or(self.staged).max(self.from)
    }

    /// True if it has all of the log on disk.
    pub(super) fn is_level(&self, last: LogIndex) -> bool {
        self.phase == ProgressPhase::Streaming && self.saved >= Some(last)
    }

    /// It is asked for its promise.
    pub(super) fn ask(&mut self, now: Millis) {
        self.phase = ProgressPhase::Asked;
        self.moved = now;
    }

    /// It promised, with this log; false: that was acted upon just now, and is not again until
    /// `again`.
    pub(super) fn heed(&mut self, log: Accepted, now: Millis, again: Millis) -> bool {
        if self.heeded.0 == log && now < self.heeded.1 {
            return false;
        }
        self.heeded = (log, again);
        self.moved = now;
        self.phase = ProgressPhase::Streaming;
        true
    }

    /// It had adopted the master's log already, up to `last`, and was restarted since.
    pub(super) fn resume(&mut self, last: LogIndex) {
        self.from = last;
        self.sent = last;
        self.saved = self.saved.max(Some(last));
    }

    /// It is to adopt the master's log behind `from`.
    pub(super) fn restart(&mut self, from: LogIndex) {
        (self.from, self.sent, self.staged) = (from, from, from);
        self.saved = None;
    }

    /// It has the log on disk up to here.
    pub(super) fn acknowledge(&mut self, upto: LogIndex, now: Millis) {
        if self.saved < Some(upto) {
            self.saved = Some(upto);
            self.moved = now;
        }
        self.sent = self.sent.max(upto);
        if self.phase == ProgressPhase::Behind {
            self.phase = ProgressPhase::Streaming;
        }
    }

    /// Values of the adopted log reached it, and it can't say yet that it accepted them.
    pub(super) fn stage(&mut self, upto: LogIndex, now: Millis) {
        let news = self.done() < upto && upto <= self.sent;
        if self.phase == ProgressPhase::Streaming && self.saved.is_none() && news {
            self.staged = upto;
            self.moved = now;
        }
    }

    /// It missed what follows `last`: goes back to there. False: it can't have, or said so before
    /// and is not heard again until `again`.
    pub(super) fn rewind(&mut self, last: LogIndex, now: Millis, again: Millis) -> bool {
        let possible = self.saved.unwrap_or(self.from) <= last && last < self.sent;
        let told = self.rewound.0 == last && now < self.rewound.1;
        let goes_back = self.phase == ProgressPhase::Streaming && possible && !told;
        if goes_back {
            self.rewound = (last, again);
            // Whoever was restarted has forgotten what it staged.
            (self.sent, self.staged) = (last, self.staged.min(last));
        }
        goes_back
    }

    /// The next part of the log that it is to be sent now, which counts as sent from here on; none:
    /// it has all, or enough is on its way.
    pub(super) fn next_part(&mut self, log: &AcceptedLog) -> Option<Body> {
        if self.phase != ProgressPhase::Streaming || self.sent >= log.last {
            return None;
        }
        if self.sent.0 >= self.done().0 + FLIGHT_VALUES_MAX {
            return None;
        }
        if self.sent < log.floor {
            self.phase = ProgressPhase::Behind;
            return Some(Body::Behind);
        }
        let after = self.sent;
        self.sent = LogIndex(log.last.0.min(after.0 + MESSAGE_VALUES_MAX));
        Some(Body::Accept { after, upto: self.sent, decided: log.decided })
    }
}

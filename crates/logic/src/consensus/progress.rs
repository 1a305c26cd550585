//! Replication progress: the index up to which each other member was sent the log, and has it on
//! disk.
//!
//! Positions belong to the last promised ballot, if that is this replica's own. They outlive the
//! reign: a former master that has promised no other ballot still holds the log with which it led,
//! and answers a follower's `Gap` from it.
//!
//! Promises: a follower is sent nothing twice unless it reports it as lost; no more than
//! [`FLIGHT_VALUES_MAX`] entries are in flight to one.
//! Never: decides; `master.rs` counts what a majority has saved.

use super::configuration::Configuration;
use super::log::AcceptedLog;
use super::message::{Accepted, Body};
use base::{LogIndex, Millis, NodeId};

/// Most entries in flight to one follower without an acknowledgement.
const FLIGHT_VALUES_MAX: u64 = 1_024;
/// Most entries in one message.
pub(super) const MESSAGE_VALUES_MAX: u64 = 64;

/// Progress of all other members, in the order of their ids.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ProgressTracker {
    /// Number of the last heartbeat sent to them, counted through all reigns: an answer to an old
    /// one answers none of a later reign.
    pub beat: u64,
    pub followers: Vec<FollowerProgress>,
}

/// Progress of one other member, as the master sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FollowerProgress {
    pub node: NodeId,
    pub phase: ProgressPhase,
    /// Index up to which its log agreed with the master's when it adopted it.
    pub from: LogIndex,
    /// Index up to which entries were sent.
    pub sent: LogIndex,
    /// Index up to which it has received entries, though it may not have adopted them yet.
    staged: LogIndex,
    /// True if it is a witness at the limit of the log that it may keep.
    pub full: bool,
    /// Index up to which entries are on its disk, under the master's ballot. `None`: it has not
    /// said.
    pub saved: Option<LogIndex>,
    /// Time at which something was last requested of it, or received from it.
    pub moved: Millis,
    /// Index to which it was last rewound, and the time until which the same gap is ignored: every
    /// entry sent after the gap reports it once more.
    rewound: (LogIndex, Millis),
    /// Last promise acted upon, and the time until which the same one is ignored: each entry that
    /// overtakes the `Adopt` before it brings the same promise again.
    heeded: (Accepted, Millis),
}

/// Phase of a follower: the next thing to do for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ProgressPhase {
    /// Promise requested; it has not promised yet.
    Asked,
    /// Streaming: it promised, and is sent the log.
    Streaming,
    /// Snapshot needed before the log.
    Behind,
}

impl ProgressTracker {
    /// Returns the tracker of the other members of `configuration`, of which nothing is known yet.
    pub(super) fn new(node: NodeId, configuration: &Configuration) -> ProgressTracker {
        let others = configuration.members().iter().filter(|member| member.node != node);
        let followers = others.map(|member| FollowerProgress::new(member.node)).collect();
        ProgressTracker { beat: 0, followers }
    }

    /// Enters another configuration, of whose members nothing is known yet.
    pub(super) fn enter(&mut self, node: NodeId, configuration: &Configuration) {
        let beat = self.beat;
        *self = ProgressTracker { beat, ..ProgressTracker::new(node, configuration) };
    }

    /// Begins a new attempt to lead: forgets what an earlier one learned.
    pub(super) fn begin(&mut self, now: Millis) {
        for follower in &mut self.followers {
            // Positions stay until the follower's log is known: they still bound how much may be in
            // flight to it.
            let FollowerProgress { from, sent, staged, .. } = *follower;
            let fresh = FollowerProgress::new(follower.node);
            *follower = FollowerProgress { from, sent, staged, moved: now, ..fresh };
        }
    }

    /// Returns the progress of a member. `None`: it is not another member.
    pub(super) fn of(&self, node: NodeId) -> Option<&FollowerProgress> {
        self.followers.iter().find(|follower| follower.node == node)
    }

    pub(super) fn of_mut(&mut self, node: NodeId) -> Option<&mut FollowerProgress> {
        self.followers.iter_mut().find(|follower| follower.node == node)
    }

    /// Records that the lane to a member was full: entries after `after` are sent later.
    pub(super) fn unsend(&mut self, to: NodeId, after: LogIndex) {
        let Some(follower) = self.of_mut(to) else { return };
        if follower.phase == ProgressPhase::Streaming && after < follower.sent {
            follower.sent = after.max(follower.done());
        }
    }

    /// Returns a member that can lead and has everything up to `last`: the one heard last.
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

    /// Returns the index up to which it need not be sent anything again.
    pub(super) fn done(&self) -> LogIndex {
        self.saved.unwrap_or(self.staged).max(self.from)
    }

    /// Returns true if it has all of the log on disk.
    pub(super) fn is_level(&self, last: LogIndex) -> bool {
        self.phase == ProgressPhase::Streaming && self.saved >= Some(last)
    }

    /// Records that it is asked for its promise.
    pub(super) fn ask(&mut self, now: Millis) {
        self.phase = ProgressPhase::Asked;
        self.moved = now;
    }

    /// Records that it promised, with this log. Returns false if the same promise was acted upon
    /// just now, and is ignored until `again`.
    pub(super) fn heed(&mut self, log: Accepted, now: Millis, again: Millis) -> bool {
        if self.heeded.0 == log && now < self.heeded.1 {
            return false;
        }
        self.heeded = (log, again);
        self.moved = now;
        self.phase = ProgressPhase::Streaming;
        true
    }

    /// Records that it had adopted the master's log already, up to `last`, and was restarted since.
    pub(super) fn resume(&mut self, last: LogIndex) {
        self.from = last;
        self.sent = last;
        self.saved = self.saved.max(Some(last));
    }

    /// Records that it is to adopt the master's log after `from`.
    pub(super) fn restart(&mut self, from: LogIndex) {
        (self.from, self.sent, self.staged) = (from, from, from);
        self.saved = None;
    }

    /// Records that it has the log on disk up to here.
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

    /// Records that it received entries of the adopted log, and can't report them as accepted yet.
    pub(super) fn stage(&mut self, upto: LogIndex, now: Millis) {
        let news = self.done() < upto && upto <= self.sent;
        if self.phase == ProgressPhase::Streaming && self.saved.is_none() && news {
            self.staged = upto;
            self.moved = now;
        }
    }

    /// Goes back to `last`, after which it missed entries. Returns false if it can't have missed
    /// them, or reported the same before and is ignored until `again`.
    pub(super) fn rewind(&mut self, last: LogIndex, now: Millis, again: Millis) -> bool {
        let possible = self.saved.unwrap_or(self.from) <= last && last < self.sent;
        let told = self.rewound.0 == last && now < self.rewound.1;
        let goes_back = self.phase == ProgressPhase::Streaming && possible && !told;
        if goes_back {
            self.rewound = (last, again);
            // A restarted member has forgotten what it staged.
            (self.sent, self.staged) = (last, self.staged.min(last));
        }
        goes_back
    }

    /// Returns the next part of the log to send to it, which counts as sent from here on. `None`:
    /// it has all, or enough is in flight.
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

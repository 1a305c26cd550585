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
use super::message::{Body, LogSummary};
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
    /// Index up to which entries are on its disk, under the master's ballot. `None`: not reported
    /// yet.
    pub saved: Option<LogIndex>,
    /// Time at which something was last requested of it, or received from it.
    pub last_activity: Millis,
    /// Index to which it was last rewound, and the time until which the same gap is ignored: every
    /// entry sent after the gap reports it once more.
    last_rewind: (LogIndex, Millis),
    /// Last promise acted upon, and the time until which the same one is ignored: each entry that
    /// overtakes the `Adopt` before it brings the same promise again.
    handled_promise: (LogSummary, Millis),
}

/// Phase of a follower: the next thing to do for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ProgressPhase {
    /// Promise requested; it has not promised yet.
    PromiseRequested,
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

    /// Begins a new attempt to lead: resets the progress of an earlier one.
    pub(super) fn begin_attempt(&mut self, now: Millis) {
        for follower in &mut self.followers {
            // Positions stay until the follower's log is known: they still bound how much may be in
            // flight to it.
            let FollowerProgress { from, sent, staged, .. } = *follower;
            let fresh = FollowerProgress::new(follower.node);
            *follower = FollowerProgress { from, sent, staged, last_activity: now, ..fresh };
        }
    }

    /// Returns the progress of a member. `None`: it is not another member.
    pub(super) fn follower(&self, node: NodeId) -> Option<&FollowerProgress> {
        self.followers.iter().find(|follower| follower.node == node)
    }

    pub(super) fn follower_mut(&mut self, node: NodeId) -> Option<&mut FollowerProgress> {
        self.followers.iter_mut().find(|follower| follower.node == node)
    }

    /// Records that the lane to a member was full: entries after `after` are sent later.
    pub(super) fn mark_unsent(&mut self, to: NodeId, after: LogIndex) {
        let Some(follower) = self.follower_mut(to) else { return };
        if follower.phase == ProgressPhase::Streaming && after < follower.sent {
            follower.sent = after.max(follower.acknowledged());
        }
    }

    /// Returns a member that can lead and has everything up to `last`: the last active one.
    pub(super) fn caught_up_successor(
        &self,
        configuration: &Configuration,
        last: LogIndex,
    ) -> Option<NodeId> {
        let caught_up = self.followers.iter().filter(|follower| {
            configuration.may_lead(follower.node) && follower.saved == Some(last)
        });
        let successor = caught_up.max_by_key(|follower| (follower.last_activity, follower.node));
        successor.map(|follower| follower.node)
    }
}

impl FollowerProgress {
    fn new(node: NodeId) -> FollowerProgress {
        FollowerProgress {
            node,
            phase: ProgressPhase::PromiseRequested,
            from: LogIndex(0),
            sent: LogIndex(0),
            staged: LogIndex(0),
            full: false,
            saved: None,
            last_activity: Millis(0),
            last_rewind: (LogIndex(0), Millis(0)),
            handled_promise: (LogSummary::default(), Millis(0)),
        }
    }

    /// Returns the index up to which it need not be sent anything again.
    pub(super) fn acknowledged(&self) -> LogIndex {
        self.saved.unwrap_or(self.staged).max(self.from)
    }

    /// Returns true if it has all of the log on disk.
    pub(super) fn is_caught_up(&self, last: LogIndex) -> bool {
        self.phase == ProgressPhase::Streaming && self.saved >= Some(last)
    }

    /// Records that its promise is requested.
    pub(super) fn mark_requested(&mut self, now: Millis) {
        self.phase = ProgressPhase::PromiseRequested;
        self.last_activity = now;
    }

    /// Records that it promised, with this log, and ignores the same promise until `ignore_until`.
    /// Returns false if that was the case already.
    pub(super) fn record_promise(
        &mut self,
        log: LogSummary,
        now: Millis,
        ignore_until: Millis,
    ) -> bool {
        if self.handled_promise.0 == log && now < self.handled_promise.1 {
            return false;
        }
        self.handled_promise = (log, ignore_until);
        self.last_activity = now;
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
    pub(super) fn acknowledge(&mut self, last: LogIndex, now: Millis) {
        if self.saved < Some(last) {
            self.saved = Some(last);
            self.last_activity = now;
        }
        self.sent = self.sent.max(last);
        if self.phase == ProgressPhase::Behind {
            self.phase = ProgressPhase::Streaming;
        }
    }

    /// Records that it received entries of the adopted log that it can't accept yet.
    pub(super) fn stage(&mut self, last: LogIndex, now: Millis) {
        let is_new = self.acknowledged() < last && last <= self.sent;
        if self.phase == ProgressPhase::Streaming && self.saved.is_none() && is_new {
            self.staged = last;
            self.last_activity = now;
        }
    }

    /// Rewinds to `last`, after which it missed entries, and ignores the same report until
    /// `ignore_until`. Returns false if it can't have missed entries there, or if that was the case
    /// already.
    pub(super) fn rewind(&mut self, last: LogIndex, now: Millis, ignore_until: Millis) -> bool {
        let is_possible = self.saved.unwrap_or(self.from) <= last && last < self.sent;
        let is_repeated = self.last_rewind.0 == last && now < self.last_rewind.1;
        let rewinds = self.phase == ProgressPhase::Streaming && is_possible && !is_repeated;
        if rewinds {
            self.last_rewind = (last, ignore_until);
            // A restarted member has lost its staged entries.
            (self.sent, self.staged) = (last, self.staged.min(last));
        }
        rewinds
    }

    /// Returns the next part of the log to send to it, which counts as sent from here on. `None`:
    /// it has all, or enough is in flight.
    pub(super) fn next_part(&mut self, log: &AcceptedLog) -> Option<Body> {
        if self.phase != ProgressPhase::Streaming || self.sent >= log.last {
            return None;
        }
        if self.sent.0 >= self.acknowledged().0 + FLIGHT_VALUES_MAX {
            return None;
        }
        if self.sent < log.floor {
            self.phase = ProgressPhase::Behind;
            return Some(Body::Behind);
        }
        let after = self.sent;
        self.sent = LogIndex(log.last.0.min(after.0 + MESSAGE_VALUES_MAX));
        Some(Body::Accept { after, last: self.sent, decided: log.decided })
    }
}

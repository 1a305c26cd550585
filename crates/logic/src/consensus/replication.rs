//! Replication of the master's log: messages to each follower, and its answers.

use super::effect::Effect;
use super::message::{Body, LogSummary};
use super::progress::{FollowerProgress, ProgressPhase};
use super::replica::Replica;
use super::role::RoleState;
use super::rules::{Rule, broken};
use base::{LogIndex, NodeId};

/// Methods that span the log, the progress of the followers, and the master's count of saved
/// entries.
impl Replica {
    /// Reports to a member that promised where its log agrees with ours, and sends the entries
    /// after.
    pub(super) fn send_log(&mut self, to: NodeId, log: LogSummary, effects: &mut Vec<Effect>) {
        let RoleState::Master(master) = &mut self.role else { return };
        let ignore_until = self.host.after(self.host.clock.heartbeat_interval_ms());
        let Some(follower) = self.progress.follower_mut(to) else { return };
        if !follower.record_promise(log, self.host.now, ignore_until) {
            return;
        }
        if log.ballot == self.log.ballot && log.last <= self.log.last {
            // It had adopted this log before a restart. A promise names only entries on disk, so it
            // counts as an acknowledgement.
            follower.resume(log.last);
            master.saved.raise(to, log.last);
            self.decide(effects);
            return self.send_next(to, effects);
        }
        let adopted = master.adopted;
        let is_same_ballot = log.ballot == master.source_ballot || broken(Rule::AgreedIsDecided);
        // Accepted under the adopted log's ballot, its log may still be longer. No promise of the
        // quorum showed the rest, so none of it is decided, and `Adopt` voids it.
        let agreed = if is_same_ballot { log.last } else { log.decided };
        // A snapshot may have advanced it beyond the adopted log.
        let from = agreed.min(adopted).max(log.decided);
        if from > self.log.last {
            return; // No correct member of this group sends that.
        }
        follower.restart(from);
        if from < self.log.floor {
            follower.phase = ProgressPhase::Behind;
            return self.send(to, Body::Behind, effects);
        }
        self.send(to, Body::Adopt { from, last: adopted.max(from) }, effects);
        self.send_next(to, effects);
    }

    /// Sends a member the entries that it lacks, as many as may be in flight.
    pub(super) fn send_next(&mut self, to: NodeId, effects: &mut Vec<Effect>) {
        let next_part =
            |replica: &mut Replica| replica.progress.follower_mut(to)?.next_part(&replica.log);
        while let Some(body) = next_part(self) {
            self.send(to, body, effects);
        }
    }

    pub(super) fn send_next_to_all(&mut self, effects: &mut Vec<Effect>) {
        for place in 0..self.progress.followers.len() {
            self.send_next(self.progress.followers[place].node, effects);
        }
    }

    /// Handles a member's report that it has the log on disk up to here.
    pub(super) fn on_accepted(&mut self, from: NodeId, last: LogIndex, effects: &mut Vec<Effect>) {
        let RoleState::Master(master) = &mut self.role else { return };
        if last > self.log.last {
            return;
        }
        let Some(follower) = self.progress.follower_mut(from) else { return };
        follower.acknowledge(last, self.host.now);
        master.saved.raise(from, last);
        self.decide(effects);
        self.send_next(from, effects);
        self.try_to_hand_over(effects);
    }

    /// Handles a member's report of received entries that it can't accept yet.
    pub(super) fn on_staged(&mut self, from: NodeId, last: LogIndex, effects: &mut Vec<Effect>) {
        if let Some(follower) = self.progress.follower_mut(from) {
            follower.stage(last, self.host.now);
        }
        self.send_next(from, effects);
    }

    /// Handles a member's gap: continues after its last entry.
    pub(super) fn on_gap(&mut self, from: NodeId, last: LogIndex, effects: &mut Vec<Effect>) {
        let (now, ignore_until) =
            (self.host.now, self.host.after(self.host.clock.heartbeat_interval_ms()));
        let follower = self.progress.follower_mut(from);
        if follower.is_some_and(|follower| follower.rewind(last, now, ignore_until)) {
            self.send_next(from, effects);
        }
    }

    /// Handles a member that has reached our configuration: requests its promise again.
    pub(super) fn on_straggling(&mut self, from: NodeId, effects: &mut Vec<Effect>) {
        if self.role.is_active() && self.ballots.is_saved() {
            self.request_promise(from, effects);
        }
    }

    /// Repeats messages that were not answered for long, or requests a report about them.
    pub(super) fn retry_unanswered(&mut self, effects: &mut Vec<Effect>) {
        let (now, timeout_ms) = (self.host.now, self.host.clock.answer_timeout_ms());
        for place in 0..self.progress.followers.len() {
            let follower = &mut self.progress.followers[place];
            if now.0 < follower.last_activity.0.saturating_add(timeout_ms) {
                continue;
            }
            let to = follower.node;
            match follower.phase {
                // A member that was behind may have received the missing entries elsewhere: only
                // its log tells whether it still needs a snapshot.
                ProgressPhase::PromiseRequested | ProgressPhase::Behind => {
                    if self.ballots.is_saved() {
                        self.request_promise(to, effects);
                    }
                }
                ProgressPhase::Streaming if follower.saved >= Some(self.log.last) => {}
                ProgressPhase::Streaming => {
                    follower.last_activity = now;
                    let follower = *follower;
                    self.retry_log(follower, effects);
                }
            }
        }
    }

    /// Handles entries that were not acknowledged for long. They are large, and may only be slow:
    /// those in flight are not sent again before it is known that they were lost.
    fn retry_log(&mut self, follower: FollowerProgress, effects: &mut Vec<Effect>) {
        let FollowerProgress { node: to, from, sent, saved, .. } = follower;
        let adopted = self.role.master().map_or(from, |master| master.adopted);
        // Small, and possibly the lost message; entries are large, so only a report is requested.
        if saved.is_none() {
            self.send(to, Body::Adopt { from, last: adopted.max(from) }, effects);
        }
        if sent > follower.acknowledged() {
            self.send(to, Body::Sent { last: sent }, effects);
        }
        self.send_next(to, effects);
    }
}

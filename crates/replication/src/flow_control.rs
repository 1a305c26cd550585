//! Flow control for replication: messages deferred for lack of send-queue space, and the rate limit
//! for followers that catch up from the log.
//!
//! Entries that a follower missed are read back from the log chunk by chunk, and applying them
//! takes the follower as much work as the first time. While other members are served, a pause
//! follows each chunk, or clients would notice: a bounded rate, but always faster than new entries
//! are added. While nothing is decided there is no pause: no client notices, or all wait for this
//! very member.
//!
//! Never: delays entries that are in memory, or requested ones: by a master before it leads, or
//! part by part by a member that is behind the end of its configuration.

use super::send_window::SendWindows;
use base::{LogIndex, NodeId};
use std::collections::BTreeMap;
use std::time::Duration;

/// Bytes after which a chunk ends.
pub(super) const CHUNK_BYTES: usize = 128 * 1024;
/// Minimum time after a chunk before the follower counts as idle.
const LEAST_MS: u64 = 2;
/// Retry delay after a full send queue, if no acknowledgement arrives first.
const RETRY_MS: u64 = 20;
/// Longest pause, since one entry may be large.
const PAUSE_MS_MAX: u64 = 100;
/// Minimum ratio of the bytes sent to a lagging follower to the bytes added meanwhile.
const AHEAD: u64 = 2;

/// See the head of this file.
#[derive(Default)]
pub struct FlowControl {
    /// Bytes of entries that were proposed, ever.
    pub added: u64,
    /// Followers whose send queue was full, each with the index behind which to continue: when the
    /// follower answers, or after a while, because it may have answered everything before these
    /// entries are known to be unsent.
    pub unsent: Vec<(NodeId, LogIndex)>,
    /// Bytes in flight to each follower.
    pub windows: SendWindows,
    /// Time of the next retry for each follower whose queue was full.
    retry_at: BTreeMap<NodeId, u64>,
    throttles: BTreeMap<NodeId, CatchUpThrottle>,
}

/// Throttle state at the time the last chunk was sent.
struct CatchUpThrottle {
    since_ms: u64,
    bytes: u64,
    decided: LogIndex,
    added: u64,
    /// Index behind which the follower continues, if there is more.
    after: Option<LogIndex>,
}

impl FlowControl {
    /// Notes that a chunk was sent.
    pub(super) fn sent(&mut self, to: NodeId, bytes: usize, decided: LogIndex, now: u64) {
        let (bytes, added) = (bytes as u64, self.added);
        self.throttles
            .insert(to, CatchUpThrottle { since_ms: now, bytes, decided, added, after: None });
    }

    /// Notes that the queue had no space for entries behind this index.
    pub(super) fn full(&mut self, to: NodeId, after: LogIndex, now: u64) {
        self.unsent.push((to, after));
        self.retry_at.insert(to, now + RETRY_MS);
    }

    /// Returns the followers whose retry is due, and forgets them.
    pub(super) fn retried(&mut self, now: u64) -> Vec<NodeId> {
        let due = |at: &u64| *at <= now;
        let nodes = self.retry_at.iter().filter(|(_, at)| due(at)).map(|(node, _)| *node).collect();
        self.retry_at.retain(|_, at| !due(at));
        nodes
    }

    /// Returns true if entries behind this index must wait; remembers the index then.
    pub(super) fn holds(&mut self, to: NodeId, after: LogIndex) -> bool {
        let Some(throttle) = self.throttles.get_mut(&to) else { return false };
        // From the lowest index: later entries are sent again from there, in order.
        throttle.after = Some(throttle.after.map_or(after, |known| known.min(after)));
        true
    }

    /// Returns true if something waits for the end of a pause: what follows would be refused.
    pub(super) fn holds_back(&mut self, to: NodeId, after: LogIndex) -> bool {
        self.throttles.get(&to).is_some_and(|throttle| throttle.after.is_some())
            && self.holds(to, after)
    }

    /// Ends the pauses that are over, at this rate in bytes a second (0: all). Returns the
    /// followers that continue, each with the index behind which it does.
    pub(super) fn ended(
        &mut self,
        rate: u64,
        decided: LogIndex,
        now: u64,
    ) -> Vec<(NodeId, LogIndex)> {
        let (mut goes_on, added) = (Vec::new(), self.added);
        self.throttles.retain(|node, throttle| {
            let waits = !throttle.is_over(rate, decided, added, now);
            goes_on.extend(throttle.after.filter(|_| !waits).map(|after| (*node, after)));
            waits
        });
        goes_on
    }

    /// Returns the time until a waiting follower may continue. `None`: none waits.
    pub(super) fn sleep(&self) -> Option<Duration> {
        if !self.unsent.is_empty() {
            // Nothing can be sent yet, but the replica must learn what was not sent before an
            // answer comes.
            return Some(Duration::ZERO);
        }
        let waits = self.throttles.values().any(|throttle| throttle.after.is_some());
        let again = (!self.retry_at.is_empty()).then_some(RETRY_MS);
        waits.then_some(1).or(again).map(Duration::from_millis)
    }
}

impl CatchUpThrottle {
    fn is_over(&self, rate: u64, decided: LogIndex, added: u64, now: u64) -> bool {
        let elapsed = now.saturating_sub(self.since_ms);
        let least_ms = self.bytes.saturating_mul(1_000).checked_div(rate).unwrap_or(0);
        elapsed >= least_ms.min(PAUSE_MS_MAX)
            || elapsed >= LEAST_MS && decided == self.decided
            || (added - self.added).saturating_mul(AHEAD) >= self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId(3);
    const RATE: u64 = 16 << 20;

    /// A part of 128 KiB was sent when 7 was decided.
    fn sent() -> FlowControl {
        let mut flow = FlowControl { added: 1_000, ..FlowControl::default() };
        flow.sent(NODE, CHUNK_BYTES, LogIndex(7), 100);
        assert!(flow.holds(NODE, LogIndex(5)));
        flow
    }

    #[test]
    fn chunk_is_followed_by_a_pause_while_others_are_served() {
        let mut flow = sent();
        assert!(flow.sleep().is_some());
        assert_eq!(flow.ended(RATE, LogIndex(8), 106), []);
        assert_eq!(flow.ended(RATE, LogIndex(8), 107), [(NODE, LogIndex(5))]);
        assert!(!flow.holds(NODE, LogIndex(6)) && flow.sleep().is_none());
        assert_eq!(
            sent().ended(0, LogIndex(8), 100),
            [(NODE, LogIndex(5))],
            "no rate, no throttle"
        );
    }

    #[test]
    fn full_queue_is_retried_without_an_acknowledgement() {
        let mut flow = FlowControl::default();
        flow.full(NODE, LogIndex(5), 100);
        assert_eq!(std::mem::take(&mut flow.unsent), [(NODE, LogIndex(5))]);
        assert!(flow.sleep().is_some() && flow.retried(119).is_empty());
        assert_eq!(flow.retried(120), [NODE]);
        assert!(flow.sleep().is_none() && flow.retried(120).is_empty());
    }

    #[test]
    fn catch_up_is_not_paused_while_nothing_is_decided() {
        let mut flow = sent();
        assert_eq!(flow.ended(RATE, LogIndex(7), 101), []);
        assert_eq!(flow.ended(RATE, LogIndex(7), 102), [(NODE, LogIndex(5))]);
    }

    #[test]
    fn follower_far_behind_gains_on_the_writers() {
        let mut flow = sent();
        flow.added += CHUNK_BYTES as u64 / 2 - 1;
        assert_eq!(flow.ended(RATE, LogIndex(8), 100), []);
        flow.added += 1;
        assert_eq!(flow.ended(RATE, LogIndex(8), 100), [(NODE, LogIndex(5))]);
    }

    #[test]
    fn entries_behind_a_paused_one_wait_and_a_large_one_pauses_only_briefly() {
        let mut flow = sent();
        assert!(flow.holds_back(NODE, LogIndex(9)) && flow.holds_back(NODE, LogIndex(3)));
        assert!(!flow.holds_back(NodeId(4), LogIndex(9)));
        assert_eq!(flow.ended(RATE, LogIndex(8), 200), [(NODE, LogIndex(3))]);
        flow.sent(NODE, 64 << 20, LogIndex(8), 200);
        assert!(!flow.holds_back(NODE, LogIndex(9)), "nothing waits yet");
        assert!(flow.holds(NODE, LogIndex(9)));
        assert_eq!(flow.ended(RATE, LogIndex(9), 299), []);
        assert_eq!(flow.ended(RATE, LogIndex(9), 300), [(NODE, LogIndex(9))]);
    }
}

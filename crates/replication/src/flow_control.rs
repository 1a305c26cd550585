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
const IDLE_MS_MIN: u64 = 2;
/// Retry delay after a full send queue, if no acknowledgement arrives first.
const RETRY_MS: u64 = 20;
/// Longest pause, since one entry may be large.
const PAUSE_MS_MAX: u64 = 100;
/// Minimum ratio of the bytes sent to a lagging follower to the bytes added meanwhile.
const SEND_RATIO_MIN: u64 = 2;

/// See the head of this file.
#[derive(Default)]
pub struct FlowControl {
    /// Total bytes of proposed entries.
    pub added: u64,
    /// Followers whose send queue was full, each with the index behind which to continue: on the
    /// follower's next acknowledgement, or after a while, because it may have acknowledged
    /// everything before these entries are recorded as unsent.
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
    pub(super) fn note_sent(&mut self, to: NodeId, bytes: usize, decided: LogIndex, now: u64) {
        let (bytes, added) = (bytes as u64, self.added);
        self.throttles
            .insert(to, CatchUpThrottle { since_ms: now, bytes, decided, added, after: None });
    }

    /// Notes that the queue had no space for entries behind this index.
    pub(super) fn note_full(&mut self, to: NodeId, after: LogIndex, now: u64) {
        self.unsent.push((to, after));
        self.retry_at.insert(to, now + RETRY_MS);
    }

    /// Removes and returns the followers whose retry is due.
    pub(super) fn take_due_retries(&mut self, now: u64) -> Vec<NodeId> {
        let due = |at: &u64| *at <= now;
        let nodes = self.retry_at.iter().filter(|(_, at)| due(at)).map(|(node, _)| *node).collect();
        self.retry_at.retain(|_, at| !due(at));
        nodes
    }

    /// Returns true if entries behind this index must wait, and stores the index.
    pub(super) fn defer_if_paused(&mut self, to: NodeId, after: LogIndex) -> bool {
        let Some(throttle) = self.throttles.get_mut(&to) else { return false };
        // The lowest index is kept: later entries are sent again from there, in order.
        throttle.after = Some(throttle.after.map_or(after, |earlier| earlier.min(after)));
        true
    }

    /// Returns true if earlier entries wait for the end of a pause, and stores the index: entries
    /// behind them would be refused.
    pub(super) fn defer_if_backlogged(&mut self, to: NodeId, after: LogIndex) -> bool {
        self.throttles.get(&to).is_some_and(|throttle| throttle.after.is_some())
            && self.defer_if_paused(to, after)
    }

    /// Ends the pauses that are over, at this rate in bytes a second (0: all pauses). Returns the
    /// followers that continue, each with the index behind which it does.
    pub(super) fn end_pauses(
        &mut self,
        rate: u64,
        decided: LogIndex,
        now: u64,
    ) -> Vec<(NodeId, LogIndex)> {
        let (mut continuing, added) = (Vec::new(), self.added);
        self.throttles.retain(|node, throttle| {
            let waits = !throttle.is_over(rate, decided, added, now);
            continuing.extend(throttle.after.filter(|_| !waits).map(|after| (*node, after)));
            waits
        });
        continuing
    }

    /// Returns the time until a waiting follower may continue. `None`: none waits.
    pub(super) fn sleep(&self) -> Option<Duration> {
        if !self.unsent.is_empty() {
            // Nothing can be sent yet, but the replica must process the unsent entries before an
            // acknowledgement arrives.
            return Some(Duration::ZERO);
        }
        let waits = self.throttles.values().any(|throttle| throttle.after.is_some());
        let retry_ms = (!self.retry_at.is_empty()).then_some(RETRY_MS);
        waits.then_some(1).or(retry_ms).map(Duration::from_millis)
    }
}

impl CatchUpThrottle {
    fn is_over(&self, rate: u64, decided: LogIndex, added: u64, now: u64) -> bool {
        let elapsed = now.saturating_sub(self.since_ms);
        let least_ms = self.bytes.saturating_mul(1_000).checked_div(rate).unwrap_or(0);
        elapsed >= least_ms.min(PAUSE_MS_MAX)
            || elapsed >= IDLE_MS_MIN && decided == self.decided
            || (added - self.added).saturating_mul(SEND_RATIO_MIN) >= self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId(3);
    const RATE: u64 = 16 << 20;

    /// Flow control after a chunk of 128 KiB, sent when index 7 was decided.
    fn with_sent_chunk() -> FlowControl {
        let mut flow = FlowControl { added: 1_000, ..FlowControl::default() };
        flow.note_sent(NODE, CHUNK_BYTES, LogIndex(7), 100);
        assert!(flow.defer_if_paused(NODE, LogIndex(5)));
        flow
    }

    #[test]
    fn catch_up_chunk_is_followed_by_a_pause_while_writes_are_decided() {
        let mut flow = with_sent_chunk();
        assert!(flow.sleep().is_some());
        assert_eq!(flow.end_pauses(RATE, LogIndex(8), 106), []);
        assert_eq!(flow.end_pauses(RATE, LogIndex(8), 107), [(NODE, LogIndex(5))]);
        assert!(!flow.defer_if_paused(NODE, LogIndex(6)) && flow.sleep().is_none());
        assert_eq!(
            with_sent_chunk().end_pauses(0, LogIndex(8), 100),
            [(NODE, LogIndex(5))],
            "no rate, no throttle"
        );
    }

    #[test]
    fn full_send_queue_is_retried_without_acknowledgement() {
        let mut flow = FlowControl::default();
        flow.note_full(NODE, LogIndex(5), 100);
        assert_eq!(std::mem::take(&mut flow.unsent), [(NODE, LogIndex(5))]);
        assert!(flow.sleep().is_some() && flow.take_due_retries(119).is_empty());
        assert_eq!(flow.take_due_retries(120), [NODE]);
        assert!(flow.sleep().is_none() && flow.take_due_retries(120).is_empty());
    }

    #[test]
    fn catch_up_pause_is_minimal_while_nothing_is_decided() {
        let mut flow = with_sent_chunk();
        assert_eq!(flow.end_pauses(RATE, LogIndex(7), 101), []);
        assert_eq!(flow.end_pauses(RATE, LogIndex(7), 102), [(NODE, LogIndex(5))]);
    }

    #[test]
    fn catch_up_pause_ends_once_writers_add_half_a_chunk() {
        let mut flow = with_sent_chunk();
        flow.added += CHUNK_BYTES as u64 / 2 - 1;
        assert_eq!(flow.end_pauses(RATE, LogIndex(8), 100), []);
        flow.added += 1;
        assert_eq!(flow.end_pauses(RATE, LogIndex(8), 100), [(NODE, LogIndex(5))]);
    }

    #[test]
    fn held_entries_resume_at_lowest_index_and_pause_is_capped() {
        let mut flow = with_sent_chunk();
        assert!(
            flow.defer_if_backlogged(NODE, LogIndex(9))
                && flow.defer_if_backlogged(NODE, LogIndex(3))
        );
        assert!(!flow.defer_if_backlogged(NodeId(4), LogIndex(9)));
        assert_eq!(flow.end_pauses(RATE, LogIndex(8), 200), [(NODE, LogIndex(3))]);
        flow.note_sent(NODE, 64 << 20, LogIndex(8), 200);
        assert!(!flow.defer_if_backlogged(NODE, LogIndex(9)), "nothing waits yet");
        assert!(flow.defer_if_paused(NODE, LogIndex(9)));
        assert_eq!(flow.end_pauses(RATE, LogIndex(9), 299), []);
        assert_eq!(flow.end_pauses(RATE, LogIndex(9), 300), [(NODE, LogIndex(9))]);
    }
}

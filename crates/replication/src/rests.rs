//! Flow control for replication: messages deferred for lack of send-queue space, and the rate limit
//! for followers that catch up from the log.
//!
//! What they missed is read back from the log part by part, and applying it takes them as much work
//! as it once took all. Where the others are served meanwhile, there is a rest behind each part, or
//! their clients would feel it: so many bytes a second, but always faster than more is added. Where
//! nothing is decided, nobody feels it, or everybody waits for this very member: it goes on.
//!
//! Never: holds back what is in memory, or what was asked for: by a master before it leads, or part
//! by part by a member that is behind the end of its configuration.

use super::flight::Flights;
use base::{LogIndex, NodeId};
use std::collections::BTreeMap;
use std::time::Duration;

/// A part ends behind so many bytes.
pub(super) const PART_BYTES: usize = 128 * 1024;
/// Before it is said that nothing was decided behind a part.
const LEAST_MS: u64 = 2;
/// Before it is tried again where there was no room, if no answer comes before.
const RETRY_MS: u64 = 20;
/// A value may be large: no rest is longer.
const REST_MS_MAX: u64 = 100;
/// What is brought is at least so many times what is added meanwhile.
const AHEAD: u64 = 2;

/// See the head of this file.
#[derive(Default)]
pub struct Rests {
    /// Bytes of values that were proposed, ever.
    pub added: u64,
    /// Values that found no room: to whom, and behind which index. They go on when that member
    /// answers, or after a while: it may have answered all there was before it is known that
    /// these were not sent.
    pub unsent: Vec<(NodeId, LogIndex)>,
    /// What is on its way.
    pub flights: Flights,
    /// Whom that was about, and when it is tried again.
    again: BTreeMap<NodeId, u64>,
    all: BTreeMap<NodeId, Rest>,
}

/// How it was when a part was sent.
struct Rest {
    since_ms: u64,
    bytes: u64,
    decided: LogIndex,
    added: u64,
    /// Behind which index it goes on, if there is more.
    after: Option<LogIndex>,
}

impl Rests {
    /// A part was sent.
    pub(super) fn sent(&mut self, to: NodeId, bytes: usize, decided: LogIndex, now: u64) {
        let (bytes, added) = (bytes as u64, self.added);
        self.all.insert(to, Rest { since_ms: now, bytes, decided, added, after: None });
    }

    /// What lies behind this index found no room.
    pub(super) fn full(&mut self, to: NodeId, after: LogIndex, now: u64) {
        self.unsent.push((to, after));
        self.again.insert(to, now + RETRY_MS);
    }

    /// To whom it is tried again now.
    pub(super) fn retried(&mut self, now: u64) -> Vec<NodeId> {
        let due = |at: &u64| *at <= now;
        let nodes = self.again.iter().filter(|(_, at)| due(at)).map(|(node, _)| *node).collect();
        self.again.retain(|_, at| !due(at));
        nodes
    }

    /// Returns true if what lies behind this index must wait; then it is remembered.
    pub(super) fn holds(&mut self, to: NodeId, after: LogIndex) -> bool {
        let Some(rest) = self.all.get_mut(&to) else { return false };
        rest.after = Some(rest.after.map_or(after, |known| known.min(after)));
        true
    }

    /// Returns true if something waits for the end of a rest: what follows it would only be
    /// refused.
    pub(super) fn holds_back(&mut self, to: NodeId, after: LogIndex) -> bool {
        self.all.get(&to).is_some_and(|rest| rest.after.is_some()) && self.holds(to, after)
    }

    /// Ends the rests that are over, at this rate in bytes a second (0: all); gives who goes on
    /// behind which index.
    pub(super) fn ended(
        &mut self,
        rate: u64,
        decided: LogIndex,
        now: u64,
    ) -> Vec<(NodeId, LogIndex)> {
        let (mut goes_on, added) = (Vec::new(), self.added);
        self.all.retain(|node, rest| {
            let rests = !rest.is_over(rate, decided, added, now);
            goes_on.extend(rest.after.filter(|_| !rests).map(|after| (*node, after)));
            rests
        });
        goes_on
    }

    /// When to look again, if something waits.
    pub(super) fn sleep(&self) -> Option<Duration> {
        if !self.unsent.is_empty() {
            return Some(Duration::ZERO);
        }
        let waits = self.all.values().any(|rest| rest.after.is_some());
        let again = (!self.again.is_empty()).then_some(RETRY_MS);
        waits.then_some(1).or(again).map(Duration::from_millis)
    }
}

impl Rest {
    fn is_over(&self, rate: u64, decided: LogIndex, added: u64, now: u64) -> bool {
        let elapsed = now.saturating_sub(self.since_ms);
        let least_ms = self.bytes.saturating_mul(1_000).checked_div(rate).unwrap_or(0);
        elapsed >= least_ms.min(REST_MS_MAX)
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
    fn sent() -> Rests {
        let mut rests = Rests { added: 1_000, ..Rests::default() };
        rests.sent(NODE, PART_BYTES, LogIndex(7), 100);
        assert!(rests.holds(NODE, LogIndex(5)));
        rests
    }

    #[test]
    fn while_others_are_served_a_part_is_followed_by_a_rest() {
        let mut rests = sent();
        assert!(rests.sleep().is_some());
        assert_eq!(rests.ended(RATE, LogIndex(8), 106), []);
        assert_eq!(rests.ended(RATE, LogIndex(8), 107), [(NODE, LogIndex(5))]);
        assert!(!rests.holds(NODE, LogIndex(6)) && rests.sleep().is_none());
        assert_eq!(sent().ended(0, LogIndex(8), 100), [(NODE, LogIndex(5))], "no rate, no rest");
    }

    #[test]
    fn what_found_no_room_is_tried_again_though_nobody_answers() {
        let mut rests = Rests::default();
        rests.full(NODE, LogIndex(5), 100);
        assert_eq!(std::mem::take(&mut rests.unsent), [(NODE, LogIndex(5))]);
        assert!(rests.sleep().is_some() && rests.retried(119).is_empty());
        assert_eq!(rests.retried(120), [NODE]);
        assert!(rests.sleep().is_none() && rests.retried(120).is_empty());
    }

    #[test]
    fn where_nothing_is_decided_it_goes_on() {
        let mut rests = sent();
        assert_eq!(rests.ended(RATE, LogIndex(7), 101), []);
        assert_eq!(rests.ended(RATE, LogIndex(7), 102), [(NODE, LogIndex(5))]);
    }

    #[test]
    fn who_is_far_behind_gains_on_those_who_write() {
        let mut rests = sent();
        rests.added += PART_BYTES as u64 / 2 - 1;
        assert_eq!(rests.ended(RATE, LogIndex(8), 100), []);
        rests.added += 1;
        assert_eq!(rests.ended(RATE, LogIndex(8), 100), [(NODE, LogIndex(5))]);
    }

    #[test]
    fn what_follows_what_waits_waits_too_and_a_large_value_does_not_stop_it_for_long() {
        let mut rests = sent();
        assert!(rests.holds_back(NODE, LogIndex(9)) && rests.holds_back(NODE, LogIndex(3)));
        assert!(!rests.holds_back(NodeId(4), LogIndex(9)));
        assert_eq!(rests.ended(RATE, LogIndex(8), 200), [(NODE, LogIndex(3))]);
        rests.sent(NODE, 64 << 20, LogIndex(8), 200);
        assert!(!rests.holds_back(NODE, LogIndex(9)), "nothing waits yet");
        assert!(rests.holds(NODE, LogIndex(9)));
        assert_eq!(rests.ended(RATE, LogIndex(9), 299), []);
        assert_eq!(rests.ended(RATE, LogIndex(9), 300), [(NODE, LogIndex(9))]);
    }
}

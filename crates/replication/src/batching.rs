//! Batching: decides when the open entry is closed and proposed.
//!
//! An entry costs every member a write, a sync and a few messages, whatever it holds. So an entry
//! that is proposed while others are under way should hold many updates. So should the first after
//! all are decided: the clients that were just answered send their next updates one by one, and an
//! entry with the first of these alone would make all others wait for the next entry. The size of
//! the last entry is an estimate of their number. If a round trip takes long, filling an entry must
//! not add much to it.
//!
//! Promises: no update waits longer than `OVERLAP_MS` for others; a sole client never waits.

/// Divisor: an open entry waits for this part of the updates of all undecided entries together or,
/// if none is undecided, of the last entry.
const GATHER_PART: u32 = 2;
/// Maximum wait in milliseconds while other entries are undecided: little compared to a long round
/// trip, and much compared to a short one.
const OVERLAP_MS: u64 = 4;
/// Maximum wait in milliseconds while none is undecided: clients nearby send their next updates
/// sooner.
const GATHER_MS: u64 = 1;
/// Pause between checks of a waiting entry, in milliseconds.
const PAUSE_MS: u64 = 1;

/// State of the batching rule across entries.
#[derive(Debug, Default)]
pub struct BatchingPolicy {
    /// Number of updates in the last entry.
    last_updates: u32,
    /// Number of updates at which the open entry is closed.
    close_at: u32,
    /// Time since which the open entry waits, in milliseconds. `None`: it does not wait.
    waiting_since: Option<u64>,
}

impl BatchingPolicy {
    /// Returns true if the open entry must be closed now. `open`: number of its updates;
    /// `undecided`: number of updates in undecided entries.
    pub(super) fn is_due(&mut self, open: u32, undecided: u32, now: u64) -> bool {
        let reference = if undecided == 0 { self.last_updates } else { undecided };
        let wait_ms_max = if undecided == 0 { GATHER_MS } else { OVERLAP_MS };
        self.close_at = reference.div_ceil(GATHER_PART);
        let due = open > 0 && (open >= self.close_at || self.has_waited(now, wait_ms_max));
        if due {
            self.last_updates = open;
        }
        if due || open == 0 {
            self.waiting_since = None;
        }
        due
    }

    /// Returns true if the newest update completes the open entry, which now holds `open` updates.
    #[inline]
    pub(super) fn is_complete(&self, open: u32) -> bool {
        self.waiting_since.is_some() && open == self.close_at
    }

    fn has_waited(&mut self, now: u64, wait_ms_max: u64) -> bool {
        now >= *self.waiting_since.get_or_insert(now) + wait_ms_max
    }

    /// Returns the milliseconds until the next check, if no update arrives before. `None`: no entry
    /// waits.
    pub(super) fn pause(&self) -> Option<u64> {
        self.waiting_since.map(|_| PAUSE_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sole_client_never_waits_for_batching() {
        let mut policy = BatchingPolicy::default();
        assert!((0..9).all(|now| policy.is_due(1, 0, now)));
        assert_eq!(policy.pause(), None);
        assert!(!policy.is_due(0, 0, 9), "there is nothing to propose");
    }

    #[test]
    fn open_entry_waits_for_half_the_updates_of_the_last_one() {
        let mut policy = BatchingPolicy::default();
        assert!(policy.is_due(64, 0, 5));
        assert!(!policy.is_due(1, 0, 5));
        assert_eq!(policy.pause(), Some(PAUSE_MS));
        assert!(!policy.is_complete(31) && !policy.is_due(31, 0, 5));
        assert!(policy.is_complete(32));
        assert!(policy.is_due(32, 0, 5));
        assert_eq!(policy.pause(), None);
        assert!(!policy.is_complete(32), "it waits no more");
    }

    #[test]
    fn open_entry_waits_for_half_of_the_undecided_updates() {
        let mut policy = BatchingPolicy::default();
        assert!(policy.is_due(40, 0, 1));
        assert!(!policy.is_due(19, 40, 1));
        assert!(policy.is_complete(20) && policy.is_due(20, 40, 1));
        assert!(!policy.is_due(29, 60, 1));
    }

    #[test]
    fn incomplete_open_entry_closes_after_the_maximum_wait() {
        let mut policy = BatchingPolicy::default();
        for (undecided, wait_ms_max) in [(0, GATHER_MS), (1_000, OVERLAP_MS)] {
            assert!(policy.is_due(1_000, 0, 5));
            assert!(!policy.is_due(3, undecided, 7));
            assert!(!policy.is_due(4, undecided, 6 + wait_ms_max));
            assert!(policy.is_due(4, undecided, 7 + wait_ms_max));
            assert!(policy.is_due(2, 0, 9), "the size that counts is that of the last one");
        }
        assert!(policy.is_due(1_000, 0, 9) && !policy.is_due(1, 0, 9));
        assert!(!policy.is_due(0, 0, 9));
        assert_eq!(policy.pause(), None, "it was closed for another reason");
    }
}

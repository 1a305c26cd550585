//! Batching: decides when the open entry is closed and proposed.
//!
//! An entry costs every member a write, a sync and a few messages, whatever it holds. So an entry
//! that is proposed while others are under way should hold many updates. So should the first after
//! all are decided: the clients that were just answered come back one by one, and an entry with the
//! first of them alone would make all others wait for the next. The size of the last entry tells
//! how many there are. If a round trip takes long, filling an entry must not add much to it.
//!
//! Promises: no update waits longer than `OVERLAP_MS` for others; a sole client never waits.

/// An entry waits until it is this part as full as all undecided ones together or, if there is
/// none, as the last one was, ...
const GATHER_PART: u32 = 2;
/// ... but only until this many milliseconds have passed, if others are undecided: little compared
/// to a long round trip, and much compared to a short one; ...
const OVERLAP_MS: u64 = 4;
/// ... and by this much where none is: clients that are near come back sooner.
const GATHER_MS: u64 = 1;
/// Pause between checks of a waiting entry, in milliseconds.
const PAUSE_MS: u64 = 1;

/// State of the batching rule, kept from entry to entry.
#[derive(Debug, Default)]
pub struct BatchingPolicy {
    /// Number of updates in the last entry.
    last: u32,
    /// Number of updates at which the open entry is closed.
    enough: u32,
    /// Time since which the open entry waits, in milliseconds. `None`: it does not wait.
    since: Option<u64>,
}

impl BatchingPolicy {
    /// Returns true if the open entry, which holds this many updates, is to be closed now;
    /// `undecided`: how many the entries on their way hold.
    pub(super) fn is_due(&mut self, open: u32, undecided: u32, now: u64) -> bool {
        let others = if undecided == 0 { self.last } else { undecided };
        let patience = if undecided == 0 { GATHER_MS } else { OVERLAP_MS };
        self.enough = others.div_ceil(GATHER_PART);
        let due = open > 0 && (open >= self.enough || self.has_waited(now, patience));
        if due {
            self.last = open;
        }
        if due || open == 0 {
            self.since = None;
        }
        due
    }

    /// Returns true if the update that came just now, which makes `open`, completes the open entry.
    #[inline]
    pub(super) fn is_complete(&self, open: u32) -> bool {
        self.since.is_some() && open == self.enough
    }

    fn has_waited(&mut self, now: u64, patience: u64) -> bool {
        now >= *self.since.get_or_insert(now) + patience
    }

    /// Milliseconds after which to check again, if nothing happens before. `None`: no entry waits.
    pub(super) fn pause(&self) -> Option<u64> {
        self.since.map(|_| PAUSE_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_alone_never_waits() {
        let mut pace = BatchingPolicy::default();
        assert!((0..9).all(|now| pace.is_due(1, 0, now)));
        assert_eq!(pace.pause(), None);
        assert!(!pace.is_due(0, 0, 9), "there is nothing to propose");
    }

    #[test]
    fn the_first_that_come_back_wait_for_half_of_the_others() {
        let mut pace = BatchingPolicy::default();
        assert!(pace.is_due(64, 0, 5));
        assert!(!pace.is_due(1, 0, 5));
        assert_eq!(pace.pause(), Some(PAUSE_MS));
        assert!(!pace.is_complete(31) && !pace.is_due(31, 0, 5));
        assert!(pace.is_complete(32));
        assert!(pace.is_due(32, 0, 5));
        assert_eq!(pace.pause(), None);
        assert!(!pace.is_complete(32), "it waits no more");
    }

    #[test]
    fn a_value_overtakes_no_sync_that_it_could_share() {
        let mut pace = BatchingPolicy::default();
        assert!(pace.is_due(40, 0, 1));
        assert!(!pace.is_due(19, 40, 1));
        assert!(pace.is_complete(20) && pace.is_due(20, 40, 1));
        assert!(!pace.is_due(29, 60, 1));
    }

    #[test]
    fn nobody_waits_long_for_those_who_do_not_come() {
        let mut pace = BatchingPolicy::default();
        for (undecided, patience) in [(0, GATHER_MS), (1_000, OVERLAP_MS)] {
            assert!(pace.is_due(1_000, 0, 5));
            assert!(!pace.is_due(3, undecided, 7));
            assert!(!pace.is_due(4, undecided, 6 + patience));
            assert!(pace.is_due(4, undecided, 7 + patience));
            assert!(pace.is_due(2, 0, 9), "the size that counts is that of the last one");
        }
        assert!(pace.is_due(1_000, 0, 9) && !pace.is_due(1, 0, 9));
        assert!(!pace.is_due(0, 0, 9));
        assert_eq!(pace.pause(), None, "it was closed for another reason");
    }
}

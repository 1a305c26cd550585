//! Dropped buckets, until their space is back: whether anything of one may still be applied here.
//!
//! Promises: space is given back only once every value is applied that may hold an update of the
//! bucket; a member that lags waits until it has come so far.
//! Never: waits, or gives space back itself.

use base::{GroupId, LogIndex};
use replication::maintenance::ApplyProgress;

/// A node that is not master of the group gives a dropped bucket's space back after this.
const RECLAIM_MS: u64 = 5_000;

/// State of a dropped bucket. It is kept until its space is freed, even if the directory has
/// forgotten the bucket before.
pub(crate) struct Reclaimed {
    pub group: GroupId,
    /// Time at which the drop was seen, in milliseconds.
    pub seen: u64,
    /// Leadership epoch and index of the last entry that may hold an update of it, at this master.
    last: Option<(u64, LogIndex)>,
    /// Decided index of another master, once no more updates of it can come.
    heard: Option<LogIndex>,
    /// True once its space is freed.
    pub done: bool,
}

impl Reclaimed {
    pub(crate) fn seen_at(now: u64, group: GroupId) -> Reclaimed {
        Reclaimed { group, seen: now, last: None, heard: None, done: false }
    }

    /// Returns true if every entry that may hold an update of the bucket is applied here.
    pub(crate) fn is_over(&mut self, progress: &ApplyProgress, now: u64) -> bool {
        if let Some((term, taken)) = progress.leads {
            // Updates that found the bucket before it was retired are in an entry by now, or were
            // refused.
            let noted = self.last.filter(|(of, _)| *of == term);
            let (_, last) = *self.last.insert(noted.unwrap_or((term, taken)));
            return progress.applied >= last;
        }
        // Another node's last updates of it may still be on their way into an entry.
        if now.saturating_sub(self.seen) < RECLAIM_MS {
            return false;
        }
        // This node may lag behind the decided entries by any time: it catches up first.
        let Some(decided) = progress.decided else { return false };
        progress.applied >= *self.heard.get_or_insert(decided)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(seen: &mut Reclaimed, applied: u64, decided: Option<u64>, now: u64) -> bool {
        let decided = decided.map(LogIndex);
        seen.is_over(&ApplyProgress { applied: LogIndex(applied), leads: None, decided }, now)
    }

    #[test]
    fn a_follower_gives_space_back_once_it_has_what_was_decided_by_then() {
        let mut seen = Reclaimed::seen_at(1_000, GroupId(1));
        assert!(!over(&mut seen, 900, Some(900), 999 + RECLAIM_MS), "the pause comes first");
        let now = 1_000 + RECLAIM_MS;
        assert!(!over(&mut seen, 700, None, now), "it hears no master: nobody knows what comes");
        assert!(!over(&mut seen, 700, Some(900), now), "it lags");
        assert!(!over(&mut seen, 899, Some(5_000), now + 60_000));
        assert!(over(&mut seen, 900, Some(9_000), now + 60_000), "what is newer does not matter");
    }

    #[test]
    fn a_master_gives_it_back_once_what_it_had_taken_is_applied() {
        let mut seen = Reclaimed::seen_at(1_000, GroupId(1));
        let mut over = |term, applied, taken| {
            let leads = Some((term, LogIndex(taken)));
            seen.is_over(&ApplyProgress { applied: LogIndex(applied), leads, decided: None }, 1_000)
        };
        assert!(!over(1, 5, 7));
        assert!(!over(1, 6, 90), "what is taken later is of other buckets");
        assert!(!over(2, 7, 8), "another term: what was taken before may be gone");
        assert!(over(2, 8, 90));
    }
}

//! Dropped buckets, until their space is back: whether anything of one may still be applied here.
//!
//! Promises: space is given back only once every value is applied that may hold an update of the
//! bucket; a member that lags waits until it has come so far. The directory remembers the drop
//! until every member had time to see it: one that was down would keep the rows for good.
//! Never: waits, or gives space back itself.

use base::{GroupId, LogIndex};
use replication::maintenance::ApplyProgress;

/// Time after which a node that is not master of the group may free a dropped bucket's space, in
/// milliseconds.
const RECLAIM_MS: u64 = 5_000;
/// Time for which the directory remembers a drop that every member knows, in milliseconds.
const FORGET_MS: u64 = 30_000;

/// State of a dropped bucket. Kept until its space is freed here, even if the directory has removed
/// the bucket's row.
pub struct DroppedBucket {
    /// Group that had the bucket's rows.
    pub group: GroupId,
    /// Time at which the drop was seen, in milliseconds.
    pub seen_ms: u64,
    /// Index of the directory's log at or behind the drop.
    seen_index: LogIndex,
    /// Time since which every member is known to have the drop in its log, in milliseconds.
    known_ms: Option<u64>,
    /// Leadership epoch and index of the last entry that may hold an update of the bucket, at this
    /// master.
    last: Option<(u64, LogIndex)>,
    /// Decided index of another master, taken once no more updates of the bucket can follow.
    last_decided: Option<LogIndex>,
    /// True once its space is freed.
    pub is_freed: bool,
}

impl DroppedBucket {
    /// `seen_index`: index of the directory's log at or behind the drop.
    pub fn new(now: u64, group: GroupId, seen_index: LogIndex) -> DroppedBucket {
        DroppedBucket {
            group,
            seen_ms: now,
            seen_index,
            known_ms: None,
            last: None,
            last_decided: None,
            is_freed: false,
        }
    }

    /// Returns true if the directory may forget the drop. `saved`: index up to which each member
    /// has the directory's log. Without `awaits_members` only time counts.
    pub fn may_be_forgotten(
        &mut self,
        saved: impl IntoIterator<Item = Option<LogIndex>>,
        awaits_members: bool,
        now: u64,
    ) -> bool {
        if saved.into_iter().all(|saved| saved >= Some(self.seen_index)) {
            self.known_ms.get_or_insert(now);
        }
        let since = if awaits_members { self.known_ms } else { Some(self.seen_ms) };
        since.is_some_and(|since| now.saturating_sub(since) >= FORGET_MS)
    }

    /// Returns true if every entry that may hold an update of the bucket is applied here.
    pub fn is_applied(&mut self, progress: &ApplyProgress, now: u64) -> bool {
        if let Some((epoch, accepted)) = progress.last_accepted {
            // Updates that found the bucket before it was retired are in an entry by now, or were
            // refused.
            let recorded = self.last.filter(|(recorded_epoch, _)| *recorded_epoch == epoch);
            let (_, last) = *self.last.insert(recorded.unwrap_or((epoch, accepted)));
            return progress.applied >= last;
        }
        // The other master's last updates of the bucket may not be in an entry yet.
        if now.saturating_sub(self.seen_ms) < RECLAIM_MS {
            return false;
        }
        // This node may lag behind the decided entries by any time and has to catch up first.
        let Some(decided) = progress.decided else { return false };
        progress.applied >= *self.last_decided.get_or_insert(decided)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_applied(
        bucket: &mut DroppedBucket,
        applied: u64,
        decided: Option<u64>,
        now: u64,
    ) -> bool {
        let decided = decided.map(LogIndex);
        bucket.is_applied(
            &ApplyProgress { applied: LogIndex(applied), last_accepted: None, decided },
            now,
        )
    }

    #[test]
    fn follower_reclaims_dropped_bucket_after_applying_decided_index() {
        let mut bucket = DroppedBucket::new(1_000, GroupId(1), LogIndex(7));
        assert!(
            !is_applied(&mut bucket, 900, Some(900), 999 + RECLAIM_MS),
            "the pause comes first"
        );
        let now = 1_000 + RECLAIM_MS;
        assert!(
            !is_applied(&mut bucket, 700, None, now),
            "it hears no master: nobody knows what comes"
        );
        assert!(!is_applied(&mut bucket, 700, Some(900), now), "it lags");
        assert!(!is_applied(&mut bucket, 899, Some(5_000), now + 60_000));
        assert!(
            is_applied(&mut bucket, 900, Some(9_000), now + 60_000),
            "what is newer does not matter"
        );
    }

    #[test]
    fn master_reclaims_dropped_bucket_after_applying_its_proposals() {
        let mut bucket = DroppedBucket::new(1_000, GroupId(1), LogIndex(7));
        let mut is_applied = |epoch, applied, accepted| {
            let last_accepted = Some((epoch, LogIndex(accepted)));
            bucket.is_applied(
                &ApplyProgress { applied: LogIndex(applied), last_accepted, decided: None },
                1_000,
            )
        };
        assert!(!is_applied(1, 5, 7));
        assert!(!is_applied(1, 6, 90), "what is taken later is of other buckets");
        assert!(!is_applied(2, 7, 8), "another term: what was taken before may be gone");
        assert!(is_applied(2, 8, 90));
    }

    /// A member that is down when a bucket is dropped finds the drop when it comes back.
    #[test]
    fn drop_is_remembered_until_every_member_had_time_to_see_it() {
        let mut bucket = DroppedBucket::new(1_000, GroupId(1), LogIndex(7));
        let mut may_be_forgotten = |saved: &[u64], now| {
            bucket.may_be_forgotten(saved.iter().map(|at| Some(LogIndex(*at))), true, now)
        };
        assert!(!may_be_forgotten(&[9, 6], 1_000 + FORGET_MS));
        assert!(!may_be_forgotten(&[90, 6], 1_000 + 100 * FORGET_MS), "it is down");
        let now = 1_000 + 200 * FORGET_MS;
        assert!(!may_be_forgotten(&[99, 7], now), "it is back");
        assert!(!may_be_forgotten(&[99, 80], now + FORGET_MS - 1));
        assert!(may_be_forgotten(&[99, 80], now + FORGET_MS));
        let mut bucket = DroppedBucket::new(1_000, GroupId(1), LogIndex(7));
        assert!(!bucket.may_be_forgotten([None], true, 1_000 + FORGET_MS));
        assert!(!bucket.may_be_forgotten([None], false, 999 + FORGET_MS));
        assert!(bucket.may_be_forgotten([None], false, 1_000 + FORGET_MS), "there are too many");
    }
}

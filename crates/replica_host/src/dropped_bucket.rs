//! Dropped buckets, until their space is back: whether anything of one may still be applied here.
//!
//! Promises: space is given back only once every value is applied that may hold an update of the
//! bucket; a member that lags waits until it has come so far. The directory remembers the drop
//! until every member had time to see it: one that was down would keep the rows for good.
//! Never: waits, or gives space back itself.

use base::{Ballot, GroupId, LogIndex};
use replication::maintenance::ApplyProgress;

/// Time that a group's master has to close the last entry with an update of a dropped bucket, in
/// milliseconds. Other nodes rely only on reports of the master after it.
const RECLAIM_MS: u64 = 5_000;
/// Upper bound of the age of such a report, in lengths of a lease: voters wait for a silent master
/// for one length, and clocks drift by less than another.
const REPORT_AGE_LEASES: u64 = 2;
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
    /// Time after the drop from which reports of another master count, in milliseconds.
    reclaim_ms: u64,
    /// Time since which every member is known to have the drop in its log, in milliseconds.
    known_ms: Option<u64>,
    /// Leadership epoch and index of the last entry that may hold an update of the bucket, at this
    /// master.
    last: Option<(u64, LogIndex)>,
    /// Ballot of another master and the end of its log, taken once no more updates of the bucket
    /// can follow.
    followed: Option<(Ballot, LogIndex)>,
    /// True once its space is freed.
    pub is_freed: bool,
}

impl DroppedBucket {
    /// `seen_index`: index of the directory's log at or behind the drop. `lease_ms`: setting of the
    /// node.
    pub fn new(now: u64, group: GroupId, seen_index: LogIndex, lease_ms: u64) -> DroppedBucket {
        let reclaim_ms = RECLAIM_MS.saturating_add(lease_ms.saturating_mul(REPORT_AGE_LEASES));
        DroppedBucket {
            group,
            seen_ms: now,
            seen_index,
            known_ms: None,
            last: None,
            followed: None,
            reclaim_ms,
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
        // The other master's last updates of the bucket may not be in an entry yet, or not in the
        // log that it reported.
        if now.saturating_sub(self.seen_ms) < self.reclaim_ms {
            return false;
        }
        // This node may lag behind that log by any time and has to catch up first. The log of
        // another ballot may lack entries that this end counts.
        let Some((ballot, end)) = progress.followed_end else { return false };
        let recorded = self.followed.filter(|(recorded_ballot, _)| *recorded_ballot == ballot);
        let (_, end) = *self.followed.insert(recorded.unwrap_or((ballot, end)));
        progress.applied >= end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::NodeId;

    /// Lease of the settings, in milliseconds.
    const LEASE_MS: u64 = 600;

    fn dropped(lease_ms: u64) -> DroppedBucket {
        DroppedBucket::new(1_000, GroupId(1), LogIndex(7), lease_ms)
    }

    /// Asks whether a node frees the bucket that follows the master of a round, or nobody.
    fn is_applied(
        bucket: &mut DroppedBucket,
        applied: u64,
        followed: Option<(u64, u64)>,
        now: u64,
    ) -> bool {
        let followed_end =
            followed.map(|(round, end)| (Ballot { round, node: NodeId(9) }, LogIndex(end)));
        let progress =
            ApplyProgress { applied: LogIndex(applied), last_accepted: None, followed_end };
        bucket.is_applied(&progress, now)
    }

    #[test]
    fn follower_reclaims_dropped_bucket_after_applying_the_log_it_follows() {
        let mut bucket = dropped(LEASE_MS);
        let now = 1_000 + RECLAIM_MS + REPORT_AGE_LEASES * LEASE_MS;
        assert!(!is_applied(&mut bucket, 900, Some((1, 900)), now - 1), "the pause comes first");
        assert!(
            !is_applied(&mut bucket, 700, None, now),
            "it hears no master: nobody knows what comes"
        );
        assert!(!is_applied(&mut bucket, 700, Some((1, 900)), now), "it lags");
        assert!(!is_applied(&mut bucket, 899, Some((1, 5_000)), now + 60_000));
        assert!(
            is_applied(&mut bucket, 900, Some((1, 9_000)), now + 60_000),
            "what is newer does not matter"
        );
    }

    /// A follower keeps a silent master for the length of a lease, and knows no more of its log
    /// meanwhile: the last report must be younger than the pause, whatever the lease is.
    #[test]
    fn follower_relies_on_no_report_from_before_the_pause() {
        for lease_ms in [100, LEASE_MS, RECLAIM_MS, 60_000] {
            // Reported when the master had not closed its last entry with an update of the bucket.
            let reported_ms = 1_000 + RECLAIM_MS - 1;
            let patience_ends_ms = reported_ms + lease_ms + lease_ms / 100;
            assert!(
                !is_applied(&mut dropped(lease_ms), 900, Some((1, 900)), patience_ends_ms),
                "{lease_ms} ms"
            );
        }
    }

    #[test]
    fn another_masters_log_is_followed_to_its_own_end() {
        let mut bucket = dropped(LEASE_MS);
        assert!(!is_applied(&mut bucket, 800, Some((1, 950)), 60_000));
        assert!(!is_applied(&mut bucket, 890, Some((2, 900)), 60_000));
        assert!(is_applied(&mut bucket, 900, Some((2, 990)), 60_000), "950 may be gone");
    }

    #[test]
    fn master_reclaims_dropped_bucket_after_applying_its_proposals() {
        let mut bucket = dropped(LEASE_MS);
        let mut is_applied = |epoch, applied, accepted| {
            let last_accepted = Some((epoch, LogIndex(accepted)));
            bucket.is_applied(
                &ApplyProgress { applied: LogIndex(applied), last_accepted, followed_end: None },
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
        let mut bucket = dropped(LEASE_MS);
        let mut may_be_forgotten = |saved: &[u64], now| {
            bucket.may_be_forgotten(saved.iter().map(|at| Some(LogIndex(*at))), true, now)
        };
        assert!(!may_be_forgotten(&[9, 6], 1_000 + FORGET_MS));
        assert!(!may_be_forgotten(&[90, 6], 1_000 + 100 * FORGET_MS), "it is down");
        let now = 1_000 + 200 * FORGET_MS;
        assert!(!may_be_forgotten(&[99, 7], now), "it is back");
        assert!(!may_be_forgotten(&[99, 80], now + FORGET_MS - 1));
        assert!(may_be_forgotten(&[99, 80], now + FORGET_MS));
        let mut bucket = dropped(LEASE_MS);
        assert!(!bucket.may_be_forgotten([None], true, 1_000 + FORGET_MS));
        assert!(!bucket.may_be_forgotten([None], false, 999 + FORGET_MS));
        assert!(bucket.may_be_forgotten([None], false, 1_000 + FORGET_MS), "there are too many");
    }
}

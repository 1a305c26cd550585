//! Sweep of expired rows, as a group's master drives it: its next due time, its position, and its
//! look-ahead.
//!
//! Promises: a row is collected at most [`PAUSE_MS`] later than it could be, or as soon as the
//! sweeps before it leave time; one sweep checks a bounded number of hints.
//! Never: runs where nothing is due; walks far ahead under the group's lock.

use super::evaluate::{SweepResult, expire_due};
use super::overlay::Overlay;
use base::{Result, UserDigest};
use bytes::Bytes;
use std::time::Duration;

/// Maximum number of hints that one sweep checks.
const EXPIRED_PER_VALUE: usize = 1_000;
/// Minimum time between two sweeps, in milliseconds: an expired row may stay in the store this much
/// longer.
const PAUSE_MS: u64 = 10;
/// Minimum distance ahead of group time in which a sweep looks for the next hint, in milliseconds.
/// Deleted hints in it are skipped one by one under the group's lock, so it is short.
const LOOK_AHEAD_MS_MIN: u64 = 1_000;
/// Maximum of that distance, in milliseconds, after several sweeps without a hint.
const LOOK_AHEAD_MS_MAX: u64 = 64_000;

/// See the head of this file.
#[derive(Default)]
pub struct ExpirySweep {
    /// Earliest known expiry, in group time.
    next: u64,
    /// Key at which the sweep continues. Empty: the stored position.
    position: Bytes,
    /// Distance in which the next sweep looks for the next hint. 0: the minimum.
    look_ahead_ms: u64,
}

impl ExpirySweep {
    /// Restarts from the stored position: another node may have swept since.
    pub(super) fn restart(&mut self) {
        self.next = 0;
        self.position.clear();
    }

    /// Returns true if something may have expired.
    pub(super) fn is_due(&self, now: u64) -> bool {
        self.next <= now
    }

    /// Notes that a row expires at this group time.
    pub(super) fn note_expiry(&mut self, at: u64) {
        self.next = self.next.min(at);
    }

    /// Returns the time for which nothing is due. `None`: no row is known to expire.
    pub(super) fn sleep(&self, now: u64) -> Option<Duration> {
        let at = Some(self.next).filter(|at| *at != u64::MAX)?;
        Some(Duration::from_millis(at.saturating_sub(now)))
    }

    /// Removes the rows and sessions that have expired by `now`, by effects in the open entry.
    /// Returns the number of hints that it checked, and the users of the sessions that it removed.
    pub(super) fn run(
        &mut self,
        overlay: &mut Overlay,
        now: u64,
    ) -> Result<(usize, Vec<Option<UserDigest>>)> {
        let position = std::mem::take(&mut self.position);
        let ahead = self.look_ahead_ms.max(LOOK_AHEAD_MS_MIN);
        let SweepResult { checked, sessions, position, next } =
            expire_due(overlay, position, EXPIRED_PER_VALUE, ahead)?;
        self.position = position;
        self.next = match next {
            Some(expires) => expires.max(now + PAUSE_MS),
            None => now.saturating_add(ahead),
        };
        // A group in which nothing expires is swept less and less often.
        let is_idle = checked == 0 && next.is_none();
        self.look_ahead_ms = if is_idle { (ahead * 2).min(LOOK_AHEAD_MS_MAX) } else { 0 };
        Ok((checked, sessions))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use crate::counts::BucketCounts;
    use crate::group_indexes::GroupIndexes;
    use crate::overlay::StoreSource;
    use crate::recent_removals::RecentRemovals;
    use base::limits::SESSION_TTL_MS;
    use base::{BucketDigest, GroupId, LogIndex, SessionId};
    use replica_state::layout::StoredSession;
    use replica_state::pending_entry::{EntryBuffers, PendingEntry};
    use std::collections::VecDeque;
    use store::MemoryTrees;

    /// The master counts open sessions: one that expires makes room for another.
    #[test]
    fn sweep_reports_the_sessions_that_it_removes() {
        let (trees, mut pending) = (MemoryTrees::new(1 << 20), VecDeque::new());
        let mut open = PendingEntry::new(LogIndex(1), 5, 1, 0, EntryBuffers::default());
        let mut overlay = Overlay {
            group: GroupId(1),
            store: StoreSource::Live(&trees),
            pending: &mut pending,
            open: &mut open,
            budget: Budget::unbounded(),
            saw_expired: false,
            counts: &mut BucketCounts::default(),
            indexes: &mut GroupIndexes::default(),
            removals: &mut RecentRemovals::default(),
            scratch: &mut Vec::new(),
        };
        for (session, used) in [(1, 5), (2, 5), (3, 7)] {
            let (bucket, user) = (Some(BucketDigest(1)), Some(UserDigest(session)));
            let stored = StoredSession { used, highest: 0, bucket, user };
            overlay.put_session(SessionId(session), stored);
            // The third was used after its hint was added.
            overlay.put_session_expiry(SessionId(session), 5 + SESSION_TTL_MS);
        }
        let mut sweep = ExpirySweep::default();
        let users =
            |of: &[u64]| -> Vec<_> { of.iter().map(|user| Some(UserDigest(*user))).collect() };
        assert_eq!(sweep.run(&mut overlay, 5), Ok((0, Vec::new())));
        overlay.open.time = 5 + SESSION_TTL_MS;
        assert_eq!(sweep.run(&mut overlay, 5 + SESSION_TTL_MS), Ok((3, users(&[1, 2]))));
        overlay.open.time = 7 + SESSION_TTL_MS;
        assert_eq!(sweep.run(&mut overlay, 7 + SESSION_TTL_MS), Ok((1, users(&[3]))));
    }

    #[test]
    fn expiry_sweep_is_due_at_the_soonest_known_expiry() {
        let mut sweep = ExpirySweep { next: u64::MAX, ..ExpirySweep::default() };
        assert!(!sweep.is_due(5) && sweep.sleep(5).is_none());
        sweep.note_expiry(9);
        sweep.note_expiry(12);
        assert_eq!(sweep.sleep(5), Some(Duration::from_millis(4)));
        assert!(!sweep.is_due(8) && sweep.is_due(9));
        sweep.restart();
        assert!(sweep.is_due(0), "it is not known what another master left");
    }
}

//! Extent of the feeds of a node, for its metrics.
//!
//! A round of retention reads all entries of a feed, and counts what it leaves; what is added
//! since is added to that. Nothing is stored: behind a start the first round counts.

use change_feed::FeedTotals;

/// See the head of this file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VnodeFeedExtent {
    /// Entries, and the bytes of their tree keys and rows.
    pub totals: FeedTotals,
    /// Time of the oldest entry that is kept for its age, in Unix milliseconds, as of the last
    /// round. `None`: there was none.
    pub oldest_ms: Option<u64>,
}

impl VnodeFeedExtent {
    /// Adds the extent of another feed, or of another part of this one.
    pub fn add(&mut self, other: VnodeFeedExtent) {
        self.totals.entries = self.totals.entries.wrapping_add(other.totals.entries);
        self.totals.bytes = self.totals.bytes.wrapping_add(other.totals.bytes);
        self.oldest_ms = [self.oldest_ms, other.oldest_ms].into_iter().flatten().min();
    }

    /// Returns the extent with what was added to a feed since it had these totals. `now`: those
    /// that it has.
    pub(super) fn with_added(mut self, since: FeedTotals, now: FeedTotals) -> VnodeFeedExtent {
        let entries = now.entries.wrapping_sub(since.entries);
        let totals = FeedTotals { entries, bytes: now.bytes.wrapping_sub(since.bytes) };
        self.add(VnodeFeedExtent { totals, oldest_ms: None });
        self
    }
}

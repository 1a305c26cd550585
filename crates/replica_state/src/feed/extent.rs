//! Extent of a feed, for metrics.

use super::rows::{feed_key, feed_prefix, load_retention, read_totals, totals_key};
use base::error::corrupt;
use base::range::prefix_end;
use base::{BucketId, GroupId, Result};
use bytes::Bytes;
use change_feed::FeedEntry;
use runtime::log_writer::store_error;
use std::ops::Bound;
use store::Snapshot;

/// See the head of this file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeedExtent {
    /// Number of entries.
    pub entries: u64,
    /// Bytes of their tree keys and rows.
    pub bytes: u64,
    /// Group time of the oldest entry that is kept for its age, milliseconds. `None`: there is
    /// none.
    pub oldest_time: Option<u64>,
}

/// Returns the extent of a bucket's feed. Errors: those of rows that can't be read or decoded.
pub fn feed_extent(
    snapshot: &dyn Snapshot,
    (group, bucket): (GroupId, BucketId),
) -> Result<FeedExtent> {
    let retention = load_retention(snapshot, group, bucket)?;
    let totals = snapshot.get(&totals_key(group, bucket)).map_err(store_error)?;
    let totals = read_totals(totals.as_ref())?;
    let high =
        Bytes::from(prefix_end(&feed_prefix(group, bucket)).expect("a space is not all 0xFF"));
    let low = Bound::Excluded(feed_key(group, bucket, retention.examined()));
    let next = snapshot.range(low, Bound::Excluded(high), false).next();
    let oldest = next.transpose().map_err(store_error)?;
    let oldest = oldest.map(|(_, row)| FeedEntry::decode(&row)).transpose().map_err(corrupt)?;
    Ok(FeedExtent {
        entries: totals.entries.wrapping_sub(retention.removed.entries),
        bytes: totals.bytes.wrapping_sub(retention.removed.bytes),
        oldest_time: oldest.map(|entry| entry.time),
    })
}

//! Check whether entries of a feed are to be removed, without the group's lock.

use super::rows::{feed_key, feed_prefix, load_retention, read_feed_key, read_totals, totals_key};
use base::error::corrupt;
use base::range::prefix_end;
use base::{BucketId, GroupId, Properties, Result};
use bytes::Bytes;
use change_feed::{FeedEntry, RetentionBounds};
use runtime::log_writer::store_error;
use std::ops::Bound;
use store::Snapshot;

/// Returns true if an entry of a feed is to be examined at this group time, by the properties of
/// its bucket. Errors: those of rows that can't be read or decoded.
pub fn is_trim_due(
    snapshot: &dyn Snapshot,
    (group, bucket): (GroupId, BucketId),
    properties: &Properties,
    now: u64,
) -> Result<bool> {
    let mut retention = load_retention(snapshot, group, bucket)?;
    if retention.begin_round_if_due() {
        return Ok(true);
    }
    let totals = snapshot.get(&totals_key(group, bucket)).map_err(store_error)?;
    let bounds = RetentionBounds {
        now,
        keep_ms: properties.feed_keep_ms,
        keep_bytes: properties.feed_keep_bytes,
        totals: read_totals(totals.as_ref())?,
    };
    let high =
        Bytes::from(prefix_end(&feed_prefix(group, bucket)).expect("a space is not all 0xFF"));
    let low = Bound::Excluded(feed_key(group, bucket, retention.cursor));
    let Some(next) = snapshot.range(low, Bound::Excluded(high), false).next() else {
        return Ok(false);
    };
    let (key, row) = next.map_err(store_error)?;
    let entry = FeedEntry::decode(&row).map_err(corrupt)?;
    Ok(retention.is_due(read_feed_key(&key)?, entry.time, &bounds))
}

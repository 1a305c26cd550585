//! Entries of a feed that are old enough to be examined, as of a snapshot: read without the group's
//! lock.

use super::rows::{
    feed_key, feed_prefix, load_record, load_retention, read_feed_key, read_totals, totals_key,
};
use base::error::corrupt;
use base::range::prefix_end;
use base::{BucketId, GroupId, Properties, Result};
use bytes::Bytes;
use change_feed::{FeedEntry, FeedMaking, FeedPhase, KeptEntry, Retention, RetentionBounds};
use runtime::log_writer::store_error;
use std::ops::Bound;
use store::Snapshot;

/// Maximum number of entries of a page.
const PAGE_ENTRIES: usize = 1_000;
/// Bytes of entries at which a page ends. The last entry may exceed it.
const PAGE_BYTES: usize = 1 << 20;

/// Page of entries that are due.
#[derive(Clone, Debug)]
pub struct DuePage {
    /// Making of the feed: the page is of no use for another one.
    pub making: FeedMaking,
    /// Retention of the feed in the snapshot: the page is out of date if it has changed since.
    pub retention: Retention,
    /// Bounds by which the entries are due.
    pub bounds: RetentionBounds,
    /// The entries behind the cursor.
    pub entries: Vec<DueEntry>,
    /// Bytes of the entries.
    pub bytes: usize,
    /// True if more may be due.
    pub is_full: bool,
}

/// Entry that is due.
#[derive(Clone, Debug)]
pub struct DueEntry {
    /// Tree key of the entry.
    pub tree_key: Bytes,
    /// The entry.
    pub entry: FeedEntry,
    /// Entry as retention examines it. It is not known yet whether the entry lives.
    pub kept: KeptEntry,
}

/// Returns the next entries of a feed that are to be examined at this group time, by the properties
/// of its bucket. `None`: none is, and no round is to begin; or the feed is not ready, so that
/// entries before those that are due may be missing. Errors: those of rows that can't be read or
/// decoded.
pub fn due_page(
    snapshot: &dyn Snapshot,
    (group, bucket): (GroupId, BucketId),
    properties: &Properties,
    now: u64,
) -> Result<Option<DuePage>> {
    let record = load_record(snapshot, group, bucket)?;
    let Some(record) = record.filter(|record| record.phase == FeedPhase::Ready) else {
        return Ok(None);
    };
    let retention = load_retention(snapshot, group, bucket)?;
    let totals = snapshot.get(&totals_key(group, bucket)).map_err(store_error)?;
    let bounds = RetentionBounds {
        now,
        keep_ms: properties.feed_keep_ms,
        keep_bytes: properties.feed_keep_bytes,
        totals: read_totals(totals.as_ref())?,
    };
    let mut next = retention;
    let begins = next.begin_round_if_due();
    let high = Bytes::from(prefix_end(&feed_prefix(group, bucket)).expect("not all 0xFF"));
    let low = Bound::Excluded(feed_key(group, bucket, next.cursor));
    let (making, entries) = (record.making, Vec::new());
    let mut page = DuePage { making, retention, bounds, entries, bytes: 0, is_full: false };
    for row in snapshot.range(low, Bound::Excluded(high), false) {
        let (tree_key, row) = row.map_err(store_error)?;
        if page.entries.len() == PAGE_ENTRIES || page.bytes >= PAGE_BYTES {
            page.is_full = true;
            break;
        }
        let position = read_feed_key(&tree_key)?;
        let entry = FeedEntry::decode(&row).map_err(corrupt)?;
        if !next.is_due(position, entry.time, &bounds) {
            break;
        }
        let (time, is_delete) = (entry.time, entry.change.is_delete());
        let bytes = tree_key.len() + row.len();
        let kept = KeptEntry { position, time, bytes, is_delete, is_living: false };
        page.bytes += bytes;
        page.entries.push(DueEntry { tree_key, entry, kept });
    }
    Ok((begins || !page.entries.is_empty()).then_some(page))
}

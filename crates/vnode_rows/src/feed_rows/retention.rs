//! Entries that retention removes: those that tell of nothing any more.
//!
//! An entry is *dead* if its row has changed since, or is gone: that of a delete once its tombstone
//! was reaped. The living stay, so that a feed that is read from its beginning has each key once.
//! Of two entries that tell of one row, as a build may add a second, the earlier one is dead.
//!
//! Promises: a page is of one snapshot; entries are removed from the oldest on, each once it is old
//! or the bytes of dead ones exceed their bound.

use super::entry::VnodeFeedEntry;
use super::keys::{entries_behind, position_in};
use crate::layout::row_key_in;
use base::error::corrupt;
use base::{BucketName, Key, Result};
use bytes::Bytes;
use change_feed::VnodePosition;
use runtime::log_writer::store_error;
use std::collections::BTreeMap;
use store::Snapshot;

/// Maximum number of entries in a page, and of bytes that it reads.
const PAGE_ENTRIES_MAX: usize = 1_024;
const PAGE_BYTES_MAX: usize = 1 << 20;

/// Bounds on the dead entries of a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadEntryBounds {
    /// Time in Unix milliseconds through which an entry is old if it was written before.
    pub old_ms: u64,
    /// Bytes of dead entries to remove though they are not old.
    pub excess_bytes: u64,
}

/// Dead entries of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetentionPage {
    /// Tree keys of the entries to be removed.
    pub removable: Vec<Bytes>,
    /// Position of the last of them that is the last trace of its key.
    pub floor: VnodePosition,
    /// Bytes of dead entries that stay.
    pub kept_bytes: u64,
    /// Bytes of those that are removed though they are not old.
    pub excess_bytes: u64,
    /// Position through which the page has read. `None`: it has read all.
    pub end: Option<VnodePosition>,
    /// Number of bytes that were read.
    pub bytes: usize,
}

/// Reads the next entries of a bucket behind a position, and returns those that are dead.
pub fn read_retention_page(
    snapshot: &dyn Snapshot,
    bucket: &BucketName,
    behind: VnodePosition,
    bounds: DeadEntryBounds,
) -> Result<RetentionPage> {
    let mut page = RetentionPage::default();
    // Places of the living, by key: a later one makes an earlier one dead.
    let mut living: BTreeMap<Key, (Bytes, u64)> = BTreeMap::new();
    let (low, high) = entries_behind(bucket, behind);
    for (read, found) in (1..).zip(snapshot.range(low, high, false)) {
        let (tree_key, value) = found.map_err(store_error)?;
        let position = position_in(&tree_key).map_err(corrupt)?;
        let entry = VnodeFeedEntry::read(&value).map_err(corrupt)?;
        let row = snapshot.get(&row_key_in(entry.slot, bucket, &entry.key)).map_err(store_error)?;
        page.bytes += tree_key.len() + value.len() + row.as_ref().map_or(0, Bytes::len);
        let size = (tree_key.len() + value.len()) as u64;
        let is_current = row.as_ref().is_some_and(|row| entry.tells_of(row));
        if is_current {
            if let Some((earlier, _)) = living.insert(entry.key, (tree_key, size)) {
                page.removable.push(earlier);
            }
        } else if entry.written_ms <= bounds.old_ms
            || page.excess_bytes + size <= bounds.excess_bytes
        {
            if entry.written_ms > bounds.old_ms {
                page.excess_bytes += size;
            }
            if row.is_none() {
                page.floor = position;
            }
            page.removable.push(tree_key);
        } else {
            page.kept_bytes += size;
        }
        if read == PAGE_ENTRIES_MAX || page.bytes >= PAGE_BYTES_MAX {
            page.end = Some(position);
            break;
        }
    }
    Ok(page)
}

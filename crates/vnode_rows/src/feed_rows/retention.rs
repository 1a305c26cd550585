//! Entries that retention removes: those that tell of nothing any more.
//!
//! An entry is *dead* if its row has changed since, or is gone: that of a delete once its tombstone
//! was reaped. The living stay, so that a feed that is read from its beginning has each key once.
//! Of two entries that tell of one row, as a build may add a second, the earlier one is dead.
//!
//! Promises: a page is of one snapshot; entries are removed from the oldest on, each once it is old
//! or the bytes of dead ones exceed their bound.

use super::entry::VnodeFeedEntry;
use super::extent::VnodeFeedExtent;
use super::keys::{entries_behind, position_in};
use crate::layout::row_key_in;
use base::error::corrupt;
use base::{BucketName, Key, Result};
use bytes::Bytes;
use change_feed::{FeedTotals, VnodePosition};
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
    /// All entries that stay.
    pub kept: FeedTotals,
    /// Earliest time of a dead entry that stays, in Unix milliseconds. `None`: there is none.
    pub oldest_ms: Option<u64>,
    /// Position through which the page has read. `None`: it has read all.
    pub end: Option<VnodePosition>,
    /// Number of bytes that were read.
    pub bytes: usize,
}

/// Round of retention of one feed: all of its entries, page by page, from the oldest on. So entries
/// that lived in an earlier round are examined again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetentionRound {
    /// Position behind which the next page begins.
    pub behind: VnodePosition,
    /// Bytes of dead entries that this round has left.
    kept_bytes: u64,
    /// Bytes that it still has to remove though they are not old.
    excess_bytes: u64,
    /// What it has left of the feed.
    extent: VnodeFeedExtent,
}

impl RetentionRound {
    /// Returns the bounds of the next page.
    pub fn bounds(&self, old_ms: u64) -> DeadEntryBounds {
        DeadEntryBounds { old_ms, excess_bytes: self.excess_bytes }
    }

    /// Takes a page, whose dead entries are removed.
    pub fn take(&mut self, page: &RetentionPage) {
        self.kept_bytes += page.kept_bytes;
        self.excess_bytes -= page.excess_bytes.min(self.excess_bytes);
        self.extent.add(VnodeFeedExtent { totals: page.kept, oldest_ms: page.oldest_ms });
        self.behind = page.end.unwrap_or(self.behind);
    }

    /// Ends the round. Returns the next one, and what is left of the feed. `keep_bytes`: bound on
    /// the bytes of dead entries; 0: none.
    pub fn end(self, keep_bytes: u64) -> (RetentionRound, VnodeFeedExtent) {
        let excess_bytes = match keep_bytes {
            0 => 0,
            keep_bytes => self.kept_bytes.saturating_sub(keep_bytes),
        };
        (RetentionRound { excess_bytes, ..RetentionRound::default() }, self.extent)
    }
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
            match living.insert(entry.key, (tree_key, size)) {
                Some((earlier, _)) => page.removable.push(earlier),
                None => page.kept.add(size as usize),
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
            page.kept.add(size as usize);
            let oldest_ms = page.oldest_ms.unwrap_or(u64::MAX);
            page.oldest_ms = Some(oldest_ms.min(entry.written_ms));
        }
        if read == PAGE_ENTRIES_MAX || page.bytes >= PAGE_BYTES_MAX {
            page.end = Some(position);
            break;
        }
    }
    Ok(page)
}

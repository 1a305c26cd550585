//! Reads of a page of a feed from the rows of this node.
//!
//! A page is one range read, from the position that lies furthest back. It leaves out entries of
//! slots that were not asked for, those before the position of their slot, and those whose row has
//! changed since: a later entry tells of that. So it ends after [`WALKED_MAX`] entries, whether it
//! has any or not.
//!
//! An owner has no row of a key once its tombstone was reaped. Then it leaves puts of the key out,
//! too: the entry of the delete may be removed already, and a reader would be told a put alone. A
//! former owner may have handed the row off, and no later entry here tells of that.
//!
//! Promises: entries, rows and the state of the feed are those of one snapshot.
//! Never: answers for a feed whose build is not complete here.

use super::entry::VnodeFeedEntry;
use super::in_force::read_feed_record;
use super::joined::{joined_behind, read_joined};
use super::keys::{entries_behind, position_in};
use super::page::{FeedAnswer, FeedSection, SectionEntry, VnodeFeedPage, VnodeFeedQuery};
use super::record::VnodeFeedPhase;
use crate::batch::Mark;
use crate::layout::row_key_in;
use crate::slots::SLOTS;
use base::error::corrupt;
use base::feed::FeedEventKind;
use base::limits::{FEED_PAGE_BYTES_MAX, PAGE_ROWS_MAX, ROW_OVERHEAD_BYTES};
use base::{BucketName, Result};
use bytes::Bytes;
use change_feed::VnodePosition;
use runtime::log_writer::store_error;
use store::Snapshot;

/// Maximum number of entries that a page reads.
const WALKED_MAX: usize = 16_384;

/// Answers a query of a bucket's feed as of a snapshot. `life`: the life of the store.
pub fn read_feed_answer(
    snapshot: &dyn Snapshot,
    life: u32,
    bucket: &BucketName,
    query: &VnodeFeedQuery,
) -> Result<FeedAnswer> {
    match read_feed_record(snapshot, bucket)? {
        Some(record) if record.phase == VnodeFeedPhase::Building => {
            Ok(FeedAnswer::Building(record.slots_done(), SLOTS))
        }
        Some(record) if record.phase == VnodeFeedPhase::Ready => {
            // Batches that are not in the snapshot have higher numbers.
            let level = VnodePosition::end_of(life, Mark::of_snapshot(snapshot)?.applied);
            let mut page = read_page(snapshot, bucket, query, level)?;
            page.floor = record.floor;
            let joined = read_joined(snapshot)?;
            let behind = |it: &FeedSection| joined_behind(&joined, it.position, &it.slots);
            page.joined = query.sections.iter().flat_map(behind).collect();
            Ok(FeedAnswer::Page(page))
        }
        _ => Ok(FeedAnswer::Absent),
    }
}

fn read_page(
    snapshot: &dyn Snapshot,
    bucket: &BucketName,
    query: &VnodeFeedQuery,
    level: VnodePosition,
) -> Result<VnodeFeedPage> {
    let mut page = VnodeFeedPage { end: level, level, is_level: true, ..Default::default() };
    let entries_max = query.entries_max.min(PAGE_ROWS_MAX);
    if entries_max == 0 {
        return Ok(page);
    }
    let mut behind = vec![None; SLOTS as usize];
    let mut low = level;
    for section in &query.sections {
        low = low.min(section.position);
        section.slots.iter().for_each(|slot| behind[slot as usize] = Some(section.position));
    }
    let is_asked = |entry: &VnodeFeedEntry, position| {
        behind.get(entry.slot.0 as usize).copied().flatten().is_some_and(|after| after < position)
    };
    let mut bytes = 0;
    let (low, high) = entries_behind(bucket, low);
    for (walked, found) in (1..).zip(snapshot.range(low, high, false)) {
        let (tree_key, value) = found.map_err(store_error)?;
        let position = position_in(&tree_key).map_err(corrupt)?;
        let entry = VnodeFeedEntry::read(&value).map_err(corrupt)?;
        if is_asked(&entry, position) {
            let row = snapshot.get(&row_key_in(entry.slot, bucket, &entry.key));
            let row = row.map_err(store_error)?;
            let is_told = match &row {
                Some(row) => entry.tells_of(row),
                None => query.of_former_owner || entry.kind == FeedEventKind::Delete,
            };
            if is_told {
                let row = row.filter(|_| query.with_rows);
                let VnodeFeedEntry { slot, kind, key, .. } = entry;
                bytes += key.len() + row.as_ref().map_or(0, Bytes::len) + ROW_OVERHEAD_BYTES;
                page.entries.push(SectionEntry { position, slot, kind, key, row });
            }
        }
        let is_full = page.entries.len() == entries_max || bytes >= FEED_PAGE_BYTES_MAX;
        if is_full || walked == WALKED_MAX {
            (page.end, page.is_level) = (position, false);
            break;
        }
    }
    Ok(page)
}

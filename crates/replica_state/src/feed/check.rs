//! Check of a feed: a pure function that says where the entries of a bucket differ from what its
//! rows say. It is the judge of tests.

use super::rows::{load_record, load_retention, read_feed_key, read_totals, totals_key};
use crate::layout::{self, ROW_PREFIX_BYTES, Space, StoredRow};
use base::error::corrupt;
use base::{BucketId, GroupId, Key, Result, Version};
use bytes::Bytes;
use change_feed::{FeedChange, FeedEntry, FeedPhase, FeedPosition, FeedRecord, FeedTotals};
use runtime::log_writer::store_error;
use std::collections::BTreeMap;
use store::{Chunk, Snapshot, TreeRow};

/// Difference between a bucket's rows and the entries of its feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedMismatch {
    /// A row has no entry with its version.
    Missing(Key),
    /// A row has several entries with its version.
    Repeated(Key),
    /// The last entry of a key is not what its row says.
    LastDiffers(Key, FeedPosition),
    /// An entry stands where there must be none: before the oldest one, or in a later era.
    Misplaced(FeedPosition),
    /// The numbers of entries, or of their bytes, are not those that were counted: found, counted.
    Miscounted(FeedTotals, FeedTotals),
}

/// Entries of a key.
#[derive(Default)]
struct KeyEntries {
    /// Number of puts with the version of the row.
    current: usize,
    last: Option<(FeedPosition, FeedEntry)>,
}

/// Returns the differences between a bucket's rows, expired or not, and its feed: none, if the last
/// entry of each key says what the row does, and each row has one entry with its version. Behind a
/// removed delete an older put may be the last one. A feed that is being built lacks those of rows
/// that its builder has not met. A feed that is received or removed is left out.
///
/// Errors: those of rows that can't be read or decoded.
pub fn check_feed(
    snapshot: &dyn Snapshot,
    group: GroupId,
    bucket: BucketId,
) -> Result<Vec<FeedMismatch>> {
    let Some(record) = load_record(snapshot, group, bucket)? else { return Ok(Vec::new()) };
    if !record.phase.is_in_force() {
        return Ok(Vec::new());
    }
    let mut rows: BTreeMap<Key, StoredRow> = BTreeMap::new();
    for (key, row) in all_rows(snapshot, (group, bucket), Space::Row)? {
        rows.insert(key.slice(ROW_PREFIX_BYTES..), StoredRow::read(&row).map_err(corrupt)?);
    }
    let retention = load_retention(snapshot, group, bucket)?;
    let (mut mismatches, mut found) = (Vec::new(), FeedTotals::default());
    let mut keys: BTreeMap<Key, KeyEntries> = BTreeMap::new();
    for (key, row) in all_rows(snapshot, (group, bucket), Space::Feed)? {
        found.add(key.len() + row.len());
        let position = read_feed_key(&key)?;
        if position <= retention.oldest || position.era > record.era {
            mismatches.push(FeedMismatch::Misplaced(position));
        }
        let entry = FeedEntry::decode(&row).map_err(corrupt)?;
        let of_key = keys.entry(entry.key.clone()).or_default();
        let is_current = rows.get(&entry.key).is_some_and(|row| is_entry_of(row, &entry));
        of_key.current += usize::from(is_current);
        of_key.last = Some((position, entry));
    }
    for (key, row) in &rows {
        let current = keys.get(key).map_or(0, |entries| entries.current);
        match current {
            0 if must_have_entry(&record, key, row.version) => {
                mismatches.push(FeedMismatch::Missing(key.clone()));
            }
            0 | 1 => {}
            _ => mismatches.push(FeedMismatch::Repeated(key.clone())),
        }
    }
    for (key, entries) in keys {
        let Some((position, last)) = entries.last else { continue };
        let is_right = match rows.get(&key) {
            // An entry of a delete while rows arrive says nothing of a later row.
            Some(_) if last.change == FeedChange::DeleteArriving => true,
            Some(row) => is_entry_of(row, &last),
            // A put that lived when it was examined, and whose delete was examined since.
            None => last.change.is_delete() || position <= retention.examined(),
        };
        if !is_right {
            mismatches.push(FeedMismatch::LastDiffers(key, position));
        }
    }
    let totals = snapshot.get(&totals_key(group, bucket)).map_err(store_error)?;
    let totals = read_totals(totals.as_ref())?;
    let counted = FeedTotals {
        entries: totals.entries.wrapping_sub(retention.removed.entries),
        bytes: totals.bytes.wrapping_sub(retention.removed.bytes),
    };
    if found != counted {
        mismatches.push(FeedMismatch::Miscounted(found, counted));
    }
    Ok(mismatches)
}

/// Returns true if the entry is that of the change that made the row what it is.
fn is_entry_of(row: &StoredRow, entry: &FeedEntry) -> bool {
    let has_its_value = match &entry.change {
        FeedChange::Put => true,
        FeedChange::PutValue { expires, value } => *expires == row.expires && *value == row.value,
        FeedChange::Delete | FeedChange::DeleteArriving => false,
    };
    entry.version == row.version && has_its_value
}

/// Returns true if the row must have an entry: changes since the begin have one, and rows that the
/// builder has passed.
fn must_have_entry(record: &FeedRecord, key: &Key, version: Version) -> bool {
    let is_passed = record.cursor.as_ref().is_some_and(|cursor| key <= cursor);
    record.phase == FeedPhase::Ready || version.0 >= record.begun || is_passed
}

fn all_rows(
    snapshot: &dyn Snapshot,
    (group, bucket): (GroupId, BucketId),
    space: Space,
) -> Result<Vec<TreeRow>> {
    let mut prefix = Vec::new();
    layout::bucket_key(group, space, bucket, &[], &mut prefix);
    let all = Chunk::read(snapshot, &prefix, None::<&Bytes>, usize::MAX).map_err(store_error)?;
    Ok(all.rows)
}

//! Steps by which an index is built and removed: pages of rows or entries, each with the cursor of
//! the next page in the same update.
//!
//! A step reads the newest rows, decided or not: what the builder has passed, changes maintain, and
//! what lies behind the cursor it finds as it is then. So a step that is repeated, after a crash or
//! by another master, writes the same.

use super::write::{EntryOwner, is_unique};
use crate::overlay::Overlay;
use crate::seals::BOOKKEEPING_BUCKET;
use base::error::corrupt;
use base::range::{Direction, prefix_end};
use base::{BucketId, Key, Result};
use bytes::Bytes;
use indexes::limits::ENTRIES_PER_VALUE_MAX;
use indexes::{DefinitionSet, IndexNumber, LivingValue, SkipCounts, stored_entries};
use replica_state::index_row::entry_space;
use replica_state::layout::{self, ROW_PREFIX_BYTES, Space, StoredRow};
use replica_state::replicated_index::{DuplicateTerm, IndexPhase, ReplicatedIndex, record_key};
use runtime::mutants::Mutant;
use std::ops::Bound;

/// Maximum number of rows or entries of a page.
const PAGE_KEYS: usize = 256;
/// Bytes of rows that are read, and of entries that are written, at which a page ends. The last row
/// may exceed it.
pub(crate) const PAGE_BYTES: usize = 1 << 20;

/// Outcome of a step of an index or a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexStep {
    /// Bytes that were read and written.
    pub bytes: usize,
    /// True if nothing is left to do: it is ready, has failed, or is gone.
    pub is_last: bool,
}

/// Outcome of adding the entries of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AddedRow {
    /// Whole row: all its entries are there.
    Whole,
    /// The page is full before the last one: the next step begins with this row again.
    Part,
    /// The index can't be built.
    Refused,
}

/// Page of rows under a prefix of tree keys.
pub(crate) struct StepPage {
    /// Rows with the ends of their tree keys, behind the prefix.
    pub rows: Vec<(Bytes, Bytes)>,
    pub bytes: usize,
    /// True if no row follows.
    pub is_last: bool,
}

/// Takes the next step of an index.
pub(super) fn step(
    overlay: &mut Overlay,
    bucket: BucketId,
    number: IndexNumber,
) -> Result<IndexStep> {
    match overlay.index_record(bucket, number)? {
        Some(record) if record.phase == IndexPhase::Building => build(overlay, bucket, record),
        Some(record) if record.phase == IndexPhase::Dropping => remove(overlay, bucket, record),
        Some(_) | None => Ok(IndexStep { bytes: 0, is_last: true }),
    }
}

fn build(
    overlay: &mut Overlay,
    bucket: BucketId,
    mut record: ReplicatedIndex,
) -> Result<IndexStep> {
    let mut definitions = DefinitionSet::default();
    definitions.insert(record.definition.clone())?;
    let mut prefix = Vec::new();
    layout::bucket_key(overlay.group, Space::Row, bucket, &[], &mut prefix);
    let page = match Mutant::BuildFromAppliedRows.is_active() {
        false => read_page(overlay, prefix, record.cursor.as_ref())?,
        true => {
            let pending = std::mem::take(overlay.pending);
            let page = read_page(overlay, prefix, record.cursor.as_ref());
            *overlay.pending = pending;
            page?
        }
    };
    let begun_bytes = overlay.open.payload_bytes();
    let mut is_last = page.is_last;
    for (key, row) in page.rows {
        if overlay.open.payload_bytes() - begun_bytes >= PAGE_BYTES {
            is_last = false;
            break;
        }
        let row = StoredRow::read(&row).map_err(corrupt)?;
        let place = RowPlace { bucket, key: &key, begun_bytes };
        match add_row(overlay, &definitions, place, &row, &mut record)? {
            AddedRow::Whole => {}
            AddedRow::Part => {
                is_last = false;
                break;
            }
            AddedRow::Refused => {
                is_last = true;
                break;
            }
        }
        record.cursor = Some(key);
        record.rows += 1;
    }
    if is_last {
        (record.phase, record.cursor) = match record.is_buildable() {
            true => (IndexPhase::Ready, None),
            false => (IndexPhase::Failed, record.cursor),
        };
    }
    overlay.put_index_record(bucket, &record)?;
    if record.phase == IndexPhase::Failed {
        overlay.indexes.remove(bucket, record.definition.number);
    }
    let written_bytes = overlay.open.payload_bytes() - begun_bytes;
    Ok(IndexStep { bytes: page.bytes + written_bytes, is_last })
}

/// Row whose entries are added, and the length of the open entry at the begin of the step.
#[derive(Clone, Copy)]
struct RowPlace<'a> {
    bucket: BucketId,
    key: &'a Key,
    begun_bytes: usize,
}

/// Adds the entries of a row, and counts them in the record once all are there.
fn add_row(
    overlay: &mut Overlay,
    definitions: &DefinitionSet,
    RowPlace { bucket, key, begun_bytes }: RowPlace<'_>,
    row: &StoredRow,
    record: &mut ReplicatedIndex,
) -> Result<AddedRow> {
    if has_too_many_entries(overlay, bucket, row) {
        record.oversized = Some(key.clone());
        return Ok(AddedRow::Refused);
    }
    let owner = EntryOwner { bucket, key, expires: row.expires };
    // Entries of its tags are there since it was written.
    let value = LivingValue { tags: &[], bytes: &row.value };
    let derivation = stored_entries(definitions, &[value]);
    let is_expired = row.is_expired(overlay.open.time);
    let (mut entries, mut duplicates) = (0, Vec::new());
    for entry in derivation.entries {
        let is_unique = is_unique(definitions, &entry);
        let bytes_before = overlay.open.payload_bytes();
        let holder = if is_unique { overlay.living_holder(owner, &entry)? } else { None };
        let bytes = overlay.open.payload_bytes();
        if bytes > bytes_before && bytes - begun_bytes >= PAGE_BYTES {
            // Each expired holder of a term goes with all its entries. The next step does not meet
            // those of before again.
            return Ok(AddedRow::Part);
        }
        if let Some(holder) = holder {
            if is_expired {
                // As the sweep would do later. No reader sees it, so it is no duplicate.
                overlay.remove_expired(bucket, key, row)?;
                return Ok(AddedRow::Whole);
            }
            duplicates.push(DuplicateTerm { term: entry.term, key: key.clone(), holder });
            continue;
        }
        overlay.put_entry(owner, is_unique, &entry)?;
        entries += 1;
    }
    record.entries += entries;
    for counts in derivation.skipped.into_values() {
        add_skipped(&mut record.skipped, &counts);
    }
    let has_room = duplicates.into_iter().all(|duplicate| record.add_duplicate(duplicate));
    Ok(if has_room { AddedRow::Whole } else { AddedRow::Refused })
}

/// Returns true if a value has more entries in all indexes of its bucket than a value may have. It
/// is older than some of them: a new one is refused when it is written. The bound on the entries of
/// a row bounds the update that removes it.
fn has_too_many_entries(overlay: &Overlay, bucket: BucketId, row: &StoredRow) -> bool {
    let Some(all) = overlay.indexes.of(bucket) else { return false };
    // A node of a value takes a byte at least.
    let tags = row.tags.as_ref().map_or(&[][..], |tags| &tags.0);
    let of_one = |singular: bool| if singular { 1 } else { row.value.len() };
    let declared_max: usize = all.iter().map(|one| of_one(one.path.is_singular())).sum();
    let entries_max = declared_max.saturating_add(tags.len());
    let count = || stored_entries(&all, &[LivingValue { tags, bytes: &row.value }]).entries.len();
    entries_max > ENTRIES_PER_VALUE_MAX && count() > ENTRIES_PER_VALUE_MAX
}

fn add_skipped(total: &mut SkipCounts, counts: &SkipCounts) {
    total.unreadable += counts.unreadable;
    total.absent += counts.absent;
    total.mistyped += counts.mistyped;
    total.oversized += counts.oversized;
}

fn remove(
    overlay: &mut Overlay,
    bucket: BucketId,
    mut record: ReplicatedIndex,
) -> Result<IndexStep> {
    let mut prefix = Vec::new();
    let field = record.definition.field();
    let name = entry_space(record.definition.is_unique).field_span(&field).low;
    layout::bucket_key(overlay.group, Space::Index, bucket, &name, &mut prefix);
    let prefix_bytes = prefix.len();
    let page = read_page(overlay, prefix.clone(), record.cursor.as_ref())?;
    let begun_bytes = overlay.open.payload_bytes();
    for (name, _) in &page.rows {
        prefix.truncate(prefix_bytes);
        prefix.extend_from_slice(name);
        overlay.open.remove(&prefix);
    }
    if page.is_last {
        let key = record_key(bucket, record.definition.number);
        overlay.remove(BOOKKEEPING_BUCKET, &key, None)?;
    } else {
        record.cursor = page.rows.last().map(|(name, _)| name.clone()).or(record.cursor);
        overlay.put_index_record(bucket, &record)?;
    }
    let written_bytes = overlay.open.payload_bytes() - begun_bytes;
    Ok(IndexStep { bytes: page.bytes + written_bytes, is_last: page.is_last })
}

/// Returns true if a bucket has a row, expired or not.
pub(crate) fn has_rows(overlay: &mut Overlay, bucket: BucketId) -> Result<bool> {
    let (mut prefix, mut found) = (Vec::new(), false);
    layout::bucket_key(overlay.group, Space::Row, bucket, &[], &mut prefix);
    let high = Bytes::from(prefix_end(&prefix).expect("a space is not all 0xFF"));
    let (low, high) = (Bound::Included(prefix.into()), Bound::Excluded(high));
    overlay.walk(low, high, Direction::Ascending, |_, _| {
        found = true;
        Ok(false)
    })?;
    Ok(found)
}

/// Reads a page of rows behind a cursor, which is the end of a tree key behind `prefix`.
pub(crate) fn read_page(
    overlay: &mut Overlay,
    prefix: Vec<u8>,
    cursor: Option<&Bytes>,
) -> Result<StepPage> {
    let high = Bytes::from(prefix_end(&prefix).expect("a space is not all 0xFF"));
    let low = match cursor {
        Some(cursor) => Bound::Excluded(Bytes::from([&prefix[..], cursor].concat())),
        None => Bound::Included(Bytes::copy_from_slice(&prefix)),
    };
    debug_assert!(prefix.len() >= ROW_PREFIX_BYTES);
    let mut page = StepPage { rows: Vec::new(), bytes: 0, is_last: true };
    overlay.walk(low, Bound::Excluded(high), Direction::Ascending, |key, row| {
        if page.rows.len() == PAGE_KEYS || page.bytes >= PAGE_BYTES {
            page.is_last = false;
            return Ok(false);
        }
        page.bytes += key.len() + row.len();
        page.rows.push((Bytes::copy_from_slice(&key[prefix.len()..]), row.clone()));
        Ok(true)
    })?;
    Ok(page)
}

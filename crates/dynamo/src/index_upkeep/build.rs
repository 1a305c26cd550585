//! Build of an index: adds the entries of the rows that were here before it came into force.
//!
//! Rows are read from a snapshot, in the order of their tree keys, and their entries are derived
//! without the store's lock. Under the lock each row is compared with the newest one: if it has
//! changed since, the entries of the newest row are added instead. From the index's coming into
//! force on, each change of a row compares the entries before and after; it leaves out those that
//! both have, which the build has not added yet. Entries and cursor are one batch, so a build
//! continues where a crash found it. To add an entry twice changes nothing.

use crate::vnode_store::VnodeStore;
use base::range::prefix_end;
use base::{BucketName, Result};
use bytes::Bytes;
use indexes::DefinitionSet;
use runtime::log_writer::store_error;
use runtime::mutants::Mutant;
use std::ops::Bound;
use store::Snapshot;
use vnode_rows::batch::KeyChanges;
use vnode_rows::index_rows::{
    IndexId, IndexPhase, IndexRecord, RowDeriver, RowEntries, push_difference, read_record,
    row_place,
};
use vnode_rows::layout::{bucket_prefix, row_tail, rows_prefix, slot_of};
use vnode_rows::slots::{SLOTS, Slot};

/// Maximum number of rows in a page, of their bytes, and of slots that are looked into for them;
/// one row may exceed the bytes.
const PAGE_ROWS_MAX: usize = 256;
const PAGE_BYTES_MAX: usize = 1 << 20;
const PAGE_SLOTS_MAX: u32 = 64;

/// Rows of a snapshot, with the entries of the index that is being built.
#[derive(Debug)]
pub(crate) struct BuildPage {
    rows: Vec<(Bytes, Bytes, RowEntries)>,
    /// Tree key through which the rows are read, a row's or its place.
    cursor: Bytes,
    /// Cursor of the page before.
    after: Bytes,
    is_last: bool,
    /// Number of bytes of the rows.
    pub(super) bytes: usize,
}

/// Definitions of the index that is being built, alone.
fn definitions_of(record: &IndexRecord) -> Result<DefinitionSet> {
    let mut definitions = DefinitionSet::default();
    if let Some(definition) = record.definition.clone() {
        definitions.insert(definition)?;
    }
    Ok(definitions)
}

impl VnodeStore {
    /// Reads the next page of a build. Slow: must run on a blocking thread. `None`: the index is
    /// not being built, as far as the store knows: the change of its record may not be applied yet.
    pub(crate) fn read_build_page(&self, id: &IndexId) -> Result<Option<BuildPage>> {
        let snapshot = self.trees.snapshot();
        // Read from the snapshot: one that has the record has every change of a row that came
        // before the index was in force, and no later change would add its entries.
        let Some(record) = read_record(&*snapshot, id)? else { return Ok(None) };
        if record.phase != IndexPhase::Building {
            return Ok(None);
        }
        let definitions = definitions_of(&record)?;
        let deriver = RowDeriver { definitions: &definitions, has_tags: *id == IndexId::Tags };
        let bucket = match id {
            IndexId::Tags => None,
            IndexId::Declared(bucket, _) => Some(bucket),
        };
        read_page(&*snapshot, bucket, record.cursor, deriver).map(Some)
    }

    /// Adds the entries of a page, and records how far the build has come, in one batch. Returns
    /// the ticket. `None`: the index was dropped meanwhile, or another page was added.
    pub(crate) fn write_build_page(&self, id: &IndexId, page: BuildPage) -> Result<Option<u64>> {
        let mut guard = self.admit()?;
        let state = &mut *guard;
        let record = state.indexes.get_or_insert_default().get(id).cloned();
        let is_next =
            |it: &IndexRecord| it.phase == IndexPhase::Building && it.cursor == page.after;
        let Some(mut record) = record.filter(is_next) else { return Ok(None) };
        let definitions = definitions_of(&record)?;
        let deriver = RowDeriver { definitions: &definitions, has_tags: *id == IndexId::Tags };
        let mut changes = KeyChanges::new();
        record.rows += page.rows.len() as u64;
        for (tree_key, row, entries) in page.rows {
            let (_, newest) = self.newest(state, &tree_key)?;
            let is_unchanged = newest.as_ref() == Some(&row);
            let entries = match is_unchanged || Mutant::BuildFromSnapshotAlone.is_active() {
                true => entries,
                false => deriver.entries(newest.as_ref()),
            };
            let Some((slot, bucket, key)) = row_place(&tree_key) else { continue };
            push_difference((&bucket, &key, slot), &RowEntries::new(), &entries, &mut changes);
        }
        record.cursor = page.cursor;
        if page.is_last {
            record.phase = IndexPhase::Ready;
            record.cursor = Bytes::new();
        }
        self.set_record(state, id, record, changes).map(Some)
    }
}

/// Reads the rows of a bucket, or of all buckets, after a tree key.
fn read_page(
    snapshot: &dyn Snapshot,
    bucket: Option<&BucketName>,
    after: Bytes,
    deriver: RowDeriver<'_>,
) -> Result<BuildPage> {
    let first = slot_of(&after).map_or(0, |slot| slot.0);
    let mut page =
        BuildPage { rows: Vec::new(), cursor: after.clone(), after, is_last: false, bytes: 0 };
    for slot in (first..SLOTS).map(Slot) {
        if slot.0 >= first + PAGE_SLOTS_MAX {
            return Ok(page);
        }
        let prefix = bucket.map_or_else(|| rows_prefix(slot), |it| bucket_prefix(slot, it));
        let low = Bytes::from(prefix.clone());
        let low = match page.after > low {
            true => Bound::Excluded(page.after.clone()),
            false => Bound::Included(low),
        };
        for row in snapshot.range(low, Bound::Unbounded, false) {
            let (tree_key, row) = row.map_err(store_error)?;
            if !tree_key.starts_with(&prefix) {
                break;
            }
            page.bytes += row_tail(&tree_key).len() + row.len();
            page.cursor = tree_key.clone();
            let entries = deriver.entries(Some(&row));
            page.rows.push((tree_key, row, entries));
            if page.rows.len() == PAGE_ROWS_MAX || page.bytes >= PAGE_BYTES_MAX {
                return Ok(page);
            }
        }
        page.cursor = end_of_slot(slot, bucket);
    }
    page.is_last = true;
    Ok(page)
}

/// Returns a place behind all rows of a bucket in a slot, or of all buckets.
fn end_of_slot(slot: Slot, bucket: Option<&BucketName>) -> Bytes {
    let end = match bucket {
        Some(bucket) => prefix_end(&bucket_prefix(slot, bucket)),
        // No name is as long as these bytes say.
        None => Some([&rows_prefix(slot)[..], &[0xff; 2]].concat()),
    };
    end.unwrap_or_default().into()
}

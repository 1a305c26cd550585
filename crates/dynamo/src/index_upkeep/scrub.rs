//! Scrub of the indexes of a node: compares entries with rows, both ways, and mends the entries.
//!
//! A page is compared as of one snapshot, without the store's lock. What differs is compared again
//! under the lock, with the newest row and the newest entry, and only then mended: so a change that
//! comes between is no difference. Rows are the truth: none is changed.

use crate::index_mends::IndexMends;
use crate::vnode_store::{VnodeStore, VnodeStoreState};
use base::Result;
use base::range::prefix_end;
use bytes::Bytes;
use runtime::log_writer::store_error;
use std::ops::Bound;
use store::Snapshot;
use vnode_rows::batch::KeyChanges;
use vnode_rows::index_rows::{
    EntryValue, IndexSet, RowDeriver, RowEntries, bucket_name_in, entries_prefix, entry_key,
    read_entry_key, read_indexes, row_place,
};
use vnode_rows::layout::{row_key_in, slot_keys, slot_of};
use vnode_rows::slots::Slot;

/// Maximum number of rows or entries of a page, and of bytes that it reads; one row may exceed the
/// latter.
const PAGE_ROWS_MAX: usize = 1_024;
const PAGE_BYTES_MAX: usize = 1 << 20;

/// Place at which the scrub continues: first through all rows, then through all entries.
#[derive(Clone, Debug)]
pub enum ScrubCursor {
    /// After the row of this tree key. `None`: at the first.
    Rows(Option<Bytes>),
    /// After the entry of this tree key. `None`: at the first.
    Entries(Option<Bytes>),
}

impl Default for ScrubCursor {
    fn default() -> ScrubCursor {
        ScrubCursor::Rows(None)
    }
}

/// Result of one page.
#[derive(Clone, Debug)]
pub struct ScrubPage {
    /// Place of the next page. `None`: the round is over.
    pub next: Option<ScrubCursor>,
    /// Number of bytes that were read.
    pub bytes: usize,
    /// Entries that were mended.
    pub mends: IndexMends,
}

/// Rows or entries of a snapshot that differ from what they should be.
#[derive(Default)]
struct Suspects {
    tree_keys: Vec<Bytes>,
    read: usize,
    bytes: usize,
    last: Option<Bytes>,
}

impl Suspects {
    /// Notes a row or entry that was read. Returns true if the page is full.
    fn note(&mut self, tree_key: Bytes, bytes: usize, differs: bool) -> bool {
        self.read += 1;
        self.bytes += bytes;
        if differs {
            self.tree_keys.push(tree_key.clone());
        }
        let is_full = self.read >= PAGE_ROWS_MAX || self.bytes >= PAGE_BYTES_MAX;
        self.last = Some(tree_key).filter(|_| is_full);
        is_full
    }
}

impl VnodeStore {
    /// Checks a page of rows or of entries, and mends what differs. Slow: must run on a blocking
    /// thread.
    pub fn scrub_page(&self, cursor: ScrubCursor) -> Result<ScrubPage> {
        let snapshot = self.trees.snapshot();
        let indexes = read_indexes(&*snapshot)?;
        let mut mends = IndexMends::default();
        if indexes.is_empty() && matches!(cursor, ScrubCursor::Rows(_)) {
            return Ok(ScrubPage { next: Some(ScrubCursor::Entries(None)), bytes: 0, mends });
        }
        let suspects = match &cursor {
            ScrubCursor::Rows(after) => suspect_rows(&*snapshot, &indexes, after.clone())?,
            ScrubCursor::Entries(after) => suspect_entries(&*snapshot, &indexes, after.clone())?,
        };
        for tree_key in &suspects.tree_keys {
            mends.add(match cursor {
                ScrubCursor::Rows(_) => self.mend_row(tree_key)?,
                ScrubCursor::Entries(_) => self.mend_entry(tree_key)?,
            });
        }
        let next = match (cursor, suspects.last) {
            (ScrubCursor::Rows(_), Some(last)) => Some(ScrubCursor::Rows(Some(last))),
            (ScrubCursor::Rows(_), None) => Some(ScrubCursor::Entries(None)),
            (ScrubCursor::Entries(_), Some(last)) => Some(ScrubCursor::Entries(Some(last))),
            (ScrubCursor::Entries(_), None) => None,
        };
        Ok(ScrubPage { next, bytes: suspects.bytes, mends })
    }

    /// Returns the numbers of entries that were mended since the start.
    pub fn index_mends(&self) -> IndexMends {
        self.state().index_mends
    }

    /// Adds the entries that a row lacks.
    fn mend_row(&self, tree_key: &Bytes) -> Result<IndexMends> {
        let mut guard = self.admit()?;
        let state = &mut *guard;
        let (_, row) = self.newest(state, tree_key)?;
        let expected = expected_at(state.indexes.get_or_insert_default(), tree_key, row.as_ref());
        let Some((slot, bucket, key)) = row_place(tree_key) else {
            return Ok(IndexMends::default());
        };
        let mut changes = KeyChanges::new();
        for (entry, expires_ms) in expected {
            let value = EntryValue { slot, expires_ms }.write();
            let entry_key = entry_key(&bucket, &entry, &key);
            if self.newest(state, &entry_key)?.1.as_ref() != Some(&value) {
                changes.push((entry_key, Some(value)));
            }
        }
        Ok(self.log_mends(state, changes))
    }

    /// Removes an entry that no row asks for, or gives it the value that its row asks for.
    fn mend_entry(&self, entry_key: &Bytes) -> Result<IndexMends> {
        let mut guard = self.admit()?;
        let state = &mut *guard;
        let (_, Some(value)) = self.newest(state, entry_key)? else {
            return Ok(IndexMends::default());
        };
        let row_key = row_key_of(entry_key);
        let row = row_key.as_ref().map(|key| self.newest(state, key)).transpose()?;
        let row = row.and_then(|(_, row)| row);
        let indexes = state.indexes.get_or_insert_default();
        let expected = expected_value(indexes, entry_key, row.as_ref());
        if expected.as_ref() == Some(&value) || indexes.is_dropped(entry_key) {
            return Ok(IndexMends::default());
        }
        Ok(self.log_mends(state, vec![(entry_key.clone(), expected)]))
    }

    fn log_mends(&self, state: &mut VnodeStoreState, changes: KeyChanges) -> IndexMends {
        let missing = changes.iter().filter(|(_, value)| value.is_some()).count() as u64;
        let mends = IndexMends { missing, stale: changes.len() as u64 - missing };
        state.index_mends.add(mends);
        self.log_changes(state, changes, false);
        mends
    }
}

/// Returns the entries that a row must have: those of indexes whose build has read it.
fn expected_at(indexes: &IndexSet, tree_key: &Bytes, row: Option<&Bytes>) -> RowEntries {
    let name = bucket_name_in(tree_key).unwrap_or_default();
    let (definitions, has_tags) = indexes.complete_at(name, tree_key);
    RowDeriver { definitions: &definitions, has_tags }.entries(row)
}

/// Returns the value that an entry must have. `None`: no row asks for it.
fn expected_value(indexes: &IndexSet, entry_key: &Bytes, row: Option<&Bytes>) -> Option<Bytes> {
    let (bucket, entry, key) = read_entry_key(entry_key).ok()?;
    let deriver = indexes.deriver(bucket.full().as_bytes())?;
    let expires_ms = *deriver.entries(row).get(&entry)?;
    Some(EntryValue { slot: Slot::for_key(&bucket, &key), expires_ms }.write())
}

/// Returns the tree key of the row that an entry is of.
fn row_key_of(entry_key: &Bytes) -> Option<Bytes> {
    let (bucket, _, key) = read_entry_key(entry_key).ok()?;
    Some(row_key_in(Slot::for_key(&bucket, &key), &bucket, &key))
}

/// Returns the rows after a tree key that lack an entry.
fn suspect_rows(
    snapshot: &dyn Snapshot,
    indexes: &IndexSet,
    after: Option<Bytes>,
) -> Result<Suspects> {
    let mut suspects = Suspects::default();
    let (low, high) = slot_keys(after);
    for found in snapshot.range(low, high, false) {
        let (tree_key, row) = found.map_err(store_error)?;
        let bytes = tree_key.len() + row.len();
        let mut differs = false;
        if slot_of(&tree_key).is_some()
            && let Some((slot, bucket, key)) = row_place(&tree_key)
        {
            for (entry, expires_ms) in expected_at(indexes, &tree_key, Some(&row)) {
                let value = EntryValue { slot, expires_ms }.write();
                let found = snapshot.get(&entry_key(&bucket, &entry, &key)).map_err(store_error)?;
                differs |= found != Some(value);
            }
        }
        if suspects.note(tree_key, bytes, differs) {
            break;
        }
    }
    Ok(suspects)
}

/// Returns the entries after a tree key that no row asks for, or not with this value.
fn suspect_entries(
    snapshot: &dyn Snapshot,
    indexes: &IndexSet,
    after: Option<Bytes>,
) -> Result<Suspects> {
    let mut suspects = Suspects::default();
    let prefix = entries_prefix();
    let high = prefix_end(&prefix).map_or(Bound::Unbounded, |end| Bound::Excluded(end.into()));
    let low = after.map_or(Bound::Included(prefix.into()), Bound::Excluded);
    for found in snapshot.range(low, high, false) {
        let (tree_key, value) = found.map_err(store_error)?;
        let row_key = row_key_of(&tree_key);
        let row = row_key.map(|key| snapshot.get(&key)).transpose().map_err(store_error)?.flatten();
        let bytes = tree_key.len() + value.len() + row.as_ref().map_or(0, Bytes::len);
        let differs = expected_value(indexes, &tree_key, row.as_ref()) != Some(value);
        let differs = differs && !indexes.is_dropped(&tree_key);
        if suspects.note(tree_key, bytes, differs) {
            break;
        }
    }
    Ok(suspects)
}

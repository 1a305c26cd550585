//! Removal of a dropped index: its entries go page by page, and its record with the last of them.
//!
//! Changes of rows write no entry of it any more, as its record says that it is dropped. A page
//! needs no cursor: it begins at the first entry that is left, also after a crash.

use crate::vnode_store::VnodeStore;
use base::Result;
use bytes::Bytes;
use indexes::IndexField;
use runtime::log_writer::store_error;
use vnode_rows::batch::KeyChanges;
use vnode_rows::index_rows::{IndexId, IndexPhase, field_keys, read_record};

/// Maximum number of entries that are removed together.
const PAGE_ENTRIES_MAX: usize = 256;

/// Entries of a dropped index.
#[derive(Debug)]
pub(super) struct RemovalPage {
    keys: Vec<Bytes>,
    is_last: bool,
    /// Number of bytes of their keys.
    pub(super) bytes: usize,
}

impl VnodeStore {
    /// Reads the next entries of a dropped index. Slow: must run on a blocking thread. `None`: the
    /// index is not dropped, as far as the store knows.
    pub(super) fn read_removal_page(&self, id: &IndexId) -> Result<Option<RemovalPage>> {
        let snapshot = self.trees.snapshot();
        let record = read_record(&*snapshot, id)?;
        // A snapshot that has this record has every entry that was written before.
        let is_dropped = record.is_some_and(|record| record.phase == IndexPhase::Dropping);
        let IndexId::Declared(bucket, number) = id else { return Ok(None) };
        if !is_dropped {
            return Ok(None);
        }
        let (low, high) = field_keys(bucket, &IndexField::Declared(*number));
        let mut page = RemovalPage { keys: Vec::new(), is_last: true, bytes: 0 };
        for entry in snapshot.range(low, high, false) {
            let (tree_key, _) = entry.map_err(store_error)?;
            page.bytes += tree_key.len();
            page.keys.push(tree_key);
            if page.keys.len() == PAGE_ENTRIES_MAX {
                page.is_last = false;
                break;
            }
        }
        Ok(Some(page))
    }

    /// Removes the entries of a page, and with the last of them the record. Returns the ticket.
    /// `None`: the index is gone already.
    pub(super) fn write_removal_page(
        &self,
        id: &IndexId,
        page: RemovalPage,
    ) -> Result<Option<u64>> {
        let mut guard = self.admit()?;
        let state = &mut *guard;
        let indexes = state.indexes.get_or_insert_default();
        if indexes.get(id).is_none_or(|record| record.phase != IndexPhase::Dropping) {
            return Ok(None);
        }
        let mut changes: KeyChanges = page.keys.into_iter().map(|key| (key, None)).collect();
        if page.is_last {
            indexes.remove(id);
            changes.push((id.record_key(), None));
        }
        Ok(Some(self.log_changes(state, changes, false)))
    }
}

//! Build of an index: adds the entries of the rows that were here before it came into force.
//!
//! Rows are read from a snapshot, in the order of their tree keys, and their entries are derived
//! without the store's lock. Under the lock each row is compared with the newest one: if it has
//! changed since, the entries of the newest row are added instead. From the index's coming into
//! force on, each change of a row compares the entries before and after; it leaves out those that
//! both have, which the build has not added yet. Entries and cursor are one batch, so a build
//! continues where a crash found it. To add an entry twice changes nothing.

use crate::vnode_store::VnodeStore;
use base::Result;
use bytes::Bytes;
use indexes::DefinitionSet;
use runtime::mutants::Mutant;
use vnode_rows::batch::KeyChanges;
use vnode_rows::build_rows::{BuildRows, read_build_rows};
use vnode_rows::index_rows::{
    IndexId, IndexPhase, IndexRecord, RowDeriver, RowEntries, push_difference, read_record,
    row_place,
};

/// Rows of a snapshot, with the entries of the index that is being built.
#[derive(Debug)]
pub(crate) struct BuildPage {
    page: BuildRows,
    /// Entries of each row.
    entries: Vec<RowEntries>,
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
        let page = read_build_rows(&*snapshot, bucket, record.cursor)?;
        let derive = |(_, row): &(Bytes, Bytes)| deriver.entries(Some(row));
        let (entries, bytes) = (page.rows.iter().map(derive).collect(), page.bytes);
        Ok(Some(BuildPage { page, entries, bytes }))
    }

    /// Adds the entries of a page, and records how far the build has come, in one batch. Returns
    /// the ticket. `None`: the index was dropped meanwhile, or another page was added.
    pub(crate) fn write_build_page(&self, id: &IndexId, page: BuildPage) -> Result<Option<u64>> {
        let BuildPage { page, entries, .. } = page;
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
        for ((tree_key, row), entries) in page.rows.into_iter().zip(entries) {
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

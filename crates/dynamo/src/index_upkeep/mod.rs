//! Upkeep of the indexes of a node: which are in force, their build, their removal, and the check
//! of their entries against the rows.
//!
//! An index is in force from the change that writes its record on: later changes of rows change its
//! entries, and the build (`build.rs`) adds those of earlier rows. What is in force is kept in the
//! store, changed under its lock, and read again at a start, so that it never depends on what a
//! node knows of the directory at a moment.
//!
//! Promises: an index is ready only once every row here has its entries; a number that was dropped
//! leaves no entry; after a crash builds and removals continue.
//! Never: decides which indexes a bucket should have; sends a request.
//! Read next: `build.rs`, `removal.rs`, `scrub.rs`.

mod build;
mod removal;
mod scrub;
mod work;

#[cfg(test)]
pub(crate) use build::BuildPage;
pub use scrub::{ScrubCursor, ScrubPage};

use crate::vnode_store::{VnodeStore, VnodeStoreState};
use base::{BucketName, Consistency, Error, Reason, Result};
use indexes::{IndexDefinition, IndexNumber};
use vnode_rows::batch::KeyChanges;
use vnode_rows::index_rows::{IndexId, IndexPhase, IndexRecord, read_indexes};
use vnode_rows::slots::SLOTS;

/// State of an index on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexStatus {
    /// The index.
    pub id: IndexId,
    /// Phase of the index.
    pub phase: IndexPhase,
    /// Definition. `None`: the index is that of tags.
    pub definition: Option<IndexDefinition>,
    /// Number of rows that its build has read.
    pub rows: u64,
    /// Number of slots whose rows its build has read.
    pub slots_done: u32,
    /// Number of all slots.
    pub slots: u32,
}

impl VnodeStore {
    /// Reads the indexes in force, once after a start. `admit` calls it before the first change.
    pub(super) fn load_indexes(&self, state: &mut VnodeStoreState) -> Result<()> {
        if state.indexes.is_none() {
            state.indexes = Some(read_indexes(&*self.trees.snapshot())?);
        }
        Ok(())
    }

    /// Brings a declared index of a bucket into force; its build begins. Returns the ticket.
    /// Idempotent while it is in force. Errors: `already_exists` if its number or name is
    /// taken, also by an index that is being dropped; those of [`IndexDefinition::check`].
    pub fn add_index(&self, bucket: &BucketName, definition: IndexDefinition) -> Result<u64> {
        definition.check(Consistency::Available)?;
        let id = IndexId::Declared(bucket.clone(), definition.number);
        self.bring_into_force(&id, IndexRecord::new(Some(definition)))
    }

    /// Brings the index of the tags of all buckets into force; its build begins. Returns the
    /// ticket. Nothing changes if it is in force already.
    pub fn add_tag_index(&self) -> Result<u64> {
        self.bring_into_force(&IndexId::Tags, IndexRecord::new(None))
    }

    fn bring_into_force(&self, id: &IndexId, record: IndexRecord) -> Result<u64> {
        let mut state = self.admit()?;
        let known = state.indexes.get_or_insert_default().get(id);
        match known {
            Some(known) if known.is_in_force() && known.definition == record.definition => {
                return Ok(state.last_ticket());
            }
            Some(_) => {
                let text = "the number of this index is taken on this node: a new definition has a \
                            new number";
                return Err(Error::new(Reason::AlreadyExists, text));
            }
            None => {}
        }
        self.set_record(&mut state, id, record, Vec::new())
    }

    /// Takes a declared index out of force; the removal of its entries begins. Returns the ticket.
    /// `None`: this node does not have it, or it is being dropped.
    pub fn drop_index(&self, bucket: &BucketName, number: IndexNumber) -> Result<Option<u64>> {
        let mut state = self.admit()?;
        let id = IndexId::Declared(bucket.clone(), number);
        let record = state.indexes.get_or_insert_default().get(&id);
        let Some(record) = record.filter(|record| record.is_in_force()) else { return Ok(None) };
        let record = IndexRecord { phase: IndexPhase::Dropping, ..record.clone() };
        self.set_record(&mut state, &id, record, Vec::new()).map(Some)
    }

    /// Takes all declared indexes of a bucket out of force, because the bucket is dropped. Entries
    /// of tags go with their rows.
    pub fn drop_bucket_indexes(&self, bucket: &BucketName) -> Result<()> {
        let numbers: Vec<_> = self
            .index_statuses()?
            .into_iter()
            .filter_map(|status| match status.id {
                IndexId::Declared(name, number) if name == *bucket => Some(number),
                _ => None,
            })
            .collect();
        for number in numbers {
            self.drop_index(bucket, number)?;
        }
        Ok(())
    }

    /// Returns the states of all indexes of this node.
    pub fn index_statuses(&self) -> Result<Vec<IndexStatus>> {
        let mut state = self.state();
        self.load_indexes(&mut state)?;
        let status = |(id, record): (IndexId, &IndexRecord)| IndexStatus {
            id,
            phase: record.phase,
            definition: record.definition.clone(),
            rows: record.rows,
            slots_done: record.slots_done(),
            slots: SLOTS,
        };
        Ok(state.indexes.get_or_insert_default().iter().map(status).collect())
    }

    /// Sets the record of an index, in one batch with other changes. Returns the ticket.
    fn set_record(
        &self,
        state: &mut VnodeStoreState,
        id: &IndexId,
        record: IndexRecord,
        mut changes: KeyChanges,
    ) -> Result<u64> {
        changes.push((id.record_key(), Some(record.write())));
        state.indexes.get_or_insert_default().insert(id, record)?;
        Ok(self.log_changes(state, changes, false))
    }
}

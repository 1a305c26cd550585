//! Changes of rows: the one place where a row changes, and what follows from its change.
//!
//! Client writes, rows of other replicas, read repair, hints, handoff, expiry, reaping and the
//! removal of partitions all end in [`VnodeStore::change_row`], with the row before and after. The
//! caller has read the row before under the lock of the change, so nothing is read again.
//!
//! Promises: the hash tree of a row and the entries of indexes and feeds follow from the same two
//! versions as the row's own change; entries are in its batch.
//! Never: reads a row that the caller has read.

use super::vnode_store::{VnodeStore, VnodeStoreState};
use bytes::Bytes;
use runtime::mutants::Mutant;
use vnode_rows::batch::KeyChanges;
use vnode_rows::layout::slot_of;

/// Change of one row.
pub(super) struct RowTransition<'a> {
    /// Tree key of the row.
    pub key: Bytes,
    /// The row until now, read under the lock of the change. `None`: there is none.
    pub before: Option<&'a Bytes>,
    /// The row from now on. `None`: it is removed.
    pub after: Option<Bytes>,
    /// False if the caller knows that no value of both versions has headers: then none has tags,
    /// and a bucket without declared indexes is not looked at again.
    pub may_be_tagged: bool,
}

impl RowTransition<'_> {
    /// Returns the removal of a row, or another change that is made from the bytes alone.
    pub(super) fn of_bytes(
        key: Bytes,
        before: Option<&Bytes>,
        after: Option<Bytes>,
    ) -> RowTransition<'_> {
        RowTransition { key, before, after, may_be_tagged: true }
    }
}

impl VnodeStore {
    /// Adds the change of a row to the changes of a batch, with all that follows from it. The
    /// caller logs the batch under the same lock ([`VnodeStore::log_changes`]).
    pub(super) fn change_row(
        &self,
        state: &mut VnodeStoreState,
        RowTransition { key, before, after, may_be_tagged }: RowTransition<'_>,
        changes: &mut KeyChanges,
    ) {
        self.update_tree(state, &key, (before, after.as_ref()));
        let indexes = state.indexes.as_ref().expect("`admit` reads them before any change");
        if !indexes.is_empty() {
            let first = changes.len();
            indexes.push_entry_changes(&key, (before, after.as_ref()), may_be_tagged, changes);
            if Mutant::LogEntriesApart.is_active() {
                self.log_changes(state, changes.split_off(first), false);
                self.submit_batch(state);
            }
        }
        self.push_feed_entry(state, &key, (before, after.as_ref()), changes);
        changes.push((key, after));
    }

    /// Changes one row as a batch of its own. Returns the ticket.
    pub(super) fn change_row_alone(
        &self,
        state: &mut VnodeStoreState,
        transition: RowTransition<'_>,
        sync: bool,
    ) -> u64 {
        let mut changes = Vec::with_capacity(1);
        self.change_row(state, transition, &mut changes);
        self.log_changes(state, changes, sync)
    }

    /// Changes tree keys together; returns the ticket. `sync`: the batch must be synced before it
    /// is applied. Reads each row that it changes: whoever has read it uses
    /// [`VnodeStore::change_row`].
    pub fn change(
        &self,
        state: &mut VnodeStoreState,
        changes: impl IntoIterator<Item = (Bytes, Option<Bytes>)>,
        sync: bool,
    ) -> u64 {
        let mut all = Vec::new();
        for (key, after) in changes {
            if slot_of(&key).is_none() {
                all.push((key, after));
                continue;
            }
            let before = match self.newest(state, &key) {
                Ok((_, before)) => before,
                // The writer returns this error. The trees are rebuilt from readable rows.
                Err(_) => {
                    state.hash_trees.clear();
                    None
                }
            };
            let transition = RowTransition::of_bytes(key, before.as_ref(), after);
            self.change_row(state, transition, &mut all);
        }
        self.log_changes(state, all, sync)
    }
}

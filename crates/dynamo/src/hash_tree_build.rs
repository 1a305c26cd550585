//! Hash trees of a node's rows: built from the store, and changed with every write.
//!
//! A tree is built from a snapshot on a blocking thread, while writes continue: they go to a tree
//! of differences, which is added at the end.
//!
//! Promises: a complete tree covers the newest rows, including those written while it was built.
//! Never: reads the store while a write waits.

use super::vnode_store::{VnodeStore, VnodeStoreState};
use base::Result;
use bytes::Bytes;
use logic::sync::HashTree;
use runtime::log_writer::store_error;
use store::Snapshot;
use vnode_rows::hash_trees::{self, TreeId};
use vnode_rows::span_rows::rows_in_span;

impl VnodeStore {
    /// Updates the tree of a row that is about to change, from the row before and after.
    pub(super) fn update_tree(
        &self,
        state: &mut VnodeStoreState,
        key: &Bytes,
        before_and_after: (Option<&Bytes>, Option<&Bytes>),
    ) {
        if state.hash_trees.tracks(key) {
            state.hash_trees.update(key, before_and_after, &self.copies);
        }
    }

    /// Calls `inspect` on a complete tree. `None`: the tree is absent or still being built.
    pub(super) fn with_tree<T>(
        &self,
        tree_id: TreeId,
        inspect: impl FnOnce(&HashTree) -> T,
    ) -> Option<T> {
        self.state().hash_trees.complete_tree(tree_id).map(inspect)
    }

    /// Builds a tree, unless it exists or is being built. Slow: must run on a blocking thread.
    pub(super) fn build_tree(&self, tree_id: TreeId) -> Result<()> {
        let Some((build, snapshot)) = self.begin_tree(tree_id)? else { return Ok(()) };
        let read = || -> Result<HashTree> {
            let mut tree = HashTree::new();
            for row in rows_in_span(&*snapshot, tree_id.0, None) {
                let (key, row) = row?;
                if hash_trees::tree_of_row(&key, tree_id.0.partitions, &self.copies)
                    == Some(tree_id)
                {
                    tree.insert(hash_trees::hash(&key, &row));
                }
            }
            Ok(tree)
        };
        match read() {
            Ok(tree) => {
                self.state().hash_trees.finish_build(tree_id, build, tree);
                Ok(())
            }
            Err(error) => {
                self.state().hash_trees.drop_tree(tree_id);
                Err(error)
            }
        }
    }

    /// Takes a snapshot, and begins a tree of the changes that it lacks: those logged and not
    /// applied yet. Returns the number of the build. `None`: the tree exists or is being built.
    fn begin_tree(&self, tree_id: TreeId) -> Result<Option<(u64, Box<dyn Snapshot>)>> {
        // Under the lock of all changes: each is in the snapshot, unapplied, or comes after
        // `begin`.
        let mut guard = self.state();
        let state = &mut *guard;
        let snapshot = self.trees.snapshot();
        let mut unapplied = HashTree::new();
        for (key, newest) in state.unapplied.iter() {
            if hash_trees::tree_of_row(key, tree_id.0.partitions, &self.copies) == Some(tree_id) {
                let in_snapshot = snapshot.get(key).map_err(store_error)?;
                let hash_of =
                    |row: &Option<Bytes>| row.as_ref().map(|row| hash_trees::hash(key, row));
                unapplied.replace(hash_of(&in_snapshot), hash_of(newest));
            }
        }
        Ok(state.hash_trees.begin(tree_id, unapplied).map(|build| (build, snapshot)))
    }

    /// Drops the trees that were begun for other numbers of copies than those of this epoch.
    pub(super) fn reset_trees(&self, copies_epoch: u64) {
        self.state().hash_trees.reset_for_copies(copies_epoch);
    }
}

//! Hash trees of a node's rows: built from the store, and changed with every write.
//!
//! A tree is built from a snapshot, off the threads that answer, while writes go on and are noted
//! in a tree of differences that is added at the end.
//!
//! Promises: a whole tree is that of the newest rows, whatever was written while it was built.
//! Never: reads the store while a write waits.

use super::hash_trees::{self, TreeId};
use super::span_rows::rows_of;
use super::vnode_store::{VnodeStore, VnodeStoreState};
use base::Result;
use bytes::Bytes;
use logic::sync::HashTree;
use runtime::log_writer::store_error;
use store::Snapshot;

impl VnodeStore {
    /// A row is about to be changed: its tree follows.
    pub(super) fn follow(&self, state: &mut VnodeStoreState, key: &Bytes, after: Option<&Bytes>) {
        if !state.hash_trees.follows(key) {
            return;
        }
        match self.newest(state, key) {
            Ok((_, before)) => {
                state.hash_trees.changed(key, (before.as_ref(), after), &self.copies)
            }
            // The writer gets this error. The trees are rebuilt from readable rows.
            Err(_) => state.hash_trees.forget(),
        }
    }

    /// Updates the tree of a changed row, whose former bytes the caller has just read.
    pub(super) fn follow_from(
        &self,
        state: &mut VnodeStoreState,
        before: Option<&Bytes>,
        (key, after): &(Bytes, Option<Bytes>),
    ) {
        if state.hash_trees.follows(key) {
            state.hash_trees.changed(key, (before, after.as_ref()), &self.copies);
        }
    }

    /// Calls `look` on a whole tree. `None`: the tree is absent or still being built.
    pub(super) fn hashed<T>(&self, which: TreeId, look: impl FnOnce(&HashTree) -> T) -> Option<T> {
        self.state().hash_trees.whole(which).map(look)
    }

    /// Builds a tree, unless there is one or it is being built. Takes long: not for threads that
    /// answer.
    pub(super) fn build(&self, which: TreeId) -> Result<()> {
        let Some(snapshot) = self.begin_tree(which)? else { return Ok(()) };
        let read = || -> Result<HashTree> {
            let mut tree = HashTree::new();
            for row in rows_of(&*snapshot, which.0, None) {
                let (key, row) = row?;
                if hash_trees::which(&key, which.0.of, &self.copies) == Some(which) {
                    tree.insert(hash_trees::hash(&key, &row));
                }
            }
            Ok(tree)
        };
        match read() {
            Ok(tree) => {
                self.state().hash_trees.built(which, tree);
                Ok(())
            }
            Err(error) => {
                self.state().hash_trees.drop_one(which);
                Err(error)
            }
        }
    }

    /// Takes a snapshot, and begins a tree of what it does not show: changes that are logged and
    /// not in the store yet.
    fn begin_tree(&self, which: TreeId) -> Result<Option<Box<dyn Snapshot>>> {
        // Under the lock of all changes: each is in the snapshot, in the overlay, or follows
        // `begin`.
        let mut guard = self.state();
        let state = &mut *guard;
        let snapshot = self.trees.snapshot();
        let mut unseen = HashTree::new();
        for (key, (_, newest)) in &state.overlay {
            if hash_trees::which(key, which.0.of, &self.copies) == Some(which) {
                let shown = snapshot.get(key).map_err(store_error)?;
                let hashed =
                    |row: &Option<Bytes>| row.as_ref().map(|row| hash_trees::hash(key, row));
                unseen.change(hashed(&shown), hashed(newest));
            }
        }
        Ok(state.hash_trees.begin(which, unseen).then_some(snapshot))
    }

    /// Drops all trees, which were built for other numbers of copies.
    pub(super) fn forget_trees(&self) {
        self.state().hash_trees.forget();
    }
}

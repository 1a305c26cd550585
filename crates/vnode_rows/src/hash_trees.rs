//! Hash trees of the partitions kept here, one for each number of copies (`n_val`) of buckets: two
//! nodes compare only rows that both of them keep.
//!
//! A tree is built when it is first needed, and from then on updated with each change of a row;
//! `hash_tree_build.rs` does both.
//!
//! Promises: all trees together stay within 256 MiB.

use crate::layout::{read_row_key, row_tail, slot_of};
use crate::slots::SlotSpan;
use base::{BucketName, Result};
use bytes::Bytes;
use logic::sync::{HashTree, RowHash, row_hash};
use runtime::log_writer::store_error;
use std::collections::BTreeMap;
use std::ops::Bound;
use store::Snapshot;

/// Id of a hash tree: a partition, and the number of copies of its buckets' keys.
pub type TreeId = (SlotSpan, u8);

/// Returns the number of copies of a bucket's keys. `None`: there is no such bucket.
pub type CopyCount = Box<dyn Fn(&BucketName) -> Option<u8> + Send + Sync>;

/// Approximate memory limit of all trees together, in bytes. Above it the least recently used are
/// dropped, and built again when they are needed.
const TREES_BYTES_MAX: usize = 256 << 20;

/// See the head of this file.
#[derive(Default)]
pub struct HashTrees {
    trees: BTreeMap<TreeId, CachedTree>,
    /// Number of partitions of their ring. 0: there is no tree.
    partitions: u32,
    /// Number of changes of some bucket's number of copies before they were begun.
    copies_epoch: u64,
    /// Number of builds that were begun.
    builds: u64,
    /// Last use of each, as a value of `use_counter`.
    last_used: BTreeMap<TreeId, u64>,
    use_counter: u64,
}

enum CachedTree {
    /// Changes since the snapshot of the build of this number.
    Building(HashTree, u64),
    Complete(HashTree),
}

impl HashTrees {
    /// Returns a tree, if it is complete.
    pub fn complete_tree(&mut self, tree_id: TreeId) -> Option<&HashTree> {
        self.reset_for(tree_id);
        self.use_counter += 1;
        match self.trees.get(&tree_id) {
            Some(CachedTree::Complete(tree)) => {
                self.last_used.insert(tree_id, self.use_counter);
                Some(tree)
            }
            _ => None,
        }
    }

    /// Returns true if a tree of the key's partition exists and must be updated.
    pub fn tracks(&self, key: &[u8]) -> bool {
        if self.trees.is_empty() {
            return false;
        }
        let Some(slot) = slot_of(key) else { return false };
        let span = SlotSpan::containing(slot, self.partitions);
        self.trees.range((span, 0)..=(span, u8::MAX)).next().is_some()
    }

    /// Drops all trees if the number of partitions has changed.
    fn reset_for(&mut self, (span, _): TreeId) {
        if self.partitions != span.partitions {
            self.clear();
            self.partitions = span.partitions;
        }
    }

    /// Begins a tree, with the changes that the snapshot lacks. Returns the number of the build.
    /// `None`: it is being built or complete already.
    pub fn begin(&mut self, tree_id: TreeId, unapplied: HashTree) -> Option<u64> {
        self.reset_for(tree_id);
        if self.trees.contains_key(&tree_id) {
            return None;
        }
        self.builds += 1;
        self.trees.insert(tree_id, CachedTree::Building(unapplied, self.builds));
        Some(self.builds)
    }

    /// Ends a build. Returns false if the tree was dropped meanwhile; another build of it may have
    /// begun since.
    pub fn finish_build(&mut self, tree_id: TreeId, build: u64, mut tree: HashTree) -> bool {
        let Some(cached) = self.trees.get_mut(&tree_id) else { return false };
        match cached {
            CachedTree::Building(changes, begun) if *begun == build => tree.add_all(changes),
            _ => return false,
        }
        *cached = CachedTree::Complete(tree);
        self.evict(tree_id, TREES_BYTES_MAX);
        true
    }

    /// Drops the least recently used trees until the others fit; never the tree `keep`.
    fn evict(&mut self, keep: TreeId, bytes_max: usize) {
        let bytes = |cached: &CachedTree| match cached {
            CachedTree::Building(tree, _) | CachedTree::Complete(tree) => tree.bytes(),
        };
        let mut all: usize = self.trees.values().map(bytes).sum();
        while all > bytes_max {
            let is_complete = |cached: &CachedTree| matches!(cached, CachedTree::Complete(_));
            let candidates =
                self.trees.iter().filter(|(it, cached)| **it != keep && is_complete(cached));
            let oldest = candidates
                .min_by_key(|(tree_id, _)| self.last_used.get(tree_id))
                .map(|(it, _)| *it);
            let Some(oldest) = oldest else { return };
            self.last_used.remove(&oldest);
            all -= self.trees.remove(&oldest).as_ref().map_or(0, bytes);
        }
    }

    /// Updates the tree of a changed row.
    pub fn update(
        &mut self,
        key: &Bytes,
        (before, after): (Option<&Bytes>, Option<&Bytes>),
        copies: &CopyCount,
    ) {
        if self.trees.is_empty() {
            return;
        }
        let Some(tree_id) = tree_of_row(key, self.partitions, copies) else { return };
        if let Some(CachedTree::Building(tree, _) | CachedTree::Complete(tree)) =
            self.trees.get_mut(&tree_id)
        {
            tree.replace(before.map(|row| hash(key, row)), after.map(|row| hash(key, row)));
        }
    }

    /// Drops trees that were begun before a bucket's number of copies changed: its rows are in the
    /// wrong ones. `copies_epoch`: the present number of such changes.
    pub fn reset_for_copies(&mut self, copies_epoch: u64) {
        if std::mem::replace(&mut self.copies_epoch, copies_epoch) != copies_epoch {
            self.clear();
        }
    }

    /// Drops all trees.
    pub fn clear(&mut self) {
        self.trees.clear();
        self.last_used.clear();
    }

    /// Drops a tree that could not be built.
    pub fn drop_tree(&mut self, tree_id: TreeId) {
        self.trees.remove(&tree_id);
    }
}

/// Returns the tree that covers a row, in a ring of `partitions`.
pub fn tree_of_row(key: &Bytes, partitions: u32, copies: &CopyCount) -> Option<TreeId> {
    let slot = slot_of(key)?;
    let (bucket, _) = read_row_key(key)?;
    Some((SlotSpan::containing(slot, partitions), copies(&bucket)?))
}

/// Returns the hash of a row in its tree.
pub fn hash(key: &Bytes, row: &[u8]) -> RowHash {
    row_hash(row_tail(key), row)
}

/// Returns the rows under a prefix after a key, in order.
pub fn rows_after<'a>(
    snapshot: &'a dyn Snapshot,
    prefix: &'a [u8],
    after: Option<&[u8]>,
) -> impl Iterator<Item = Result<(Bytes, Bytes)>> + 'a {
    let low = match after {
        Some(after) => Bound::Excluded(Bytes::from([prefix, after].concat())),
        None => Bound::Included(Bytes::from(prefix.to_vec())),
    };
    let rows = snapshot.range(low, Bound::Unbounded, false);
    let rows = rows.map(|row| row.map_err(store_error));
    rows.take_while(move |row| row.as_ref().map_or(true, |(key, _)| key.starts_with(prefix)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_recently_used_hash_trees_are_evicted_for_memory() {
        let mut hash_trees = HashTrees::default();
        let tree_id = |number| (SlotSpan { partition: base::Partition(number), partitions: 64 }, 3);
        let one = HashTree::new().bytes();
        for number in 0..4 {
            let build = hash_trees.begin(tree_id(number), HashTree::new()).expect("it is new");
            assert!(hash_trees.finish_build(tree_id(number), build, HashTree::new()));
        }
        for number in [2, 0, 3] {
            assert!(hash_trees.complete_tree(tree_id(number)).is_some());
        }
        assert!(hash_trees.begin(tree_id(9), HashTree::new()).is_some());
        hash_trees.evict(tree_id(3), 3 * one);
        let left: Vec<_> =
            (0..4).filter(|it| hash_trees.complete_tree(tree_id(*it)).is_some()).collect();
        assert_eq!(left, [0, 3], "the one that is being built stays, too");
        hash_trees.evict(tree_id(3), 0);
        assert!(
            hash_trees.complete_tree(tree_id(3)).is_some()
                && hash_trees.complete_tree(tree_id(0)).is_none()
        );
        let finer = (SlotSpan { partition: base::Partition(3), partitions: 128 }, 3);
        assert!(
            hash_trees.complete_tree(finer).is_none()
                && hash_trees.complete_tree(tree_id(3)).is_none(),
            "another ring"
        );
    }

    #[test]
    fn hash_trees_of_other_numbers_of_copies_are_dropped_with_their_builds() {
        let mut hash_trees = HashTrees::default();
        let tree_id = (SlotSpan { partition: base::Partition(1), partitions: 64 }, 3);
        let former = hash_trees.begin(tree_id, HashTree::new()).expect("it is new");
        hash_trees.reset_for_copies(0);
        assert!(hash_trees.begin(tree_id, HashTree::new()).is_none(), "it is being built");
        hash_trees.reset_for_copies(1);
        let build = hash_trees.begin(tree_id, HashTree::new()).expect("it was dropped");
        assert!(!hash_trees.finish_build(tree_id, former, HashTree::new()));
        assert!(hash_trees.complete_tree(tree_id).is_none());
        assert!(hash_trees.finish_build(tree_id, build, HashTree::new()));
        hash_trees.reset_for_copies(1);
        assert!(hash_trees.complete_tree(tree_id).is_some());
        hash_trees.reset_for_copies(2);
        assert!(hash_trees.complete_tree(tree_id).is_none());
    }
}

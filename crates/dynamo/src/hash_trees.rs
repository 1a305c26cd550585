//! Hash trees of the partitions kept here, one for each number of copies that buckets ask for:
//! two nodes compare only what both of them keep.
//!
//! A tree is built when it is first asked for, and from then on each change of a row changes it;
//! `hash_tree_build.rs` does both.
//!
//! Promises: all trees together stay within 256 MiB.

use super::layout::{read_row_key, row_tail, slot_of};
use super::slots::SlotSpan;
use base::{BucketName, Result};
use bytes::Bytes;
use logic::sync::{HashTree, RowHash, row_hash};
use runtime::log_writer::store_error;
use std::collections::BTreeMap;
use std::ops::Bound;
use store::Snapshot;

/// A partition, and how many copies its buckets' keys have.
pub(super) type TreeId = (SlotSpan, u8);

/// Returns the number of copies of a bucket's keys. `None`: there is no such bucket.
pub type CopyCount = Box<dyn Fn(&BucketName) -> Option<u8> + Send + Sync>;

/// Approximate memory of all whole trees together, in bytes. Beyond it the least recently used are
/// dropped, and built again when they are needed.
const TREES_BYTES_MAX: usize = 256 << 20;

/// See the head of this file.
#[derive(Default)]
pub(super) struct HashTrees {
    trees: BTreeMap<TreeId, CachedHash>,
    /// Number of partitions of their ring. 0: there is no tree.
    of: u32,
    /// Last use of each, as a value of `look`.
    looks: BTreeMap<TreeId, u64>,
    look: u64,
}

enum CachedHash {
    /// Changes since the snapshot.
    Building(HashTree),
    Whole(HashTree),
}

impl HashTrees {
    /// The tree, if it is whole.
    pub(super) fn whole(&mut self, which: TreeId) -> Option<&HashTree> {
        self.fit(which);
        self.look += 1;
        match self.trees.get(&which) {
            Some(CachedHash::Whole(tree)) => {
                self.looks.insert(which, self.look);
                Some(tree)
            }
            _ => None,
        }
    }

    /// Returns true if a tree of this partition, or any at all, is kept up to date.
    pub(super) fn follows(&self, key: &[u8]) -> bool {
        if self.trees.is_empty() {
            return false;
        }
        let Some(slot) = slot_of(key) else { return false };
        let span = SlotSpan::around(slot, self.of);
        self.trees.range((span, 0)..=(span, u8::MAX)).next().is_some()
    }

    /// Trees of another number of partitions are of no use any more.
    fn fit(&mut self, (span, _): TreeId) {
        if self.of != span.of {
            self.forget();
            self.of = span.of;
        }
    }

    /// Begins a tree, with what the snapshot does not show. False: it is begun or whole already.
    pub(super) fn begin(&mut self, which: TreeId, unseen: HashTree) -> bool {
        self.fit(which);
        if self.trees.contains_key(&which) {
            return false;
        }
        self.trees.insert(which, CachedHash::Building(unseen));
        true
    }

    /// Ends a build. Returns false if the tree was dropped meanwhile.
    pub(super) fn built(&mut self, which: TreeId, mut tree: HashTree) -> bool {
        match self.trees.get_mut(&which) {
            Some(known @ CachedHash::Building(_)) => {
                if let CachedHash::Building(since) = known {
                    tree.add_all(since);
                }
                *known = CachedHash::Whole(tree);
                self.make_room(which, TREES_BYTES_MAX);
                true
            }
            _ => false,
        }
    }

    /// Forgets trees until the others fit; never this one.
    fn make_room(&mut self, kept: TreeId, bytes_max: usize) {
        let bytes = |known: &CachedHash| match known {
            CachedHash::Building(tree) | CachedHash::Whole(tree) => tree.bytes(),
        };
        let mut all: usize = self.trees.values().map(bytes).sum();
        while all > bytes_max {
            let whole = |known: &CachedHash| matches!(known, CachedHash::Whole(_));
            let others = self.trees.iter().filter(|(it, known)| **it != kept && whole(known));
            let oldest = others.min_by_key(|(which, _)| self.looks.get(which)).map(|(it, _)| *it);
            let Some(oldest) = oldest else { return };
            self.looks.remove(&oldest);
            all -= self.trees.remove(&oldest).as_ref().map_or(0, bytes);
        }
    }

    /// A row was changed.
    pub(super) fn changed(
        &mut self,
        key: &Bytes,
        (before, after): (Option<&Bytes>, Option<&Bytes>),
        copies: &CopyCount,
    ) {
        if self.trees.is_empty() {
            return;
        }
        let Some(which) = which(key, self.of, copies) else { return };
        if let Some(CachedHash::Building(tree) | CachedHash::Whole(tree)) =
            self.trees.get_mut(&which)
        {
            tree.change(before.map(|row| hash(key, row)), after.map(|row| hash(key, row)));
        }
    }

    /// Drops all trees, because a bucket's number of copies has changed.
    pub(super) fn forget(&mut self) {
        self.trees.clear();
        self.looks.clear();
    }

    /// Drops a tree that could not be built.
    pub(super) fn drop_one(&mut self, which: TreeId) {
        self.trees.remove(&which);
    }
}

/// Returns the tree that covers a row, in a ring of so many partitions.
pub(super) fn which(key: &Bytes, of: u32, copies: &CopyCount) -> Option<TreeId> {
    let slot = slot_of(key)?;
    let (bucket, _) = read_row_key(key)?;
    Some((SlotSpan::around(slot, of), copies(&bucket)?))
}

/// Returns the hash of a row in its tree.
pub(super) fn hash(key: &Bytes, row: &[u8]) -> RowHash {
    row_hash(row_tail(key), row)
}

/// The rows under a prefix, behind a key, in their order.
pub(super) fn rows_behind<'a>(
    snapshot: &'a dyn Snapshot,
    front: &'a [u8],
    after: Option<&[u8]>,
) -> impl Iterator<Item = Result<(Bytes, Bytes)>> + 'a {
    let low = match after {
        Some(after) => Bound::Excluded(Bytes::from([front, after].concat())),
        None => Bound::Included(Bytes::from(front.to_vec())),
    };
    let rows = snapshot.range(low, Bound::Unbounded, false);
    let rows = rows.map(|row| row.map_err(store_error));
    rows.take_while(move |row| row.as_ref().map_or(true, |(key, _)| key.starts_with(front)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_that_nobody_looks_at_make_room() {
        let mut hash_trees = HashTrees::default();
        let which = |number| (SlotSpan { partition: base::Partition(number), of: 64 }, 3);
        let one = HashTree::new().bytes();
        for number in 0..4 {
            assert!(hash_trees.begin(which(number), HashTree::new()));
            assert!(hash_trees.built(which(number), HashTree::new()));
        }
        for number in [2, 0, 3] {
            assert!(hash_trees.whole(which(number)).is_some());
        }
        assert!(hash_trees.begin(which(9), HashTree::new()));
        hash_trees.make_room(which(3), 3 * one);
        let left: Vec<_> = (0..4).filter(|it| hash_trees.whole(which(*it)).is_some()).collect();
        assert_eq!(left, [0, 3], "the one that is being built stays, too");
        hash_trees.make_room(which(3), 0);
        assert!(hash_trees.whole(which(3)).is_some() && hash_trees.whole(which(0)).is_none());
        let finer = (SlotSpan { partition: base::Partition(3), of: 128 }, 3);
        assert!(
            hash_trees.whole(finer).is_none() && hash_trees.whole(which(3)).is_none(),
            "another ring"
        );
    }
}

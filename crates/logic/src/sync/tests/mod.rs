//! Laws of hash trees, and exchanges that count their bytes.

use super::{HashTree, row_hash};
use base::Key;
use std::collections::BTreeMap;

mod exchange;
mod tree;
mod wire;

/// Copy of a partition: its rows, and the tree that was kept up to date with them.
#[derive(Clone, Default)]
struct PartitionCopy {
    rows: BTreeMap<Key, Vec<u8>>,
    tree: HashTree,
}

impl PartitionCopy {
    /// Builds a copy of this many rows, `key:0` and on.
    fn of(count: u32) -> PartitionCopy {
        let mut copy = PartitionCopy::default();
        (0..count).for_each(|number| copy.set(number, b"the same"));
        copy
    }

    fn set(&mut self, number: u32, bytes: &[u8]) {
        let key = key_of(number);
        let before = self.rows.insert(key.clone(), bytes.to_vec());
        let before = before.map(|before| row_hash(&key, &before));
        self.tree.replace(before, Some(row_hash(&key, bytes)));
    }

    fn remove(&mut self, number: u32) {
        let key = key_of(number);
        if let Some(before) = self.rows.remove(&key) {
            self.tree.replace(Some(row_hash(&key, &before)), None);
        }
    }

    fn rebuilt(&self) -> HashTree {
        let mut tree = HashTree::new();
        self.rows.iter().for_each(|(key, bytes)| tree.insert(row_hash(key, bytes)));
        tree
    }
}

fn key_of(number: u32) -> Key {
    Key::from(format!("key:{number}"))
}

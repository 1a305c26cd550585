//! Laws of hash trees, and exchanges that count their bytes.

use super::{HashTree, row_hash};
use base::Key;
use std::collections::BTreeMap;

mod exchange;
mod tree;
mod wire;

/// Copy of a partition: its rows, and the tree that was kept up to date with them.
#[derive(Clone, Default)]
struct Copy {
    rows: BTreeMap<Key, Vec<u8>>,
    tree: HashTree,
}

impl Copy {
    /// Builds a copy of this many rows, `key:0` and on.
    fn of(count: u32) -> Copy {
        let mut copy = Copy::default();
        (0..count).for_each(|number| copy.set(number, b"the same"));
        copy
    }

    fn set(&mut self, number: u32, bytes: &[u8]) {
        let key = name(number);
        let before = self.rows.insert(key.clone(), bytes.to_vec());
        let before = before.map(|before| row_hash(&key, &before));
        self.tree.change(before, Some(row_hash(&key, bytes)));
    }

    fn remove(&mut self, number: u32) {
        let key = name(number);
        if let Some(before) = self.rows.remove(&key) {
            self.tree.change(Some(row_hash(&key, &before)), None);
        }
    }

    fn rebuilt(&self) -> HashTree {
        let mut tree = HashTree::new();
        self.rows.iter().for_each(|(key, bytes)| tree.insert(row_hash(key, bytes)));
        tree
    }
}

fn name(number: u32) -> Key {
    Key::from(format!("key:{number}"))
}

//! The trees against a simple model, under threads, and with damage.
//!
//! Promises: each promise of `trees/mod.rs` is tested here, on real files.
//! Never: asserts a time.

#![allow(clippy::unwrap_used)]

mod copies;
mod damage;
mod dead_rows;
mod everyday;
mod filters;
pub(super) mod full_disk;
mod growth;
mod hash_floods;
mod ingest;
mod memtable;
mod model;
mod point_reads;
mod ranges;
mod space;
mod stream;
mod threads;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::{LsmTrees, RowChange, TreeSettings, Trees};
use crate::StoreError;

/// A temporary directory, removed when it is dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Scratch {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("trees-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Opens trees in a scratch directory, with little memory so that the caches are full.
pub(crate) fn open(scratch: &Scratch) -> LsmTrees {
    open_at(&scratch.path().join("store")).unwrap()
}

/// Opens trees in any directory, with 8 MiB of memory.
pub(crate) fn open_at(path: &Path) -> Result<LsmTrees, StoreError> {
    open_with(path, 8 * 1024 * 1024)
}

/// Opens trees with almost no memory: no flushed table stays resident, and most rows are read from
/// disk.
pub(crate) fn open_narrow(scratch: &Scratch) -> LsmTrees {
    open_with(&scratch.path().join("store"), 8 * 1024).unwrap()
}

/// Opens trees with the default memory of a node, so that tables have the same size.
pub(crate) fn open_large(scratch: &Scratch) -> LsmTrees {
    open_with(&scratch.path().join("store"), 640 * 1024 * 1024).unwrap()
}

fn open_with(path: &Path, memory_bytes_max: u64) -> Result<LsmTrees, StoreError> {
    LsmTrees::open(TreeSettings { memory_bytes_max, ..TreeSettings::new(path) })
}

pub(crate) fn put(key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> RowChange {
    RowChange::Put(Bytes::copy_from_slice(key.as_ref()), Bytes::copy_from_slice(value.as_ref()))
}

pub(crate) fn remove(key: impl AsRef<[u8]>) -> RowChange {
    RowChange::Remove(Bytes::copy_from_slice(key.as_ref()))
}

pub(crate) fn apply(trees: &dyn Trees, changes: impl IntoIterator<Item = RowChange>) -> u64 {
    trees.apply(&mut changes.into_iter()).unwrap()
}

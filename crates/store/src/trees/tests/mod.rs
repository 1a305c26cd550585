//! The trees against a simple model, under threads, and with damage.
//!
//! Promises: what `trees/mod.rs` promises is tried here, on real files.
//! Never: asserts a time.

#![allow(clippy::unwrap_used)]

mod copies;
mod damage;
mod dead_rows;
mod everyday;
mod growth;
mod ingest;
mod memtable;
mod model;
mod ranges;
mod space;
mod stream;
mod threads;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::{LsmTrees, RowChange, TreeSettings, Trees};
use crate::StoreError;

/// A directory of its own, removed at the end.
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

/// Trees in a scratch directory, with little memory so that caches are under pressure too.
pub(crate) fn open(scratch: &Scratch) -> LsmTrees {
    open_at(&scratch.path().join("store")).unwrap()
}

/// Opens trees in any directory, with 8 MiB of memory.
pub(crate) fn open_at(path: &Path) -> Result<LsmTrees, StoreError> {
    open_with(path, 8 * 1024 * 1024)
}

/// Next to no memory: flushed tables are not kept, and most rows are read from the disk.
pub(crate) fn open_narrow(scratch: &Scratch) -> LsmTrees {
    open_with(&scratch.path().join("store"), 8 * 1024).unwrap()
}

/// The memory of a node as it is installed, so that tables are as large as there.
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

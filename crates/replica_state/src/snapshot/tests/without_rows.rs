//! Snapshots without rows, as witnesses install them.

use super::test_node::{GROUP, initial, mark};
use crate::layout;
use crate::snapshot::{StagedSnapshot, applied_index};
use base::{LogIndex, Reason, Result};
use bytes::Bytes;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use store::trees::TreeStatistics;
use store::{
    Chunk, Ingest, MemoryTrees, Pressure, RowChange, Snapshot, StoreError, TreeRow, Trees,
};

type StoreResult<T> = std::result::Result<T, StoreError>;

/// Trees of which nothing reaches the disk while it is full.
struct FullTrees {
    trees: Arc<MemoryTrees>,
    is_full: Arc<AtomicBool>,
}

struct FullIngest {
    ingest: Box<dyn Ingest>,
    is_full: Arc<AtomicBool>,
}

fn check(is_full: &AtomicBool) -> StoreResult<()> {
    if is_full.load(SeqCst) { Err(StoreError::Full) } else { Ok(()) }
}

impl Ingest for FullIngest {
    fn put(&mut self, rows: Vec<TreeRow>) -> StoreResult<()> {
        self.ingest.put(rows)
    }

    fn complete(&mut self) -> StoreResult<()> {
        check(&self.is_full)?;
        self.ingest.complete()
    }

    fn switch(&mut self) -> StoreResult<bool> {
        check(&self.is_full)?;
        self.ingest.switch()
    }
}

impl Trees for FullTrees {
    fn apply(&self, batch: &mut dyn Iterator<Item = RowChange>) -> StoreResult<u64> {
        self.trees.apply(batch)
    }

    fn get(&self, key: &[u8]) -> StoreResult<Option<Bytes>> {
        self.trees.get(key)
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        self.trees.snapshot()
    }

    fn memory_bytes(&self) -> u64 {
        self.trees.memory_bytes()
    }

    fn pressure(&self) -> Pressure {
        self.trees.pressure()
    }

    fn rotate(&self) -> StoreResult<bool> {
        self.trees.rotate()
    }

    fn flush(&self) -> StoreResult<()> {
        check(&self.is_full)?;
        self.trees.flush()
    }

    fn compact(&self) -> StoreResult<bool> {
        self.trees.compact()
    }

    fn drop_prefix(&self, prefix: &[u8]) -> StoreResult<()> {
        self.trees.drop_prefix(prefix)
    }

    fn begin_install(self: Arc<Self>, prefix: &[u8]) -> StoreResult<Box<dyn Ingest>> {
        let ingest = Arc::clone(&self.trees).begin_install(prefix)?;
        Ok(Box::new(FullIngest { ingest, is_full: self.is_full.clone() }))
    }

    fn checkpoint(&self, target: &Path) -> StoreResult<()> {
        self.trees.checkpoint(target)
    }

    fn statistics(&self) -> TreeStatistics {
        self.trees.statistics()
    }
}

/// Writes the mark of an applied entry.
fn put_mark(trees: &dyn Trees, index: u64) {
    let mut key = Vec::new();
    layout::mark_key(GROUP, &mut key);
    let row = RowChange::Put(key.into(), mark(index).write());
    trees.apply(&mut std::iter::once(row)).unwrap();
}

#[test]
fn mark_that_cannot_reach_a_full_disk_stays_as_it_was_and_is_installed_later() {
    let from = MemoryTrees::new(1 << 20);
    let trees = Arc::new(MemoryTrees::new(1 << 20));
    let to = Arc::new(FullTrees { trees, is_full: Arc::default() });
    put_mark(&from, 90);
    put_mark(&*to, 5);
    let install = || -> Result<LogIndex> {
        let to = Arc::clone(&to) as Arc<dyn Trees>;
        let staged = StagedSnapshot::without_rows(&from, to, GROUP, Some(initial()));
        staged.unwrap().install().map(|installed| installed.index)
    };
    to.is_full.store(true, SeqCst);
    for _ in 0..2 {
        assert_eq!(install().map_err(|error| error.reason), Err(Reason::OutOfSpace));
        assert_eq!(applied_index(&*to, GROUP), Ok(5), "nothing has changed");
    }
    to.is_full.store(false, SeqCst);
    assert_eq!(install(), Ok(LogIndex(90)));
    assert_eq!(applied_index(&*to, GROUP), Ok(90));
    let rows = Chunk::read(&*to.snapshot(), &GROUP.0.to_be_bytes(), None, usize::MAX).unwrap().rows;
    assert_eq!(rows.len(), 2, "a mark and a configuration");
    assert_eq!(install().map_err(|error| error.reason), Err(Reason::Changed));
}

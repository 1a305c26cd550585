//! What a reader reads: the tables of one moment.
//!
//! The crate below has such a thing too, but finds it by number in a list that keeps every table
//! made since the oldest reader began, sealed ones in memory included. Here each reader holds its
//! own view and nothing else.

use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use lsm_tree::table::filter::standard_bloom::Builder as Bloom;
use lsm_tree::{AbstractTree, InternalValue, Memtable, SeqNo, TableId, Tree};

use super::manifest::damage;
use crate::StoreError;

/// A row as the tree keeps it: who wrote it and what; no value means absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    /// The batch; 0 where no row was found.
    pub sequence: u64,
    /// The value.
    pub value: Option<Bytes>,
}

pub(super) type Bounds = (Bound<Bytes>, Bound<Bytes>);
type Merged = Box<dyn DoubleEndedIterator<Item = lsm_tree::Result<InternalValue>> + Send>;
// The crate does not let its list of tables be named, only used: hence closures.
type ReadPoint = dyn Fn(&[u8], SeqNo) -> Result<Option<InternalValue>, StoreError> + Send + Sync;
type ReadRange = dyn Fn(Bounds, SeqNo) -> Merged + Send + Sync;

/// Tables of one moment. Only the active one still grows, by batches that a reader's number hides.
pub(super) struct View {
    /// Takes the batches.
    pub active: Arc<Memtable>,
    /// Waits for flush, oldest first.
    pub sealed: Vec<Arc<Memtable>>,
    /// Unmerged runs on disk.
    pub level0_runs: usize,
    /// Table files that it may read.
    pub files: Vec<TableId>,
    tables: Box<ReadPoint>,
    merged: Box<ReadRange>,
}

impl View {
    /// The tables as they are now. `sealed`: those that were sealed so far; the flushed ones among
    /// them are left out. Nobody may rotate meanwhile; if somebody flushes, a table may be seen
    /// twice, which is harmless.
    pub fn capture(tree: &Tree, mut sealed: Vec<Arc<Memtable>>) -> View {
        let frozen = tree.get_version_history_lock().latest_version();
        let flushed = sealed.len().saturating_sub(tree.sealed_memtable_count());
        sealed.drain(..flushed);
        let version = tree.current_version();
        let active = Arc::clone(&frozen.active_memtable);
        let level0_runs = version.l0().run_count();
        let files = version.iter_tables().map(|table| table.id()).collect();
        let tables = Box::new(move |key: &[u8], limit: SeqNo| {
            let hash = Bloom::get_hash(key);
            let runs = version.iter_levels().flat_map(|level| level.iter());
            for table in runs.filter_map(|run| run.get_for_key(key)) {
                // A table that was checked block by block does not panic; one that does is damaged.
                let found = catch_unwind(AssertUnwindSafe(|| table.get(key, limit, hash)))
                    .map_err(|_| damage(&table.path, "the block has no sense"))?
                    .map_err(|error| super::manifest::error(&table.path, error))?;
                if found.is_some() {
                    return Ok(found);
                }
            }
            Ok(None)
        });
        let merged = Box::new(move |bounds: Bounds, limit: SeqNo| -> Merged {
            Box::new(Tree::create_internal_range(frozen.clone(), &bounds, limit, None))
        });
        View { active, sealed, level0_runs, files, tables, merged }
    }

    /// The newest version of a key that is not newer than `sequence`.
    pub fn get(&self, key: &[u8], sequence: u64) -> Result<Version, StoreError> {
        let limit = sequence + 1; // the crate's limits are exclusive
        let in_memory = std::iter::once(&self.active).chain(self.sealed.iter().rev());
        let mut found = in_memory.into_iter().find_map(|table| table.get(key, limit));
        if found.is_none() {
            found = (self.tables)(key, limit)?;
        }
        Ok(match found {
            None => Version { sequence: 0, value: None },
            Some(row) if row.is_tombstone() => Version { sequence: row.key.seqno, value: None },
            Some(row) => Version { sequence: row.key.seqno, value: Some(row.value.into()) },
        })
    }

    /// Rows between bounds, newest versions not newer than `sequence`, tombstones left out.
    pub fn range(&self, bounds: Bounds, sequence: u64) -> Merged {
        if crossed(&bounds) {
            return Box::new(std::iter::empty());
        }
        (self.merged)(bounds, sequence + 1)
    }

    /// Bytes in memory.
    pub fn memory_bytes(&self) -> u64 {
        self.active.size() + self.sealed.iter().map(|table| table.size()).sum::<u64>()
    }
}

/// True when no key can lie between the bounds.
pub(super) fn crossed((low, high): &Bounds) -> bool {
    match (low, high) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(low), Bound::Included(high)) => low > high,
        (Bound::Included(low) | Bound::Excluded(low), Bound::Excluded(high))
        | (Bound::Excluded(low), Bound::Included(high)) => low >= high,
    }
}

//! View of a reader: the tables at one moment.
//!
//! The LSM library has such a view of the tables on disk, but finds it by number in a list that
//! keeps every table created since the oldest reader began. Here each reader holds only its own
//! view.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use lsm_tree::table::filter::block::FilterBlock;
use lsm_tree::table::filter::standard_bloom::Builder as Bloom;
use lsm_tree::{AbstractTree, InternalValue, SeqNo, TableId, Tree, UserKey};

use super::manifest::damage;
use super::memtable::Memtable;
use super::packed::Packing;
use super::{
    DEAD_ROWS_WALKED_MIN, EARLY_FLUSH_DIVISOR, EARLY_FLUSH_RUNS, ROWS_WRITTEN_PER_DEAD_ROW,
};
use crate::StoreError;
use crate::failpoint::{Point, reach};
use crate::panics::catch_panic;

/// Version of a row: the number of its batch, and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    /// Number of the batch; 0 if no row was found.
    pub sequence: u64,
    /// Value of the row. `None`: it is absent.
    pub value: Option<Bytes>,
}

/// Bounds of a range read.
pub(super) type Bounds = (Bound<Bytes>, Bound<Bytes>);
/// Rows of one run of tables on disk, including tombstones, each key once; values as they are
/// stored (`packed.rs`).
pub(super) type DiskRows =
    Box<dyn DoubleEndedIterator<Item = lsm_tree::Result<InternalValue>> + Send>;
// The library's type of a list of tables is private: hence closures.
type PointRead = dyn Fn(&[u8], SeqNo) -> Result<Option<Version>, StoreError> + Send + Sync;
type RangeRead = dyn Fn(&Bounds) -> Vec<DiskRows> + Send + Sync;

/// Tables at one moment. Only the active one still grows, by batches above the reader's number.
pub(super) struct View {
    /// Table that receives batches.
    pub active: Arc<Memtable>,
    /// Tables that wait for flush, oldest first.
    pub sealed: Vec<Arc<Memtable>>,
    /// Unmerged runs on disk.
    pub level0_runs: usize,
    /// Number of dead rows on disk that range reads passed since a drain last began.
    pub dead_walked_on_disk: Arc<AtomicU64>,
    /// Table files that its readers may read.
    pub files: Vec<TableId>,
    /// Whether the values on disk may be packed.
    pub packing: Packing,
    /// Reads a key from the tables on disk.
    tables: Box<PointRead>,
    /// Reads a range of each run on disk.
    runs: Box<RangeRead>,
}

impl View {
    /// Captures these tables in memory, and the current ones on disk. A row may be in both.
    pub fn capture(
        (tree, packing): (&Tree, &Packing),
        active: Arc<Memtable>,
        sealed: Vec<Arc<Memtable>>,
        dead_walked_on_disk: Arc<AtomicU64>,
    ) -> View {
        let (version, packing) = (tree.current_version(), packing.clone());
        let unpacking = packing.clone();
        let ranged = version.clone();
        let level0_runs = version.l0().run_count();
        let files = version.iter_tables().map(|table| table.id()).collect();
        let tables = Box::new(move |key: &[u8], limit: SeqNo| {
            let hash = Bloom::get_hash(key);
            let runs = version.iter_levels().flat_map(|level| level.iter());
            for table in runs.filter_map(|run| run.get_for_key(key)) {
                // A table with valid blocks does not panic; one that panics is damaged.
                let get = || {
                    let found = table.get(key, limit, hash);
                    if matches!(found, Ok(Some(_))) {
                        reach(Point::RowRead);
                    }
                    found
                };
                let found = catch_panic(get)
                    .map_err(|_| damage(&table.path, "the block is malformed"))?
                    .map_err(|error| super::manifest::error(&table.path, error))?;
                if let Some(row) = found {
                    let invalid = |_| damage(&table.path, "a packed value is malformed");
                    let (sequence, is_dead) = (row.key.seqno, row.is_tombstone());
                    let value = (!is_dead).then(|| unpacking.unpack(row.value.into())).transpose();
                    return Ok(Some(Version { sequence, value: value.map_err(invalid)? }));
                }
            }
            Ok(None)
        });
        // The library's iterator over all runs does not report the rows that it walks over.
        let runs = Box::new(move |bounds: &Bounds| -> Vec<DiskRows> {
            let slice = |key: &Bytes| UserKey::from(key.clone());
            let bounds = (bounds.0.as_ref().map(slice), bounds.1.as_ref().map(slice));
            let runs = ranged.iter_levels().flat_map(|level| level.iter());
            let overlapping = runs.filter_map(|run| {
                let (first, last) = run.range_overlap_indexes(&bounds)?;
                let (run, bounds) = (Arc::clone(run), bounds.clone());
                let rows = (first..=last).flat_map(move |table| run[table].range(bounds.clone()));
                Some(Box::new(rows) as DiskRows)
            });
            overlapping.collect()
        });
        View { active, sealed, level0_runs, dead_walked_on_disk, files, packing, tables, runs }
    }

    /// Returns the newest version of a key in memory that is not newer than `sequence`.
    pub fn in_memory(&self, key: &[u8], hash: u32, sequence: u64) -> Option<Version> {
        self.memtables().find_map(|table| table.get(key, hash, sequence))
    }

    /// Returns the newest version of a key on disk that is not newer than `sequence`.
    pub fn on_disk(&self, key: &[u8], sequence: u64) -> Result<Version, StoreError> {
        let limit = sequence + 1; // the library's limits are exclusive
        let found = (self.tables)(key, limit)?;
        Ok(found.unwrap_or(Version { sequence: 0, value: None }))
    }

    /// Returns the tables in memory, newest first.
    pub fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.active).chain(self.sealed.iter().rev())
    }

    /// Returns the runs on disk that may hold rows between bounds, newest first.
    pub fn runs_on_disk(&self, bounds: &Bounds) -> Vec<DiskRows> {
        (self.runs)(bounds)
    }

    /// Returns true if range reads have passed so many dead rows in memory that the active table
    /// should be flushed for that. `active_bytes_max`: the size at which it is sealed.
    pub fn has_many_dead_rows(&self, active_bytes_max: u64) -> bool {
        let dead_walked = self.active.dead_walked.load(Ordering::Relaxed);
        // The smaller the table, the more dead rows must be walked before a flush; but even a tiny
        // table without writes is flushed at last.
        let paid = dead_walked.saturating_mul(self.active.bytes());
        dead_walked >= DEAD_ROWS_WALKED_MIN
            && dead_walked * ROWS_WRITTEN_PER_DEAD_ROW > self.active.rows() as u64
            && paid >= DEAD_ROWS_WALKED_MIN * (active_bytes_max / EARLY_FLUSH_DIVISOR)
            && self.level0_runs < EARLY_FLUSH_RUNS
    }

    /// Returns the bytes of the tables in memory.
    pub fn memory_bytes(&self) -> u64 {
        self.memtables().map(|table| table.bytes()).sum()
    }
}

/// Returns a function that returns true if a current table on disk may hold a row or a tombstone of
/// a key. It reads the filters, which are in memory: for one absent key in a hundred it returns
/// true.
pub(super) fn may_be_on_disk(tree: &Tree) -> impl Fn(&[u8]) -> bool + use<> {
    let version = tree.current_version();
    move |key| {
        let hash = Bloom::get_hash(key);
        let mut runs = version.iter_levels().flat_map(|level| level.iter());
        runs.any(|run| {
            let filter = run.get_for_key(key).map(|table| &table.pinned_filter_block);
            let may_contain =
                |filter: &FilterBlock| filter.maybe_contains_hash(hash).unwrap_or(true);
            filter.is_some_and(|filter| filter.as_ref().is_none_or(may_contain))
        })
    }
}

/// Returns true if no key can lie between the bounds.
pub(super) fn is_empty_range((low, high): &Bounds) -> bool {
    match (low, high) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(low), Bound::Included(high)) => low > high,
        (Bound::Included(low) | Bound::Excluded(low), Bound::Excluded(high))
        | (Bound::Excluded(low), Bound::Included(high)) => low >= high,
    }
}

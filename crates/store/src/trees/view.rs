//! View of a reader: the tables of one moment.
//!
//! The crate below has such a thing too, for the tables on disk, but finds it by number in a list
//! that keeps every table made since the oldest reader began. Here each reader holds its own view
//! and nothing else.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use lsm_tree::table::filter::block::FilterBlock;
use lsm_tree::table::filter::standard_bloom::Builder as Bloom;
use lsm_tree::{AbstractTree, InternalValue, SeqNo, TableId, Tree, UserKey};

use super::manifest::damage;
use super::memtable::Memtable;
use super::packed::unpack;
use super::{FLUSHED_EARLY, LEVEL0_RUNS_FEW, ROWS_IN_VAIN_MIN, ROWS_WRITTEN_PER_ROW_IN_VAIN};
use crate::StoreError;
use crate::failpoint::{Point, reach};
use crate::panics::spared;

/// A version of a row: the number of its batch, and its value. No value means absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    /// The batch; 0 where no row was found.
    pub sequence: u64,
    /// The value.
    pub value: Option<Bytes>,
}

pub(super) type Bounds = (Bound<Bytes>, Bound<Bytes>);
/// Rows of one run of tables on disk, tombstones among them, each key once; values as they are
/// stored there (`packed.rs`).
pub(super) type OnDisk =
    Box<dyn DoubleEndedIterator<Item = lsm_tree::Result<InternalValue>> + Send>;
// The crate does not let its list of tables be named, only used: hence closures.
type ReadPoint = dyn Fn(&[u8], SeqNo) -> Result<Option<Version>, StoreError> + Send + Sync;
type ReadRange = dyn Fn(&Bounds) -> Vec<OnDisk> + Send + Sync;

/// Tables of one moment. Only the active one still grows, by batches that a reader's number hides.
pub(super) struct View {
    /// Takes the batches.
    pub active: Arc<Memtable>,
    /// Waits for flush, oldest first.
    pub sealed: Vec<Arc<Memtable>>,
    /// Unmerged runs on disk.
    pub level0_runs: usize,
    /// Number of dead rows on disk that range reads passed since a drain last began.
    pub in_vain_on_disk: Arc<AtomicU64>,
    /// Table files that it may read.
    pub files: Vec<TableId>,
    tables: Box<ReadPoint>,
    runs: Box<ReadRange>,
}

impl View {
    /// These tables in memory, and those on disk as they are now. A row that is in both is
    /// harmless.
    pub fn capture(
        tree: &Tree,
        active: Arc<Memtable>,
        sealed: Vec<Arc<Memtable>>,
        in_vain_on_disk: Arc<AtomicU64>,
    ) -> View {
        let version = tree.current_version();
        let ranged = version.clone();
        let level0_runs = version.l0().run_count();
        let files = version.iter_tables().map(|table| table.id()).collect();
        let tables = Box::new(move |key: &[u8], limit: SeqNo| {
            let hash = Bloom::get_hash(key);
            let runs = version.iter_levels().flat_map(|level| level.iter());
            for table in runs.filter_map(|run| run.get_for_key(key)) {
                // A table that was checked block by block does not panic; one that does is damaged.
                let get = || {
                    let found = table.get(key, limit, hash);
                    if matches!(found, Ok(Some(_))) {
                        reach(Point::RowRead);
                    }
                    found
                };
                let found = spared(get)
                    .map_err(|_| damage(&table.path, "the block has no sense"))?
                    .map_err(|error| super::manifest::error(&table.path, error))?;
                if let Some(row) = found {
                    let no_sense = |_| damage(&table.path, "a packed value has no sense");
                    let (sequence, dead) = (row.key.seqno, row.is_tombstone());
                    let value = (!dead).then(|| unpack(row.value.into())).transpose();
                    return Ok(Some(Version { sequence, value: value.map_err(no_sense)? }));
                }
            }
            Ok(None)
        });
        // The crate has an iterator over all of them, which keeps to itself what it walks over.
        let runs = Box::new(move |bounds: &Bounds| -> Vec<OnDisk> {
            let slice = |key: &Bytes| UserKey::from(key.clone());
            let bounds = (bounds.0.as_ref().map(slice), bounds.1.as_ref().map(slice));
            let runs = ranged.iter_levels().flat_map(|level| level.iter());
            let met = runs.filter_map(|run| {
                let (first, last) = run.range_overlap_indexes(&bounds)?;
                let (run, bounds) = (Arc::clone(run), bounds.clone());
                let rows = (first..=last).flat_map(move |table| run[table].range(bounds.clone()));
                Some(Box::new(rows) as OnDisk)
            });
            met.collect()
        });
        View { active, sealed, level0_runs, in_vain_on_disk, files, tables, runs }
    }

    /// The newest version of a key in memory that is not newer than `sequence`.
    pub fn in_memory(&self, key: &[u8], hash: u32, sequence: u64) -> Option<Version> {
        self.in_order().find_map(|table| table.get(key, hash, sequence))
    }

    /// The newest version of a key on disk that is not newer than `sequence`.
    pub fn on_disk(&self, key: &[u8], sequence: u64) -> Result<Version, StoreError> {
        let limit = sequence + 1; // the crate's limits are exclusive
        let found = (self.tables)(key, limit)?;
        Ok(found.unwrap_or(Version { sequence: 0, value: None }))
    }

    /// Tables in memory, newest first.
    pub fn in_order(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.active).chain(self.sealed.iter().rev())
    }

    /// The runs on disk that may hold rows between bounds, newest first.
    pub fn runs_on_disk(&self, bounds: &Bounds) -> Vec<OnDisk> {
        (self.runs)(bounds)
    }

    /// Returns true if range reads have passed so many dead rows in memory that the active table
    /// should be flushed for that. `active_bytes_max`: the size at which it is sealed.
    pub fn has_dead_rows_in_the_way(&self, active_bytes_max: u64) -> bool {
        let in_vain = self.active.in_vain.load(Ordering::Relaxed);
        // The smaller the table, the more walks pay for its flush; but however small it is, and
        // though nobody writes, its dead rows do not stay for ever.
        let paid = in_vain.saturating_mul(self.active.bytes());
        in_vain >= ROWS_IN_VAIN_MIN
            && in_vain * ROWS_WRITTEN_PER_ROW_IN_VAIN > self.active.rows() as u64
            && paid >= ROWS_IN_VAIN_MIN * (active_bytes_max / FLUSHED_EARLY)
            && self.level0_runs < LEVEL0_RUNS_FEW
    }

    /// Bytes in memory.
    pub fn memory_bytes(&self) -> u64 {
        self.in_order().map(|table| table.bytes()).sum()
    }
}

/// Returns a function that tells for a key whether a table on disk, as they are now, may hold a row
/// or a tombstone of it. It reads the filters, which are in memory: one time in a hundred it
/// returns true for a key that none has.
pub(super) fn may_be_on_disk(tree: &Tree) -> impl Fn(&[u8]) -> bool + use<> {
    let version = tree.current_version();
    move |key| {
        let hash = Bloom::get_hash(key);
        let mut runs = version.iter_levels().flat_map(|level| level.iter());
        runs.any(|run| {
            let filter = run.get_for_key(key).map(|table| &table.pinned_filter_block);
            let asked = |filter: &FilterBlock| filter.maybe_contains_hash(hash).unwrap_or(true);
            filter.is_some_and(|filter| filter.as_ref().is_none_or(asked))
        })
    }
}

/// Returns true if no key can lie between the bounds.
pub(super) fn crossed((low, high): &Bounds) -> bool {
    match (low, high) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(low), Bound::Included(high)) => low > high,
        (Bound::Included(low) | Bound::Excluded(low), Bound::Excluded(high))
        | (Bound::Excluded(low), Bound::Included(high)) => low >= high,
    }
}

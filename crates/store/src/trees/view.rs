//! View of a reader: the tables at one moment, in memory and on disk.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use lsm_tree::InternalValue;

use super::memtable::Memtable;
use super::merge_policy::FAN_IN;
use super::run_list::RunList;
use super::{DEAD_ROWS_WALKED_MIN, EARLY_FLUSH_DIVISOR, ROWS_WRITTEN_PER_DEAD_ROW};
use crate::StoreError;

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

/// Tables at one moment. Only the active one still grows, by batches above the reader's number.
pub(super) struct View {
    /// Table that receives batches.
    pub active: Arc<Memtable>,
    /// Tables that wait for flush, oldest first.
    pub sealed: Vec<Arc<Memtable>>,
    /// Runs on disk.
    pub disk: Arc<RunList>,
    /// Number of dead rows on disk that range reads passed since all runs were last merged.
    pub dead_walked_on_disk: Arc<AtomicU64>,
}

impl View {
    /// Returns the newest version of a key in memory that is not newer than `sequence`.
    pub fn in_memory(&self, key: &[u8], hash: u32, sequence: u64) -> Option<Version> {
        self.memtables().find_map(|table| table.get(key, hash, sequence))
    }

    /// Returns the newest version of a key on disk that is not newer than `sequence`.
    pub fn on_disk(&self, key: &[u8], sequence: u64) -> Result<Version, StoreError> {
        let limit = sequence + 1; // the library's limits are exclusive
        let found = self.disk.get(key, limit)?;
        Ok(found.unwrap_or(Version { sequence: 0, value: None }))
    }

    /// Returns the tables in memory, newest first.
    pub fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.active).chain(self.sealed.iter().rev())
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
            && self.disk.counts.unmerged < FAN_IN
    }

    /// Returns the bytes of the tables in memory.
    pub fn memory_bytes(&self) -> u64 {
        self.memtables().map(|table| table.bytes()).sum()
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

//! The local store: one ordered tree for the node, filled by one writer from the log.
//!
//! The tree keeps every change under the number of the batch that made it. A batch is inserted
//! completely into the active table in memory (`memtable.rs`, `sorted_run.rs`) and then *published*
//! by moving one number, so a reader sees all of it or none. A table that has grown is *sealed*
//! (between batches only), written to disk by *flush*, and merged with older ones by *compaction*.
//! Flushed rows survive any crash; all others are replayed from the log.
//!
//! A reader reads a *view*: the tables as they were at one moment, immutable but for the active
//! one, plus the newest published number. Because a view keeps its tables alive, flush and
//! compaction may drop superseded rows at once: a reader that needs them still holds the tables
//! they are in. Invariant: every row in a sealed table or on disk has `sequence <= published`.
//!
//! Promises: a reader never sees part of a batch, nor, once it saw a batch, anything older; after a
//! crash the tree holds exactly the batches up to a flush; damaged blocks are errors, never values.
//! Never: keeps a journal of its own; starts a thread; reads a clock; makes a writer wait for a
//! long read.
//! Read next: `lsm.rs`, then `point_reads.rs`, `view.rs`, `memtable.rs`, `resident_tables.rs`,
//! `cache.rs`, `run_list.rs`, `compaction.rs`, `merging.rs`, `merge_policy.rs`, `pressure.rs`,
//! `ingest.rs`; `snapshot.rs` and `spans.rs` for range reads.

pub(crate) mod archive;
mod cache;
mod checkpoint;
mod compaction;
mod current_list;
mod heads;
mod ingest;
mod lsm;
pub(crate) mod manifest;
mod memory;
mod memtable;
mod merge_policy;
mod merging;
mod packed;
mod point_reads;
mod pressure;
mod resident_tables;
mod run_list;
mod settings;
mod snapshot;
mod sorted_run;
mod span;
mod span_scan;
mod spanfile;
mod spans;
mod stream;
mod table_writer;
mod view;

#[cfg(test)]
mod tests;

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

pub use ingest::Ingest;
pub use lsm::LsmTrees;
pub use memory::MemoryTrees;
pub use pressure::{PAUSE_MAX, PAUSE_PER_MIB_MAX, Pressure};
pub use settings::TreeSettings;
pub use stream::Chunk;

use crate::StoreError;

/// Longest key of the tree, in bytes; a row's key has the owner before the client's key.
pub const TREE_KEY_BYTES_MAX: usize = u16::MAX as usize;

/// One change of a batch. A later change of the same key in one batch wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowChange {
    /// Sets the key (1 to `TREE_KEY_BYTES_MAX` bytes) to this value.
    Put(Bytes, Bytes),
    /// Removes the key.
    Remove(Bytes),
}

impl RowChange {
    /// Returns the key of the changed row.
    pub fn key(&self) -> &Bytes {
        match self {
            RowChange::Put(key, _) | RowChange::Remove(key) => key,
        }
    }
}

/// A key and its value.
pub type TreeRow = (Bytes, Bytes);

/// Rows in the requested order. An error ends the iterator.
pub type Rows<'a> = Box<dyn Iterator<Item = Result<TreeRow, StoreError>> + Send + 'a>;

/// Visitor of the values that [`Trees::get_each`] reads: called once for each key, in their order.
/// `None`: there is no row. It returns false to end the call, and must not call the trees: the
/// writer may wait for it.
pub type ValueVisitor<'a> = dyn FnMut(Result<Option<&Bytes>, StoreError>) -> bool + 'a;

/// Ordered rows of the whole node: read by many, written by one. An error from a call that writes
/// means that the node has to stop, except `Full`, after which it may be repeated.
pub trait Trees: Send + Sync {
    /// Applies a batch and publishes it atomically. Returns its number, which only increases (with
    /// gaps).
    fn apply(&self, batch: &mut dyn Iterator<Item = RowChange>) -> Result<u64, StoreError>;

    /// Returns the newest published value.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError>;

    /// Returns the newest published value if it is in memory, for callers that must not wait for
    /// the disk. `None`: it may be on disk, or is unreadable.
    fn get_in_memory(&self, key: &[u8]) -> Option<Option<Bytes>> {
        self.get(key).ok()
    }

    /// Returns the newest published value of each key, as one `get` after the other would. Faster
    /// than these for rows in memory, and copies no value.
    fn get_each(&self, keys: &[&[u8]], visit: &mut ValueVisitor<'_>) {
        for key in keys {
            let goes_on = match self.get(key) {
                Ok(value) => visit(Ok(value.as_ref())),
                Err(error) => visit(Err(error)),
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Reads a row that the caller is about to write. A row read from disk is not cached.
    fn get_for_update(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.get(key)
    }

    /// Takes a snapshot of the rows, for long reads. It keeps the tables alive that it reads (at
    /// most two in memory, and files), and none that is written later.
    fn snapshot(&self) -> Box<dyn Snapshot>;

    /// Returns the bytes in tables that are not on disk yet: the active and the sealed ones.
    fn memory_bytes(&self) -> u64;

    /// Returns the write pressure: how far flushes and merges lag. The writer reads it after every
    /// batch.
    fn pressure(&self) -> Pressure;

    /// Seals the active table; only between batches. Returns false if it was empty.
    fn rotate(&self) -> Result<bool, StoreError>;

    /// Writes all sealed tables and syncs them: the durable point. Blocks; for a background thread.
    fn flush(&self) -> Result<(), StoreError>;

    /// Runs one merge, if one is due. Blocks, for as long as a merge of everything takes; for a
    /// background thread. Returns true if the tree changed, so that another merge may be due.
    fn compact(&self) -> Result<bool, StoreError>;

    /// Runs one merge of bounded size, if one is due: the runs of flushes, which never wait for a
    /// large merge. Blocks; for another background thread. Returns true if the tree changed.
    fn compact_small(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Sets the disk space that merges may take for their output, in bytes. A merge frees the space
    /// of its input only when it is complete; one that needs more does not begin. Unlimited at
    /// first.
    fn limit_merges(&self, _bytes_max: u64) {}

    /// Ends running merges soon, and prevents later ones: what they have written is discarded.
    fn cancel_merges(&self) {}

    /// Removes every row under the prefix and frees the space, durably. May be repeated, and must
    /// be after a crash during the call. The caller prevents writes under the prefix meanwhile.
    /// Blocks; for a background thread.
    fn drop_prefix(&self, prefix: &[u8]) -> Result<(), StoreError>;

    /// Begins an installation: rows that will replace those under the prefix. Until
    /// [`Ingest::switch`] readers see none of them, and a crash removes them. A write under the
    /// prefix meanwhile makes the switch fail.
    fn begin_install(self: Arc<Self>, prefix: &[u8]) -> Result<Box<dyn Ingest>, StoreError>;

    /// Creates a separate store of all durable rows at `target` (absent or empty, on the same file
    /// system). The caller rotates and flushes first to include all rows. Table files are
    /// hard-linked, not copied.
    fn checkpoint(&self, target: &Path) -> Result<(), StoreError>;

    /// Returns statistics for operators.
    fn statistics(&self) -> TreeStatistics;
}

/// Rows at the time of the snapshot.
pub trait Snapshot: Send {
    /// Returns the value at that time.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError>;

    /// Returns the rows between two bounds, ascending or (`reverse`) descending. Crossed bounds
    /// hold no row.
    fn range(&self, low: Bound<Bytes>, high: Bound<Bytes>, reverse: bool) -> Rows<'_>;
}

/// Returns the hash with which tables in memory find a key.
fn hash(key: &[u8], salt: u64) -> u32 {
    xxhash_rust::xxh3::xxh3_64_with_seed(key, salt) as u32
}

/// Minimum number of dead rows walked over before a flush or merge for their sake: the syncs of one
/// cost about as much.
const DEAD_ROWS_WALKED_MIN: u64 = 25_000;
/// Number of rows that such a flush or merge may write for each dead row walked over. Writing a row
/// costs more than a step over it, but ranges must walk at most two rows for each that they return,
/// and with a 1 here an everyday load walked two and a half (`tests/everyday.rs`).
const ROWS_WRITTEN_PER_DEAD_ROW: u64 = 2;
/// Divisor of the due size: an active table below that size is flushed early only after
/// proportionally more dead rows were walked over. Otherwise many small tables would be written.
const EARLY_FLUSH_DIVISOR: u64 = 16;

/// Statistics of the trees, for operators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeStatistics {
    /// Bytes of table files in use by the newest view.
    pub disk_bytes: u64,
    /// Bytes in active and sealed tables.
    pub memory_bytes: u64,
    /// Rows, superseded ones and tombstones counted: an upper bound, cheap.
    pub rows_estimated: u64,
    /// Tombstones on disk.
    pub tombstones: u64,
    /// Rows in the row cache.
    pub cached_rows: u64,
    /// Bytes of the row cache and of the resident flushed tables.
    pub cached_bytes: u64,
    /// Point reads that the row cache answered since the start.
    pub cache_hits: u64,
    /// Point reads that the row cache did not answer since the start.
    pub cache_misses: u64,
    /// Bytes of the block cache.
    pub block_cache_bytes: u64,
    /// Table files.
    pub tables: u64,
    /// Tables that wait for `flush`.
    pub sealed_tables: u64,
    /// Runs on disk that no merge has written yet.
    pub unmerged_runs: u64,
    /// Runs on disk: a point read asks the filter of each.
    pub runs: u64,
    /// Bytes of runs whose merge is due.
    pub merge_debt_bytes: u64,
    /// Number of the newest published batch.
    pub sequence: u64,
    /// Rows that range reads walked over since the start. Includes tombstones, and the superseded
    /// versions that a search for the next key compares.
    pub rows_walked: u64,
    /// Rows that range reads returned since the start.
    pub rows_returned: u64,
}

//! Memtable: rows that are not on disk yet, found by hash, and sorted only when a range is read.
//!
//! Most rows are written, read by key a few times, and flushed. An ordered table would have to
//! search for the position of each among all others, which costs ten times more than all other work
//! for the row. So rows are kept in the order of insertion, in chunks that never change once they
//! are full, with a hash table over them. A range sorts the chunks added since the last range into
//! *runs*; small runs are merged into larger ones, so that each row is sorted only a few times and
//! a range reads few runs.
//!
//! There is one writer. Rows carry the number of their batch, and a reader requests rows up to a
//! number: this alone hides batches that are being inserted.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use bytes::Bytes;
use hashbrown::HashTable;

use super::RowChange;
use super::sorted_run::{Chunk, Run, RunEntry};
use super::view::{Bounds, Version};

/// Number of rows in a chunk. A range scans the rows of the last, unfinished one.
pub(super) const CHUNK_ROWS: usize = 128;
/// Maximum length of a merged run, in chunks: bounds the time for which a range waits for sorting.
const RUN_CHUNKS_MAX: usize = 512;
/// Number of rows inserted under one lock: bounds the time for which readers wait.
const ROWS_PER_LOCK: usize = 64;
/// Bytes that a row costs in addition to its key and value: entry, hash slot, position in a run.
const ROW_OVERHEAD_BYTES: u64 = 108;
/// Marks the absence of an older row.
const NO_ROW: u32 = u32::MAX;
/// Maximum number of rows examined in a search for recent writes.
const EXAMINED_ROWS_MAX: usize = 4_096;

/// Place of a row among the tables that a reader searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowPlace {
    /// Number of the table, by the reader's count.
    pub table: usize,
    /// Position of the row in it.
    pub row: u32,
}

/// A table in memory: the active or a sealed one.
pub(super) struct Memtable {
    state: RwLock<TableState>,
    /// The runs, oldest first; together they cover a part of the full chunks, from the first.
    runs: Mutex<Vec<Arc<Run>>>,
    bytes: AtomicU64,
    /// Number of dead rows that range reads passed while this was the active table.
    pub dead_walked: AtomicU64,
}

/// Rows of the table, behind its lock.
struct TableState {
    full: Vec<Arc<Chunk>>,
    /// The last, unfinished chunk.
    tail: Chunk,
    newest: HashTable<TableSlot>,
    /// Tombstones that no scan for dead spans has examined yet.
    removed: Vec<u32>,
}

/// The newest row of a key.
struct TableSlot {
    hash: u32,
    row: u32,
}

impl Memtable {
    /// Creates an empty table.
    pub fn new() -> Memtable {
        let (full, tail, newest) = (Vec::new(), Chunk::new(), HashTable::new());
        let removed = Vec::new();
        Memtable {
            state: RwLock::new(TableState { full, tail, newest, removed }),
            runs: Mutex::new(Vec::new()),
            bytes: AtomicU64::new(0),
            dead_walked: AtomicU64::new(0),
        }
    }

    /// Inserts rows of one batch, whose number is not below any earlier one. `hash` is the function
    /// of which `get` receives a result.
    pub fn insert(
        &self,
        sequence: u64,
        changes: &mut dyn Iterator<Item = RowChange>,
        hash: impl Fn(&[u8]) -> u32,
    ) {
        let mut bytes = 0;
        let mut pending = Vec::with_capacity(ROWS_PER_LOCK);
        loop {
            pending.extend(Iterator::take(&mut *changes, ROWS_PER_LOCK).map(|change| {
                let (key, value) = match change {
                    RowChange::Put(key, value) => (key, Some(value)),
                    RowChange::Remove(key) => (key, None),
                };
                bytes += (key.len() + value.as_ref().map_or(0, Bytes::len)) as u64;
                (hash(&key), RunEntry { key, value, sequence, older: NO_ROW })
            }));
            let inserted = pending.len();
            bytes += inserted as u64 * ROW_OVERHEAD_BYTES;
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            state.prefetch(pending.iter().map(|(hash, _)| *hash));
            pending.drain(..).for_each(|(hash, entry)| state.insert_row(hash, entry));
            if inserted < ROWS_PER_LOCK {
                break;
            }
        }
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the newest row of a key up to batch `sequence`; a removed one has no value.
    pub fn get(&self, key: &[u8], hash: u32, sequence: u64) -> Option<Version> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let entry = state.entry(state.find_visible(key, hash, sequence)?);
        Some(Version { sequence: entry.sequence, value: entry.value.clone() })
    }

    /// Searches the newest row up to batch `sequence` of each key that has no place yet, and sets
    /// its place in this `table`. Loads all rows before it uses one. A row keeps its place.
    pub fn find_each(
        &self,
        table: usize,
        keys: &[(&[u8], u32)],
        sequence: u64,
        places: &mut [Option<RowPlace>],
    ) {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        if state.newest.is_empty() {
            return;
        }
        let missing = || keys.iter().zip(&*places).filter(|(_, place)| place.is_none());
        state.prefetch_values(missing().map(|((_, hash), _)| *hash));
        for ((key, hash), place) in keys.iter().zip(places) {
            if place.is_none() {
                let row = state.find_visible(key, *hash, sequence);
                *place = row.map(|row| RowPlace { table, row });
            }
        }
    }

    /// Calls `read` with the value of a row that was found here. `None`: the row was removed.
    pub fn with_value<T>(&self, row: u32, read: impl FnOnce(Option<&Bytes>) -> T) -> T {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        read(state.entry(row).value.as_ref())
    }

    /// Returns the rows in order, as runs, newest first: at least those between the bounds up to
    /// `sequence`.
    pub fn runs(&self, bounds: &Bounds, sequence: u64) -> Vec<Arc<Run>> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let covered: usize = runs.iter().map(|run| run.chunks().len()).sum();
        let (unsorted, tail) = {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            let is_requested =
                |entry: &&RunEntry| entry.sequence <= sequence && is_within(bounds, &entry.key);
            let tail: Chunk = state.tail.iter().filter(is_requested).cloned().collect();
            (state.full[covered..].to_vec(), tail)
        };
        for chunks in unsorted.chunks(RUN_CHUNKS_MAX) {
            let run = Run::sorted(chunks.to_vec(), runs.last());
            runs.push(Arc::new(run));
            merge_last_runs(&mut runs);
        }
        let tail =
            (!tail.is_empty()).then(|| Arc::new(Run::sorted(vec![Arc::new(tail)], runs.last())));
        tail.into_iter().chain(runs.iter().rev().cloned()).collect()
    }

    /// Returns the newest row of every key as one run, for a sealed table.
    pub fn newest_rows(&self) -> Run {
        let similar = self.runs.lock().unwrap_or_else(PoisonError::into_inner).last().cloned();
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let mut chunks = state.full.clone();
        if !state.tail.is_empty() {
            chunks.push(Arc::new(state.tail.clone()));
        }
        let mut rows: Vec<u32> = state.newest.iter().map(|slot| slot.row).collect();
        drop(state);
        rows.sort_unstable(); // the order in memory, for sequential reads
        Run::of(chunks, rows, similar.as_ref())
    }

    /// Returns true if a batch after `sequence` put a row between two keys. Also true if too many
    /// rows were written since for a search.
    pub fn has_put_since(&self, sequence: u64, start: &[u8], end: &[u8]) -> bool {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        for (examined, row) in (0..state.rows() as u32).rev().enumerate() {
            let RunEntry { key, value, sequence: written, .. } = state.entry(row);
            if *written <= sequence {
                return false;
            }
            let is_put_between = value.is_some() && key >= start && key < end;
            if is_put_between || examined >= EXAMINED_ROWS_MAX {
                return true;
            }
        }
        false
    }

    /// Returns the keys removed since the last call, the smallest on top; none while they are fewer
    /// than `count_min`. A heap, because mostly only the first few are used.
    pub fn take_removed_keys(&self, count_min: usize) -> BinaryHeap<Reverse<Bytes>> {
        let is_few = |state: &TableState| state.removed.len() < count_min;
        if is_few(&self.state.read().unwrap_or_else(PoisonError::into_inner)) {
            return BinaryHeap::new();
        }
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let rows = std::mem::take(&mut state.removed);
        drop(state);
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let key = |row: &u32| Reverse(state.entry(*row).key.clone());
        let keys: Vec<_> = rows.iter().map(key).collect();
        drop(state);
        keys.into()
    }

    /// Returns true if most rows are the newest of their key.
    pub fn is_mostly_live(&self) -> bool {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.newest.len() * 2 > state.rows()
    }

    /// Approximate size in memory, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of rows, including superseded and removed ones.
    pub fn rows(&self) -> usize {
        self.state.read().unwrap_or_else(PoisonError::into_inner).rows()
    }
}

impl TableState {
    fn rows(&self) -> usize {
        self.full.len() * CHUNK_ROWS + self.tail.len()
    }

    fn entry(&self, row: u32) -> &RunEntry {
        entry_of(&self.full, &self.tail, row)
    }

    fn find(&self, key: &[u8], hash: u32) -> Option<u32> {
        let is_same_key = |slot: &TableSlot| slot.hash == hash && self.entry(slot.row).key == key;
        self.newest.find(mix_hash(hash), is_same_key).map(|slot| slot.row)
    }

    /// Returns the newest row of a key up to batch `sequence`.
    fn find_visible(&self, key: &[u8], hash: u32, sequence: u64) -> Option<u32> {
        let mut at = self.find(key, hash)?;
        while at != NO_ROW {
            let entry = self.entry(at);
            if entry.sequence <= sequence {
                return Some(at);
            }
            at = entry.older;
        }
        None
    }

    /// Loads the rows with these hashes, as `prefetch` does, and the ends of their values.
    fn prefetch_values(&self, hashes: impl Iterator<Item = u32>) {
        for hash in hashes {
            let row = self.newest.find(mix_hash(hash), |slot| slot.hash == hash);
            let entry = row.map(|slot| self.entry(slot.row));
            let value_end = |entry: &RunEntry| entry.value.as_ref()?.last().copied();
            black_box(entry.map(|entry| (entry.key.first().copied(), value_end(entry))));
        }
    }

    /// Loads the rows that will be superseded, which are scattered in memory: the processor loads
    /// several at once as long as no other work depends on each.
    fn prefetch(&self, hashes: impl Iterator<Item = u32>) {
        for hash in hashes {
            let older = self.newest.find(mix_hash(hash), |slot| slot.hash == hash);
            black_box(older.and_then(|slot| self.entry(slot.row).key.first().copied()));
        }
    }

    fn insert_row(&mut self, hash: u32, mut entry: RunEntry) {
        let row =
            u32::try_from(self.rows()).expect("a table is sealed long before it has so many rows");
        if entry.value.is_none() {
            self.removed.push(row);
        }
        let (full, tail) = (&self.full, &self.tail);
        let is_same_key =
            |slot: &TableSlot| slot.hash == hash && entry_of(full, tail, slot.row).key == entry.key;
        match self.newest.find_mut(mix_hash(hash), is_same_key) {
            Some(slot) => entry.older = std::mem::replace(&mut slot.row, row),
            None => {
                let slot = TableSlot { hash, row };
                self.newest.insert_unique(mix_hash(hash), slot, |slot| mix_hash(slot.hash));
            }
        }
        self.tail.push(entry);
        if self.tail.len() == CHUNK_ROWS {
            let full = std::mem::replace(&mut self.tail, Chunk::with_capacity(CHUNK_ROWS));
            self.full.push(Arc::new(full));
        }
    }
}

fn entry_of<'a>(full: &'a [Arc<Chunk>], tail: &'a [RunEntry], row: u32) -> &'a RunEntry {
    let (chunk, at) = (row as usize / CHUNK_ROWS, row as usize % CHUNK_ROWS);
    full.get(chunk).map_or_else(|| &tail[at], |chunk| &chunk[at])
}

/// Merges the last runs while they are of similar length. As in a binary counter, each row takes
/// part in a logarithmic number of merges.
fn merge_last_runs(runs: &mut Vec<Arc<Run>>) {
    while let [.., one, two] = &runs[..] {
        let (first, second) = (one.chunks().len(), two.chunks().len());
        if first > second || first + second > RUN_CHUNKS_MAX {
            return;
        }
        let merged = Run::merged(one, two);
        runs.truncate(runs.len() - 2);
        runs.push(Arc::new(merged));
    }
}

/// Mixes a 32-bit hash into 64 bits, because the hash table uses the high ones too.
fn mix_hash(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn is_within((low, high): &Bounds, key: &Bytes) -> bool {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let is_above_low = match low {
        Included(low) => key >= low,
        Excluded(low) => key > low,
        Unbounded => true,
    };
    is_above_low
        && match high {
            Included(high) => key <= high,
            Excluded(high) => key < high,
            Unbounded => true,
        }
}

//! Rows that are not on disk yet: found by hash, and sorted only when a range is read.
//!
//! Most rows are written, read by key a few times, and flushed. An ordered table makes each of them
//! search its place among all others, which costs ten times more than all else that is done for the
//! row. So rows are kept in the order they came, in chunks that never change once they are full,
//! with a hash table over them. A range sorts the chunks that came since the last one into *runs*;
//! small runs are merged into larger ones, so that each row is sorted only a few times and a range
//! meets few runs.
//!
//! There is one writer. Rows carry the number of their batch, and a reader asks for rows up to a
//! number: batches that are being inserted are hidden by that alone.

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

/// Rows of a chunk. A range looks through the rows of the last, unfinished one.
pub(super) const CHUNK_ROWS: usize = 128;
/// Longest run made by merging, in chunks: bounds how long a range can be held up by sorting.
const RUN_CHUNKS_MAX: usize = 512;
/// Rows inserted under one lock: readers wait no longer than that.
const ROWS_PER_TURN: usize = 64;
/// Bytes that a row costs beside its key and value: entry, hash slot, place in a run.
const ROW_OVERHEAD_BYTES: u64 = 108;
/// Marks that there is no older row.
const NONE: u32 = u32::MAX;
/// Rows looked at to find whether one was written lately.
const LATEST_ROWS_MAX: usize = 4_096;

/// The table.
pub(super) struct Memtable {
    growing: RwLock<Growing>,
    /// The runs, oldest first; together they cover a part of the full chunks, from the first.
    runs: Mutex<Vec<Arc<Run>>>,
    bytes: AtomicU64,
    /// Number of dead rows that range reads passed while this was the active table.
    pub in_vain: AtomicU64,
}

struct Growing {
    full: Vec<Arc<Chunk>>,
    tail: Chunk,
    newest: HashTable<TableSlot>,
    /// Rows that removed a key and were not studied yet.
    removed: Vec<u32>,
}

/// The newest row of a key.
struct TableSlot {
    hash: u32,
    row: u32,
}

impl Memtable {
    /// An empty table.
    pub fn new() -> Memtable {
        let (full, tail, newest) = (Vec::new(), Chunk::new(), HashTable::new());
        let removed = Vec::new();
        Memtable {
            growing: RwLock::new(Growing { full, tail, newest, removed }),
            runs: Mutex::new(Vec::new()),
            bytes: AtomicU64::new(0),
            in_vain: AtomicU64::new(0),
        }
    }

    /// Inserts rows of one batch, whose number is not below any before. `hash` is that of `get`.
    pub fn insert(
        &self,
        sequence: u64,
        changes: &mut dyn Iterator<Item = RowChange>,
        hash: impl Fn(&[u8]) -> u32,
    ) {
        let mut bytes = 0;
        let mut turn = Vec::with_capacity(ROWS_PER_TURN);
        loop {
            turn.extend(Iterator::take(&mut *changes, ROWS_PER_TURN).map(|change| {
                let (key, value) = match change {
                    RowChange::Put(key, value) => (key, Some(value)),
                    RowChange::Remove(key) => (key, None),
                };
                bytes += (key.len() + value.as_ref().map_or(0, Bytes::len)) as u64;
                (hash(&key), RunEntry { key, value, sequence, older: NONE })
            }));
            let inserted = turn.len();
            bytes += inserted as u64 * ROW_OVERHEAD_BYTES;
            let mut growing = self.growing.write().unwrap_or_else(PoisonError::into_inner);
            growing.fetch(turn.iter().map(|(hash, _)| *hash));
            turn.drain(..).for_each(|(hash, entry)| growing.put(hash, entry));
            if inserted < ROWS_PER_TURN {
                break;
            }
        }
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The newest row of a key that no batch after `sequence` wrote; a removed one has no value.
    pub fn get(&self, key: &[u8], hash: u32, sequence: u64) -> Option<Version> {
        let growing = self.growing.read().unwrap_or_else(PoisonError::into_inner);
        let mut at = growing.find(key, hash)?;
        while at != NONE {
            let entry = growing.entry(at);
            if entry.sequence <= sequence {
                let (sequence, value) = (entry.sequence, entry.value.clone());
                return Some(Version { sequence, value });
            }
            at = entry.older;
        }
        None
    }

    /// Returns the rows in order, as runs, newest first: at least those between the bounds up to
    /// `sequence`.
    pub fn runs(&self, bounds: &Bounds, sequence: u64) -> Vec<Arc<Run>> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let covered: usize = runs.iter().map(|run| run.chunks().len()).sum();
        let (fresh, tail) = {
            let growing = self.growing.read().unwrap_or_else(PoisonError::into_inner);
            let asked =
                |entry: &&RunEntry| entry.sequence <= sequence && within(bounds, &entry.key);
            let tail: Chunk = growing.tail.iter().filter(asked).cloned().collect();
            (growing.full[covered..].to_vec(), tail)
        };
        for chunks in fresh.chunks(RUN_CHUNKS_MAX) {
            let run = Run::sorted(chunks.to_vec(), runs.last());
            runs.push(Arc::new(run));
            merge_last(&mut runs);
        }
        let tail =
            (!tail.is_empty()).then(|| Arc::new(Run::sorted(vec![Arc::new(tail)], runs.last())));
        tail.into_iter().chain(runs.iter().rev().cloned()).collect()
    }

    /// The newest row of every key in one order, for a table that takes no more.
    pub fn whole(&self) -> Run {
        let like = self.runs.lock().unwrap_or_else(PoisonError::into_inner).last().cloned();
        let growing = self.growing.read().unwrap_or_else(PoisonError::into_inner);
        let mut chunks = growing.full.clone();
        if !growing.tail.is_empty() {
            chunks.push(Arc::new(growing.tail.clone()));
        }
        let mut rows: Vec<u32> = growing.newest.iter().map(|slot| slot.row).collect();
        drop(growing);
        rows.sort_unstable(); // as they lie in memory, so that they are read like that
        Run::of(chunks, rows, like.as_ref())
    }

    /// Returns true if a batch after `sequence` put a row between two keys. Also true if so much
    /// was written since that a search would take long.
    pub fn wrote_since(&self, sequence: u64, start: &[u8], end: &[u8]) -> bool {
        let growing = self.growing.read().unwrap_or_else(PoisonError::into_inner);
        for (looked_at, row) in (0..growing.rows() as u32).rev().enumerate() {
            let RunEntry { key, value, sequence: written, .. } = growing.entry(row);
            if *written <= sequence {
                return false;
            }
            let put_there = value.is_some() && key >= start && key < end;
            if put_there || looked_at >= LATEST_ROWS_MAX {
                return true;
            }
        }
        false
    }

    /// Keys that were removed since this was asked last, the first in order on top; none while they
    /// are fewer than `least`. A heap, since mostly only the first few are looked at.
    pub fn removed_lately(&self, least: usize) -> BinaryHeap<Reverse<Bytes>> {
        let few = |growing: &Growing| growing.removed.len() < least;
        if few(&self.growing.read().unwrap_or_else(PoisonError::into_inner)) {
            return BinaryHeap::new();
        }
        let mut growing = self.growing.write().unwrap_or_else(PoisonError::into_inner);
        let lately = std::mem::take(&mut growing.removed);
        drop(growing);
        let growing = self.growing.read().unwrap_or_else(PoisonError::into_inner);
        let key = |row: &u32| Reverse(growing.entry(*row).key.clone());
        let keys: Vec<_> = lately.iter().map(key).collect();
        drop(growing);
        keys.into()
    }

    /// Returns true if most of its rows are the newest of their key.
    pub fn is_mostly_live(&self) -> bool {
        let growing = self.growing.read().unwrap_or_else(PoisonError::into_inner);
        growing.newest.len() * 2 > growing.rows()
    }

    /// Approximate size in memory, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Rows, superseded and removed ones counted.
    pub fn rows(&self) -> usize {
        self.growing.read().unwrap_or_else(PoisonError::into_inner).rows()
    }
}

impl Growing {
    fn rows(&self) -> usize {
        self.full.len() * CHUNK_ROWS + self.tail.len()
    }

    fn entry(&self, row: u32) -> &RunEntry {
        entry_of(&self.full, &self.tail, row)
    }

    fn find(&self, key: &[u8], hash: u32) -> Option<u32> {
        let same = |slot: &TableSlot| slot.hash == hash && self.entry(slot.row).key == key;
        self.newest.find(spread(hash), same).map(|slot| slot.row)
    }

    /// Looks at the rows that will be superseded, which are all over the memory: the processor
    /// waits for several at once as long as nothing else is done with each.
    fn fetch(&self, hashes: impl Iterator<Item = u32>) {
        for hash in hashes {
            let older = self.newest.find(spread(hash), |slot| slot.hash == hash);
            black_box(older.and_then(|slot| self.entry(slot.row).key.first().copied()));
        }
    }

    fn put(&mut self, hash: u32, mut entry: RunEntry) {
        let row =
            u32::try_from(self.rows()).expect("a table is sealed long before it has so many rows");
        if entry.value.is_none() {
            self.removed.push(row);
        }
        let (full, tail) = (&self.full, &self.tail);
        let same =
            |slot: &TableSlot| slot.hash == hash && entry_of(full, tail, slot.row).key == entry.key;
        match self.newest.find_mut(spread(hash), same) {
            Some(slot) => entry.older = std::mem::replace(&mut slot.row, row),
            None => {
                let slot = TableSlot { hash, row };
                self.newest.insert_unique(spread(hash), slot, |slot| spread(slot.hash));
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

/// Merges the last runs while they are of a kind; like a binary counter, each row takes part in a
/// number of merges that grows with the logarithm only.
fn merge_last(runs: &mut Vec<Arc<Run>>) {
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

/// The hash table wants all bits of its hashes to differ; 32 are kept.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn within((low, high): &Bounds, key: &Bytes) -> bool {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let above = match low {
        Included(low) => key >= low,
        Excluded(low) => key > low,
        Unbounded => true,
    };
    above
        && match high {
            Included(high) => key <= high,
            Excluded(high) => key < high,
            Unbounded => true,
        }
}

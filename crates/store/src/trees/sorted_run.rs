//! Sorted runs: rows of a table in memory, in key order.
//!
//! A run is a list of positions in chunks, sorted by key, the newest row of a key first. Each
//! position has the head of its key (`heads.rs`): sorting, merging and searching compare heads, and
//! only if these are equal the keys themselves, which are scattered in memory.

use std::cmp::Ordering;
use std::hint::black_box;
use std::ops::{Bound, Range};
use std::sync::Arc;

use bytes::Bytes;

use super::heads::{KEYS_SAMPLED, KeyHeads};
use super::memtable::CHUNK_ROWS;
use super::view::{Bounds, Version};

/// Maximum number of rows that a long walk prefetches together.
const PREFETCH_MAX: usize = 16;

/// A row as it was written.
#[derive(Clone)]
pub(super) struct RunEntry {
    pub key: Bytes,
    /// Value of the row. `None`: it was removed.
    pub value: Option<Bytes>,
    /// Number of the batch that wrote it.
    pub sequence: u64,
    /// Position in the table of the key's previous row.
    pub older: u32,
}

/// Rows in the order of insertion; all but the last chunk of a run are full.
pub(super) type Chunk = Vec<RunEntry>;

/// Position of a row in a run's chunks.
#[derive(Clone, Copy)]
struct SortedRow {
    /// Head of the row's key.
    head: u64,
    row: u32,
}

/// Chunks that follow each other, and the order of their rows.
pub(super) struct Run {
    chunks: Vec<Arc<Chunk>>,
    /// Function for the heads of its keys; shared with runs of similar keys.
    heads: Arc<KeyHeads>,
    order: Box<[SortedRow]>,
}

impl Run {
    /// Sorts all rows of chunks. `like`: a run whose keys may be similar.
    pub fn sorted(chunks: Vec<Arc<Chunk>>, like: Option<&Arc<Run>>) -> Run {
        let rows = (0..chunks.iter().map(|chunk| chunk.len()).sum::<usize>() as u32).collect();
        Run::of(chunks, rows, like)
    }

    /// Sorts these rows of chunks.
    pub fn of(chunks: Vec<Arc<Chunk>>, rows: Vec<u32>, like: Option<&Arc<Run>>) -> Run {
        let heads = heads_for(&chunks, like.map(|run| &run.heads));
        let mut run = Run { chunks, heads, order: Box::default() };
        let mut order = run.with_heads(rows);
        order.sort_unstable_by(|one, other| run.compare(one, other));
        run.order = order.into();
        run
    }

    /// Merges two consecutive runs.
    pub fn merged(first: &Run, second: &Run) -> Run {
        let chunks: Vec<_> = first.chunks.iter().chain(&second.chunks).cloned().collect();
        let offset = (first.chunks.len() * CHUNK_ROWS) as u32;
        let heads = match Arc::ptr_eq(&first.heads, &second.heads) {
            true => Arc::clone(&first.heads),
            false => heads_for(&chunks, Some(&second.heads)),
        };
        let mut run = Run { chunks, heads, order: Box::default() };
        let moved = second.order.iter().map(|at| SortedRow { row: at.row + offset, ..*at });
        let mut order: Vec<SortedRow> = Vec::with_capacity(first.order.len() + second.order.len());
        for (places, before) in
            [(first.order.to_vec(), &first.heads), (moved.collect(), &second.heads)]
        {
            if Arc::ptr_eq(before, &run.heads) {
                order.extend(places);
            } else {
                order.extend(run.with_heads(places.into_iter().map(|at| at.row).collect()));
            }
        }
        // The stable sort is fast on two sorted halves.
        order.sort_by(|one, other| run.compare(one, other));
        run.order = order.into();
        run
    }

    fn with_heads(&self, rows: Vec<u32>) -> Vec<SortedRow> {
        let head = |row: u32| self.heads.head(&self.entry(row).key);
        rows.into_iter().map(|row| SortedRow { head: head(row), row }).collect()
    }

    fn compare(&self, one: &SortedRow, other: &SortedRow) -> Ordering {
        one.head.cmp(&other.head).then_with(|| {
            let (key, other_key) = (&self.entry(one.row).key, &self.entry(other.row).key);
            key.cmp(other_key).then(other.row.cmp(&one.row))
        })
    }

    /// Returns the lowest and the highest key. `None`: the run is empty.
    pub fn outermost_keys(&self) -> Option<(&Bytes, &Bytes)> {
        let last = self.order.len().checked_sub(1)?;
        Some((&self.entry_at(0).key, &self.entry_at(last).key))
    }

    /// Returns the chunks of the run.
    pub fn chunks(&self) -> &[Arc<Chunk>] {
        &self.chunks
    }

    fn entry(&self, row: u32) -> &RunEntry {
        &self.chunks[row as usize / CHUNK_ROWS][row as usize % CHUNK_ROWS]
    }

    fn entry_at(&self, place: usize) -> &RunEntry {
        self.entry(self.order[place].row)
    }

    /// Loads rows that will be needed soon: they are scattered in memory, and the processor loads
    /// several at once as long as no other work depends on each.
    fn prefetch(&self, places: Range<usize>) {
        for entry in places.map(|place| self.entry_at(place)) {
            let last = entry.value.as_ref().and_then(|value| value.last());
            black_box((entry.key.first().copied(), last.copied()));
        }
    }

    fn same_key(&self, one: usize, other: usize) -> bool {
        self.order[one].head == self.order[other].head
            && self.entry_at(one).key == self.entry_at(other).key
    }

    /// Returns the number of positions, at most `limit`, with versions of the key at `from`,
    /// upwards or (`reverse`) downwards. A galloping search: a key may have any number of versions.
    /// Adds the rows that it compares to `comparisons`.
    fn count_same_key(
        &self,
        from: usize,
        limit: usize,
        reverse: bool,
        comparisons: &mut u64,
    ) -> usize {
        let mut is_same = |distance: usize| {
            *comparisons += 1;
            self.same_key(from, if reverse { from - distance } else { from + distance })
        };
        let (mut low, mut high) = (0, 1);
        while high < limit && is_same(high) {
            (low, high) = (high, high * 2);
        }
        high = high.min(limit);
        while high - low > 1 {
            let middle = usize::midpoint(low, high);
            *(if is_same(middle) { &mut low } else { &mut high }) = middle;
        }
        high
    }

    /// Returns the number of positions below a key, or (`is_inclusive`) not above it.
    fn below(&self, key: &[u8], is_inclusive: bool) -> usize {
        let head = self.heads.head(key);
        self.order.partition_point(|at| {
            match at.head.cmp(&head).then_with(|| self.entry(at.row).key[..].cmp(key)) {
                Ordering::Less => true,
                Ordering::Equal => is_inclusive,
                Ordering::Greater => false,
            }
        })
    }
}

/// Returns the heads for the keys of chunks: the `known` ones if they distinguish these keys. For
/// less than a chunk, which every range sorts again, they are used unchecked.
fn heads_for(chunks: &[Arc<Chunk>], known: Option<&Arc<KeyHeads>>) -> Arc<KeyHeads> {
    let rows: usize = chunks.iter().map(|chunk| chunk.len()).sum();
    if let Some(known) = known.filter(|_| rows < CHUNK_ROWS) {
        return Arc::clone(known);
    }
    let every = chunks.iter().flat_map(|chunk| chunk.iter());
    let keys: Vec<_> =
        every.step_by((rows / KEYS_SAMPLED).max(1)).map(|entry| &entry.key).collect();
    match known {
        Some(known) if known.distinguishes(&keys) => Arc::clone(known),
        _ => Arc::new(KeyHeads::for_keys(keys)),
    }
}

/// Walk through a run: returns the newest row of every key up to a batch.
pub(super) struct RunWalk {
    run: Arc<Run>,
    /// Positions not walked yet.
    low: usize,
    high: usize,
    sequence: u64,
    reverse: bool,
    /// Ascending: end of the prefetched rows, and the number of rows to prefetch next.
    prefetched_end: usize,
    prefetch_count: usize,
    /// Number of rows that the last step compared: few, whatever the number of versions of its key.
    pub passed: u64,
}

impl RunWalk {
    /// Begins a walk between the bounds, upwards or (`reverse`) downwards.
    pub fn new(run: Arc<Run>, (from, to): &Bounds, sequence: u64, reverse: bool) -> RunWalk {
        let low = match from {
            Bound::Unbounded => 0,
            Bound::Included(key) => run.below(key, false),
            Bound::Excluded(key) => run.below(key, true),
        };
        let high = match to {
            Bound::Unbounded => run.order.len(),
            Bound::Included(key) => run.below(key, true),
            Bound::Excluded(key) => run.below(key, false),
        };
        RunWalk {
            run,
            low,
            high,
            sequence,
            reverse,
            prefetched_end: low,
            prefetch_count: 1,
            passed: 0,
        }
    }

    /// Returns the positions of the rows of the next key.
    fn next_key(&mut self, comparisons: &mut u64) -> Option<Range<usize>> {
        if self.low >= self.high {
            return None;
        }
        let limit = self.high - self.low;
        let (low, high) = if self.reverse {
            let from = self.high - 1;
            let low = self.high - self.run.count_same_key(from, limit, true, comparisons);
            let high = std::mem::replace(&mut self.high, low);
            (low, high)
        } else {
            let low = self.low;
            if low >= self.prefetched_end {
                self.prefetched_end = (low + self.prefetch_count).min(self.high);
                self.prefetch_count = (self.prefetch_count * 2).min(PREFETCH_MAX);
                self.run.prefetch(low..self.prefetched_end);
            }
            self.low += self.run.count_same_key(low, limit, false, comparisons);
            (low, self.low)
        };
        Some(low..high)
    }
}

impl Iterator for RunWalk {
    type Item = (Bytes, Version);

    fn next(&mut self) -> Option<(Bytes, Version)> {
        self.passed = 0;
        loop {
            let mut comparisons = 0;
            let places = self.next_key(&mut comparisons)?;
            let rows = &self.run.order[places];
            let mut is_too_new = |at: &SortedRow| {
                comparisons += 1;
                self.run.entry(at.row).sequence > self.sequence
            };
            // The newest row of a key is the first, and mostly it is old enough.
            let too_new = match rows.first().is_some_and(&mut is_too_new) {
                true => rows.partition_point(is_too_new),
                false => 0,
            };
            self.passed += comparisons.min(rows.len() as u64);
            let Some(newest) = rows.get(too_new).map(|at| self.run.entry(at.row)) else { continue };
            let version = Version { sequence: newest.sequence, value: newest.value.clone() };
            return Some((newest.key.clone(), version));
        }
    }
}

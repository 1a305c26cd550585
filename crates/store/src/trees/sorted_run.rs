//! Rows of a table in memory, in order.
//!
//! A run is a list of places in chunks, sorted by key, the newest row of a key first. Beside each
//! place stands the number of its key (`heads.rs`): sorting, merging and searching look at these,
//! and only where they are equal at the keys themselves, which are all over the memory.

use std::cmp::Ordering;
use std::hint::black_box;
use std::ops::{Bound, Range};
use std::sync::Arc;

use bytes::Bytes;

use super::heads::{Heads, KEYS_TRIED};
use super::memtable::CHUNK_ROWS;
use super::view::{Bounds, Version};

/// Rows that a long walk fetches together.
const FETCHED_MAX: usize = 16;

/// A row as it was written.
#[derive(Clone)]
pub(super) struct RunEntry {
    pub key: Bytes,
    /// None: removed.
    pub value: Option<Bytes>,
    /// The batch that wrote it.
    pub sequence: u64,
    /// The row of the same key before this one, in the table.
    pub older: u32,
}

/// Rows in the order they were written; all but the last chunk of a run are full.
pub(super) type Chunk = Vec<RunEntry>;

/// Position of a row in a run's chunks.
#[derive(Clone, Copy)]
struct SortedRow {
    /// The number of its key.
    head: u64,
    row: u32,
}

/// Chunks that follow each other, and the order of their rows.
pub(super) struct Run {
    chunks: Vec<Arc<Chunk>>,
    /// The numbering of its keys; shared with runs of keys like these.
    heads: Arc<Heads>,
    order: Box<[SortedRow]>,
}

impl Run {
    /// Sorts the rows of chunks. `like`: a run whose keys may be similar.
    pub fn sorted(chunks: Vec<Arc<Chunk>>, like: Option<&Arc<Run>>) -> Run {
        let rows = (0..chunks.iter().map(|chunk| chunk.len()).sum::<usize>() as u32).collect();
        Run::of(chunks, rows, like)
    }

    /// Sorts these rows of chunks.
    pub fn of(chunks: Vec<Arc<Chunk>>, rows: Vec<u32>, like: Option<&Arc<Run>>) -> Run {
        let heads = heads_for(&chunks, like.map(|run| &run.heads));
        let mut run = Run { chunks, heads, order: Box::default() };
        let mut order = run.places(rows);
        order.sort_unstable_by(|one, other| run.compare(one, other));
        run.order = order.into();
        run
    }

    /// Two runs that follow each other, as one.
    pub fn merged(first: &Run, second: &Run) -> Run {
        let chunks: Vec<_> = first.chunks.iter().chain(&second.chunks).cloned().collect();
        let behind = (first.chunks.len() * CHUNK_ROWS) as u32;
        let heads = match Arc::ptr_eq(&first.heads, &second.heads) {
            true => Arc::clone(&first.heads),
            false => heads_for(&chunks, Some(&second.heads)),
        };
        let mut run = Run { chunks, heads, order: Box::default() };
        let moved = second.order.iter().map(|at| SortedRow { row: at.row + behind, ..*at });
        let mut order: Vec<SortedRow> = Vec::with_capacity(first.order.len() + second.order.len());
        for (places, before) in
            [(first.order.to_vec(), &first.heads), (moved.collect(), &second.heads)]
        {
            if Arc::ptr_eq(before, &run.heads) {
                order.extend(places);
            } else {
                order.extend(run.places(places.into_iter().map(|at| at.row).collect()));
            }
        }
        // This one makes use of the order that is there already.
        order.sort_by(|one, other| run.compare(one, other));
        run.order = order.into();
        run
    }

    fn places(&self, rows: Vec<u32>) -> Vec<SortedRow> {
        let head = |row: u32| self.heads.head(&self.entry(row).key);
        rows.into_iter().map(|row| SortedRow { head: head(row), row }).collect()
    }

    fn compare(&self, one: &SortedRow, other: &SortedRow) -> Ordering {
        one.head.cmp(&other.head).then_with(|| {
            let (key, other_key) = (&self.entry(one.row).key, &self.entry(other.row).key);
            key.cmp(other_key).then(other.row.cmp(&one.row))
        })
    }

    /// The chunks it covers.
    pub fn chunks(&self) -> &[Arc<Chunk>] {
        &self.chunks
    }

    fn entry(&self, row: u32) -> &RunEntry {
        &self.chunks[row as usize / CHUNK_ROWS][row as usize % CHUNK_ROWS]
    }

    fn at(&self, place: usize) -> &RunEntry {
        self.entry(self.order[place].row)
    }

    /// Looks at rows that will be needed soon: they are all over the memory, and the processor
    /// waits for several at once as long as nothing else is done with each.
    fn fetch(&self, places: Range<usize>) {
        for entry in places.map(|place| self.at(place)) {
            let last = entry.value.as_ref().and_then(|value| value.last());
            black_box((entry.key.first().copied(), last.copied()));
        }
    }

    fn same_key(&self, one: usize, other: usize) -> bool {
        self.order[one].head == self.order[other].head && self.at(one).key == self.at(other).key
    }

    /// Number of places, at most `most`, that hold versions of the key at `from`, upwards or
    /// (`reverse`) downwards. A galloping search: a key may have any number of versions. Adds the
    /// rows it compares to `looks`.
    fn same_key_for(&self, from: usize, most: usize, reverse: bool, looks: &mut u64) -> usize {
        let mut same = |far: usize| {
            *looks += 1;
            self.same_key(from, if reverse { from - far } else { from + far })
        };
        let (mut holds, mut ends) = (0, 1);
        while ends < most && same(ends) {
            (holds, ends) = (ends, ends * 2);
        }
        ends = ends.min(most);
        while ends - holds > 1 {
            let middle = usize::midpoint(holds, ends);
            *(if same(middle) { &mut holds } else { &mut ends }) = middle;
        }
        ends
    }

    /// Number of places below a key, or (`up_to_it`) not above it.
    fn below(&self, key: &[u8], up_to_it: bool) -> usize {
        let head = self.heads.head(key);
        self.order.partition_point(|at| {
            match at.head.cmp(&head).then_with(|| self.entry(at.row).key[..].cmp(key)) {
                Ordering::Less => true,
                Ordering::Equal => up_to_it,
                Ordering::Greater => false,
            }
        })
    }
}

/// Returns the numbering for the keys of chunks: that of `before`, if it distinguishes them. For
/// less than a chunk, which every range sorts again, it is taken unchecked.
fn heads_for(chunks: &[Arc<Chunk>], before: Option<&Arc<Heads>>) -> Arc<Heads> {
    let rows: usize = chunks.iter().map(|chunk| chunk.len()).sum();
    if let Some(before) = before.filter(|_| rows < CHUNK_ROWS) {
        return Arc::clone(before);
    }
    let every = chunks.iter().flat_map(|chunk| chunk.iter());
    let keys: Vec<_> = every.step_by((rows / KEYS_TRIED).max(1)).map(|entry| &entry.key).collect();
    match before {
        Some(before) if before.tell_apart(&keys) => Arc::clone(before),
        _ => Arc::new(Heads::of(keys)),
    }
}

/// Walks through a run: of every key the newest row up to a batch.
pub(super) struct RunWalk {
    run: Arc<Run>,
    /// Places not walked yet.
    low: usize,
    high: usize,
    sequence: u64,
    reverse: bool,
    /// Ascending: end of the fetched rows, and the number of rows to fetch next.
    fetched: usize,
    fetch: usize,
    /// Rows looked at by the last step: few of its key, however often that was written.
    pub passed: u64,
}

impl RunWalk {
    /// Rows between the bounds, upwards or (`reverse`) downwards.
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
        RunWalk { run, low, high, sequence, reverse, fetched: low, fetch: 1, passed: 0 }
    }

    /// The places of the rows of the next key.
    fn next_key(&mut self, looks: &mut u64) -> Option<Range<usize>> {
        if self.low >= self.high {
            return None;
        }
        let most = self.high - self.low;
        let (low, high) = if self.reverse {
            let from = self.high - 1;
            let low = self.high - self.run.same_key_for(from, most, true, looks);
            let high = std::mem::replace(&mut self.high, low);
            (low, high)
        } else {
            let low = self.low;
            if low >= self.fetched {
                self.fetched = (low + self.fetch).min(self.high);
                self.fetch = (self.fetch * 2).min(FETCHED_MAX);
                self.run.fetch(low..self.fetched);
            }
            self.low += self.run.same_key_for(low, most, false, looks);
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
            let mut looks = 0;
            let places = self.next_key(&mut looks)?;
            let rows = &self.run.order[places];
            let mut is_young = |at: &SortedRow| {
                looks += 1;
                self.run.entry(at.row).sequence > self.sequence
            };
            // The newest row of a key stands first, and mostly it is old enough.
            let young = match rows.first().is_some_and(&mut is_young) {
                true => rows.partition_point(is_young),
                false => 0,
            };
            self.passed += looks.min(rows.len() as u64);
            let Some(newest) = rows.get(young).map(|at| self.run.entry(at.row)) else { continue };
            let version = Version { sequence: newest.sequence, value: newest.value.clone() };
            return Some((newest.key.clone(), version));
        }
    }
}

//! Rows of a table in memory, in order.
//!
//! A run is a list of places in chunks, sorted by key, the newest row of a key first. It is sorted
//! by the eight bytes that follow what all its keys begin with; only where those are equal the keys
//! themselves are looked at, which are all over the memory.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use super::table::CHUNK_ROWS;
use super::view::{Bounds, Version};

/// A row as it was written.
#[derive(Clone)]
pub(super) struct Entry {
    pub key: Bytes,
    /// None: removed.
    pub value: Option<Bytes>,
    /// The batch that wrote it.
    pub sequence: u64,
    /// The row of the same key before this one, in the table.
    pub older: u32,
}

/// Rows in the order they were written; all but the last chunk of a run are full.
pub(super) type Chunk = Vec<Entry>;

/// Chunks that follow each other, and the order of their rows.
pub(super) struct Run {
    chunks: Vec<Arc<Chunk>>,
    order: Box<[u32]>,
}

impl Run {
    /// Sorts the rows of chunks.
    pub fn sorted(chunks: Vec<Arc<Chunk>>) -> Run {
        let rows: usize = chunks.iter().map(|chunk| chunk.len()).sum();
        let order = (0..rows as u32).collect();
        Run::in_order(chunks, order)
    }

    /// Two runs that follow each other, as one.
    pub fn merged(first: &Run, second: &Run) -> Run {
        let chunks = first.chunks.iter().chain(&second.chunks).cloned().collect();
        let behind = (first.chunks.len() * CHUNK_ROWS) as u32;
        let moved = second.order.iter().map(|row| row + behind);
        Run::in_order(chunks, first.order.iter().copied().chain(moved).collect())
    }

    /// `order` has every row; what is in order in it already makes the sort shorter.
    fn in_order(chunks: Vec<Arc<Chunk>>, order: Vec<u32>) -> Run {
        let mut run = Run { chunks, order: Box::default() };
        let common = run.common(&order);
        let head = |row: u32| head_of(&run.entry(row).key[common..]);
        let mut rows: Vec<(u64, u32)> = order.into_iter().map(|row| (head(row), row)).collect();
        rows.sort_by(|(head, row), (other_head, other)| {
            head.cmp(other_head).then_with(|| {
                let (key, other_key) = (&run.entry(*row).key, &run.entry(*other).key);
                key[common..].cmp(&other_key[common..]).then(other.cmp(row))
            })
        });
        run.order = rows.into_iter().map(|(_, row)| row).collect();
        run
    }

    /// How many bytes all keys begin with.
    fn common(&self, rows: &[u32]) -> usize {
        let Some((first, rest)) = rows.split_first() else { return 0 };
        let first = &self.entry(*first).key;
        rest.iter().fold(first.len(), |common, row| {
            let key = &self.entry(*row).key;
            let pairs = first[..common].iter().zip(key.iter());
            pairs.take_while(|(one, other)| one == other).count()
        })
    }

    /// The chunks it covers.
    pub fn chunks(&self) -> &[Arc<Chunk>] {
        &self.chunks
    }

    fn entry(&self, row: u32) -> &Entry {
        &self.chunks[row as usize / CHUNK_ROWS][row as usize % CHUNK_ROWS]
    }

    fn at(&self, place: usize) -> &Entry {
        self.entry(self.order[place])
    }
}

/// The first eight bytes, as a number in the order of keys.
fn head_of(key: &[u8]) -> u64 {
    let mut head = [0; 8];
    let length = key.len().min(8);
    head[..length].copy_from_slice(&key[..length]);
    u64::from_be_bytes(head)
}

/// Walks through a run: of every key the newest row up to a batch.
pub(super) struct Walk {
    run: Arc<Run>,
    /// Places not walked yet.
    low: usize,
    high: usize,
    sequence: u64,
    reverse: bool,
}

impl Walk {
    /// Rows between the bounds, upwards or (`reverse`) downwards.
    pub fn new(run: Arc<Run>, (from, to): &Bounds, sequence: u64, reverse: bool) -> Walk {
        let below = |key: &Bytes, up_to_it: bool| {
            run.order.partition_point(|row| match run.entry(*row).key.cmp(key) {
                std::cmp::Ordering::Less => true,
                std::cmp::Ordering::Equal => up_to_it,
                std::cmp::Ordering::Greater => false,
            })
        };
        let low = match from {
            Bound::Unbounded => 0,
            Bound::Included(key) => below(key, false),
            Bound::Excluded(key) => below(key, true),
        };
        let high = match to {
            Bound::Unbounded => run.order.len(),
            Bound::Included(key) => below(key, true),
            Bound::Excluded(key) => below(key, false),
        };
        Walk { run, low, high, sequence, reverse }
    }

    /// The places of the rows of the next key.
    fn next_key(&mut self) -> Option<std::ops::Range<usize>> {
        if self.low >= self.high {
            return None;
        }
        let (mut low, mut high) = (self.low, self.high);
        if self.reverse {
            low = high - 1;
            while low > self.low && self.run.at(low - 1).key == self.run.at(low).key {
                low -= 1;
            }
            self.high = low;
        } else {
            high = low + 1;
            while high < self.high && self.run.at(high).key == self.run.at(low).key {
                high += 1;
            }
            self.low = high;
        }
        Some(low..high)
    }
}

impl Iterator for Walk {
    type Item = (Bytes, Version);

    fn next(&mut self) -> Option<(Bytes, Version)> {
        loop {
            let mut rows = self.next_key()?.map(|place| self.run.at(place));
            let Some(newest) = rows.find(|entry| entry.sequence <= self.sequence) else { continue };
            let version = Version { sequence: newest.sequence, value: newest.value.clone() };
            return Some((newest.key.clone(), version));
        }
    }
}

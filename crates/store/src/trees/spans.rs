//! Dead spans: stretches of keys in which no row is left, so that a range read need not walk over
//! what was there once.
//!
//! A removed row stays as a tombstone until a merge takes it away, and so does what the tombstone
//! hides. A reader that passed many of them in succession notes the stretch here (`note`), and
//! later readers jump over it (`behind`, `below`). Spans are half-open, start included, and never
//! touch. They are kept right by the writer: a row put into a span cuts it, and the removal of the
//! row that a span ended at makes it longer, which is what a queue does all day.
//!
//! A span holds for readers that see the batch `since` and everything before. One that grows with
//! every batch would be too young for any reader that began a moment ago, so a span also remembers
//! how far it reached a while before (`extents`).
//!
//! Invariants: no batch up to the one being inserted has put a row between a span's bounds after
//! the span's `since`; every extent lies within the newest. A reader's batch number says what it
//! sees only as long as its active table is the newest: `turn` counts the exchanges of tables, and
//! a reader of an earlier turn counts as seeing what was published when that turn ended.
//! Bounded: at most `SPANS_MAX`, those with the fewest dead rows go first.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::RowChange;
use super::compaction::bounds_of;
use super::memtable::Memtable;
use super::span::{DeadStretch, Span, after, is_after};
use crate::mutants::StoreMutant;

/// Minimum number of consecutive dead rows of a span. Walking over fewer costs less than a seek.
pub(super) const DEAD_MIN: u64 = if cfg!(test) { 2 } else { 32 };
/// Maximum number of spans.
const SPANS_MAX: usize = if cfg!(test) { 16 } else { 1_024 };
/// Spans between longer keys are not kept.
const KEY_BYTES_MAX: usize = 1_024;
/// Most dead stretches that wait for the end of a batch to be noted.
const FOUND_MAX: usize = 16;
/// Ended turns that are remembered; readers from before them use no spans.
const TURNS_MAX: usize = 64;

/// Point in time at which a reader sees the spans.
#[derive(Clone, Copy)]
pub(super) struct Sight {
    pub turn: u64,
    pub sequence: u64,
}

/// All spans of the trees.
#[derive(Default)]
pub(super) struct Spans {
    index: Mutex<Index>,
    /// Number of spans, so that a lookup costs nothing if there are none.
    count: AtomicUsize,
    /// Wakes callers that wait until a batch is inserted.
    inserted: Condvar,
}

#[derive(Default)]
struct Index {
    /// By the start of their newest extent.
    spans: BTreeMap<Bytes, Span>,
    /// Batches that were published when the last turns ended, oldest first.
    ended: VecDeque<u64>,
    turn: u64,
    /// A batch is being inserted.
    writing: bool,
    /// Dead stretches found in this turn while a batch was inserted, with the last batch of their
    /// reader.
    found: Vec<(DeadStretch, u64)>,
    /// Prefixes whose content is being exchanged. No span is noted there.
    closed: Vec<Bytes>,
    /// Spans as they were when the newest durable table was sealed, and those of tables that wait.
    durable: Vec<DeadStretch>,
    sealed: VecDeque<Vec<DeadStretch>>,
}

impl Spans {
    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self, index: &Index) {
        self.count.store(index.spans.len(), Ordering::Release);
    }

    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Returns the present turn. A reader calls this before it takes its tables.
    pub fn turn(&self) -> u64 {
        self.index().turn
    }

    /// The tables were exchanged, after this batch was published; readers find the new ones.
    pub fn end_turn(&self, published: u64) {
        self.index().end_turn(published);
    }

    /// A batch is about to be inserted into this table.
    pub fn begin<'a>(&'a self, active: &'a Memtable) -> Inserting<'a> {
        self.index().writing = true;
        Inserting { spans: self, active }
    }

    /// Waits until no batch is being inserted. Stretches noted meanwhile are known then.
    pub fn wait_for_batch(&self) {
        let waited = self.inserted.wait_while(self.index(), |index| index.writing);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// A change of this batch is about to be inserted.
    pub fn see(&self, change: &RowChange, sequence: u64) {
        if self.is_empty() {
            return;
        }
        let mut index = self.index();
        match change {
            RowChange::Put(key, _) => index.cut(key),
            RowChange::Remove(key) => index.removed(key, sequence),
        }
        self.changed(&index);
    }

    /// Returns the key at which an ascending reader continues, if this key lies in a span.
    pub fn behind(&self, key: &[u8], sight: Sight) -> Option<Bytes> {
        if self.is_empty() || StoreMutant::WalksOverDeadSpans.is_active() {
            return None;
        }
        let index = self.index();
        let span = index.upto(Bound::Included(key))?;
        let extent = span.seen_by(index.sees(sight), |extent| extent.has(key))?;
        Some(extent.end.clone())
    }

    /// Returns the key below which a reader that descends from `edge` continues, if what is below
    /// `edge` lies in a span.
    pub fn below(&self, edge: Bound<&[u8]>, sight: Sight) -> Option<Bytes> {
        if self.is_empty() || StoreMutant::WalksOverDeadSpans.is_active() {
            return None;
        }
        let index = self.index();
        let span = index.upto(edge)?;
        let extent = span.seen_by(index.sees(sight), |extent| match edge {
            Bound::Included(key) => extent.has(key),
            Bound::Excluded(key) => extent.start < key && extent.end >= key,
            Bound::Unbounded => false,
        })?;
        Some(extent.start.clone())
    }

    /// Notes a stretch in which a reader of this table found no row. Refused if a batch that the
    /// reader does not see has put a row there: then the next reader may note it. While a batch is
    /// being inserted that is unknown, and the note waits for its end.
    pub fn note(&self, found: DeadStretch, sight: Sight, active: &Memtable) {
        let short = |key: &Bytes| key.len() <= KEY_BYTES_MAX;
        if found.start >= found.end || !short(&found.start) || !short(&found.end) {
            return;
        }
        let mut index = self.index();
        // Only the newest table is asked for later batches, and this reader has an older one.
        if index.turn != sight.turn {
            return;
        }
        if !index.writing {
            index.note(found, sight.sequence, active);
            self.changed(&index);
        } else if index.found.len() < FOUND_MAX {
            index.found.push((found, sight.sequence));
        }
    }

    /// Drops the spans under a prefix whose content is about to be exchanged, until `open`.
    pub fn close(&self, prefix: &[u8]) {
        let mut index = self.index();
        index.closed.push(Bytes::copy_from_slice(prefix));
        index.forget(prefix);
        index.durable.clear();
        index.sealed.iter_mut().for_each(Vec::clear);
        self.changed(&index);
    }

    /// Ends an exchange under a prefix, successful or not. Readers that see this batch see the
    /// spans `found`.
    pub fn open(&self, prefix: &[u8], found: Vec<DeadStretch>, sequence: u64) {
        let mut index = self.index();
        if let Some(at) = index.closed.iter().position(|closed| closed == prefix) {
            index.closed.swap_remove(at);
        }
        index.end_turn(sequence.saturating_sub(1));
        for found in found {
            index.insert(found, sequence);
        }
        self.changed(&index);
    }

    /// Notes that a table was sealed: the spans known now hold for its rows and those before.
    pub fn seal(&self) {
        let mut index = self.index();
        let all = index.all();
        index.sealed.push_back(all);
    }

    /// Notes that the oldest sealed table is durable. Returns the spans that hold for durable rows.
    pub fn flushed(&self) -> Vec<DeadStretch> {
        let mut index = self.index();
        if let Some(sealed) = index.sealed.pop_front() {
            index.durable = sealed;
        }
        index.durable.clone()
    }

    /// Returns the spans that hold for durable rows.
    pub fn durable(&self) -> Vec<DeadStretch> {
        self.index().durable.clone()
    }

    /// Loads the spans that an earlier run stored. Readers see them from this batch on.
    pub fn load(&self, found: Vec<DeadStretch>, sequence: u64) {
        let mut index = self.index();
        index.durable.clone_from(&found);
        for found in found {
            index.insert(found, sequence);
        }
        self.changed(&index);
    }
}

/// A batch is being inserted.
pub(super) struct Inserting<'a> {
    spans: &'a Spans,
    active: &'a Memtable,
}

impl Drop for Inserting<'_> {
    fn drop(&mut self) {
        let mut index = self.spans.index();
        index.writing = false;
        for (found, sequence) in std::mem::take(&mut index.found) {
            index.note(found, sequence, self.active);
        }
        self.spans.changed(&index);
        self.spans.inserted.notify_all();
    }
}

impl Index {
    fn end_turn(&mut self, published: u64) {
        self.turn += 1;
        // Found in tables that are exchanged now.
        self.found.clear();
        self.ended.push_back(published);
        if self.ended.len() > TURNS_MAX {
            self.ended.pop_front();
        }
    }

    /// Notes a dead stretch that a reader of batches up to `sequence` found, unless a later batch
    /// put a row there.
    fn note(&mut self, found: DeadStretch, sequence: u64, active: &Memtable) {
        let closed = self.closed.iter().any(|prefix| found.meets(prefix));
        if !closed && !active.wrote_since(sequence, &found.start, &found.end) {
            self.insert(found, sequence);
        }
    }

    /// The batch up to which a reader sees everything.
    fn sees(&self, sight: Sight) -> u64 {
        let ago = (self.turn - sight.turn) as usize;
        match ago {
            0 => sight.sequence,
            _ => {
                let ended = self.ended.len().checked_sub(ago).map(|at| self.ended[at]);
                ended.map_or(0, |ended| ended.min(sight.sequence))
            }
        }
    }

    /// The last span that begins before this.
    fn upto(&self, edge: Bound<&[u8]>) -> Option<&Span> {
        self.spans.range::<[u8], _>((Bound::Unbounded, edge)).next_back().map(|(_, span)| span)
    }

    fn cut(&mut self, key: &Bytes) {
        let holds = |span: &&Span| span.newest().has(key);
        let Some(start) = self.upto(Bound::Included(key)).filter(holds).map(Span::start) else {
            return;
        };
        let Some(span) = self.spans.remove(&start) else { return };
        let low = span.part(&start, key);
        let high = span.part(&after(key), &span.newest().end);
        for part in low.into_iter().chain(high).filter(|part| part.dead >= DEAD_MIN) {
            self.spans.insert(part.start(), part);
        }
    }

    /// The row that a span ends at, or begins behind, is gone.
    fn removed(&mut self, key: &Bytes, sequence: u64) {
        if key.len() >= KEY_BYTES_MAX || self.closed.iter().any(|prefix| key.starts_with(prefix)) {
            return;
        }
        let (at, to) = (Bound::Excluded(&key[..]), Bound::Unbounded);
        let ends = self.upto(at).is_some_and(|span| span.newest().end == *key);
        let above = self.spans.range::<[u8], _>((at, to)).next();
        if ends || above.is_some_and(|(start, _)| is_after(start, key)) {
            let key = Bytes::copy_from_slice(key);
            let (start, end, first, last) = (key.clone(), after(&key), key.clone(), key);
            self.insert(DeadStretch { start, end, first, last, dead: 1 }, sequence);
        }
    }

    /// Joins it with the spans that it touches.
    fn insert(&mut self, found: DeadStretch, since: u64) {
        let below = self.upto(Bound::Included(&found.start));
        let from = match below.filter(|span| span.newest().end >= found.start) {
            Some(span) => span.start(),
            None => found.start.clone(),
        };
        let touched = self.spans.range(from..=found.end.clone()).map(|(start, _)| start.clone());
        let touched: Vec<Bytes> = touched.collect();
        let mut joined: Option<Span> = None;
        for span in touched.iter().filter_map(|start| self.spans.remove(start)) {
            joined = Some(match joined {
                None => span,
                Some(other) => other.join(span),
            });
        }
        let fresh = Span::of(found, since);
        let span = match joined {
            None => fresh,
            Some(other) => other.join(fresh),
        };
        if span.dead < DEAD_MIN {
            return;
        }
        self.spans.insert(span.start(), span);
        while self.spans.len() > SPANS_MAX {
            let least = self.spans.iter().min_by_key(|(_, span)| span.dead);
            let Some(least) = least.map(|(start, _)| start.clone()) else { break };
            self.spans.remove(&least);
        }
    }

    fn forget(&mut self, prefix: &[u8]) {
        let (low, high) = bounds_of(prefix);
        let met = |span: &&Span| span.found().meets(prefix);
        let met: Vec<Bytes> = self.spans.values().filter(met).map(Span::start).collect();
        for start in met {
            let Some(span) = self.spans.remove(&start) else { continue };
            let start = if let Bound::Included(low) = &low { low.clone() } else { Bytes::new() };
            let below = span.part(&span.start(), &start);
            let above = match &high {
                Bound::Excluded(high) => span.part(high, &span.newest().end),
                _ => None,
            };
            for part in below.into_iter().chain(above).filter(|part| part.dead >= DEAD_MIN) {
                self.spans.insert(part.start(), part);
            }
        }
    }

    fn all(&self) -> Vec<DeadStretch> {
        self.spans.values().map(Span::found).collect()
    }
}

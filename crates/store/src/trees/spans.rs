//! Dead spans: stretches of keys without a live row, so that a range read need not walk over the
//! dead rows there.
//!
//! A removed row stays as a tombstone until a merge removes it, and so do the rows that the
//! tombstone hides. A reader that walked over many of them in succession records the stretch here
//! (`record`), and later readers jump over it (`skip_forward`, `skip_backward`). Spans are
//! half-open, start included, and never touch. The writer keeps them valid: a row put into a span
//! cuts it, and the removal of the row at which a span ended extends it, as a queue does all the
//! time.
//!
//! A span is valid for readers that see the batch `since` and all before. A span that grows with
//! every batch would be too new for every reader that began a moment ago, so a span also records
//! its earlier extents (`extents`).
//!
//! Invariants: no batch up to the one being inserted has put a row between a span's bounds after
//! the span's `since`; every extent lies within the newest. A reader's batch number determines what
//! it sees only as long as its active table is the newest: `epoch` counts the exchanges of tables,
//! and a reader of an earlier epoch counts as seeing the batches published when that epoch ended.
//! Bounded: at most `SPANS_MAX`; those with the fewest dead rows are removed first.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::RowChange;
use super::compaction::bounds_of;
use super::memtable::Memtable;
use super::span::{DeadStretch, Span, is_successor, successor};
use crate::mutants::StoreMutant;

/// Minimum number of consecutive dead rows of a span. Walking over fewer costs less than a seek.
pub(super) const DEAD_MIN: u64 = if cfg!(test) { 2 } else { 32 };
/// Maximum number of spans.
const SPANS_MAX: usize = if cfg!(test) { 16 } else { 1_024 };
/// Maximum length of a span's bounds; others are not recorded.
const KEY_BYTES_MAX: usize = 1_024;
/// Maximum number of dead stretches that wait for the end of a batch.
const PENDING_MAX: usize = 16;
/// Maximum number of ended epochs on record; readers of earlier ones use no spans.
const EPOCHS_MAX: usize = 64;

/// Read point of a reader: the epoch of its tables, and its batch number.
#[derive(Clone, Copy)]
pub(super) struct ReadPoint {
    pub epoch: u64,
    pub sequence: u64,
}

/// All spans of the trees.
#[derive(Default)]
pub(super) struct Spans {
    index: Mutex<Index>,
    /// Number of spans, so that a lookup costs nothing if there are none.
    count: AtomicUsize,
    /// Wakes callers that wait until a batch is inserted.
    insert_ended: Condvar,
}

#[derive(Default)]
struct Index {
    /// Spans by the start of their newest extent.
    spans: BTreeMap<Bytes, Span>,
    /// Batches that were published when the last epochs ended, oldest first.
    ended: VecDeque<u64>,
    epoch: u64,
    /// A batch is being inserted.
    is_writing: bool,
    /// Dead stretches found in this epoch while a batch was inserted, with the last batch of their
    /// reader.
    pending: Vec<(DeadStretch, u64)>,
    /// Prefixes whose content is being replaced. No span is recorded there.
    closed_prefixes: Vec<Bytes>,
    /// Spans at the time when the newest durable table was sealed, and at the times when the
    /// waiting tables were sealed.
    durable: Vec<DeadStretch>,
    sealed: VecDeque<Vec<DeadStretch>>,
}

impl Spans {
    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update_count(&self, index: &Index) {
        self.count.store(index.spans.len(), Ordering::Release);
    }

    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Returns the current epoch. A reader calls this before it reads its view.
    pub fn epoch(&self) -> u64 {
        self.index().epoch
    }

    /// Ends the epoch after an exchange of tables, which readers already see. `published`: the last
    /// batch before it.
    pub fn end_epoch(&self, published: u64) {
        self.index().end_epoch(published);
    }

    /// Notes that a batch is about to be inserted into this table.
    pub fn begin_insert<'a>(&'a self, active: &'a Memtable) -> InsertGuard<'a> {
        self.index().is_writing = true;
        InsertGuard { spans: self, active }
    }

    /// Waits until no batch is being inserted. Stretches recorded meanwhile are spans then.
    pub fn wait_for_batch(&self) {
        let waited = self.insert_ended.wait_while(self.index(), |index| index.is_writing);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Updates the spans for a change that is about to be inserted.
    pub fn on_change(&self, change: &RowChange, sequence: u64) {
        if self.is_empty() {
            return;
        }
        let mut index = self.index();
        match change {
            RowChange::Put(key, _) => index.cut(key),
            RowChange::Remove(key) => index.extend_at(key, sequence),
        }
        self.update_count(&index);
    }

    /// Returns the key at which an ascending reader continues, if this key lies in a span.
    pub fn skip_forward(&self, key: &[u8], read_point: ReadPoint) -> Option<Bytes> {
        if self.is_empty() || StoreMutant::IgnoreDeadSpans.is_active() {
            return None;
        }
        let index = self.index();
        let span = index.last_starting(Bound::Included(key))?;
        let extent =
            span.newest_visible(index.visible_batch(read_point), |extent| extent.contains(key))?;
        Some(extent.end.clone())
    }

    /// Returns the key below which a reader that descends from `edge` continues, if what is below
    /// `edge` lies in a span.
    pub fn skip_backward(&self, edge: Bound<&[u8]>, read_point: ReadPoint) -> Option<Bytes> {
        if self.is_empty() || StoreMutant::IgnoreDeadSpans.is_active() {
            return None;
        }
        let index = self.index();
        let span = index.last_starting(edge)?;
        let extent = span.newest_visible(index.visible_batch(read_point), |extent| match edge {
            Bound::Included(key) => extent.contains(key),
            Bound::Excluded(key) => extent.start < key && extent.end >= key,
            Bound::Unbounded => false,
        })?;
        Some(extent.start.clone())
    }

    /// Records a stretch in which a reader of this table found no row. Dropped if a batch that the
    /// reader does not see has put a row there. While a batch is being inserted that is unknown,
    /// and the stretch waits for its end.
    pub fn record(&self, found: DeadStretch, read_point: ReadPoint, active: &Memtable) {
        let short = |key: &Bytes| key.len() <= KEY_BYTES_MAX;
        if found.start >= found.end || !short(&found.start) || !short(&found.end) {
            return;
        }
        let mut index = self.index();
        // Only the newest table is searched for later batches, and this reader has an older one.
        if index.epoch != read_point.epoch {
            return;
        }
        if !index.is_writing {
            index.record(found, read_point.sequence, active);
            self.update_count(&index);
        } else if index.pending.len() < PENDING_MAX {
            index.pending.push((found, read_point.sequence));
        }
    }

    /// Drops the spans under a prefix whose content is about to be replaced, until `open_prefix`.
    pub fn close_prefix(&self, prefix: &[u8]) {
        let mut index = self.index();
        index.closed_prefixes.push(Bytes::copy_from_slice(prefix));
        index.remove_prefix(prefix);
        index.durable.clear();
        index.sealed.iter_mut().for_each(Vec::clear);
        self.update_count(&index);
    }

    /// Ends a replacement under a prefix, successful or not. Readers that see this batch see the
    /// spans `found`.
    pub fn open_prefix(&self, prefix: &[u8], found: Vec<DeadStretch>, sequence: u64) {
        let mut index = self.index();
        if let Some(at) = index.closed_prefixes.iter().position(|closed| closed == prefix) {
            index.closed_prefixes.swap_remove(at);
        }
        index.end_epoch(sequence.saturating_sub(1));
        for found in found {
            index.insert(found, sequence);
        }
        self.update_count(&index);
    }

    /// Notes that a table was sealed: the current spans are valid for its rows and all earlier
    /// ones.
    pub fn on_seal(&self) {
        let mut index = self.index();
        let all = index.stretches();
        index.sealed.push_back(all);
    }

    /// Notes that the oldest sealed table is durable. Returns the spans that are valid for durable
    /// rows.
    pub fn on_flush(&self) -> Vec<DeadStretch> {
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
        self.update_count(&index);
    }
}

/// A batch is being inserted.
pub(super) struct InsertGuard<'a> {
    spans: &'a Spans,
    active: &'a Memtable,
}

impl Drop for InsertGuard<'_> {
    fn drop(&mut self) {
        let mut index = self.spans.index();
        index.is_writing = false;
        for (found, sequence) in std::mem::take(&mut index.pending) {
            index.record(found, sequence, self.active);
        }
        self.spans.update_count(&index);
        self.spans.insert_ended.notify_all();
    }
}

impl Index {
    fn end_epoch(&mut self, published: u64) {
        self.epoch += 1;
        // They were found in tables that are exchanged now.
        self.pending.clear();
        self.ended.push_back(published);
        if self.ended.len() > EPOCHS_MAX {
            self.ended.pop_front();
        }
    }

    /// Records a dead stretch that a reader of batches up to `sequence` found, unless a later batch
    /// put a row there.
    fn record(&mut self, found: DeadStretch, sequence: u64, active: &Memtable) {
        let is_closed = self.closed_prefixes.iter().any(|prefix| found.overlaps(prefix));
        if !is_closed && !active.has_put_since(sequence, &found.start, &found.end) {
            self.insert(found, sequence);
        }
    }

    /// Returns the batch up to which a reader sees all rows.
    fn visible_batch(&self, read_point: ReadPoint) -> u64 {
        let epochs_ago = (self.epoch - read_point.epoch) as usize;
        match epochs_ago {
            0 => read_point.sequence,
            _ => {
                let ended = self.ended.len().checked_sub(epochs_ago).map(|at| self.ended[at]);
                ended.map_or(0, |ended| ended.min(read_point.sequence))
            }
        }
    }

    /// Returns the last span that begins before this edge.
    fn last_starting(&self, edge: Bound<&[u8]>) -> Option<&Span> {
        self.spans.range::<[u8], _>((Bound::Unbounded, edge)).next_back().map(|(_, span)| span)
    }

    fn cut(&mut self, key: &Bytes) {
        let contains_key = |span: &&Span| span.newest().contains(key);
        let Some(start) =
            self.last_starting(Bound::Included(key)).filter(contains_key).map(Span::start)
        else {
            return;
        };
        let Some(span) = self.spans.remove(&start) else { return };
        let low = span.slice(&start, key);
        let high = span.slice(&successor(key), &span.newest().end);
        for part in low.into_iter().chain(high).filter(|part| part.dead >= DEAD_MIN) {
            self.spans.insert(part.start(), part);
        }
    }

    /// Extends a span that ends at a removed row, or begins behind it.
    fn extend_at(&mut self, key: &Bytes, sequence: u64) {
        if key.len() >= KEY_BYTES_MAX
            || self.closed_prefixes.iter().any(|prefix| key.starts_with(prefix))
        {
            return;
        }
        let (at, to) = (Bound::Excluded(&key[..]), Bound::Unbounded);
        let ends = self.last_starting(at).is_some_and(|span| span.newest().end == *key);
        let above = self.spans.range::<[u8], _>((at, to)).next();
        if ends || above.is_some_and(|(start, _)| is_successor(start, key)) {
            let key = Bytes::copy_from_slice(key);
            let (start, end, first, last) = (key.clone(), successor(&key), key.clone(), key);
            self.insert(DeadStretch { start, end, first, last, dead: 1 }, sequence);
        }
    }

    /// Inserts a stretch, joined with the spans that it touches.
    fn insert(&mut self, found: DeadStretch, since: u64) {
        let below = self.last_starting(Bound::Included(&found.start));
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
        let added = Span::new(found, since);
        let span = match joined {
            None => added,
            Some(other) => other.join(added),
        };
        if span.dead < DEAD_MIN {
            return;
        }
        self.spans.insert(span.start(), span);
        while self.spans.len() > SPANS_MAX {
            let smallest = self.spans.iter().min_by_key(|(_, span)| span.dead);
            let Some(smallest) = smallest.map(|(start, _)| start.clone()) else { break };
            self.spans.remove(&smallest);
        }
    }

    fn remove_prefix(&mut self, prefix: &[u8]) {
        let (low, high) = bounds_of(prefix);
        let overlapping = |span: &&Span| span.to_stretch().overlaps(prefix);
        let overlapping: Vec<Bytes> =
            self.spans.values().filter(overlapping).map(Span::start).collect();
        for start in overlapping {
            let Some(span) = self.spans.remove(&start) else { continue };
            let start = if let Bound::Included(low) = &low { low.clone() } else { Bytes::new() };
            let below = span.slice(&span.start(), &start);
            let above = match &high {
                Bound::Excluded(high) => span.slice(high, &span.newest().end),
                _ => None,
            };
            for part in below.into_iter().chain(above).filter(|part| part.dead >= DEAD_MIN) {
                self.spans.insert(part.start(), part);
            }
        }
    }

    fn stretches(&self) -> Vec<DeadStretch> {
        self.spans.values().map(Span::to_stretch).collect()
    }
}

//! Snapshot for long reads: one view, one batch number.
//!
//! A range merges the tables in memory and on disk in the order of keys. It counts the rows that it
//! walks over (every version and tombstone), records the stretches without a live row, and jumps
//! over known ones (`spans.rs`).

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::mem::take;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;

use super::manifest::{damage, error};
use super::sorted_run::RunWalk;
use super::span::{DeadStretch, successor};
use super::spans::{DEAD_MIN, ReadPoint, Spans};
use super::view::{Bounds, DiskRows, Version, View, is_empty_range};
use super::{Rows, Snapshot, TreeRow};
use crate::StoreError;
use crate::panics::catch_panic;

/// Number of dead rows between two lookups of the spans.
const DEAD_ROWS_PER_LOOKUP: u64 = 16;

/// Rows that ranges walked over, and rows that they returned.
#[derive(Default)]
pub(super) struct RowCounts {
    pub walked: AtomicU64,
    pub returned: AtomicU64,
}

/// Rows of a view up to a batch.
pub(super) struct LsmSnapshot {
    pub view: Arc<View>,
    pub read_point: ReadPoint,
    pub salt: u64,
    pub path: PathBuf,
    pub spans: Arc<Spans>,
    /// Statistics of client reads. `None`: an internal read.
    pub counts: Option<Arc<RowCounts>>,
}

impl Snapshot for LsmSnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let hash = super::hash(key, self.salt);
        match self.view.in_memory(key, hash, self.read_point.sequence) {
            Some(found) => Ok(found.value),
            None => Ok(self.view.on_disk(key, self.read_point.sequence)?.value),
        }
    }

    fn range(&self, low: Bound<Bytes>, high: Bound<Bytes>, reverse: bool) -> Rows<'_> {
        let bounds = (low, high);
        if is_empty_range(&bounds) {
            return Box::new(std::iter::empty());
        }
        Box::new(Merge::new(self, bounds, reverse))
    }
}

/// Source of rows in key order.
enum RowSource {
    Memory(RunWalk),
    Disk(DiskRows),
}

/// The next row of a source.
struct SourceHead {
    key: Bytes,
    value: Option<Bytes>,
    /// Index of the source, the newest first.
    source: usize,
    /// Number of rows that its source walked over to find it.
    passed: u64,
    reverse: bool,
}

/// Dead rows passed since the last live row.
#[derive(Default)]
struct Stretch {
    dead: u64,
    /// First and last dead row, in the order of the walk.
    outermost: Option<(Bytes, Bytes)>,
    /// The bound of the last jump.
    jumped: Option<Bytes>,
}

/// Merge of all sources in key order; of equal keys, the row of the newest source counts.
pub(super) struct Merge<'a> {
    snapshot: &'a LsmSnapshot,
    reverse: bool,
    /// Bounds of the keys not read yet. The current stretch begins where these do.
    remaining: Bounds,
    sources: Vec<RowSource>,
    heads: BinaryHeap<SourceHead>,
    failure: Option<StoreError>,
    stretch: Stretch,
    walked: u64,
    returned: u64,
    /// Dead rows walked over in memory; and on disk, as far as a merge would remove them.
    dead_walked_in_memory: u64,
    dead_walked_on_disk: u64,
}

impl<'a> Merge<'a> {
    pub fn new(snapshot: &'a LsmSnapshot, bounds: Bounds, reverse: bool) -> Merge<'a> {
        let mut merge = Merge {
            snapshot,
            reverse,
            remaining: bounds,
            sources: Vec::new(),
            heads: BinaryHeap::new(),
            failure: None,
            stretch: Stretch::default(),
            walked: 0,
            returned: 0,
            dead_walked_in_memory: 0,
            dead_walked_on_disk: 0,
        };
        let (spans, read_point) = (&snapshot.spans, snapshot.read_point);
        let from = if reverse { &merge.remaining.1 } else { &merge.remaining.0 };
        let jump_target = match (from, reverse) {
            (Bound::Included(key), false) => spans.skip_forward(key, read_point),
            (Bound::Excluded(key), false) => spans.skip_forward(&successor(key), read_point),
            (Bound::Unbounded, false) => None,
            (edge, true) => spans.skip_backward(edge.as_ref().map(|key| &key[..]), read_point),
        };
        match jump_target {
            Some(edge) => merge.jump(edge),
            None => merge.seek(merge.remaining.clone()),
        }
        merge
    }

    /// Opens the sources at these bounds.
    fn seek(&mut self, bounds: Bounds) {
        self.heads.clear();
        self.sources.clear();
        if is_empty_range(&bounds) {
            return;
        }
        let (view, sequence) = (&self.snapshot.view, self.snapshot.read_point.sequence);
        let runs = view.memtables().flat_map(|table| table.runs(&bounds, sequence));
        let walks =
            runs.map(|run| RowSource::Memory(RunWalk::new(run, &bounds, sequence, self.reverse)));
        self.sources.extend(walks);
        self.sources.extend(view.disk.ranges(&bounds).into_iter().map(RowSource::Disk));
        (0..self.sources.len()).for_each(|source| self.advance(source));
    }

    /// Continues at the other end of a span.
    fn jump(&mut self, edge: Bytes) {
        let (low, high) = self.remaining.clone();
        self.stretch.jumped = Some(edge.clone());
        self.seek(match self.reverse {
            false => (Bound::Included(edge), high),
            true => (low, Bound::Excluded(edge)),
        });
    }

    /// Reads the next row of a source, if there is one.
    fn advance(&mut self, source: usize) {
        let reverse = self.reverse;
        let path = &self.snapshot.path;
        let next = match &mut self.sources[source] {
            RowSource::Memory(walk) => {
                let next = walk.next();
                next.map(|(key, Version { value, .. })| (key, value, walk.passed))
            }
            RowSource::Disk(rows) => {
                let step = || if reverse { rows.next_back() } else { rows.next() };
                match catch_panic(step) {
                    Ok(None) => None,
                    Ok(Some(Ok(row))) => {
                        let dead = row.is_tombstone();
                        let value = (!dead).then(|| row.value.into());
                        Some((row.key.user_key.into(), value, 1))
                    }
                    Ok(Some(Err(cause))) => return self.failure = Some(error(path, cause)),
                    Err(_) => {
                        return self.failure = Some(damage(path, "a block is malformed"));
                    }
                }
            }
        };
        if let Some((key, value, passed)) = next {
            self.heads.push(SourceHead { key, value, source, passed, reverse });
        }
    }

    /// Returns the next key with the row of the newest source. Fails and ends the iteration once a
    /// source failed: without its live rows the other sources would show a false dead stretch.
    fn pop(&mut self) -> Result<Option<SourceHead>, StoreError> {
        if let Some(failure) = self.failure.take() {
            self.end();
            return Err(failure);
        }
        let Some(first) = self.heads.pop() else { return Ok(None) };
        let on_disk = matches!(self.sources[first.source], RowSource::Disk(_));
        let mut passed = first.passed;
        self.advance(first.source);
        while self.heads.peek().is_some_and(|other| other.key == first.key)
            && let Some(hidden) = self.heads.pop()
        {
            // No merge removes a row on disk that is hidden by one in memory.
            if on_disk || matches!(self.sources[hidden.source], RowSource::Memory(_)) {
                passed += hidden.passed;
            } else {
                self.walked += hidden.passed;
            }
            self.advance(hidden.source);
        }
        self.walked += passed;
        let dead_walked = passed.saturating_sub(first.value.is_some().into());
        *(if on_disk { &mut self.dead_walked_on_disk } else { &mut self.dead_walked_in_memory }) +=
            dead_walked;
        Ok(Some(first))
    }

    /// Counts a dead row. Jumps if it lies in a span.
    fn add_dead(&mut self, key: Bytes) {
        let stretch = &mut self.stretch;
        let is_lookup_due = stretch.dead.is_multiple_of(DEAD_ROWS_PER_LOOKUP);
        stretch.dead += 1;
        let first = stretch.outermost.take().map_or_else(|| key.clone(), |(first, _)| first);
        stretch.outermost = Some((first, key.clone()));
        if !is_lookup_due {
            return;
        }
        let (spans, read_point) = (&self.snapshot.spans, self.snapshot.read_point);
        let edge = match self.reverse {
            false => spans.skip_forward(&key, read_point),
            true => spans.skip_backward(Bound::Included(&key), read_point),
        };
        if let Some(edge) = edge {
            self.jump(edge);
        }
    }

    /// Ends a stretch at a live row, or at the end, and records it if it is new. Returns the number
    /// of dead rows walked over.
    fn end_stretch(&mut self, alive: Option<&Bytes>) -> u64 {
        let Stretch { dead, outermost, jumped } = take(&mut self.stretch);
        let is_new = match (&jumped, alive) {
            (None, _) => dead >= DEAD_MIN,
            (Some(_), None) => dead > 0,
            (Some(edge), Some(alive)) if self.reverse => dead > 0 || successor(alive) != *edge,
            (Some(edge), Some(alive)) => dead > 0 || alive != edge,
        };
        if is_new {
            self.record_stretch(dead, outermost, alive);
        }
        dead
    }

    /// Walks over at most `limit` dead rows and records the stretch. Returns the key reached (the
    /// first live one, or the last dead one at the limit; `None` at the end), and the number of
    /// dead rows.
    pub fn walk_dead(&mut self, limit: u64) -> Result<(Option<Bytes>, u64), StoreError> {
        while let Some(SourceHead { key, value, .. }) = self.pop()? {
            if value.is_some() {
                return Ok((Some(key.clone()), self.end_stretch(Some(&key))));
            }
            self.add_dead(key.clone());
            if self.stretch.dead >= limit {
                let (Stretch { dead, outermost, .. }, end) =
                    (take(&mut self.stretch), successor(&key));
                self.record_stretch(dead, outermost, Some(&end));
                return Ok((Some(key), dead));
            }
        }
        Ok((None, self.end_stretch(None)))
    }

    fn record_stretch(&self, dead: u64, outermost: Option<(Bytes, Bytes)>, alive: Option<&Bytes>) {
        let (low, high) = &self.remaining;
        let (low, high) = match (alive, self.reverse) {
            (None, _) => (low.clone(), high.clone()),
            (Some(alive), false) => (low.clone(), Bound::Excluded(alive.clone())),
            (Some(alive), true) => (Bound::Excluded(alive.clone()), high.clone()),
        };
        let outermost = outermost.map(|(one, other)| match self.reverse {
            false => (one, other),
            true => (other, one),
        });
        let start = match low {
            Bound::Included(low) => low,
            Bound::Excluded(low) => successor(&low),
            Bound::Unbounded => Bytes::new(),
        };
        let end = match (high, &outermost) {
            (Bound::Excluded(high), _) => high,
            (Bound::Included(high), _) => successor(&high),
            (Bound::Unbounded, Some((_, last))) => successor(last),
            (Bound::Unbounded, None) => return,
        };
        let (first, last) = outermost.unwrap_or_else(|| (start.clone(), start.clone()));
        let copy = |key: Bytes| Bytes::copy_from_slice(&key);
        let stretch = DeadStretch {
            start: copy(start),
            end: copy(end),
            first: copy(first),
            last: copy(last),
            dead,
        };
        self.snapshot.spans.record(stretch, self.snapshot.read_point, &self.snapshot.view.active);
    }

    /// Returns the next live row, and the number of dead ones walked over before it.
    pub fn step(&mut self) -> Result<(Option<TreeRow>, u64), StoreError> {
        loop {
            let Some(SourceHead { key, value, source, .. }) = self.pop()? else {
                return Ok((None, self.end_stretch(None)));
            };
            let Some(value) = value else {
                self.add_dead(key);
                continue;
            };
            let value = match self.sources[source] {
                RowSource::Memory(_) => value,
                RowSource::Disk(_) => {
                    self.snapshot.view.disk.packing.unpack(value).map_err(|_| {
                        self.end();
                        damage(&self.snapshot.path, "a packed value is malformed")
                    })?
                }
            };
            // Valid even if a source failed just now: each was already read beyond this key.
            let dead = self.end_stretch(Some(&key));
            let after_key = Bound::Excluded(key.clone());
            *(if self.reverse { &mut self.remaining.1 } else { &mut self.remaining.0 }) = after_key;
            self.returned += 1;
            return Ok((Some((key, value)), dead));
        }
    }

    /// Ends the iteration. No dead span is recorded for keys that were not read.
    fn end(&mut self) {
        self.heads.clear();
        self.sources.clear();
        self.stretch = Stretch::default();
        self.remaining = (Bound::Excluded(Bytes::new()), Bound::Excluded(Bytes::new()));
    }
}

impl Iterator for Merge<'_> {
    type Item = Result<TreeRow, StoreError>;

    fn next(&mut self) -> Option<Result<TreeRow, StoreError>> {
        self.step().map(|(row, _)| row).transpose()
    }
}

impl Drop for Merge<'_> {
    fn drop(&mut self) {
        let LsmSnapshot { view, counts: Some(counts), .. } = self.snapshot else { return };
        counts.walked.fetch_add(self.walked, Relaxed);
        counts.returned.fetch_add(self.returned, Relaxed);
        // Counted for the tables of this view, which may be older than the current ones.
        view.active.dead_walked.fetch_add(self.dead_walked_in_memory, Relaxed);
        view.dead_walked_on_disk.fetch_add(self.dead_walked_on_disk, Relaxed);
    }
}

impl Ord for SourceHead {
    /// The heap returns the greatest first: the next one in key order.
    fn cmp(&self, other: &SourceHead) -> Ordering {
        let keys = self.key.cmp(&other.key);
        let keys = if self.reverse { keys } else { keys.reverse() };
        keys.then(other.source.cmp(&self.source))
    }
}

impl PartialOrd for SourceHead {
    fn partial_cmp(&self, other: &SourceHead) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for SourceHead {
    fn eq(&self, other: &SourceHead) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for SourceHead {}

//! A long read: one view, one number.
//!
//! A range merges the tables in memory and on disk in the order of keys. It counts the rows that it
//! passes (every version and tombstone that it steps over), notes the stretches in which it found
//! none alive, and jumps over those that are known (`spans.rs`).

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::mem::take;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;

use super::manifest::{damage, error};
use super::packed::unpack;
use super::sorted_run::RunWalk;
use super::span::{DeadStretch, after};
use super::spans::{DEAD_MIN, Sight, Spans};
use super::view::{Bounds, OnDisk, Version, View, crossed};
use super::{Rows, Snapshot, TreeRow};
use crate::StoreError;
use crate::panics::spared;

/// Dead rows to pass before the spans are looked up again, after the first lookup.
const DEAD_PER_LOOK: u64 = 16;

/// Rows that ranges passed and gave out.
#[derive(Default)]
pub(super) struct RowCounts {
    pub walked: AtomicU64,
    pub returned: AtomicU64,
}

/// Rows of a view up to a batch.
pub(super) struct LsmSnapshot {
    pub view: Arc<View>,
    pub sight: Sight,
    pub salt: u64,
    pub path: PathBuf,
    pub spans: Arc<Spans>,
    /// Statistics of client reads. `None`: the reader is no client.
    pub counts: Option<Arc<RowCounts>>,
}

impl Snapshot for LsmSnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let hash = super::hash(key, self.salt);
        match self.view.in_memory(key, hash, self.sight.sequence) {
            Some(found) => Ok(found.value),
            None => Ok(self.view.on_disk(key, self.sight.sequence)?.value),
        }
    }

    fn range(&self, low: Bound<Bytes>, high: Bound<Bytes>, reverse: bool) -> Rows<'_> {
        let bounds = (low, high);
        if crossed(&bounds) {
            return Box::new(std::iter::empty());
        }
        Box::new(Merge::new(self, bounds, reverse))
    }
}

/// Source of rows, one key after the other.
enum RowSource {
    Memory(RunWalk),
    Disk(OnDisk),
}

/// The next row of a source.
struct SourceHead {
    key: Bytes,
    value: Option<Bytes>,
    /// The source's place, the newest first.
    source: usize,
    /// Rows that its source passed to find it.
    passed: u64,
    reverse: bool,
}

/// Dead rows passed since the last live row.
#[derive(Default)]
struct Stretch {
    dead: u64,
    /// The outermost dead rows, in the order in which they came.
    outermost: Option<(Bytes, Bytes)>,
    /// The bound of the last jump.
    jumped: Option<Bytes>,
}

/// Rows of all sources in one order; of one key, that of the newest source.
pub(super) struct Merge<'a> {
    snapshot: &'a LsmSnapshot,
    reverse: bool,
    /// Bounds of the keys not read yet; a stretch begins at their beginning.
    left: Bounds,
    sources: Vec<RowSource>,
    heads: BinaryHeap<SourceHead>,
    failure: Option<StoreError>,
    stretch: Stretch,
    walked: u64,
    returned: u64,
    /// Passed and not given out, in memory; and on disk, as far as a merge would have spared it.
    in_vain_in_memory: u64,
    in_vain_on_disk: u64,
}

impl<'a> Merge<'a> {
    pub fn new(snapshot: &'a LsmSnapshot, bounds: Bounds, reverse: bool) -> Merge<'a> {
        let mut merge = Merge {
            snapshot,
            reverse,
            left: bounds,
            sources: Vec::new(),
            heads: BinaryHeap::new(),
            failure: None,
            stretch: Stretch::default(),
            walked: 0,
            returned: 0,
            in_vain_in_memory: 0,
            in_vain_on_disk: 0,
        };
        let (spans, sight) = (&snapshot.spans, snapshot.sight);
        let from = if reverse { &merge.left.1 } else { &merge.left.0 };
        let inside = match (from, reverse) {
            (Bound::Included(key), false) => spans.behind(key, sight),
            (Bound::Excluded(key), false) => spans.behind(&after(key), sight),
            (Bound::Unbounded, false) => None,
            (edge, true) => spans.below(edge.as_ref().map(|key| &key[..]), sight),
        };
        match inside {
            Some(edge) => merge.jump(edge),
            None => merge.seek(merge.left.clone()),
        }
        merge
    }

    /// Turns the sources to these bounds.
    fn seek(&mut self, bounds: Bounds) {
        self.heads.clear();
        self.sources.clear();
        if crossed(&bounds) {
            return;
        }
        let (view, sequence) = (&self.snapshot.view, self.snapshot.sight.sequence);
        let runs = view.in_order().flat_map(|table| table.runs(&bounds, sequence));
        let walks =
            runs.map(|run| RowSource::Memory(RunWalk::new(run, &bounds, sequence, self.reverse)));
        self.sources.extend(walks);
        self.sources.extend(view.runs_on_disk(&bounds).into_iter().map(RowSource::Disk));
        (0..self.sources.len()).for_each(|source| self.advance(source));
    }

    /// Continues at the other end of a span.
    fn jump(&mut self, edge: Bytes) {
        let (low, high) = self.left.clone();
        self.stretch.jumped = Some(edge.clone());
        self.seek(match self.reverse {
            false => (Bound::Included(edge), high),
            true => (low, Bound::Excluded(edge)),
        });
    }

    /// Takes the next row of a source, if there is one.
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
                match spared(step) {
                    Ok(None) => None,
                    Ok(Some(Ok(row))) => {
                        let dead = row.is_tombstone();
                        let value = (!dead).then(|| row.value.into());
                        Some((row.key.user_key.into(), value, 1))
                    }
                    Ok(Some(Err(why))) => return self.failure = Some(error(path, why)),
                    Err(_) => {
                        return self.failure = Some(damage(path, "a block has no sense"));
                    }
                }
            }
        };
        if let Some((key, value, passed)) = next {
            self.heads.push(SourceHead { key, value, source, passed, reverse });
        }
    }

    /// Takes the next key, with the row of the newest source. Fails and ends the iteration once a
    /// source failed: without its rows the others show dead rows where it has live ones.
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
            // No merge takes a row on disk away that is hidden by one in memory.
            if on_disk || matches!(self.sources[hidden.source], RowSource::Memory(_)) {
                passed += hidden.passed;
            } else {
                self.walked += hidden.passed;
            }
            self.advance(hidden.source);
        }
        self.walked += passed;
        let in_vain = passed.saturating_sub(first.value.is_some().into());
        *(if on_disk { &mut self.in_vain_on_disk } else { &mut self.in_vain_in_memory }) += in_vain;
        Ok(Some(first))
    }

    /// Counts a dead row. Jumps if it lies in a span.
    fn pass(&mut self, key: Bytes) {
        let stretch = &mut self.stretch;
        let look = stretch.dead.is_multiple_of(DEAD_PER_LOOK);
        stretch.dead += 1;
        let first = stretch.outermost.take().map_or_else(|| key.clone(), |(first, _)| first);
        stretch.outermost = Some((first, key.clone()));
        if !look {
            return;
        }
        let (spans, sight) = (&self.snapshot.spans, self.snapshot.sight);
        let edge = match self.reverse {
            false => spans.behind(&key, sight),
            true => spans.below(Bound::Included(&key), sight),
        };
        if let Some(edge) = edge {
            self.jump(edge);
        }
    }

    /// Ends a stretch at a live row, or at the end: the rows passed may be worth noting. Returns
    /// the number of dead rows passed, as far as they were walked over.
    fn end_stretch(&mut self, alive: Option<&Bytes>) -> u64 {
        let Stretch { dead, outermost, jumped } = take(&mut self.stretch);
        let further = match (&jumped, alive) {
            (None, _) => dead >= DEAD_MIN,
            (Some(_), None) => dead > 0,
            (Some(edge), Some(alive)) if self.reverse => dead > 0 || after(alive) != *edge,
            (Some(edge), Some(alive)) => dead > 0 || alive != edge,
        };
        if further {
            self.note(dead, outermost, alive);
        }
        dead
    }

    /// Walks over at most `most` dead rows and notes the stretch. Returns the key it came to (the
    /// first living one, or the last dead one at that limit; `None` at the end), and their number.
    pub fn pass_dead(&mut self, most: u64) -> Result<(Option<Bytes>, u64), StoreError> {
        while let Some(SourceHead { key, value, .. }) = self.pop()? {
            if value.is_some() {
                return Ok((Some(key.clone()), self.end_stretch(Some(&key))));
            }
            self.pass(key.clone());
            if self.stretch.dead >= most {
                let (Stretch { dead, outermost, .. }, end) = (take(&mut self.stretch), after(&key));
                self.note(dead, outermost, Some(&end));
                return Ok((Some(key), dead));
            }
        }
        Ok((None, self.end_stretch(None)))
    }

    fn note(&self, dead: u64, outermost: Option<(Bytes, Bytes)>, alive: Option<&Bytes>) {
        let (low, high) = &self.left;
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
            Bound::Excluded(low) => after(&low),
            Bound::Unbounded => Bytes::new(),
        };
        let end = match (high, &outermost) {
            (Bound::Excluded(high), _) => high,
            (Bound::Included(high), _) => after(&high),
            (Bound::Unbounded, Some((_, last))) => after(last),
            (Bound::Unbounded, None) => return,
        };
        let (first, last) = outermost.unwrap_or_else(|| (start.clone(), start.clone()));
        let own = |key: Bytes| Bytes::copy_from_slice(&key);
        let found = DeadStretch {
            start: own(start),
            end: own(end),
            first: own(first),
            last: own(last),
            dead,
        };
        self.snapshot.spans.note(found, self.snapshot.sight, &self.snapshot.view.active);
    }

    /// Returns the next live row, and the number of dead ones passed before it.
    pub fn step(&mut self) -> Result<(Option<TreeRow>, u64), StoreError> {
        loop {
            let Some(SourceHead { key, value, source, .. }) = self.pop()? else {
                return Ok((None, self.end_stretch(None)));
            };
            let Some(value) = value else {
                self.pass(key);
                continue;
            };
            let value = match self.sources[source] {
                RowSource::Memory(_) => value,
                RowSource::Disk(_) => unpack(value).map_err(|_| {
                    self.end();
                    damage(&self.snapshot.path, "a packed value has no sense")
                })?,
            };
            // True even if a source failed just now: each was read beyond this key before.
            let dead = self.end_stretch(Some(&key));
            let behind = Bound::Excluded(key.clone());
            *(if self.reverse { &mut self.left.1 } else { &mut self.left.0 }) = behind;
            self.returned += 1;
            return Ok((Some((key, value)), dead));
        }
    }

    /// Ends the iteration. No dead span is recorded for keys that were not read.
    fn end(&mut self) {
        self.heads.clear();
        self.sources.clear();
        self.stretch = Stretch::default();
        self.left = (Bound::Excluded(Bytes::new()), Bound::Excluded(Bytes::new()));
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
        // Of the tables that were read, whatever tables there are by now.
        view.active.in_vain.fetch_add(self.in_vain_in_memory, Relaxed);
        view.in_vain_on_disk.fetch_add(self.in_vain_on_disk, Relaxed);
    }
}

impl Ord for SourceHead {
    /// The heap gives the greatest first: that which comes next.
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

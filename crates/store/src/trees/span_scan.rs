//! Scan for dead spans (`spans.rs`) before a client's read has to walk over them. A background task
//! scans where rows were removed, on followers as on a master. A replacement of content reports its
//! own dead spans. A flush stores the known spans on disk.

use std::cmp::Reverse;
use std::ops::Bound;
use std::sync::PoisonError;

use bytes::Bytes;

use super::memtable::Memtable;
use super::snapshot::Merge;
use super::span::{DeadStretch, successor};
use super::spans::DEAD_MIN;
use super::{LsmTrees, spanfile};

/// Minimum number of removals for a scan.
const REMOVED_MIN: usize = if cfg!(test) { 1 } else { 64 };
/// Number of removals with a live row nearby at which a scan ends: scattered removals leave no
/// spans.
const MISSES_MAX: usize = 16;
/// Number of dead rows walked over with one snapshot.
const DEAD_ROWS_PER_SNAPSHOT: u64 = 1_024;
/// Maximum number of retries of a scan, for the case that a concurrent write may have changed the
/// stretch.
const RETRIES_MAX: usize = 16;
/// Maximum number of stretches that a replacement reports: those with the most dead rows.
const STRETCHES_MAX: usize = 1_024;

impl LsmTrees {
    /// Scans where rows of this table were removed since the last call. The walk records the spans
    /// that it finds. An error is ignored: a client's read there reports it.
    pub(super) fn scan_dead_spans(&self, table: &Memtable) {
        // One scan at a time, so that a second caller finds the spans that the first one recorded.
        let _guard = self.span_scan.lock().unwrap_or_else(PoisonError::into_inner);
        let mut removed = table.take_removed_keys(REMOVED_MIN);
        let (mut misses, mut retries, mut resume_from) = (0, 0, None);
        while let Some(Reverse(key)) = removed.peek().filter(|_| misses < MISSES_MAX) {
            // A fresh snapshot each time: too many rows may have been written since an older one.
            let snapshot = self.open_snapshot(None);
            let from = resume_from.clone().unwrap_or_else(|| Bound::Included(key.clone()));
            let mut walk = Merge::new(&snapshot, (from, Bound::Unbounded), false);
            let Ok((Some(reached), dead)) = walk.walk_dead(DEAD_ROWS_PER_SNAPSHOT) else { return };
            self.spans.wait_for_batch();
            let known_end = self.spans.skip_forward(key, snapshot.read_point);
            let is_known = dead < DEAD_MIN || known_end.is_some_and(|end| end >= reached);
            if !is_known && retries < RETRIES_MAX {
                retries += 1;
                continue;
            }
            resume_from =
                (dead == DEAD_ROWS_PER_SNAPSHOT).then(|| Bound::Excluded(reached.clone()));
            misses += usize::from(dead < DEAD_MIN);
            while removed.peek().is_some_and(|Reverse(key)| *key <= reached) {
                removed.pop();
            }
        }
    }

    /// Stores these spans, which are valid for the durable rows, for the next start. No flush may
    /// run meanwhile.
    pub(super) fn store_spans(&self, found: &[DeadStretch]) {
        spanfile::write(&self.settings.path, self.list().id, found);
    }
}

/// A replacement of the content under a prefix, by other means than batches.
pub(super) struct PrefixExchange<'a> {
    trees: &'a LsmTrees,
    prefix: Bytes,
    /// Stretches without a row after the replacement.
    found: Vec<DeadStretch>,
}

impl<'a> PrefixExchange<'a> {
    /// Begins a replacement. From here on there is no span under the prefix.
    pub fn begin(trees: &'a LsmTrees, prefix: &[u8]) -> PrefixExchange<'a> {
        trees.spans.close_prefix(prefix);
        PrefixExchange { trees, prefix: Bytes::copy_from_slice(prefix), found: Vec::new() }
    }

    /// Ends the replacement: readers see the new content, which has no row in these stretches.
    pub fn end(mut self, found: Vec<DeadStretch>) {
        self.found = found; // reported by `drop`
    }
}

impl Drop for PrefixExchange<'_> {
    fn drop(&mut self) {
        let found = std::mem::take(&mut self.found);
        // A batch of its own: a reader that sees it sees the new content.
        match self.trees.writer() {
            Ok(mut writer) => {
                let sequence = self.trees.apply_locked(&mut writer, &mut std::iter::empty());
                self.trees.spans.open_prefix(&self.prefix, found, sequence);
            }
            Err(_) => self.trees.spans.open_prefix(&self.prefix, Vec::new(), 0),
        }
    }
}

/// Stretches without a row, collected while content is written in key order.
#[derive(Clone)]
pub(super) struct Gaps {
    start: Bytes,
    outermost: Option<(Bytes, Bytes)>,
    dead: u64,
    found: Vec<DeadStretch>,
}

impl Gaps {
    /// Begins at the start of a prefix.
    pub fn new(prefix: &[u8]) -> Gaps {
        let start = Bytes::copy_from_slice(prefix);
        Gaps { start, outermost: None, dead: 0, found: Vec::new() }
    }

    /// Adds a removed row.
    pub fn add_dead(&mut self, key: &Bytes) {
        self.dead += 1;
        let first = self.outermost.take().map_or_else(|| key.clone(), |(first, _)| first);
        self.outermost = Some((first, key.clone()));
    }

    /// Adds a live row, or the end.
    pub fn add_live(&mut self, key: &Bytes) {
        let dead = std::mem::take(&mut self.dead);
        let start = std::mem::replace(&mut self.start, successor(key));
        let Some((first, last)) = self.outermost.take().filter(|_| dead >= DEAD_MIN) else {
            return;
        };
        let copy = |key: &Bytes| Bytes::copy_from_slice(key);
        let (end, first, last) = (copy(key), copy(&first), copy(&last));
        self.found.push(DeadStretch { start, end, first, last, dead });
        if self.found.len() >= 2 * STRETCHES_MAX {
            self.found.sort_unstable_by_key(|found| std::cmp::Reverse(found.dead));
            self.found.truncate(STRETCHES_MAX);
        }
    }

    /// Ends the scan and returns all gaps; no row lies behind the last.
    pub fn end(&mut self, high: &Bound<Bytes>) -> Vec<DeadStretch> {
        if let Bound::Excluded(high) = high {
            self.add_live(high);
        }
        std::mem::take(&mut self.found)
    }
}

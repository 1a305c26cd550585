//! Discovery of dead spans (`spans.rs`) before a reader has to pay for them. A background task
//! looks where rows were removed, on followers as on a master. An exchange of content reports its
//! own dead spans. A flush writes the known spans to disk.

use std::cmp::Reverse;
use std::ops::Bound;
use std::sync::PoisonError;

use bytes::Bytes;
use lsm_tree::AbstractTree;

use super::memtable::Memtable;
use super::snapshot::Merge;
use super::span::{DeadStretch, after};
use super::spans::DEAD_MIN;
use super::{LsmTrees, spanfile};

/// Fewer removals are not worth a look.
const REMOVED_MIN: usize = if cfg!(test) { 1 } else { 64 };
/// Number of places with a living row nearby at which a look ends: rows removed here and there
/// leave no spans.
const MISSES_MAX: usize = 16;
/// Dead rows that are walked over with one snapshot.
const DEAD_PER_LOOK: u64 = 1_024;
/// Maximum number of repeated looks, if so many writes came meanwhile that they may have hit the
/// place.
const AGAIN_MAX: usize = 16;
/// Maximum number of stretches that an exchange reports: the longest.
const FOUND_MAX: usize = 1_024;

impl LsmTrees {
    /// Walks where rows of this table were removed since the last call. The walk itself notes what
    /// it finds. An error is ignored: a client's read there reports it.
    pub(super) fn study(&self, table: &Memtable) {
        // One at a time, so that a second caller finds the spans that the first one noted.
        let _one = self.studying.lock().unwrap_or_else(PoisonError::into_inner);
        let mut removed = table.removed_lately(REMOVED_MIN);
        let (mut misses, mut again, mut goes_on) = (0, 0, None);
        while let Some(Reverse(key)) = removed.peek().filter(|_| misses < MISSES_MAX) {
            // A fresh snapshot each time: of an old one too much may have been written since.
            let snapshot = self.look(None);
            let from = goes_on.clone().unwrap_or_else(|| Bound::Included(key.clone()));
            let mut walk = Merge::new(&snapshot, (from, Bound::Unbounded), false);
            let Ok((Some(upto), dead)) = walk.pass_dead(DEAD_PER_LOOK) else { return };
            self.spans.wait_for_batch();
            let known_upto = self.spans.behind(key, snapshot.sight);
            let is_known = dead < DEAD_MIN || known_upto.is_some_and(|end| end >= upto);
            if !is_known && again < AGAIN_MAX {
                again += 1;
                continue;
            }
            goes_on = (dead == DEAD_PER_LOOK).then(|| Bound::Excluded(upto.clone()));
            misses += usize::from(dead < DEAD_MIN);
            while removed.peek().is_some_and(|Reverse(key)| *key <= upto) {
                removed.pop();
            }
        }
    }

    /// Stores these spans, which hold for what is durable now, for the next start. No flush may run
    /// meanwhile.
    pub(super) fn keep_spans(&self, found: &[DeadStretch]) {
        spanfile::write(&self.settings.path, self.tree.current_version().id(), found);
    }
}

/// An exchange of the content under a prefix, by other means than batches.
pub(super) struct PrefixExchange<'a> {
    trees: &'a LsmTrees,
    prefix: Bytes,
    /// Stretches without a row after the exchange.
    found: Vec<DeadStretch>,
}

impl<'a> PrefixExchange<'a> {
    /// Begins an exchange. From here on no span is known under the prefix.
    pub fn begin(trees: &'a LsmTrees, prefix: &[u8]) -> PrefixExchange<'a> {
        trees.spans.close(prefix);
        PrefixExchange { trees, prefix: Bytes::copy_from_slice(prefix), found: Vec::new() }
    }

    /// Readers find the new content, which has no row in these stretches.
    pub fn end(mut self, found: Vec<DeadStretch>) {
        self.found = found; // told when this is dropped
    }
}

impl Drop for PrefixExchange<'_> {
    fn drop(&mut self) {
        let found = std::mem::take(&mut self.found);
        // A batch of its own: a reader that sees it sees the new content.
        match self.trees.writer() {
            Ok(mut writer) => {
                let sequence = self.trees.apply_as(&mut writer, &mut std::iter::empty());
                self.trees.spans.open(&self.prefix, found, sequence);
            }
            Err(_) => self.trees.spans.open(&self.prefix, Vec::new(), 0),
        }
    }
}

/// Stretches without a row, found while a content is written in the order of keys.
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

    /// Adds a row that is removed.
    pub fn dead(&mut self, key: &Bytes) {
        self.dead += 1;
        let first = self.outermost.take().map_or_else(|| key.clone(), |(first, _)| first);
        self.outermost = Some((first, key.clone()));
    }

    /// Adds a row that remains, or the end.
    pub fn alive(&mut self, key: &Bytes) {
        let dead = std::mem::take(&mut self.dead);
        let start = std::mem::replace(&mut self.start, after(key));
        let Some((first, last)) = self.outermost.take().filter(|_| dead >= DEAD_MIN) else {
            return;
        };
        let own = |key: &Bytes| Bytes::copy_from_slice(key);
        let (end, first, last) = (own(key), own(&first), own(&last));
        self.found.push(DeadStretch { start, end, first, last, dead });
        if self.found.len() >= 2 * FOUND_MAX {
            self.found.sort_unstable_by_key(|found| std::cmp::Reverse(found.dead));
            self.found.truncate(FOUND_MAX);
        }
    }

    /// Ends the scan and returns all gaps; no row lies behind the last.
    pub fn end(&mut self, high: &Bound<Bytes>) -> Vec<DeadStretch> {
        if let Bound::Excluded(high) = high {
            self.alive(high);
        }
        std::mem::take(&mut self.found)
    }
}

//! A long read: one view, one number.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::manifest::{damage, error};
use super::run::Walk;
use super::view::{Bounds, Merged, Version, View, crossed};
use super::{Row, Rows, Snapshot};
use crate::StoreError;
use crate::panics::spared;

/// Rows of a view up to a batch.
pub(super) struct LsmSnapshot {
    pub view: Arc<View>,
    pub sequence: u64,
    pub salt: u64,
    pub path: PathBuf,
}

impl Snapshot for LsmSnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let hash = super::hash(key, self.salt);
        match self.view.in_memory(key, hash, self.sequence) {
            Some(found) => Ok(found.value),
            None => Ok(self.view.on_disk(key, self.sequence)?.value),
        }
    }

    fn range(&self, low: Bound<Bytes>, high: Bound<Bytes>, reverse: bool) -> Rows<'_> {
        let bounds = (low, high);
        if crossed(&bounds) {
            return Box::new(std::iter::empty());
        }
        Box::new(Merge::new(self, &bounds, reverse))
    }
}

/// Where rows come from, one key after the other.
enum Source {
    Memory(Walk),
    Disk(Merged),
}

/// The next row of a source.
struct Head {
    key: Bytes,
    value: Option<Bytes>,
    /// The source's place, the newest first.
    source: usize,
    reverse: bool,
}

/// Rows of all sources in one order; of one key, that of the newest source.
struct Merge<'a> {
    path: &'a Path,
    sources: Vec<Source>,
    heads: BinaryHeap<Head>,
    reverse: bool,
    failure: Option<StoreError>,
}

impl<'a> Merge<'a> {
    fn new(snapshot: &'a LsmSnapshot, bounds: &Bounds, reverse: bool) -> Merge<'a> {
        let LsmSnapshot { view, sequence, path, .. } = snapshot;
        let runs = view.in_order().flat_map(|table| table.runs(bounds, *sequence));
        let walks = runs.map(|run| Source::Memory(Walk::new(run, bounds, *sequence, reverse)));
        let mut sources: Vec<Source> = walks.collect();
        sources.push(Source::Disk(view.range_on_disk(bounds.clone(), *sequence)));
        let heads = BinaryHeap::with_capacity(sources.len());
        let mut merge = Merge { path, sources, heads, reverse, failure: None };
        (0..merge.sources.len()).for_each(|source| merge.advance(source));
        merge
    }

    /// Takes the next row of a source, if there is one.
    fn advance(&mut self, source: usize) {
        let reverse = self.reverse;
        let next = match &mut self.sources[source] {
            Source::Memory(walk) => walk.next().map(|(key, Version { value, .. })| (key, value)),
            Source::Disk(rows) => {
                let step = || if reverse { rows.next_back() } else { rows.next() };
                match spared(step) {
                    Ok(None) => None,
                    Ok(Some(Ok(row))) => Some((row.key.user_key.into(), Some(row.value.into()))),
                    Ok(Some(Err(why))) => return self.failure = Some(error(self.path, why)),
                    Err(_) => {
                        return self.failure = Some(damage(self.path, "a block has no sense"));
                    }
                }
            }
        };
        if let Some((key, value)) = next {
            self.heads.push(Head { key, value, source, reverse });
        }
    }
}

impl Iterator for Merge<'_> {
    type Item = Result<Row, StoreError>;

    fn next(&mut self) -> Option<Result<Row, StoreError>> {
        loop {
            if let Some(failure) = self.failure.take() {
                self.heads.clear();
                return Some(Err(failure));
            }
            let first = self.heads.pop()?;
            self.advance(first.source);
            while self.heads.peek().is_some_and(|other| other.key == first.key) {
                let hidden = self.heads.pop()?;
                self.advance(hidden.source);
            }
            if let Some(value) = first.value {
                return Some(Ok((first.key, value)));
            }
        }
    }
}

impl Ord for Head {
    /// The heap gives the greatest first: that which comes next.
    fn cmp(&self, other: &Head) -> Ordering {
        let keys = self.key.cmp(&other.key);
        let keys = if self.reverse { keys } else { keys.reverse() };
        keys.then(other.source.cmp(&self.source))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Head) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Head) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}

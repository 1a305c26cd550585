//! Rows that were read lately, in front of the tree.
//!
//! How it stays true, without a lock that readers and the writer share for long. The writer, for
//! each batch: makes the `epoch` odd; replaces the cached rows of the keys it changes and removes
//! their placeholders; publishes the batch; makes the epoch even. A reader that misses: counts
//! itself as `loading`; puts a placeholder; looks at the epoch, and only if it is even reads the
//! tree and fills the placeholder, which fails if the writer removed it.
//!
//! So a stale row cannot settle: if the epoch was even, any batch not yet published touches the
//! cache after the placeholder was there, and removes it. And no batch shows early: a row carries
//! the batch that wrote it, and a reader takes only rows of published batches. The writer asks once
//! per batch whether anybody is loading; if nobody is, whoever begins later sees the odd epoch, and
//! there are no placeholders to look for (both sides write one flag and then read the other's:
//! sequentially consistent).

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::{Cache, EntryAction, EntryResult, GuardResult};

use super::view::Version;
use crate::StoreError;

/// Larger rows are not cached: the block cache and the system's pages serve them well enough.
const ROW_BYTES_MAX: usize = 64 * 1024;
/// What a cached row costs beside its key and value: entry, hash slot and three allocations, in
/// bytes.
const ROW_OVERHEAD_BYTES: u64 = 192;
/// Only a hint for the number of shards; nothing is allocated for it.
const ROWS_EXPECTED: usize = 100_000;

#[derive(Clone)]
struct Weight;

impl Weighter<Vec<u8>, Version> for Weight {
    fn weight(&self, key: &Vec<u8>, row: &Version) -> u64 {
        (key.len() + row.value.as_ref().map_or(0, Bytes::len)) as u64 + ROW_OVERHEAD_BYTES
    }
}

/// The row cache.
pub(super) struct RowCache {
    rows: Cache<Vec<u8>, Version, Weight>,
    /// Odd while a batch is being applied.
    epoch: AtomicU64,
    /// Readers that may hold a placeholder.
    loading: AtomicUsize,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// Numbers for the statistics.
pub(super) struct CacheFigures {
    pub rows: u64,
    pub bytes: u64,
    pub hits: u64,
    pub misses: u64,
}

impl RowCache {
    pub fn new(bytes_max: u64) -> RowCache {
        RowCache {
            rows: Cache::with_weighter(ROWS_EXPECTED, bytes_max, Weight),
            epoch: AtomicU64::new(0),
            loading: AtomicUsize::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// The newest published value of a key; `load` reads it from the tree.
    pub fn get(
        &self,
        key: &[u8],
        published: &AtomicU64,
        load: impl FnOnce() -> Result<Version, StoreError>,
    ) -> Result<Option<Bytes>, StoreError> {
        if let Some(row) = self.rows.get(key) {
            // Asked after the row was found: a row of the batch now being applied is not for us
            // yet.
            if row.sequence <= published.load(Ordering::Acquire) {
                self.hits.fetch_add(1, Ordering::Relaxed);
                return Ok(row.value);
            }
            return Ok(load()?.value);
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        let _loading = Loading::begin(&self.loading);
        if self.is_changing() {
            return Ok(load()?.value);
        }
        let GuardResult::Guard(place) = self.rows.get_value_or_guard(key, Some(Duration::ZERO))
        else {
            return Ok(load()?.value);
        };
        if self.is_changing() {
            return Ok(load()?.value);
        }
        let row = load()?;
        if key.len() + row.value.as_ref().map_or(0, Bytes::len) <= ROW_BYTES_MAX {
            // Copied, so that a small row does not keep a whole block or batch in memory. Refused
            // if the key was written meanwhile.
            let copy = row.value.as_deref().map(Bytes::copy_from_slice);
            let _ = place.insert(Version { sequence: row.sequence, value: copy });
        }
        Ok(row.value)
    }

    fn is_changing(&self) -> bool {
        self.epoch.load(Ordering::SeqCst) % 2 == 1
    }

    /// A batch begins; there is one writer.
    pub fn begin(&self) -> Writing<'_> {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        Writing { cache: self, anybody_loading: self.loading.load(Ordering::SeqCst) > 0 }
    }

    /// Forgets every row under a prefix that left the tree without being removed one by one.
    pub fn forget(&self, prefix: &[u8]) {
        let _writing = self.begin();
        while self.loading.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now(); // new readers see the odd epoch and put no placeholder
        }
        self.rows.retain(|key, _| !key.starts_with(prefix));
    }

    pub fn figures(&self) -> CacheFigures {
        CacheFigures {
            rows: self.rows.len() as u64,
            bytes: self.rows.weight(),
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
        }
    }
}

/// A batch on its way through the cache; dropped after it was published.
pub(super) struct Writing<'a> {
    cache: &'a RowCache,
    anybody_loading: bool,
}

impl Writing<'_> {
    /// A key changes: a cached row is replaced, so that what is hot stays cached; others are not
    /// brought in.
    pub fn change(&self, key: &[u8], sequence: u64, value: Option<&[u8]>) {
        let rows = &self.cache.rows;
        let mut stale = self.anybody_loading;
        if rows.contains_key(key) {
            let found = rows.entry(key, Some(Duration::ZERO), |_, row: &mut Version| {
                if key.len() + value.map_or(0, <[u8]>::len) > ROW_BYTES_MAX {
                    return EntryAction::Remove;
                }
                *row = Version { sequence, value: value.map(Bytes::copy_from_slice) };
                EntryAction::Retain(())
            });
            // Else it was evicted this moment, and perhaps somebody is loading it again.
            stale = !matches!(found, EntryResult::Retained(()) | EntryResult::Removed(..));
        }
        if stale {
            rows.remove(key);
        }
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.cache.epoch.fetch_add(1, Ordering::SeqCst);
        }
    }
}

struct Loading<'a>(&'a AtomicUsize);

impl<'a> Loading<'a> {
    fn begin(count: &'a AtomicUsize) -> Loading<'a> {
        count.fetch_add(1, Ordering::SeqCst);
        Loading(count)
    }
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

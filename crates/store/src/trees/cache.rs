//! Row cache: rows recently read from disk.
//!
//! A row that is in memory, written but not flushed, is never looked up here. So the writer does
//! not touch the cache. Instead a flush ensures that no stale row remains: it offers every row of
//! its table, which stays in every reader's view until all are offered. A cached row of that key is
//! replaced, and a reader that is reading that key from disk at that moment can't add it any
//! longer. A reader checks the tables in memory *after* it has reserved its slot here. So it either
//! finds the row in the table that is being flushed, or began after all rows of its key were
//! flushed.
//!
//! A dropped prefix removes rows without writing them. Then the drop waits for readers that hold a
//! slot, and other readers reserve none (`loading_readers` and `is_closed`: each side writes one
//! and then reads the other, sequentially consistent).

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::{Cache, EntryAction, EntryResult, GuardResult};

use crate::StoreError;

/// Larger rows are not cached: the block cache and the page cache are fast enough for them.
const ROW_BYTES_MAX: usize = 64 * 1024;
/// Bytes that a cached row costs beside its key and value: entry, hash slot and three allocations.
const ROW_OVERHEAD_BYTES: u64 = 192;
/// Number of rows that can be looked up in a table at negligible cost compared to its flush.
const FEW_ROWS_MAX: usize = 1_000;
/// Hint for the number of shards only; nothing is allocated for it.
const ROWS_EXPECTED: usize = 100_000;

/// Memory that a cached row takes.
#[derive(Clone)]
struct RowWeight;

impl Weighter<Vec<u8>, Option<Bytes>> for RowWeight {
    fn weight(&self, key: &Vec<u8>, value: &Option<Bytes>) -> u64 {
        (key.len() + value.as_ref().map_or(0, Bytes::len)) as u64 + ROW_OVERHEAD_BYTES
    }
}

/// The row cache. `None` as a value: the row is known to be absent.
pub(super) struct RowCache {
    rows: Cache<Vec<u8>, Option<Bytes>, RowWeight>,
    /// True while a prefix is evicted: no slot may be reserved.
    is_closed: AtomicBool,
    /// Held by the caller that closes and opens the cache.
    close_lock: Mutex<()>,
    /// Number of readers that may hold a slot.
    loading_readers: AtomicUsize,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// Value that was read below the cache.
pub(super) enum Loaded {
    /// A value from a table in memory, which is not cached.
    Memory(Option<Bytes>),
    /// A value from the disk.
    Disk(Option<Bytes>),
}

impl Loaded {
    fn value(self) -> Option<Bytes> {
        match self {
            Loaded::Memory(value) | Loaded::Disk(value) => value,
        }
    }
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
            rows: Cache::with_weighter(ROWS_EXPECTED, bytes_max, RowWeight),
            is_closed: AtomicBool::new(false),
            close_lock: Mutex::new(()),
            loading_readers: AtomicUsize::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// Returns the cached value of a key that was not found in memory. Counts a hit or a miss.
    pub fn find(&self, key: &[u8]) -> Option<Option<Bytes>> {
        let found = self.rows.get(key);
        let count = if found.is_some() { &self.hits } else { &self.misses };
        count.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Returns the value of a key that `find` did not find. `load` reads memory again, then the
    /// disk.
    pub fn load(
        &self,
        key: &[u8],
        load: impl FnOnce() -> Result<Loaded, StoreError>,
    ) -> Result<Option<Bytes>, StoreError> {
        let loading = Loading::begin(&self.loading_readers);
        if self.is_closed.load(Ordering::SeqCst) {
            // Without a slot: otherwise many readers could delay a caller that closes the cache for
            // as long as they read.
            drop(loading);
            return Ok(load()?.value());
        }
        let GuardResult::Guard(slot) = self.rows.get_value_or_guard(key, Some(Duration::ZERO))
        else {
            return Ok(load()?.value());
        };
        let loaded = load()?;
        if let Loaded::Disk(value) = &loaded
            && key.len() + value.as_ref().map_or(0, Bytes::len) <= ROW_BYTES_MAX
        {
            // Copied, so that a small row does not keep a whole block in memory. Refused if the key
            // was flushed meanwhile.
            let _ = slot.insert(value.as_deref().map(Bytes::copy_from_slice));
        }
        Ok(loaded.value())
    }

    /// Returns the cached value of a key that was not found in memory. Counts neither as a hit nor
    /// a miss.
    pub fn peek(&self, key: &[u8]) -> Option<Option<Bytes>> {
        self.rows.peek(key)
    }

    /// Returns the keys if they are few and no row is about to be added: a flush has only these to
    /// replace. A reader that begins later still finds the flushed rows in memory. The order of the
    /// checks matters: a reader is counted until its row is cached.
    pub fn keys_if_few(&self) -> Option<Vec<Vec<u8>>> {
        let few =
            self.loading_readers.load(Ordering::SeqCst) == 0 && self.rows.len() <= FEW_ROWS_MAX;
        few.then(|| self.rows.iter().map(|(key, _)| key).collect())
    }

    /// Replaces the cached value of a flushed row, so that hot rows stay cached. Does not add other
    /// rows.
    pub fn replace_flushed(&self, key: &[u8], value: Option<&[u8]>) {
        let small = key.len() + value.map_or(0, <[u8]>::len) <= ROW_BYTES_MAX;
        if small && self.rows.contains_key(key) {
            let found = self.rows.entry(key, Some(Duration::ZERO), |_, row: &mut Option<Bytes>| {
                *row = value.map(Bytes::copy_from_slice);
                EntryAction::Retain(())
            });
            if matches!(found, EntryResult::Retained(())) {
                return;
            }
        }
        // Also cancels a slot that a reader has reserved.
        self.rows.remove(key);
    }

    /// Evicts every row under a prefix whose rows were dropped with their files, after readers see
    /// the tree without them.
    pub fn evict_prefix(&self, prefix: &[u8]) {
        self.with_prefix_evicted(prefix, || ());
    }

    /// Evicts every row under a prefix and adds none while `work` runs, which may change the rows
    /// there.
    pub fn with_prefix_evicted<T>(&self, prefix: &[u8], work: impl FnOnce() -> T) -> T {
        let _guard = self.close_lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_closed.store(true, Ordering::SeqCst);
        while self.loading_readers.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
        self.rows.retain(|key, _| !key.starts_with(prefix));
        let result = work();
        self.is_closed.store(false, Ordering::SeqCst);
        result
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

/// Counts a reader for as long as it may hold a slot.
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

//! `LsmTrees`: the trees on disk, over the crate `lsm-tree` without a journal.
//!
//! Locks, in the order in which they may be acquired: `writer`, `retired`, `view`,
//! `unlisted_tables`. None is held while a file is read.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

use bytes::Bytes;
use lsm_tree::{AbstractTree, AnyTree, Cache, Table, TableId, Tree};

use super::cache::RowCache;
use super::ingest::{Ingest, LsmIngest, PrefixWatch};
use super::manifest::{self, Manifest};
use super::memtable::Memtable;
use super::packed::Packing;
use super::resident_tables::ResidentTables;
use super::snapshot::{LsmSnapshot, RowCounts};
use super::spans::{ReadPoint, Spans};
use super::view::View;
use super::{
    Pressure, RowChange, Snapshot, TreeSettings, TreeStatistics, Trees, ValueVisitor, hash,
    spanfile,
};
use crate::StoreError;
use crate::failpoint::{Point, reach};
use crate::panics::catch_panic;

/// The trees of a node, on disk.
pub struct LsmTrees {
    pub(super) tree: Tree,
    pub(super) settings: TreeSettings,
    block_cache: Arc<Cache>,
    pub(super) row_cache: RowCache,
    pub(super) resident_tables: ResidentTables,
    pub(super) writer: Mutex<WriterState>,
    /// Whether large values are packed.
    pub(super) packing: Packing,
    /// Seed of the hashes of tables in memory, so that clients can't choose colliding keys.
    pub(super) salt: u64,
    /// Number of the newest batch that readers may see.
    published: AtomicU64,
    view: RwLock<Arc<View>>,
    /// Views that readers may still hold. They are freed here and not by their last reader, because
    /// freeing a large table takes long.
    retired: Mutex<Vec<Arc<View>>>,
    /// Held while tables are merged or dropped: one caller at a time.
    pub(super) merging: Mutex<()>,
    /// Number of rows that the current drain may still merge. 0: no drain runs.
    pub(super) rows_to_drain: AtomicU64,
    /// Held by a background scan for dead spans.
    pub(super) span_scan: Mutex<()>,
    /// Table files of installations, which no list names yet.
    unlisted_tables: Mutex<BTreeSet<TableId>>,
    /// Stretches of keys without a row.
    pub(super) spans: Arc<Spans>,
    counts: Arc<RowCounts>,
    /// Set by the first failure after which the state is uncertain.
    closed: AtomicBool,
}

/// State of the single writer.
pub(super) struct WriterState {
    /// Number of the newest batch.
    sequence: u64,
    /// Table that receives the next batch.
    active: Arc<Memtable>,
    /// Watches that note writes under a prefix.
    pub(super) watches: Vec<Arc<PrefixWatch>>,
}

impl LsmTrees {
    /// Opens the trees, or creates them in an empty directory. Unflushed rows are lost.
    pub fn open(settings: TreeSettings) -> Result<LsmTrees, StoreError> {
        let path = settings.path.clone();
        if let Some(manifest) = Manifest::read(&path)? {
            manifest.tables()?.iter().try_for_each(|table| table.is_sound())?;
        }
        let block_cache = Arc::new(Cache::with_capacity_bytes(settings.block_cache_bytes_max()));
        let tree = match catch_panic(|| settings.library_config(&block_cache).open()) {
            Ok(Ok(AnyTree::Standard(tree))) => tree,
            Ok(Ok(AnyTree::Blob(_))) => {
                return Err(manifest::damage(&path, "foreign kind of tree"));
            }
            Ok(Err(error)) => return Err(manifest::error(&path, error)),
            Err(panic) => return Err(manifest::damage(&path, manifest::panic_message(&*panic))),
        };
        let sequence = tree.get_highest_persisted_seqno().unwrap_or(0);
        let packing = Packing::new(settings.packs_values);
        let active = Arc::new(Memtable::new());
        let view = Arc::new(View::capture((&tree, &packing), active, Vec::new(), Arc::default()));
        let writer =
            WriterState { sequence, active: Arc::clone(&view.active), watches: Vec::new() };
        let spans = Spans::default();
        spans.load(spanfile::read(&path, tree.current_version().id()), sequence);
        Ok(LsmTrees {
            spans: Arc::new(spans),
            counts: Arc::default(),
            row_cache: RowCache::new(settings.row_cache_bytes_max()),
            resident_tables: ResidentTables::default(),
            tree,
            settings,
            block_cache,
            packing,
            salt: RandomState::new().build_hasher().finish(),
            writer: Mutex::new(writer),
            published: AtomicU64::new(sequence),
            view: RwLock::new(view),
            retired: Mutex::new(Vec::new()),
            merging: Mutex::new(()),
            rows_to_drain: AtomicU64::new(0),
            span_scan: Mutex::new(()),
            unlisted_tables: Mutex::default(),
            closed: AtomicBool::new(false),
        })
    }

    /// Returns the current view.
    pub(super) fn view(&self) -> Arc<View> {
        // A swap of pointers can't be half done, so a poisoned lock is harmless.
        Arc::clone(&self.view.read().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    /// Returns the view and the batch number of a read that begins now. The view must be read
    /// before the number: on disk it has only the newest row of each key, and the number then
    /// covers all of them. In the other order an older number could miss a row that a flush has
    /// superseded.
    pub(super) fn view_and_sequence(&self) -> (Arc<View>, u64) {
        let view = self.view();
        (view, self.published.load(Ordering::Acquire))
    }

    /// Returns a snapshot of the current rows. `counts`: statistics that count its reads, if any.
    pub(super) fn open_snapshot(&self, counts: Option<&Arc<RowCounts>>) -> LsmSnapshot {
        let epoch = self.spans.epoch();
        let (view, sequence) = self.view_and_sequence();
        let (path, salt) = (self.settings.path.clone(), self.salt);
        let (spans, counts) = (Arc::clone(&self.spans), counts.cloned());
        LsmSnapshot { view, read_point: ReadPoint { epoch, sequence }, salt, path, spans, counts }
    }

    /// Locks the writer's state. `Closed` after a panic within a batch.
    pub(super) fn writer(&self) -> Result<MutexGuard<'_, WriterState>, StoreError> {
        self.check_usable()?;
        self.writer.lock().map_err(|_| StoreError::Closed)
    }

    /// Inserts a batch and publishes it.
    pub(super) fn apply_locked(
        &self,
        writer: &mut WriterState,
        batch: &mut dyn Iterator<Item = RowChange>,
    ) -> u64 {
        reach(Point::ApplyBefore);
        let sequence = writer.sequence + 1;
        let salted = |key: &[u8]| hash(key, self.salt);
        let insert_guard = self.spans.begin_insert(&writer.active);
        let on_change = |change: &RowChange| {
            self.spans.on_change(change, sequence);
            writer.watches.iter().for_each(|watch| watch.observe(change));
        };
        writer.active.insert(sequence, &mut batch.inspect(on_change), salted);
        drop(insert_guard);
        writer.sequence = sequence;
        self.published.store(sequence, Ordering::Release);
        reach(Point::ApplyAfter);
        sequence
    }

    /// Seals the active table and switches writer and readers to a new one.
    pub(super) fn rotate_locked(&self, writer: &mut WriterState) -> Result<bool, StoreError> {
        let mut retired = self.retired.lock().map_err(|_| StoreError::Closed)?;
        if writer.active.rows() == 0 {
            return Ok(false);
        }
        let view = self.view();
        let (mut sealed, walked) = (view.sealed.clone(), Arc::clone(&view.dead_walked_on_disk));
        sealed.push(std::mem::replace(&mut writer.active, Arc::new(Memtable::new())));
        let active = Arc::clone(&writer.active);
        retired.push(self.replace_view(self.capture_view(active, sealed, walked)));
        self.spans.on_seal();
        // After the swap: a reader in the new epoch has the new table.
        self.spans.end_epoch(writer.sequence);
        reach(Point::RotateAfter);
        Ok(true)
    }

    /// Switches readers from a sealed table to its flushed file.
    pub(super) fn switch_to_flushed(&self, flushed: &Arc<Memtable>) -> Result<(), StoreError> {
        let mut retired = self.retired.lock().map_err(|_| StoreError::Closed)?;
        let view = self.view();
        let mut sealed = view.sealed.clone();
        sealed.retain(|table| !Arc::ptr_eq(table, flushed));
        let (active, walked) = (Arc::clone(&view.active), Arc::clone(&view.dead_walked_on_disk));
        retired.push(self.replace_view(self.capture_view(active, sealed, walked)));
        Ok(())
    }

    /// Switches readers to the tables after a merge, and frees views without readers.
    pub(super) fn refresh(&self) -> Result<(), StoreError> {
        let mut retired = self.retired.lock().map_err(|_| StoreError::Closed)?;
        let view = self.view();
        let (active, sealed) = (Arc::clone(&view.active), view.sealed.clone());
        // A copy: readers of older views no longer count. The sum is kept, because most dead rows
        // lie outside this merge, and with frequent merges a fresh count would never be enough.
        let walked = Arc::new(view.dead_walked_on_disk.load(Ordering::Relaxed).into());
        retired.push(self.replace_view(self.capture_view(active, sealed, walked)));
        drop((retired, view));
        self.free_retired()
    }

    /// Frees views without readers. Slow, hence on background threads only.
    pub(super) fn free_retired(&self) -> Result<(), StoreError> {
        let mut retired = self.retired.lock().map_err(|_| StoreError::Closed)?;
        let all = std::mem::take(&mut *retired);
        let (free, held) = all.into_iter().partition(|view| Arc::strong_count(view) == 1);
        *retired = held;
        drop(retired);
        drop::<Vec<Arc<View>>>(free);
        Ok(())
    }

    /// Returns the table files of the newest list, of held views, and of installations.
    pub(super) fn files_in_use(&self) -> Result<BTreeSet<TableId>, StoreError> {
        let retired = self.retired.lock().map_err(|_| StoreError::Closed)?;
        let held = retired.iter().flat_map(|view| view.files.iter().copied());
        let newest = self.tree.current_version();
        let unlisted_tables = self.unlisted_tables.lock().map_err(|_| StoreError::Closed)?;
        Ok(held
            .chain(unlisted_tables.iter().copied())
            .chain(self.view().files.iter().copied())
            .chain(newest.iter_tables().map(|table| table.id()))
            .collect())
    }

    /// Protects files that no list names from `sweep`, or ends that protection.
    pub(super) fn set_unlisted(&self, tables: &[Table], unlisted: bool) -> Result<(), StoreError> {
        let mut unlisted_tables = self.unlisted_tables.lock().map_err(|_| StoreError::Closed)?;
        for id in tables.iter().map(Table::id) {
            if unlisted {
                unlisted_tables.insert(id)
            } else {
                unlisted_tables.remove(&id)
            };
        }
        Ok(())
    }

    fn capture_view(
        &self,
        active: Arc<Memtable>,
        sealed: Vec<Arc<Memtable>>,
        dead_walked_on_disk: Arc<AtomicU64>,
    ) -> View {
        View::capture((&self.tree, &self.packing), active, sealed, dead_walked_on_disk)
    }

    fn replace_view(&self, next: View) -> Arc<View> {
        let mut view = self.view.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        std::mem::replace(&mut *view, Arc::new(next))
    }

    /// Limits the resident tables to the memory that the row cache does not use.
    pub(super) fn shrink_resident_tables(&self) {
        let cached = self.row_cache.figures().bytes;
        self.resident_tables.shrink_to(self.settings.row_cache_bytes_max().saturating_sub(cached));
    }

    /// Returns `Closed` after a failure that left the state uncertain.
    pub(super) fn check_usable(&self) -> Result<(), StoreError> {
        if self.closed.load(Ordering::Acquire) { Err(StoreError::Closed) } else { Ok(()) }
    }

    /// Runs a call of the library that changes the tree. A failure other than a full disk, or a
    /// panic, closes the trees for good: the library's state may be inconsistent.
    pub(super) fn guarded<T>(
        &self,
        work: impl FnOnce() -> lsm_tree::Result<T>,
    ) -> Result<T, StoreError> {
        self.check_usable()?;
        let path: &Path = &self.settings.path;
        let failure = match catch_panic(work) {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => manifest::error(path, error),
            Err(panic) => manifest::damage(path, manifest::panic_message(&*panic)),
        };
        if !matches!(failure, StoreError::Full) {
            self.closed.store(true, Ordering::Release);
        }
        Err(failure)
    }
}

impl Trees for LsmTrees {
    fn apply(&self, batch: &mut dyn Iterator<Item = RowChange>) -> Result<u64, StoreError> {
        Ok(self.apply_locked(&mut *self.writer()?, batch))
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.read_newest(key)
    }

    fn get_in_memory(&self, key: &[u8]) -> Option<Option<Bytes>> {
        self.read_in_memory(key, &self.view_and_sequence())
    }

    fn get_each(&self, keys: &[&[u8]], visit: &mut ValueVisitor<'_>) {
        self.read_each(keys, visit);
    }

    fn get_for_update(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.read_for_update(key)
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        Box::new(self.open_snapshot(Some(&self.counts)))
    }

    fn memory_bytes(&self) -> u64 {
        self.view().memory_bytes()
    }

    fn pressure(&self) -> Pressure {
        let view = self.view();
        let active_bytes_max = self.settings.table_bytes_max();
        Pressure {
            active_bytes: view.active.bytes(),
            active_bytes_max,
            has_many_dead_rows: view.has_many_dead_rows(active_bytes_max),
            sealed_tables: view.sealed.len(),
            level0_runs: view.level0_runs,
        }
    }

    fn rotate(&self) -> Result<bool, StoreError> {
        self.rotate_locked(&mut *self.writer()?)
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.flush_sealed()
    }

    fn compact(&self) -> Result<bool, StoreError> {
        self.compact_round()
    }

    fn drop_prefix(&self, prefix: &[u8]) -> Result<(), StoreError> {
        self.drop_rows_under(prefix)
    }

    fn begin_install(self: Arc<Self>, prefix: &[u8]) -> Result<Box<dyn Ingest>, StoreError> {
        Ok(Box::new(LsmIngest::begin(self, prefix)?))
    }

    fn allow_packing(&self) {
        self.packing.allow();
    }

    fn checkpoint(&self, target: &Path) -> Result<(), StoreError> {
        self.link_into(target)
    }

    fn statistics(&self) -> TreeStatistics {
        let view = self.view();
        let cache = self.row_cache.figures();
        let in_memory: usize = view.memtables().map(|table| table.rows()).sum();
        let tables = self.tree.current_version();
        // The library's own figure excludes filters and indexes.
        let bytes_of = |table: &Table| std::fs::metadata(&*table.path).map_or(0, |file| file.len());
        TreeStatistics {
            disk_bytes: tables.iter_tables().map(bytes_of).sum(),
            memory_bytes: view.memory_bytes(),
            rows_estimated: (self.tree.approximate_len() + in_memory) as u64,
            tombstones: self.tree.tombstone_count(),
            cached_rows: cache.rows,
            cached_bytes: cache.bytes + self.resident_tables.bytes(),
            cache_hits: cache.hits,
            cache_misses: cache.misses,
            block_cache_bytes: self.block_cache.size(),
            tables: tables.table_count() as u64,
            sealed_tables: view.sealed.len() as u64,
            level0_runs: view.level0_runs as u64,
            sequence: self.published.load(Ordering::Acquire),
            rows_walked: self.counts.walked.load(Ordering::Relaxed),
            rows_returned: self.counts.returned.load(Ordering::Relaxed),
        }
    }
}

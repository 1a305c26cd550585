//! `LsmTrees`: the trees on disk. The tables are those of the crate `lsm-tree`; the list of them,
//! its merges and the rows in memory are in this folder.
//!
//! Locks, in the order in which they may be acquired: `flushing`, `writer`, `retired`,
//! `busy_tables`, `view`, `list`. Only the first and `busy_tables` are held while a file is
//! written.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use bytes::Bytes;
use lsm_tree::{Cache, DescriptorTable, Table, TableId};

use super::cache::RowCache;
use super::current_list::open_list;
use super::ingest::{Ingest, LsmIngest, PrefixWatch};
use super::manifest;
use super::memtable::Memtable;
use super::merge_policy::total;
use super::packed::Packing;
use super::resident_tables::ResidentTables;
use super::run_list::RunList;
use super::snapshot::{LsmSnapshot, RowCounts};
use super::spans::{ReadPoint, Spans};
use super::table_writer::TableCaches;
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
    pub(super) settings: TreeSettings,
    pub(super) tables: TableCaches,
    pub(super) row_cache: RowCache,
    pub(super) resident_tables: ResidentTables,
    pub(super) writer: Mutex<WriterState>,
    /// Switch of the packing of large values.
    pub(super) packing: Packing,
    /// Seed of the hashes of tables in memory, so that clients can't choose colliding keys.
    pub(super) salt: u64,
    /// Number of the newest batch that readers may see.
    published: AtomicU64,
    view: RwLock<Arc<View>>,
    /// Views that readers may still hold. They are freed here and not by their last reader, because
    /// freeing a large table takes long.
    retired: Mutex<Vec<Arc<View>>>,
    /// The newest list of runs on disk.
    pub(super) list: RwLock<Arc<RunList>>,
    /// Tables that merges read. Held while the list changes.
    pub(super) busy_tables: Mutex<BTreeSet<TableId>>,
    /// Held during a flush.
    pub(super) flushing: Mutex<()>,
    /// Number of the next table file.
    pub(super) next_table_id: AtomicU64,
    /// Space for the output of merges, in bytes.
    pub(super) merge_bytes_max: AtomicU64,
    /// True if a merge is due for which there is no space.
    pub(super) lacks_merge_space: AtomicBool,
    /// Rounds of merging in succession in which nothing was due, and nothing was flushed.
    pub(super) idle_rounds: AtomicU64,
    /// True once merges are cancelled.
    pub(super) is_closing: AtomicBool,
    /// Held by a background scan for dead spans.
    pub(super) span_scan: Mutex<()>,
    /// Stretches of keys without a row.
    pub(super) spans: Arc<Spans>,
    counts: Arc<RowCounts>,
    /// Set by the first failure after which the state is uncertain.
    pub(super) closed: AtomicBool,
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
        let tables = TableCaches {
            blocks: Arc::new(Cache::with_capacity_bytes(settings.block_cache_bytes_max())),
            files: Arc::new(DescriptorTable::new(settings.open_files_max)),
        };
        let packing = Packing::new(settings.packs_values);
        let (list, next_table_id) = open_list(&settings, &tables, &packing)?;
        let sequence = list.tables().map(Table::get_highest_seqno).max().unwrap_or(0);
        let spans = Spans::default();
        spans.load(spanfile::read(&settings.path, list.id), sequence);
        let (active, disk) = (Arc::new(Memtable::new()), Arc::new(list));
        let writer = WriterState { sequence, active: Arc::clone(&active), watches: Vec::new() };
        let dead_walked_on_disk = Arc::default();
        let list = RwLock::new(Arc::clone(&disk));
        let view = View { active, sealed: Vec::new(), disk, dead_walked_on_disk };
        Ok(LsmTrees {
            spans: Arc::new(spans),
            counts: Arc::default(),
            row_cache: RowCache::new(settings.row_cache_bytes_max()),
            resident_tables: ResidentTables::default(),
            settings,
            tables,
            packing,
            salt: RandomState::new().build_hasher().finish(),
            writer: Mutex::new(writer),
            published: AtomicU64::new(sequence),
            view: RwLock::new(Arc::new(view)),
            retired: Mutex::new(Vec::new()),
            list,
            busy_tables: Mutex::default(),
            flushing: Mutex::new(()),
            next_table_id: AtomicU64::new(next_table_id),
            merge_bytes_max: AtomicU64::new(u64::MAX),
            lacks_merge_space: AtomicBool::new(false),
            idle_rounds: AtomicU64::new(0),
            is_closing: AtomicBool::new(false),
            span_scan: Mutex::new(()),
            closed: AtomicBool::new(false),
        })
    }

    /// Returns the current view.
    pub(super) fn view(&self) -> Arc<View> {
        // A swap of pointers can't be half done, so a poisoned lock is harmless.
        Arc::clone(&self.view.read().unwrap_or_else(PoisonError::into_inner))
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
        let mut sealed = view.sealed.clone();
        sealed.push(std::mem::replace(&mut writer.active, Arc::new(Memtable::new())));
        let active = Arc::clone(&writer.active);
        // The runs on disk stay those of the view: a list that changes just now comes with its own
        // view, and the writer need not wait for its syncs.
        retired.push(self.replace_view(View {
            active,
            sealed,
            disk: Arc::clone(&view.disk),
            dead_walked_on_disk: Arc::clone(&view.dead_walked_on_disk),
        }));
        self.spans.on_seal();
        // After the swap: a reader in the new epoch has the new table.
        self.spans.end_epoch(writer.sequence);
        reach(Point::RotateAfter);
        Ok(true)
    }

    /// Switches readers to the newest list, and from a sealed table to its flushed file.
    pub(super) fn switch_to_flushed(&self, flushed: &Arc<Memtable>) -> Result<(), StoreError> {
        let mut retired = self.retired.lock().map_err(|_| StoreError::Closed)?;
        let view = self.view();
        let mut sealed = view.sealed.clone();
        sealed.retain(|table| !Arc::ptr_eq(table, flushed));
        retired.push(self.replace_view(View {
            active: Arc::clone(&view.active),
            sealed,
            disk: self.list(),
            dead_walked_on_disk: Arc::clone(&view.dead_walked_on_disk),
        }));
        Ok(())
    }

    /// Switches readers to the newest list, after a merge, and frees views without readers.
    pub(super) fn refresh(&self) -> Result<(), StoreError> {
        let mut retired = self.retired.lock().map_err(|_| StoreError::Closed)?;
        let view = self.view();
        // A copy: readers of older views no longer count. The sum is kept, because most dead rows
        // lie outside this merge, and with frequent merges a fresh count would never be enough.
        let walked = view.dead_walked_on_disk.load(Ordering::Relaxed);
        retired.push(self.replace_view(View {
            active: Arc::clone(&view.active),
            sealed: view.sealed.clone(),
            disk: self.list(),
            dead_walked_on_disk: Arc::new(walked.into()),
        }));
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

    fn replace_view(&self, next: View) -> Arc<View> {
        let mut view = self.view.write().unwrap_or_else(PoisonError::into_inner);
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
            unmerged_runs: view.disk.counts.unmerged,
            runs: view.disk.counts.total,
            lacks_merge_space: self.lacks_merge_space.load(Ordering::Relaxed),
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

    fn compact_small(&self) -> Result<bool, StoreError> {
        self.merge_and_store_spans(true)
    }

    fn limit_merges(&self, bytes_max: u64) {
        self.merge_bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    fn cancel_merges(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
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
        let disk = self.list();
        // The library's own figure excludes filters and indexes.
        let bytes_of = |table: &Table| std::fs::metadata(&*table.path).map_or(0, |file| file.len());
        let rows_on_disk = total(disk.tables().map(|table| table.metadata.item_count));
        TreeStatistics {
            disk_bytes: disk.tables().map(bytes_of).sum(),
            memory_bytes: view.memory_bytes(),
            rows_estimated: rows_on_disk.saturating_add(in_memory as u64),
            tombstones: total(disk.tables().map(Table::tombstone_count)),
            cached_rows: cache.rows,
            cached_bytes: cache.bytes + self.resident_tables.bytes(),
            cache_hits: cache.hits,
            cache_misses: cache.misses,
            block_cache_bytes: self.tables.blocks.size(),
            tables: disk.tables().count() as u64,
            sealed_tables: view.sealed.len() as u64,
            unmerged_runs: disk.counts.unmerged as u64,
            runs: disk.counts.total as u64,
            merge_debt_bytes: disk.counts.debt_bytes,
            sequence: self.published.load(Ordering::Acquire),
            rows_walked: self.counts.walked.load(Ordering::Relaxed),
            rows_returned: self.counts.returned.load(Ordering::Relaxed),
        }
    }
}

//! `LsmTrees`: the trees on disk, over the crate `lsm-tree` without a journal.
//!
//! Locks, in the order in which they may be taken: `writer`, `retired`, `view`; `arriving`
//! is the last one. None is held while a file is read.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

use bytes::Bytes;
use lsm_tree::config::{CompressionPolicy, PinningPolicy};
use lsm_tree::{
    AbstractTree, AnyTree, Cache, CompressionType, Config, DescriptorTable, SequenceNumberCounter,
    Table, TableId, Tree,
};

use super::cache::{Loaded, RowCache};
use super::ingest::{Ingest, LsmIngest, Watch};
use super::manifest::{self, Manifest};
use super::memtable::Memtable;
use super::resident_tables::TableList;
use super::snapshot::{LsmSnapshot, RowCounts};
use super::spans::{Sight, Spans};
use super::view::View;
use super::{Pressure, RowChange, Snapshot, TreeSettings, TreeStatistics, Trees, hash, spanfile};
use crate::StoreError;
use crate::failpoint::{Point, reach};
use crate::panics::spared;

/// The trees of a node, on disk.
pub struct LsmTrees {
    pub(super) tree: Tree,
    pub(super) settings: TreeSettings,
    blocks: Arc<Cache>,
    pub(super) rows: RowCache,
    pub(super) kept: TableList,
    pub(super) writer: Mutex<WriterState>,
    /// Seed of the hashes of tables in memory, so that clients can't choose colliding keys.
    pub(super) salt: u64,
    /// The newest batch that readers may see.
    published: AtomicU64,
    view: RwLock<Arc<View>>,
    /// Views that readers may still hold. They end here and not with their last reader, because
    /// freeing a large table takes long.
    retired: Mutex<Vec<Arc<View>>>,
    /// Held while tables are merged or dropped: one caller at a time.
    pub(super) merging: Mutex<()>,
    /// Rows that may yet be merged because of dead ones that range reads walked over.
    pub(super) rows_to_drain: AtomicU64,
    /// Held while the places of removed rows are studied.
    pub(super) studying: Mutex<()>,
    /// Table files of installations, which no list names yet.
    arriving: Mutex<BTreeSet<TableId>>,
    /// Stretches of keys in which no row is left.
    pub(super) spans: Arc<Spans>,
    counts: Arc<RowCounts>,
    /// Set by the first failure that leaves doubt.
    closed: AtomicBool,
}

/// State of the single writer.
pub(super) struct WriterState {
    /// Number of the newest batch.
    sequence: u64,
    /// Table that takes the next batch.
    active: Arc<Memtable>,
    /// Watches that note writes under a prefix.
    pub(super) watches: Vec<Arc<Watch>>,
}

impl LsmTrees {
    /// Opens the trees, or creates them in an empty directory. Unflushed rows are lost.
    pub fn open(settings: TreeSettings) -> Result<LsmTrees, StoreError> {
        let path = settings.path.clone();
        if let Some(manifest) = Manifest::read(&path)? {
            manifest.tables()?.iter().try_for_each(|table| table.is_sound())?;
        }
        let blocks = Arc::new(Cache::with_capacity_bytes(settings.block_cache_bytes_max()));
        let tree = match spared(|| config(&settings, &blocks).open()) {
            Ok(Ok(AnyTree::Standard(tree))) => tree,
            Ok(Ok(AnyTree::Blob(_))) => {
                return Err(manifest::damage(&path, "foreign kind of tree"));
            }
            Ok(Err(error)) => return Err(manifest::error(&path, error)),
            Err(panic) => return Err(manifest::damage(&path, manifest::panic_words(&*panic))),
        };
        let sequence = tree.get_highest_persisted_seqno().unwrap_or(0);
        let active = Arc::new(Memtable::new());
        let view = Arc::new(View::capture(&tree, active, Vec::new(), Arc::default()));
        let writer =
            WriterState { sequence, active: Arc::clone(&view.active), watches: Vec::new() };
        let spans = Spans::default();
        spans.load(spanfile::read(&path, tree.current_version().id()), sequence);
        Ok(LsmTrees {
            spans: Arc::new(spans),
            counts: Arc::default(),
            rows: RowCache::new(settings.row_cache_bytes_max()),
            kept: TableList::default(),
            tree,
            settings,
            blocks,
            salt: RandomState::new().build_hasher().finish(),
            writer: Mutex::new(writer),
            published: AtomicU64::new(sequence),
            view: RwLock::new(view),
            retired: Mutex::new(Vec::new()),
            merging: Mutex::new(()),
            rows_to_drain: AtomicU64::new(0),
            studying: Mutex::new(()),
            arriving: Mutex::default(),
            closed: AtomicBool::new(false),
        })
    }

    /// The tables as they are now.
    pub(super) fn view(&self) -> Arc<View> {
        // A swap of pointers cannot leave them half done, so a poisoned lock tells nothing here.
        Arc::clone(&self.view.read().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    /// Returns the view and the batch number of a read that begins now. The view must be taken
    /// before the number: on disk it has only the newest row of each key, and all that was
    /// published when it was made is below the number then. The other way round the row below an
    /// older number could be gone.
    fn now(&self) -> (Arc<View>, u64) {
        let view = self.view();
        (view, self.published.load(Ordering::Acquire))
    }

    /// Returns a snapshot of the rows as they are now. `counts`: statistics that count its rows, if
    /// any.
    pub(super) fn look(&self, counts: Option<&Arc<RowCounts>>) -> LsmSnapshot {
        let turn = self.spans.turn();
        let (view, sequence) = self.now();
        let (path, salt) = (self.settings.path.clone(), self.salt);
        let (spans, counts) = (Arc::clone(&self.spans), counts.cloned());
        LsmSnapshot { view, sight: Sight { turn, sequence }, salt, path, spans, counts }
    }

    /// Locks the writer's state. `Closed` after a batch failed in its midst.
    pub(super) fn writer(&self) -> Result<MutexGuard<'_, WriterState>, StoreError> {
        self.usable()?;
        self.writer.lock().map_err(|_| StoreError::Closed)
    }

    /// Inserts a batch and publishes it.
    pub(super) fn apply_as(
        &self,
        writer: &mut WriterState,
        batch: &mut dyn Iterator<Item = RowChange>,
    ) -> u64 {
        reach(Point::ApplyBefore);
        let sequence = writer.sequence + 1;
        let salted = |key: &[u8]| hash(key, self.salt);
        let inserting = self.spans.begin(&writer.active);
        let see = |change: &RowChange| {
            self.spans.see(change, sequence);
            writer.watches.iter().for_each(|watch| watch.see(change));
        };
        writer.active.insert(sequence, &mut batch.inspect(see), salted);
        drop(inserting);
        writer.sequence = sequence;
        self.published.store(sequence, Ordering::Release);
        reach(Point::ApplyAfter);
        sequence
    }

    /// Seals the active table and turns writer and readers to a new one.
    pub(super) fn rotate_as(&self, writer: &mut WriterState) -> Result<bool, StoreError> {
        let mut retired = self.retired.lock().map_err(|_| StoreError::Closed)?;
        if writer.active.rows() == 0 {
            return Ok(false);
        }
        let view = self.view();
        let (mut sealed, in_vain) = (view.sealed.clone(), Arc::clone(&view.in_vain_on_disk));
        sealed.push(std::mem::replace(&mut writer.active, Arc::new(Memtable::new())));
        let active = Arc::clone(&writer.active);
        retired.push(self.swap(View::capture(&self.tree, active, sealed, in_vain)));
        self.spans.seal();
        // After the swap: a reader in the new turn has the new table.
        self.spans.end_turn(writer.sequence);
        reach(Point::RotateAfter);
        Ok(true)
    }

    /// Turns readers from a sealed table to its flushed file on disk.
    pub(super) fn let_go(&self, flushed: &Arc<Memtable>) -> Result<(), StoreError> {
        let mut retired = self.retired.lock().map_err(|_| StoreError::Closed)?;
        let view = self.view();
        let mut sealed = view.sealed.clone();
        sealed.retain(|table| !Arc::ptr_eq(table, flushed));
        let (active, in_vain) = (Arc::clone(&view.active), Arc::clone(&view.in_vain_on_disk));
        retired.push(self.swap(View::capture(&self.tree, active, sealed, in_vain)));
        Ok(())
    }

    /// Turns readers to the tables as they are after a merge, and frees views without readers.
    pub(super) fn refresh(&self) -> Result<(), StoreError> {
        let mut retired = self.retired.lock().map_err(|_| StoreError::Closed)?;
        let view = self.view();
        let (active, sealed) = (Arc::clone(&view.active), view.sealed.clone());
        // A copy: readers of the tables from before count no more. But most dead rows lie where
        // this merge was not, and where others are merged all the time they would never be enough.
        let in_vain = Arc::new(view.in_vain_on_disk.load(Ordering::Relaxed).into());
        retired.push(self.swap(View::capture(&self.tree, active, sealed, in_vain)));
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

    /// Table files that the newest list has, or a view that a reader may still hold.
    pub(super) fn files_in_use(&self) -> Result<BTreeSet<TableId>, StoreError> {
        let retired = self.retired.lock().map_err(|_| StoreError::Closed)?;
        let held = retired.iter().flat_map(|view| view.files.iter().copied());
        let newest = self.tree.current_version();
        let arriving = self.arriving.lock().map_err(|_| StoreError::Closed)?;
        Ok(held
            .chain(arriving.iter().copied())
            .chain(self.view().files.iter().copied())
            .chain(newest.iter_tables().map(|table| table.id()))
            .collect())
    }

    /// Keeps the sweeper from files that no list names, or lets it have them.
    pub(super) fn note_arriving(&self, tables: &[Table], arrive: bool) -> Result<(), StoreError> {
        let mut arriving = self.arriving.lock().map_err(|_| StoreError::Closed)?;
        for id in tables.iter().map(Table::id) {
            if arrive {
                arriving.insert(id)
            } else {
                arriving.remove(&id)
            };
        }
        Ok(())
    }

    fn swap(&self, next: View) -> Arc<View> {
        let mut view = self.view.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        std::mem::replace(&mut *view, Arc::new(next))
    }

    /// Flushed tables are kept in what the row cache has not taken yet.
    pub(super) fn keep_within_room(&self) {
        let taken = self.rows.figures().bytes;
        self.kept.shrink_to(self.settings.row_cache_bytes_max().saturating_sub(taken));
    }

    /// `Closed` after a failure that left doubt.
    pub(super) fn usable(&self) -> Result<(), StoreError> {
        if self.closed.load(Ordering::Acquire) { Err(StoreError::Closed) } else { Ok(()) }
    }

    /// Runs work of the crate below that changes the tree. A failure other than a full disk, or a
    /// panic, closes the trees for good: its locks may be poisoned, its lists half made.
    pub(super) fn guarded<T>(
        &self,
        work: impl FnOnce() -> lsm_tree::Result<T>,
    ) -> Result<T, StoreError> {
        self.usable()?;
        let path: &Path = &self.settings.path;
        let failure = match spared(work) {
            Ok(Ok(done)) => return Ok(done),
            Ok(Err(error)) => manifest::error(path, error),
            Err(panic) => manifest::damage(path, manifest::panic_words(&*panic)),
        };
        if !matches!(failure, StoreError::Full) {
            self.closed.store(true, Ordering::Release);
        }
        Err(failure)
    }
}

impl Trees for LsmTrees {
    fn apply(&self, batch: &mut dyn Iterator<Item = RowChange>) -> Result<u64, StoreError> {
        Ok(self.apply_as(&mut *self.writer()?, batch))
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let hash = hash(key, self.salt);
        let (view, sequence) = self.now();
        if let Some(found) = view.in_memory(key, hash, sequence) {
            return Ok(found.value);
        }
        drop(view);
        if let Some(found) = self.kept.get(key, hash) {
            return Ok(found.value);
        }
        // Looked at again once the key has its place in the cache: see the head of `cache.rs`.
        self.rows.get(key, || {
            let (view, sequence) = self.now();
            Ok(match view.in_memory(key, hash, sequence) {
                Some(found) => Loaded::Memory(found.value),
                None => Loaded::Disk(view.on_disk(key, sequence)?.value),
            })
        })
    }

    fn get_to_write(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let hash = hash(key, self.salt);
        let (view, sequence) = self.now();
        let known = view.in_memory(key, hash, sequence).or_else(|| self.kept.get(key, hash));
        match known.map(|found| found.value).or_else(|| self.rows.peek(key)) {
            Some(value) => Ok(value),
            None => Ok(view.on_disk(key, sequence)?.value),
        }
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        Box::new(self.look(Some(&self.counts)))
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
            dead_rows_in_the_way: view.has_dead_rows_in_the_way(active_bytes_max),
            sealed_tables: view.sealed.len(),
            level0_runs: view.level0_runs,
        }
    }

    fn rotate(&self) -> Result<bool, StoreError> {
        self.rotate_as(&mut *self.writer()?)
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

    fn checkpoint(&self, target: &Path) -> Result<(), StoreError> {
        self.link_into(target)
    }

    fn statistics(&self) -> TreeStatistics {
        let view = self.view();
        let cache = self.rows.figures();
        let in_memory: usize = view.in_order().map(|table| table.rows()).sum();
        let tables = self.tree.current_version();
        // The crate's own figure leaves filters and indexes out.
        let bytes_of = |table: &Table| std::fs::metadata(&*table.path).map_or(0, |file| file.len());
        TreeStatistics {
            disk_bytes: tables.iter_tables().map(bytes_of).sum(),
            memory_bytes: view.memory_bytes(),
            rows_estimated: (self.tree.approximate_len() + in_memory) as u64,
            tombstones: self.tree.tombstone_count(),
            cached_rows: cache.rows,
            cached_bytes: cache.bytes + self.kept.bytes(),
            cache_hits: cache.hits,
            cache_misses: cache.misses,
            block_cache_bytes: self.blocks.size(),
            tables: tables.table_count() as u64,
            sealed_tables: view.sealed.len() as u64,
            level0_runs: view.level0_runs as u64,
            sequence: self.published.load(Ordering::Acquire),
            rows_walked: self.counts.walked.load(Ordering::Relaxed),
            rows_returned: self.counts.returned.load(Ordering::Relaxed),
        }
    }
}

/// LZ4 everywhere, ten filter bits a key, filters and indexes of the upper levels kept in memory.
/// The crate's own counters number its lists of tables only: batches are numbered by the writer.
fn config(settings: &TreeSettings, blocks: &Arc<Cache>) -> Config {
    let lists = SequenceNumberCounter::default;
    Config::new(&settings.path, lists(), lists())
        .use_cache(Arc::clone(blocks))
        .use_descriptor_table(Some(Arc::new(DescriptorTable::new(settings.open_files_max))))
        .data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4))
        .filter_block_pinning_policy(PinningPolicy::all(true))
}

//! Flushes from memory to disk, and merges of many tables to few. All of it runs on the caller's
//! background threads.
//!
//! Every flush and merge drops superseded rows (watermark `SeqNo::MAX`): each reader's view keeps
//! the tables that it needs, and every row of a sealed table is published, so no reader needs an
//! old row of a *new* table.
//!
//! Durability of a flush, in the LSM library: every table file and its directory are synced
//! (`table/writer/mod.rs`, `Writer::finish`), then the list file and the directory, then `current`
//! by temporary file, sync, rename and sync of the directory (`version/persist.rs`). Only then are
//! the sealed tables dropped.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use lsm_tree::compaction::Leveled;
use lsm_tree::{AbstractTree, InternalValue, SeqNo, ValueType};

use super::manifest::TABLES;
use super::memtable::Memtable;
use super::sorted_run::RunWalk;
use super::span::DeadStretch;
use super::span_scan::{Gaps, PrefixExchange};
use super::view::{Bounds, Version, may_be_on_disk};
use super::{LsmTrees, RowChange, Trees, hash};
use crate::StoreError;
use crate::failpoint::{Point, reach};

const EVERYTHING: Bounds = (Bound::Unbounded, Bound::Unbounded);
/// Rows removed in one batch when a prefix is dropped, so that the writer never waits long.
const ROWS_PER_DROP: usize = 1_000;

impl LsmTrees {
    pub(super) fn flush_sealed(&self) -> Result<(), StoreError> {
        reach(Point::FlushBefore);
        // Before the flush lock is taken: a merge takes `merging` first, and then that lock.
        while self.view().level0_runs >= self.settings.runs_limit() {
            self.merge_all_runs()?;
        }
        let flush_lock = self.tree.get_flush_lock();
        let sealed = self.view().sealed.clone();
        for table in &sealed {
            self.scan_dead_spans(table);
            let flushed = self.flush_table(table);
            if matches!(flushed, Err(StoreError::Full)) {
                // In this order, as everywhere: `merging`, then the flush lock, which `sweep`
                // takes.
                drop(flush_lock);
                let _merging = self.merging.lock().map_err(|_| StoreError::Closed)?;
                self.sweep()?;
                return flushed;
            }
            flushed?;
            reach(Point::FlushAfter);
            self.store_spans(&self.spans.on_flush());
        }
        self.free_retired()
    }

    /// Writes the newest row of each key of a sealed table to disk, and switches readers to the
    /// file. A tombstone that hides no row is dropped: most short-lived rows leave nothing on disk.
    fn flush_table(&self, table: &Arc<Memtable>) -> Result<(), StoreError> {
        let newest_run = Arc::new(table.newest_rows());
        // While the table is in every reader's view, its rows may be offered to the cache at any
        // time: all as they are written, or only those that the cache holds.
        let cached_keys = self.row_cache.keys_if_few();
        for key in cached_keys.iter().flatten() {
            if let Some(row) = table.get(key, hash(key, self.salt), u64::MAX) {
                self.row_cache.replace_flushed(key, row.value.as_deref());
            }
        }
        // All older tables are on disk, and tables that are merged meanwhile have the same rows. A
        // prefix that is replaced meanwhile is newer than every row here.
        let may_be_on_disk = may_be_on_disk(&self.tree);
        self.guarded(|| {
            let newest = RunWalk::new(Arc::clone(&newest_run), &EVERYTHING, u64::MAX, false);
            let rows = newest.filter_map(|(key, Version { sequence, value })| {
                if cached_keys.is_none() {
                    self.row_cache.replace_flushed(&key, value.as_deref());
                }
                match value {
                    Some(value) => {
                        let kind = ValueType::Value;
                        let value = self.packing.pack(value);
                        Some(Ok(InternalValue::from_components(key, value, sequence, kind)))
                    }
                    None if may_be_on_disk(&key) => {
                        Some(Ok(InternalValue::new_tombstone(key, sequence)))
                    }
                    None => None,
                }
            });
            let Some((tables, _)) = self.tree.flush_to_tables(rows)? else { return Ok(()) };
            self.tree.register_tables(&tables, None, None, &[], SeqNo::MAX)
        })?;
        // Before `switch_to_flushed`: once readers lose this table, an older resident one would
        // answer for its keys.
        if table.is_mostly_live() {
            self.resident_tables.push(Arc::clone(table));
        } else {
            self.resident_tables.shrink_to(0); // older tables would be stale without it
        }
        // Its tombstones hide rows on disk from now on: walks over them count there.
        let dead_walked = table.dead_walked.load(Ordering::Relaxed);
        self.view().dead_walked_on_disk.fetch_add(dead_walked, Ordering::Relaxed);
        // The list names its file now: readers find each row in the table, in the file, or in both.
        self.switch_to_flushed(table)?;
        self.shrink_resident_tables();
        Ok(())
    }

    /// Runs one round of merging by levels. If none is due, reclaims tombstones and dead rows, if
    /// they are many.
    pub(super) fn compact_round(&self) -> Result<bool, StoreError> {
        self.view().memtables().for_each(|table| self.scan_dead_spans(table));
        let _merging = self.merging.lock().map_err(|_| StoreError::Closed)?;
        self.shrink_resident_tables();
        let changed = self.merge(self.leveled_strategy())? || self.reclaim()?;
        if changed {
            let _no_flush = self.tree.get_flush_lock();
            self.store_spans(&self.spans.durable());
        }
        Ok(changed)
    }

    /// Merges all runs, for a caller that flushes and never merges: their number has a limit.
    fn merge_all_runs(&self) -> Result<(), StoreError> {
        let _merging = self.merging.lock().map_err(|_| StoreError::Closed)?;
        if !self.merge(self.leveled_strategy().with_l0_threshold(1))? {
            self.rewrite()?;
        }
        Ok(())
    }

    /// Merges everything into the last level.
    pub(super) fn rewrite(&self) -> Result<(), StoreError> {
        self.sweep_if_full(
            self.guarded(|| {
                self.tree.major_compact(self.settings.merged_table_bytes(), SeqNo::MAX)
            }),
        )?;
        self.refresh()
    }

    /// Returns the strategy of merging by levels, with the table size of the settings.
    pub(super) fn leveled_strategy(&self) -> Leveled {
        Leveled::default().with_table_target_size(self.settings.merged_table_bytes())
    }

    /// Merges by a strategy. Returns true if the tables changed.
    pub(super) fn merge(&self, strategy: Leveled) -> Result<bool, StoreError> {
        let before = self.tree.current_version().id();
        self.sweep_if_full(self.guarded(|| self.tree.compact(Arc::new(strategy), SeqNo::MAX)))?;
        let changed = self.tree.current_version().id() != before;
        if changed {
            reach(Point::CompactAfter);
            self.refresh()?;
        }
        Ok(changed)
    }

    /// Removes the files of a merge that ended because the disk is full.
    fn sweep_if_full<T>(&self, merged: Result<T, StoreError>) -> Result<T, StoreError> {
        if matches!(merged, Err(StoreError::Full)) {
            self.sweep()?;
        }
        merged
    }

    /// Removes table files that are neither read nor being written, as a failed flush or merge
    /// leaves them. The caller holds `merging`.
    pub(super) fn sweep(&self) -> Result<(), StoreError> {
        let _no_flush = self.tree.get_flush_lock();
        let in_use = self.files_in_use()?;
        let folder = self.settings.path.join(TABLES);
        let failed = |error| StoreError::io(format!("sweep {}", folder.display()), error);
        for entry in std::fs::read_dir(&folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let id = path.file_name().and_then(|name| name.to_str()?.parse().ok());
            if id.is_some_and(|id| !in_use.contains(&id)) {
                std::fs::remove_file(&path).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Removes the rows under a prefix in three steps, each safe to repeat. Flushes memory; drops
    /// table files that lie wholly under the prefix; removes the rows in other files one by one,
    /// including rows that become visible because the tombstones above them were in a dropped file.
    pub(super) fn drop_rows_under(&self, prefix: &[u8]) -> Result<(), StoreError> {
        self.rotate()?;
        self.flush_sealed()?;
        let exchange = PrefixExchange::begin(self, prefix);
        let gaps = self.remove_rows(prefix)?;
        exchange.end(gaps);
        Ok(())
    }

    /// Removes the rows on disk. Returns the stretches in which no row is left.
    fn remove_rows(&self, prefix: &[u8]) -> Result<Vec<DeadStretch>, StoreError> {
        let (low, high) = bounds_of(prefix);
        let merging = self.merging.lock().map_err(|_| StoreError::Closed)?;
        self.guarded(|| {
            self.tree.drop_range::<Bytes, _>((low.clone(), high.clone()))?;
            // The library keeps the previous list, and with it the files, until the next flush.
            let mut lists = self.tree.get_version_history_lock();
            lists.maintenance(&self.settings.path, SeqNo::MAX)
        })?;
        reach(Point::DropFilesAfter);
        drop(merging);
        self.resident_tables.shrink_to(0);
        self.refresh()?;
        // After `refresh`: a reader of an older view would cache a removed row again.
        self.row_cache.evict_prefix(prefix);
        let snapshot = self.snapshot();
        let mut keys = snapshot.range(low, high.clone(), false);
        let mut gaps = Gaps::new(prefix);
        loop {
            let batch = keys.by_ref().take(ROWS_PER_DROP).map(|row| row.map(|(key, _)| key));
            let batch = batch.collect::<Result<Vec<Bytes>, StoreError>>()?;
            if batch.is_empty() {
                break;
            }
            batch.iter().for_each(|key| gaps.add_dead(key));
            self.apply(&mut batch.into_iter().map(RowChange::Remove))?;
            if self.pressure().is_rotation_due() {
                self.rotate()?;
                self.flush_sealed()?;
            }
        }
        self.rotate()?;
        self.flush_sealed()?;
        reach(Point::DropAfter);
        Ok(gaps.end(&high))
    }
}

/// Returns the range of all keys with the prefix.
pub(super) fn bounds_of(prefix: &[u8]) -> (Bound<Bytes>, Bound<Bytes>) {
    let mut after = prefix.to_vec();
    while after.last() == Some(&u8::MAX) {
        after.pop();
    }
    let high = match after.last_mut() {
        Some(last) => {
            *last += 1;
            Bound::Excluded(Bytes::from(after))
        }
        None => Bound::Unbounded,
    };
    (Bound::Included(Bytes::copy_from_slice(prefix)), high)
}

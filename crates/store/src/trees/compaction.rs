//! Flushes from memory to disk, and merges of many tables to few. All of it runs on the caller's
//! background threads.
//!
//! Superseded rows are dropped by every flush and merge (watermark `SeqNo::MAX`): each reader's
//! view keeps the tables that it needs, and in a sealed table everything is published, so no reader
//! needs an old row of a *new* table.
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
use super::packed::pack;
use super::sorted_run::RunWalk;
use super::span::DeadStretch;
use super::study::{Gaps, PrefixExchange};
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
        while self.view().level0_runs >= self.settings.runs_at_most() {
            self.merge_all_runs()?;
        }
        let one = self.tree.get_flush_lock();
        let sealed = self.view().sealed.clone();
        for table in &sealed {
            self.study(table);
            let flushed = self.flush_table(table);
            if matches!(flushed, Err(StoreError::Full)) {
                // In this order, as everywhere: `merging`, then the flush lock, which `sweep`
                // takes.
                drop(one);
                let _alone = self.merging.lock().map_err(|_| StoreError::Closed)?;
                self.sweep()?;
                return flushed;
            }
            flushed?;
            reach(Point::FlushAfter);
            self.keep_spans(&self.spans.flushed());
        }
        self.free_retired()
    }

    /// Makes a sealed table durable, the newest row of each key, and turns readers to it. A
    /// tombstone that hides no row is dropped: most rows that exist for seconds leave nothing on
    /// disk.
    fn flush_table(&self, table: &Arc<Memtable>) -> Result<(), StoreError> {
        let whole = Arc::new(table.whole());
        // While the table is in every reader's view it does not matter when its rows are offered to
        // the cache: all as they are written, or those that it has.
        let few = self.rows.few();
        for key in few.iter().flatten() {
            if let Some(row) = table.get(key, hash(key, self.salt), u64::MAX) {
                self.rows.flushed(key, row.value.as_deref());
            }
        }
        // Tables that are older than this one are on disk, and those that are merged meanwhile have
        // the same rows. What is exchanged under a prefix meanwhile is younger than every row here.
        let may_be_on_disk = may_be_on_disk(&self.tree);
        self.guarded(|| {
            let newest = RunWalk::new(Arc::clone(&whole), &EVERYTHING, u64::MAX, false);
            let rows = newest.filter_map(|(key, Version { sequence, value })| {
                if few.is_none() {
                    self.rows.flushed(&key, value.as_deref());
                }
                match value {
                    Some(value) => {
                        let kind = ValueType::Value;
                        Some(Ok(InternalValue::from_components(key, pack(value), sequence, kind)))
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
        // Before `let_go`: once readers lose this table, an older kept one would answer for its
        // keys.
        if table.is_mostly_live() {
            self.kept.keep(Arc::clone(table));
        } else {
            self.kept.shrink_to(0); // without this one they would be stale
        }
        // Its tombstones hide rows on disk from now on: the walks over them count there.
        let in_vain = table.in_vain.load(Ordering::Relaxed);
        self.view().in_vain_on_disk.fetch_add(in_vain, Ordering::Relaxed);
        // The list names its file now: readers find each row in one of the two, or in both.
        self.let_go(table)?;
        self.keep_within_room();
        Ok(())
    }

    /// Runs one round of merging by levels. If none is due, runs one that removes tombstones, if
    /// they are many.
    pub(super) fn compact_round(&self) -> Result<bool, StoreError> {
        self.view().in_order().for_each(|table| self.study(table));
        let _alone = self.merging.lock().map_err(|_| StoreError::Closed)?;
        self.keep_within_room();
        let changed = self.merge(self.leveled())? || self.reclaim()?;
        if changed {
            let _no_flush = self.tree.get_flush_lock();
            self.keep_spans(&self.spans.durable());
        }
        Ok(changed)
    }

    /// For a caller that flushes and never merges: brings the runs down before they can't be
    /// counted.
    fn merge_all_runs(&self) -> Result<(), StoreError> {
        let _alone = self.merging.lock().map_err(|_| StoreError::Closed)?;
        if !self.merge(self.leveled().with_l0_threshold(1))? {
            self.rewrite()?;
        }
        Ok(())
    }

    /// Merges everything into the last level.
    pub(super) fn rewrite(&self) -> Result<(), StoreError> {
        self.swept(
            self.guarded(|| {
                self.tree.major_compact(self.settings.merged_table_bytes(), SeqNo::MAX)
            }),
        )?;
        self.refresh()
    }

    /// Merging by levels, with tables of the size that the settings ask for.
    pub(super) fn leveled(&self) -> Leveled {
        Leveled::default().with_table_target_size(self.settings.merged_table_bytes())
    }

    /// True when the tables changed.
    pub(super) fn merge(&self, strategy: Leveled) -> Result<bool, StoreError> {
        let before = self.tree.current_version().id();
        self.swept(self.guarded(|| self.tree.compact(Arc::new(strategy), SeqNo::MAX)))?;
        let changed = self.tree.current_version().id() != before;
        if changed {
            reach(Point::CompactAfter);
            self.refresh()?;
        }
        Ok(changed)
    }

    /// Removes the files of a merge that ended because the disk is full.
    fn swept<T>(&self, merged: Result<T, StoreError>) -> Result<T, StoreError> {
        if matches!(merged, Err(StoreError::Full)) {
            self.sweep()?;
        }
        merged
    }

    /// Removes table files that are neither read nor being written, as a failed flush or merge
    /// leaves them. The caller holds `merging`.
    pub(super) fn sweep(&self) -> Result<(), StoreError> {
        let _no_flush = self.tree.get_flush_lock();
        let read = self.files_in_use()?;
        let folder = self.settings.path.join(TABLES);
        let failed = |why| StoreError::io(format!("sweep {}", folder.display()), why);
        for entry in std::fs::read_dir(&folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let id = path.file_name().and_then(|name| name.to_str()?.parse().ok());
            if id.is_some_and(|id| !read.contains(&id)) {
                std::fs::remove_file(&path).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Removes the rows under a prefix in three steps, each safe to repeat. Flushes memory; drops
    /// table files that lie wholly under the prefix; removes the rows in other files one by one,
    /// including rows that come to light because the tombstones above them went with a dropped
    /// file.
    pub(super) fn drop_rows_under(&self, prefix: &[u8]) -> Result<(), StoreError> {
        self.rotate()?;
        self.flush_sealed()?;
        let exchange = PrefixExchange::begin(self, prefix);
        let found = self.drop_known(prefix)?;
        exchange.end(found);
        Ok(())
    }

    /// Gives the stretch in which no row is left.
    fn drop_known(&self, prefix: &[u8]) -> Result<Vec<DeadStretch>, StoreError> {
        let (low, high) = bounds_of(prefix);
        let alone = self.merging.lock().map_err(|_| StoreError::Closed)?;
        self.guarded(|| {
            self.tree.drop_range::<Bytes, _>((low.clone(), high.clone()))?;
            // The crate keeps the list before the last, and with it the files, until the next
            // flush.
            let mut lists = self.tree.get_version_history_lock();
            lists.maintenance(&self.settings.path, SeqNo::MAX)
        })?;
        reach(Point::DropFilesAfter);
        drop(alone);
        self.kept.shrink_to(0);
        self.refresh()?;
        // After `refresh`: a reader of an older view would bring back a row that is gone.
        self.rows.forget(prefix);
        let rest = self.snapshot();
        let mut keys = rest.range(low, high.clone(), false);
        let mut gaps = Gaps::new(prefix);
        loop {
            let batch = keys.by_ref().take(ROWS_PER_DROP).map(|row| row.map(|(key, _)| key));
            let batch = batch.collect::<Result<Vec<Bytes>, StoreError>>()?;
            if batch.is_empty() {
                break;
            }
            batch.iter().for_each(|key| gaps.dead(key));
            self.apply(&mut batch.into_iter().map(RowChange::Remove))?;
            if self.pressure().rotate_is_due() {
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

/// The range of all keys that begin with the prefix.
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

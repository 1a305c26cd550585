//! Flushes from memory to disk, and rounds of merging. All of it runs on the caller's background
//! threads.
//!
//! Every flush and merge drops superseded rows: each reader's view keeps the tables that it needs,
//! and every row of a sealed table is published, so no reader needs an old row of a *new* table.
//!
//! Durability of a flush: every table file and its directory are synced by the LSM library
//! (`table/writer/mod.rs`, `Writer::finish`), then the list and `current` (`manifest.rs`). Only
//! then are the sealed tables dropped.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use lsm_tree::{InternalValue, ValueType};

use super::memtable::Memtable;
use super::packed::pack;
use super::sorted_run::{Run, RunWalk};
use super::span::DeadStretch;
use super::span_scan::{Gaps, PrefixExchange};
use super::table_writer::{NewTables, TableLayout, TableWriter};
use super::view::{Bounds, Version};
use super::{LsmTrees, RowChange, Trees, hash};
use crate::StoreError;
use crate::failpoint::{Point, reach};

const EVERYTHING: Bounds = (Bound::Unbounded, Bound::Unbounded);
/// Rows removed in one batch when a prefix is dropped, so that the writer never waits long.
const ROWS_PER_DROP: usize = 1_000;

impl LsmTrees {
    pub(super) fn flush_sealed(&self) -> Result<(), StoreError> {
        reach(Point::FlushBefore);
        let runs_max = self.settings.runs_limit();
        while self.list().runs.len() >= runs_max && self.merge_few_runs()? {}
        let _flushing = self.flushing.lock().map_err(|_| StoreError::Closed)?;
        let sealed = self.view().sealed.clone();
        for table in &sealed {
            self.scan_dead_spans(table);
            self.flush_table(table)?;
            reach(Point::FlushAfter);
            self.store_spans(&self.spans.on_flush());
        }
        self.free_retired()
    }

    /// Writes the newest row of each key of a sealed table to disk, and switches readers to the
    /// files.
    fn flush_table(&self, table: &Arc<Memtable>) -> Result<(), StoreError> {
        let newest_rows = Arc::new(table.newest_rows());
        let mut written = self.guarded(|| self.write_flushed(table, &newest_rows))?;
        let changed = self.change_list(&mut written, |list, busy, tables| {
            (!tables.is_empty()).then(|| list.with_new(tables, busy))
        })?;
        if changed {
            self.idle_rounds.store(0, Ordering::Relaxed);
        }
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
        // The list names its files now: readers find each row in the table, in the files, or in
        // both.
        self.switch_to_flushed(table)?;
        self.shrink_resident_tables();
        Ok(())
    }

    /// Writes the newest row of each key. A tombstone that hides no row is dropped: most
    /// short-lived rows leave nothing on disk.
    fn write_flushed(
        &self,
        table: &Memtable,
        newest_rows: &Arc<Run>,
    ) -> lsm_tree::Result<NewTables> {
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
        let list = self.list();
        // Rows behind those of the newest run join it, and may never be merged.
        let overlaps = |(first, last): (&Bytes, &Bytes)| {
            list.runs.first().is_some_and(|run| run.overlaps_keys(first, last))
        };
        let layout = match newest_rows.outermost_keys().is_some_and(overlaps) {
            true => TableLayout::Unmerged,
            false => TableLayout::Merged,
        };
        let mut writer = TableWriter::new(self, layout);
        let rows = RunWalk::new(Arc::clone(newest_rows), &EVERYTHING, u64::MAX, false);
        for (key, Version { sequence, value }) in rows {
            if cached_keys.is_none() {
                self.row_cache.replace_flushed(&key, value.as_deref());
            }
            match value {
                Some(value) => {
                    let (value, kind) = (pack(value), ValueType::Value);
                    writer.write(InternalValue::from_components(key, value, sequence, kind))?;
                }
                None if list.may_hold(&key, 0) => {
                    writer.write(InternalValue::new_tombstone(key, sequence))?;
                }
                None => {}
            }
        }
        writer.finish()
    }

    /// Runs one round of a background thread that merges: looks for dead spans, then merges.
    pub(super) fn compact_round(&self) -> Result<bool, StoreError> {
        self.view().memtables().for_each(|table| self.scan_dead_spans(table));
        self.shrink_resident_tables();
        self.merge_and_store_spans(false)
    }

    /// Runs one merge, if one is due. Returns true if the list changed.
    pub(super) fn merge_and_store_spans(&self, only_small: bool) -> Result<bool, StoreError> {
        let changed = self.merge_round(only_small)?;
        if changed {
            let _no_flush = self.flushing.lock().map_err(|_| StoreError::Closed)?;
            self.store_spans(&self.spans.durable());
        }
        Ok(changed)
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
        // A merge that reads such a table discards its output.
        let bounds = (low.clone(), high.clone());
        let mut no_tables = NewTables::default();
        self.change_list(&mut no_tables, |list, _, _| list.without_tables_within(&bounds))?;
        reach(Point::DropFilesAfter);
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

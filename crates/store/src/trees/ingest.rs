//! Installation: replacement of all rows under a prefix, such as a group's state that another node
//! sends.
//!
//! The incoming rows are written into table files which no list names, and between them, in key
//! order, a tombstone for every present row that is not among them. So these tables, on top of all
//! others, *are* the new content. The switch puts their names into the list (`current`, by rename):
//! one durable step, whatever the size. Before it nothing has changed for any reader. Files that no
//! list names are removed when the tree is opened.
//!
//! Refused: to write the rows under another prefix and move them at the end (all rows are written
//! twice, and the move must be replayed after a crash); a tree for each content (one flush could no
//! longer make the rows of several groups durable together); an indirection for each prefix (it
//! would cost every read and write).
//!
//! All rows carry the number of one batch, published when the installation begins. It is above
//! everything under the prefix, and views that do not have the tables do not see them. Hence no row
//! may be written under the prefix meanwhile; such a write is detected, and the switch is refused.
//!
//! Invariant at the switch: no table in memory and no resident one holds a row under the prefix,
//! and the row cache adds none; so a reader's view alone decides between old and new.

use std::iter::Peekable;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use lsm_tree::{InternalValue, UserKey, ValueType};

use super::compaction::bounds_of;
use super::packed::Packing;
use super::span_scan::{Gaps, PrefixExchange};
use super::table_writer::{NewTables, TableLayout, TableWriter};
use super::{LsmTrees, RowChange, Rows, Snapshot, TreeRow, Trees};
use crate::StoreError;
use crate::failpoint::{Point, reach};

/// Bytes that a pending row costs in addition to its key and value.
const ROW_OVERHEAD_BYTES: u64 = 64;

/// Rows that will replace all rows under a prefix; see [`Trees::begin_install`]. Dropped before the
/// switch, it changes nothing. After an error the caller drops it, except after `Full`: then the
/// call may be repeated (`put` with no rows).
pub trait Ingest: Send {
    /// Adds rows under the prefix, ascending, behind all earlier ones. Blocks while a table is
    /// written; keeps the rows of one table in memory.
    fn put(&mut self, rows: Vec<TreeRow>) -> Result<(), StoreError>;

    /// Ends the stream of rows and writes those that are not on disk yet. Blocks.
    fn complete(&mut self) -> Result<(), StoreError>;

    /// Replaces the old content by the new, durably, with a few syncs for any size. Returns false
    /// if a row under the prefix was written since the beginning; then nothing has changed.
    fn switch(&mut self) -> Result<bool, StoreError>;
}

/// Detects writes under a prefix.
pub(super) struct PrefixWatch {
    prefix: Bytes,
    written: AtomicBool,
}

impl PrefixWatch {
    pub fn new(prefix: &[u8]) -> Arc<PrefixWatch> {
        let prefix = Bytes::copy_from_slice(prefix);
        Arc::new(PrefixWatch { prefix, written: AtomicBool::new(false) })
    }

    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// Records a write under the prefix.
    pub fn observe(&self, change: &RowChange) {
        if change.key().starts_with(&self.prefix) {
            self.mark_written();
        }
    }

    /// Marks the prefix as written.
    pub fn mark_written(&self) {
        self.written.store(true, Ordering::Relaxed);
    }

    pub fn is_written(&self) -> bool {
        self.written.load(Ordering::Relaxed)
    }

    /// Checks that the rows are under the prefix and ascending.
    pub fn check_order(&self, last: Option<&Bytes>, rows: &[TreeRow]) {
        let mut before = last;
        for (key, _) in rows {
            assert!(before.is_none_or(|before| before < key), "rows come in the order of keys");
            assert!(key.starts_with(&self.prefix), "rows lie under their prefix");
            before = Some(key);
        }
    }
}

/// Installation of an `LsmTrees`; see the head of the file.
pub(super) struct LsmIngest {
    trees: Arc<LsmTrees>,
    watch: Arc<PrefixWatch>,
    /// Batch number of all its rows.
    sequence: u64,
    /// Rows that are in no table yet.
    pending: Vec<TreeRow>,
    pending_bytes: u64,
    /// Key of the last row that was added.
    last: Option<Bytes>,
    /// Lower bound of the next table's keys.
    from: Bound<Bytes>,
    tables: NewTables,
    /// Stretches of keys without a row.
    gaps: Gaps,
    /// True once the last table is written.
    all_written: bool,
    complete: bool,
}

impl LsmIngest {
    pub fn begin(trees: Arc<LsmTrees>, prefix: &[u8]) -> Result<LsmIngest, StoreError> {
        let watch = PrefixWatch::new(prefix);
        let mut writer = trees.writer()?;
        // Under one lock: every write under the prefix is below this batch, or the watch detects
        // it.
        let sequence = trees.apply_locked(&mut writer, &mut std::iter::empty());
        writer.watches.push(Arc::clone(&watch));
        drop(writer);
        let (from, _) = bounds_of(prefix);
        let (pending, tables) = (Vec::new(), NewTables::default());
        Ok(LsmIngest {
            trees,
            watch,
            sequence,
            pending,
            pending_bytes: 0,
            last: None,
            from,
            tables,
            gaps: Gaps::new(prefix),
            all_written: false,
            complete: false,
        })
    }

    /// Writes the pending rows, and a tombstone for each old row up to `high` that is not among
    /// them.
    fn write_table(&mut self, high: Bound<Bytes>) -> Result<(), StoreError> {
        let old = self.trees.open_snapshot(None);
        let mut failure = None;
        let mut gaps = self.gaps.clone(); // a failed call is repeated
        let written = self.trees.guarded(|| {
            let rows = Overlay {
                old: old.range(self.from.clone(), high, false).peekable(),
                new: self.pending.iter().peekable(),
                sequence: self.sequence,
                packing: &self.trees.packing,
                failure: &mut failure,
            };
            let mut writer = TableWriter::new(&self.trees, TableLayout::Merged);
            for row in rows {
                let key = Bytes::from(row.key.user_key.clone());
                if row.is_tombstone() {
                    gaps.add_dead(&key)
                } else {
                    gaps.add_live(&key)
                }
                writer.write(row)?;
            }
            writer.finish()
        });
        self.tables.append(written?);
        if let Some(failure) = failure {
            return Err(failure);
        }
        self.gaps = gaps;
        if let Some(last) = &self.last {
            self.from = Bound::Excluded(last.clone());
        }
        self.pending.clear();
        self.pending_bytes = 0;
        reach(Point::InstallWritten);
        Ok(())
    }
}

impl Ingest for LsmIngest {
    fn put(&mut self, rows: Vec<TreeRow>) -> Result<(), StoreError> {
        assert!(!self.all_written, "nothing more was to come");
        self.watch.check_order(self.last.as_ref(), &rows);
        if let Some((last, _)) = rows.last() {
            self.last = Some(last.clone());
        }
        let bytes = |(key, value): &TreeRow| (key.len() + value.len()) as u64 + ROW_OVERHEAD_BYTES;
        self.pending_bytes += rows.iter().map(bytes).sum::<u64>();
        self.pending.extend(rows);
        if self.pending_bytes < self.trees.settings.merged_table_bytes() {
            return Ok(());
        }
        self.write_table(self.last.clone().map_or(Bound::Unbounded, Bound::Included))
    }

    fn complete(&mut self) -> Result<(), StoreError> {
        if self.complete {
            return Ok(());
        }
        if !self.all_written {
            let (_, high) = bounds_of(&self.watch.prefix);
            self.write_table(high)?;
            self.all_written = true;
        }
        // Rows in memory would hide those on disk.
        self.trees.rotate()?;
        self.trees.flush()?;
        self.complete = true;
        Ok(())
    }

    fn switch(&mut self) -> Result<bool, StoreError> {
        self.complete()?;
        let trees = &*self.trees;
        // Under the writer's lock, so that no batch is half inserted.
        let writer = trees.writer()?;
        if self.watch.is_written() {
            return Ok(false);
        }
        drop(writer);
        let exchange = PrefixExchange::begin(trees, &self.watch.prefix);
        reach(Point::InstallBefore);
        trees.resident_tables.shrink_to(0);
        trees.row_cache.with_prefix_evicted(&self.watch.prefix, || {
            trees.change_list(&mut self.tables, |list, busy, tables| {
                (!tables.is_empty()).then(|| list.with_new(tables, busy))
            })?;
            reach(Point::InstallAfter);
            trees.refresh()
        })?;
        exchange.end(self.gaps.end(&bounds_of(&self.watch.prefix).1));
        Ok(true)
    }
}

impl Drop for LsmIngest {
    fn drop(&mut self) {
        if let Ok(mut writer) = self.trees.writer.lock() {
            writer.watches.retain(|watch| !Arc::ptr_eq(watch, &self.watch));
        }
    }
}

/// New rows, and tombstones for old ones that are not among them.
struct Overlay<'a, New: Iterator<Item = &'a TreeRow>> {
    old: Peekable<Rows<'a>>,
    new: Peekable<New>,
    sequence: u64,
    packing: &'a Packing,
    failure: &'a mut Option<StoreError>,
}

impl<'a, New: Iterator<Item = &'a TreeRow>> Iterator for Overlay<'a, New> {
    type Item = InternalValue;

    fn next(&mut self) -> Option<InternalValue> {
        let is_removed = match (self.old.peek(), self.new.peek()) {
            (Some(Err(_)), _) => true,
            (Some(Ok((old, _))), Some((new, _))) => {
                if old == new {
                    self.old.next();
                    false
                } else {
                    old < new
                }
            }
            (old, _) => old.is_some(),
        };
        if !is_removed {
            let (key, value) = self.new.next()?.clone();
            let kind = ValueType::Value;
            let value = self.packing.pack(value);
            return Some(InternalValue::from_components(key, value, self.sequence, kind));
        }
        match self.old.next()? {
            Ok((key, _)) => Some(InternalValue::new_tombstone(UserKey::from(key), self.sequence)),
            Err(failure) => {
                *self.failure = Some(failure);
                None
            }
        }
    }
}

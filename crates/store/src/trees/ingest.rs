//! Replacement of all rows under a prefix: a group's state as another node has it.
//!
//! The incoming rows are written into table files which no list names, and between them, in the
//! order of keys, a tombstone for every present row that does not come. So these tables alone, laid
//! over everything else, *are* the new content. The switch puts their names into the list
//! (`current`, by rename): one durable step, whatever the size. Before it nothing has changed for
//! any reader. Files that no list names are removed when the tree is opened.
//!
//! Refused: to write the rows under another prefix and move them at the end (everything is written
//! twice, and the move must be replayed after a crash); a tree for each content (one flush could no
//! longer make a group's rows and another's durable together); a name that is looked up for each
//! prefix (every read and write would pay for it).
//!
//! All rows carry the number of one batch, published when the installation begins. It is above
//! everything under the prefix, and views that do not have the tables do not see them. Hence no row
//! may be written under the prefix meanwhile; such a write is detected, and the switch refused.
//!
//! Invariant at the switch: no table in memory and no kept one holds a row under the prefix, and
//! the row cache takes none; so a reader's view alone decides between old and new.

use std::iter::Peekable;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use lsm_tree::{AbstractTree, InternalValue, SeqNo, Table, UserKey, ValueType};

use super::compaction::bounds_of;
use super::packed::pack;
use super::study::{Gaps, PrefixExchange};
use super::{LsmTrees, RowChange, Rows, Snapshot, TreeRow, Trees};
use crate::StoreError;
use crate::failpoint::{Point, reach};

/// Bytes that a row which waits for its table costs beside its key and value.
const ROW_OVERHEAD_BYTES: u64 = 64;

/// The rows that will take the place of everything under a prefix; see [`Trees::begin_install`].
/// Dropped before its end it leaves everything as it was. After an error it is to be dropped,
/// except `Full`, after which the call may be repeated (`put` with nothing).
pub trait Ingest: Send {
    /// Takes rows under the prefix, ascending, behind all before. Blocks when a table is written;
    /// keeps in memory what one table holds.
    fn put(&mut self, rows: Vec<TreeRow>) -> Result<(), StoreError>;

    /// Ends the stream of rows and writes those that are not on disk yet. Blocks.
    fn complete(&mut self) -> Result<(), StoreError>;

    /// Replaces the old content by the new, durably, with a few syncs, whatever the size. `false`:
    /// a row under the prefix was written since the beginning, and nothing has changed.
    fn switch(&mut self) -> Result<bool, StoreError>;
}

/// Detects writes under a prefix.
pub(super) struct Watch {
    prefix: Bytes,
    written: AtomicBool,
}

impl Watch {
    pub fn new(prefix: &[u8]) -> Arc<Watch> {
        let prefix = Bytes::copy_from_slice(prefix);
        Arc::new(Watch { prefix, written: AtomicBool::new(false) })
    }

    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// Notes a write.
    pub fn see(&self, change: &RowChange) {
        if change.key().starts_with(&self.prefix) {
            self.spoil();
        }
    }

    /// Marks the prefix as written.
    pub fn spoil(&self) {
        self.written.store(true, Ordering::Relaxed);
    }

    pub fn is_spoilt(&self) -> bool {
        self.written.load(Ordering::Relaxed)
    }

    /// Checks that the rows lie under the prefix, each behind the one before.
    pub fn check(&self, last: Option<&Bytes>, rows: &[TreeRow]) {
        let mut before = last;
        for (key, _) in rows {
            assert!(before.is_none_or(|before| before < key), "rows come in the order of keys");
            assert!(key.starts_with(&self.prefix), "rows lie under their prefix");
            before = Some(key);
        }
    }
}

/// See the top of the file.
pub(super) struct LsmIngest {
    trees: Arc<LsmTrees>,
    watch: Arc<Watch>,
    /// The number of all its rows.
    sequence: u64,
    /// Rows that are in no table yet.
    waiting: Vec<TreeRow>,
    waiting_bytes: u64,
    /// The last row that came.
    last: Option<Bytes>,
    /// Lower bound of the next table's keys.
    from: Bound<Bytes>,
    tables: Vec<Table>,
    /// Stretches of keys without a row.
    gaps: Gaps,
    /// True once the last table is written.
    whole: bool,
    complete: bool,
}

impl LsmIngest {
    pub fn begin(trees: Arc<LsmTrees>, prefix: &[u8]) -> Result<LsmIngest, StoreError> {
        let watch = Watch::new(prefix);
        let mut writer = trees.writer()?;
        // Under one lock: every write under the prefix is below this batch, or the watch sees it.
        let sequence = trees.apply_as(&mut writer, &mut std::iter::empty());
        writer.watches.push(Arc::clone(&watch));
        drop(writer);
        let (from, _) = bounds_of(prefix);
        let (waiting, tables) = (Vec::new(), Vec::new());
        Ok(LsmIngest {
            trees,
            watch,
            sequence,
            waiting,
            waiting_bytes: 0,
            last: None,
            from,
            tables,
            gaps: Gaps::new(prefix),
            whole: false,
            complete: false,
        })
    }

    /// Writes what waits, and a tombstone for each old row up to `high` that does not come.
    fn write_table(&mut self, high: Bound<Bytes>) -> Result<(), StoreError> {
        let old = self.trees.look(None);
        let mut failure = None;
        let mut gaps = self.gaps.clone(); // a call that failed is repeated
        let one = self.trees.tree.get_flush_lock();
        let written = self.trees.guarded(|| {
            let rows = Over {
                old: old.range(self.from.clone(), high, false).peekable(),
                new: self.waiting.iter().peekable(),
                sequence: self.sequence,
                failure: &mut failure,
            };
            let seen = rows.inspect(|row| {
                let key = Bytes::from(row.key.user_key.clone());
                if row.is_tombstone() { gaps.dead(&key) } else { gaps.alive(&key) }
            });
            self.trees.tree.flush_to_tables(seen.map(Ok))
        });
        if matches!(written, Err(StoreError::Full)) {
            // As in `flush_sealed`: `merging` is taken before the flush lock.
            drop(one);
            let _alone = self.trees.merging.lock().map_err(|_| StoreError::Closed)?;
            self.trees.sweep()?;
        }
        // Noted while nobody may sweep: no list names these files yet.
        let (tables, _) = written?.unwrap_or_default();
        self.trees.note_arriving(&tables, true)?;
        self.tables.extend(tables);
        if let Some(failure) = failure {
            return Err(failure);
        }
        self.gaps = gaps;
        if let Some(last) = &self.last {
            self.from = Bound::Excluded(last.clone());
        }
        self.waiting.clear();
        self.waiting_bytes = 0;
        reach(Point::InstallWritten);
        Ok(())
    }
}

impl Ingest for LsmIngest {
    fn put(&mut self, rows: Vec<TreeRow>) -> Result<(), StoreError> {
        assert!(!self.whole, "nothing more was to come");
        self.watch.check(self.last.as_ref(), &rows);
        if let Some((last, _)) = rows.last() {
            self.last = Some(last.clone());
        }
        let bytes = |(key, value): &TreeRow| (key.len() + value.len()) as u64 + ROW_OVERHEAD_BYTES;
        self.waiting_bytes += rows.iter().map(bytes).sum::<u64>();
        self.waiting.extend(rows);
        if self.waiting_bytes < self.trees.settings.merged_table_bytes() {
            return Ok(());
        }
        self.write_table(self.last.clone().map_or(Bound::Unbounded, Bound::Included))
    }

    fn complete(&mut self) -> Result<(), StoreError> {
        if self.complete {
            return Ok(());
        }
        if !self.whole {
            let (_, high) = bounds_of(&self.watch.prefix);
            self.write_table(high)?;
            self.whole = true;
        }
        // What is in memory would be read before what is on disk.
        self.trees.rotate()?;
        self.trees.flush()?;
        self.complete = true;
        Ok(())
    }

    fn switch(&mut self) -> Result<bool, StoreError> {
        self.complete()?;
        let trees = &*self.trees;
        // The writer's lock: a batch is seen whole.
        let writer = trees.writer()?;
        if self.watch.is_spoilt() {
            return Ok(false);
        }
        drop(writer);
        let exchange = PrefixExchange::begin(trees, &self.watch.prefix);
        reach(Point::InstallBefore);
        trees.kept.shrink_to(0);
        trees.rows.without(&self.watch.prefix, || {
            if !self.tables.is_empty() {
                trees.guarded(|| {
                    trees.tree.register_tables(&self.tables, None, None, &[], SeqNo::MAX)
                })?;
            }
            reach(Point::InstallAfter);
            trees.refresh()
        })?;
        exchange.end(self.gaps.end(&bounds_of(&self.watch.prefix).1));
        trees.note_arriving(&self.tables, false)?;
        self.tables.clear();
        Ok(true)
    }
}

impl Drop for LsmIngest {
    fn drop(&mut self) {
        if let Ok(mut writer) = self.trees.writer.lock() {
            writer.watches.retain(|watch| !Arc::ptr_eq(watch, &self.watch));
        }
        for table in &self.tables {
            // One that stays is removed when the trees are opened.
            let _ = std::fs::remove_file(&*table.path);
        }
        let _ = self.trees.note_arriving(&self.tables, false);
    }
}

/// New rows, and tombstones for old ones that are not among them.
struct Over<'a, New: Iterator<Item = &'a TreeRow>> {
    old: Peekable<Rows<'a>>,
    new: Peekable<New>,
    sequence: u64,
    failure: &'a mut Option<StoreError>,
}

impl<'a, New: Iterator<Item = &'a TreeRow>> Iterator for Over<'a, New> {
    type Item = InternalValue;

    fn next(&mut self) -> Option<InternalValue> {
        let goes = match (self.old.peek(), self.new.peek()) {
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
        if !goes {
            let (key, value) = self.new.next()?.clone();
            let kind = ValueType::Value;
            return Some(InternalValue::from_components(key, pack(value), self.sequence, kind));
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

//! Counting of rows as an update writes and removes them, and savepoints of an update.
//!
//! Promises: an update of a counted bucket reads at most one row more for each row that it writes,
//! and none that it has just looked up; one of another bucket reads none more.

use super::layout::{self, StoredRow};
use super::overlay::Overlay;
use super::pending_entry::Savepoint;
use base::{BucketId, Result};
use bytes::Bytes;

/// State of an update to which [`Overlay::undo`] returns.
#[derive(Clone, Copy)]
pub struct UpdateSavepoint {
    entry: Savepoint,
    counts: usize,
}

impl Overlay<'_> {
    /// Returns the current state, for [`Self::undo`] if a later step must have no effect.
    #[inline]
    pub fn savepoint(&mut self) -> UpdateSavepoint {
        UpdateSavepoint { entry: self.open.savepoint(), counts: self.counts.savepoint() }
    }

    /// Undoes every effect, and every change of a count, since the savepoint.
    pub fn undo(&mut self, savepoint: UpdateSavepoint) {
        self.open.undo(savepoint.entry);
        self.counts.undo(savepoint.counts);
    }

    /// Notes the row that was looked up under the tree key in `scratch`.
    #[inline]
    pub(super) fn note_lookup(&mut self, found: Option<&Bytes>) {
        if !self.counts.is_empty() {
            self.counts.note_row(self.scratch, found.map(|row| StoredRow::value_bytes(row)));
        }
    }

    /// Notes the bytes of a row's value, which the caller has read: its removal reads nothing.
    pub(super) fn note_value(&mut self, bucket: BucketId, key: &[u8], value_bytes: usize) {
        if self.counts.contains(bucket) {
            layout::row_key(self.group, bucket, key, self.scratch);
            self.counts.note_row(self.scratch, Some(value_bytes));
        }
    }

    /// Counts the write of the row under the tree key in `scratch`, if its bucket is counted.
    /// `value_bytes`: those of the new value, `None` if the row is removed.
    #[inline]
    pub(super) fn count_write(
        &mut self,
        bucket: BucketId,
        value_bytes: Option<usize>,
    ) -> Result<()> {
        if self.counts.is_empty() || !self.counts.contains(bucket) {
            return Ok(());
        }
        self.count_counted(bucket, value_bytes)
    }

    fn count_counted(&mut self, bucket: BucketId, value_bytes: Option<usize>) -> Result<()> {
        let before = match self.counts.known_row(self.scratch) {
            Some(known) => known,
            None => self.get_for_update()?.map(|row| StoredRow::value_bytes(&row)),
        };
        let key_bytes = self.scratch.len().saturating_sub(layout::ROW_PREFIX_BYTES);
        self.counts.record(bucket, key_bytes, before, value_bytes);
        self.counts.note_row(self.scratch, value_bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::Bucket;
    use crate::budget::Budget;
    use crate::counts::BucketCounts;
    use crate::evaluate::evaluate;
    use crate::layout::row_key;
    use crate::overlay::StoreSource;
    use crate::pending_entry::{EntryBuffers, PendingEntry};
    use base::request::{ExpireWhen, Expiry, OnMissing, SequenceMode, When};
    use base::{GroupId, Key, LogIndex, Properties, Update, Value, Version};
    use std::cell::Cell;
    use std::collections::VecDeque;
    use std::ops::Bound;
    use store::{MemoryTrees, RowChange, Snapshot, StoreError, TreeRow, Trees};

    const GROUP: GroupId = GroupId(3);
    const COUNTED: BucketId = BucketId(7);
    const OTHER: BucketId = BucketId(8);

    type Rows<'a> = Box<dyn Iterator<Item = std::result::Result<TreeRow, StoreError>> + Send + 'a>;

    /// Snapshot that counts its point reads.
    struct CountedReads {
        snapshot: Box<dyn Snapshot>,
        gets: Cell<usize>,
    }

    impl Snapshot for CountedReads {
        fn get(&self, key: &[u8]) -> std::result::Result<Option<Bytes>, StoreError> {
            self.gets.set(self.gets.get() + 1);
            self.snapshot.get(key)
        }

        fn range(&self, low: Bound<Bytes>, high: Bound<Bytes>, reverse: bool) -> Rows<'_> {
            self.snapshot.range(low, high, reverse)
        }
    }

    /// Returns the number of rows that an update of a bucket reads from the store by key.
    fn reads_of(update: &Update, id: BucketId) -> usize {
        let bucket = Bucket::new(id, GROUP, Properties::default());
        let trees = MemoryTrees::new(1 << 20);
        let rows = ["a", "b"].map(|name| {
            let (mut key, mut row) = (Vec::new(), Vec::new());
            row_key(GROUP, id, name.as_bytes(), &mut key);
            StoredRow::write_head(Version(1), None, &mut row);
            row.push(b'7');
            RowChange::Put(key.into(), row.into())
        });
        trees.apply(&mut rows.into_iter()).expect("memory");
        let counted_reads = CountedReads { snapshot: trees.snapshot(), gets: Cell::new(0) };
        let mut open = PendingEntry::new(LogIndex(1), 5, 1, 0, EntryBuffers::default());
        let mut counts = BucketCounts::for_dry_run(COUNTED);
        let mut overlay = Overlay {
            group: GROUP,
            store: StoreSource::Snapshot(&counted_reads),
            pending: &VecDeque::new(),
            open: &mut open,
            budget: Budget::unbounded(),
            saw_expired: false,
            counts: &mut counts,
            scratch: &mut Vec::new(),
        };
        evaluate(&mut overlay, &bucket, update).expect("it goes");
        counted_reads.gets.get()
    }

    #[test]
    fn update_of_a_counted_bucket_reads_one_row_more_only_if_it_is_unknown() {
        let (a, b, c) = (Key::from("a"), Key::from("b"), Key::from("c"));
        let value = || Value::from("8");
        let set = |key: &Key, expiry| Update::Set { key: key.clone(), value: value(), expiry };
        let delete = |key: &Key| Update::Delete { key: key.clone(), missing: OnMissing::Skip };
        let steps = |steps| Update::Sequence { steps, mode: SequenceMode::AllOrNothing };
        let rename = |to: &Key| {
            let (from, to) = (a.clone(), to.clone());
            Update::Rename { from, to, when: When::Always }
        };
        let replace = Update::Replace { key: a.clone(), wanted: Some(value()) };
        let prefix = Key::new();
        for (update, more) in [
            (set(&a, Expiry::Default), 1),
            (set(&c, Expiry::Default), 1),
            (set(&a, Expiry::After(9)), 0),
            (set(&a, Expiry::After(0)), 0),
            (set(&a, Expiry::Keep), 0),
            (delete(&a), 0),
            (delete(&c), 0),
            (replace, 0),
            (Update::Add { key: a.clone(), delta: 1 }, 0),
            (Update::Append { key: c.clone(), value: value() }, 0),
            (
                Update::Expire {
                    key: a.clone(),
                    expiry: Expiry::After(9),
                    when: ExpireWhen::Always,
                },
                0,
            ),
            (rename(&b), 1),
            (rename(&c), 1),
            (Update::DeletePrefix { prefix }, 0),
            (steps(vec![set(&a, Expiry::Default), set(&b, Expiry::Default)]), 2),
            (steps(vec![set(&a, Expiry::Default); 3]), 1),
        ] {
            let (other, counted) = (reads_of(&update, OTHER), reads_of(&update, COUNTED));
            assert_eq!(counted, other + more, "{update:?}");
        }
        assert_eq!(reads_of(&set(&a, Expiry::Default), OTHER), 0);
    }
}

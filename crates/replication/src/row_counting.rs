//! Counting of rows as an update writes and removes them, the bound on a bucket's bytes, and
//! savepoints of an update.
//!
//! Promises: an update of a counted bucket reads at most one row more for each row that it writes,
//! and none that it has just looked up; one of another bucket reads none more.

use super::overlay::Overlay;
use super::row_change::RowBefore;
use crate::bucket::Bucket;
use base::{BucketId, Error, Reason, Result};
use bytes::Bytes;
use replica_state::layout::{self, StoredRow};
use replica_state::pending_entry::Savepoint;

/// State of an update to which [`Overlay::undo`] returns.
#[derive(Clone, Copy)]
pub struct UpdateSavepoint {
    entry: Savepoint,
    counts: usize,
    tagged: usize,
}

impl Overlay<'_> {
    /// Returns the current state, for [`Self::undo`] if a later step must have no effect.
    #[inline]
    pub fn savepoint(&mut self) -> UpdateSavepoint {
        UpdateSavepoint {
            entry: self.open.savepoint(),
            counts: self.counts.savepoint(),
            tagged: self.indexes.savepoint(),
        }
    }

    /// Undoes every effect, every change of a count, and every first tag, since the savepoint.
    pub fn undo(&mut self, savepoint: UpdateSavepoint) {
        self.open.undo(savepoint.entry);
        self.counts.undo(savepoint.counts);
        self.indexes.undo(savepoint.tagged);
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
        before: RowBefore<'_>,
        value_bytes: Option<usize>,
    ) -> Result<()> {
        if self.counts.is_empty() || !self.counts.contains(bucket) {
            return Ok(());
        }
        self.count_counted(bucket, before, value_bytes)
    }

    /// Returns the bytes of a bucket that has a bound on them. `None`: it has none, or is not
    /// counted completely yet.
    #[inline]
    pub(super) fn bounded_bytes(&self, bucket: &Bucket) -> Option<u64> {
        if bucket.properties.bytes_max == 0 {
            return None;
        }
        self.counts.get(bucket.id).filter(|count| count.is_complete).map(|count| count.bytes)
    }

    /// Refuses an update that leaves a bucket with more bytes than its bound, and than before.
    /// Errors: `Quota`.
    #[inline]
    pub(super) fn check_bytes_max(&self, bucket: &Bucket, before: Option<u64>) -> Result<()> {
        let max = bucket.properties.bytes_max;
        match before.zip(self.bounded_bytes(bucket)) {
            Some((before, after)) if after > max.max(before) => {
                let text = format!(
                    "the bucket may have {max} bytes of keys and values (bytes_max) and has \
                     {before}; nothing was done: delete keys, or raise `bytes_max`"
                );
                Err(Error::new(Reason::Quota, text))
            }
            _ => Ok(()),
        }
    }

    fn count_counted(
        &mut self,
        bucket: BucketId,
        before: RowBefore<'_>,
        value_bytes: Option<usize>,
    ) -> Result<()> {
        let before = match (before, self.counts.known_row(self.scratch)) {
            (RowBefore::Read(row), _) => Some(row.value.len()),
            (RowBefore::Unread | RowBefore::Seen { .. }, Some(known)) => known,
            (RowBefore::Unread | RowBefore::Seen { .. }, None) => {
                self.get_for_update()?.map(|row| StoredRow::value_bytes(&row))
            }
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
    use crate::budget::Budget;
    use crate::counts::{BucketCount, BucketCounts};
    use crate::evaluate::evaluate;
    use crate::group_indexes::GroupIndexes;
    use crate::overlay::StoreSource;
    use crate::recent_removals::RecentRemovals;
    use base::request::{ExpireWhen, Expiry, OnMissing, SequenceMode, When};
    use base::{GroupId, Key, LogIndex, Properties, Update, Value, Version};
    use replica_state::layout::row_key;
    use replica_state::pending_entry::{EntryBuffers, PendingEntry};
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
            pending: &mut VecDeque::new(),
            open: &mut open,
            budget: Budget::unbounded(),
            saw_expired: false,
            counts: &mut counts,
            indexes: &mut GroupIndexes::default(),
            removals: &mut RecentRemovals::default(),
            scratch: &mut Vec::new(),
        };
        evaluate(&mut overlay, &bucket, update).expect("it goes");
        counted_reads.gets.get()
    }

    #[test]
    fn update_that_leaves_a_bucket_above_its_bound_is_refused_unless_the_bucket_shrinks() {
        let properties = Properties { counted: true, bytes_max: 10, ..Properties::default() };
        let bucket = Bucket::new(COUNTED, GROUP, properties);
        let trees = MemoryTrees::new(1 << 20);
        let snapshot = trees.snapshot();
        let mut open = PendingEntry::new(LogIndex(1), 5, 1, 0, EntryBuffers::default());
        let mut counts = BucketCounts::default();
        let empty = BucketCount { is_complete: true, begun: 0, keys: 0, bytes: 0 };
        counts.set(COUNTED, empty);
        let mut try_update = |counts: &mut BucketCounts, bucket: &Bucket, update: &Update| {
            counts.begin_update();
            let mut overlay = Overlay {
                group: GROUP,
                store: StoreSource::Snapshot(&*snapshot),
                pending: &mut VecDeque::new(),
                open: &mut open,
                budget: Budget::unbounded(),
                saw_expired: false,
                counts: &mut *counts,
                indexes: &mut GroupIndexes::default(),
                removals: &mut RecentRemovals::default(),
                scratch: &mut Vec::new(),
            };
            let outcome = evaluate(&mut overlay, bucket, update).map(|_| ());
            let bytes = counts.get(COUNTED).map(|count| count.bytes);
            (outcome.map_err(|error| error.reason), bytes.unwrap_or(0))
        };
        let set = |key: &'static str, value: &'static str| Update::Set {
            key: Key::from(key),
            value: Value::from(value),
            expiry: Expiry::Default,
        };
        let delete = |key| Update::Delete { key: Key::from(key), missing: OnMissing::Fail };
        let steps = |steps| Update::Sequence { steps, mode: SequenceMode::EachAlone };
        let full = Err(Reason::Quota);
        for (update, expected) in [
            (set("k", "123456789"), (Ok(()), 10)),
            (set("l", ""), (full, 10)),
            (Update::Append { key: Key::from("k"), value: Value::from("0") }, (full, 10)),
            (set("k", "987654321"), (Ok(()), 10)),
            (steps(vec![set("l", "123"), delete("k")]), (Ok(()), 4)),
            (steps(vec![set("m", "12345"), set("n", "1")]), (full, 4)),
            (set("m", "12345"), (Ok(()), 10)),
        ] {
            assert_eq!(try_update(&mut counts, &bucket, &update), expected, "{update:?}");
        }
        // A bound below what is there: the bucket may shrink, and not grow.
        let properties = Properties { bytes_max: 5, ..bucket.properties.clone() };
        let bucket = Bucket::new(COUNTED, GROUP, properties);
        for (update, expected) in [
            (set("m", "1234"), (Ok(()), 9)),
            (set("m", "4321"), (Ok(()), 9)),
            (set("m", "12345"), (full, 9)),
            (delete("m"), (Ok(()), 4)),
        ] {
            assert_eq!(try_update(&mut counts, &bucket, &update), expected, "{update:?}");
        }
        // While the count is not complete, nobody knows how many bytes there are.
        counts.set(COUNTED, BucketCount { is_complete: false, begun: 0, keys: 1, bytes: 4 });
        assert_eq!(try_update(&mut counts, &bucket, &set("z", "123456789")), (Ok(()), 14));
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

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

//! Change of a row: the one place where an evaluation writes or removes a row of a bucket.
//!
//! Promises: a change and what follows from it (the count of its bucket) are effects of the same
//! update, so a savepoint undoes both or neither.

use super::overlay::Overlay;
use base::{BucketId, Result, Version};
use replica_state::layout::{self, StoredRow};

/// Row under a key before a change, as far as the writer has read it.
#[derive(Clone, Copy, Debug)]
pub enum RowBefore<'a> {
    /// It was not read; or it was read as absent, and may have expired.
    Unread,
    /// The row, expired or not.
    Read(&'a StoredRow),
}

impl<'a> From<Option<&'a StoredRow>> for RowBefore<'a> {
    fn from(row: Option<&'a StoredRow>) -> RowBefore<'a> {
        row.map_or(RowBefore::Unread, RowBefore::Read)
    }
}

/// Row under a key after a change.
#[derive(Clone, Copy)]
enum RowAfter<'a> {
    /// The value may consist of parts.
    Written {
        version: Version,
        expires: Option<u64>,
        value: &'a [&'a [u8]],
    },
    Removed,
}

impl Overlay<'_> {
    /// Writes a row that the caller has not read; see [`Self::write_row`].
    pub fn put(
        &mut self,
        bucket: BucketId,
        key: &[u8],
        expires: Option<u64>,
        value: &[&[u8]],
    ) -> Result<()> {
        self.write_row(bucket, key, RowBefore::Unread, expires, value)
    }

    /// Writes a row; its value may consist of parts. `expires`: group time. The hint of a row that
    /// expires replaces the former one. If the new row never expires, the former row is not read:
    /// its hint, if it has one, is checked when it is due.
    pub fn write_row(
        &mut self,
        bucket: BucketId,
        key: &[u8],
        before: RowBefore<'_>,
        expires: Option<u64>,
        value: &[&[u8]],
    ) -> Result<()> {
        if let Some(expires) = expires {
            let previous = self.expires_at(bucket, key)?;
            self.forget_hint(bucket, key, previous.filter(|previous| *previous != expires));
            self.put_hint(expires, bucket, key);
        }
        let after = RowAfter::Written { version: self.open.version(), expires, value };
        self.change_row(bucket, key, before, after)
    }

    /// Writes a row with the version that it has already.
    pub fn put_versioned(&mut self, bucket: BucketId, key: &[u8], row: &StoredRow) -> Result<()> {
        let StoredRow { version, expires, ref value } = *row;
        let after = RowAfter::Written { version, expires, value: &[value] };
        self.change_row(bucket, key, RowBefore::Unread, after)?;
        if let Some(expires) = expires {
            self.put_hint(expires, bucket, key);
        }
        Ok(())
    }

    /// Deletes a row that the caller has not kept, and its hint. `expires`: expiry of the row.
    pub fn remove(&mut self, bucket: BucketId, key: &[u8], expires: Option<u64>) -> Result<()> {
        self.forget_hint(bucket, key, expires);
        self.change_row(bucket, key, RowBefore::Unread, RowAfter::Removed)
    }

    /// Deletes a row that the caller has read, and its hint.
    pub fn remove_read(&mut self, bucket: BucketId, key: &[u8], row: &StoredRow) -> Result<()> {
        self.forget_hint(bucket, key, row.expires);
        self.change_row(bucket, key, RowBefore::Read(row), RowAfter::Removed)
    }

    /// Deletes a row that has expired, and leaves its hint to the caller.
    pub(super) fn remove_expired(
        &mut self,
        bucket: BucketId,
        key: &[u8],
        row: &StoredRow,
    ) -> Result<()> {
        self.change_row(bucket, key, RowBefore::Read(row), RowAfter::Removed)
    }

    #[inline]
    fn change_row(
        &mut self,
        bucket: BucketId,
        key: &[u8],
        before: RowBefore<'_>,
        after: RowAfter<'_>,
    ) -> Result<()> {
        layout::row_key(self.group, bucket, key, self.scratch);
        let bytes_before = self.open.payload_bytes();
        match after {
            RowAfter::Written { version, expires, value } => {
                self.count_write(bucket, before, Some(value.iter().map(|part| part.len()).sum()))?;
                self.open.put(self.scratch, version, expires, value);
            }
            RowAfter::Removed => {
                self.count_write(bucket, before, None)?;
                self.open.remove(self.scratch);
            }
        }
        self.budget.count_written(self.open.payload_bytes() - bytes_before);
        Ok(())
    }
}

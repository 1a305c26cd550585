//! Change of a row: the one place where an evaluation writes or removes a row of a bucket.
//!
//! Promises: a change and what follows from it (the count of its bucket, the entries of its
//! indexes) are effects of the same update, so a savepoint undoes both or neither.
//! Cost: a bucket without indexes pays for a check of one flag.

use super::overlay::Overlay;
use base::{BucketId, Result, Tags, Version};
use replica_state::layout::{self, RowHead, StoredRow};

/// Row under a key before a change, as far as the writer has read it.
#[derive(Clone, Copy, Debug)]
pub enum RowBefore<'a> {
    /// Unknown row: not read, or read as absent and possibly expired.
    Unread,
    /// Row that was read and whose value was not kept.
    Seen {
        /// Its version.
        version: Version,
        /// Group time at which it expires.
        expires: Option<u64>,
    },
    /// The row, expired or not.
    Read(&'a StoredRow),
}

impl RowBefore<'_> {
    /// Returns the version of the row, if it was read.
    fn version(self) -> Option<Version> {
        match self {
            RowBefore::Unread => None,
            RowBefore::Seen { version, .. } => Some(version),
            RowBefore::Read(row) => Some(row.version),
        }
    }

    /// Returns the expiry of the row, if it was read.
    fn expires(self) -> Option<u64> {
        match self {
            RowBefore::Unread => None,
            RowBefore::Seen { expires, .. } => expires,
            RowBefore::Read(row) => row.expires,
        }
    }
}

impl<'a> From<Option<&'a StoredRow>> for RowBefore<'a> {
    fn from(row: Option<&'a StoredRow>) -> RowBefore<'a> {
        row.map_or(RowBefore::Unread, RowBefore::Read)
    }
}

/// Origin of a row that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOrigin {
    /// An update, which may be refused.
    Update,
    /// Another group, which has accepted the row: whatever it holds, it is written. Rows that are
    /// copied one by one are not as of one moment before all are there.
    Copied,
}

/// Value that is written, with its tags.
#[derive(Clone, Copy, Debug)]
pub struct NewValue<'a> {
    /// The value, in parts.
    pub parts: &'a [&'a [u8]],
    /// Its tags. `None`: none.
    pub tags: Option<&'a Tags>,
}

impl<'a> NewValue<'a> {
    /// Returns a value without tags.
    pub fn plain(parts: &'a [&'a [u8]]) -> NewValue<'a> {
        NewValue { parts, tags: None }
    }

    /// Returns a value that keeps the tags of the row from which it was made, if there is one.
    pub fn tagged_as(row: Option<&'a StoredRow>, parts: &'a [&'a [u8]]) -> NewValue<'a> {
        NewValue { parts, tags: row.and_then(|row| row.tags.as_deref()) }
    }

    /// Returns the number of bytes of the value.
    fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }
}

/// Row that is written.
#[derive(Clone, Copy, Debug)]
pub struct NewRow<'a> {
    /// Its version.
    pub version: Version,
    /// Group time at which it expires.
    pub expires: Option<u64>,
    /// The value.
    pub value: NewValue<'a>,
    /// Origin of the row.
    pub origin: RowOrigin,
}

impl Overlay<'_> {
    /// Writes a row without tags that the caller has not read; see [`Self::write_row`].
    pub fn put(
        &mut self,
        bucket: BucketId,
        key: &[u8],
        expires: Option<u64>,
        value: &[&[u8]],
    ) -> Result<()> {
        self.write_row(bucket, key, RowBefore::Unread, expires, NewValue::plain(value))
    }

    /// Writes a row. `expires`: group time. The hint of a row that
    /// expires replaces the former one. If the new row never expires, the former row is not read:
    /// its hint, if it has one, is checked when it is due.
    pub fn write_row(
        &mut self,
        bucket: BucketId,
        key: &[u8],
        before: RowBefore<'_>,
        expires: Option<u64>,
        value: NewValue<'_>,
    ) -> Result<()> {
        let found;
        let mut before = before;
        if let Some(expires) = expires {
            if let RowBefore::Unread = before {
                found = self.stored_row(bucket, key)?;
                before = found.as_ref().into();
            }
            let previous = before.expires().filter(|previous| *previous != expires);
            self.forget_hint(bucket, key, previous);
            self.put_hint(expires, bucket, key);
        }
        let (version, origin) = (self.open.version(), RowOrigin::Update);
        let after = NewRow { version, expires, value, origin };
        self.change_row(bucket, key, before, Some(after))
    }

    /// Writes a row that another group has accepted, with the version that it has already.
    pub fn put_versioned(&mut self, bucket: BucketId, key: &[u8], row: &StoredRow) -> Result<()> {
        let StoredRow { version, expires, ref value, .. } = *row;
        let parts = [&value[..]];
        let value = NewValue::tagged_as(Some(row), &parts);
        let after = NewRow { version, expires, value, origin: RowOrigin::Copied };
        self.change_row(bucket, key, RowBefore::Unread, Some(after))?;
        if let Some(expires) = expires {
            self.put_hint(expires, bucket, key);
        }
        Ok(())
    }

    /// Deletes a row that the caller has not read, and its hint. `expires`: expiry of the row.
    pub fn remove(&mut self, bucket: BucketId, key: &[u8], expires: Option<u64>) -> Result<()> {
        self.forget_hint(bucket, key, expires);
        self.change_row(bucket, key, RowBefore::Unread, None)
    }

    /// Deletes a row that the caller has read and not kept, and its hint.
    pub(super) fn remove_seen(
        &mut self,
        bucket: BucketId,
        key: &[u8],
        (version, expires): (Version, Option<u64>),
    ) -> Result<()> {
        self.forget_hint(bucket, key, expires);
        self.change_row(bucket, key, RowBefore::Seen { version, expires }, None)
    }

    /// Deletes a row that the caller has read, and its hint.
    pub fn remove_read(&mut self, bucket: BucketId, key: &[u8], row: &StoredRow) -> Result<()> {
        self.forget_hint(bucket, key, row.expires);
        self.change_row(bucket, key, RowBefore::Read(row), None)
    }

    /// Deletes a row that has expired, and leaves its hint to the caller.
    pub(super) fn remove_expired(
        &mut self,
        bucket: BucketId,
        key: &[u8],
        row: &StoredRow,
    ) -> Result<()> {
        self.change_row(bucket, key, RowBefore::Read(row), None)
    }

    /// Writes a row, or removes it if there is no new one. Errors: those of a value that the
    /// bucket's indexes refuse.
    #[inline]
    fn change_row(
        &mut self,
        bucket: BucketId,
        key: &[u8],
        before: RowBefore<'_>,
        after: Option<NewRow<'_>>,
    ) -> Result<()> {
        self.change_entries(bucket, key, before, after)?;
        layout::row_key(self.group, bucket, key, self.scratch);
        self.count_write(bucket, before, after.map(|row| row.value.bytes()))?;
        let bytes_before = self.open.payload_bytes();
        match after {
            Some(NewRow { version, expires, value, .. }) => {
                // Without tags nothing is allocated.
                let tags = value.tags.map(Tags::encode).unwrap_or_default();
                let head = RowHead { version, expires, tags: &tags };
                self.open.put_row(self.scratch, head, value.parts);
            }
            None => {
                // Without a row that was read, as if it had been written just now.
                let version = before.version().unwrap_or(self.open.version());
                self.removals.note(self.scratch, version);
                self.open.remove(self.scratch);
            }
        }
        self.budget.count_written(self.open.payload_bytes() - bytes_before);
        Ok(())
    }
}

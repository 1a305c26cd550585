//! Tree keys of a feed's rows, and their values.
//!
//! ```text
//! Feed | bucket u32 BE | era u16 BE | index u64 BE | ordinal u32 BE -> entry (crate `change_feed`)
//! Meta | bucket u32 BE | t -> totals
//! Meta | bucket u32 BE | r -> retention
//! Row  | 0 | f | bucket u32 BE -> record
//! ```

use crate::layout::{self, BOOKKEEPING_BUCKET, Mark, ROW_PREFIX_BYTES, Space, StoredRow};
use base::error::corrupt;
use base::{BucketId, GroupId, Result};
use bytes::Bytes;
use change_feed::{
    FeedPosition, FeedRecord, FeedTotals, RETENTION_NAME, Retention, TOTALS_NAME, feed_record_key,
};
use runtime::log_writer::store_error;
use store::Snapshot;

/// Returns the tree key of an entry.
pub fn feed_key(group: GroupId, bucket: BucketId, position: FeedPosition) -> Bytes {
    let mut key = Vec::with_capacity(ROW_PREFIX_BYTES + FeedPosition::BYTES);
    layout::bucket_key(group, Space::Feed, bucket, &position.encode(), &mut key);
    key.into()
}

/// Returns the prefix of the tree keys of all entries of a bucket.
pub fn feed_prefix(group: GroupId, bucket: BucketId) -> Bytes {
    let mut key = Vec::with_capacity(ROW_PREFIX_BYTES);
    layout::bucket_key(group, Space::Feed, bucket, &[], &mut key);
    key.into()
}

/// Decodes the position in the tree key of an entry.
pub fn read_feed_key(key: &[u8]) -> Result<FeedPosition> {
    FeedPosition::decode(key.get(ROW_PREFIX_BYTES..).unwrap_or_default()).map_err(corrupt)
}

/// Returns the tree key of a feed's totals.
pub fn totals_key(group: GroupId, bucket: BucketId) -> Bytes {
    meta_key(group, bucket, TOTALS_NAME)
}

/// Returns the tree key of a feed's retention.
pub fn retention_key(group: GroupId, bucket: BucketId) -> Bytes {
    meta_key(group, bucket, RETENTION_NAME)
}

fn meta_key(group: GroupId, bucket: BucketId, name: &[u8]) -> Bytes {
    let mut key = Vec::with_capacity(ROW_PREFIX_BYTES + name.len());
    layout::bucket_key(group, Space::Meta, bucket, name, &mut key);
    key.into()
}

/// Decodes the row of a feed's record.
pub fn read_record_row(row: &Bytes) -> Result<FeedRecord> {
    let row = StoredRow::read(row).map_err(corrupt)?;
    FeedRecord::decode(&row.value).map_err(corrupt)
}

/// Decodes the row of a feed's totals. `None`: nothing was ever added.
pub fn read_totals(row: Option<&Bytes>) -> Result<FeedTotals> {
    row.map_or(Ok(FeedTotals::default()), |row| FeedTotals::decode(row).map_err(corrupt))
}

/// Decodes the row of a feed's retention. `None`: nothing was ever removed.
pub fn read_retention(row: Option<&Bytes>) -> Result<Retention> {
    row.map_or(Ok(Retention::default()), |row| Retention::decode(row).map_err(corrupt))
}

/// Reads the record of a bucket's feed. `None`: it has none.
pub(super) fn load_record(
    snapshot: &dyn Snapshot,
    group: GroupId,
    bucket: BucketId,
) -> Result<Option<FeedRecord>> {
    let mut key = Vec::new();
    layout::row_key(group, BOOKKEEPING_BUCKET, &feed_record_key(bucket), &mut key);
    let row = snapshot.get(&key).map_err(store_error)?;
    row.as_ref().map(read_record_row).transpose()
}

/// Reads the mark of a group: it covers exactly what the snapshot shows.
pub(super) fn load_mark(snapshot: &dyn Snapshot, group: GroupId) -> Result<Mark> {
    let mut key = Vec::new();
    layout::mark_key(group, &mut key);
    let mark = snapshot.get(&key).map_err(store_error)?;
    mark.map_or(Ok(Mark::default()), |mark| Mark::read(&mark)).map_err(corrupt)
}

/// Reads the retention of a bucket's feed.
pub(super) fn load_retention(
    snapshot: &dyn Snapshot,
    group: GroupId,
    bucket: BucketId,
) -> Result<Retention> {
    let row = snapshot.get(&retention_key(group, bucket)).map_err(store_error)?;
    read_retention(row.as_ref())
}

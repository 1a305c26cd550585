//! Scan that completes the count of a bucket, and the begin and end of counts.
//!
//! Rows minus count is constant as long as a count stands (`counts.rs`). A snapshot of the applied
//! rows holds both as of one entry. So a scan of the snapshot finds the difference, in as
//! many parts and as slowly as its caller likes, while updates go on; and adding the difference to
//! the present count completes it. Whatever fails meanwhile, the next scan finds the same.
//!
//! Never: holds the group's lock during a read.

use super::counts::{BucketCount, count_key, count_tree_key};
use super::group::Group;
use super::overlay::Overlay;
use super::seals::BOOKKEEPING_BUCKET;
use base::{BucketId, Error, GroupId, Reason, Result};
use bytes::Bytes;
use replica_state::layout::{self, StoredRow};
use runtime::log_writer::store_error;
use runtime::mutants::Mutant;
use store::{Chunk, Snapshot, Trees};

/// Scan of a bucket whose count is incomplete.
pub struct CountScan {
    /// Bucket that is counted.
    pub bucket: BucketId,
    /// Prefix of the bucket's rows.
    prefix: Bytes,
    snapshot: Box<dyn Snapshot>,
    /// The count in the snapshot.
    snapshot_count: BucketCount,
    keys: u64,
    bytes: u64,
    /// Last key that was read. `None`: none was.
    after: Option<Bytes>,
}

impl CountScan {
    /// Begins a scan. `None`: no incomplete count of the bucket is applied here.
    pub fn begin(group: GroupId, trees: &dyn Trees, bucket: BucketId) -> Result<Option<CountScan>> {
        let snapshot = trees.snapshot();
        let mut key = Vec::new();
        count_tree_key(group, bucket, &mut key);
        let row = snapshot.get(&key).map_err(store_error)?;
        let count = row.map(|row| BucketCount::read_row(&row)).transpose()?;
        let Some(snapshot_count) = count.filter(|count| !count.is_complete) else {
            return Ok(None);
        };
        layout::row_key(group, bucket, &[], &mut key);
        let (prefix, keys, bytes, after) = (key.into(), 0, 0, None);
        Ok(Some(CountScan { bucket, prefix, snapshot, snapshot_count, keys, bytes, after }))
    }

    /// Reads the next part, of at most so many bytes or one row. Blocks. Returns true if it was the
    /// last one.
    pub fn advance(&mut self, bytes_max: usize) -> Result<bool> {
        let (snapshot, prefix) = (&*self.snapshot, &self.prefix[..]);
        let chunk = Chunk::read(snapshot, prefix, self.after.as_ref(), bytes_max);
        let chunk = chunk.map_err(store_error)?;
        self.keys += chunk.rows.len() as u64;
        let bytes = chunk
            .rows
            .iter()
            .map(|(key, row)| key.len() - self.prefix.len() + StoredRow::value_bytes(row));
        self.bytes += bytes.sum::<usize>() as u64;
        self.after = chunk.more_after;
        Ok(self.after.is_none())
    }

    /// Completes the count, after the last part. `Changed`: the count has ended meanwhile.
    pub(super) fn complete(&self, overlay: &mut Overlay) -> Result<()> {
        let scanned = self.snapshot_count;
        let count = overlay.counts.get(self.bucket).filter(|count| !count.is_complete);
        let Some(count) = count.filter(|count| count.begun == scanned.begun) else {
            return Err(Error::new(Reason::Changed, "the count of the bucket has ended"));
        };
        let forgets = Mutant::CountWithoutChanges.is_active();
        let total = |now: u64, then: u64, found: u64| match forgets {
            true => found,
            false => now.wrapping_sub(then).wrapping_add(found),
        };
        let keys = total(count.keys, scanned.keys, self.keys);
        let bytes = total(count.bytes, scanned.bytes, self.bytes);
        put_count(overlay, self.bucket, BucketCount { is_complete: true, keys, bytes, ..count })
    }
}

/// Begins the count of a bucket, unless it has one.
pub(super) fn begin_count(overlay: &mut Overlay, bucket: BucketId) -> Result<()> {
    if overlay.counts.contains(bucket) {
        return Ok(());
    }
    let (is_complete, begun, keys, bytes) = (false, overlay.version().0, 0, 0);
    put_count(overlay, bucket, BucketCount { is_complete, begun, keys, bytes })
}

/// Ends the count of a bucket, if it has one.
pub(super) fn end_count(overlay: &mut Overlay, bucket: BucketId) -> Result<()> {
    if overlay.counts.contains(bucket) {
        overlay.remove(BOOKKEEPING_BUCKET, &count_key(bucket), None)?;
        overlay.counts.remove(bucket);
    }
    Ok(())
}

/// Writes the row of a count, and the count.
fn put_count(overlay: &mut Overlay, bucket: BucketId, count: BucketCount) -> Result<()> {
    overlay.put(BOOKKEEPING_BUCKET, &count_key(bucket), None, &[&count.write()])?;
    overlay.counts.set(bucket, count);
    Ok(())
}

impl Group {
    /// Returns the counted buckets, and for each whether its count is complete. Of a node that is
    /// not master: any.
    pub fn counted_buckets(&self) -> Vec<(BucketId, bool)> {
        let state = self.state();
        state.queue.counts.all().map(|(bucket, count)| (bucket, count.is_complete)).collect()
    }

    /// Begins the count of a bucket, unless it has one. `epoch`: the leadership epoch in which the
    /// caller decided it. `Changed`: that epoch has ended, and another master may have decided
    /// otherwise.
    pub fn begin_count(&self, bucket: BucketId, epoch: u64) -> Result<()> {
        self.write_in_epoch(epoch, |overlay| begin_count(overlay, bucket)).map(|_| ())
    }

    /// Ends the count of a bucket, if it has one. Errors: see [`Self::begin_count`].
    pub fn end_count(&self, bucket: BucketId, epoch: u64) -> Result<()> {
        self.write_in_epoch(epoch, |overlay| end_count(overlay, bucket)).map(|_| ())
    }

    /// Begins a scan of a bucket of this group; see [`CountScan::begin`].
    pub fn begin_count_scan(&self, bucket: BucketId) -> Result<Option<CountScan>> {
        CountScan::begin(self.id, &*self.shared.trees, bucket)
    }

    /// Completes a count with a scan that has read its last part. `Changed`: the count has ended
    /// meanwhile.
    pub fn complete_count(&self, scan: &CountScan) -> Result<()> {
        self.write_bookkeeping(0, |overlay| scan.complete(overlay), |_| {}).map(|_| ())
    }
}

#[cfg(test)]
mod tests;

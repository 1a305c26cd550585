//! Feeds in force on a node: a copy in memory of their records, which every change of a row asks.

use super::entry::VnodeFeedEntry;
use super::keys::{entry_key, feed_record_key, read_feed_record_key, record_keys};
use super::record::{VnodeFeedPhase, VnodeFeedRecord};
use crate::batch::KeyChanges;
use crate::index_rows::{bucket_name_in, row_place};
use base::error::corrupt;
use base::{BucketName, Result};
use bytes::Bytes;
use change_feed::VnodePosition;
use runtime::log_writer::store_error;
use std::collections::BTreeMap;
use store::Snapshot;

/// See the head of this file.
#[derive(Debug, Default)]
pub struct FeedSet {
    /// Records by the full name of the bucket: a row's tree key holds it, so that looking it up
    /// allocates nothing.
    buckets: BTreeMap<Box<[u8]>, (BucketName, VnodeFeedRecord)>,
}

impl FeedSet {
    /// Returns true if no bucket has a feed, or ever had one.
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// Returns the record of a bucket's feed. `None`: it never had one here.
    pub fn get(&self, bucket: &BucketName) -> Option<&VnodeFeedRecord> {
        self.buckets.get(bucket.full().as_bytes()).map(|(_, record)| record)
    }

    /// Returns all records.
    pub fn iter(&self) -> impl Iterator<Item = (&BucketName, &VnodeFeedRecord)> {
        self.buckets.values().map(|(bucket, record)| (bucket, record))
    }

    /// Returns a feed in this phase.
    pub fn first_in(&self, phase: VnodeFeedPhase) -> Option<&BucketName> {
        self.iter().find(|(_, record)| record.phase == phase).map(|(bucket, _)| bucket)
    }

    /// Sets the record of a bucket's feed.
    pub fn insert(&mut self, bucket: &BucketName, record: VnodeFeedRecord) {
        self.buckets.insert(bucket.full().as_bytes().into(), (bucket.clone(), record));
    }

    /// Adds the entry of a changed row to the changes of its batch, if its bucket has a feed.
    /// Returns true if it did. A row that is removed has none: its tombstone had one.
    pub fn push_entry(
        &self,
        tree_key: &Bytes,
        (before, after): (Option<&Bytes>, Option<&Bytes>),
        (position, now_ms): (VnodePosition, u64),
        changes: &mut KeyChanges,
    ) -> bool {
        let name = bucket_name_in(tree_key).unwrap_or_default();
        let is_in_force = self.buckets.get(name).is_some_and(|(_, record)| record.is_in_force());
        let Some(after) = after.filter(|after| is_in_force && before != Some(*after)) else {
            return false;
        };
        // A row's key was made of a bucket and a key.
        let Some((slot, _, key)) = row_place(tree_key) else { return false };
        let entry = VnodeFeedEntry::of_row(slot, key, after, now_ms);
        changes.push((entry_key(name, position), Some(entry.write())));
        true
    }
}

/// Reads the record of a bucket's feed as of a snapshot.
pub fn read_feed_record(
    snapshot: &dyn Snapshot,
    bucket: &BucketName,
) -> Result<Option<VnodeFeedRecord>> {
    let bytes = snapshot.get(&feed_record_key(bucket)).map_err(store_error)?;
    bytes.map(|bytes| VnodeFeedRecord::read(&bytes)).transpose().map_err(corrupt)
}

/// Reads the records of all feeds as of a snapshot.
pub fn read_feeds(snapshot: &dyn Snapshot) -> Result<FeedSet> {
    let mut feeds = FeedSet::default();
    let (low, high) = record_keys();
    for found in snapshot.range(low, high, false) {
        let (tree_key, bytes) = found.map_err(store_error)?;
        let bucket = read_feed_record_key(&tree_key).map_err(corrupt)?;
        feeds.insert(&bucket, VnodeFeedRecord::read(&bytes).map_err(corrupt)?);
    }
    Ok(feeds)
}

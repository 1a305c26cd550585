//! Feeds in force on a node: a copy in memory of their records, which every change of a row asks.

use super::entry::VnodeFeedEntry;
use super::extent::VnodeFeedExtent;
use super::keys::{entry_key, feed_record_key, read_feed_record_key, record_keys};
use super::record::{VnodeFeedPhase, VnodeFeedRecord};
use crate::batch::KeyChanges;
use crate::hash_trees::CopyCount;
use crate::index_rows::{bucket_name_in, row_place};
use crate::slots::Slot;
use base::error::corrupt;
use base::{BucketName, Key, Result};
use bytes::Bytes;
use change_feed::{FeedTotals, VnodePosition};
use runtime::log_writer::store_error;
use std::collections::BTreeMap;
use store::Snapshot;

/// See the head of this file.
#[derive(Debug, Default)]
pub struct FeedSet {
    /// Records by the full name of the bucket: a row's tree key holds it, so that looking it up
    /// allocates nothing.
    buckets: BTreeMap<Box<[u8]>, FeedInForce>,
}

/// Feed of a bucket.
#[derive(Debug)]
struct FeedInForce {
    bucket: BucketName,
    record: VnodeFeedRecord,
    extent: VnodeFeedExtent,
}

impl FeedSet {
    /// Returns true if no bucket has a feed, or ever had one.
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// Returns the record of a bucket's feed. `None`: it never had one here.
    pub fn get(&self, bucket: &BucketName) -> Option<&VnodeFeedRecord> {
        self.buckets.get(bucket.full().as_bytes()).map(|feed| &feed.record)
    }

    /// Returns all records.
    pub fn iter(&self) -> impl Iterator<Item = (&BucketName, &VnodeFeedRecord)> {
        self.buckets.values().map(|feed| (&feed.bucket, &feed.record))
    }

    /// Returns a feed in this phase.
    pub fn first_in(&self, phase: VnodeFeedPhase) -> Option<&BucketName> {
        self.iter().find(|(_, record)| record.phase == phase).map(|(bucket, _)| bucket)
    }

    /// Sets the record of a bucket's feed.
    pub fn insert(&mut self, bucket: &BucketName, record: VnodeFeedRecord) {
        let known = self.buckets.get(bucket.full().as_bytes()).map(|feed| feed.extent);
        let extent = known.filter(|_| record.phase != VnodeFeedPhase::Off).unwrap_or_default();
        let feed = FeedInForce { bucket: bucket.clone(), record, extent };
        self.buckets.insert(bucket.full().as_bytes().into(), feed);
    }

    /// Returns the records of those feeds whose buckets have another number of copies by now: from
    /// `since` on, behind which all of them change.
    pub fn with_copies(
        &self,
        copies: &CopyCount,
        since: VnodePosition,
    ) -> Vec<(BucketName, VnodeFeedRecord)> {
        let changed = |(bucket, record): (&BucketName, &VnodeFeedRecord)| {
            let copies = copies(bucket).filter(|copies| *copies != record.copies)?;
            let (copies_since, floor) = (since, since.max(record.floor));
            let record = VnodeFeedRecord { copies, copies_since, floor, ..record.clone() };
            Some((bucket.clone(), record))
        };
        self.iter().filter_map(changed).collect()
    }

    /// Returns the number of entries of a bucket's feed, as far as they are known, and their bytes.
    pub fn totals(&self, bucket: &BucketName) -> FeedTotals {
        let feed = self.buckets.get(bucket.full().as_bytes());
        feed.map_or(FeedTotals::default(), |feed| feed.extent.totals)
    }

    /// Sets the extent of a bucket's feed to what a round of retention has counted. `since`: totals
    /// of the feed when the round read its last page.
    pub fn set_extent(&mut self, bucket: &BucketName, counted: VnodeFeedExtent, since: FeedTotals) {
        if let Some(feed) = self.buckets.get_mut(bucket.full().as_bytes()) {
            feed.extent = counted.with_added(since, feed.extent.totals);
        }
    }

    /// Returns the extent of all feeds together.
    pub fn extent(&self) -> VnodeFeedExtent {
        let mut all = VnodeFeedExtent::default();
        self.buckets.values().for_each(|feed| all.add(feed.extent));
        all
    }

    /// Adds the entry of a changed row to the changes of its batch, if its bucket has a feed.
    /// Returns the bucket then. A row that is removed has none: its tombstone had one.
    pub fn push_entry(
        &mut self,
        tree_key: &Bytes,
        (before, after): (Option<&Bytes>, Option<&Bytes>),
        place: (VnodePosition, u64),
        changes: &mut KeyChanges,
    ) -> Option<&BucketName> {
        let name = bucket_name_in(tree_key).unwrap_or_default();
        let feed = self.buckets.get_mut(name).filter(|feed| feed.record.is_in_force())?;
        let after = after.filter(|after| before != Some(*after))?;
        // A row's key was made of a bucket and a key.
        let (slot, _, key) = row_place(tree_key)?;
        feed.push((slot, key, after), place, changes);
        Some(&feed.bucket)
    }

    /// Adds the entry of a row that is older than the feed of its bucket to the changes of a batch.
    pub fn push_built_entry(
        &mut self,
        (bucket, slot, key): (&BucketName, Slot, Key),
        row: &Bytes,
        place: (VnodePosition, u64),
        changes: &mut KeyChanges,
    ) {
        if let Some(feed) = self.buckets.get_mut(bucket.full().as_bytes()) {
            feed.push((slot, key, row), place, changes);
        }
    }
}

impl FeedInForce {
    /// Adds the entry of a row to the changes of its batch.
    fn push(
        &mut self,
        (slot, key, row): (Slot, Key, &Bytes),
        (position, now_ms): (VnodePosition, u64),
        changes: &mut KeyChanges,
    ) {
        let entry = VnodeFeedEntry::of_row(slot, key, row, now_ms).write();
        let entry_key = entry_key(self.bucket.full().as_bytes(), position);
        self.extent.totals.add(entry_key.len() + entry.len());
        changes.push((entry_key, Some(entry)));
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

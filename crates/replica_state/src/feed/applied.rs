//! Feeds of a group by its applied rows, and the signals by which readers wait for entries.

use super::derivation::FeedDerivation;
use super::rows::{read_record_row, read_totals, totals_key};
use crate::layout::{self, BOOKKEEPING_BUCKET, ROW_PREFIX_BYTES};
use base::{BucketId, GroupId, LogIndex, Result};
use bytes::Bytes;
use change_feed::{FEED_RECORD, FeedRecord, FeedTotals, read_feed_record_key};
use runtime::log_writer::store_error;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use store::{Chunk, Trees};
use tokio::sync::watch;

/// Records of a group's feeds, by bucket.
pub(super) type FeedRecords = Arc<BTreeMap<BucketId, Arc<FeedRecord>>>;

/// See the head of this file.
#[derive(Default)]
pub struct AppliedFeeds {
    /// True if some bucket has a record. Groups without feeds check only this.
    has_records: AtomicBool,
    state: Mutex<FeedState>,
}

#[derive(Default)]
struct FeedState {
    records: FeedRecords,
    /// What was ever added to each feed.
    totals: BTreeMap<BucketId, FeedTotals>,
    /// Signal of each bucket with a record: changes with every entry of its feed.
    signals: BTreeMap<BucketId, watch::Sender<()>>,
    /// Buckets whose readers are not notified yet of what was applied.
    changed: BTreeSet<BucketId>,
}

impl AppliedFeeds {
    /// Loads the feeds from the rows of a group. The directory has none.
    pub fn load(group: GroupId, trees: &dyn Trees) -> Result<AppliedFeeds> {
        let feeds = AppliedFeeds::default();
        feeds.reload(group, trees)?;
        Ok(feeds)
    }

    /// Loads the feeds again, because rows changed without entries of the log, and notifies all
    /// readers.
    pub fn reload(&self, group: GroupId, trees: &dyn Trees) -> Result<()> {
        if group == GroupId::DIRECTORY {
            return Ok(());
        }
        let snapshot = trees.snapshot();
        let (mut prefix, mut records) = (Vec::new(), BTreeMap::new());
        layout::row_key(group, BOOKKEEPING_BUCKET, &[FEED_RECORD], &mut prefix);
        let all = Chunk::read(&*snapshot, &prefix, None, usize::MAX).map_err(store_error)?;
        let mut totals = BTreeMap::new();
        for (key, row) in &all.rows {
            let Some(bucket) = read_feed_record_key(&key[ROW_PREFIX_BYTES..]) else { continue };
            records.insert(bucket, Arc::new(read_record_row(row)?));
            let row = snapshot.get(&totals_key(group, bucket)).map_err(store_error)?;
            totals.insert(bucket, read_totals(row.as_ref())?);
        }
        let mut state = self.state();
        self.has_records.store(!records.is_empty(), Ordering::Release);
        state.signals.retain(|bucket, _| records.contains_key(bucket));
        for bucket in records.keys() {
            let signal = state.signals.entry(*bucket);
            signal.or_insert_with(|| watch::Sender::new(())).send_replace(());
        }
        (state.records, state.totals) = (Arc::new(records), totals);
        Ok(())
    }

    /// Takes a change of a row of bucket 0, in the order of the log. `row`: `None` if it was
    /// removed. Errors: `corrupt` for the row of a record that can't be decoded.
    pub(super) fn change_record(&self, key: &[u8], row: Option<&Bytes>) -> Result<()> {
        let Some(bucket) = read_feed_record_key(key) else { return Ok(()) };
        let record = row.map(read_record_row).transpose()?;
        let mut guard = self.state();
        let state = &mut *guard;
        let records = Arc::make_mut(&mut state.records);
        match record {
            Some(record) => {
                records.insert(bucket, Arc::new(record));
                state.totals.entry(bucket).or_default();
                state.signals.entry(bucket).or_insert_with(|| watch::Sender::new(()));
                state.changed.insert(bucket);
            }
            None => {
                records.remove(&bucket);
                state.totals.remove(&bucket);
                state.changed.remove(&bucket);
                // Who waits is woken by the end of the signal.
                state.signals.remove(&bucket);
            }
        }
        self.has_records.store(!records.is_empty(), Ordering::Release);
        Ok(())
    }

    /// Replaces the totals of a feed by those of a row that was written. `None`: it was removed.
    pub(super) fn change_totals(&self, bucket: BucketId, row: Option<&Bytes>) -> Result<()> {
        let totals = read_totals(row)?;
        self.state().totals.insert(bucket, totals);
        Ok(())
    }

    /// Adds to the totals of a feed, and returns them. Notes that its readers are to be notified.
    pub(super) fn add(&self, bucket: BucketId, added: FeedTotals) -> FeedTotals {
        let mut guard = self.state();
        let state = &mut *guard;
        state.changed.insert(bucket);
        let totals = state.totals.entry(bucket).or_default();
        totals.entries = totals.entries.wrapping_add(added.entries);
        totals.bytes = totals.bytes.wrapping_add(added.bytes);
        *totals
    }

    /// Returns the record of a bucket's feed. `None`: it has none.
    pub fn find(&self, bucket: BucketId) -> Option<Arc<FeedRecord>> {
        self.records()?.get(&bucket).cloned()
    }

    /// Returns all records, by bucket, with what was ever added to each feed.
    pub fn all(&self) -> Vec<(BucketId, Arc<FeedRecord>, FeedTotals)> {
        if !self.has_records.load(Ordering::Acquire) {
            return Vec::new();
        }
        let state = self.state();
        let totals = |bucket| state.totals.get(bucket).copied().unwrap_or_default();
        let all = state.records.iter();
        all.map(|(bucket, record)| (*bucket, record.clone(), totals(bucket))).collect()
    }

    /// Returns the buckets that have a record.
    pub fn buckets(&self) -> BTreeSet<BucketId> {
        self.records().map(|records| records.keys().copied().collect()).unwrap_or_default()
    }

    /// Returns the signal that changes once entries of a bucket's feed are applied, and ends when
    /// the feed does. `None`: the bucket has no feed.
    pub fn watch(&self, bucket: BucketId) -> Option<watch::Receiver<()>> {
        self.records()?;
        self.state().signals.get(&bucket).map(watch::Sender::subscribe)
    }

    /// Begins the derivation of an entry of the log.
    #[inline]
    pub fn derive(&self, group: GroupId, index: LogIndex) -> FeedDerivation<'_> {
        FeedDerivation::new(self, group, index)
    }

    /// Notifies the readers of all that was applied since the last call.
    #[inline]
    pub fn notify_readers(&self) {
        if self.has_records.load(Ordering::Acquire) {
            self.notify();
        }
    }

    #[cold]
    fn notify(&self) {
        let mut state = self.state();
        for bucket in std::mem::take(&mut state.changed) {
            if let Some(signal) = state.signals.get(&bucket) {
                signal.send_replace(());
            }
        }
    }

    /// Returns all records. `None`: there is none.
    #[inline]
    pub(super) fn records(&self) -> Option<FeedRecords> {
        let has_records = self.has_records.load(Ordering::Acquire);
        has_records.then(|| self.state().records.clone())
    }

    fn state(&self) -> MutexGuard<'_, FeedState> {
        self.state.lock().expect("no one panics while holding it")
    }
}

//! Differences between the feeds of a node and its rows, as of one snapshot: the judge of tests.

use super::entry::VnodeFeedEntry;
use super::in_force::read_feeds;
use super::keys::{entries_behind, position_in};
use super::record::VnodeFeedPhase;
use crate::layout::{bucket_prefix, read_row_key};
use crate::slots::Slot;
use base::error::corrupt;
use base::range::prefix_end;
use base::{BucketName, Key, Result};
use bytes::Bytes;
use change_feed::VnodePosition;
use runtime::log_writer::store_error;
use std::collections::BTreeMap;
use std::ops::Bound;
use store::Snapshot;

/// Key whose last entry is not what its row asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedDifference {
    /// The bucket.
    pub bucket: BucketName,
    /// The key.
    pub key: Key,
    /// Position of its last entry. `None`: it has none.
    pub last: Option<VnodePosition>,
}

/// Returns the keys of feeds that are ready whose last entry does not tell of their row.
pub fn feed_differences(snapshot: &dyn Snapshot) -> Result<Vec<FeedDifference>> {
    let mut differences = Vec::new();
    let feeds = read_feeds(snapshot)?;
    for (bucket, _) in feeds.iter().filter(|(_, it)| it.phase == VnodeFeedPhase::Ready) {
        let mut last: BTreeMap<Key, (VnodePosition, VnodeFeedEntry)> = BTreeMap::new();
        let (low, high) = entries_behind(bucket, VnodePosition::START);
        for found in snapshot.range(low, high, false) {
            let (tree_key, value) = found.map_err(store_error)?;
            let entry = VnodeFeedEntry::read(&value).map_err(corrupt)?;
            let position = position_in(&tree_key).map_err(corrupt)?;
            last.insert(entry.key.clone(), (position, entry));
        }
        for (key, row) in rows_of(snapshot, bucket)? {
            let found = last.get(&key);
            if found.is_none_or(|(_, entry)| !entry.tells_of(&row)) {
                let last = found.map(|(position, _)| *position);
                differences.push(FeedDifference { bucket: bucket.clone(), key, last });
            }
        }
    }
    Ok(differences)
}

fn rows_of(snapshot: &dyn Snapshot, bucket: &BucketName) -> Result<Vec<(Key, Bytes)>> {
    let mut rows = Vec::new();
    for prefix in Slot::all().map(|slot| bucket_prefix(slot, bucket)) {
        let high = prefix_end(&prefix).map_or(Bound::Unbounded, |end| Bound::Excluded(end.into()));
        for found in snapshot.range(Bound::Included(prefix.into()), high, false) {
            let (tree_key, row) = found.map_err(store_error)?;
            rows.extend(read_row_key(&tree_key).map(|(_, key)| (key, row)));
        }
    }
    Ok(rows)
}

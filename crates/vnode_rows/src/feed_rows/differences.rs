//! Differences between the feeds of a node and its rows, as of one snapshot: the judge of tests.

use super::entry::VnodeFeedEntry;
use super::in_force::read_feeds;
use super::keys::{entries_behind, position_in};
use super::record::VnodeFeedPhase;
use crate::layout::{read_row_key, slot_keys};
use base::error::corrupt;
use base::{BucketName, Key, Result};
use change_feed::VnodePosition;
use runtime::log_writer::store_error;
use std::collections::BTreeMap;
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

/// Last entries of the keys of a bucket.
type LastEntries = BTreeMap<Key, (VnodePosition, VnodeFeedEntry)>;

/// Returns the keys of feeds that are ready whose last entry does not tell of their row.
pub fn feed_differences(snapshot: &dyn Snapshot) -> Result<Vec<FeedDifference>> {
    let (feeds, mut last) = (read_feeds(snapshot)?, BTreeMap::new());
    for (bucket, _) in feeds.iter().filter(|(_, it)| it.phase == VnodeFeedPhase::Ready) {
        last.insert(bucket, last_entries(snapshot, bucket)?);
    }
    let mut differences = Vec::new();
    let (low, high) = slot_keys(None);
    for found in snapshot.range(low, high, false) {
        let (tree_key, row) = found.map_err(store_error)?;
        // The range also contains hints and records.
        let Some((bucket, key)) = read_row_key(&tree_key) else { continue };
        let Some(last) = last.get(&bucket) else { continue };
        let found = last.get(&key);
        if found.is_none_or(|(_, entry)| !entry.tells_of(&row)) {
            let last = found.map(|(position, _)| *position);
            differences.push(FeedDifference { bucket, key, last });
        }
    }
    Ok(differences)
}

fn last_entries(snapshot: &dyn Snapshot, bucket: &BucketName) -> Result<LastEntries> {
    let mut last = LastEntries::new();
    let (low, high) = entries_behind(bucket, VnodePosition::START);
    for found in snapshot.range(low, high, false) {
        let (tree_key, value) = found.map_err(store_error)?;
        let entry = VnodeFeedEntry::read(&value).map_err(corrupt)?;
        let position = position_in(&tree_key).map_err(corrupt)?;
        last.insert(entry.key.clone(), (position, entry));
    }
    Ok(last)
}

//! Work on a feed: pages of its build, and of the removal of its entries.

use super::in_force::read_feed_record;
use super::keys::entries_behind;
use super::record::VnodeFeedPhase;
use crate::build_rows::{BuildRows, read_build_rows};
use base::{BucketName, Result};
use bytes::Bytes;
use change_feed::VnodePosition;
use runtime::log_writer::store_error;
use store::Snapshot;

/// Maximum number of entries of a feed that was turned off that are removed together.
const REMOVED_MAX: usize = 256;

/// See the head of this file.
pub enum FeedWork {
    /// Rows whose entries are to be added.
    Build(BuildRows),
    /// Tree keys of entries to be removed, and true if no other is left.
    Removal(Vec<Bytes>, bool),
}

impl FeedWork {
    /// Returns the number of bytes that were read for it.
    pub fn bytes(&self) -> usize {
        match self {
            FeedWork::Build(page) => page.bytes,
            FeedWork::Removal(keys, _) => keys.iter().map(Bytes::len).sum(),
        }
    }
}

/// Reads the next page of the build or the removal of a feed. `None`: neither is due as of the
/// snapshot.
pub fn read_feed_work(snapshot: &dyn Snapshot, bucket: &BucketName) -> Result<Option<FeedWork>> {
    // Of the snapshot: one that has the record has every change from before it.
    let Some(record) = read_feed_record(snapshot, bucket)? else { return Ok(None) };
    match record.phase {
        VnodeFeedPhase::Building => {
            let page = read_build_rows(snapshot, Some(bucket), record.cursor)?;
            Ok(Some(FeedWork::Build(page)))
        }
        VnodeFeedPhase::Dropping => {
            let (low, high) = entries_behind(bucket, VnodePosition::START);
            let keys = snapshot.range(low, high, false).take(REMOVED_MAX);
            let keys = keys.map(|found| found.map(|(tree_key, _)| tree_key));
            let keys = keys.collect::<std::result::Result<Vec<_>, _>>().map_err(store_error)?;
            let is_last = keys.len() < REMOVED_MAX;
            Ok(Some(FeedWork::Removal(keys, is_last)))
        }
        VnodeFeedPhase::Ready | VnodeFeedPhase::Off => Ok(None),
    }
}

//! Feeds of this node's vnodes in memory.

use base::BucketName;
use change_feed::VnodePosition;
use std::collections::{BTreeMap, BTreeSet};
use vnode_rows::feed_rows::FeedSet;

/// See the head of this file.
#[derive(Default)]
pub(super) struct FeedState {
    /// Feeds in force. `None`: the store was not read yet.
    pub(super) set: Option<FeedSet>,
    /// Position of the last entry of this life. `None`: there is none.
    pub(super) last_entry: Option<VnodePosition>,
    /// Buckets with entries in batches that are not applied yet, by batch, while somebody asks.
    pub(super) changed: BTreeMap<u64, BTreeSet<BucketName>>,
}

impl FeedState {
    /// Takes the buckets with entries in the batches through this one.
    pub(super) fn take_changed(&mut self, batch: u64) -> BTreeSet<BucketName> {
        let mut found = BTreeSet::new();
        while let Some(first) = self.changed.first_entry().filter(|it| *it.key() <= batch) {
            found.append(&mut first.remove());
        }
        found
    }
}

//! Feeds of this node's vnodes in memory.

use change_feed::VnodePosition;
use vnode_rows::feed_rows::FeedSet;

/// See the head of this file.
#[derive(Default)]
pub(super) struct FeedState {
    /// Feeds in force. `None`: the store was not read yet.
    pub(super) set: Option<FeedSet>,
    /// Position of the last entry of this life. `None`: there is none.
    pub(super) last_entry: Option<VnodePosition>,
}

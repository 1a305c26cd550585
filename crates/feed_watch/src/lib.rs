//! Waits for events of feeds: signals by bucket, which all requests that wait at a node share.
//!
//! [`FeedSignals`] has a signal for each bucket of which an event is awaited. Two loops change
//! them:
//!
//! - [`follow_nodes`], for available buckets, asks each node of the ring which feeds have changed.
//!   A node answers from its [`RecentChanges`] once there are some.
//! - [`poll_buckets`], for consistent buckets of which the node has no replica, reads a page of
//!   each a second.
//!
//! Promises: a signal changes once entries can be read; the cost of a loop does not depend on the
//! number of waiters; while nobody waits, nothing is asked, and nothing is kept of changes.
//! Never: reads a row; knows a group, a vnode or the content of a token.
//! Read next: `feed_signals.rs`, `recent_changes.rs`, then `node_follower.rs`, `bucket_poller.rs`.

mod bucket_poller;
mod event_signal;
mod feed_signals;
mod node_follower;
mod recent_changes;
mod watchers;

pub use bucket_poller::{FeedPages, PageFuture, poll_buckets};
pub use event_signal::EventSignal;
pub use feed_signals::{FeedSignals, FeedWatch};
pub use node_follower::{CHANGES_WAIT_MS, ChangeSource, ChangesFuture, follow_nodes};
pub use recent_changes::RecentChanges;
pub use watchers::FeedWatchers;

#[cfg(test)]
mod tests;

//! Feeds of changes of a group's buckets: entries that are derived where entries of the log are
//! applied, and pages of them.
//!
//! The record of a feed in the group's bookkeeping (bucket 0) says whether changes of its bucket
//! are added. A replica that applies an entry of the log adds a feed entry for each key's last
//! effect in it, in the same batch: a pure function of the entry and of the records before it, so
//! all replicas add the same, and so does a replay.
//!
//! Promises: a row and its feed entry become visible together; positions rise; in a group without
//! feeds, an effect costs a comparison of a few bytes of its key, and in a group with feeds one
//! look-up.
//! Never: decides which buckets have feeds; removes an entry.
//! Read next: `applied.rs`, `derivation.rs`, then `page.rs`.

mod applied;
mod check;
mod derivation;
mod due_page;
mod extent;
mod page;
mod rows;
mod sending;

pub use applied::AppliedFeeds;
pub use check::{FeedMismatch, check_feed};
pub use derivation::{EntryStamp, FeedDerivation};
pub use due_page::{DueEntry, DuePage, due_page};
pub use extent::{FeedExtent, feed_extent};
pub use page::{FeedAnswer, FoundPage, PageOrigin, PageQuery, read_page};
pub use rows::{
    feed_key, feed_prefix, read_feed_key, read_record_row, read_retention, read_totals,
    retention_key, totals_key,
};

pub use sending::sent_feed;

#[cfg(test)]
mod tests;

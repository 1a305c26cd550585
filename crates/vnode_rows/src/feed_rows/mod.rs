//! Rows of change feeds on one node: the feeds in force, their entries, the bridges between nodes,
//! and their bytes.
//!
//! Each node writes an entry with each change of a row of its own, whichever slot the row is in,
//! in the batch of the row (`dynamo/row_change.rs`). So the feed of a bucket at a node is one
//! order of all that its vnodes learned, and a reader leaves out the slots that it reads elsewhere.
//! Entries never travel between nodes, and no hash tree holds them.
//!
//! Promises: while a feed is ready, the last entry of each key whose row is here has the hash of
//! this row; positions rise, and none is used twice ([`VnodePosition`]).
//! Never: writes to the store; decides when an entry is old.
//! Read next: `keys.rs`, `entry.rs`, `record.rs`, then `in_force.rs` and `page_read.rs`.

mod bridges;
mod differences;
mod entry;
mod extent;
mod in_force;
mod joined;
mod keys;
mod page;
mod page_read;
mod record;
mod retention;
mod slot_positions;
mod work;

pub use bridges::{BridgePlace, ComparedSlots, bridge_changes, bridges_behind, last_bridge};
pub use differences::{FeedDifference, feed_differences};
pub use entry::VnodeFeedEntry;
pub use extent::VnodeFeedExtent;
pub use in_force::{FeedSet, read_feed_record, read_feeds};
pub use joined::{join_slots, joined_row_key, read_joined};
pub use keys::{
    entries_behind, entries_prefix, entry_key, feed_record_key, read_entry_key,
    read_feed_record_key,
};
pub use page::{
    FeedAnswer, FeedQuestion, FeedSection, SectionEntry, VnodeFeedPage, VnodeFeedQuery,
};
pub use page_read::read_feed_answer;
pub use record::{VnodeFeedPhase, VnodeFeedRecord};
pub use retention::{DeadEntryBounds, RetentionPage, RetentionRound, read_retention_page};
pub use slot_positions::{SlotPositions, put_positions, read_positions};
pub use work::{FeedWork, read_feed_work};

#[cfg(test)]
mod tests;

//! Feeds of changes: positions, entries, tokens and retention of a bucket's feed, and their bytes.
//!
//! A *feed entry* records a change of a key at a position ([`FeedPosition`]); positions rise.
//! An entry is *dead* once the row of its key has another version: a reader comes to a later entry
//! of the key, so retention removes it. The living ones are each key of the bucket once. A reader
//! keeps a token ([`ConsistentToken`]) and the feed keeps nothing for readers.
//!
//! In an available bucket each node writes a feed of its own ([`VnodePosition`]). A reader reads
//! each slot at one node ([`VnodePlace`]), and goes on at another behind a [`Bridge`].
//!
//! Promises: bytes of positions order as the positions do; decoding never panics, whatever the
//! bytes; a token is at most 8 KiB.
//! Never: reads or writes a row; knows a group, a vnode or a request; reads a clock.
//! Read next: `position.rs`, `entry.rs`, then `record.rs` and `retention.rs`; of available buckets
//! `vnode_position.rs`, `vnode_bridges.rs`, then `vnode_place.rs`, `vnode_sources.rs`
//! and `vnode_reader.rs`.

mod entry;
mod position;
mod record;
mod retention;
mod sent_feed;
mod token;
mod totals;
mod vnode_bridges;
mod vnode_changes;
mod vnode_place;
mod vnode_position;
mod vnode_reader;
mod vnode_slots;
mod vnode_sources;

pub use entry::{FeedChange, FeedEntry};
pub use position::FeedPosition;
pub use record::{
    FEED_RECORD, FeedMaking, FeedPhase, FeedRecord, feed_record_key, read_feed_record_key,
};
pub use retention::{KeptEntry, RETENTION_NAME, Retention, RetentionBounds};
pub use sent_feed::{SENT_FEED_BYTES_MAX, SentEntry, SentFeed};
pub use token::{ConsistentToken, TokenForm, decode_token, encode_token};
pub use totals::{FeedTotals, TOTALS_NAME};
pub use vnode_bridges::{BRIDGES_MAX, Bridge, BridgeChange, BridgeList, behind_bridges};
pub use vnode_changes::{ChangeMark, FeedChanges};
pub use vnode_place::{CatchUp, FeedPart, PartPlace, VnodePlace};
pub use vnode_position::{POSITION_KEY_BYTES, VnodePosition};
pub use vnode_reader::{FeedAsk, FeedRound, PageOutline, VnodeReader};
pub use vnode_slots::{SLOTS, SlotSet};
pub use vnode_sources::{BridgeAnswer, FeedMove, FeedSources, OwnedSlots};

#[cfg(test)]
mod tests;

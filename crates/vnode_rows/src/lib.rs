//! Rows of available buckets in a node's store: their keys and bytes, the slots that they lie in,
//! the log records that change them, and the rows of secondary indexes and feeds that are derived
//! from them.
//!
//! Knows keys and bytes of rows, and the store. It knows no vnode, no ring in force and no other
//! node: `dynamo` says when a row changes, and who may have it.
//!
//! Promises: the bytes of a row keep their meaning; a key's slot never changes; the entries of a
//! row are a function of its bytes and of the definitions.
//! Never: decides when anything is due; imports `dynamo` or `replica_state`.
//! Read next: `layout.rs`, `slots.rs`, then `index_rows/mod.rs` and `feed_rows/mod.rs`.

pub mod batch;
pub mod build_rows;
pub mod feed_rows;
pub mod hash_trees;
mod headers;
pub mod index_rows;
pub mod layout;
pub mod migrate_v1;
pub mod name_pages;
pub mod slots;
pub mod span_rows;
pub mod transfer_pages;
pub mod unapplied_rows;

//! State of a group's replica in the trees: its rows, index rows and feeds, the effects on them
//! that an entry of the log holds, their transfer as a snapshot to another node, and their
//! comparison with those of the other replicas.
//!
//! Knows keys and bytes of rows and of effects, the store, and messages to the same code at another
//! node. It knows no group: no log, no master, no update. `replication` says when a snapshot is
//! fetched and installed, and at which entry replicas are compared.
//!
//! Promises: a snapshot is installed whole or not at all; a reported difference existed at one
//! index of the log; the bytes of a row keep their meaning.
//! Never: decides when any of it is due; imports `replication` or `dynamo`.
//! Read next: `layout.rs`, `stored_row.rs`, then `snapshot/mod.rs`, `comparison/mod.rs`,
//! `index_row.rs` and `feed/mod.rs`.

pub mod comparison;
pub mod effect_layout;
mod effect_order;
pub mod entry;
pub mod feed;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod index_check;
pub mod index_row;
pub mod layout;
pub mod pager;
pub mod pending_entry;
pub mod replicated_index;
pub mod snapshot;
mod stored_row;
pub mod tag_record;

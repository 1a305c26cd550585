//! Rows of secondary indexes on one node: the indexes in force, the entries of a row, and their
//! bytes.
//!
//! Each node derives the entries of its own rows, whichever slots they are in, and keeps those of
//! all its slots in one order: a query reads one range, and leaves out the slots that this node was
//! not asked for. Entries never travel between nodes, and no hash tree holds them. They change in
//! the batch of their row (`dynamo/row_change.rs`), so the log brings both back after a crash.
//!
//! Promises: the entries of a row are a function of its bytes and of the definitions; they do not
//! depend on a clock, an expired value keeps its entries until it is removed, with its expiry time.
//! Never: writes to the store.
//! Read next: `keys.rs`, `record.rs`, `row_entries.rs`, then `in_force.rs` and `page_read.rs`.

mod differences;
mod in_force;
mod keys;
mod page;
mod page_read;
mod record;
mod row_entries;
mod stored;

pub use differences::{IndexDifference, differences};
pub use in_force::{IndexSet, bucket_name_in};
pub use keys::{
    EntryValue, entries_prefix, entry_key, field_keys, query_keys, read_entry_key, read_record_key,
    record_keys,
};
pub use page::{EntryPosition, IndexAnswer, IndexContent, IndexPage, IndexQuery};
pub use page_read::{WALKED_MAX, read_answer};
pub use record::{IndexId, IndexPhase, IndexRecord};
pub use row_entries::{RowDeriver, RowEntries, push_difference, row_place};
pub use stored::{read_indexes, read_record};

#[cfg(test)]
mod tests;

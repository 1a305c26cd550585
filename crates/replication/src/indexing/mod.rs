//! Indexing: entries of secondary indexes as effects of the updates that change their rows, and
//! the steps by which an index is built and removed.
//!
//! The master derives entries (crate `indexes`) when it evaluates an update. They are effects like
//! any other: followers, replay and snapshots handle them without knowing them, a savepoint undoes
//! them, later updates see them. From the effect on that begins an index, every change of a row
//! maintains it; a builder adds what older rows lack, page by page.
//!
//! Promises: a row and its entries change in one entry of the log; an index that is ready has
//! exactly the entries that `indexes::stored_entries` returns for the bucket's rows, expired or not
//! (`replica_state/index_check.rs` is the judge); a unique index has one living key for each term.
//! Never: derives entries on a replica that is not master; waits.
//! Read next: `write.rs`, then `build.rs`.

mod build;
mod manage;
mod mend;
mod moving;
mod write;

#[cfg(test)]
mod tests;

pub use build::IndexStep;
pub(crate) use build::{PAGE_BYTES, has_rows, read_page};

//! Declared indexes in the directory: rows of group 0, and each node's copy of them.
//!
//! Promises: a number of an index is never used again, in any bucket; the rows of a bucket's
//! indexes go with the bucket; definitions with the same version, on one node, are the same.
//! Never: reads or writes an entry of an index, or decides that it is complete: masters of groups,
//! and nodes with vnodes, report that (`docs/decisions/0039-index-rows.md`).
//! Read next: `lifecycle.rs` (what each event makes of a row), `plan.rs`, then `table.rs`.

mod lifecycle;
mod plan;
pub(crate) mod rows;
mod table;

pub use table::{BucketIndexes, IndexTable};

//! Experiment of the coupons: documents are loaded and updated, and found by an index.
//!
//! It was published for CouchDB and Riak: how long 100,000 JSON documents take to load, and how
//! long the query `redeemed_count < 50` takes. The documents are those of `generators::CouponSet`,
//! so every row that a server must return is known without asking one.
//!
//! Promises: every row of every answer is compared with the documents that were written, so a
//! server that is fast and wrong has no result; a write that was refused is repeated, in order; a
//! server that stops answering ends the experiment.
//! Never: starts a server; knows a protocol.
//! Read next: `writes.rs`, `expected_rows.rs`, then `queries.rs`.

mod expected_rows;
mod queries;
#[cfg(test)]
mod tests;
mod writes;

pub use expected_rows::ExpectedRows;
pub use queries::{
    KeyQueries, KeyQueryResult, QueryFailure, query_documents, query_keys, wait_until_served,
};
pub use writes::{WriteResult, WriteRounds, write_rounds};

use std::time::Duration;

/// Longest time that a driver waits for answers before deadlines are looked at.
const WAIT: Duration = Duration::from_millis(50);

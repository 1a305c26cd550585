//! Checkers of recorded histories: decide whether a correct store may have given these answers.
//!
//! Promises: a checker returns one of three verdicts: the history is correct, it is not (with the
//! place), or the question is undecided within the work allowed. A missing answer never counts as a
//! success.
//! Never: sends a request to the server; accepts a history in which one client has two open calls.
//! Read next: `workload/history.rs` (the history), `linear.rs`, then `search.rs`; `replay/` checks
//! against the log of the group; `causal.rs` checks available buckets.

pub mod causal;
mod linear;
pub mod replay;
mod search;
pub mod transactions;

pub use linear::{LinearReport, LinearVerdict, Violation, check};

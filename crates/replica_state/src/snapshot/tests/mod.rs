//! Snapshot transfers between nodes: complete, interrupted, corrupted, expired.
//!
//! Promises: the installed rows are compared with the sender's at the offered index.
//! Never: asserts a time.

#![allow(clippy::unwrap_used)]

mod stopping;
mod test_node;
mod transfers;
mod wire;
mod without_rows;

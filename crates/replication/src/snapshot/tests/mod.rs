//! Snapshots from node to node: whole, broken, spoilt, forgotten.
//!
//! Promises: what is installed is compared with what the sender held at the offered index.
//! Never: asserts a time.

#![allow(clippy::unwrap_used)]

mod stopping;
mod test_node;
mod transfers;
mod wire;

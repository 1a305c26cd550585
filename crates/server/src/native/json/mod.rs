//! JSON of the native front-end: strict parsing of requests, and writing of replies.
//!
//! Keys and values are any bytes. UTF-8 is written as a JSON string, other bytes as `{"base64":
//! ".."}`.
//!
//! Promises: an unknown or repeated field is refused; nesting and counts are limited during
//! parsing.
//! Never: builds a tree of a client's JSON; steps become updates while they are parsed.
//! Read next: `operations.rs` (the table of operations), `steps.rs`, `write.rs`.

pub mod available;
pub mod bodies;
pub mod cluster;
pub mod feed;
pub mod fields;
pub mod index;
pub mod keys;
pub mod operations;
pub mod ring;
pub mod scan;
pub mod size;
pub mod steps;
pub mod views;
pub mod write;

#[cfg(test)]
mod tests;

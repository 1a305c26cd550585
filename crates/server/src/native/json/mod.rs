//! JSON, both ways: strict in what is read, plain in what is written.
//!
//! Keys and values are any bytes: those that are UTF-8 stand as JSON strings, others as `{"base64":
//! ".."}`.
//!
//! Promises: a field that is unknown or stands twice is refused; nesting and counts are bounded
//! while reading.
//! Never: keeps a tree of a client's JSON; steps become updates as they are read.
//! Read next: `operations.rs` (the table of operations), `steps.rs`, `write.rs`.

pub mod available;
pub mod bodies;
pub mod cluster;
pub mod fields;
pub mod keys;
pub mod operations;
pub mod ring;
pub mod scan;
pub mod steps;
pub mod views;
pub mod write;

#[cfg(test)]
mod tests;

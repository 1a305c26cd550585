//! Dots: names of single writes, and sets of them.
//!
//! A dot is who minted it and a counter. What a replica has heard of, and what a client has seen,
//! is a set of dots: a [`DotContext`], each actor with ranges of counters ([`Seen`]). It grows with
//! the actors that wrote, not with the writes. Clocks and data types both speak it; clients carry
//! it as the opaque bytes of a context.
//!
//! Promises: equal sets have equal bytes; whatever the bytes, decoding does not panic and sets
//! nothing aside that is not there.
//! Never: mints a dot; forgets one.
//! Read next: `seen.rs`, `context.rs`.

mod context;
mod identity;
mod seen;

pub use context::DotContext;
pub use identity::{INCARNATION_MAX, Identity};
pub use seen::{COUNT_MAX, CounterSet};

#[cfg(test)]
mod tests;

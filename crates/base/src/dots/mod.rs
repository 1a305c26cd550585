//! Dots: names of single writes, and sets of them.
//!
//! A dot is an actor and a counter. The writes that a replica has, and those that a client has
//! seen, are a set of dots: a [`DotContext`], each actor with ranges of counters ([`CounterSet`]).
//! Its size grows with the number of actors that wrote, not with the writes. Clocks and data types
//! both use it; clients carry it as the opaque bytes of a context.
//!
//! Promises: equal sets have equal bytes; decoding never panics, whatever the bytes, and never
//! allocates for more entries than the bytes can hold.
//! Never: mints a dot; forgets one.
//! Read next: `seen.rs`, `context.rs`.

mod context;
mod identity;
mod seen;

pub use context::{ContextMac, DotContext};
pub use identity::{INCARNATION_MAX, Identity};
pub use seen::{COUNT_MAX, CounterSet};

#[cfg(test)]
mod tests;

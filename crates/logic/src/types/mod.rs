//! Data types that replicas merge by themselves.
//!
//! Each is a store of *dots* (Almeida, Shoker, Baquero, *Delta state replicated data types*, 2018):
//! every part is stored under the dot of the change that created it, beside the set of all dots
//! ever known. A merge keeps what the other side holds too or does not know. So nothing that was
//! removed comes back, and removed parts need no record.
//!
//! Counter: each actor's sum under its latest dot. Set: each element's dots; an add that a remove
//! had not seen survives it. Flag: dots of enabling; on wins. Register: the latest time wins, and
//! an assignment is always later than what it replaces. Map: fields with all of these; the removal
//! of a field takes away what was seen of it, and no more. Count of distinct values: HyperLogLog.
//!
//! A remove may come with a context that names more than the replica knows. It waits beside the
//! state, and removes each part when it arrives.
//!
//! Promises: merge is commutative, associative and idempotent; a change applies whole or not at
//! all; equal states have equal bytes; decoding never panics, whatever the bytes, and never
//! allocates for more than the bytes can hold.
//! Never: mints a dot; reads a clock.
//! Read next: `typed.rs`, `state.rs`, `apply.rs`, then `tests/model.rs`.

mod apply;
mod coding;
mod dotted;
mod hll;
mod state;
mod typed;

pub use apply::ApplyError;
pub use hll::{PRECISION_MAX, PRECISION_MIN, Registers};
pub use typed::{Change, Typed};

#[cfg(test)]
mod tests;

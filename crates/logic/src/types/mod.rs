//! Data types that replicas merge by themselves.
//!
//! Each is a store of *dots* (Almeida, Shoker, Baquero, *Delta state replicated data types*, 2018):
//! everything in it stands under the dot of the change that put it there, and beside it stands all
//! that was ever heard of. Merging keeps what the other side holds too or has never heard of, so
//! nothing that was removed comes back, and nothing has to be remembered of what was removed.
//!
//! Counter: each actor's sum under its latest dot. Set: each element's dots; an add that a remove
//! had not seen survives it. Flag: dots of enabling; on wins. Register: the latest time wins, and
//! an assignment is always later than what it replaces. Map: fields with all of these; removing a
//! field takes away what was seen of it, and no more. Count of distinct values: HyperLogLog.
//!
//! A remove may come with a context that names more than the replica has heard of. It waits beside
//! the state, and takes each thing away when it arrives.
//!
//! Promises: merge is commutative, associative and idempotent; a change applies whole or not at
//! all; equal states have equal bytes; whatever the bytes, decoding does not panic, and sets
//! nothing aside that is not there.
//! Never: mints a dot; asks the time.
//! Read next: `typed.rs`, `state.rs`, `apply.rs`, then `tests/model.rs`.

mod apply;
mod coding;
mod dotted;
mod hll;
mod state;
mod typed;

pub use apply::Refused;
pub use hll::{PRECISION_MAX, PRECISION_MIN, Registers};
pub use typed::{Change, Typed};

#[cfg(test)]
mod tests;

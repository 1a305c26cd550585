//! Quorums of available buckets: decides when a read or a write is done, and which nodes are asked.
//!
//! Two state machines, [`Fetch`] and [`Store`], each for one request. All N primaries are asked at
//! once; for one that is down, fails or is late, the next fallback is asked in its place (*sloppy
//! quorum*). The caller is answered as soon as the requested numbers are met, or can't be met any
//! more; then the machine goes on until every node has answered or the time is up, so that a write
//! reaches all N and a read repairs stale primaries.
//!
//! The value under a key is opaque here: anything that merges and compares ([`Versions`]). The text
//! of a shortfall (`r 1/2`) is defined in `base`, so that every front-end can translate it for its
//! clients.
//!
//! Promises: each node is asked at most once; the caller is answered exactly once, as early as the
//! numbers allow, and a failure is reported only when no outstanding answer could prevent it; a
//! write is never reported stored by fewer replicas than requested; a replica that already has
//! everything is not written.
//! Never: waits (the end of the time comes as an event); goes on for ever: it finishes when the
//! time is up.
//! Read next: `stories/one_of_three_is_down.txt`, then `needs.rs`, `replicas.rs`, `read.rs`.

mod needs;
mod read;
mod replicas;
mod write;

pub use needs::{FetchNeeds, FetchQuorums, QuorumError, StoreNeeds, StoreQuorums};
pub use read::{Fetch, FetchEffect, FetchEvent, FetchOutcome, Versions};
pub use replicas::Replicas;
pub use write::{Store, StoreEffect, StoreEvent, StoreOutcome};

#[cfg(test)]
mod tests;

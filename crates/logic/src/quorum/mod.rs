//! Enough owners answered: when a read or a write of an available bucket is done, and who is asked.
//!
//! Two machines, [`Fetch`] and [`Store`], each for one request. All N primaries are asked at once;
//! for one that is down, fails or is late, the next fallback is asked in its place (*sloppy
//! quorum*). The caller is answered as soon as the numbers it asked for are met, or can't be met
//! any more; then the machine goes on until everyone has answered or the time is up, so that a
//! write reaches all N and a read repairs those that were behind.
//!
//! What lies under a key is a stranger here: anything that merges and can be compared
//! ([`Versions`]). The words of a shortage (`r 1/2`) are `base`'s, so that every front-end can tell
//! it in its client's words.
//!
//! Promises: each node is asked at most once; the caller is answered exactly once, as early as the
//! numbers allow, and a failure is told only when no answer still awaited could prevent it; a write
//! is never called stored by fewer than asked for; a replica that already has all is not written.
//! Never: waits (that time is up comes in as an event); goes on without end: with the time up it
//! finishes.
//! Read next: `stories/one_of_three_is_down.txt`, then `needs.rs`, `replicas.rs`, `read.rs`.

mod needs;
mod read;
mod replicas;
mod write;

pub use needs::{Excess, FetchNeeds, FetchWish, StoreNeeds, StoreWish};
pub use read::{Fetch, FetchEffect, FetchEvent, Fetched, Versions};
pub use replicas::Replicas;
pub use write::{Store, StoreEffect, StoreEvent, Stored};

#[cfg(test)]
mod tests;

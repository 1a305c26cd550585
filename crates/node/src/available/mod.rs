//! The available path: any node that reaches enough replicas takes the write; what did not know of
//! each other stands beside each other.
//!
//! A life of a write: `route.rs` says that the bucket is available; `request.rs` makes the client's
//! words an operation (`change.rs`, where it is one of a data type), unless a node that keeps the
//! key is to coordinate it (`passing.rs`); `coordinate.rs` finds the key's owners on the ring, has
//! this node's vnode give the write its dot (`shelf.rs`), and brings
//! the result to all owners (`writing.rs`, driven by `logic::quorum`; over there `replica.rs`); for
//! one that is down a fallback keeps it, with a hint. A read asks all owners and merges what they
//! say.
//! A vnode is the part of a node in one of 1,024 slots; partitions are made of them (`slots.rs`).
//! `moving/` brings partitions to new owners when the ring changes.
//! `docs/inside/life-of-an-available-write.md` tells it.
//!
//! Promises: a vnode answers after what it wrote is as firm as the bucket wants; a reader sees only
//! what would outlive a crash; no dot is given twice; an acknowledged value goes only when a
//! context that had seen it replaced it, or where the bucket's properties ask for less.
//! Never: needs a majority of the directory; drops a sibling to make room (it refuses the write).
//! Read next: `layout.rs`, `shelf.rs`, then `coordinate.rs`.

pub(crate) mod batch;
mod change;
pub(crate) mod claim;
mod contexts;
mod coordinate;
mod crowd;
pub(crate) mod finding;
pub(crate) mod former;
mod hashes;
mod headers;
pub(crate) mod heirs;
pub(crate) mod hints;
pub(crate) mod layout;
mod letter;
pub(crate) mod list;
mod lives;
pub(crate) mod local;
pub(crate) mod moving;
pub(crate) mod offered;
mod passing;
pub(crate) mod quickest;
pub(crate) mod reap;
pub(crate) mod replay;
mod replica;
mod reply;
mod request;
pub(crate) mod shelf;
pub(crate) mod slots;
pub(crate) mod sync;
mod telling;
mod tickets;
mod waiting;
pub(crate) mod watching;
mod writing;

pub(crate) use letter::ABOUT_VNODES;
pub(crate) use replica::asked;
pub use telling::{AvailableStatus, HintsStatus};

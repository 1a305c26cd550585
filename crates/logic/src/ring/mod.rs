//! Consistent hashing of available buckets: a ring of 2^160 points, cut into partitions.
//!
//! A key hashes to a [`Point`]; the ring is cut into a power of two of equal [`Partition`]s; each
//! partition has one owner in the [`Layout`]. The *preference list* of a partition is found by
//! walking the ring from it and taking each node once: the first N keep the key's copies (its
//! *owners*), those after them stand in for them (*fallbacks*). Every node has a copy of the ring,
//! so finding a key's owners needs no request.
//!
//! The layout changes only by a [`Plan`], made and shown before anything moves, refused when it is
//! unsafe. While its data moves the [`Ring`] holds both layouts, and each partition switches to the
//! new one when its copies have arrived. `docs/inside/ring.md` describes it from the beginning.
//!
//! Promises: the numbers of partitions that any two nodes own differ by at most one; the N owners
//! of a key are N different nodes whenever N nodes exist, in as many racks as possible; a plan
//! moves as few partitions as an even ring allows; one ring has one form in bytes.
//! Never: sends, waits, or finds out which nodes are alive (the caller says which are down).
//! Read next: `layout.rs`, then `claim.rs` and `plan.rs`; `tests/examples.rs` has four nodes become
//! five.

mod change;
mod claim;
mod coding;
mod layout;
mod plan;
mod plan_text;
mod point;
mod table;

pub use change::{PlanError, RingChangeRequest};
pub use layout::{Layout, RACK_BYTES_MAX, Rack};
pub use plan::{Move, NodeLoad, Plan, plan};
pub use point::{
    PARTITIONS_DEFAULT, PARTITIONS_MAX, PARTITIONS_MIN, Point, check_partitions, point,
};
pub use table::{PendingCopy, PendingLayout, REPLICAS_MAX, Ring};

#[cfg(test)]
mod tests;

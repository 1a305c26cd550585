//! The available path: any node that reaches enough replicas takes the write; what did not know of
//! each other stands beside each other.
//!
//! A life of a write: `request.rs` makes the client's words an operation (`change.rs`, where it is
//! one of a data type), unless a node that keeps the key is to coordinate it (`passing.rs`), and
//! finds the key's owners on the ring (`key_owners.rs`); `coordinate.rs` has this node's vnode give
//! the write its dot (`local.rs`, on `shelf.rs`), and brings the result to all owners
//! (`writing.rs`, driven by `logic::quorum`; over there `replica.rs`); for one that is down a
//! fallback keeps it, with a hint. A read asks all owners and merges what they
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

pub mod batch;
mod change;
mod claim;
mod contexts;
mod coordinate;
mod crowd;
mod data_type;
pub mod finding;
pub mod former;
mod hashes;
mod headers;
mod held;
pub mod hints;
mod key_owners;
pub mod layout;
mod letter;
pub mod list;
mod lives;
pub mod local;
mod members;
pub mod moving;
pub mod multi_key;
pub mod offered;
mod passing;
pub mod quickest;
pub mod reap;
pub mod replay;
pub mod replica;
mod reply;
mod request;
mod ring_call;
pub mod shelf;
mod shelf_hashes;
pub mod slots;
mod span_rows;
pub mod sync;
mod telling;
mod tickets;
mod timing;
mod waiting;
pub mod watching;
mod writing;

pub use members::Members;
pub use replica::asked;
pub use telling::{AvailableStatus, HintsStatus};

use base::{ClusterId, NodeId, Result, RingCall};
use finding::Finding;
use moving::Moving;
use multi_key::Seats;
use offered::Offered;
use quickest::Quickest;
use runtime::{DiskSpace, Metrics};
use shelf::Shelf;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use store::Trees;
use transport::Peers;
use transport::incoming::CallAdmission;
use watching::Watching;

/// Settings of the available path.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Bytes a second at which a node receives partitions; 0: as fast as it can.
    pub handoff_bytes_per_second: u64,
    /// Time that a former owner keeps what it handed over, milliseconds.
    pub ring_grace_ms: u64,
    /// Pause between two rounds of anti-entropy, milliseconds; 0: none.
    pub anti_entropy_interval_ms: u64,
    /// Age at which a tombstone that all owners have may go, milliseconds.
    pub reap_after_ms: u64,
    /// Memory of the store, bytes.
    pub memory_bytes_max: u64,
}

/// The directory, as far as a vnode has something to tell it.
pub trait RingDirectory: Send + Sync {
    /// Carries out a call about the ring, at whichever node leads the directory.
    fn ring_call(&self, call: RingCall) -> Pin<Box<dyn Future<Output = Result<()>> + Send>>;
}

/// The available path of one node: its vnodes, and the coordination of what clients ask.
pub struct Available {
    /// This node.
    pub node: NodeId,
    /// Its cluster.
    pub cluster: ClusterId,
    /// Limits and times of the available path.
    pub settings: Settings,
    /// Buckets and their properties as this node knows them.
    pub schema: Arc<Offered>,
    /// Nodes of the cluster, with their names.
    pub members: Members,
    /// The other nodes; a node that takes none never has any.
    pub peers: Arc<OnceLock<Peers>>,
    /// Room for calls of other nodes.
    pub incoming: Arc<CallAdmission>,
    /// Set once, when the node is put together.
    pub directory: OnceLock<Box<dyn RingDirectory>>,
    /// Content of this node's vnodes.
    pub shelf: Arc<Shelf>,
    /// Opinion of the other nodes.
    pub watching: Watching,
    /// Search for the other nodes since the start.
    pub finding: Finding,
    /// Times that the others take to make a row durable.
    pub quickest: Quickest,
    /// Free space of the disk.
    pub space: Arc<DiskSpace>,
    /// Room for keys that are asked beside others.
    pub seats: Seats,
    /// Progress of what this node receives when the ring changes.
    pub moving: Moving,
    /// Store of the rows.
    pub trees: Arc<dyn Trees>,
    /// Counters of this node.
    pub metrics: Arc<Metrics>,
}

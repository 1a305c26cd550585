//! The available path: any node that reaches enough replicas takes a write; concurrent writes are
//! kept as siblings.
//!
//! Path of a write: `request.rs` turns the client's request into an operation (`change.rs`, for
//! data types), unless a node that keeps the key is to coordinate it (`redirect.rs`), and finds the
//! key's owners on the ring (`key_owners.rs`). `coordinate.rs` has this node's vnode give the write
//! its dot (`vnode_ops.rs`, on `vnode_store.rs`), and sends the result to all owners (`put.rs`,
//! driven by `logic::quorum`; `replica.rs` receives it). For an owner that is down a fallback keeps
//! it, with a hint. A read asks all owners and merges their answers.
//! A vnode is the part of a node in one of 1,024 slots; partitions are made of them (`slots.rs`).
//! `handoff/` brings partitions to new owners when the ring changes. See
//! `docs/inside/life-of-an-available-write.md`.
//!
//! Promises: a vnode answers after its write is as durable as the bucket requires; a reader sees
//! only what survives a crash; no dot is given twice; an acknowledged value goes only when a
//! context that had seen it replaced it, or if the bucket's properties ask for less.
//! Never: needs a majority of the directory; drops a sibling to make space (it refuses the write).
//! Read next: `layout.rs`, `vnode_store.rs`, then `coordinate.rs`.

pub mod anti_entropy;
pub mod batch;
mod change;
mod contexts;
mod coordinate;
mod data_type;
pub mod failure_detector;
pub mod handoff;
mod hash_tree_build;
mod hash_trees;
mod headers;
mod held;
pub mod hints;
mod incarnations;
mod join_set;
mod key_owners;
mod key_request;
pub mod layout;
pub mod list;
mod members;
mod message;
pub mod migrate_v1;
pub mod multi_key;
mod pending_hints;
mod put;
pub mod reap;
mod redirect;
pub mod replay;
pub mod replica;
mod reply;
mod request;
mod ring_bootstrap;
mod ring_call;
pub mod schema_cache;
pub mod slots;
pub mod snitch;
mod span_rows;
mod status;
mod tickets;
mod timing;
pub mod vnode_ops;
pub mod vnode_store;
pub mod warmup;

pub use members::Members;
pub use replica::asked;
pub use status::{AvailableStatus, HintsStatus};

use base::{ClusterId, NodeId, Result, RingCall};
use failure_detector::PeerHealth;
use handoff::HandoffTracker;
use multi_key::KeyPermits;
use runtime::{DiskSpace, Metrics, TaskScope};
use schema_cache::SchemaCache;
use snitch::Snitch;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use store::Trees;
use transport::Peers;
use transport::incoming::CallAdmission;
use vnode_store::VnodeStore;
use warmup::Warmup;

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
    /// Id of this node.
    pub node: NodeId,
    /// Its cluster.
    pub cluster: ClusterId,
    /// Limits and times of the available path.
    pub settings: Settings,
    /// Buckets and their properties as this node knows them.
    pub schema: Arc<SchemaCache>,
    /// Nodes of the cluster, with their names.
    pub members: Members,
    /// The other nodes; a node that takes none never has any.
    pub peers: Arc<OnceLock<Peers>>,
    /// Room for calls of other nodes.
    pub incoming: Arc<CallAdmission>,
    /// Set once, when the node is put together.
    pub directory: OnceLock<Box<dyn RingDirectory>>,
    /// Content of this node's vnodes.
    pub vnode_store: Arc<VnodeStore>,
    /// Opinion of the other nodes.
    pub failure_detector: PeerHealth,
    /// Search for the other nodes since the start.
    pub warmup: Warmup,
    /// Times that the others take to make a row durable.
    pub snitch: Snitch,
    /// Free space of the disk.
    pub space: Arc<DiskSpace>,
    /// Permits for keys that are asked concurrently.
    pub key_permits: KeyPermits,
    /// Progress of what this node receives when the ring changes.
    pub moving: HandoffTracker,
    /// Store of the rows.
    pub trees: Arc<dyn Trees>,
    /// Counters of this node.
    pub metrics: Arc<Metrics>,
    /// Parent of the loops and of the requests' tasks.
    pub tasks: TaskScope,
}

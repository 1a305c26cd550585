//! The available path: any node that reaches enough replicas accepts a write; concurrent writes are
//! kept as siblings.
//!
//! Path of a write: `request.rs` turns the client's request into an operation (`change.rs`, for
//! data types), unless another node, an owner of the key, must coordinate it (`redirect.rs`), and
//! finds the key's owners on the ring (`key_owners.rs`). `put.rs`, driven by `logic::quorum`, has
//! this node's vnode give the write its dot (`vnode_ops.rs`, on `vnode_store.rs`), and sends the
//! result to all owners (`replica.rs` receives it). For an owner that is down a fallback stores the
//! row, with a hint. A read (`get.rs`) asks all owners and merges their answers. Both are state
//! machines without a task of their own (`operation.rs`). A vnode
//! is the part of a node in one of 1,024 slots; partitions are made of them
//! (`vnode_rows/slots.rs`). `handoff/` brings partitions to new owners when the ring changes. See
//! `docs/inside/life-of-an-available-write.md`.
//!
//! Promises: a vnode answers after its write is as durable as the bucket requires; a reader sees
//! only what survives a crash; no dot is created twice; an acknowledged value disappears only when
//! a context that had seen it replaced it, or if the bucket's properties allow it.
//! Never: needs a majority of the directory; drops a sibling to make space (it refuses the write).
//! Read next: `vnode_rows/layout.rs`, `vnode_store.rs`, then `put.rs`.

pub mod anti_entropy;
mod change;
mod contexts;
mod coverage_plans;
mod coverage_query;
mod coverage_read;
mod data_type;
pub mod failure_detector;
mod feed_bridges;
pub mod feed_follower;
pub mod feed_keeper;
mod feed_query;
mod feed_read;
mod feed_state;
pub mod feed_upkeep;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod get;
pub mod handoff;
mod hash_tree_build;
pub mod hints;
mod incarnations;
mod index_coverage;
mod index_mends;
mod index_query;
mod index_read;
pub mod index_upkeep;
mod key_index_read;
mod key_owners;
mod key_request;
mod key_write;
pub mod list;
mod members;
mod message;
mod minters;
pub mod multi_key;
mod operation;
pub mod operation_timers;
mod outstanding_calls;
pub mod owners_table;
mod pending_hints;
mod put;
mod put_calls;
mod read_repair;
pub mod reap;
mod redirect;
pub mod replay;
pub mod replica;
mod replica_row;
mod reply;
mod request;
mod ring_bootstrap;
mod ring_call;
mod row_change;
pub mod schema_cache;
pub mod snitch;
mod status;
mod tickets;
mod timing;
mod vnode_call;
pub mod vnode_ops;
pub mod vnode_store;
pub mod warmup;

pub use feed_read::FeedRead;
pub use index_mends::IndexMends;
pub use index_read::IndexRead;
pub use key_index_read::KeyIndexRead;
pub use members::Members;
pub use replica::on_call;
pub use status::{AvailableStatus, HintsStatus};

use base::{ClusterId, NodeId, Result, RingCall};
use failure_detector::PeerHealth;
use feed_watch::FeedSignals;
use handoff::HandoffTracker;
use multi_key::KeyPermits;
use operation_timers::OperationTimers;
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
    /// Rate limit in bytes a second at which a node receives partitions. 0: unlimited.
    pub handoff_bytes_per_second: u64,
    /// Time for which a former owner keeps the rows that it handed off, in milliseconds.
    pub ring_grace_ms: u64,
    /// Pause between two rounds of anti-entropy, milliseconds; 0: none.
    pub anti_entropy_interval_ms: u64,
    /// Age at which a tombstone that all owners have may be dropped, in milliseconds.
    pub reap_after_ms: u64,
    /// Memory limit of the store, in bytes.
    pub memory_bytes_max: u64,
}

/// Interface to the directory for reports of vnodes about the ring.
pub trait RingDirectory: Send + Sync {
    /// Executes a call about the ring at the node that leads the directory.
    fn ring_call(&self, call: RingCall) -> Pin<Box<dyn Future<Output = Result<()>> + Send>>;
}

/// The available path of one node: its vnodes, and the coordination of client requests.
pub struct Available {
    /// Id of this node.
    pub node: NodeId,
    /// Its cluster.
    pub cluster: ClusterId,
    /// Limits and times of the available path.
    pub settings: Settings,
    /// Buckets with their properties, and the ring, as this node knows them.
    pub schema: Arc<SchemaCache>,
    /// Nodes of the cluster, with their names.
    pub members: Members,
    /// Connections to the other nodes. Empty on a node without a peer listener.
    pub peers: Arc<OnceLock<Peers>>,
    /// Admission of calls from other nodes.
    pub incoming: Arc<CallAdmission>,
    /// Access to the directory. Set once, when the node is assembled.
    pub directory: OnceLock<Box<dyn RingDirectory>>,
    /// Store of this node's vnodes.
    pub vnode_store: Arc<VnodeStore>,
    /// Health of the other nodes.
    pub failure_detector: PeerHealth,
    /// State of the warm-up after the start.
    pub warmup: Warmup,
    /// Response times of the other nodes for durable writes.
    pub snitch: Snitch,
    /// Free space of the disk.
    pub space: Arc<DiskSpace>,
    /// Permits for concurrent requests of single keys.
    pub key_permits: KeyPermits,
    /// Times of the gets and puts in progress.
    pub operation_timers: OperationTimers,
    /// Progress of the partitions that this node receives when the ring changes.
    pub handoff_tracker: HandoffTracker,
    /// Signals of the feeds of which requests of this node await an event.
    pub feed_signals: Arc<FeedSignals>,
    /// Store of the rows.
    pub trees: Arc<dyn Trees>,
    /// Counters of this node.
    pub metrics: Arc<Metrics>,
    /// Parent of the loops and of the requests' tasks.
    pub tasks: TaskScope,
}

#[cfg(test)]
mod tests;

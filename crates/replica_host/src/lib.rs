//! Replicas on one node: the groups and vnodes that it has a part in, from recovery to the stop,
//! with the data directory, the flushes and the maintenance that they share.
//!
//! Knows which replicas are here, how they come back from the disk, who drives them, when the store
//! is flushed, merged, compared and copied, and when feeds are built and trimmed. It knows no
//! request of a client and no way of one: it asks no other node but through the replicas' own
//! messages, and nobody here decides which groups the node should have.
//!
//! Promises: what was acknowledged is found again after a crash; no record of the log is dropped
//! that a replica here still needs; after a failure nothing is acknowledged any more.
//! Never: routes or forwards a request; changes members; imports `node`.
//! Read next: `groups.rs` and `lifecycle.rs`, then `recovery.rs`, `group_lifecycle.rs` and
//! `flush.rs`.

mod audit;
mod checkpoint;
mod data_dir;
pub mod disk_alarm;
mod disk_health;
pub mod dropped_bucket;
mod feed_keeper;
pub mod feed_page;
mod feed_samples;
pub mod flush;
pub mod group_lifecycle;
mod group_ref;
mod groups;
pub mod housekeeping;
mod lifecycle;
mod node_tasks;
mod peer_links;
pub mod recovery;
mod settings;
mod slowdown_watch;

pub use audit::ReplicaAudit;
pub use checkpoint::Checkpointer;
pub use data_dir::OpenDataDir;
pub use disk_health::DiskHealth;
pub use feed_keeper::{DirectoryFreshness, FeedKeeper, FreshnessFuture};
pub use feed_samples::feed_samples;
pub use flush::StoreFlusher;
pub use group_lifecycle::GroupHost;
pub use group_ref::{GroupRef, RemoteGroup};
pub use groups::{Groups, Inquirer, Local, follows};
pub use housekeeping::Housekeeper;
pub use lifecycle::Lifecycle;
pub use node_tasks::NodeTasks;
pub use peer_links::PeerLinks;
pub use settings::{HostSettings, SCRUB_BYTES_PER_SECOND};

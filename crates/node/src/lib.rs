//! One member of the cluster: the only room that waits, sends and asks the time.
//!
//! Promises: an update is answered only after it is decided; an answer carries the index it reflects.
//! Never: decides (that is `logic`), knows a client's language, reads settings files.
//! Read next: `submit.rs`, then `consistent/group.rs`.

mod settings;
mod status;
mod submit;

pub use settings::NodeSettings;
pub use status::{DiskStatus, GroupStatus, LogStatus, Sample, SampleKind, Status, StoreStatus};
pub use submit::{Flow, Submitted, Ticket};

use base::{Error, Reason, Reply, Request, Result};

/// A running node. Cheap to clone; the last word of its life is [`Node::stop`].
#[derive(Clone)]
pub struct Node {}

impl Node {
    /// Opens the data directory (makes it at first start), recovers, and serves.
    ///
    /// Errors name the remedy: `Damaged` (file and offset), `NotSupported` (foreign format version), `Overloaded` is
    /// never given, `TooMany` (the directory is locked by another process), `StoreFailed`.
    pub async fn start(_settings: NodeSettings) -> Result<Node> {
        Ok(Node {})
    }

    /// Takes a request without waiting: the door's hot path. `flow` belongs to one connection and makes its requests
    /// see each other's effects in order. What comes back is valid at once, once a ticket is decided, or later.
    pub fn submit(&self, _flow: &mut Flow, _request: Request) -> Submitted {
        Submitted::Ready(Err(Error::new(Reason::GoingDown, "not yet built")))
    }

    /// Waits until everything up to the ticket is decided (and applied). An error means: the outcome of updates
    /// up to the ticket that were not yet known decided is unknown.
    pub async fn decided(&self, _ticket: Ticket) -> Result<()> {
        Err(Error::new(Reason::GoingDown, "not yet built"))
    }

    /// One request from beginning to end: `submit`, then wait.
    pub async fn handle(&self, request: Request) -> Result<Reply> {
        match self.submit(&mut Flow::default(), request) {
            Submitted::Ready(reply) => reply,
            Submitted::Pending(ticket, reply) => self.decided(ticket).await.and(reply),
            Submitted::Later(reply) => reply.await,
        }
    }

    /// Everything a health check or a dashboard needs.
    pub fn status(&self) -> Status {
        Status::default()
    }

    /// All metrics as samples, for `/metrics` and `INFO`.
    pub fn samples(&self) -> Vec<Sample> {
        Vec::new()
    }

    /// Whether the node can take writes now (`/ready`): recovered, master known, not stopping, disk not failed.
    pub fn ready(&self) -> bool {
        false
    }

    /// Resolves when the node has stopped by itself: the reason (a failed sync, say). The process must exit then.
    pub async fn failed(&self) -> Error {
        std::future::pending().await
    }

    /// Stops taking requests, finishes those in flight, flushes the store, closes the log.
    pub async fn stop(&self) -> Result<()> {
        Ok(())
    }

    /// An online checkpoint of the whole data directory into `target` (which must not exist): hard links for tables,
    /// copies for the log's tail. `target` is a data directory that `serve --data` can open.
    pub async fn checkpoint(&self, _target: std::path::PathBuf) -> Result<()> {
        Err(Error::new(Reason::GoingDown, "not yet built"))
    }
}

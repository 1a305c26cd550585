//! Sibling workload: concurrent clients of an available bucket that record what they had seen, for
//! the checker of causality.
//!
//! Clients use Riak's HTTP. Each value is written once. A client keeps a context together with the
//! values of the same answer, so that every write names the values that it replaces. A client that
//! gets no answer in time, or is refused, continues at the next node, as one behind a load balancer
//! would.
//!
//! Promises: every call that was sent is in the history, with its outcome; an answer that leaves
//! the effect open counts as unknown.
//! Never: sends a context with another key; retries a call.
//! Read next: `client.rs`, then `manual.rs` and `bulk.rs`.

mod bulk;
mod client;
mod manual;

pub use bulk::Bulk;
pub use manual::{ManualClient, ReadValues};

use super::{CallOutcome, History, UNTIMED, Workload, WorkloadCall};
use client::SiblingClient;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

/// Action on a key of an available bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SiblingAction {
    /// Read.
    Read,
    /// Write of this value.
    Write(String),
    /// Delete of the seen values.
    Delete,
}

/// Operation on a key of an available bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiblingOp {
    /// The key.
    pub key: String,
    /// Action on the key.
    pub action: SiblingAction,
    /// Values that were returned with the context of this write or delete.
    pub seen: BTreeSet<String>,
}

/// Values that an answer showed together, without deleted ones. `None`: it showed nothing.
pub type SiblingAnswer = Option<BTreeSet<String>>;
/// Call of a client of an available bucket.
pub type SiblingCall = WorkloadCall<SiblingOp, SiblingAnswer>;
/// History of such calls.
pub type SiblingHistory = History<SiblingOp, SiblingAnswer>;
/// Sibling clients at work.
pub type SiblingWorkload = Workload<SiblingHistory>;

impl SiblingCall {
    /// Returns a call that no figure counts.
    pub fn untimed(op: SiblingOp, outcome: CallOutcome<SiblingAnswer>) -> SiblingCall {
        WorkloadCall { client: 0, node: 0, op, outcome, began: UNTIMED, ended: UNTIMED }
    }
}

/// Parameters of a sibling workload.
#[derive(Clone, Debug)]
pub struct SiblingPlan {
    /// Number of concurrent clients.
    pub clients: usize,
    /// Number of keys.
    pub keys: usize,
    /// Seed of the clients' choices and part of the keys' names; timing does not depend on it.
    pub seed: u64,
    /// Pause of a client between two calls.
    pub pause: Duration,
    /// Timeout of a call.
    pub timeout: Duration,
    /// Bucket, as `TYPE/BUCKET`.
    pub bucket_path: String,
    /// True if keys are also deleted.
    pub deletes: bool,
    /// Time after which a client that left its own node returns, as behind a load balancer with
    /// health checks. `None`: it stays where it is served.
    pub return_delay: Option<Duration>,
}

impl SiblingPlan {
    /// Returns the usual mix on a bucket with siblings: eight clients on forty keys.
    pub fn new(seed: u64) -> SiblingPlan {
        SiblingPlan {
            clients: 8,
            keys: 40,
            seed,
            pause: Duration::from_millis(4),
            timeout: Duration::from_secs(1),
            bucket_path: format!("available/trial{seed}"),
            deletes: true,
            return_delay: None,
        }
    }

    /// Returns the names of its keys.
    pub fn all_keys(&self) -> impl Iterator<Item = String> + '_ {
        (0..self.keys).map(|at| self.key(at))
    }

    fn key(&self, at: usize) -> String {
        format!("a{}-{at:03}", self.seed)
    }
}

impl SiblingWorkload {
    /// Starts the clients, distributed over the nodes in turn. Their keys must be absent.
    pub fn start(nodes: &[SocketAddr], plan: &SiblingPlan) -> SiblingWorkload {
        let plan = plan.clone();
        Workload::spawn(nodes, plan.clients, move |at, context| {
            let mut client = SiblingClient::new(context, plan.clone(), at);
            client.run();
            client.history
        })
    }
}

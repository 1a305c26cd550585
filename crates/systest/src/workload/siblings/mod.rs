//! Sibling workload: concurrent clients of an available bucket that record what they had seen, for
//! the checker of causality.
//!
//! They speak Riak's HTTP. Each value is written once. A context is always kept with the values it
//! was given out with, so that every write says whom it replaces. One that gets no answer in time,
//! or is refused, goes on at the next node, as a client behind a balancer would.
//!
//! Promises: every call that was sent is in the history, whatever became of it; an answer that
//! leaves open whether something happened counts as unknown.
//! Never: sends a context with another key; retries a call.
//! Read next: `client.rs`, then `manual.rs` and `bulk.rs`.

mod bulk;
mod client;
mod manual;

pub use bulk::Bulk;
pub use manual::{ManualClient, ShownValues};

use super::{Call, History, Outcome, UNTIMED, Workload};
use client::SiblingClient;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

/// Action on a key of an available bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SiblingAction {
    /// Reads it.
    Read,
    /// Writes this value.
    Write(String),
    /// Deletes what was seen.
    Delete,
}

/// Operation on a key of an available bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiblingOp {
    /// The key.
    pub key: String,
    /// What is asked of it.
    pub action: SiblingAction,
    /// Values with which the context of a write or a delete had been given out.
    pub seen: BTreeSet<String>,
}

/// Values that an answer showed together, none of them as deleted. `None`: it showed nothing.
pub type SiblingAnswer = Option<BTreeSet<String>>;
/// Call of a client of an available bucket.
pub type SiblingCall = Call<SiblingOp, SiblingAnswer>;
/// History of such calls.
pub type SiblingHistory = History<SiblingOp, SiblingAnswer>;
/// Sibling clients at work.
pub type SiblingWorkload = Workload<SiblingHistory>;

impl SiblingCall {
    /// Returns a call that no figure counts.
    pub fn untimed(op: SiblingOp, outcome: Outcome<SiblingAnswer>) -> SiblingCall {
        Call { client: 0, node: 0, op, outcome, began: UNTIMED, ended: UNTIMED }
    }
}

/// What clients do.
#[derive(Clone, Debug)]
pub struct SiblingPlan {
    /// How many at once.
    pub clients: usize,
    /// On how many keys.
    pub keys: usize,
    /// What they choose hangs on this, when they do it does not; keys are named after it.
    pub seed: u64,
    /// How long a client rests between two calls.
    pub pause: Duration,
    /// How long it waits for an answer.
    pub patience: Duration,
    /// `TYPE/BUCKET`.
    pub place: String,
    /// Whether keys are deleted, too.
    pub deletes: bool,
    /// A client that went on at the next node comes back to its own after so long, as behind a
    /// balancer that looks after its nodes; none: it stays where it is served.
    pub returns: Option<Duration>,
}

impl SiblingPlan {
    /// The usual mix on a bucket with siblings: eight clients on forty keys.
    pub fn of(seed: u64) -> SiblingPlan {
        SiblingPlan {
            clients: 8,
            keys: 40,
            seed,
            pause: Duration::from_millis(4),
            patience: Duration::from_secs(1),
            place: format!("available/trial{seed}"),
            deletes: true,
            returns: None,
        }
    }

    /// Names of its keys.
    pub fn all_keys(&self) -> impl Iterator<Item = String> + '_ {
        (0..self.keys).map(|at| self.key(at))
    }

    fn key(&self, at: usize) -> String {
        format!("a{}-{at:03}", self.seed)
    }
}

impl SiblingWorkload {
    /// Starts the clients, spread over the nodes, in turn. Their keys must be absent.
    pub fn start(nodes: &[SocketAddr], plan: &SiblingPlan) -> SiblingWorkload {
        let plan = plan.clone();
        Workload::spawn(nodes, plan.clients, move |at, context| {
            let mut client = SiblingClient::new(context, plan.clone(), at);
            client.work();
            client.history
        })
    }
}

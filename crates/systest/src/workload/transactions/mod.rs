//! Transaction workload: concurrent clients of every front-end.
//!
//! Each client has one front-end at a time, calls one node, and goes to the next front-end and node
//! when it is refused or its connection breaks. All share a few keys, so that what one front-end
//! writes the others read: registers, numbers, rows with a time to live, pairs that must not be
//! skewed, and a set of keys that is read by its prefix.
//!
//! Promises: every transaction that was sent is in the history, whatever became of it; but for
//! numbers, every value is written once.
//! Never: sends again what has no answer, but in a session, whose retries are one transaction.
//! Read next: `operation.rs`, `client.rs` (what they do), then `front_ends.rs` (how each front-end
//! says it).

mod client;
mod front_ends;
mod operation;

pub use operation::{
    Level, StepAnswer, Transaction, TransactionAnswer, TransactionHistory, TransactionOp,
    TransactionStep,
};

use super::Workload;
use client::TransactionClient;
use std::net::SocketAddr;
use std::time::Duration;

/// Arakoon's cluster whose bucket all front-ends use.
pub const CLUSTER: &str = "ricky";
/// That bucket.
pub const BUCKET: &str = "arakoon/ricky";
/// How long clients wait for an answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Transaction clients at work.
pub type TransactionWorkload = Workload<TransactionHistory>;

impl TransactionWorkload {
    /// Starts clients, spread over the nodes and front-ends. No key may begin with the prefix.
    pub fn start(
        nodes: &[SocketAddr],
        prefix: &str,
        clients: usize,
        seed: u64,
    ) -> TransactionWorkload {
        let prefix = prefix.to_string();
        Workload::spawn(nodes, clients, move |at, context| {
            let mut client = TransactionClient::new(context, &prefix, at, seed);
            client.work();
            client.history
        })
    }
}

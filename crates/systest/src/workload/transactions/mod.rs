//! Transaction workload: concurrent clients of every front-end.
//!
//! Each client uses one front-end and one node at a time, and goes to the next when it is refused
//! or its connection breaks. All clients share a few keys, so that each front-end reads what the
//! others write: registers, numbers, rows with a time to live, pairs that must not be skewed, and a
//! set of keys that is read by its prefix.
//!
//! Promises: every transaction that was sent is in the history, with its outcome; except for
//! numbers, every value is written once.
//! Never: repeats a call that has no answer, except in a session, whose retries are one
//! transaction.
//! Read next: `operation.rs`, `client.rs` (choice of transactions), then `front_ends.rs` (encoding
//! for each front-end) and `resp_transaction.rs` (`WATCH` and `MULTI`).

mod client;
mod front_ends;
mod operation;
mod resp_transaction;

pub use operation::{
    Level, StepAnswer, Transaction, TransactionAnswer, TransactionHistory, TransactionOp,
    TransactionStep,
};

use super::Workload;
use client::TransactionClient;
use std::net::SocketAddr;
use std::time::Duration;

/// Name of the Arakoon cluster whose bucket all front-ends use.
pub const CLUSTER: &str = "ricky";
/// Bucket of that cluster.
pub const BUCKET: &str = "arakoon/ricky";
/// Timeout of a call.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Transaction clients at work.
pub type TransactionWorkload = Workload<TransactionHistory>;

impl TransactionWorkload {
    /// Starts clients, distributed over the nodes and front-ends. No existing key may begin with
    /// the prefix.
    pub fn start(
        nodes: &[SocketAddr],
        prefix: &str,
        clients: usize,
        seed: u64,
    ) -> TransactionWorkload {
        let prefix = prefix.to_string();
        Workload::spawn(nodes, clients, move |at, context| {
            let mut client = TransactionClient::new(context, &prefix, at, seed);
            client.run();
            client.history
        })
    }
}

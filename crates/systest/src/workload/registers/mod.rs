//! Register workload: concurrent clients over RESP that read, write, delete and test-and-set keys
//! of a consistent bucket.
//!
//! Every value is written once, so that a read identifies the write that it saw. A client whose
//! call stays without an answer continues under a new number, since the earlier call may still take
//! effect.
//!
//! Promises: every call that was sent is in the history, with its outcome.
//! Never: retries a call; takes a refusal for an answer.
//! Read next: `operation.rs`, then `client.rs`.

mod client;
mod operation;

pub use operation::{RegisterAction, RegisterAnswer, RegisterCall, RegisterHistory, RegisterOp};

use super::Workload;
use crate::client::Resp;
use client::RegisterClient;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Parameters of a register workload.
#[derive(Clone, Copy, Debug)]
pub struct RegisterPlan {
    /// Number of concurrent clients.
    pub clients: usize,
    /// Number of single keys.
    pub keys: usize,
    /// Seed of the clients' choices; timing does not depend on it.
    pub seed: u64,
    /// Pause of a client between two calls.
    pub pause: Duration,
    /// Timeout of a call.
    pub timeout: Duration,
    /// Number of pairs of keys that are always written together and read together.
    pub pairs: usize,
    /// Node of a client that is not served.
    pub failover: Failover,
}

/// Choice of the node after a refused call or a broken connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failover {
    /// Stays at the node. A refused client keeps its connection.
    Stay,
    /// Goes to the next node.
    NextNode,
}

impl RegisterPlan {
    fn key(&self, at: usize) -> String {
        format!("h{:x}-{at:02}", self.seed)
    }

    fn pair(&self, at: usize) -> [String; 2] {
        ["left", "right"].map(|side| format!("h{:x}-pair{at:02}-{side}", self.seed))
    }
}

/// Register clients at work.
pub struct RegisterWorkload {
    clients: Workload<RegisterHistory>,
    plan: RegisterPlan,
}

impl RegisterWorkload {
    /// Starts the clients, spread over the nodes. Their keys must be absent.
    pub fn start(nodes: &[SocketAddr], plan: RegisterPlan) -> RegisterWorkload {
        let clients = Workload::spawn(nodes, plan.clients, move |at, context| {
            let mut client = RegisterClient::new(context, plan, at);
            client.run();
            client.history
        });
        RegisterWorkload { clients, plan }
    }

    /// Records that a node, counted from 0, listens at another address now.
    pub fn set_address(&self, at: usize, address: SocketAddr) {
        self.clients.set_address(at, address);
    }

    /// Returns the time on the clock of the history.
    pub fn now(&self) -> Duration {
        self.clients.now()
    }

    /// Stops the clients, reads every key once more at every node, and returns the history. Fails
    /// if a node can't be read.
    pub fn stop(self) -> io::Result<RegisterHistory> {
        let (context, plan) = (self.clients.context.clone(), self.plan);
        let mut history = self.clients.stop();
        let mut reader = RegisterClient::new(context.clone(), plan, plan.clients);
        for at in 0..context.nodes() {
            reader.switch_node(at);
            let mut connection = Resp::connect(context.node(at).1)?;
            for key in 0..plan.keys {
                reader.call(&mut connection, plan.key(key), RegisterAction::Get)?;
            }
            for pair in 0..plan.pairs {
                reader.call_pair(&mut connection, plan.pair(pair), RegisterAction::Get)?;
            }
        }
        let is_unacknowledged = |call: &&RegisterCall| !call.outcome.is_acknowledged();
        if let Some(call) = reader.history.calls.iter().find(is_unacknowledged) {
            return Err(io::Error::other(format!("the last read of all: {call}")));
        }
        history.join(reader.history);
        Ok(history)
    }
}

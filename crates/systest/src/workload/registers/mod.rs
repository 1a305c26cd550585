//! Register workload: concurrent clients over RESP that read, write, delete and test-and-set keys
//! of a consistent bucket.
//!
//! Every value is written once, so that a read tells whose write it saw. A client whose call stays
//! without an answer goes on under a new number, for it can never say again that its earlier call
//! is over.
//!
//! Promises: every call that was sent is in the history, whatever became of it.
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

/// What clients do.
#[derive(Clone, Copy, Debug)]
pub struct RegisterPlan {
    /// How many at once.
    pub clients: usize,
    /// On how many keys.
    pub keys: usize,
    /// What they choose hangs on this, when they do it does not.
    pub seed: u64,
    /// How long a client rests between two calls.
    pub pause: Duration,
    /// How long it waits for an answer.
    pub patience: Duration,
    /// On how many pairs of keys that are always written together, and read together.
    pub pairs: usize,
    /// Where it turns when a node does not serve it.
    pub turns: Turns,
}

/// Where a client turns whose call was refused, or whose connection broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turns {
    /// To the same node again.
    Back,
    /// To the next one.
    On,
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
            client.work();
            client.history
        });
        RegisterWorkload { clients, plan }
    }

    /// Notes that a node, counted from 0, listens at another address now.
    pub fn moved(&self, at: usize, address: SocketAddr) {
        self.clients.moved(at, address);
    }

    /// Returns the time on the clock of the history.
    pub fn now(&self) -> Duration {
        self.clients.now()
    }

    /// Stops the clients, reads every key once more at every node, and returns the history. Fails
    /// if a node can't be read.
    pub fn stop(self) -> io::Result<RegisterHistory> {
        let (context, plan) = (self.clients.context.clone(), self.plan);
        let mut all = self.clients.stop();
        let mut last = RegisterClient::new(context.clone(), plan, plan.clients);
        for at in 0..context.nodes() {
            last.arrive(at);
            let mut connection = Resp::connect(context.node(at).1)?;
            for key in 0..plan.keys {
                last.call(&mut connection, plan.key(key), RegisterAction::Get)?;
            }
            for pair in 0..plan.pairs {
                last.call_pair(&mut connection, plan.pair(pair), RegisterAction::Get)?;
            }
        }
        let failed = |call: &&RegisterCall| !call.outcome.is_acknowledged();
        if let Some(call) = last.history.calls.iter().find(failed) {
            return Err(io::Error::other(format!("the last read of all: {call}")));
        }
        all.join(last.history);
        Ok(all)
    }
}

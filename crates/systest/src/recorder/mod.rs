//! Concurrent clients over RESP that write down what they did: a history for the judges.
//!
//! All stamps come from one monotonic clock. Every value is written once, so that a read tells
//! whose write it saw. A client whose call stays without an answer goes on under a new number, for
//! it can never say again that its earlier call is over.
//!
//! Promises: every call that was sent is in the history, whatever became of it.
//! Never: retries a call; takes a refusal for an answer.
//! Read next: `client.rs`, then `history.rs`.

mod client;
mod history;

pub use history::History;

use crate::checkers::{CallOperation, CallOutcome, ClientCall};
use crate::client::Resp;
use client::RecorderClient;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What clients do.
#[derive(Clone, Copy, Debug)]
pub struct RecorderPlan {
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

impl RecorderPlan {
    fn key(&self, at: usize) -> String {
        format!("h{:x}-{at:02}", self.seed)
    }

    fn pair(&self, at: usize) -> [String; 2] {
        ["left", "right"].map(|side| format!("h{:x}-pair{at:02}-{side}", self.seed))
    }
}
/// What all clients share.
#[derive(Debug)]
struct RecorderShared {
    clock: Instant,
    /// Where the nodes are; one may move when it starts again.
    nodes: Mutex<Vec<SocketAddr>>,
    stop: AtomicBool,
    numbers: AtomicU32,
}

impl RecorderShared {
    fn now(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    /// The address of one node, counted round and round.
    fn node(&self, at: usize) -> (usize, SocketAddr) {
        let nodes = self.nodes.lock().expect("no panic holds it");
        (at % nodes.len(), nodes[at % nodes.len()])
    }

    fn number(&self) -> u32 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }
}

/// Clients at work.
pub struct Recorder {
    shared: Arc<RecorderShared>,
    plan: RecorderPlan,
    clients: Vec<JoinHandle<History>>,
}

impl Recorder {
    /// Starts the clients, spread over the nodes. Their keys must be absent.
    pub fn start(nodes: &[SocketAddr], plan: RecorderPlan) -> Recorder {
        let shared = Arc::new(RecorderShared {
            clock: Instant::now(),
            nodes: Mutex::new(nodes.to_vec()),
            stop: AtomicBool::new(false),
            numbers: AtomicU32::new(0),
        });
        let begin = |at: usize| {
            let mut client = RecorderClient::new(shared.clone(), plan, at);
            std::thread::spawn(move || {
                client.work();
                client.history
            })
        };
        let clients = (0..plan.clients).map(begin).collect();
        Recorder { shared, plan, clients }
    }

    /// A node, counted from 0, listens elsewhere now.
    pub fn moved(&self, at: usize, address: SocketAddr) {
        self.shared.nodes.lock().expect("no panic holds it")[at] = address;
    }

    /// The time on the clock of the history.
    pub fn now(&self) -> Duration {
        self.shared.clock.elapsed()
    }

    /// Stops the clients, reads every key once more at every node, and gives what was seen. An
    /// error means that a node can't be read.
    pub fn stop(self) -> io::Result<History> {
        self.shared.stop.store(true, Ordering::SeqCst);
        let mut all = History::default();
        for client in self.clients {
            all.join(client.join().expect("a client does not panic"));
        }
        let mut last = RecorderClient::new(self.shared.clone(), self.plan, self.plan.clients);
        let nodes = self.shared.nodes.lock().expect("no panic holds it").clone();
        for (at, address) in nodes.into_iter().enumerate() {
            last.arrive(at);
            let mut connection = Resp::connect(address)?;
            for key in 0..self.plan.keys {
                last.call(&mut connection, self.plan.key(key), CallOperation::Get)?;
            }
            for pair in 0..self.plan.pairs {
                last.call_pair(&mut connection, self.plan.pair(pair), CallOperation::Get)?;
            }
        }
        let refused = |call: &&ClientCall| {
            matches!(call.outcome, CallOutcome::Refused | CallOutcome::Unknown)
        };
        if let Some(call) = last.history.calls.iter().find(refused) {
            return Err(io::Error::other(format!("the last read of all: {call}")));
        }
        all.join(last.history);
        Ok(all)
    }
}

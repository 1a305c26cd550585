//! Concurrent clients of every front-end that write down transactions: a history for
//! `checkers::transactions`.
//!
//! Each client has one front-end at a time, calls one node, and goes to the next front-end and node
//! when it is refused or its connection breaks. All share a few keys, so that what one front-end
//! writes the others read: registers, numbers, rows with a time to live, pairs that must not be
//! skewed, and a set of keys that is read by its prefix.
//!
//! Promises: every transaction that was sent is in the history, whatever became of it; but for
//! numbers, every value is written once.
//! Never: sends again what has no answer, but in a session, whose retries are one transaction.
//! Read next: `client.rs` (what they do), then `front_ends.rs` (how each front-end says it).

mod client;
mod front_ends;

use crate::checkers::transactions::Transaction;
use client::TransactorClient;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Arakoon's cluster whose bucket all front-ends use.
pub const CLUSTER: &str = "ricky";
/// That bucket.
pub const BUCKET: &str = "arakoon/ricky";
/// How long clients wait for an answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// What clients share.
struct TransactorShared {
    clock: Instant,
    nodes: Vec<SocketAddr>,
    /// Before every key.
    prefix: String,
    stop: AtomicBool,
    connections: AtomicU32,
}

impl TransactorShared {
    fn now(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    fn connection(&self) -> u32 {
        self.connections.fetch_add(1, Ordering::Relaxed)
    }
}

/// What clients saw.
#[derive(Clone, Debug, Default)]
pub struct Lived {
    /// Their transactions.
    pub transactions: Vec<Transaction>,
    /// Answers that no such request may get.
    pub strange: Vec<String>,
}

/// Clients at work.
pub struct Transactor {
    shared: Arc<TransactorShared>,
    clients: Vec<JoinHandle<Lived>>,
}

impl Transactor {
    /// Starts so many clients, spread over the nodes and front-ends. No key may begin with the
    /// prefix.
    pub fn start(nodes: &[SocketAddr], prefix: &str, clients: usize, seed: u64) -> Transactor {
        let shared = Arc::new(TransactorShared {
            clock: Instant::now(),
            nodes: nodes.to_vec(),
            prefix: prefix.into(),
            stop: AtomicBool::new(false),
            connections: AtomicU32::new(0),
        });
        let begin = |at: usize| {
            let shared = shared.clone();
            std::thread::spawn(move || {
                let mut client = TransactorClient::new(shared, at, seed);
                client.work();
                client.lived
            })
        };
        let clients = (0..clients).map(begin).collect();
        Transactor { shared, clients }
    }

    /// Stops them, and gives what they saw.
    pub fn stop(self) -> Lived {
        self.shared.stop.store(true, Ordering::SeqCst);
        let mut all = Lived::default();
        for client in self.clients {
            let one = client.join().expect("a client does not panic");
            all.transactions.extend(one.transactions);
            all.strange.extend(one.strange);
        }
        all
    }
}

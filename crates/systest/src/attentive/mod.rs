//! Concurrent clients of an available bucket that write down what they had seen: a history for
//! the judge of causality.
//!
//! They speak Riak's HTTP. Each value is written once. A context is always kept with the values it
//! was given out with, so that every write says whom it replaces. One that gets no answer in time,
//! or is refused, goes on at the next node, as a client behind a balancer would.
//!
//! Promises: every call that was sent is in the history, whatever became of it; an answer that
//! leaves open whether something happened counts as unknown.
//! Never: sends a context with another key; retries a call.
//! Read next: `client.rs`, then `history.rs` and `hand.rs`.

mod bulk;
mod client;
mod hand;
mod history;

pub use bulk::Bulk;
pub use hand::{Hand, ShownValues};
pub use history::{Moment, Witnessed};

use client::AttentiveClient;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What clients do.
#[derive(Clone, Debug)]
pub struct AttentivePlan {
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

impl AttentivePlan {
    /// The usual mix on a bucket with siblings: eight clients on forty keys.
    pub fn of(seed: u64) -> AttentivePlan {
        AttentivePlan {
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

/// What all clients share.
#[derive(Debug)]
struct AttentiveShared {
    clock: Instant,
    nodes: Vec<SocketAddr>,
    stop: AtomicBool,
    numbers: AtomicU32,
}

/// Clients at work.
pub struct Attentive {
    shared: Arc<AttentiveShared>,
    clients: Vec<JoinHandle<Witnessed>>,
}

impl Attentive {
    /// Starts the clients, spread over the nodes, in turn. Their keys must be absent.
    pub fn start(nodes: &[SocketAddr], plan: &AttentivePlan) -> Attentive {
        let shared = Arc::new(AttentiveShared {
            clock: Instant::now(),
            nodes: nodes.to_vec(),
            stop: AtomicBool::new(false),
            numbers: AtomicU32::new(0),
        });
        let begin = |at: usize| {
            let mut client = AttentiveClient::new(shared.clone(), plan.clone(), at);
            std::thread::spawn(move || {
                client.work();
                client.history
            })
        };
        let clients = (0..plan.clients).map(begin).collect();
        Attentive { shared, clients }
    }

    /// The time on the clock of the history.
    pub fn now(&self) -> Duration {
        self.shared.clock.elapsed()
    }

    /// Stops the clients, and gives what they saw.
    pub fn stop(self) -> Witnessed {
        self.shared.stop.store(true, Ordering::SeqCst);
        let mut all = Witnessed::default();
        for client in self.clients {
            all.join(client.join().expect("a client does not panic"));
        }
        all
    }
}

//! Workloads: concurrent clients that record every call with its outcome, for the checkers.
//!
//! A [`Workload`] runs clients on threads of their own over one clock, until it is stopped, and
//! joins what they recorded. Four kinds of clients stand on it: registers of consistent buckets
//! (`registers/`), siblings of available ones (`siblings/`), transactions at every front-end
//! (`transactions/`) and loads (`load.rs`, `everyday.rs`). The first three record a [`History`] of
//! [`WorkloadCall`]s. A load makes too many calls to keep: it folds them into a [`Ledger`] by key.
//!
//! Promises: every call that was sent is recorded with its outcome; all times come from one
//! monotonic clock.
//! Never: takes a refusal for an answer; repeats a call that has no answer, except in a session,
//! whose retries are one transaction.
//! Read next: `history.rs`, then `registers/client.rs`.

mod client_control;
pub mod everyday;
mod history;
pub mod ledger;
mod load;
pub mod registers;
pub mod siblings;
pub mod transactions;

pub use crate::client::CallOutcome;
pub use everyday::Everyday;
pub use history::{History, UNTIMED, WorkloadCall};
pub use ledger::{ClientProtocol, Ledger, WriterPlan};
pub use load::Load;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Value of a key. `None`: the key is absent.
pub type KeyValue = Option<Vec<u8>>;

/// Context that the clients of a workload share.
#[derive(Debug)]
pub struct WorkloadContext {
    clock: Instant,
    /// Addresses of the nodes; one may move when its node starts again.
    nodes: Mutex<Vec<SocketAddr>>,
    stop: AtomicBool,
    /// True if acknowledgements are not believed any more.
    doubts_acknowledgements: AtomicBool,
    next_client_number: AtomicU32,
}

impl WorkloadContext {
    /// Returns the context of clients of these nodes; its clock starts now.
    pub fn new(nodes: &[SocketAddr]) -> Arc<WorkloadContext> {
        Arc::new(WorkloadContext {
            clock: Instant::now(),
            nodes: Mutex::new(nodes.to_vec()),
            stop: AtomicBool::new(false),
            doubts_acknowledgements: AtomicBool::new(false),
            next_client_number: AtomicU32::new(0),
        })
    }

    /// Returns the time on the workload's clock.
    pub fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Returns the same in nanoseconds, as calls are stamped.
    pub fn now(&self) -> u64 {
        self.elapsed().as_nanos() as u64
    }

    /// Returns number and address of a node; `at` wraps around the list of nodes.
    pub fn node(&self, at: usize) -> (usize, SocketAddr) {
        let nodes = self.nodes.lock().expect("no panic holds it");
        (at % nodes.len(), nodes[at % nodes.len()])
    }

    /// Returns the number of nodes.
    pub fn nodes(&self) -> usize {
        self.nodes.lock().expect("no panic holds it").len()
    }

    /// Returns a number that no other client has.
    pub fn next_client_number(&self) -> u32 {
        self.next_client_number.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns true if clients are to stop.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Returns an outcome as it is recorded: an acknowledgement in doubt is unknown.
    pub fn recorded_outcome(&self, outcome: CallOutcome) -> CallOutcome {
        match outcome {
            CallOutcome::Acknowledged(())
                if self.doubts_acknowledgements.load(Ordering::SeqCst) =>
            {
                CallOutcome::Unknown
            }
            outcome => outcome,
        }
    }
}

/// Record that a client keeps, and that is joined with those of the others.
pub trait ClientRecord: Default + Send + 'static {
    /// Adds the record of another client.
    fn join(&mut self, other: Self);
}

impl<O: Send + 'static, A: Send + 'static> ClientRecord for History<O, A> {
    fn join(&mut self, other: Self) {
        History::join(self, other);
    }
}

/// Clients at work, each with a record of its own.
pub struct Workload<R> {
    pub(super) context: Arc<WorkloadContext>,
    clients: Vec<JoinHandle<R>>,
}

impl<R: ClientRecord> Workload<R> {
    /// Starts clients, spread over the nodes; `run` is one of them, by its number from 0.
    pub(super) fn spawn(
        nodes: &[SocketAddr],
        clients: usize,
        run: impl Fn(usize, Arc<WorkloadContext>) -> R + Clone + Send + 'static,
    ) -> Workload<R> {
        let context = WorkloadContext::new(nodes);
        let start_client = |at: usize| {
            let (run, context) = (run.clone(), context.clone());
            std::thread::spawn(move || run(at, context))
        };
        let clients = (0..clients).map(start_client).collect();
        Workload { context, clients }
    }

    /// Returns the time on the clock of the record.
    pub fn now(&self) -> Duration {
        self.context.elapsed()
    }

    /// Records that a node, counted from 0, listens at another address now.
    pub fn set_address(&self, at: usize, address: SocketAddr) {
        self.context.nodes.lock().expect("no panic holds it")[at] = address;
    }

    /// Announces a power cut: updates that are acknowledged from now on may be lost.
    ///
    /// A machine without power answers nobody, but in the test only the file system goes down. A
    /// sync in progress can still return 0 (jbd2 counts an aborted commit as a finished one), and
    /// the process can still answer.
    pub fn distrust_acknowledgements(&self) {
        self.context.doubts_acknowledgements.store(true, Ordering::SeqCst);
    }

    /// Stops the clients, and returns what they recorded.
    pub fn stop(self) -> R {
        self.context.stop.store(true, Ordering::SeqCst);
        let mut joined = R::default();
        for client in self.clients {
            joined.join(client.join().expect("a client does not panic"));
        }
        joined
    }
}

//! State that all connections share: the node, the settings, the counters, the budget for large
//! buffers.

use crate::clock::Clock;
use crate::counters::Counters;
use crate::guard::Guard;
use crate::idle::IdleConnections;
use crate::places::Places;
use crate::settings::ServerSettings;
use base::{Error, Reason};
use bytes::Bytes;
use node::{Complaint, Node};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The unit in which large buffers are counted.
const BUDGET_UNIT_BYTES: usize = 1024;

/// What all connections share.
pub struct Shared {
    /// The node that answers.
    pub node: Node,
    /// The settings the server was opened with.
    pub settings: ServerSettings,
    /// Requests, latencies, connections.
    pub counters: Counters,
    /// The hour, for clients that speak of it.
    pub(crate) clock: Clock,
    /// Who may come in and ask what.
    pub(crate) guard: Guard,
    /// Places of connections, of all listeners.
    pub(crate) places: Arc<Places>,
    /// Connections that may be ended for others.
    pub(crate) idle: Arc<IdleConnections>,
    /// Warning about connections turned away, and its last words.
    complaint: Complaint,
    complained: Mutex<String>,
    /// Purpose and address of each listener; set when they begin.
    listeners: OnceLock<Vec<(&'static str, SocketAddr)>>,
    /// The description of the native front-end.
    pub(crate) document: OnceLock<Bytes>,
    budget: Arc<Semaphore>,
    closing: AtomicBool,
}

impl Shared {
    /// For a running node.
    pub fn new(node: Node, settings: ServerSettings) -> Shared {
        let units = (settings.buffer_bytes_max / BUDGET_UNIT_BYTES).min(Semaphore::MAX_PERMITS);
        Shared {
            node,
            clock: Clock::Wall,
            guard: Guard::new(&settings.allowed_hosts),
            counters: Counters::default(),
            places: Arc::default(),
            idle: Arc::default(),
            complaint: Complaint::default(),
            complained: Mutex::default(),
            listeners: OnceLock::new(),
            document: OnceLock::new(),
            budget: Arc::new(Semaphore::new(units)),
            settings,
            closing: AtomicBool::new(false),
        }
    }

    /// The server begins to close: health checks are told so.
    pub(crate) fn begin_to_close(&self) {
        self.closing.store(true, Ordering::Release);
    }

    /// Whether the server is closing.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Warns of what strangers can provoke, at most once in a while.
    pub(crate) fn complain(&self, words: impl FnOnce() -> String) {
        if let Some(left_out) = self.complaint.due() {
            let words = words();
            tracing::warn!(target: "server", left_out, "{words}");
            *self.complained.lock().expect("no one panics while holding it") = words;
        }
    }

    /// The last such warning, while it is fresh.
    pub(crate) fn complained(&self) -> Option<String> {
        let words = || self.complained.lock().expect("no one panics while holding it").clone();
        self.complaint.is_recent().then(words).filter(|words| !words.is_empty())
    }

    /// The listeners are these.
    pub(crate) fn listen_at(&self, listeners: Vec<(&'static str, SocketAddr)>) {
        let _ = self.listeners.set(listeners); // They begin once.
    }

    /// Purpose and address of each listener.
    pub(crate) fn listeners(&self) -> &[(&'static str, SocketAddr)] {
        self.listeners.get().map_or(&[], Vec::as_slice)
    }

    /// A share of the memory for large buffers, if that much is free now; given back when dropped.
    pub fn reserve(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let units = u32::try_from(bytes.div_ceil(BUDGET_UNIT_BYTES)).ok()?;
        self.budget.clone().try_acquire_many_owned(units).ok()
    }
}

/// What is answered to requests that come while the server closes.
pub(crate) fn closing() -> Error {
    Error::new(Reason::ShuttingDown, "the node is stopping: nothing was done; ask another node")
}

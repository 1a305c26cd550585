//! State that the clients of one bucket share: the nodes, the record of the writes, and the signals
//! of the experiment.

use super::record::DocumentRecord;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

/// Name of the index of every such bucket.
pub const INDEX: &str = "by-n";
/// Pause of a client before it goes to another node.
pub(super) const FAILOVER_PAUSE: Duration = Duration::from_millis(20);
/// Most findings that are kept: the first ones say what went wrong.
const FINDINGS_MAX: usize = 20;

/// Consistency of a bucket with documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentBucket {
    /// Consistent, with every change and its value in its feed.
    Consistent,
    /// Available, with the last change of each key in its feed.
    Available,
}

impl DocumentBucket {
    /// Returns its name, as commands take it.
    pub fn name(self) -> &'static str {
        match self {
            DocumentBucket::Consistent => "docs",
            DocumentBucket::Available => "available/docs",
        }
    }

    /// Returns its path over HTTP.
    pub fn path(self) -> &'static str {
        match self {
            DocumentBucket::Consistent => "/v1/buckets/default/docs",
            DocumentBucket::Available => "/v1/buckets/available/docs",
        }
    }

    /// Returns the time after which an acknowledged write is at every owner that is up: only then
    /// is it certain that a quorum of an available bucket knows it although another owner, that
    /// had it first, has stopped since.
    pub(super) fn settle(self) -> Duration {
        match self {
            DocumentBucket::Consistent => Duration::ZERO,
            DocumentBucket::Available => Duration::from_secs(2),
        }
    }
}

/// State that the clients of a bucket share.
pub(super) struct SharedState {
    pub bucket: DocumentBucket,
    pub record: DocumentRecord,
    nodes: Mutex<Vec<SocketAddr>>,
    stop: AtomicBool,
    /// Held for reading by each write, and for writing while nobody may write.
    gate: RwLock<()>,
    is_quiet: AtomicBool,
    findings: Mutex<Vec<String>>,
}

/// Time in which no client writes; they go on when it is dropped.
pub struct QuietTime<'a> {
    shared: &'a SharedState,
    _gate: RwLockWriteGuard<'a, ()>,
}

impl Drop for QuietTime<'_> {
    fn drop(&mut self) {
        self.shared.is_quiet.store(false, Ordering::SeqCst);
    }
}

impl SharedState {
    pub fn new(bucket: DocumentBucket, nodes: &[SocketAddr]) -> SharedState {
        SharedState {
            bucket,
            record: DocumentRecord::default(),
            nodes: Mutex::new(nodes.to_vec()),
            stop: AtomicBool::new(false),
            gate: RwLock::new(()),
            is_quiet: AtomicBool::new(false),
            findings: Mutex::new(Vec::new()),
        }
    }

    /// Returns the address of a node; `at` wraps around the list of nodes.
    pub fn node(&self, at: usize) -> SocketAddr {
        let nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        nodes[at % nodes.len()]
    }

    /// Returns true if a client must not go on at a node: it leaves the cluster, or all stop.
    pub fn must_leave(&self, address: SocketAddr) -> bool {
        let nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_stopped() || !nodes.contains(&address)
    }

    pub fn set_nodes(&self, nodes: &[SocketAddr]) {
        *self.nodes.lock().unwrap_or_else(PoisonError::into_inner) = nodes.to_vec();
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    /// Waits until writes are permitted; none of it is paused before the permit is dropped.
    pub fn write_permit(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until every write in progress has its outcome, and lets none begin.
    pub fn quiet_time(&self) -> QuietTime<'_> {
        let gate = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        self.is_quiet.store(true, Ordering::SeqCst);
        QuietTime { shared: self, _gate: gate }
    }

    /// Sleeps; ends early when the clients stop, or when all of them must be there.
    pub fn sleep(&self, time: Duration) {
        let end = Instant::now() + time;
        let is_called = || self.is_stopped() || self.is_quiet.load(Ordering::SeqCst);
        while Instant::now() < end && !is_called() {
            std::thread::sleep(FAILOVER_PAUSE.min(end.saturating_duration_since(Instant::now())));
        }
    }

    /// Records something that no client may see.
    pub fn note(&self, finding: String) {
        let mut findings = self.findings.lock().unwrap_or_else(PoisonError::into_inner);
        if findings.len() < FINDINGS_MAX {
            findings.push(finding);
        }
    }

    /// Returns what no client may see.
    pub fn findings(&self) -> Vec<String> {
        self.findings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

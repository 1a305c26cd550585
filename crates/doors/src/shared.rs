//! What all connections share: the node, the settings, the counters, the budget for large buffers.

use crate::arakoon;
use crate::clock::Clock;
use crate::counters::Counters;
use crate::guard::Guard;
use crate::resp::Registry;
use crate::riak;
use crate::settings::DoorSettings;
use base::{Error, Reason};
use bytes::Bytes;
use node::Node;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// The unit in which large buffers are counted.
const BUDGET_UNIT_BYTES: usize = 1024;

/// What all connections share.
pub struct Shared {
    /// The node that answers.
    pub node: Node,
    /// The settings the doors were opened with.
    pub settings: DoorSettings,
    /// Requests, latencies, connections.
    pub counters: Counters,
    /// What the connections of Redis' clients share.
    pub(crate) resp: Registry,
    /// What the connections of Arakoon's clients share.
    pub(crate) arakoon: arakoon::Registry,
    /// What Riak's clients were told.
    pub(crate) riak: riak::Tally,
    /// The hour, for clients that speak of it.
    pub(crate) clock: Clock,
    /// Who may come in and ask what.
    pub(crate) guard: Guard,
    /// Connections that hold a place, of both listeners.
    pub(crate) connections: AtomicUsize,
    /// What is said of connections turned away.
    pub(crate) complaint: Complaint,
    /// The description of the native door.
    pub(crate) document: OnceLock<Bytes>,
    budget: Arc<Semaphore>,
    closing: AtomicBool,
}

impl Shared {
    /// For a running node.
    pub fn new(node: Node, settings: DoorSettings) -> Shared {
        let units = (settings.buffer_bytes_max / BUDGET_UNIT_BYTES).min(Semaphore::MAX_PERMITS);
        Shared {
            node,
            resp: Registry::new(Clock::Wall),
            arakoon: arakoon::Registry::default(),
            riak: riak::Tally::default(),
            clock: Clock::Wall,
            guard: Guard::new(&settings.hosts),
            counters: Counters::default(),
            connections: AtomicUsize::new(0),
            complaint: Complaint::default(),
            document: OnceLock::new(),
            budget: Arc::new(Semaphore::new(units)),
            settings,
            closing: AtomicBool::new(false),
        }
    }

    /// The doors begin to close: health checks are told so.
    pub(crate) fn begin_to_close(&self) {
        self.closing.store(true, Ordering::Release);
    }

    /// Whether the doors are closing.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// A share of the memory for large buffers, if that much is free now; given back when dropped.
    pub fn reserve(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let units = u32::try_from(bytes.div_ceil(BUDGET_UNIT_BYTES)).ok()?;
        self.budget.clone().try_acquire_many_owned(units).ok()
    }
}

/// What is answered to requests that come while the doors close.
pub(crate) fn closing() -> Error {
    Error::new(Reason::GoingDown, "the node is stopping: nothing was done; ask another node")
}

/// A warning that strangers can provoke: logged at most once in a while, with the number of those
/// left out.
#[derive(Default)]
pub(crate) struct Complaint {
    last: Mutex<Option<(Instant, u64)>>,
}

/// The same complaint is logged at most this often.
const COMPLAINT_EVERY: Duration = Duration::from_secs(5);

impl Complaint {
    /// Says it, or only counts it.
    pub fn say(&self, words: impl FnOnce() -> String) {
        let now = Instant::now();
        let left_out = {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            match last.as_mut() {
                Some((said, left_out)) if now.duration_since(*said) < COMPLAINT_EVERY => {
                    *left_out += 1;
                    return;
                }
                _ => last.replace((now, 0)).map_or(0, |(_, left_out)| left_out),
            }
        };
        tracing::warn!(target: "doors", left_out, "{}", words());
    }
}

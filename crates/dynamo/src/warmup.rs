//! Warm-up of a node after its start, until it has connections to the owners.
//!
//! Its front-ends open before its links do. Until it reaches a majority of each partition's owners
//! it is not ready, and requests that it coordinates wait, within their own timeout, instead of
//! failing. The warm-up ends after [`WARMUP_MS_MAX`] at the latest: a node whose peers are down
//! serves the requests that it can.
//!
//! Never: begins a second time. `failure_detector.rs` and each request handle nodes lost later.

use crate::Available;
use base::{AvailableCall, Call, Error, Partition, Reason, Request, Result};
use runtime::world;
use runtime::world::sleep;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Maximum duration of the warm-up, in milliseconds.
const WARMUP_MS_MAX: u64 = 3_000;
/// Pause between a waiting request's checks of the warm-up.
const CHECK_PAUSE: Duration = Duration::from_millis(5);

/// See the head of this file.
pub struct Warmup {
    began_ms: u64,
    finished: AtomicBool,
}

impl Warmup {
    /// Begins now.
    pub fn begin() -> Warmup {
        Warmup { began_ms: world::milliseconds(), finished: AtomicBool::new(false) }
    }
}

impl Available {
    /// Succeeds once this node reaches a majority of each partition's owners, or the warm-up has
    /// timed out. Errors: `NoQuorum`.
    pub fn check_warmup(&self) -> Result<()> {
        let Warmup { began_ms, finished } = &self.warmup;
        if finished.load(Ordering::Acquire) {
            return Ok(());
        }
        if self.reaches_majorities() || world::milliseconds() >= began_ms + WARMUP_MS_MAX {
            finished.store(true, Ordering::Release);
            return Ok(());
        }
        let text = format!(
            "this node has just started and connects to the other owners of available buckets: it \
             serves them in a moment, at the latest after {} seconds",
            WARMUP_MS_MAX / 1_000
        );
        Err(Error::new(Reason::NoQuorum, text))
    }

    /// Returns true if more than half of each partition's owners can be reached.
    fn reaches_majorities(&self) -> bool {
        let Some(ring) = self.schema.ring() else { return false };
        (0..ring.partitions()).map(Partition).all(|partition| {
            let owners = ring.owners(partition, ring.n());
            let reached = owners.iter().filter(|node| self.reaches(**node)).count();
            reached * 2 > owners.len()
        })
    }

    /// Waits until the warm-up ends, at most for this time in milliseconds.
    pub(super) async fn wait_until_warm(&self, wait_ms: u64) {
        let began = world::milliseconds();
        while self.check_warmup().is_err() && world::milliseconds() < began + wait_ms {
            sleep(CHECK_PAUSE).await;
        }
    }

    /// Waits until the warm-up ends, at most for the request's timeout, and leaves the remaining
    /// timeout in the request.
    pub(super) async fn wait_for_warmup(&self, request: &mut Request) {
        if self.check_warmup().is_ok() {
            return;
        }
        let began = world::milliseconds();
        let wait_ms = timeout_field(&mut request.call).and_then(|it| *it).unwrap_or(WARMUP_MS_MAX);
        self.wait_until_warm(wait_ms).await;
        let waited_ms = world::milliseconds() - began;
        if let Some(Some(timeout_ms)) = timeout_field(&mut request.call) {
            *timeout_ms = timeout_ms.saturating_sub(waited_ms).max(1);
        }
    }
}

/// Returns the timeout field of a call. `None`: the call has none.
pub(super) fn timeout_field(call: &mut Call) -> Option<&mut Option<u64>> {
    let Call::Available(call) = call else { return None };
    match call {
        AvailableCall::Fetch { options, .. } | AvailableCall::FetchType { options, .. } => {
            Some(&mut options.timeout_ms)
        }
        AvailableCall::Remove { options, .. } => Some(&mut options.timeout_ms),
        AvailableCall::Store(store) => Some(&mut store.options.timeout_ms),
        AvailableCall::Change(change) => Some(&mut change.options.timeout_ms),
        AvailableCall::Keys { .. }
        | AvailableCall::Buckets { .. }
        | AvailableCall::Owners { .. } => None,
    }
}

//! Warm-up of a node that has started and looks for the others.
//!
//! Its front-ends open before its links do. Until it reaches a majority of each partition's owners
//! it is not ready, and requests that it coordinates wait, within their own timeout, rather than
//! fail for want of answers. That ends after [`FIRST_MS`] at the latest: a node whose peers are
//! down serves what it can.
//!
//! Never: begins again. Nodes lost later concern `failure_detector.rs` and each request.

use crate::Available;
use base::{AvailableCall, Call, Error, Partition, Reason, Request, Result};
use runtime::world;
use runtime::world::sleep;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Maximum time for which a starting node looks for the others, in milliseconds.
const FIRST_MS: u64 = 3_000;
/// Pause between checks of a waiting request whether they were found.
const LOOK: Duration = Duration::from_millis(5);

/// See the head of this file.
pub struct Warmup {
    began_ms: u64,
    over: AtomicBool,
}

impl Warmup {
    /// Begins now.
    pub fn begin() -> Warmup {
        Warmup { began_ms: world::milliseconds(), over: AtomicBool::new(false) }
    }
}

impl Available {
    /// Succeeds once this node has found the others that it needs, or has looked for them long
    /// enough. The error names those that are missing.
    pub fn finds_others(&self) -> Result<()> {
        let Warmup { began_ms, over } = &self.warmup;
        if over.load(Ordering::Acquire) {
            return Ok(());
        }
        if self.reaches_majorities() || world::milliseconds() >= began_ms + FIRST_MS {
            over.store(true, Ordering::Release);
            return Ok(());
        }
        let text = format!(
            "this node has just started and looks for the others that keep available buckets: in \
             a moment, at the latest after {} seconds, it goes on with those it reaches",
            FIRST_MS / 1_000
        );
        Err(Error::new(Reason::NoQuorum, text))
    }

    /// Returns true if of each partition's owners more than half can be reached.
    fn reaches_majorities(&self) -> bool {
        let Some(ring) = self.schema.ring() else { return false };
        (0..ring.partitions()).map(Partition).all(|partition| {
            let owners = ring.owners(partition, ring.n());
            let reached = owners.iter().filter(|node| self.reaches(**node)).count();
            reached * 2 > owners.len()
        })
    }

    /// A request waits until the others are found, at most as long as it may take; it is left with
    /// the rest of its time.
    pub(super) async fn after_finding_others(&self, mut request: Request) -> Request {
        if self.finds_others().is_ok() {
            return request;
        }
        let began = world::milliseconds();
        let within = time_of(&mut request.call).and_then(|it| *it).unwrap_or(FIRST_MS);
        while self.finds_others().is_err() && world::milliseconds() < began + within {
            sleep(LOOK).await;
        }
        let took = world::milliseconds() - began;
        if let Some(Some(left)) = time_of(&mut request.call) {
            *left = left.saturating_sub(took).max(1);
        }
        request
    }
}

/// Returns the timeout field of a call. `None`: the call has none.
pub(super) fn time_of(call: &mut Call) -> Option<&mut Option<u64>> {
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

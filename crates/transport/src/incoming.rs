//! Calls from other nodes: admission, and their answers.
//!
//! Promises: the number and the bytes of calls in progress are bounded; an answer for which the
//! lane has no space keeps its permit until it is sent, so that no more calls are admitted than
//! answers leave.

use super::{IncomingCall, Peers, SendOutcome};
use base::GroupId;
use base::codec::Malformed;
use base::limits::{FORWARD_MS_MAX, FORWARDED_BYTES_MAX, FORWARDED_MAX};
use bytes::Bytes;
use runtime::TaskScope;
use runtime::world::{sleep, timeout};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Unit in which bytes of calls are counted.
const UNIT_BYTES: usize = 1024;
/// Pause between two attempts to send an answer through a full lane.
const PAUSE: Duration = Duration::from_millis(5);

/// Bound on calls in progress, by number and by bytes.
pub struct CallAdmission {
    calls: Arc<Semaphore>,
    units: Arc<Semaphore>,
    tasks: TaskScope,
}

/// Permit of a call in progress; dropping it returns the call's share of the bound.
pub struct CallPermit {
    tasks: TaskScope,
    _call: OwnedSemaphorePermit,
    _units: OwnedSemaphorePermit,
}

impl CallAdmission {
    /// Admits up to the limits; the scope is the parent of the calls' tasks.
    pub fn new(tasks: TaskScope) -> CallAdmission {
        CallAdmission {
            calls: Arc::new(Semaphore::new(FORWARDED_MAX)),
            units: Arc::new(Semaphore::new(FORWARDED_BYTES_MAX / UNIT_BYTES)),
            tasks,
        }
    }

    /// Admits a call of this size. `None`: too many calls or bytes are in progress.
    pub fn admit(&self, bytes: usize) -> Option<CallPermit> {
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES)).ok()?;
        Some(CallPermit {
            tasks: self.tasks.clone(),
            _call: self.calls.clone().try_acquire_owned().ok()?,
            _units: self.units.clone().try_acquire_many_owned(units).ok()?,
        })
    }

    /// Resolves when no call is in progress; none is admitted from then on.
    pub async fn close(&self) {
        let all = u32::try_from(FORWARDED_MAX).expect("a few thousand");
        if let Ok(calls) = self.calls.acquire_many(all).await {
            calls.forget();
        }
    }

    /// Admits a call, or declines it if too much is in progress.
    pub fn admit_or_decline(&self, peers: &Peers, call: &IncomingCall) -> Option<CallPermit> {
        let permit = self.admit(call.payload.len());
        if permit.is_none() {
            peers.decline(call);
        }
        permit
    }

    /// Answers a call in a task of its own. Declines it if too much is in progress (returns false)
    /// or if it is malformed; `what` is its name in the log. Never blocks.
    pub fn serve<A>(
        &self,
        peers: &Peers,
        call: IncomingCall,
        what: &'static str,
        answer: impl FnOnce(GroupId, Bytes) -> A + Send + 'static,
    ) -> bool
    where
        A: Future<Output = Result<Bytes, Malformed>> + Send,
    {
        let Some(permit) = self.admit_or_decline(peers, &call) else { return false };
        let peers = peers.clone();
        self.tasks.spawn_short(async move {
            // The caller ignores an answer after this time.
            let within = call.timeout.min(Duration::from_millis(FORWARD_MS_MAX));
            let served = async {
                match answer(call.group, call.payload.clone()).await {
                    Ok(answer) => send(&peers, &call, &answer).await,
                    Err(Malformed(field)) => report_malformed(&peers, &call, what, field),
                }
            };
            let _ = timeout(within, served).await;
            drop(permit);
        });
        true
    }
}

/// Answers at once. If the lane is full, the answer waits and keeps the permit.
pub fn reply(permit: CallPermit, peers: &Peers, call: IncomingCall, answer: Bytes) {
    if let Ok(SendOutcome::Full) = peers.answer(&call, answer.clone()) {
        let (peers, tasks) = (peers.clone(), permit.tasks.clone());
        tasks.spawn_short(async move {
            let within = call.timeout.min(Duration::from_millis(FORWARD_MS_MAX));
            let _ = timeout(within, send(&peers, &call, &answer)).await;
            drop(permit);
        });
    }
}

/// Declines a call that can't be decoded.
pub fn report_malformed(peers: &Peers, call: &IncomingCall, what: &str, field: &str) {
    let from = format_args!("{:016x}", call.from.0);
    tracing::warn!(target: "node", %from, "{what} is malformed: {field}");
    peers.decline(call);
}

/// Sends the answer as soon as the lane has space.
async fn send(peers: &Peers, call: &IncomingCall, answer: &Bytes) {
    // Without a link, the caller's own node reports the error.
    while let Ok(SendOutcome::Full) = peers.answer(call, answer.clone()) {
        sleep(PAUSE).await;
    }
}

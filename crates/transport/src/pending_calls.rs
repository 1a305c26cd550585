//! Table of the requests that await their answers, between the network and the receiver.
//!
//! Promises: each caller gets one outcome, in the order in which outcomes arrive; the number of
//! waiting requests is bounded.
//! Never: calls a handler while it holds its lock; ends a request by itself while the connection
//! lasts (the caller removes it at its deadline).

use super::call_error::CallError;
use super::incarnation::Incarnation;
use super::message::{Lane, QUESTION, Receipt};
use super::network::{Broken, IncomingMessage, Sink};
use base::codec::{Malformed, Reader};
use base::limits::PEER_CALLS_MAX;
use base::{GroupId, NodeId};
use bytes::{Buf, Bytes};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::oneshot;

/// Size of the head of a request or an answer: kind, token, remaining timeout of the caller in
/// milliseconds.
pub(super) const HEAD_BYTES: usize = 13;
pub(super) const ANSWER: u8 = 2;
pub(super) const DECLINED: u8 = 3;

/// Request that arrived; answer it with [`Peers::answer`].
pub struct IncomingCall {
    /// Id of the caller.
    pub from: NodeId,
    /// Incarnation of the caller.
    pub incarnation: Incarnation,
    /// Group to which it is addressed.
    pub group: GroupId,
    /// Remaining time for which the caller waits; later it ignores an answer.
    pub timeout: Duration,
    /// Payload of the request.
    pub payload: Bytes,
    pub(super) token: u64,
}

/// Receiver of messages, connection events and requests.
pub trait Receiver: Sink {
    /// Delivers a request. Must hand over and return, like [`Sink::deliver`].
    fn deliver_call(&self, call: IncomingCall);
}

/// Handler of the answer to a request that `Peers::start_call` began.
pub trait AnswerHandler: Send + Sync {
    /// Handles the answer of a node, or the reason why there is none: once, and never after the
    /// request was cancelled. The connection's task calls it: it must hand over and return, like
    /// [`Sink::deliver`].
    fn on_answer(self: Arc<Self>, from: NodeId, answer: Result<Bytes, CallError>);
}

/// Request that was begun and not cancelled; see `Peers::start_call`.
#[derive(Clone, Copy, Debug)]
pub struct StartedCall {
    pub(super) token: u64,
}

/// Receiver of one answer.
pub(super) enum AnswerTarget {
    /// A future that waits.
    Channel(oneshot::Sender<Result<Bytes, CallError>>),
    /// A handler that is called.
    Handler(Arc<dyn AnswerHandler>),
}

impl AnswerTarget {
    fn pass(self, from: NodeId, answer: Result<Bytes, CallError>) {
        match self {
            // The caller may have gone.
            AnswerTarget::Channel(sender) => drop(sender.send(answer)),
            AnswerTarget::Handler(handler) => handler.on_answer(from, answer),
        }
    }
}

/// Request that awaits its answer.
struct WaitingCall {
    to: NodeId,
    receipt: Receipt,
    target: AnswerTarget,
}

/// See the head of this file.
pub(super) struct PendingCalls {
    receiver: Arc<dyn Receiver>,
    waiting: Mutex<BTreeMap<u64, WaitingCall>>,
    /// Token of the next request.
    token: AtomicU64,
}

impl PendingCalls {
    pub(super) fn new(receiver: Arc<dyn Receiver>, first_token: u64) -> PendingCalls {
        let (waiting, token) = (Mutex::default(), AtomicU64::new(first_token));
        PendingCalls { receiver, waiting, token }
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<u64, WaitingCall>> {
        self.waiting.lock().expect("no one panics while holding it")
    }

    /// Adds a request to a node; returns its token. Errors: too many requests wait.
    pub(super) fn add(
        &self,
        to: NodeId,
        receipt: Receipt,
        target: AnswerTarget,
    ) -> Result<u64, CallError> {
        let token = self.token.fetch_add(1, Relaxed);
        let mut waiting = self.waiting();
        if waiting.len() >= PEER_CALLS_MAX {
            return Err(CallError::Full);
        }
        waiting.insert(token, WaitingCall { to, receipt, target });
        Ok(token)
    }

    /// Removes a request: its caller awaits no answer. Returns the node that was asked, and the
    /// receipt. `None`: its outcome has been passed to the caller, or is being passed.
    pub(super) fn remove(&self, token: u64) -> Option<(NodeId, Receipt)> {
        let waiting = self.waiting().remove(&token)?;
        Some((waiting.to, waiting.receipt))
    }

    fn on_call_message(&self, message: IncomingMessage) -> Result<(), Malformed> {
        let IncomingMessage { from, incarnation, group, mut payload, .. } = message;
        let mut reader = Reader::new(&payload);
        let (kind, token) = (reader.u8("kind")?, reader.u64("token")?);
        let timeout = Duration::from_millis(u64::from(reader.u32("within")?));
        payload.advance(HEAD_BYTES);
        let answer = match kind {
            QUESTION => {
                self.receiver.deliver_call(IncomingCall {
                    from,
                    incarnation,
                    group,
                    timeout,
                    payload,
                    token,
                });
                return Ok(());
            }
            ANSWER => Ok(payload),
            DECLINED => Err(CallError::Declined(from)),
            _ => return Err(Malformed("kind")),
        };
        let waiting = {
            let mut calls = self.waiting();
            // Only the node that was asked may answer; a late answer finds no caller.
            let is_asked = calls.get(&token).is_some_and(|waiting| waiting.to == from);
            if is_asked { calls.remove(&token) } else { None }
        };
        // Outside the lock: a handler may begin other requests.
        if let Some(waiting) = waiting {
            waiting.target.pass(from, answer);
        }
        Ok(())
    }
}

impl Sink for PendingCalls {
    fn deliver(&self, message: IncomingMessage) {
        if message.lane != Lane::Call {
            return self.receiver.deliver(message);
        }
        let from = message.from;
        if let Err(Malformed(field)) = self.on_call_message(message) {
            tracing::warn!(target: "peers", %from, "a request is malformed: {field}");
        }
    }

    fn connected(&self, node: NodeId, incarnation: Incarnation) {
        self.receiver.connected(node, incarnation);
    }

    fn unanswered_calls(&self, node: NodeId) -> usize {
        self.waiting().values().filter(|waiting| waiting.to == node).count()
    }

    fn broken(&self, node: NodeId, reason: &Broken) {
        let lost: Vec<_> = {
            let mut calls = self.waiting();
            let lost = calls.extract_if(.., |_, waiting| waiting.to == node);
            lost.map(|(_, waiting)| waiting).collect()
        };
        for waiting in lost {
            let why = match waiting.receipt.revoke() {
                true => CallError::NotSent(node),
                false => CallError::Broken(node),
            };
            waiting.target.pass(node, Err(why));
        }
        self.receiver.broken(node, reason);
    }
}

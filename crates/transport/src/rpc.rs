//! Requests from node to node: a token matches each answer to its caller, and every caller gets an
//! answer or the right kind of error, in bounded time.
//!
//! A request that never left did not happen (`Unavailable`: retry elsewhere). A request that left
//! without an answer may have happened (`Unknown`: read before retrying). The message's receipt
//! distinguishes the two, and lets a request be taken back when its deadline passes while it still
//! waits.

use super::credential::Credential;
use super::incarnation::Incarnation;
use super::message::{Lane, Message, Receipt, SendOutcome};
use super::network::{Broken, IncomingMessage, Member, Network, Sink};
use super::settings::PeerSettings;
use super::{counters::PeerStatus, tcp::TcpNetwork};
use base::codec::{Malformed, Reader};
use base::limits::{PEER_CALL_BYTES_MAX, PEER_CALLS_MAX, PEER_HEAD_BYTES_MAX};
use base::{Error, GroupId, NodeId, Reason};
use bytes::{Buf, Bytes};
use runtime::{TaskScope, world};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// Size of the head of a request or an answer: kind, token, remaining timeout of the caller in
/// milliseconds.
const HEAD_BYTES: usize = 13;
const QUESTION: u8 = 1;
const ANSWER: u8 = 2;
const DECLINED: u8 = 3;

/// Reason why a request was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallError {
    /// There is no connection to the node: nothing was sent.
    NoLink(NodeId),
    /// Too much is queued for that node, or too many requests wait for answers: nothing was sent.
    Full,
    /// The request is larger than one message may be.
    TooLarge,
    /// The connection broke, or the deadline passed, before it was sent.
    NotSent(NodeId),
    /// The node received the request and declined it: nothing happened.
    Declined(NodeId),
    /// The connection broke after it was sent.
    Broken(NodeId),
    /// The deadline passed after it was sent.
    TimedOut(NodeId),
}

impl From<CallError> for Error {
    fn from(why: CallError) -> Error {
        let error_for = |reason, node: NodeId, words: &str| {
            Error::new(reason, format!("node {:016x} {words}", node.0))
        };
        match why {
            CallError::NoLink(node) => {
                error_for(Reason::NoQuorum, node, "is not connected: nothing was sent; try again")
            }
            CallError::Full => Error::new(
                Reason::Overloaded,
                "the send queue to another node is full: nothing was sent; try again later",
            ),
            CallError::TooLarge => Error::new(
                Reason::TooLarge,
                format!("a forwarded request may have at most {PEER_CALL_BYTES_MAX} bytes"),
            ),
            CallError::NotSent(node) => {
                error_for(Reason::NoQuorum, node, "was not reached: nothing was sent; try again")
            }
            CallError::Declined(node) => {
                error_for(Reason::Overloaded, node, "is too busy and did nothing; try again later")
            }
            CallError::Broken(node) => error_for(
                Reason::InDoubt,
                node,
                "was lost before it answered: the request may have been applied; read before \
                 retrying",
            ),
            CallError::TimedOut(node) => error_for(
                Reason::DeadlinePassed,
                node,
                "did not answer in time: the request may have been applied; read before retrying",
            ),
        }
    }
}

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
    token: u64,
}

/// Receiver of messages, connection events and requests.
pub trait Receiver: Sink {
    /// Delivers a request. Must hand over and return, like [`Sink::deliver`].
    fn deliver_call(&self, call: IncomingCall);
}

/// Request that awaits its answer.
struct WaitingCall {
    to: NodeId,
    receipt: Receipt,
    answer: oneshot::Sender<Result<Bytes, CallError>>,
}

/// Table of callers that await answers, between the network and the receiver.
struct PendingCalls {
    receiver: Arc<dyn Receiver>,
    waiting: Mutex<BTreeMap<u64, WaitingCall>>,
    /// Token of the next request.
    token: AtomicU64,
}

impl PendingCalls {
    fn waiting(&self) -> MutexGuard<'_, BTreeMap<u64, WaitingCall>> {
        self.waiting.lock().expect("no one panics while holding it")
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
        let mut calls = self.waiting();
        // Only the node that was asked may answer; a late answer finds no caller.
        if calls.get(&token).is_some_and(|waiting| waiting.to == from)
            && let Some(waiting) = calls.remove(&token)
        {
            let _ = waiting.answer.send(answer);
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
            let _ = waiting.answer.send(Err(why));
        }
        self.receiver.broken(node, reason);
    }
}

/// Guard that removes a request from the table, even if its caller is dropped.
struct CallGuard<'a> {
    pending_calls: &'a PendingCalls,
    token: u64,
    receipt: Receipt,
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        // A queued request must not be sent once its answer is no longer awaited.
        self.receipt.revoke();
        self.pending_calls.waiting().remove(&self.token);
    }
}

/// Peers of a node. Cheap to clone.
#[derive(Clone)]
pub struct Peers {
    network: Arc<dyn Network>,
    pending_calls: Arc<PendingCalls>,
}

impl Peers {
    /// Starts peers over TCP; see [`TcpNetwork::start`].
    pub fn start(
        settings: PeerSettings,
        listener: Option<TcpListener>,
        receiver: Arc<dyn Receiver>,
        tasks: TaskScope,
    ) -> Peers {
        let tcp = |sink| {
            let network = TcpNetwork::start(settings, listener, sink, tasks);
            Arc::new(network) as Arc<dyn Network>
        };
        Peers::with_network(tcp, receiver, world::random_u64())
    }

    /// Starts peers over any network; a simulator passes its own in place of sockets. Tokens of
    /// requests count up from `first_token`, which differs between incarnations, so that an answer
    /// to an earlier incarnation finds no caller.
    pub fn with_network(
        network: impl FnOnce(Arc<dyn Sink>) -> Arc<dyn Network>,
        receiver: Arc<dyn Receiver>,
        first_token: u64,
    ) -> Peers {
        let token = AtomicU64::new(first_token);
        let pending_calls = Arc::new(PendingCalls { receiver, waiting: Mutex::default(), token });
        Peers { network: network(pending_calls.clone()), pending_calls }
    }

    /// Queues a message; see [`Network::send`]. For requests use [`Peers::call`].
    pub fn send(&self, to: NodeId, message: Message) -> SendOutcome {
        assert!(message.lane != Lane::Call, "the lane of requests belongs to the mailroom");
        self.network.send(to, message)
    }

    /// Sets the credential for greetings; see [`Network::set_credential`].
    pub fn set_credential(&self, credential: Credential) {
        self.network.set_credential(credential);
    }

    /// Returns the credential of this node's greetings. `None`: it has none.
    pub fn credential(&self) -> Option<Credential> {
        self.network.credential()
    }

    /// Sets the lowest protocol version of connections; see [`Network::require_version`].
    pub fn require_version(&self, lowest: u16) {
        self.network.require_version(lowest);
    }

    /// Returns the protocol version of the connection to that node; see [`Network::version`].
    pub fn version(&self, to: NodeId) -> Option<u16> {
        self.network.version(to)
    }

    /// Returns true if there is a connection to that node now; see [`Network::is_linked`].
    pub fn is_linked(&self, to: NodeId) -> bool {
        self.network.is_linked(to)
    }

    /// Returns the time since anything was received from that node; see [`Network::silent_ms`].
    pub fn silent_ms(&self, to: NodeId) -> Option<u64> {
        self.network.silent_ms(to)
    }

    /// Sends a bulk message; waits for space as long as there is a connection.
    pub async fn send_bulk(&self, to: NodeId, message: Message) -> SendOutcome {
        assert!(message.lane == Lane::Bulk, "only bulk waits for room");
        loop {
            match self.network.send(to, message.clone()) {
                SendOutcome::Full => {}
                other => return other,
            }
            if self.network.wait_bulk_space(to).await == SendOutcome::NoLink {
                return SendOutcome::NoLink;
            }
        }
    }

    /// Sends a request to a node, and waits for its answer at most `within`.
    pub async fn call(
        &self,
        to: NodeId,
        group: GroupId,
        body: Bytes,
        within: Duration,
    ) -> Result<Bytes, CallError> {
        if body.len() > PEER_CALL_BYTES_MAX - PEER_HEAD_BYTES_MAX {
            return Err(CallError::TooLarge);
        }
        let token = self.pending_calls.token.fetch_add(1, Relaxed);
        let (receipt, (sender, answer)) = (Receipt::default(), oneshot::channel());
        {
            let mut waiting = self.pending_calls.waiting();
            if waiting.len() >= PEER_CALLS_MAX {
                return Err(CallError::Full);
            }
            // Registered before it is sent, so that every outcome finds it in the table.
            waiting.insert(token, WaitingCall { to, receipt: receipt.clone(), answer: sender });
        }
        let guard =
            CallGuard { pending_calls: &self.pending_calls, token, receipt: receipt.clone() };
        let within_ms = u32::try_from(within.as_millis()).unwrap_or(u32::MAX);
        let mut question = call_message(QUESTION, token, within_ms, group, body);
        question.receipt = Some(receipt);
        match self.network.send(to, question) {
            SendOutcome::Sent => {}
            SendOutcome::Full => return Err(CallError::Full),
            SendOutcome::NoLink => return Err(CallError::NoLink(to)),
        }
        match world::timeout(within, answer).await {
            Some(Ok(answer)) => answer,
            // The table drops no caller without an outcome, so the node is being destroyed.
            Some(Err(_)) => Err(CallError::Broken(to)),
            None if guard.receipt.revoke() => Err(CallError::NotSent(to)),
            None => Err(CallError::TimedOut(to)),
        }
    }

    /// Answers a request. Errors: the answer is too large; nothing is sent.
    pub fn answer(&self, call: &IncomingCall, body: Bytes) -> base::Result<SendOutcome> {
        if body.len() > PEER_CALL_BYTES_MAX - PEER_HEAD_BYTES_MAX {
            return Err(Error::from(CallError::TooLarge));
        }
        let answer = call_message(ANSWER, call.token, 0, call.group, body);
        Ok(self.network.send(call.from, answer))
    }

    /// Declines a request: nothing was done, and nothing will be.
    pub fn decline(&self, call: &IncomingCall) -> SendOutcome {
        let answer = call_message(DECLINED, call.token, 0, call.group, Bytes::new());
        self.network.send(call.from, answer)
    }

    /// Sets the members of the cluster; see [`Network::set_members`].
    pub fn set_members(&self, members: Vec<Member>) {
        self.network.set_members(members);
    }

    /// Returns the status of every peer, by id.
    pub fn status(&self) -> Vec<PeerStatus> {
        self.network.status()
    }

    /// Closes every connection; callers that wait for an answer get an error.
    pub async fn stop(&self) {
        self.network.stop().await;
    }
}

fn call_message(kind: u8, token: u64, within_ms: u32, group: GroupId, body: Bytes) -> Message {
    let mut head = [0; HEAD_BYTES];
    head[0] = kind;
    head[1..9].copy_from_slice(&token.to_le_bytes());
    head[9..].copy_from_slice(&within_ms.to_le_bytes());
    Message::new(Lane::Call, group, body).with_head(&head)
}

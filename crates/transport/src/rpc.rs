//! Requests from node to node: a token matches each answer to its caller, and every caller gets an
//! answer or the right kind of error, in bounded time.
//!
//! A request that never left did not happen (`Unavailable`: retry elsewhere). A request that left
//! without an answer may have happened (`Unknown`: read before retrying). The message's receipt
//! distinguishes the two, and lets a request be taken back when its deadline passes while it still
//! waits.

use super::call_error::CallError;
use super::credential::Credential;
use super::message::{Lane, Message, QUESTION, Receipt, SendOutcome};
use super::network::{Member, Network, Sink};
use super::pending_calls::{
    ANSWER, AnswerHandler, AnswerTarget, DECLINED, HEAD_BYTES, IncomingCall, PendingCalls,
    Receiver, StartedCall,
};
use super::settings::PeerSettings;
use super::{counters::PeerStatus, tcp::TcpNetwork};
use base::limits::{PEER_CALL_BYTES_MAX, PEER_HEAD_BYTES_MAX};
use base::{Error, GroupId, NodeId};
use bytes::Bytes;
use runtime::{TaskScope, round, world};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

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
        self.pending_calls.remove(self.token);
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
        let pending_calls = Arc::new(PendingCalls::new(receiver, first_token));
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
        let (sender, answer) = oneshot::channel();
        let (token, receipt) =
            self.send_question(to, group, body, within, AnswerTarget::Channel(sender))?;
        let guard = CallGuard { pending_calls: &self.pending_calls, token, receipt };
        match round::wait("an answer of another node", world::timeout(within, answer)).await {
            Some(Ok(answer)) => answer,
            // The table drops no caller without an outcome, so the node is being destroyed.
            Some(Err(_)) => Err(CallError::Broken(to)),
            None if guard.receipt.revoke() => Err(CallError::NotSent(to)),
            None => Err(CallError::TimedOut(to)),
        }
    }

    /// Sends a request to a node. Its answer, or the end of the connection, is passed to the
    /// handler, without a task or a timer for it: the caller keeps the time, and cancels the
    /// request once it is up ([`Peers::cancel_call`]). The node ignores the request after `within`.
    /// Errors: nothing was sent, and the handler is not called.
    pub fn start_call(
        &self,
        to: NodeId,
        group: GroupId,
        body: Bytes,
        within: Duration,
        handler: Arc<dyn AnswerHandler>,
    ) -> Result<StartedCall, CallError> {
        let (token, _) =
            self.send_question(to, group, body, within, AnswerTarget::Handler(handler))?;
        Ok(StartedCall { token })
    }

    /// Cancels a request: its handler is not called any more. Returns the error of a request whose
    /// time is up: it was not sent, or may have been carried out. `None`: its outcome has been
    /// passed to the handler, or is being passed.
    pub fn cancel_call(&self, call: StartedCall) -> Option<CallError> {
        let (to, receipt) = self.pending_calls.remove(call.token)?;
        // A queued request must not be sent once its answer is no longer awaited.
        let is_unsent = receipt.revoke();
        Some(if is_unsent { CallError::NotSent(to) } else { CallError::TimedOut(to) })
    }

    /// Registers a request and sends it. Returns its token and its receipt.
    fn send_question(
        &self,
        to: NodeId,
        group: GroupId,
        body: Bytes,
        within: Duration,
        target: AnswerTarget,
    ) -> Result<(u64, Receipt), CallError> {
        if body.len() > PEER_CALL_BYTES_MAX - PEER_HEAD_BYTES_MAX {
            return Err(CallError::TooLarge);
        }
        let receipt = Receipt::default();
        // Registered before it is sent, so that every outcome finds it in the table.
        let token = self.pending_calls.add(to, receipt.clone(), target)?;
        let within_ms = u32::try_from(within.as_millis()).unwrap_or(u32::MAX);
        let mut question = call_message(QUESTION, token, within_ms, group, body);
        question.receipt = Some(receipt.clone());
        let error = match self.network.send(to, question) {
            SendOutcome::Sent => return Ok((token, receipt)),
            SendOutcome::Full => CallError::Full,
            SendOutcome::NoLink => CallError::NoLink(to),
        };
        match self.pending_calls.remove(token) {
            Some(_) => Err(error),
            // The connection broke meanwhile, and its end was passed on as the outcome.
            None => Ok((token, receipt)),
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

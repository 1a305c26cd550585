//! Interface of the network for everything above it. Over sockets it is
//! [`TcpNetwork`](super::TcpNetwork); a simulator implements it too.

use super::counters::PeerStatus;
use super::credential::Credential;
use super::frame::FrameError;
use super::incarnation::Incarnation;
use super::message::{Lane, Message, SendOutcome};
use super::refusal::Refusal;
use super::versions::VERSIONS;
use base::{GroupId, IncarnationId, NodeId};
use bytes::Bytes;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// Node that belongs to the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Id of the node.
    pub node: NodeId,
    /// Name of the node, for display.
    pub name: String,
    /// Address for its peers: `host:port`, resolved at every dial.
    pub address: String,
    /// Highest incarnation that the cluster has on record (0: none). Lower ones are refused, even
    /// by a node that has just started and has seen no other node yet.
    pub incarnation: Incarnation,
    /// Incarnation that the cluster has on record, with its token: a node that can't show that it
    /// descends from it is refused. `None`: none is on record.
    pub incarnation_id: Option<IncarnationId>,
}

/// Reason why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The other side closed it, with this text.
    Closed(String),
    /// The stream ended without a goodbye.
    Ended,
    /// The system reported an error of the socket.
    Socket(String),
    /// Bytes arrived that are not a frame of this connection.
    Frame(FrameError),
    /// No data was received for too long.
    Silent,
    /// Data arrives, but pings stay unanswered: the peer does not receive from this node.
    Unresponsive,
    /// A new connection of the same node, which lost this one, replaces it.
    Replaced,
    /// The cluster has an incarnation of the node on record from which this one does not descend.
    Superseded,
    /// The cluster's secret became required, and the node did not prove that it holds it.
    Unauthenticated,
    /// The node's program speaks only versions of the protocol that are no longer enough.
    VersionTooLow,
    /// The certificates have changed: a new connection presents the present ones.
    Renewed,
    /// The node was removed from the members.
    Removed,
    /// Stop of this node.
    Stopping,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::Closed(words) => write!(f, "the other node closed it: {words}"),
            Broken::Ended => f.write_str("the other node ended it without a reason"),
            Broken::Socket(words) => write!(f, "the socket failed: {words}"),
            Broken::Frame(error) => write!(f, "an invalid frame was received: {error}"),
            Broken::Silent => f.write_str("nothing was received for too long"),
            Broken::Unresponsive => {
                f.write_str("the other node sends data but does not answer pings")
            }
            Broken::Replaced => f.write_str("the node made a new connection"),
            Broken::Superseded => f.write_str("a later incarnation of the node is on record"),
            Broken::Unauthenticated => {
                f.write_str("greetings must now prove that the node has the cluster's secret")
            }
            Broken::VersionTooLow => f.write_str(
                "the other node's program is too old for what the cluster uses: upgrade it",
            ),
            Broken::Renewed => {
                f.write_str("certificates have changed, or can be used by now: it is made anew")
            }
            Broken::Removed => f.write_str("the node is not a member any more"),
            Broken::Stopping => f.write_str("this node is stopping"),
        }
    }
}

/// Sender's credit: returns send credit once a bulk message is consumed.
pub trait CreditSource: Send + Sync {
    /// Reports this many bytes as consumed.
    fn consumed(&self, bytes: u64);
}

/// Credit of a bulk message, held until its bytes are consumed (written to disk, say). Dropping it
/// lets the sender send more. So a slow receiver bounds its own memory, and control traffic still
/// flows.
pub struct Credit {
    from: Option<Arc<dyn CreditSource>>,
    bytes: u64,
}

impl Credit {
    /// Returns the empty credit, for lanes that need none.
    pub fn none() -> Credit {
        Credit { from: None, bytes: 0 }
    }

    /// Returns a credit that reports to `from` when it is dropped.
    pub fn new(from: Arc<dyn CreditSource>, bytes: u64) -> Credit {
        Credit { from: Some(from), bytes }
    }
}

impl Drop for Credit {
    fn drop(&mut self) {
        if let Some(from) = &self.from {
            from.consumed(self.bytes);
        }
    }
}

/// Message that arrived.
pub struct IncomingMessage {
    /// Id of the sender.
    pub from: NodeId,
    /// Incarnation of the sender.
    pub incarnation: Incarnation,
    /// Lane on which it came.
    pub lane: Lane,
    /// Group to which it is addressed.
    pub group: GroupId,
    /// Head and body as one.
    pub payload: Bytes,
    /// Credit to keep as long as the payload; see [`Credit`].
    pub credit: Credit,
}

/// Receiver of messages and connection events. The connection's task calls it: it must hand over
/// and return, never wait. The protocols above bound what it hands over: consensus counts the
/// entries in flight, bulk needs credit, and calls are refused when too many wait.
pub trait Sink: Send + Sync + 'static {
    /// Delivers a message.
    fn deliver(&self, message: IncomingMessage);
    /// Reports that a connection began; messages sent before are lost.
    fn connected(&self, node: NodeId, incarnation: Incarnation);
    /// Reports that the connection ended: unanswered messages may be lost.
    fn broken(&self, node: NodeId, reason: &Broken);
    /// Returns the number of requests to that node that are unanswered.
    fn unanswered_calls(&self, _node: NodeId) -> usize {
        0
    }
}

/// Boxed future, so that the trait can be an object.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Network between the nodes of one cluster.
pub trait Network: Send + Sync + 'static {
    /// Queues a message; never waits. `message` must be within its lane's limit.
    fn send(&self, to: NodeId, message: Message) -> SendOutcome;

    /// Returns true if there is a connection to that node now: a message sent without one is lost.
    fn is_linked(&self, to: NodeId) -> bool;

    /// Returns the time since anything was received from that node, in milliseconds. `None`: no
    /// connection.
    fn silent_ms(&self, to: NodeId) -> Option<u64> {
        self.is_linked(to).then_some(0)
    }

    /// Returns the protocol version of the connection to that node. `None`: there is none.
    fn version(&self, to: NodeId) -> Option<u16> {
        self.is_linked(to).then_some(VERSIONS.highest)
    }

    /// Waits until the bulk lane has space (`Sent`) or there is no connection (`NoLink`).
    fn wait_bulk_space(&self, to: NodeId) -> Boxed<'_, SendOutcome>;

    /// Sets the members of the cluster; this node may be among them. Connections to nodes that are
    /// not listed are closed.
    fn set_members(&self, members: Vec<Member>);

    /// Sets the credential for greetings. Once the secret is required, connections whose other side
    /// did not prove that it holds it end. A network without greetings ignores it.
    fn set_credential(&self, _credential: Credential) {}

    /// Sets the lowest protocol version of connections: others end, and none of them begins. A
    /// network without greetings ignores it.
    fn require_version(&self, _lowest: u16) {}

    /// Returns the credential of this node's greetings. `None`: it has none.
    fn credential(&self) -> Option<Credential> {
        None
    }

    /// Returns the status of every peer, by id.
    fn status(&self) -> Vec<PeerStatus>;

    /// Closes every connection; returns when `broken` was reported for each.
    fn stop(&self) -> Boxed<'_, ()>;
}

/// Reason why the last attempt to connect failed, for status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ConnectFailure {
    /// The address did not answer, or not in time.
    Unreachable(String),
    /// The other side refused, with this text. `is_trusted`: the refusal is signed with the
    /// cluster's secret, or this node has none to verify it by.
    Refused { code: u8, text: String, is_trusted: bool },
    /// This node refused the other.
    RefusedLocally(Refusal),
}

impl ConnectFailure {
    /// Returns the failure to reach a member, with the reason.
    pub(super) fn at(member: &Member, reason: &dyn fmt::Display) -> ConnectFailure {
        ConnectFailure::Unreachable(format!("{}: {reason}", member.address))
    }

    /// Returns true if the failure is transient and not worth a log line.
    pub(super) fn is_transient(&self) -> bool {
        matches!(self, ConnectFailure::Refused { code, .. } if Refusal::is_transient(*code))
    }

    /// Returns the other side's text if it refused this node for running on an old copy of its
    /// directory.
    pub(super) fn old_copy_text(&self) -> Option<String> {
        match self {
            // Only if trusted: any process at a member's address could claim that.
            ConnectFailure::Refused { code, text, is_trusted: true }
                if Refusal::reports_old_copy(*code) =>
            {
                Some(text.clone())
            }
            _ => None,
        }
    }
}

impl fmt::Display for ConnectFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectFailure::Unreachable(words) => write!(f, "not reached: {words}"),
            ConnectFailure::Refused { text: words, is_trusted: true, .. } => {
                write!(f, "refused by the other node: {words}")
            }
            ConnectFailure::Refused { text: words, .. } => {
                write!(f, "refused by the other node, which did not prove to be a member: {words}")
            }
            ConnectFailure::RefusedLocally(refusal) => write!(f, "refused by this node: {refusal}"),
        }
    }
}

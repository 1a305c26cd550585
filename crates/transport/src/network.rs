//! The face of the network: what everything above speaks to. Over sockets it is
//! [`TcpNetwork`](super::TcpNetwork); a simulator puts its own in the same place.

use super::counters::PeerStatus;
use super::credential::Credential;
use super::frame::FrameError;
use super::incarnation::Incarnation;
use super::message::{Lane, Message, Sending};
use super::refusal::Refusal;
use base::{GroupId, Lived, NodeId};
use bytes::Bytes;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// A node that belongs to the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its id.
    pub node: NodeId,
    /// Its name, for people.
    pub name: String,
    /// Where its peers reach it: `host:port`, looked up anew at every dial.
    pub address: String,
    /// The highest incarnation that the cluster has on record (0: none): nothing below is let in,
    /// not even by a node that has just started and has seen nobody yet.
    pub incarnation: Incarnation,
    /// The life that the cluster has on record, told from all others: one that can't show that it
    /// comes from it is not let in; none: none is.
    pub lived: Option<Lived>,
}

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The other side closed it, in its words.
    Closed(String),
    /// The stream ended without a word.
    Ended,
    /// The system reports an error of the socket.
    Socket(String),
    /// Bytes that are no frame of this connection.
    Frame(FrameError),
    /// Nothing was heard for too long.
    Silent,
    /// It speaks, but does not answer pings: it does not hear us.
    Unanswering,
    /// The same node began a new connection, having lost this one.
    Replaced,
    /// The cluster has a life of the node on record that this one does not come from.
    Outlived,
    /// The cluster's secret is required by now, and the node did not prove that it holds it.
    Unproven,
    /// The node was taken off the list of members.
    Removed,
    /// This node is stopping.
    Stopping,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::Closed(words) => write!(f, "the other side closed it: {words}"),
            Broken::Ended => f.write_str("the other side ended it without a word"),
            Broken::Socket(words) => write!(f, "the socket failed: {words}"),
            Broken::Frame(error) => write!(f, "a bad frame came: {error}"),
            Broken::Silent => f.write_str("nothing was heard for too long"),
            Broken::Unanswering => f.write_str("it speaks but does not answer pings"),
            Broken::Replaced => f.write_str("the node came back by a new connection"),
            Broken::Outlived => f.write_str("a later life of the node is on record"),
            Broken::Unproven => f.write_str(
                "greetings must prove from now on that their node holds the cluster's secret",
            ),
            Broken::Removed => f.write_str("the node is no member any more"),
            Broken::Stopping => f.write_str("this node is stopping"),
        }
    }
}

/// Who gives a sender room again once a bulk message is used up.
pub trait Creditor: Send + Sync {
    /// So many bytes are used up.
    fn consumed(&self, bytes: u64);
}

/// Held with a bulk message until its bytes are used up (written to disk, say); dropping it lets
/// the sender send more. So a slow receiver bounds its own memory, and control traffic still flows.
pub struct Credit {
    from: Option<Arc<dyn Creditor>>,
    bytes: u64,
}

impl Credit {
    /// For lanes that need none.
    pub fn none() -> Credit {
        Credit { from: None, bytes: 0 }
    }

    /// Tells `from` when it is dropped.
    pub fn of(from: Arc<dyn Creditor>, bytes: u64) -> Credit {
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

/// A message that arrived.
pub struct IncomingMessage {
    /// Who sent it.
    pub from: NodeId,
    /// In which of its lives.
    pub incarnation: Incarnation,
    /// By which lane.
    pub lane: Lane,
    /// For which group.
    pub group: GroupId,
    /// Head and body as one.
    pub payload: Bytes,
    /// Keep it as long as the payload; see [`Credit`].
    pub credit: Credit,
}

/// Who is told what arrives. Called in the connection's task: it must hand over and return, never
/// wait. What it hands over to is bounded by the protocols above: consensus counts the values in
/// flight, bulk needs credit, and calls are refused when too many wait.
pub trait Sink: Send + Sync + 'static {
    /// A message.
    fn deliver(&self, message: IncomingMessage);
    /// A connection began; messages sent before are lost.
    fn connected(&self, node: NodeId, incarnation: Incarnation);
    /// It ended: what was not answered may be lost.
    fn broken(&self, node: NodeId, reason: &Broken);
}

/// A future in a box, so that the trait can be an object.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Carries messages between the nodes of one cluster.
pub trait Network: Send + Sync + 'static {
    /// Queues a message; never waits. `message` must be within its lane's limit.
    fn send(&self, to: NodeId, message: Message) -> Sending;

    /// Returns true if there is a connection to that node now: what is sent without one is lost.
    fn linked(&self, to: NodeId) -> bool;

    /// For how long nothing was heard by the connection to that node; none: there is none.
    fn silent_ms(&self, to: NodeId) -> Option<u64> {
        self.linked(to).then_some(0)
    }

    /// Waits until the bulk lane has room (`Sent`) or there is no connection (`NoLink`).
    fn bulk_room(&self, to: NodeId) -> Boxed<'_, Sending>;

    /// Who belongs to the cluster from now on; this node itself may be among them. Connections to
    /// nodes that are no longer named are closed.
    fn set_members(&self, members: Vec<Member>);

    /// Greets with this credential from now on; connections whose other side did not prove that it
    /// holds the secret end once that is required. A network without greetings needs none.
    fn set_credential(&self, _credential: Credential) {}

    /// Returns the credential that this node greets with; none: it has none.
    fn credential(&self) -> Option<Credential> {
        None
    }

    /// Every peer, by its id.
    fn status(&self) -> Vec<PeerStatus>;

    /// Closes every connection, and returns when `broken` has been told of each.
    fn stop(&self) -> Boxed<'_, ()>;
}

/// Why the last attempt to connect failed, for status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failed {
    /// The address did not answer, or not in time.
    Unreachable(String),
    /// The other side refused, in its words. `is_trusted`: they are signed with the cluster's
    /// secret, or this node has none to verify them by.
    Refused { code: u8, words: String, is_trusted: bool },
    /// This node refused.
    Refuses(Refusal),
}

impl Failed {
    /// Returns true if it passes by itself, so that nobody needs to be told.
    pub(super) fn passes(&self) -> bool {
        matches!(self, Failed::Refused { code, .. } if Refusal::passes(*code))
    }

    /// The other side's words, if they are that this node runs on an old copy of its directory.
    pub(super) fn outdates(&self) -> Option<String> {
        match self {
            // Anybody at a member's address could say that this node's directory is an old copy.
            Failed::Refused { code, words, is_trusted: true } if Refusal::outdates(*code) => {
                Some(words.clone())
            }
            _ => None,
        }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failed::Unreachable(words) => write!(f, "not reached: {words}"),
            Failed::Refused { words, is_trusted: true, .. } => {
                write!(f, "refused by the other side: {words}")
            }
            Failed::Refused { words, .. } => {
                write!(f, "refused by the other side, which did not prove to be a member: {words}")
            }
            Failed::Refuses(refusal) => write!(f, "refused by this node: {refusal}"),
        }
    }
}

//! Connections between nodes: framing, lanes, calls.
//!
//! Two nodes share one connection, whichever dialled it; all groups use it. A message uses one of
//! four *lanes*, each with a queue of its own: `Control` (heartbeats, votes, acknowledgements),
//! `Data` (log entries), `Call` (requests and their answers), `Bulk` (snapshots).
//! `docs/inside/peers.md` draws the frames and the handshake, and gives the reasons.
//!
//! Promises: messages of one lane arrive in the order they were sent, or the connection breaks,
//! which is reported on both sides; control traffic waits for at most one piece of other traffic
//! that is not in the system's buffer yet, which is small; memory per peer is bounded, and a full
//! lane is reported to the sender; a message may be lost, but never arrives altered, twice, or at
//! another cluster, node or incarnation; `connected` precedes the first message of a connection and
//! `broken` follows its last. A greeting proves that its node holds the cluster's secret
//! (`transcript.rs`). With TLS a connection is encrypted, its two certificates name the nodes of
//! the greetings (`secure.rs`), and it is replaced in order when certificates change
//! (`rotation.rs`) or when a plain one can be encrypted (`migration.rs`).
//! Never: encrypts without TLS, or authenticates each frame then (a checksum detects accidents, not
//! forgery by an attacker who reads the traffic: private networks only); resends a lost message
//! (consensus and the caller decide that); interprets a message; delivers a message of an ended
//! connection.
//! Read next: `network.rs` (the interface), `frame.rs`, `handshake.rs`, `admission.rs`, then
//! `stories/two_dials.txt`.

mod accept;
mod activity;
mod admission;
mod arbitrate;
mod batch;
mod call_error;
mod call_kind;
mod counters;
mod credential;
mod endpoint;
mod frame;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod greet;
mod handshake;
mod incarnation;
pub mod incoming;
mod link;
mod message;
mod migration;
mod network;
mod outbox;
mod peer;
mod peer_call;
mod peer_table;
mod pending_calls;
mod rate;
mod refusal;
mod retirement;
mod rotation;
mod rpc;
mod secure;
mod settings;
mod tcp;
mod transcript;
mod transfer;
mod versions;

pub use call_error::CallError;
pub use call_kind::CallKind;
pub use counters::{LaneStatus, PeerStatus};
pub use credential::Credential;
pub use frame::FrameError;
pub use incarnation::Incarnation;
pub use message::{Lane, Message, MessageHead, Receipt, SendOutcome};
pub use network::{Boxed, Broken, Credit, CreditSource, IncomingMessage, Member, Network, Sink};
pub use pending_calls::{AnswerHandler, IncomingCall, Receiver, StartedCall};
pub use refusal::Refusal;
pub use rpc::Peers;
pub use settings::{LaneLimits, PeerSettings};
pub use tcp::TcpNetwork;

#[cfg(test)]
mod tests;

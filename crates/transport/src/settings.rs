//! Settings of a node's peers; `cli` fills them once.

use super::credential::Credential;
use super::incarnation::Incarnation;
use base::limits::{PEER_BULK_WINDOW_BYTES, PEER_DATA_BYTES_MAX};
use base::{ClusterId, Lived, NodeId};
use std::time::Duration;

/// How much may wait in one lane of one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneLimits {
    /// Messages.
    pub messages: usize,
    /// Bytes of heads and bodies; one message always finds room in an empty lane.
    pub bytes: usize,
}

/// Settings of [`Peers`](super::Peers).
#[derive(Clone, Debug)]
pub struct PeerSettings {
    /// The cluster this node belongs to.
    pub cluster: ClusterId,
    /// This node.
    pub node: NodeId,
    /// Its name, for people.
    pub name: String,
    /// Which of its lives this is; raised and synced in the data directory before the start.
    pub incarnation: Incarnation,
    /// Its lives that the cluster may have on record; without this one, if it has no token.
    pub lives: Vec<Lived>,
    /// The credential that its greetings are signed with; none: it holds no secret of its cluster.
    pub credential: Option<Credential>,
    /// Where its peers reach it, told to them for their status.
    pub advertise: String,
    /// How often a sign of life is asked for.
    pub ping: Duration,
    /// A connection on which nothing was heard for this long is broken.
    pub silence: Duration,
    /// So is one whose pings stay unanswered for this long, although something is heard: long
    /// enough for a ping to pass what the system has already taken on a slow line.
    pub unanswered: Duration,
    /// How long connecting may take, and then again the greeting: more than the longest way there
    /// and back. With the longest pause it bounds how late a healed network is noticed.
    pub dial: Duration,
    /// Shortest and longest pause between two dials; in truth half to all of it, by chance.
    pub pause: (Duration, Duration),
    /// Bytes of bulk a second to one peer; 0: no bound.
    pub bulk_bytes_per_second: u64,
    /// How much may wait: control, data, call, bulk.
    pub lanes: [LaneLimits; 4],
}

impl PeerSettings {
    /// Settings for this node, everything else as it is by default.
    pub fn new(cluster: ClusterId, node: NodeId, incarnation: Incarnation) -> PeerSettings {
        PeerSettings {
            cluster,
            node,
            name: format!("{:016x}", node.0),
            incarnation,
            lives: Vec::new(),
            credential: None,
            advertise: String::new(),
            ping: Duration::from_millis(250),
            silence: Duration::from_millis(1_500),
            unanswered: Duration::from_millis(6_000),
            dial: Duration::from_millis(600),
            pause: (Duration::from_millis(20), Duration::from_millis(400)),
            bulk_bytes_per_second: 64 << 20,
            lanes: [
                LaneLimits { messages: 4_096, bytes: 4 << 20 },
                LaneLimits { messages: 16_384, bytes: PEER_DATA_BYTES_MAX },
                LaneLimits { messages: 16_384, bytes: 64 << 20 },
                LaneLimits { messages: 1_024, bytes: PEER_BULK_WINDOW_BYTES },
            ],
        }
    }
}

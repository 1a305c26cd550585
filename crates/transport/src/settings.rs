//! Settings of a node's peers; `cli` sets them once.

use super::credential::Credential;
use super::incarnation::Incarnation;
use super::versions::VERSIONS;
use base::limits::{PEER_BULK_WINDOW_BYTES, PEER_DATA_BYTES_MAX};
use base::{ClusterId, IncarnationId, IpNetworks, NodeId};
use std::sync::Arc;
use std::time::Duration;
use tls::{PeerMode, Tls};

/// Bounds of one lane to one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneLimits {
    /// Number of messages.
    pub messages: usize,
    /// Bytes of heads and bodies; one message always fits into an empty lane.
    pub bytes: usize,
}

/// Settings of [`Peers`](super::Peers).
#[derive(Clone, Debug)]
pub struct PeerSettings {
    /// Cluster of this node.
    pub cluster: ClusterId,
    /// Id of this node.
    pub node: NodeId,
    /// Name of this node, for display.
    pub name: String,
    /// Current incarnation; raised and synced in the data directory before the start.
    pub incarnation: Incarnation,
    /// Incarnations that the cluster may have on record; without the current one if that has no
    /// token.
    pub incarnations: Vec<IncarnationId>,
    /// Credential that signs its greetings. `None`: this node holds no secret of its cluster.
    pub credential: Option<Credential>,
    /// Lowest version of the protocol of a peer; see [`super::Network::require_version`].
    pub version_min: u16,
    /// Address for its peers, sent to them for their status.
    pub advertise: String,
    /// TLS of connections. `None`: they are plain.
    pub tls: Option<Arc<Tls>>,
    /// Networks within which nodes are dialled and accepted.
    pub networks: IpNetworks,
    /// Interval at which a quiet connection is pinged; one with traffic in both directions is
    /// pinged every fourth time.
    pub ping_interval: Duration,
    /// Time without received data after which a connection counts as broken.
    pub silence_timeout: Duration,
    /// Time of unanswered pings after which a connection counts as broken although data arrives:
    /// long enough for a ping to pass what the system has buffered on a slow line.
    pub answer_timeout: Duration,
    /// Time limit for connecting, and again for the handshake: more than the longest round trip.
    /// With the longest pause it bounds how late a healed network is noticed.
    pub dial_timeout: Duration,
    /// Shortest and longest pause between two dials; the actual one is half to all of it, at
    /// random.
    pub redial_pause: (Duration, Duration),
    /// Longest pause between two attempts to encrypt a plain connection, where both kinds are
    /// accepted.
    pub encrypt_pause: Duration,
    /// Bytes of bulk a second to one peer. 0: unlimited.
    pub bulk_bytes_per_second: u64,
    /// Bounds of the lanes: control, data, call, bulk.
    pub lanes: [LaneLimits; 4],
}

impl PeerSettings {
    /// Returns the TLS of connections, if it is in use.
    pub(super) fn tls_in_use(&self) -> Option<&Arc<Tls>> {
        self.tls.as_ref().filter(|tls| tls.peer_mode() != PeerMode::Off)
    }

    /// Returns settings for this node, with defaults for everything else.
    pub fn new(cluster: ClusterId, node: NodeId, incarnation: Incarnation) -> PeerSettings {
        PeerSettings {
            cluster,
            node,
            name: format!("{:016x}", node.0),
            incarnation,
            incarnations: Vec::new(),
            credential: None,
            version_min: VERSIONS.lowest,
            advertise: String::new(),
            tls: None,
            networks: IpNetworks::default(),
            ping_interval: Duration::from_millis(250),
            silence_timeout: Duration::from_millis(1_500),
            answer_timeout: Duration::from_millis(6_000),
            dial_timeout: Duration::from_millis(600),
            redial_pause: (Duration::from_millis(20), Duration::from_millis(400)),
            encrypt_pause: Duration::from_secs(10),
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

//! Counters of a peer, for status and metrics.

use super::incarnation::Incarnation;
use super::message::Lane;
use base::{IncarnationId, NodeId};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters of one lane to one peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneStatus {
    /// Messages sent completely.
    pub sent_messages: u64,
    /// Bytes of them, without the heads of frames.
    pub sent_bytes: u64,
    /// Messages received.
    pub received_messages: u64,
    /// Bytes of them.
    pub received_bytes: u64,
    /// Messages waiting now.
    pub waiting_messages: usize,
    /// Bytes of them.
    pub waiting_bytes: usize,
}

/// Status of a peer as this node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    /// Id of the peer.
    pub node: NodeId,
    /// Name of the peer.
    pub name: String,
    /// Address that this node dials.
    pub address: String,
    /// Connected incarnation. `None`: there is no connection.
    pub connected: Option<Incarnation>,
    /// Connected incarnation with its token. `None`: not connected, or it has no token.
    pub incarnation_id: Option<IncarnationId>,
    /// Text of the peer's refusal, if it refuses this node for running on an old copy of its
    /// directory.
    pub old_copy_text: Option<String>,
    /// Id of the connection, the same on both sides. 0: there is none.
    pub link: u64,
    /// Number of connections so far.
    pub links: u64,
    /// Milliseconds since anything was received on the current connection. `None`: there is none.
    pub received_ms_ago: Option<u64>,
    /// Milliseconds without a connection: since the last one ended, or since this node knows the
    /// peer. `None`: connected.
    pub disconnected_ms: Option<u64>,
    /// Moving mean of the round-trip time by ping, in microseconds. 0: not measured yet.
    pub rtt_us: u64,
    /// Counters of the lanes, by lane number.
    pub lanes: [LaneStatus; 4],
    /// Messages replaced by a newer one of the same slot.
    pub replaced_messages: u64,
    /// Messages refused because their lane was full.
    pub refused_messages: u64,
    /// True if the present connection is encrypted.
    pub is_encrypted: bool,
    /// Reason why the last connection ended. `None`: none has ended.
    pub last_disconnect: Option<String>,
    /// Reason why the last attempt to connect failed. `None`: it succeeded.
    pub last_failure: Option<String>,
}

/// Counters over all connections with a peer.
#[derive(Default)]
pub(super) struct Counters {
    sent: [(AtomicU64, AtomicU64); 4],
    received: [(AtomicU64, AtomicU64); 4],
    pub(super) links: AtomicU64,
    pub(super) replaced: AtomicU64,
    pub(super) full: AtomicU64,
    rtt_ns: AtomicU64,
}

impl Counters {
    pub(super) fn sent(&self, lane: Lane, bytes: usize) {
        add(&self.sent[lane as usize], bytes);
    }

    pub(super) fn received(&self, lane: Lane, bytes: usize) {
        add(&self.received[lane as usize], bytes);
    }

    /// Records the round-trip time of a ping. Only the connection's task calls it.
    pub(super) fn record_rtt(&self, nanoseconds: u64) {
        let mean = match self.rtt_ns.load(Relaxed) {
            0 => nanoseconds,
            mean => mean - mean / 8 + nanoseconds / 8,
        };
        self.rtt_ns.store(mean, Relaxed);
    }

    pub(super) fn rtt_us(&self) -> u64 {
        self.rtt_ns.load(Relaxed) / 1_000
    }

    pub(super) fn lanes(&self, waiting: [(usize, usize); 4]) -> [LaneStatus; 4] {
        Lane::ALL.map(|lane| {
            let (sent, received) = (&self.sent[lane as usize], &self.received[lane as usize]);
            let (waiting_messages, waiting_bytes) = waiting[lane as usize];
            LaneStatus {
                sent_messages: sent.0.load(Relaxed),
                sent_bytes: sent.1.load(Relaxed),
                received_messages: received.0.load(Relaxed),
                received_bytes: received.1.load(Relaxed),
                waiting_messages,
                waiting_bytes,
            }
        })
    }
}

fn add(count: &(AtomicU64, AtomicU64), bytes: usize) {
    count.0.fetch_add(1, Relaxed);
    count.1.fetch_add(bytes as u64, Relaxed);
}

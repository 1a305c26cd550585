//! Counters of a peer, for status and metrics.

use super::incarnation::Incarnation;
use super::message::Lane;
use base::{Lived, NodeId};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One lane of one peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneStatus {
    /// Messages that left whole.
    pub sent_messages: u64,
    /// Their bytes, frames' heads not counted.
    pub sent_bytes: u64,
    /// Messages that arrived.
    pub received_messages: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Messages that wait now.
    pub waiting_messages: usize,
    /// Their bytes.
    pub waiting_bytes: usize,
}

/// A peer as this node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    /// Who.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// Where it is dialled.
    pub address: String,
    /// Which of its lives is connected; none: there is no connection.
    pub connected: Option<Incarnation>,
    /// The same, told from all others; none: it has no token.
    pub lived: Option<Lived>,
    /// It does not let this node in, because this node's directory is an old copy: in its words.
    pub outdates: Option<String>,
    /// The connection's id, the same on both sides; 0: none.
    pub link: u64,
    /// Connections so far.
    pub links: u64,
    /// Milliseconds since anything was heard by the present connection.
    pub heard_ms_ago: Option<u64>,
    /// Milliseconds without a connection: since the last one ended, or since this node knows the
    /// peer; none while there is one.
    pub away_ms: Option<u64>,
    /// There and back, by ping, in microseconds: a moving mean; 0: not measured yet.
    pub rtt_us: u64,
    /// Lanes, by their number.
    pub lanes: [LaneStatus; 4],
    /// Messages replaced by newer ones of their slot.
    pub replaced: u64,
    /// Messages refused because their lane was full.
    pub full: u64,
    /// Why the last connection ended, in words.
    pub broken: Option<String>,
    /// Why the last attempt to connect failed, in words; none: it succeeded.
    pub failed: Option<String>,
}

/// Counts over all connections with a peer.
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

    /// A ping came back after so long. Only the connection's task writes it.
    pub(super) fn measured(&self, nanoseconds: u64) {
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

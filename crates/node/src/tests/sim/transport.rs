//! Peers of simulated nodes: the product's code over the simulated network, or into an outbox.

use base::{GroupId, NodeId};
use bytes::Bytes;
use sim::{Inbox, Journal, NetworkEnd, Posting, Scheduler};
use std::sync::{Arc, Mutex};
use transport::{
    Boxed, Broken, CallKind, Credit, Incarnation, IncomingCall, IncomingMessage, Lane, Member,
    Message, Network, PeerStatus, Peers, Receiver, SendOutcome, Sink,
};

/// Simulated network between nodes.
pub(super) type SimNetwork = sim::FaultyNetwork<Envelope>;

/// Message in flight.
#[derive(Clone)]
pub(super) struct Envelope {
    lane: Lane,
    group: GroupId,
    payload: Bytes,
}

struct PeersInbox(Arc<dyn Sink>);

impl Inbox<Envelope> for PeersInbox {
    fn deliver(&self, from: NodeId, incarnation: u64, message: Envelope) {
        let Envelope { lane, group, payload } = message;
        let (incarnation, credit) = (Incarnation(incarnation), Credit::none());
        self.0.deliver(IncomingMessage { from, incarnation, lane, group, payload, credit });
    }

    fn connected(&self, node: NodeId, incarnation: u64) {
        self.0.connected(node, Incarnation(incarnation));
    }

    fn broken(&self, node: NodeId) {
        self.0.broken(node, &Broken::Ended);
    }
}

/// Endpoint of a node in the network.
#[derive(Clone)]
pub(super) struct Port {
    pub which: usize,
    pub network: SimNetwork,
    pub journal: Arc<Journal>,
}

impl Port {
    /// Connects an incarnation of a node. Returns its peers.
    pub(super) fn connect(
        &self,
        (node, incarnation): (NodeId, u64),
        process: u64,
        receiver: Arc<dyn Receiver>,
    ) -> Peers {
        let mut mailroom = None;
        let over = |sink| {
            mailroom = Some(sink);
            Arc::new(self.clone()) as Arc<dyn Network>
        };
        let peers = Peers::with_network(over, receiver, process << 32);
        let inbox = Arc::new(PeersInbox(mailroom.expect("the network is made with its sink")));
        self.network.start_node(self.which, NetworkEnd { node, incarnation, process, inbox });
        peers
    }
}

impl Network for Port {
    fn send(&self, to: NodeId, message: Message) -> SendOutcome {
        let Some(link) = self.network.link(self.which, to) else { return SendOutcome::NoLink };
        if message.receipt.as_ref().is_some_and(|receipt| !receipt.mark_leaving()) {
            return SendOutcome::Sent;
        }
        let payload = Bytes::from([message.head.bytes(), &message.body].concat());
        self.journal.record((Scheduler::current().now(), self.which, link.to, &payload[..]));
        self.journal.add("bytes sent", payload.len() as u64);
        let may_repeat = may_come_twice(&message, &payload);
        let posting = Posting { link, may_repeat, may_be_stale: message.lane != Lane::Call };
        let Message { lane, group, .. } = message;
        self.network.send(&posting, &Envelope { lane, group, payload });
        SendOutcome::Sent
    }

    fn is_linked(&self, to: NodeId) -> bool {
        self.network.link(self.which, to).is_some()
    }

    fn silent_ms(&self, to: NodeId) -> Option<u64> {
        self.network.silent_ms(self.which, to)
    }

    fn wait_bulk_space(&self, _to: NodeId) -> Boxed<'_, SendOutcome> {
        Box::pin(async { SendOutcome::NoLink })
    }

    fn set_members(&self, _members: Vec<Member>) {}

    fn status(&self) -> Vec<PeerStatus> {
        Vec::new()
    }

    fn stop(&self) -> Boxed<'_, ()> {
        Box::pin(async {})
    }
}

/// Returns true if the network may duplicate a message. Messages between vnodes are merged, and
/// those between members of a group may come twice. A forwarded request is a new write each time,
/// so the network must not duplicate it, nor calls to the directory.
fn may_come_twice(message: &Message, payload: &[u8]) -> bool {
    const HEAD: usize = 13;
    const PASSED_ON: u8 = 2;
    const ENVELOPE: u8 = 8;
    if message.lane != Lane::Call {
        return true;
    }
    let kind = match payload.get(HEAD + 1) {
        Some(&ENVELOPE) => payload.get(HEAD + 11),
        other => other,
    };
    let call = payload.get(HEAD..).and_then(CallKind::from_payload);
    let is_request = matches!(call, Some(CallKind::Request | CallKind::RequestForVersion));
    kind != Some(&PASSED_ON) && !is_request
}

/// Messages that a node has sent and the simulation has not taken yet: receiver, group, and
/// payload.
pub(crate) type Outbox = Arc<Mutex<Vec<(NodeId, GroupId, Bytes)>>>;

struct OutboxNetwork(Outbox);

impl Network for OutboxNetwork {
    fn send(&self, to: NodeId, message: Message) -> SendOutcome {
        let whole = Bytes::from([message.head.bytes(), &message.body].concat());
        self.0.lock().expect("one thread").push((to, message.group, whole));
        SendOutcome::Sent
    }

    fn is_linked(&self, _to: NodeId) -> bool {
        true
    }

    fn wait_bulk_space(&self, _to: NodeId) -> Boxed<'_, SendOutcome> {
        Box::pin(async { SendOutcome::NoLink })
    }

    fn set_members(&self, _members: Vec<Member>) {}

    fn status(&self) -> Vec<PeerStatus> {
        Vec::new()
    }

    fn stop(&self) -> Boxed<'_, ()> {
        Box::pin(async {})
    }
}

/// Receiver that ignores everything: the simulation delivers messages to groups itself.
struct NullReceiver;

impl Sink for NullReceiver {
    fn deliver(&self, _message: IncomingMessage) {}
    fn connected(&self, _node: NodeId, _incarnation: Incarnation) {}
    fn broken(&self, _node: NodeId, _reason: &Broken) {}
}

impl Receiver for NullReceiver {
    fn deliver_call(&self, _asked: IncomingCall) {}
}

/// Returns peers that put all messages into this outbox.
pub(crate) fn outbox_peers(outbox: Outbox) -> Peers {
    Peers::with_network(|_| Arc::new(OutboxNetwork(outbox)), Arc::new(NullReceiver), 1)
}

//! A network that keeps what is sent until the world picks it up.

use base::{GroupId, NodeId};
use bytes::Bytes;
use std::sync::{Arc, Mutex};
use transport::{
    Boxed, Broken, Incarnation, IncomingCall, IncomingMessage, Member, Message, Network,
    PeerStatus, Peers, Receiver, Sending, Sink,
};

/// What a node sent and the world has not picked up: to whom, about which group, and the whole
/// message.
pub(super) type Outbox = Arc<Mutex<Vec<(NodeId, GroupId, Bytes)>>>;

struct Wire(Outbox);

impl Network for Wire {
    fn send(&self, to: NodeId, message: Message) -> Sending {
        let whole = Bytes::from([message.head.bytes(), &message.body].concat());
        self.0.lock().expect("one thread").push((to, message.group, whole));
        Sending::Sent
    }

    fn linked(&self, _to: NodeId) -> bool {
        true
    }

    fn bulk_room(&self, _to: NodeId) -> Boxed<'_, Sending> {
        Box::pin(async { Sending::NoLink })
    }

    fn set_members(&self, _members: Vec<Member>) {}

    fn status(&self) -> Vec<PeerStatus> {
        Vec::new()
    }

    fn stop(&self) -> Boxed<'_, ()> {
        Box::pin(async {})
    }
}

/// Nobody hears through it: the world brings messages to groups itself.
struct Deaf;

impl Sink for Deaf {
    fn deliver(&self, _message: IncomingMessage) {}
    fn connected(&self, _node: NodeId, _incarnation: Incarnation) {}
    fn broken(&self, _node: NodeId, _reason: &Broken) {}
}

impl Receiver for Deaf {
    fn asked(&self, _asked: IncomingCall) {}
}

/// Peers that put everything into this box.
pub(super) fn peers(outbox: Outbox) -> Peers {
    Peers::over(|_| Arc::new(Wire(outbox)), Arc::new(Deaf), 1)
}

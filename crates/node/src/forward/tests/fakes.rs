//! Scripted networks.

use base::wire::write_answer;
use base::{NodeId, Reply, Result};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock};
use transport::{
    Boxed, Broken, Credit, Incarnation, IncomingCall, IncomingMessage, Lane, Member, Message,
    Network, PeerStatus, Peers, Receiver, Sending, Sink,
};

/// Reaction of a node to the next question.
pub(super) enum Will {
    Answer(Result<Reply>),
    /// An answer of these bytes.
    Say(&'static [u8]),
    Decline,
    /// Takes the request, then breaks the connection.
    Break,
    /// No connection to the node.
    NoLink,
    /// Takes the request and never answers.
    Silence,
}

/// Nodes that follow a script; a node without a script has no connection.
#[derive(Default)]
pub(super) struct Script {
    will: Mutex<BTreeMap<NodeId, VecDeque<Will>>>,
    /// Nodes that were asked, in order.
    pub(super) asked: Mutex<Vec<NodeId>>,
}

impl Script {
    pub(super) fn of(steps: impl IntoIterator<Item = (u64, Will)>) -> Arc<Script> {
        let script = Script::default();
        for (node, will) in steps {
            script.then(node, will);
        }
        Arc::new(script)
    }

    pub(super) fn then(&self, node: u64, will: Will) {
        let mut all = self.will.lock().expect("plain data");
        all.entry(NodeId(node)).or_default().push_back(will);
    }

    pub(super) fn peers(self: &Arc<Script>) -> Peers {
        let script = self.clone();
        let network = |sink| Arc::new(Scripted { script, sink }) as Arc<dyn Network>;
        Peers::over(network, Arc::new(Nobody), 7)
    }

    pub(super) fn asked(&self) -> Vec<u64> {
        self.asked.lock().expect("plain data").iter().map(|node| node.0).collect()
    }
}

struct Scripted {
    script: Arc<Script>,
    sink: Arc<dyn Sink>,
}

impl Network for Scripted {
    fn send(&self, to: NodeId, message: Message) -> Sending {
        let will =
            self.script.will.lock().expect("plain data").get_mut(&to).and_then(VecDeque::pop_front);
        let will = will.unwrap_or(Will::NoLink);
        self.script.asked.lock().expect("plain data").push(to);
        if matches!(will, Will::NoLink) {
            return Sending::NoLink;
        }
        assert!(message.receipt.as_ref().is_some_and(|receipt| receipt.leave()), "it leaves once");
        let token = &message.head.bytes()[1..9];
        let answer = |kind: u8, body: &[u8]| {
            let payload = [&[kind][..], token, &[0; 4], body].concat().into();
            self.sink.deliver(delivered(to, Lane::Call, message.group, payload));
        };
        match will {
            Will::Answer(reply) => {
                let mut body = Vec::new();
                write_answer(&reply, usize::MAX, &mut body);
                answer(2, &body);
            }
            Will::Say(bytes) => answer(2, bytes),
            Will::Decline => answer(3, &[]),
            Will::Break => self.sink.broken(to, &Broken::Ended),
            Will::NoLink | Will::Silence => {}
        }
        Sending::Sent
    }

    fn linked(&self, _: NodeId) -> bool {
        true
    }

    fn bulk_room(&self, _: NodeId) -> Boxed<'_, Sending> {
        Box::pin(async { Sending::NoLink })
    }

    fn set_members(&self, _: Vec<Member>) {}

    fn status(&self) -> Vec<PeerStatus> {
        Vec::new()
    }

    fn stop(&self) -> Boxed<'_, ()> {
        Box::pin(async {})
    }
}

fn delivered(from: NodeId, lane: Lane, group: base::GroupId, payload: Bytes) -> IncomingMessage {
    IncomingMessage {
        from,
        incarnation: Incarnation(1),
        lane,
        group,
        payload,
        credit: Credit::none(),
    }
}

/// Hears nothing.
pub(super) struct Nobody;

impl Sink for Nobody {
    fn deliver(&self, _: IncomingMessage) {}
    fn connected(&self, _: NodeId, _: Incarnation) {}
    fn broken(&self, _: NodeId, _: &Broken) {}
}

impl Receiver for Nobody {
    fn asked(&self, _: IncomingCall) {}
}

type Slot = Arc<OnceLock<Arc<dyn Sink>>>;

/// Two nodes, each other's only peer, by plain calls.
struct Bridge {
    me: NodeId,
    other: Slot,
}

impl Network for Bridge {
    fn send(&self, _: NodeId, message: Message) -> Sending {
        if message.receipt.as_ref().is_some_and(|receipt| !receipt.leave()) {
            return Sending::Sent;
        }
        let payload = [message.head.bytes(), &message.body].concat().into();
        let other = self.other.get().expect("both ends are there");
        other.deliver(delivered(self.me, message.lane, message.group, payload));
        Sending::Sent
    }

    fn linked(&self, _: NodeId) -> bool {
        true
    }

    fn bulk_room(&self, _: NodeId) -> Boxed<'_, Sending> {
        Box::pin(async { Sending::Sent })
    }

    fn set_members(&self, _: Vec<Member>) {}

    fn status(&self) -> Vec<PeerStatus> {
        Vec::new()
    }

    fn stop(&self) -> Boxed<'_, ()> {
        Box::pin(async {})
    }
}

/// The ends of a bridge: node 1's with this receiver, node 2's with that.
pub(super) fn bridge(one: Arc<dyn Receiver>, two: Arc<dyn Receiver>) -> (Peers, Peers) {
    let (to_one, to_two) = (Slot::default(), Slot::default());
    let end = |me: u64, mine: &Slot, other: &Slot, receiver| {
        let (mine, other) = (mine.clone(), other.clone());
        let network = |sink| {
            assert!(mine.set(sink).is_ok(), "an end is made once");
            Arc::new(Bridge { me: NodeId(me), other }) as Arc<dyn Network>
        };
        Peers::over(network, receiver, 100 * me)
    };
    (end(1, &to_one, &to_two, one), end(2, &to_two, &to_one, two))
}

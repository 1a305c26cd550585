//! Scripted networks.

use base::wire::write_answer;
use base::{NodeId, Reply, Result};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock};
use transport::{
    Boxed, Broken, Credit, Incarnation, IncomingCall, IncomingMessage, Lane, Member, Message,
    Network, PeerStatus, Peers, Receiver, SendOutcome, Sink,
};

/// Reaction of a node to the next request.
pub(super) enum Reaction {
    Answer(Result<Reply>),
    /// Answers with these bytes.
    Bytes(&'static [u8]),
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
    reaction: Mutex<BTreeMap<NodeId, VecDeque<Reaction>>>,
    /// Nodes that were called, in order.
    pub(super) asked: Mutex<Vec<NodeId>>,
}

impl Script {
    pub(super) fn of(steps: impl IntoIterator<Item = (u64, Reaction)>) -> Arc<Script> {
        let script = Script::default();
        for (node, reaction) in steps {
            script.push(node, reaction);
        }
        Arc::new(script)
    }

    pub(super) fn push(&self, node: u64, reaction: Reaction) {
        let mut reactions = self.reaction.lock().expect("plain data");
        reactions.entry(NodeId(node)).or_default().push_back(reaction);
    }

    pub(super) fn peers(self: &Arc<Script>) -> Peers {
        let script = self.clone();
        let network = |sink| Arc::new(Scripted { script, sink }) as Arc<dyn Network>;
        Peers::with_network(network, Arc::new(NullReceiver), 7)
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
    fn send(&self, to: NodeId, message: Message) -> SendOutcome {
        let reaction = self
            .script
            .reaction
            .lock()
            .expect("plain data")
            .get_mut(&to)
            .and_then(VecDeque::pop_front);
        let reaction = reaction.unwrap_or(Reaction::NoLink);
        self.script.asked.lock().expect("plain data").push(to);
        if matches!(reaction, Reaction::NoLink) {
            return SendOutcome::NoLink;
        }
        assert!(
            message.receipt.as_ref().is_some_and(|receipt| receipt.mark_leaving()),
            "it leaves once"
        );
        let token = &message.head.bytes()[1..9];
        let answer = |kind: u8, body: &[u8]| {
            let payload = [&[kind][..], token, &[0; 4], body].concat().into();
            self.sink.deliver(delivered(to, Lane::Call, message.group, payload));
        };
        match reaction {
            Reaction::Answer(reply) => {
                let mut body = Vec::new();
                write_answer(&reply, usize::MAX, &mut body);
                answer(2, &body);
            }
            Reaction::Bytes(bytes) => answer(2, bytes),
            Reaction::Decline => answer(3, &[]),
            Reaction::Break => self.sink.broken(to, &Broken::Ended),
            Reaction::NoLink | Reaction::Silence => {}
        }
        SendOutcome::Sent
    }

    fn is_linked(&self, _: NodeId) -> bool {
        true
    }

    fn wait_bulk_space(&self, _: NodeId) -> Boxed<'_, SendOutcome> {
        Box::pin(async { SendOutcome::NoLink })
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

/// Ignores everything.
pub(super) struct NullReceiver;

impl Sink for NullReceiver {
    fn deliver(&self, _: IncomingMessage) {}
    fn connected(&self, _: NodeId, _: Incarnation) {}
    fn broken(&self, _: NodeId, _: &Broken) {}
}

impl Receiver for NullReceiver {
    fn deliver_call(&self, _: IncomingCall) {}
}

type Slot = Arc<OnceLock<Arc<dyn Sink>>>;

/// Connection of two nodes, each other's only peer, by plain calls.
struct Bridge {
    node: NodeId,
    other: Slot,
}

impl Network for Bridge {
    fn send(&self, _: NodeId, message: Message) -> SendOutcome {
        if message.receipt.as_ref().is_some_and(|receipt| !receipt.mark_leaving()) {
            return SendOutcome::Sent;
        }
        let payload = [message.head.bytes(), &message.body].concat().into();
        let other = self.other.get().expect("both ends are there");
        other.deliver(delivered(self.node, message.lane, message.group, payload));
        SendOutcome::Sent
    }

    fn is_linked(&self, _: NodeId) -> bool {
        true
    }

    fn wait_bulk_space(&self, _: NodeId) -> Boxed<'_, SendOutcome> {
        Box::pin(async { SendOutcome::Sent })
    }

    fn set_members(&self, _: Vec<Member>) {}

    fn status(&self) -> Vec<PeerStatus> {
        Vec::new()
    }

    fn stop(&self) -> Boxed<'_, ()> {
        Box::pin(async {})
    }
}

/// Returns the ends of a bridge: node 1's with the first receiver, node 2's with the second.
pub(super) fn bridge(one: Arc<dyn Receiver>, two: Arc<dyn Receiver>) -> (Peers, Peers) {
    let (to_one, to_two) = (Slot::default(), Slot::default());
    let end = |node: u64, mine: &Slot, other: &Slot, receiver| {
        let (mine, other) = (mine.clone(), other.clone());
        let network = |sink| {
            assert!(mine.set(sink).is_ok(), "an end is made once");
            Arc::new(Bridge { node: NodeId(node), other }) as Arc<dyn Network>
        };
        Peers::with_network(network, receiver, 100 * node)
    };
    (end(1, &to_one, &to_two, one), end(2, &to_two, &to_one, two))
}

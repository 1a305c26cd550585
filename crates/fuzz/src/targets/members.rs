//! The port for nodes: a stranger's bytes, and the messages of a member that says anything.
//!
//! A stranger changes nothing. A member is trusted with what it can order, so after an order the
//! node may serve no more and is replaced; but no message of a member ends it, makes a thread of it
//! panic, or takes more than its share of memory.

use crate::input::InputReader;
use crate::server::{Joined, ServedNode};
use base::codec::checksum;
use base::{ClusterId, GroupId, NodeId};
use bytes::Bytes;
use runtime::TaskScope;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use transport::{
    Broken, Credential, Incarnation, IncomingCall, IncomingMessage, Lane, Member, Message,
    PeerSettings, Peers, Receiver, Sink,
};

const HOSTILE: NodeId = NodeId(0x00BA_DBAD);
/// Most messages of one input.
const MESSAGES_MAX: usize = 24;
/// Time in which the node is asked to answer a call.
const CALL_TIMEOUT: Duration = Duration::from_millis(100);
/// Longest wait for a connection.
const LINK_TIMEOUT: Duration = Duration::from_secs(20);

/// A greeting, and what follows it: any bytes, or a body in a valid envelope.
pub fn stranger(input: &[u8]) {
    static NODE: Mutex<Option<ServedNode>> = Mutex::new(None);
    let mut place = NODE.lock().unwrap_or_else(PoisonError::into_inner);
    let node = place.get_or_insert_with(|| {
        let node = ServedNode::start();
        node.settle();
        node
    });
    let before = node.identity();
    let mut input = InputReader::new(input);
    let bytes = match input.below(4) {
        0 => input.rest().to_vec(),
        _ => [sealed(input.block()), input.rest().to_vec()].concat(),
    };
    let answer = node.exchange(node.peers, &bytes);
    if let Some(body) = answer.bytes.get(20..) {
        assert_eq!(body.first(), Some(&4), "a stranger gets a refusal and nothing else");
    }
    assert!(node.identity() == before, "a stranger leaves a mark in the data directory");
    if !node.serves() {
        *place = None;
    }
}

/// Puts the body of a greeting into a valid envelope.
fn sealed(body: &[u8]) -> Vec<u8> {
    let (length, sum) = (body.len() as u32, checksum(body, 0));
    [b"CRDZPEER", &length.to_le_bytes()[..], &sum.to_le_bytes(), body].concat()
}

/// Receiver of a hostile member: answers every call with the next bytes of the input.
#[derive(Default)]
struct HostileReceiver {
    peers: OnceLock<Peers>,
    answers: Mutex<VecDeque<Bytes>>,
}

impl HostileReceiver {
    fn answers(&self) -> MutexGuard<'_, VecDeque<Bytes>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for HostileReceiver {
    fn deliver(&self, _: IncomingMessage) {}
    fn connected(&self, _: NodeId, _: Incarnation) {}
    fn broken(&self, _: NodeId, _: &Broken) {}
}

impl Receiver for HostileReceiver {
    fn deliver_call(&self, call: IncomingCall) {
        let Some(peers) = self.peers.get() else { return };
        let answer = self.answers().pop_front();
        let _ = match answer {
            Some(answer) => peers.answer(&call, answer).map(drop),
            None => {
                peers.decline(&call);
                Ok(())
            }
        };
    }
}

/// A node, and a member of its cluster that is connected with it.
struct Attack {
    peers: Peers,
    receiver: Arc<HostileReceiver>,
    target: NodeId,
    // Dropped last: the others' tasks run on its threads.
    node: ServedNode,
}

impl Attack {
    fn start() -> Attack {
        let node = ServedNode::start();
        let Joined { cluster, secret, founder } = node.add_member(HOSTILE, "hostile");
        let settings = PeerSettings {
            credential: Some(Credential { secret, is_required: true }),
            ..hostile_settings(cluster)
        };
        let receiver = Arc::<HostileReceiver>::default();
        let address = node.peers.to_string();
        let peers = node.block_on(async {
            Peers::start(settings, None, receiver.clone(), TaskScope::new("hostile"))
        });
        let _ = receiver.peers.set(peers.clone());
        let member = Member {
            node: founder,
            name: "target".into(),
            address,
            incarnation: Incarnation(0),
            incarnation_id: None,
        };
        node.block_on(async { peers.set_members(vec![member]) });
        let attack = Attack { peers, receiver, target: founder, node };
        attack.wait_linked();
        attack
    }

    fn wait_linked(&self) {
        let started = Instant::now();
        while !self.peers.is_linked(self.target) {
            assert!(started.elapsed() < LINK_TIMEOUT, "the node lets its member in no more");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        self.node.block_on(self.peers.stop());
    }
}

fn hostile_settings(cluster: ClusterId) -> PeerSettings {
    let mut settings = PeerSettings::new(cluster, HOSTILE, Incarnation(1));
    settings.name = "hostile".into();
    settings.advertise = "127.0.0.1:1".into();
    settings
}

/// Messages and calls of a member, and its answers to the node's calls.
pub fn member(input: &[u8]) {
    static ATTACK: Mutex<Option<Attack>> = Mutex::new(None);
    let mut place = ATTACK.lock().unwrap_or_else(PoisonError::into_inner);
    let attack = place.get_or_insert_with(Attack::start);
    attack.wait_linked();
    let mut input = InputReader::new(input);
    let mut calls = Vec::new();
    for _ in 0..MESSAGES_MAX {
        if input.is_empty() {
            break;
        }
        let group = GroupId(input.choose(&[0, 1, 1, 1, 2, 77, u32::MAX]));
        let kind = input.below(6);
        let bytes = Bytes::copy_from_slice(input.block());
        match kind {
            0 => attack.receiver.answers().push_back(bytes),
            1..=3 => {
                let lane = [Lane::Control, Lane::Data, Lane::Bulk][kind - 1];
                let message = Message::new(lane, group, bytes);
                attack.node.block_on(async { attack.peers.send(attack.target, message) });
            }
            _ => calls.push(attack.peers.call(attack.target, group, bytes, CALL_TIMEOUT)),
        }
    }
    attack.node.block_on(async {
        for call in calls {
            let _ = call.await;
        }
    });
    attack.receiver.answers().clear();
    if !attack.node.serves() {
        *place = None;
    }
}

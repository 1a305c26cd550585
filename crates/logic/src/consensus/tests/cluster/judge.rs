//! Sees everything that any replica ever says, across all lives.

use crate::consensus::tests::machine::Machine;
use crate::consensus::{Body, Effect, Message, ReadToken, Role};
use base::{Ballot, NodeId};
use std::collections::BTreeMap;

/// The ledger of one history.
#[derive(Default)]
pub struct Judge {
    /// Every value ever decided, by place.
    pub ledger: Vec<u64>,
    /// Who led which ballot.
    masters: BTreeMap<Ballot, NodeId>,
    /// What each read under way must see.
    reads: BTreeMap<ReadToken, u64>,
    next_read: u64,
    /// Reads that were answered.
    pub answered: u64,
    /// A digest of all that was seen, to compare two runs of one seed.
    pub digest: u64,
}

impl Judge {
    /// A read comes: it must see everything that is decided by now.
    pub fn ask(&mut self) -> ReadToken {
        self.next_read += 1;
        let token = ReadToken(self.next_read);
        self.reads.insert(token, self.ledger.len() as u64);
        token
    }

    /// How many ballots were led.
    pub fn reigns(&self) -> usize {
        self.masters.len()
    }

    fn note(&mut self, word: u64) {
        self.digest = (self.digest.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    /// Judges what a replica did, given every voter's machine, up or down.
    pub fn judge(&mut self, machine: &Machine, node: NodeId, voters: &[&Machine]) {
        for effect in &machine.effects {
            match *effect {
                Effect::Decided { upto } => {
                    self.note(node.0 << 32 | upto.0);
                    self.decided(machine, upto.0 as usize, voters);
                }
                Effect::Role { role: Role::Master, ballot, .. } => {
                    self.note(ballot.round << 8 | node.0);
                    let led = self.masters.insert(ballot, node);
                    assert_eq!(led, None, "ballot {ballot} is led twice");
                    assert_eq!(ballot.node, node, "one leads by a ballot of one's own");
                }
                Effect::ReadAt { token, index } => {
                    self.note(token.0 << 32 | index.0);
                    let floor = self.reads.remove(&token).expect("a read is answered once");
                    assert!(index.0 >= floor, "node {node} read {index}, decided was {floor}");
                    assert!(machine.replica.decided() >= index, "read ahead of what is decided");
                    self.answered += 1;
                }
                Effect::Send { message, .. } => told(machine, message),
                _ => {}
            }
        }
    }

    fn decided(&mut self, machine: &Machine, upto: usize, voters: &[&Machine]) {
        for place in 0..upto {
            let value = machine.values[place];
            if let Some(decided) = self.ledger.get(place) {
                assert_eq!(*decided, value, "two values at index {}", place + 1);
                continue;
            }
            let holders = voters.iter().filter(|voter| voter.holds(place, value)).count();
            // Its own arithmetic: the replicas' may be broken.
            assert!(holders * 2 > voters.len(), "value {} is on {holders} disks", place + 1);
            self.ledger.push(value);
        }
    }
}

/// What a crash could make it forget, no replica says.
fn told(machine: &Machine, message: Message) {
    let (promised, log) = machine.on_disk;
    let said = match message.body {
        Body::Prepare { .. } => promised >= message.ballot,
        Body::Granted { .. } => promised == message.ballot,
        Body::Promise { log: said } => {
            promised == message.ballot && log.ballot == said.ballot && log.last >= said.last
        }
        Body::Accepted { upto } => log.ballot == message.ballot && log.last >= upto,
        _ => true,
    };
    assert!(said, "{message:?} is said, on disk are {promised} and {log:?}");
}

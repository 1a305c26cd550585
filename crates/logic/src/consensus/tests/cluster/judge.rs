//! Sees everything that any replica ever says, across all lives.

use crate::consensus::tests::machine::Machine;
use crate::consensus::{Body, Configuration, Effect, Message, ReadToken, Role};
use base::{Ballot, LogIndex, NodeId};
use sim::Counts;
use std::collections::BTreeMap;

/// The ledger of one history.
pub struct Judge {
    /// Every value ever decided, by place.
    pub ledger: Vec<u64>,
    /// Who led which ballot.
    masters: BTreeMap<Ballot, NodeId>,
    /// What each read under way must see.
    reads: BTreeMap<ReadToken, u64>,
    next_read: u64,
    /// Reads that were answered.
    answered: u64,
    /// A digest of all that was seen, to compare two runs of one seed.
    digest: u64,
    /// The configurations, with the stop-sign's index each began with.
    configurations: Vec<(LogIndex, Configuration)>,
}

impl Judge {
    /// Nothing has happened yet.
    pub fn new(first: Configuration) -> Judge {
        Judge {
            ledger: Vec::new(),
            masters: BTreeMap::new(),
            reads: BTreeMap::new(),
            next_read: 0,
            answered: 0,
            digest: 0,
            configurations: vec![(LogIndex(0), first)],
        }
    }

    /// What is in force behind an index.
    pub fn configuration_at(&self, upto: LogIndex) -> (LogIndex, Configuration) {
        let known = self.configurations.iter().rev().find(|(base, _)| *base <= upto);
        known.expect("the first began with 0").clone()
    }

    /// Returns the digest of the history, and what it came to.
    pub fn outcome(&self) -> (u64, Counts) {
        let counts = [
            ("values decided", self.ledger.len() as u64),
            ("reads", self.answered),
            ("ballots led", self.masters.len() as u64),
            ("changes of members", self.configurations.len() as u64 - 1),
        ];
        (self.digest, counts.into())
    }

    /// A read comes: it must see everything that is decided by now.
    pub fn ask(&mut self) -> ReadToken {
        self.next_read += 1;
        let token = ReadToken(self.next_read);
        self.reads.insert(token, self.ledger.len() as u64);
        token
    }

    fn note(&mut self, word: u64) {
        self.digest = (self.digest.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    /// Judges what a replica did, given every machine, up or down, and which values are stop-signs.
    pub fn judge(
        &mut self,
        place: usize,
        machine: &Machine,
        machines: &[&Machine],
        signs: &BTreeMap<u64, Configuration>,
    ) {
        let node = NodeId(place as u64 + 1);
        for effect in &machine.effects {
            match *effect {
                Effect::Decided { upto } => {
                    self.note(node.0 << 32 | upto.0);
                    self.decided(machine, upto.0 as usize, machines, signs);
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
                Effect::Adopt { ballot, .. } => {
                    let promised = machine.replica.promised();
                    assert_eq!(ballot, promised, "what was staged under {ballot} is void by now");
                }
                Effect::Send { message, .. } => told(machine, message),
                _ => {}
            }
        }
    }

    fn decided(
        &mut self,
        machine: &Machine,
        upto: usize,
        machines: &[&Machine],
        signs: &BTreeMap<u64, Configuration>,
    ) {
        for place in 0..upto {
            let value = machine.values[place];
            if let Some(decided) = self.ledger.get(place) {
                assert_eq!(*decided, value, "two values at index {}", place + 1);
                continue;
            }
            let (_, present) = self.configurations.last().expect("there is a first");
            let voters: Vec<_> =
                present.voters().map(|node| machines[node.0 as usize - 1]).collect();
            let holders = voters.iter().filter(|voter| voter.holds(place, value)).count();
            // Its own arithmetic: the replicas' may be broken.
            let needed = present.quorum().map_or(voters.len() / 2 + 1, usize::from);
            assert!(holders >= needed, "value {} is on {holders} disks", place + 1);
            self.ledger.push(value);
            if let Some(next) = signs.get(&value) {
                assert_eq!(next.id().0, present.id().0 + 1, "one configuration after the other");
                self.configurations.push((LogIndex(place as u64 + 1), next.clone()));
            }
        }
    }
}

/// What a crash could make it forget, no replica says.
fn told(machine: &Machine, message: Message) {
    let (promised, log) = machine.on_disk;
    let said = match message.body {
        Body::Prepare { .. } => promised >= message.ballot,
        Body::Granted { .. } => promised == message.ballot,
        Body::Promise { log: said } | Body::TornPromise { log: said, .. } => {
            promised == message.ballot && log.ballot == said.ballot && log.last >= said.last
        }
        Body::Accepted { upto } => log.ballot == message.ballot && log.last >= upto,
        _ => true,
    };
    assert!(said, "{message:?} is said, on disk are {promised} and {log:?}");
}

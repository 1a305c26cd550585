//! Judge of a simulated group: checks every effect of every replica, across all incarnations.

use crate::consensus::tests::machine::Machine;
use crate::consensus::{Body, Configuration, Effect, Message, ReadToken, Role};
use base::{Ballot, LogIndex, NodeId};
use sim::Counts;
use std::collections::BTreeMap;

/// Judge of one history, with its ledger of decided values.
pub struct Judge {
    /// Decided values, by index minus 1.
    pub ledger: Vec<u64>,
    /// Node that led each ballot.
    masters: BTreeMap<Ballot, NodeId>,
    /// Number of entries that each open read must see.
    reads: BTreeMap<ReadToken, u64>,
    next_read: u64,
    /// Number of answered reads.
    answered: u64,
    /// Digest of all effects, to compare two runs of one seed.
    digest: u64,
    /// Configurations, each with the index of the stop-sign with which it began.
    configurations: Vec<(LogIndex, Configuration)>,
}

impl Judge {
    /// Returns the judge of a new history.
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

    /// Returns the configuration in force behind an index, and the index with which it began.
    pub fn configuration_at(&self, last: LogIndex) -> (LogIndex, Configuration) {
        let known = self.configurations.iter().rev().find(|(base, _)| *base <= last);
        known.expect("the first began with 0").clone()
    }

    /// Returns the digest of the history, and its counts.
    pub fn outcome(&self) -> (u64, Counts) {
        let counts = [
            ("values decided", self.ledger.len() as u64),
            ("reads", self.answered),
            ("ballots led", self.masters.len() as u64),
            ("changes of members", self.configurations.len() as u64 - 1),
        ];
        (self.digest, counts.into())
    }

    /// Registers a read, which must see every entry that is decided by now.
    pub fn register_read(&mut self) -> ReadToken {
        self.next_read += 1;
        let token = ReadToken(self.next_read);
        self.reads.insert(token, self.ledger.len() as u64);
        token
    }

    fn add_to_digest(&mut self, value: u64) {
        self.digest = (self.digest.rotate_left(5) ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    /// Checks the effects of a replica's step. `machines`: all nodes, up or down. `signs`: values
    /// that are stop-signs.
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
                Effect::Decided { last } => {
                    self.add_to_digest(node.0 << 32 | last.0);
                    self.check_decided(machine, last.0 as usize, machines, signs);
                }
                Effect::Role { role: Role::Master, ballot, .. } => {
                    self.add_to_digest(ballot.round << 8 | node.0);
                    let previous = self.masters.insert(ballot, node);
                    assert_eq!(previous, None, "ballot {ballot} is led twice");
                    assert_eq!(ballot.node, node, "one leads by a ballot of one's own");
                }
                Effect::ReadAt { token, index } => {
                    self.add_to_digest(token.0 << 32 | index.0);
                    let floor = self.reads.remove(&token).expect("a read is answered once");
                    assert!(index.0 >= floor, "node {node} read {index}, decided was {floor}");
                    assert!(machine.replica.decided() >= index, "read ahead of what is decided");
                    self.answered += 1;
                }
                Effect::Adopt { ballot, .. } => {
                    let promised = machine.replica.promised();
                    assert_eq!(ballot, promised, "what was staged under {ballot} is void by now");
                }
                Effect::Send { message, .. } => check_durable(machine, message),
                _ => {}
            }
        }
    }

    fn check_decided(
        &mut self,
        machine: &Machine,
        last: usize,
        machines: &[&Machine],
        signs: &BTreeMap<u64, Configuration>,
    ) {
        for place in 0..last {
            let value = machine.values[place];
            if let Some(decided) = self.ledger.get(place) {
                assert_eq!(*decided, value, "two values at index {}", place + 1);
                continue;
            }
            let (_, current) = self.configurations.last().expect("there is a first");
            let voters: Vec<_> =
                current.voters().map(|node| machines[node.0 as usize - 1]).collect();
            let holders = voters.iter().filter(|voter| voter.holds(place, value)).count();
            // The judge computes the quorum itself: the replicas' computation may be the mutant.
            let needed = current.quorum().map_or(voters.len() / 2 + 1, usize::from);
            assert!(holders >= needed, "value {} is on {holders} disks", place + 1);
            self.ledger.push(value);
            if let Some(next) = signs.get(&value) {
                assert_eq!(next.id().0, current.id().0 + 1, "one configuration after the other");
                self.configurations.push((LogIndex(place as u64 + 1), next.clone()));
            }
        }
    }
}

/// Asserts that a sent message states nothing that a crash of its sender could undo.
fn check_durable(machine: &Machine, message: Message) {
    let (promised, log) = machine.on_disk;
    let is_durable = match message.body {
        Body::Prepare { .. } => promised >= message.ballot,
        Body::Granted { .. } => promised == message.ballot,
        Body::Promise { log: claimed } | Body::TornPromise { log: claimed, .. } => {
            promised == message.ballot && log.ballot == claimed.ballot && log.last >= claimed.last
        }
        Body::Accepted { last } => log.ballot == message.ballot && log.last >= last,
        _ => true,
    };
    assert!(is_durable, "{message:?} is said, on disk are {promised} and {log:?}");
}

//! The same partial partitions for this core and for `omnipaxos` 0.2.4, whose paper names them:
//! both go on, and each decides one log.
//!
//! What is compared is what both define: whether a value proposed where somebody leads is decided,
//! and that no two members of one group decide different logs. Ballots, times and who leads differ.

use super::group::world::World;
use crate::consensus::{Configuration, LeaseClock, Member, Role};
use base::{ConfigurationId, NodeId, Part};
use omnipaxos::messages::Message;
use omnipaxos::storage::{Entry, NoSnapshot};
use omnipaxos::util::LogEntry;
use omnipaxos::{ClusterConfig, OmniPaxos, OmniPaxosConfig, ServerConfig};
use omnipaxos_storage::memory_storage::MemoryStorage;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
struct Value(u64);

impl Entry for Value {
    type Snapshot = NoSnapshot;
}

/// A group, ours or theirs.
trait Group {
    fn cut(&mut self, one: u64, other: u64);
    fn mend(&mut self);
    /// Long enough for an election.
    fn wait(&mut self);
    /// Gives a value to all who lead, or think so.
    fn propose(&mut self);
    /// What each member decided.
    fn decided(&self) -> Vec<Vec<u64>>;
}

impl Group for World {
    fn cut(&mut self, one: u64, other: u64) {
        self.cut.extend([(NodeId(one), NodeId(other)), (NodeId(other), NodeId(one))]);
    }

    fn mend(&mut self) {
        self.cut.clear();
    }

    fn wait(&mut self) {
        self.run(3_000);
    }

    fn propose(&mut self) {
        let leads = |(_, node): &(&NodeId, &super::group::world::Node)| {
            node.machine.replica.role() == Role::Master
        };
        let masters: Vec<_> = self.nodes.iter().filter(leads).map(|(name, _)| *name).collect();
        masters.into_iter().for_each(|master| World::propose(self, master));
    }

    fn decided(&self) -> Vec<Vec<u64>> {
        let machines = self.nodes.values().map(|node| &node.machine);
        let decided = machines.map(|it| it.values[..it.replica.decided().0 as usize].to_vec());
        decided.collect()
    }
}

struct Theirs {
    nodes: BTreeMap<u64, OmniPaxos<Value, MemoryStorage<Value>>>,
    cut: BTreeSet<(u64, u64)>,
    next_value: u64,
}

impl Theirs {
    fn new(count: u64) -> Theirs {
        let nodes: Vec<u64> = (1..=count).collect();
        let start = |pid: &u64| {
            let cluster_config =
                ClusterConfig { configuration_id: 1, nodes: nodes.clone(), flexible_quorum: None };
            let server_config =
                ServerConfig { pid: *pid, election_tick_timeout: 5, ..Default::default() };
            let config = OmniPaxosConfig { cluster_config, server_config };
            (*pid, config.build(MemoryStorage::default()).expect("sound"))
        };
        Theirs { nodes: nodes.iter().map(start).collect(), cut: BTreeSet::new(), next_value: 1 }
    }

    fn carry(&mut self) {
        for _ in 0..20 {
            let mut letters: Vec<(u64, Message<Value>)> = Vec::new();
            for (name, node) in &mut self.nodes {
                let mut outgoing = Vec::new();
                node.take_outgoing_messages(&mut outgoing);
                letters.extend(outgoing.into_iter().map(|letter| (*name, letter)));
            }
            for (from, letter) in letters {
                let to = letter.get_receiver();
                if !self.cut.contains(&(from, to)) {
                    self.nodes.get_mut(&to).expect("a member").handle_incoming(letter);
                }
            }
        }
    }
}

impl Group for Theirs {
    fn cut(&mut self, one: u64, other: u64) {
        self.cut.extend([(one, other), (other, one)]);
    }

    fn mend(&mut self) {
        // Its links are sessions: who lost one is told when it is back.
        for (one, other) in std::mem::take(&mut self.cut) {
            self.nodes.get_mut(&one).expect("a member").reconnected(other);
        }
    }

    fn wait(&mut self) {
        for _ in 0..200 {
            self.nodes.values_mut().for_each(OmniPaxos::tick);
            self.carry();
        }
    }

    fn propose(&mut self) {
        for (name, node) in &mut self.nodes {
            if node.get_current_leader().is_some_and(|(leader, _)| leader == *name) {
                node.append(Value(self.next_value)).expect("taken");
                self.next_value += 1;
            }
        }
    }

    fn decided(&self) -> Vec<Vec<u64>> {
        let value = |entry: LogEntry<Value>| match entry {
            LogEntry::Decided(Value(value)) => value,
            other => panic!("{other:?} is not decided"),
        };
        let log = |node: &OmniPaxos<Value, MemoryStorage<Value>>| {
            let suffix = node.read_decided_suffix(0).unwrap_or_default();
            suffix.into_iter().map(value).collect()
        };
        self.nodes.values().map(log).collect()
    }
}

/// How far anyone came, after seeing that all logs are beginnings of the longest.
fn furthest(group: &dyn Group) -> usize {
    let logs = group.decided();
    let longest = logs.iter().max_by_key(|log| log.len()).expect("somebody");
    assert!(logs.iter().all(|log| longest.starts_with(log)), "{logs:?}");
    longest.len()
}

/// Members that are parted before a few values, then parted otherwise: somebody still leads.
fn goes_on(group: &mut dyn Group, first: &[(u64, u64)], then: &[(u64, u64)]) {
    group.wait();
    first.iter().for_each(|(one, other)| group.cut(*one, *other));
    group.propose();
    group.wait();
    let before = furthest(group);
    assert!(before > 0, "a majority was connected");
    group.mend();
    then.iter().for_each(|(one, other)| group.cut(*one, *other));
    group.wait();
    group.propose();
    group.wait();
    let during = furthest(group);
    assert!(during > before, "nothing was decided while it was parted");
    group.mend();
    group.wait();
    group.propose();
    group.wait();
    let after = furthest(group);
    assert!(after > during);
    assert!(group.decided().iter().all(|log| log.len() == after), "in the end all are level");
}

fn both_go_on(count: u64, first: &[(u64, u64)], then: &[(u64, u64)]) {
    let member = |node| Member { node: NodeId(node), part: Part::Voter };
    let members = (1..=count).map(member).collect();
    let configuration = Configuration::new(ConfigurationId(0), members).expect("sound");
    let mut ours = World::new(configuration, &[], LeaseClock::default());
    (1..=count).for_each(|node| ours.start(NodeId(node)));
    goes_on(&mut ours, first, then);
    goes_on(&mut Theirs::new(count), first, then);
}

/// Of five, all hear node 1, and nobody hears another.
const HUB: [(u64, u64); 6] = [(2, 3), (2, 4), (2, 5), (3, 4), (3, 5), (4, 5)];

#[test]
fn both_survive_quorum_loss() {
    both_go_on(5, &[], &HUB);
}

#[test]
fn both_survive_a_chain() {
    both_go_on(3, &[], &[(1, 3)]);
    both_go_on(3, &[], &[(2, 3)]);
}

#[test]
fn both_survive_a_constrained_election() {
    both_go_on(5, &[(1, 2), (1, 3), (1, 4), (1, 5)], &HUB);
}

#[test]
fn both_survive_the_loss_of_any_two() {
    for one in 1..=5 {
        for other in one + 1..=5 {
            let lost: Vec<_> = (1..=5).flat_map(|node| [(one, node), (other, node)]).collect();
            both_go_on(5, &[], &lost);
        }
    }
}

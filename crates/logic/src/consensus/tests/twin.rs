//! Comparison with `omnipaxos` 0.2.4 under the partial partitions that its paper names: both make
//! progress, and each decides one log.
//!
//! Compared is what both define: whether an entry proposed at a leader is decided, with majorities
//! and with other quorums, and that no two members of one group decide different logs. Ballots,
//! times and leaders differ.

use super::group::world::World;
use crate::consensus::{Configuration, LeaseClock, Member, Quorums, Role};
use base::{ConfigurationId, NodeId, Part};
use omnipaxos::messages::Message;
use omnipaxos::storage::{Entry, NoSnapshot};
use omnipaxos::util::{FlexibleQuorum, LogEntry};
use omnipaxos::{ClusterConfig, OmniPaxos, OmniPaxosConfig, ServerConfig};
use omnipaxos_storage::memory_storage::MemoryStorage;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
struct Value(u64);

impl Entry for Value {
    type Snapshot = NoSnapshot;
}

/// Group of either implementation.
trait Group {
    fn cut(&mut self, one: u64, other: u64);
    fn mend(&mut self);
    /// Waits long enough for an election.
    fn wait(&mut self);
    /// Returns the members whose role is leader.
    fn leaders(&self) -> Vec<u64>;
    /// Proposes an entry at each of them.
    fn propose(&mut self);
    /// Returns the decided entries of each member.
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

    fn leaders(&self) -> Vec<u64> {
        let leads = |(_, node): &(&NodeId, &super::group::world::Node)| {
            node.machine.replica.role() == Role::Master
        };
        self.nodes.iter().filter(leads).map(|(name, _)| name.0).collect()
    }

    fn propose(&mut self) {
        for master in self.leaders() {
            World::propose(self, NodeId(master));
        }
    }

    fn decided(&self) -> Vec<Vec<u64>> {
        let machines = self.nodes.values().map(|node| &node.machine);
        let decided = machines.map(|it| it.values[..it.replica.decided().0 as usize].to_vec());
        decided.collect()
    }
}

struct OmniGroup {
    nodes: BTreeMap<u64, OmniPaxos<Value, MemoryStorage<Value>>>,
    cut: BTreeSet<(u64, u64)>,
    next_value: u64,
}

impl OmniGroup {
    fn new(count: u64, quorums: Quorums) -> OmniGroup {
        let nodes: Vec<u64> = (1..=count).collect();
        let Quorums { elect: read_quorum_size, save: write_quorum_size } = quorums;
        let flexible_quorum = Some(FlexibleQuorum { read_quorum_size, write_quorum_size });
        let start = |pid: &u64| {
            let nodes = nodes.clone();
            let cluster_config = ClusterConfig { configuration_id: 1, nodes, flexible_quorum };
            let server_config =
                ServerConfig { pid: *pid, election_tick_timeout: 5, ..Default::default() };
            let config = OmniPaxosConfig { cluster_config, server_config };
            (*pid, config.build(MemoryStorage::default()).expect("sound"))
        };
        OmniGroup { nodes: nodes.iter().map(start).collect(), cut: BTreeSet::new(), next_value: 1 }
    }

    fn exchange_messages(&mut self) {
        for _ in 0..20 {
            let mut messages: Vec<(u64, Message<Value>)> = Vec::new();
            for (name, node) in &mut self.nodes {
                let mut outgoing = Vec::new();
                node.take_outgoing_messages(&mut outgoing);
                messages.extend(outgoing.into_iter().map(|message| (*name, message)));
            }
            for (from, message) in messages {
                let to = message.get_receiver();
                if !self.cut.contains(&(from, to)) {
                    self.nodes.get_mut(&to).expect("a member").handle_incoming(message);
                }
            }
        }
    }
}

impl Group for OmniGroup {
    fn cut(&mut self, one: u64, other: u64) {
        self.cut.extend([(one, other), (other, one)]);
    }

    fn mend(&mut self) {
        // Its links are sessions: a member that lost one is notified when it is back.
        for (one, other) in std::mem::take(&mut self.cut) {
            self.nodes.get_mut(&one).expect("a member").reconnected(other);
        }
    }

    fn wait(&mut self) {
        for _ in 0..200 {
            self.nodes.values_mut().for_each(OmniPaxos::tick);
            self.exchange_messages();
        }
    }

    fn leaders(&self) -> Vec<u64> {
        let leads = |(name, node): &(&u64, &OmniPaxos<Value, MemoryStorage<Value>>)| {
            node.get_current_leader().is_some_and(|(leader, _)| leader == **name)
        };
        self.nodes.iter().filter(leads).map(|(name, _)| *name).collect()
    }

    fn propose(&mut self) {
        for name in self.leaders() {
            let node = self.nodes.get_mut(&name).expect("a member");
            node.append(Value(self.next_value)).expect("taken");
            self.next_value += 1;
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

/// Returns the length of the longest log, after checking that all logs are prefixes of it.
fn longest_log(group: &dyn Group) -> usize {
    let logs = group.decided();
    let longest = logs.iter().max_by_key(|log| log.len()).expect("somebody");
    assert!(logs.iter().all(|log| longest.starts_with(log)), "{logs:?}");
    longest.len()
}

/// Partitions the members before a few proposals, then in another way: a leader still exists.
fn assert_progress(group: &mut dyn Group, cut_first: &[(u64, u64)], cut_then: &[(u64, u64)]) {
    group.wait();
    cut_first.iter().for_each(|(one, other)| group.cut(*one, *other));
    group.propose();
    group.wait();
    let before = longest_log(group);
    assert!(before > 0, "a majority was connected");
    group.mend();
    cut_then.iter().for_each(|(one, other)| group.cut(*one, *other));
    group.wait();
    group.propose();
    group.wait();
    let during = longest_log(group);
    assert!(during > before, "nothing was decided while it was parted");
    group.mend();
    group.wait();
    group.propose();
    group.wait();
    let after = longest_log(group);
    assert!(after > during);
    assert!(group.decided().iter().all(|log| log.len() == after), "in the end all are level");
}

/// Builds both groups with this many voters, of which `quorum` save an entry (`None`: a majority).
fn both_groups(count: u64, quorum: Option<u8>) -> (Quorums, [Box<dyn Group>; 2]) {
    let member = |node| Member { node: NodeId(node), part: Part::Voter };
    let members = (1..=count).map(member).collect();
    let configuration = Configuration::new(ConfigurationId(0), members);
    let configuration = configuration.and_then(|it| it.with_quorum(quorum)).expect("sound");
    let quorums = configuration.quorums();
    let mut ours = World::new(configuration, &[], LeaseClock::default());
    (1..=count).for_each(|node| ours.start(NodeId(node)));
    (quorums, [Box::new(ours), Box::new(OmniGroup::new(count, quorums))])
}

fn assert_both_progress(
    count: u64,
    quorum: Option<u8>,
    cut_first: &[(u64, u64)],
    cut_then: &[(u64, u64)],
) {
    let (_, groups) = both_groups(count, quorum);
    for mut group in groups {
        assert_progress(&mut *group, cut_first, cut_then);
    }
}

/// Cut links of five nodes that are connected to node 1 only.
const HUB: [(u64, u64); 6] = [(2, 3), (2, 4), (2, 5), (3, 4), (3, 5), (4, 5)];

#[test]
fn group_survives_quorum_loss_like_omnipaxos() {
    for quorum in [None, Some(2)] {
        assert_both_progress(5, quorum, &[], &HUB);
    }
}

#[test]
fn group_survives_chained_partition_like_omnipaxos() {
    assert_both_progress(3, None, &[], &[(1, 3)]);
    assert_both_progress(3, None, &[], &[(2, 3)]);
    assert_both_progress(4, Some(2), &[], &[(1, 3), (1, 4), (2, 4)]);
}

#[test]
fn group_survives_constrained_election_like_omnipaxos() {
    for quorum in [None, Some(2)] {
        assert_both_progress(5, quorum, &[(1, 2), (1, 3), (1, 4), (1, 5)], &HUB);
    }
}

#[test]
fn five_voters_survive_loss_of_any_two_like_omnipaxos() {
    for one in 1..=5 {
        for other in one + 1..=5 {
            let lost: Vec<_> = (1..=5).flat_map(|node| [(one, node), (other, node)]).collect();
            assert_both_progress(5, None, &[], &lost);
        }
    }
}

/// Returns true if an entry is decided while these members are cut off from all others; at the end
/// all logs are equal.
fn decides_without(group: &mut dyn Group, count: u64, lost: &[u64]) -> bool {
    for one in lost {
        (1..=count).for_each(|other| group.cut(*one, other));
    }
    group.wait();
    let before = longest_log(group);
    group.propose();
    group.wait();
    let decides = longest_log(group) > before;
    group.mend();
    group.wait();
    let during = longest_log(group);
    group.propose();
    group.wait();
    let after = longest_log(group);
    assert!(after > during);
    assert!(group.decided().iter().all(|log| log.len() == after), "in the end all are level");
    decides
}

/// A leader needs as many voters as save an entry, and a new leader as many as elect: with this
/// many lost, with the leader among them or without, both go on, or both wait.
#[test]
fn group_progress_depends_on_quorums_like_omnipaxos() {
    // The other implementation accepts no group in which more save than elect.
    for (count, quorum) in [(3, 2), (4, 2), (4, 3), (5, 2), (5, 3), (6, 2), (6, 3), (7, 3)] {
        for lost in 1..count {
            for (whose, leads) in [("the leader's", true), ("others'", false)] {
                let (quorums, groups) = both_groups(count, Some(quorum));
                let needed = if leads { quorums.elect } else { quorums.save };
                for (mut group, name) in groups.into_iter().zip(["ours", "theirs"]) {
                    group.wait();
                    group.propose();
                    group.wait();
                    let [leader] = group.leaders()[..] else { panic!("{name}: one leads") };
                    let others = (1..=count).filter(|node| *node != leader);
                    let cut: Vec<_> = leads.then_some(leader).into_iter().chain(others).collect();
                    let decides = decides_without(&mut *group, count, &cut[..lost as usize]);
                    let expected = (count - lost) as usize >= needed;
                    let case = format!("{name}: {lost} of {count} lost, {whose} among them");
                    assert_eq!(decides, expected, "{case}, {quorums:?}");
                }
            }
        }
    }
}

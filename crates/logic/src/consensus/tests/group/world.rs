//! Machines of a story, and the directed links between them.

use super::tell::{is_news, tell};
use crate::consensus::tests::cluster::judge::Judge;
use crate::consensus::tests::machine::{Identity, Machine};
use crate::consensus::{Configuration, Effect, Event, LeaseClock, Member, Message, ValueHandle};
use base::{ConfigurationId, LogIndex, Millis, NodeId, Part};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write;

/// Milliseconds between two ticks.
const TICK: u64 = 25;

/// Node of a story.
pub struct Node {
    pub identity: Identity,
    pub machine: Machine,
    pub up: bool,
    /// True if it does nothing, and its messages wait.
    pub paused: bool,
    /// True if its disk saves nothing.
    pub stalled: bool,
    /// Source of the snapshot that it waits for. `None`: it waits for none.
    wants: Option<NodeId>,
}

/// Message in flight, with its entries.
struct Parcel {
    at: u64,
    message: Message,
    values: Vec<u64>,
}

/// Direction of a link: sender, receiver.
pub type Way = (NodeId, NodeId);

/// World of a story: nodes, links and time.
pub struct World {
    pub now: u64,
    pub nodes: BTreeMap<NodeId, Node>,
    ways: BTreeMap<Way, VecDeque<Parcel>>,
    /// Directions in which nothing passes.
    pub cut: BTreeSet<Way>,
    /// Directions in which messages wait until they are delivered or dropped by a command.
    pub held: BTreeSet<Way>,
    judge: Judge,
    /// Entries that are stop-signs, with their configurations.
    signs: BTreeMap<u64, Configuration>,
    next_value: u64,
    /// Latency of a message in milliseconds.
    pub delay: u64,
    /// True if periodic effects are recorded, too.
    pub tells_all: bool,
    pub told: String,
}

impl World {
    /// Builds a group of these members, in their first incarnation, and of nodes that are no
    /// members yet. The nodes are numbered from 1.
    pub fn new(configuration: Configuration, others: &[NodeId], lease: LeaseClock) -> World {
        let mut nodes = BTreeMap::new();
        let names = configuration.members().iter().map(|member| member.node);
        for node in names.chain(others.iter().copied()) {
            let (configuration, signs) = (configuration.clone(), BTreeMap::new());
            let identity = Identity { node, configuration, lease, signs };
            let machine = Machine::fresh(identity.clone());
            let (up, paused, stalled, wants) = (true, false, false, None);
            nodes.insert(node, Node { identity, machine, up, paused, stalled, wants });
        }
        World {
            now: 0,
            nodes,
            ways: BTreeMap::new(),
            cut: BTreeSet::new(),
            held: BTreeSet::new(),
            judge: Judge::new(configuration),
            signs: BTreeMap::new(),
            next_value: 1,
            delay: 1,
            tells_all: false,
            told: String::new(),
        }
    }

    pub fn start(&mut self, node: NodeId) {
        let now = Millis(self.now);
        self.nodes.get_mut(&node).expect("a member").up = true;
        self.step(node, Event::Started { now }, &[]);
    }

    /// Crashes the node: all unsynced records but the first `kept` are lost.
    pub fn crash(&mut self, name: NodeId, kept: usize) {
        let mut node = self.nodes.remove(&name).expect("a member");
        node.identity.signs = self.signs.clone();
        node.machine = node.machine.crash(kept, node.identity.clone());
        (node.up, node.paused, node.wants) = (false, false, None);
        self.nodes.insert(name, node);
    }

    /// Crashes the node and tears its log: `gone` of the synced records are lost.
    pub fn tear(&mut self, name: NodeId, gone: usize) {
        let mut node = self.nodes.remove(&name).expect("a member");
        node.identity.signs = self.signs.clone();
        node.machine = node.machine.tear(gone, node.identity.clone());
        (node.up, node.paused, node.wants) = (false, false, None);
        self.nodes.insert(name, node);
    }

    pub fn propose(&mut self, node: NodeId) {
        self.step(node, Event::Propose { value: ValueHandle { bytes: 10, updates: 1 } }, &[]);
    }

    /// Makes a master propose other members.
    pub fn reconfigure(&mut self, node: NodeId, members: Vec<Member>) {
        let id = self.nodes[&node].machine.replica.configuration().id().0 + 1;
        let configuration = Configuration::new(ConfigurationId(id), members).expect("sound");
        self.signs.insert(self.next_value, configuration.clone());
        let value = ValueHandle { bytes: 10, updates: 0 };
        self.step(node, Event::Reconfigure { configuration, value }, &[]);
    }

    pub fn read(&mut self, node: NodeId) {
        let (token, now) = (self.judge.ask(), Millis(self.now));
        self.step(node, Event::Read { token, now }, &[]);
    }

    /// Passes an event to a node, and carries out its effects.
    pub fn step(&mut self, name: NodeId, event: Event, values: &[u64]) {
        let node = self.nodes.get_mut(&name).expect("a member");
        node.machine.next_value = self.next_value;
        node.machine.step_with(event, values);
        self.next_value = self.next_value.max(node.machine.next_value);
        let outbox = std::mem::take(&mut node.machine.outbox);
        let effects = node.machine.effects.clone();
        for (place, effect) in effects.iter().enumerate() {
            if let Effect::FetchSnapshot { from } = effect {
                node.wants = Some(*from);
            }
            // Of a run of entries only the last is recorded.
            if let (Effect::Stage { .. }, Some(Effect::Stage { .. })) =
                (effect, effects.get(place + 1))
            {
                continue;
            }
            if self.tells_all || is_news(effect) {
                let now = self.now;
                writeln!(self.told, "{now} node {name}: {}", tell(effect)).expect("a string");
            }
        }
        let machines: Vec<_> = self.nodes.values().map(|node| &node.machine).collect();
        let place = name.0 as usize - 1;
        self.judge.judge(place, machines[place], &machines, &self.signs);
        for (to, message, values) in outbox {
            if !self.cut.contains(&(name, to)) {
                let parcel = Parcel { at: self.now + self.delay, message, values };
                self.ways.entry((name, to)).or_default().push_back(parcel);
            }
        }
    }

    /// Lets time pass: messages arrive after their latency, disks save at once, clocks tick.
    pub fn run(&mut self, millis: u64) {
        for _ in 0..millis {
            self.now += 1;
            self.arrive();
            for name in self.awake() {
                if self.now.is_multiple_of(TICK) {
                    self.step(name, Event::Tick { now: Millis(self.now) }, &[]);
                }
                self.fetch_snapshot(name);
                if !self.nodes[&name].stalled {
                    self.sync(name);
                }
            }
        }
    }

    fn awake(&self) -> Vec<NodeId> {
        let awake = self.nodes.iter().filter(|(_, node)| node.up && !node.paused);
        awake.map(|(name, _)| *name).collect()
    }

    fn arrive(&mut self) {
        let ways: Vec<_> = self.ways.keys().copied().collect();
        for way in ways {
            let to = &self.nodes[&way.1];
            if self.cut.contains(&way) || !to.up {
                self.ways.remove(&way);
            } else if !to.paused && !self.held.contains(&way) {
                let due = |parcel: &Parcel| parcel.at <= self.now;
                let count = self.ways[&way].iter().filter(|parcel| due(parcel)).count();
                self.deliver(way, count);
            }
        }
    }

    /// Delivers the oldest messages of one direction.
    pub fn deliver(&mut self, way: Way, count: usize) {
        for _ in 0..count {
            let oldest = self.ways.get_mut(&way).and_then(VecDeque::pop_front);
            let Some(Parcel { message, values, .. }) = oldest else { return };
            let now = Millis(self.now);
            let first = message.body.values().map_or(0, |(after, _)| after.0 + 1);
            let sign = |(index, value)| Some((index, self.signs.get(value)?.clone()));
            let signs = (first..).map(LogIndex).zip(&values).filter_map(sign).collect();
            self.step(way.1, Event::Received { from: way.0, message, signs, now }, &values);
        }
    }

    /// Duplicates the messages that wait in one direction.
    pub fn repeat(&mut self, way: Way) {
        let waiting = self.ways.entry(way).or_default();
        let copy = |parcel: &Parcel| Parcel { values: parcel.values.clone(), ..*parcel };
        let copies: Vec<_> = waiting.iter().map(copy).collect();
        waiting.extend(copies);
    }

    /// Drops the messages that wait in one direction.
    pub fn drop(&mut self, way: Way) {
        self.ways.remove(&way);
    }

    /// Saves all written records.
    pub fn sync(&mut self, name: NodeId) {
        let node = self.nodes.get_mut(&name).expect("a member");
        for event in node.machine.sync(usize::MAX) {
            self.step(name, event, &[]);
        }
    }

    /// Flushes the store, and truncates the log.
    pub fn run_maintenance(&mut self, name: NodeId) {
        let node = self.nodes.get_mut(&name).expect("a member");
        node.machine.flush();
        node.machine.copy();
        self.sync(name);
        let machine = &mut self.nodes.get_mut(&name).expect("a member").machine;
        if machine.collapse() {
            let flushed = LogIndex(machine.flushed.len() as u64);
            let replica = &machine.replica;
            let keeps = replica.configuration().part(name) == Some(Part::Witness);
            let upto = if keeps { flushed.min(replica.kept()) } else { flushed };
            self.step(name, Event::Collapsed { upto }, &[]);
        }
    }

    fn fetch_snapshot(&mut self, name: NodeId) {
        let Some(from) = self.nodes[&name].wants else { return };
        if self.cut.contains(&(from, name)) || !self.nodes[&from].up {
            return;
        }
        let source = &self.nodes[&from].machine;
        let snapshot = source.values[..source.applied.0 as usize].to_vec();
        let node = self.nodes.get_mut(&name).expect("a member");
        node.wants = None;
        if node.machine.install(&snapshot) {
            let upto = LogIndex(snapshot.len() as u64);
            let configuration = self.judge.configuration_at(upto);
            self.step(name, Event::Installed { upto, configuration }, &[]);
        }
    }
}

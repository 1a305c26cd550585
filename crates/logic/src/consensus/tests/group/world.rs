//! Machines of a story, and the directed links between them.

use super::text::{effect_line, is_recorded};
use crate::consensus::tests::cluster::judge::Judge;
use crate::consensus::tests::machine::{Identity, Machine};
use crate::consensus::{Configuration, Effect, EntrySize, Event, LeaseClock, Member, Message};
use base::{ConfigurationId, LogIndex, Millis, NodeId, Part};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write;

/// Milliseconds between two ticks.
const TICK_MS: u64 = 25;

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
    snapshot_source: Option<NodeId>,
}

/// Message in flight, with its entries.
struct InFlight {
    at: u64,
    message: Message,
    values: Vec<u64>,
}

/// Direction of a link: sender, receiver.
pub type Direction = (NodeId, NodeId);

/// World of a story: nodes, links and time.
pub struct World {
    pub now: u64,
    pub nodes: BTreeMap<NodeId, Node>,
    in_flight: BTreeMap<Direction, VecDeque<InFlight>>,
    /// Directions in which nothing passes.
    pub cut: BTreeSet<Direction>,
    /// Directions in which messages wait until they are delivered or dropped by a command.
    pub held: BTreeSet<Direction>,
    judge: Judge,
    /// Entries that are stop-signs, with their configurations.
    signs: BTreeMap<u64, Configuration>,
    next_value: u64,
    /// Latency of a message in milliseconds.
    pub delay: u64,
    /// True if periodic effects are recorded, too.
    pub records_all: bool,
    pub output: String,
}

impl World {
    /// Builds a group of these members, in their first incarnation, and of nodes that are no
    /// members yet. The nodes are numbered from 1.
    pub fn new(configuration: Configuration, others: &[NodeId], lease: LeaseClock) -> World {
        let mut nodes = BTreeMap::new();
        let members = configuration.members().iter().map(|member| member.node);
        for node in members.chain(others.iter().copied()) {
            let (configuration, signs) = (configuration.clone(), BTreeMap::new());
            let identity = Identity { node, configuration, lease, signs };
            let machine = Machine::fresh(identity.clone());
            let (up, paused, stalled, snapshot_source) = (true, false, false, None);
            nodes.insert(node, Node { identity, machine, up, paused, stalled, snapshot_source });
        }
        World {
            now: 0,
            nodes,
            in_flight: BTreeMap::new(),
            cut: BTreeSet::new(),
            held: BTreeSet::new(),
            judge: Judge::new(configuration),
            signs: BTreeMap::new(),
            next_value: 1,
            delay: 1,
            records_all: false,
            output: String::new(),
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
        (node.up, node.paused, node.snapshot_source) = (false, false, None);
        self.nodes.insert(name, node);
    }

    /// Crashes the node and tears its log: `gone` of the synced records are lost.
    pub fn tear(&mut self, name: NodeId, lost: usize) {
        let mut node = self.nodes.remove(&name).expect("a member");
        node.identity.signs = self.signs.clone();
        node.machine = node.machine.tear(lost, node.identity.clone());
        (node.up, node.paused, node.snapshot_source) = (false, false, None);
        self.nodes.insert(name, node);
    }

    /// Reports to a node that its connection with another one ended. What was in flight is lost.
    pub fn end_link(&mut self, name: NodeId, other: NodeId) {
        self.in_flight.remove(&(other, name));
        if self.nodes[&name].up {
            let now = Millis(self.now);
            self.step(name, Event::LinkEnded { node: other, now }, &[]);
        }
    }

    pub fn propose(&mut self, node: NodeId) {
        self.step(node, Event::Propose { size: EntrySize { bytes: 10, updates: 1 } }, &[]);
    }

    /// Makes a master propose other members.
    pub fn reconfigure(&mut self, node: NodeId, members: Vec<Member>) {
        let id = self.nodes[&node].machine.replica.configuration().id().0 + 1;
        let configuration = Configuration::new(ConfigurationId(id), members).expect("sound");
        self.signs.insert(self.next_value, configuration.clone());
        let size = EntrySize { bytes: 10, updates: 0 };
        self.step(node, Event::Reconfigure { configuration, size }, &[]);
    }

    pub fn read(&mut self, node: NodeId) {
        let (token, now) = (self.judge.register_read(), Millis(self.now));
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
                node.snapshot_source = Some(*from);
            }
            // Of a run of entries only the last is recorded.
            if let (Effect::Stage { .. }, Some(Effect::Stage { .. })) =
                (effect, effects.get(place + 1))
            {
                continue;
            }
            if self.records_all || is_recorded(effect) {
                let now = self.now;
                writeln!(self.output, "{now} node {name}: {}", effect_line(effect))
                    .expect("a string");
            }
        }
        let machines: Vec<_> = self.nodes.values().map(|node| &node.machine).collect();
        let place = name.0 as usize - 1;
        self.judge.judge(place, machines[place], &machines, &self.signs);
        for (to, message, values) in outbox {
            if !self.cut.contains(&(name, to)) {
                let in_flight = InFlight { at: self.now + self.delay, message, values };
                self.in_flight.entry((name, to)).or_default().push_back(in_flight);
            }
        }
    }

    /// Lets time pass: messages arrive after their latency, disks save at once, clocks tick.
    pub fn run(&mut self, millis: u64) {
        for _ in 0..millis {
            self.now += 1;
            self.deliver_due();
            for name in self.awake() {
                if self.now.is_multiple_of(TICK_MS) {
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

    fn deliver_due(&mut self) {
        let directions: Vec<_> = self.in_flight.keys().copied().collect();
        for direction in directions {
            let to = &self.nodes[&direction.1];
            if self.cut.contains(&direction) || !to.up {
                self.in_flight.remove(&direction);
            } else if !to.paused && !self.held.contains(&direction) {
                let due = |message: &InFlight| message.at <= self.now;
                let count =
                    self.in_flight[&direction].iter().filter(|message| due(message)).count();
                self.deliver(direction, count);
            }
        }
    }

    /// Delivers the oldest messages of one direction.
    pub fn deliver(&mut self, direction: Direction, count: usize) {
        for _ in 0..count {
            let oldest = self.in_flight.get_mut(&direction).and_then(VecDeque::pop_front);
            let Some(InFlight { message, values, .. }) = oldest else { return };
            let now = Millis(self.now);
            let first = message.body.entry_range().map_or(0, |(after, _)| after.0 + 1);
            let sign = |(index, value)| Some((index, self.signs.get(value)?.clone()));
            let signs = (first..).map(LogIndex).zip(&values).filter_map(sign).collect();
            self.step(
                direction.1,
                Event::Received { from: direction.0, message, signs, now },
                &values,
            );
        }
    }

    /// Duplicates the messages that wait in one direction.
    pub fn duplicate(&mut self, direction: Direction) {
        let waiting = self.in_flight.entry(direction).or_default();
        let copy =
            |in_flight: &InFlight| InFlight { values: in_flight.values.clone(), ..*in_flight };
        let copies: Vec<_> = waiting.iter().map(copy).collect();
        waiting.extend(copies);
    }

    /// Drops the messages that wait in one direction.
    pub fn drop(&mut self, direction: Direction) {
        self.in_flight.remove(&direction);
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
            let is_witness = replica.configuration().part(name) == Some(Part::Witness);
            let last =
                if is_witness { flushed.min(replica.reported_saved_by_all()) } else { flushed };
            self.step(name, Event::LogTruncated { last }, &[]);
        }
    }

    fn fetch_snapshot(&mut self, name: NodeId) {
        let Some(from) = self.nodes[&name].snapshot_source else { return };
        if self.cut.contains(&(from, name)) || !self.nodes[&from].up {
            return;
        }
        let source = &self.nodes[&from].machine;
        let snapshot = source.values[..source.applied.0 as usize].to_vec();
        let node = self.nodes.get_mut(&name).expect("a member");
        node.snapshot_source = None;
        if node.machine.install(&snapshot) {
            let last = LogIndex(snapshot.len() as u64);
            let configuration = self.judge.configuration_at(last);
            self.step(name, Event::Installed { last, configuration }, &[]);
        } else {
            self.step(name, Event::SnapshotOutdated, &[]);
        }
    }
}

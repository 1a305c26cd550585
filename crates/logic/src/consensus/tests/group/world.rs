//! The machines of a story, and the ways between them.

use super::tell::{is_news, tell};
use crate::consensus::tests::cluster::judge::Judge;
use crate::consensus::tests::machine::{Identity, Machine};
use crate::consensus::{Configuration, Effect, Event, LeaseClock, Member, Message, ValueHandle};
use base::{ConfigurationId, LogIndex, Millis, NodeId, Part};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write;

/// Milliseconds from tick to tick.
const TICK: u64 = 25;

/// One node.
pub struct Node {
    pub identity: Identity,
    pub machine: Machine,
    pub up: bool,
    /// It does nothing, and its messages wait.
    pub paused: bool,
    /// Its disk saves nothing.
    pub stalled: bool,
    /// Where a snapshot comes from that it wants.
    wants: Option<NodeId>,
}

/// A message on its way, with its values.
struct Parcel {
    at: u64,
    message: Message,
    values: Vec<u64>,
}

/// From whom, to whom.
pub type Way = (NodeId, NodeId);

/// The whole of it.
pub struct World {
    pub now: u64,
    pub nodes: BTreeMap<NodeId, Node>,
    ways: BTreeMap<Way, VecDeque<Parcel>>,
    /// Nothing passes here.
    pub cut: BTreeSet<Way>,
    /// Here all waits until it is delivered or dropped by hand.
    pub held: BTreeSet<Way>,
    judge: Judge,
    /// Which values are stop-signs.
    signs: BTreeMap<u64, Configuration>,
    next_value: u64,
    /// How long a message is on its way.
    pub delay: u64,
    /// Also what happens all the time.
    pub tells_all: bool,
    pub told: String,
}

impl World {
    /// A group of these members, in their first life, and others that are none yet. The nodes are
    /// named from 1 on.
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

    /// Power is lost, and so is all but the first `kept` of what was not synced.
    pub fn crash(&mut self, name: NodeId, kept: usize) {
        let mut node = self.nodes.remove(&name).expect("a member");
        node.identity.signs = self.signs.clone();
        node.machine = node.machine.crash(kept, node.identity.clone());
        (node.up, node.paused, node.wants) = (false, false, None);
        self.nodes.insert(name, node);
    }

    /// The same, and its log is found torn: so many of the synced records are gone.
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

    /// A master is to let others agree from here on.
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

    /// Hands an event in, and carries out what comes of it.
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
            // Of a row of values the last is told.
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

    /// Time passes: messages arrive after a millisecond, disks save at once, clocks tick.
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

    /// Delivers the oldest messages of one way.
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

    /// Copies the messages that wait on one way: each will arrive twice.
    pub fn repeat(&mut self, way: Way) {
        let waiting = self.ways.entry(way).or_default();
        let copy = |parcel: &Parcel| Parcel { values: parcel.values.clone(), ..*parcel };
        let copies: Vec<_> = waiting.iter().map(copy).collect();
        waiting.extend(copies);
    }

    /// Loses the messages that wait on one way.
    pub fn drop(&mut self, way: Way) {
        self.ways.remove(&way);
    }

    /// The disk saves all that was written.
    pub fn sync(&mut self, name: NodeId) {
        let node = self.nodes.get_mut(&name).expect("a member");
        for event in node.machine.sync(usize::MAX) {
            self.step(name, event, &[]);
        }
    }

    /// Flushes the store, and drops what the log need not hold any more.
    pub fn keep_house(&mut self, name: NodeId) {
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

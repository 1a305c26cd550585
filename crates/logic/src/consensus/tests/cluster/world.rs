//! Time, network, disks and clocks of a group, and what its nodes do with them.

use super::chance::Chance;
use super::judge::Judge;
use crate::consensus::tests::machine::{Identity, Machine};
use crate::consensus::{
    Configuration, Effect, Event, LeaseClock, Member, Message, Part, Role, ValueHandle,
};
use base::{ConfigurationId, LogIndex, Millis, NodeId};
use std::collections::BTreeMap;

/// Milliseconds from tick to tick.
const TICK: u64 = 25;
/// More than this under way at once, and it is a storm.
const STORM: usize = 20_000;

/// One node.
pub struct Slot {
    pub identity: Identity,
    pub machine: Machine,
    pub up: bool,
    /// Counts its lives: what a disk was doing for an earlier one concerns nobody.
    pub life: u64,
    /// Its clock: shown at time 0, and how much it gains, in parts per million.
    pub offset: u64,
    pub gain_ppm: i64,
    /// It does nothing until then.
    pub paused_until: u64,
    syncing: bool,
    snapshot_under_way: bool,
    /// Values up to here are gone from its log.
    floor: LogIndex,
}

/// What happens at a moment.
pub enum Item {
    Deliver { from: usize, to: usize, message: Message, values: Vec<u64> },
    Synced { node: usize, life: u64 },
    Tick { node: usize, life: u64 },
    Snapshot { node: usize, life: u64, from: usize },
    Client,
    Fault,
    Restart { node: usize, life: u64 },
}

/// What the network and the disks do to what passes through them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    pub loss: u64,
    pub twice: u64,
    pub full: u64,
    pub delay: (u64, u64),
    pub sync: (u64, u64),
}

pub struct World {
    pub chance: Chance,
    pub now: u64,
    queue: BTreeMap<(u64, u64), Item>,
    sequence: u64,
    pub slots: Vec<Slot>,
    /// `cut[from][to]`: nothing passes that way.
    pub cut: Vec<Vec<bool>>,
    pub weather: Weather,
    pub judge: Judge,
    next_value: u64,
    /// No more faults.
    pub peace: bool,
    /// Tells every event, for whoever looks for the cause of a failure.
    told: bool,
}

impl World {
    /// A group of these members, all in their first life.
    pub fn new(seed: u64, parts: &[Part], lease: LeaseClock) -> World {
        let mut chance = Chance::new(seed);
        let member =
            |(place, part): (usize, &Part)| Member { node: NodeId(place as u64 + 1), part: *part };
        let members: Vec<_> = parts.iter().enumerate().map(member).collect();
        let configuration = Configuration::new(ConfigurationId(1), members.clone()).expect("sound");
        let half = i64::from(lease.drift_ppm.min(900_000)) / 2;
        let slots: Vec<_> = members
            .iter()
            .map(|member| {
                let identity = Identity {
                    node: member.node,
                    configuration: configuration.clone(),
                    lease,
                    log_intact: true,
                };
                let gain_ppm = chance.below(2 * half as u64 + 1) as i64 - half;
                Slot {
                    machine: Machine::fresh(identity.clone()),
                    identity,
                    up: true,
                    life: 0,
                    offset: chance.below(1_000_000),
                    gain_ppm,
                    paused_until: 0,
                    syncing: false,
                    snapshot_under_way: false,
                    floor: LogIndex(0),
                }
            })
            .collect();
        let count = slots.len();
        let mut world = World {
            chance,
            now: 0,
            queue: BTreeMap::new(),
            sequence: 0,
            slots,
            cut: vec![vec![false; count]; count],
            weather: Weather { delay: (1, 3), sync: (0, 4), ..Weather::default() },
            judge: Judge::default(),
            next_value: 1,
            peace: false,
            told: std::env::var_os("CREDENZA_TOLD").is_some(),
        };
        for node in 0..count {
            world.start(node);
        }
        world
    }

    pub fn after(&mut self, delay: u64, item: Item) {
        self.sequence += 1;
        self.queue.insert((self.now + delay, self.sequence), item);
        assert!(self.queue.len() < STORM, "messages beget messages");
    }

    /// Lets everything happen up to that moment.
    pub fn run(&mut self, until: u64) {
        while let Some(entry) = self.queue.first_entry() {
            if entry.key().0 > until {
                break;
            }
            let ((at, _), item) = entry.remove_entry();
            self.now = at;
            self.happen(item);
        }
        self.now = until;
    }

    fn happen(&mut self, item: Item) {
        match item {
            Item::Deliver { from, to, message, values } => {
                if self.slots[to].up && self.slots[to].paused_until > self.now {
                    let until = self.slots[to].paused_until - self.now;
                    return self.after(until, Item::Deliver { from, to, message, values });
                }
                if self.slots[to].up && !self.cut[from][to] {
                    let from = self.slots[from].identity.node;
                    let now = self.clock(to);
                    self.step_with(to, Event::Received { from, message, now }, &values);
                }
            }
            Item::Synced { node, life } => self.synced(node, life),
            Item::Tick { node, life } => {
                if self.slots[node].life == life && self.slots[node].up {
                    if self.slots[node].paused_until <= self.now {
                        let now = self.clock(node);
                        self.step(node, Event::Tick { now });
                    }
                    self.after(TICK, Item::Tick { node, life });
                }
            }
            Item::Snapshot { node, life, from } => self.snapshot(node, life, from),
            Item::Client => self.client(),
            Item::Fault => self.fault(),
            Item::Restart { node, life } => {
                if self.slots[node].life == life && !self.slots[node].up {
                    self.start(node);
                }
            }
        }
    }

    /// What a node's clock shows.
    pub fn clock(&self, node: usize) -> Millis {
        let slot = &self.slots[node];
        let gained = i128::from(self.now) * i128::from(slot.gain_ppm) / 1_000_000;
        Millis((i128::from(slot.offset) + i128::from(self.now) + gained) as u64)
    }

    pub fn start(&mut self, node: usize) {
        let slot = &mut self.slots[node];
        slot.up = true;
        slot.life += 1;
        slot.syncing = false;
        slot.snapshot_under_way = false;
        let life = slot.life;
        let now = self.clock(node);
        self.step(node, Event::Started { now });
        if self.slots[node].floor > LogIndex(0) {
            let upto = self.slots[node].floor;
            self.step(node, Event::Collapsed { upto });
        }
        let first = self.chance.below(TICK);
        self.after(first, Item::Tick { node, life });
    }

    /// Power is lost; a random part of what was not synced stays.
    pub fn crash(&mut self, node: usize) {
        if !self.slots[node].up {
            return;
        }
        let unsynced = self.slots[node].machine.records.len() - self.slots[node].machine.synced;
        let kept = self.chance.below(unsynced as u64 + 1) as usize;
        let slot = &mut self.slots[node];
        slot.up = false;
        slot.life += 1;
        let machine = std::mem::replace(
            &mut slot.machine,
            Machine::fresh(Identity { ..slot.identity.clone() }),
        );
        slot.machine = machine.crash(kept, slot.identity.clone());
        slot.machine.effects.clear();
    }

    pub fn step(&mut self, node: usize, event: Event) {
        self.step_with(node, event, &[]);
    }

    fn step_with(&mut self, node: usize, event: Event, values: &[u64]) {
        if self.told {
            eprintln!("{} node {}: {event:?}", self.now, node + 1);
        }
        self.slots[node].machine.next_value = self.next_value;
        self.slots[node].machine.step_with(event, values);
        self.next_value = self.next_value.max(self.slots[node].machine.next_value);
        let votes = |slot: &&Slot| {
            let part = slot.identity.configuration.part(slot.identity.node);
            part.is_some_and(Part::votes)
        };
        let voters: Vec<_> = self.slots.iter().filter(votes).map(|slot| &slot.machine).collect();
        let slot = &self.slots[node];
        self.judge.judge(&slot.machine, slot.identity.node, &voters);
        self.send_out(node);
        self.want_sync(node);
        let wanted = self.slots[node].machine.effects.iter().find_map(|effect| match effect {
            Effect::FetchSnapshot { from } => Some(from.0 as usize - 1),
            _ => None,
        });
        if let Some(from) = wanted.filter(|_| !self.slots[node].snapshot_under_way) {
            self.slots[node].snapshot_under_way = true;
            let (life, delay) = (self.slots[node].life, self.chance.between(5, 200));
            self.after(delay, Item::Snapshot { node, life, from });
        }
    }

    fn send_out(&mut self, node: usize) {
        let outbox = std::mem::take(&mut self.slots[node].machine.outbox);
        let mut full = None;
        for (to, message, values) in outbox {
            let to = to.0 as usize - 1;
            if let Some((after, _)) = message.body.values() {
                assert!(after >= self.slots[node].floor, "sends what its log no longer holds");
                if self.chance.often(self.weather.full) {
                    full = Some(Event::Unsent { to: NodeId(to as u64 + 1), after });
                    continue;
                }
            }
            if self.cut[node][to] || self.chance.often(self.weather.loss) {
                continue;
            }
            let times = if self.chance.often(self.weather.twice) { 2 } else { 1 };
            for _ in 0..times {
                let delay = self.chance.between(self.weather.delay.0, self.weather.delay.1);
                let values = values.clone();
                self.after(delay, Item::Deliver { from: node, to, message, values });
            }
        }
        if let Some(unsent) = full {
            self.step(node, unsent);
        }
    }

    fn want_sync(&mut self, node: usize) {
        let slot = &mut self.slots[node];
        if slot.up && !slot.syncing && slot.machine.synced < slot.machine.records.len() {
            slot.syncing = true;
            let life = slot.life;
            let delay = self.chance.between(self.weather.sync.0, self.weather.sync.1);
            self.after(delay, Item::Synced { node, life });
        }
    }

    fn synced(&mut self, node: usize, life: u64) {
        if self.slots[node].life != life {
            return;
        }
        let unsynced = self.slots[node].machine.records.len() - self.slots[node].machine.synced;
        let count = self.chance.between(1, unsynced.max(1) as u64) as usize;
        self.slots[node].syncing = false;
        for event in self.slots[node].machine.sync(count) {
            self.step(node, event);
        }
        self.want_sync(node);
    }

    fn snapshot(&mut self, node: usize, life: u64, from: usize) {
        if self.slots[node].life != life {
            return;
        }
        self.slots[node].snapshot_under_way = false;
        if !self.slots[from].up || self.cut[from][node] {
            return;
        }
        let source = &self.slots[from].machine;
        let snapshot = source.values[..source.applied.0 as usize].to_vec();
        if self.slots[node].machine.install(&snapshot) {
            let upto = LogIndex(snapshot.len() as u64);
            self.slots[node].floor = self.slots[node].floor.max(upto);
            self.step(node, Event::Installed { upto });
        }
    }

    /// Flushes, copies to the head what lives only in the log, and collapses.
    pub fn keep_house(&mut self, node: usize) {
        let machine = &mut self.slots[node].machine;
        machine.flush();
        machine.copy();
        let synced = machine.sync(usize::MAX);
        for event in synced {
            self.step(node, event);
        }
        let slot = &mut self.slots[node];
        if slot.machine.collapse() {
            let upto = LogIndex(slot.machine.flushed.len() as u64);
            slot.floor = slot.floor.max(upto);
            self.step(node, Event::Collapsed { upto });
        }
    }

    fn client(&mut self) {
        let node = self.chance.below(self.slots.len() as u64) as usize;
        let slot = &self.slots[node];
        if slot.up && slot.paused_until <= self.now && slot.machine.replica.role() == Role::Master {
            if self.chance.often(700) {
                let value = ValueHandle { bytes: 10, updates: 1 };
                self.step(node, Event::Propose { value });
            } else {
                let (token, now) = (self.judge.ask(), self.clock(node));
                self.step(node, Event::Read { token, now });
            }
        }
        let pause = self.chance.between(1, 12);
        self.after(pause, Item::Client);
    }

    /// The masters in office.
    pub fn masters(&self) -> Vec<usize> {
        let leads = |slot: &Slot| slot.up && slot.machine.replica.role() == Role::Master;
        (0..self.slots.len()).filter(|place| leads(&self.slots[*place])).collect()
    }
}

//! Time, network, disks and clocks of a group, and what its nodes do with them.

use super::chance::Chance;
use super::faults::with_some_quorum;
use super::judge::Judge;
use crate::consensus::tests::machine::{Identity, Machine};
use crate::consensus::{
    Configuration, Effect, Event, LeaseClock, Member, Message, Role, ValueHandle,
};
use base::{ConfigurationId, LogIndex, Millis, NodeId, Part};
use std::collections::BTreeMap;

/// Milliseconds from tick to tick, at most; several fit in a lease.
const TICK_MAX: u64 = 25;
/// More than this under way at once, and it is a storm.
const STORM: usize = 20_000;

/// One node.
pub struct Slot {
    pub identity: Identity,
    pub machine: Machine,
    pub up: bool,
    /// What its lost disk held. It counts: that is a failure after a save, not a lie about one.
    /// Such a node never comes back.
    pub lost: Option<Machine>,
    /// Counts its lives: what a disk was doing for an earlier one concerns nobody.
    pub life: u64,
    /// Its clock: shown at time 0, and how much it gains, in parts per million.
    pub offset: u64,
    pub gain_ppm: i64,
    /// It does nothing until then.
    pub paused_until: u64,
    pub syncing: bool,
    pub snapshot_under_way: bool,
    /// Values up to here are gone from its log.
    pub floor: LogIndex,
    /// As a witness it began anew behind this: it never had what is before.
    pub marked: LogIndex,
}

impl Slot {
    fn held(&self) -> &Machine {
        self.lost.as_ref().unwrap_or(&self.machine)
    }
}

/// What happens at a moment.
pub enum Item {
    Deliver { from: usize, to: usize, message: Message, values: Vec<u64> },
    Synced { node: usize, life: u64 },
    Tick { node: usize, life: u64 },
    Snapshot { node: usize, life: u64, from: usize },
    Client,
    Fault,
    Mend,
    Crash { node: usize, life: u64 },
    Restart { node: usize, life: u64 },
}

/// What the network and the disks do to what passes through them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    pub loss: u64,
    pub twice: u64,
    pub full: u64,
    pub delay: (u64, u64),
    /// Messages that come seconds late, to another world.
    pub late: u64,
    /// How dangerous it is to rise.
    pub murder: u64,
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
    /// Which values are stop-signs.
    pub signs: BTreeMap<u64, Configuration>,
    next_value: u64,
    tick: u64,
    /// No more faults.
    pub peace: bool,
    /// Whether its members change.
    pub changing: bool,
    /// Whether other numbers than a majority save a value.
    pub varies: bool,
    /// Tells every event, for whoever looks for the cause of a failure.
    told: bool,
}

impl World {
    /// A group of these members, all in their first life, and so many nodes that belong to
    /// nobody yet.
    pub fn new(seed: u64, parts: &[Part], spare: u64, lease: LeaseClock) -> World {
        let mut chance = Chance::new(seed);
        let member =
            |(place, part): (usize, &Part)| Member { node: NodeId(place as u64 + 1), part: *part };
        let members: Vec<_> = parts.iter().enumerate().map(member).collect();
        let configuration = Configuration::new(ConfigurationId(0), members.clone()).expect("sound");
        let varies = seed % 4 == 3;
        let configuration = with_some_quorum(configuration, varies.then_some(seed / 4));
        // Each clock may be off by as much as the lease allows, either way.
        let drift = i64::from(lease.drift_ppm.min(450_000));
        let slots: Vec<_> = (1..=members.len() as u64 + spare)
            .map(|node| {
                let identity = Identity {
                    node: NodeId(node),
                    signs: BTreeMap::new(),
                    configuration: configuration.clone(),
                    lease,
                };
                let gain_ppm = match chance.below(3) {
                    0 => -drift,
                    1 => drift,
                    _ => chance.below(2 * drift as u64 + 1) as i64 - drift,
                };
                Slot {
                    machine: Machine::fresh(identity.clone()),
                    identity,
                    up: true,
                    lost: None,
                    life: 0,
                    offset: chance.below(1_000_000),
                    gain_ppm,
                    paused_until: 0,
                    syncing: false,
                    snapshot_under_way: false,
                    floor: LogIndex(0),
                    marked: LogIndex(0),
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
            judge: Judge::new(configuration),
            signs: BTreeMap::new(),
            next_value: 1,
            tick: TICK_MAX.min(lease.length.0 / 10),
            peace: false,
            changing: spare > 0,
            varies,
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
                    let signs = self.signs_among(&message, &values);
                    let event = Event::Received { from, message, signs, now };
                    self.step_with(to, event, &values);
                }
            }
            Item::Synced { node, life } => self.synced(node, life),
            Item::Tick { node, life } => {
                if self.slots[node].life == life && self.slots[node].up {
                    if self.slots[node].paused_until <= self.now {
                        let now = self.clock(node);
                        self.step(node, Event::Tick { now });
                    }
                    self.after(self.tick, Item::Tick { node, life });
                }
            }
            Item::Snapshot { node, life, from } => self.snapshot(node, life, from),
            Item::Client => self.client(),
            Item::Fault => self.fault(),
            Item::Mend => self.mend(),
            Item::Crash { node, life } => {
                if self.slots[node].life == life && !self.peace {
                    self.crash_for_a_while(node);
                }
            }
            Item::Restart { node, life } => {
                if self.slots[node].life == life {
                    self.crash(node); // Whoever is still up retired, and did not end in time.
                    self.start(node);
                }
            }
        }
    }

    /// The stop-signs among the values that a message brings.
    fn signs_among(&self, message: &Message, values: &[u64]) -> Vec<(LogIndex, Configuration)> {
        let Some((after, _)) = message.body.values() else { return Vec::new() };
        let sign = |(place, value): (usize, &u64)| {
            let configuration = self.signs.get(value)?;
            Some((LogIndex(after.0 + place as u64 + 1), configuration.clone()))
        };
        values.iter().enumerate().filter_map(sign).collect()
    }

    /// A master is to let others agree.
    pub fn reconfigure(&mut self, master: usize, members: Vec<Member>) {
        let id = self.slots[master].machine.replica.configuration().id().0 + 1;
        let configuration = Configuration::new(ConfigurationId(id), members).expect("sound");
        let chosen = self.varies.then_some(self.next_value);
        let configuration = with_some_quorum(configuration, chosen);
        self.signs.insert(self.next_value, configuration.clone());
        let value = ValueHandle { bytes: 10, updates: 0 };
        self.step(master, Event::Reconfigure { configuration, value });
        self.next_value += 1;
    }

    /// What a node's clock shows.
    pub fn clock(&self, node: usize) -> Millis {
        let slot = &self.slots[node];
        let gained = i128::from(self.now) * i128::from(slot.gain_ppm) / 1_000_000;
        Millis((i128::from(slot.offset) + i128::from(self.now) + gained) as u64)
    }

    pub fn start(&mut self, node: usize) {
        if self.slots[node].lost.is_some() {
            return;
        }
        let offset = self.chance.below(1_000_000);
        let slot = &mut self.slots[node];
        slot.offset = offset; // A machine's monotonic clock begins anew.
        slot.up = true;
        slot.life += 1;
        slot.syncing = false;
        slot.snapshot_under_way = false;
        let (life, now) = (slot.life, self.clock(node));
        self.step(node, Event::Started { now });
        if self.slots[node].floor > LogIndex(0) {
            let upto = self.slots[node].floor;
            self.step(node, Event::Collapsed { upto });
        }
        let first = self.chance.below(self.tick);
        self.after(first, Item::Tick { node, life });
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
        let machines: Vec<_> = self.slots.iter().map(Slot::held).collect();
        let decided = self.judge.ledger.len();
        self.judge.judge(node, &self.slots[node].machine, &machines, &self.signs);
        let news = self.judge.ledger.len() > decided;
        self.murder(node);
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
        if news {
            self.doubt_masters();
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
                let late = self.chance.often(self.weather.late);
                let (low, high) = if late { (100, 4_000) } else { self.weather.delay };
                let delay = self.chance.between(low, high);
                let values = values.clone();
                self.after(delay, Item::Deliver { from: node, to, message, values });
            }
        }
        if let Some(unsent) = full {
            self.step(node, unsent);
        }
    }

    fn client(&mut self) {
        let node = self.chance.below(self.slots.len() as u64) as usize;
        // Some don't know who is master, and ask anyone.
        let lost = self.chance.often(100);
        if lost || self.slots[node].machine.replica.role() == Role::Master {
            if self.chance.often(700) {
                let value = ValueHandle { bytes: 10, updates: 1 };
                let burst = !self.peace && self.chance.often(10);
                let count = if burst { self.chance.below(400) } else { 1 };
                for _ in 0..count {
                    self.ask(node, |_, _| Event::Propose { value });
                }
            } else {
                self.read_at(node);
            }
        }
        let pause = self.chance.between(1, 12);
        self.after(pause, Item::Client);
    }

    fn read_at(&mut self, node: usize) {
        self.ask(node, |world, now| Event::Read { token: world.judge.ask(), now });
    }

    fn ask(&mut self, node: usize, event: impl FnOnce(&mut World, Millis) -> Event) {
        if self.slots[node].up && self.slots[node].paused_until <= self.now {
            let now = self.clock(node);
            let event = event(self, now);
            self.step(node, event);
        }
    }

    /// Something was decided: now and then all who think that they lead are asked at once whether
    /// they know.
    fn doubt_masters(&mut self) {
        if self.chance.often(400) {
            for master in self.masters() {
                self.read_at(master);
            }
        }
    }

    /// The masters in office.
    pub fn masters(&self) -> Vec<usize> {
        let leads = |slot: &Slot| slot.up && slot.machine.replica.role() == Role::Master;
        (0..self.slots.len()).filter(|place| leads(&self.slots[*place])).collect()
    }
}

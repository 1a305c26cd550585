//! Everything that happens, in the order of one clock, from one seed.

use super::chance::Chance;
use super::clients::{self, Client, Outcome};
use super::judge::Judge;
use super::mate::{GROUP, Mate};
use crate::consistent::snapshot::Staged;
use base::{ConfigurationId, LogIndex, NodeId, Part};
use bytes::Bytes;
use logic::consensus::{Configuration, Member};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::Ordering;

const KEYS: u64 = 4;
const CLIENTS: usize = 6;
/// Every message takes at least so long, microseconds.
const WAY_US: u64 = 100;

/// What happens at a moment.
pub(super) enum Event {
    Arrives { from: usize, to: usize, payload: Bytes },
    Turn(usize),
    Written { mate: usize, life: u64 },
    Client(usize),
    Starts(usize),
    Fault,
    Heals { from: usize, to: usize },
    Asked { from: NodeId, by: usize, life: u64 },
    Staged { by: usize, life: u64, staged: Option<Box<Staged>> },
}

pub(super) struct World {
    pub now: u64,
    sequence: u64,
    events: BTreeMap<(u64, u64), Event>,
    pub chance: Chance,
    pub mates: Vec<Mate>,
    /// How many cuts lie on each way.
    pub cuts: BTreeMap<(usize, usize), u32>,
    /// Messages lost and doubled, in thousandths, and how late they may be, microseconds.
    pub weather: (u64, u64, u64),
    clients: Vec<Client>,
    judge: Judge,
    /// What each node has applied, as far as the judge has seen.
    seen: Vec<LogIndex>,
    /// What came to each in a snapshot ends here at the latest.
    pub installed: Vec<LogIndex>,
    lives: u64,
    values: u64,
    pub troubled: bool,
    trace: DefaultHasher,
    pub counts: BTreeMap<&'static str, u64>,
    /// Everything that happens is told (`CREDENZA_TOLD`).
    told: bool,
}

impl World {
    /// Says what happens, if anyone wants to know.
    pub fn tell(&self, what: impl FnOnce() -> String) {
        if self.told {
            eprintln!("{:>10} {}", self.now, what());
        }
    }

    pub fn new(seed: u64) -> World {
        let mut chance = Chance::new(seed);
        let count = [3, 3, 4, 5][chance.below(4) as usize];
        let voters = if count == 4 { 3 } else { count };
        let node = |which: usize| NodeId(which as u64 + 1);
        let member = |which| Member { node: node(which), part: Part::Voter };
        let first = Configuration::new(ConfigurationId(0), (0..voters).map(member).collect());
        let first = first.expect("a configuration");
        let mates = (0..count).map(|which| {
            // Within the drift that leases allow for: one in a hundred between any two.
            let clock = (chance.below(1 << 40), 996_000 + chance.below(8_000));
            Mate::new(node(which), first.clone(), clock)
        });
        let mates: Vec<_> = mates.collect();
        let weather = match chance.below(3) {
            0 => (0, 0, 500),
            1 => (20, 20, 5_000),
            _ => (chance.below(200), chance.below(200), chance.between(1_000, 60_000)),
        };
        let client = |which: usize| Client { idle_until: which as u64 * 1_000, call: None };
        let mut world = World {
            now: 0,
            sequence: 0,
            events: BTreeMap::new(),
            chance,
            seen: vec![LogIndex(0); count],
            installed: vec![LogIndex(0); count],
            mates,
            cuts: BTreeMap::new(),
            weather,
            clients: (0..CLIENTS).map(client).collect(),
            judge: Judge::default(),
            lives: 0,
            values: 0,
            troubled: true,
            trace: DefaultHasher::new(),
            counts: BTreeMap::new(),
            told: std::env::var_os("CREDENZA_TOLD").is_some(),
        };
        (0..count).for_each(|which| world.at(0, Event::Starts(which)));
        (0..CLIENTS).for_each(|which| world.at(which as u64 * 1_000, Event::Client(which)));
        world.at(1_000_000, Event::Fault);
        world
    }

    /// Puts an event so many microseconds ahead.
    pub fn at(&mut self, ahead: u64, event: Event) {
        self.sequence += 1;
        self.events.insert((self.now + ahead, self.sequence), event);
    }

    /// Lets so many microseconds pass.
    pub fn run(&mut self, microseconds: u64) {
        let end = self.now + microseconds;
        while let Some(((when, _), event)) = self.events.pop_first() {
            if when > end {
                self.sequence += 1;
                self.events.insert((when, self.sequence), event);
                break;
            }
            self.now = when;
            self.happens(event);
        }
        self.now = end;
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Arrives { from, to, payload } => self.arrives(from, to, payload),
            Event::Turn(which) if self.mates[which].next_turn == self.now => self.turn(which),
            Event::Turn(_) => {}
            Event::Written { mate, life } => self.written(mate, life),
            Event::Client(which) => self.client(which),
            Event::Starts(which) => self.starts(which),
            Event::Fault => self.fault(),
            Event::Heals { from, to } => {
                let cuts = self.cuts.entry((from, to)).or_default();
                *cuts = cuts.saturating_sub(1);
            }
            Event::Asked { from, by, life } => self.asked(from, by, life),
            Event::Staged { by, life, staged } => self.staged(by, life, staged),
        }
    }

    fn starts(&mut self, which: usize) {
        if self.mates[which].life.is_some() {
            return;
        }
        self.lives += 1;
        self.mates[which].look_at_the_clock(self.now);
        self.mates[which].start(self.lives);
        let applied = |mate: &Mate| mate.life.as_ref().map(|life| life.group.applied.index());
        self.seen[which] = applied(&self.mates[which]).unwrap_or_default();
        self.tell(|| format!("{} starts, having applied {}", which + 1, self.seen[which]));
        self.wake(which, 0);
    }

    fn arrives(&mut self, from: usize, to: usize, payload: Bytes) {
        if self.cuts.get(&(from, to)).is_some_and(|cuts| *cuts > 0) {
            return;
        }
        let sender = self.mates[from].node;
        if let Some(life) = &self.mates[to].life {
            life.group.arrived(sender, payload);
            self.wake(to, 0);
        }
    }

    fn written(&mut self, which: usize, number: u64) {
        if let Some(life) = self.mates[which].life.as_ref().filter(|life| life.number == number) {
            for job in life.writing.iter().flatten() {
                self.tell(|| {
                    let (ballot, index) = (job.ballot, job.index);
                    let digest = base::codec::checksum(&job.payload, 0) as u16;
                    format!(
                        "{} wrote {:?} {ballot} {index} ({}) {digest:x}",
                        which + 1,
                        job.kind,
                        job.decided
                    )
                });
            }
        }
        let mate = &mut self.mates[which];
        if mate.life.as_ref().is_some_and(|life| life.number == number) {
            mate.look_at_the_clock(self.now);
            mate.written();
            self.wake(which, 0);
        }
    }

    /// A node's turn comes in so many microseconds, or when it wakes, unless one is due before.
    pub(super) fn wake(&mut self, which: usize, ahead: u64) {
        let mate = &mut self.mates[which];
        let when = (self.now + ahead).max(mate.sleeps_until);
        if when < mate.next_turn || mate.next_turn < self.now {
            mate.next_turn = when;
            self.at(when - self.now, Event::Turn(which));
        }
    }

    fn turn(&mut self, which: usize) {
        let mate = &mut self.mates[which];
        mate.next_turn = u64::MAX;
        let Some(life) = &mut mate.life else { return };
        let (ahead, rate) = mate.clock;
        let own = u128::from(ahead) + u128::from(self.now) * u128::from(rate) / 1_000_000;
        crate::world::SIMULATED.set(Some(own as u64 * 1_000));
        let sleep = life.group.turn(false).expect("nothing fails here");
        let sent = std::mem::take(&mut *life.outbox.lock().expect("one thread"));
        let number = life.number;
        let mut writes = None;
        if life.writing.is_none() {
            let (jobs, _) = life.keeper.take();
            if !jobs.is_empty() {
                life.writing = Some(jobs);
                writes = Some(mate.slow_disk);
            }
        }
        if let Some(slow) = writes {
            let takes = if slow {
                self.chance.between(5_000, 300_000)
            } else {
                self.chance.between(100, 3_000)
            };
            self.at(takes, Event::Written { mate: which, life: number });
        }
        for (to, payload) in sent {
            self.send(which, to, payload);
        }
        self.look_at_wanted(which);
        self.look_at_applied(which);
        self.look_at_clients(which);
        self.wake(which, sleep.as_micros() as u64);
    }

    fn send(&mut self, from: usize, to: NodeId, payload: Bytes) {
        let Some(to) = self.mates.iter().position(|mate| mate.node == to) else { return };
        (self.now, from, to, &payload[..]).hash(&mut self.trace);
        let (lost, doubled, late) = if self.troubled { self.weather } else { (0, 0, 500) };
        self.tell(|| {
            let message = logic::consensus::Message::read(&mut base::codec::Reader::new(&payload));
            format!("{} -> {} {message:?}", from + 1, to + 1)
        });
        let copies = 1 + u64::from(self.chance.often(doubled));
        for _ in 0..copies {
            let way = WAY_US + self.chance.below(late);
            if !self.chance.often(lost) {
                self.at(way, Event::Arrives { from, to, payload: payload.clone() });
            }
        }
    }

    /// Everything newly applied is shown to the judge.
    pub(super) fn look_at_applied(&mut self, which: usize) {
        let Some(life) = &self.mates[which].life else { return };
        let upto = life.group.applied.index();
        while self.seen[which] < upto {
            self.seen[which] = self.seen[which].next();
            let payload = life.group.state().values.get(self.seen[which]);
            match payload {
                Some((payload, _)) => self.judge.applied(self.seen[which], &payload),
                None => assert!(self.seen[which] <= self.installed[which], "applied unseen"),
            }
        }
    }

    fn look_at_clients(&mut self, which: usize) {
        for client in 0..self.clients.len() {
            if self.clients[client].call.as_ref().is_some_and(|call| call.mate == which) {
                self.goes_on(client);
            }
        }
    }

    fn goes_on(&mut self, which: usize) {
        let client = &mut self.clients[which];
        let Some(outcome) = client.go_on(&self.mates, self.now, &mut self.judge) else { return };
        (self.now, which, outcome).hash(&mut self.trace);
        let name = match outcome {
            Outcome::Wrote => "wrote",
            Outcome::Read => "read",
            Outcome::InDoubt => "in doubt",
            Outcome::Refused => "refused",
        };
        *self.counts.entry(name).or_default() += 1;
        let rest = self.chance.between(500, 20_000);
        self.clients[which].idle_until = self.now + rest;
    }

    fn client(&mut self, which: usize) {
        self.goes_on(which);
        let pause = self.chance.between(1_000, 5_000);
        self.at(pause, Event::Client(which));
        let client = &self.clients[which];
        if client.call.is_some() || client.idle_until > self.now {
            return;
        }
        // Most know where the master is; some ask anyone.
        let leads = |mate: &Mate| {
            mate.life.as_ref().is_some_and(|life| life.group.master.load(Ordering::Acquire))
        };
        let masters: Vec<_> = (0..self.mates.len()).filter(|at| leads(&self.mates[*at])).collect();
        let place = match masters.len() {
            0 => self.chance.below(self.mates.len() as u64) as usize,
            _ if self.chance.often(100) => self.chance.below(self.mates.len() as u64) as usize,
            many => masters[self.chance.below(many as u64) as usize],
        };
        let key = Bytes::from(format!("k{}", self.chance.below(KEYS)));
        let (writes, probes) = (self.chance.often(500), self.chance.often(300));
        let rest = if self.chance.often(50) { self.chance.below(800_000) } else { 0 };
        let mate = &self.mates[place];
        let Some(life) = mate.life.as_ref().filter(|_| self.now >= mate.sleeps_until) else {
            return;
        };
        mate.look_at_the_clock(self.now);
        self.clients[which].call = if writes {
            self.values += 1;
            let value = Bytes::from(format!("v{}", self.values));
            clients::write(place, life, key, value, self.now)
        } else if probes {
            clients::probe(place, life, key, self.now, &mut self.judge)
        } else {
            Some(clients::read(place, life, key, self.now, rest))
        };
        self.wake(place, 10);
    }

    /// A node that is in office.
    pub fn master(&self) -> Option<usize> {
        let leads = |mate: &Mate| {
            let life = mate.life.as_ref();
            life.is_some_and(|life| life.group.master.load(Ordering::Acquire))
        };
        self.mates.iter().position(leads)
    }

    /// After all trouble: a master, every member level with it, and the same rows everywhere.
    pub fn ends_well(mut self) -> (u64, BTreeMap<&'static str, u64>) {
        let before = self.counts.get("wrote").copied().unwrap_or(0);
        let begin = self.now;
        while !self.is_level() || self.counts.get("wrote").copied().unwrap_or(0) < before + 20 {
            assert!(self.now < begin + 60_000_000, "no progress: {:?}", self.counts);
            self.run(50_000);
        }
        self.look_at_rows();
        *self.counts.entry("values").or_default() +=
            self.seen.iter().map(|seen| seen.0).max().unwrap_or(0);
        crate::world::SIMULATED.set(None);
        self.judge.judge();
        (self.trace.finish(), self.counts)
    }

    fn is_level(&self) -> bool {
        let Some(master) = self.master() else { return false };
        let life = |which: usize| self.mates[which].life.as_ref();
        let Some(leads) = life(master) else { return false };
        let members = leads.group.configuration();
        let index = leads.group.applied.index();
        let level = |member: &Member| {
            let which = member.node.0 as usize - 1;
            life(which).is_some_and(|life| life.group.applied.index().0 + 50 >= index.0)
        };
        members.members().iter().all(level)
    }

    /// Nodes that have applied the same have the same rows.
    fn look_at_rows(&self) {
        let mut states: BTreeMap<LogIndex, Vec<(Bytes, Bytes)>> = BTreeMap::new();
        for mate in &self.mates {
            let Some(life) = &mate.life else { continue };
            let snapshot = store::Trees::snapshot(&*mate.trees);
            let rows: Result<Vec<_>, _> = snapshot
                .range(std::ops::Bound::Unbounded, std::ops::Bound::Unbounded, false)
                .collect();
            let rows = rows.expect("memory");
            let index = life.group.applied.index();
            let known = states.entry(index).or_insert_with(|| rows.clone());
            assert!(*known == rows, "nodes differ at index {index} of group {GROUP}");
        }
    }
}

//! Everything that happens, in the order of one clock, from one seed.

use super::chance::Chance;
use super::clients::{self, Client, Outcome};
use super::flavours::Flavour;
use super::judge::Judge;
use super::mate::{GROUPS_MAX, Mate, group_id};
use super::snapshots::Fetcher;
use super::weather::Weather;
use base::{LogIndex, NodeId, Part, Placement};
use bytes::Bytes;
use replication::group::Group;
use replication::snapshot::StagedSnapshot;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash};
use std::time::Duration;

const KEYS: u64 = 4;
const CLIENTS: usize = 6;
/// A record that need not be synced is, after so long.
const INTERVAL: Duration = Duration::from_millis(500);
/// Values of clients are padded up to so many bytes, so that segments of the log fill.
const PADDING_BYTES_MAX: u64 = 6_000;

/// How histories are drawn: seeds of an older era keep their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Era {
    /// Before disks failed, and when networks were better.
    Reliable,
    /// When the log writer and maintenance did in one go what they do.
    Whole,
    /// They are taken step by step, disks hang, and groups may have one voter.
    Stepped,
}

/// What happens at a moment.
pub(super) enum Event {
    Arrives { from: usize, to: usize, group: usize, payload: Bytes },
    Turn(usize),
    Written { mate: usize, life: u64 },
    Client(usize),
    Starts(usize),
    Fault,
    Heals { from: usize, to: usize },
    Asked { from: NodeId, by: Fetcher },
    Staged { by: Fetcher, staged: Option<Box<StagedSnapshot>> },
    Housekeeping,
    Maintains { mate: usize, life: u64 },
    Falls { mate: usize, life: u64 },
}

pub(super) struct World {
    pub now: u64,
    sequence: u64,
    pub events: BTreeMap<(u64, u64), Event>,
    pub chance: Chance,
    pub steps: Chance, // Of when the threads of a node go on.
    pub mates: Vec<Mate>,
    /// How many cuts lie on each way.
    pub cuts: BTreeMap<(usize, usize), u32>,
    pub weather: Weather,
    pub era: Era,
    /// Before disks failed, and when networks were better.
    pub older: bool,
    /// When a write of each group was acknowledged last.
    pub wrote_at: Vec<u64>,
    /// Which faults there are beside the usual ones.
    pub flavour: Flavour,
    clients: Vec<Client>,
    /// One for each group.
    pub judges: Vec<Judge>,
    /// What each node has applied of each group, as far as its judge has seen.
    pub seen: Vec<Vec<LogIndex>>,
    /// What came to each in a snapshot ends here at the latest.
    pub installed: Vec<Vec<LogIndex>>,
    incarnations: u64,
    values: u64,
    pub troubled: bool,
    pub trace: DefaultHasher,
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
        World::of(seed, Era::Stepped)
    }

    pub fn of(seed: u64, era: Era) -> World {
        let (mut chance, older) = (Chance::new(seed), era == Era::Reliable);
        let mut steps = Chance::new(seed.wrapping_add(0x57E9_57E9));
        let alone = era == Era::Stepped && steps.often(150);
        let several = [3, 3, 4, 5][chance.below(4) as usize];
        let count = if alone { 1 } else { several };
        // In some histories the last one keeps no rows; it joins when members are changed.
        let witnessed = count != 4 && chance.often(400) && !alone;
        let is_witness = |which: usize| witnessed && which + 1 == count;
        let voters = if count == 4 || witnessed { count - 1 } else { count };
        let node = |which: usize| NodeId(which as u64 + 1);
        // Often one alone, so that this stays as well tried as ever.
        let groups = chance.between(1, GROUPS_MAX).min(chance.between(1, GROUPS_MAX)) as usize;
        let placement = |group: usize| Placement {
            group: group_id(group),
            members: (0..count).map(|which| (node(which), Part::Learner)).collect(),
            replicas: voters as u32,
            founders: (0..voters).map(node).collect(),
            quorum: None,
        };
        let placements: Vec<_> = (0..groups).map(placement).collect();
        let mates = (0..count).map(|which| {
            // Within the drift that leases allow for: one in a hundred between any two.
            let clock = (chance.below(1 << 40), 996_000 + chance.below(8_000));
            let witness = is_witness(which);
            let mut mate = Mate::new(node(which), placements.clone(), clock);
            if era == Era::Stepped {
                mate.interval = INTERVAL;
            }
            Mate { witness, ..mate }
        });
        let mates: Vec<_> = mates.collect();
        let weather = Weather::of(&mut chance, older);
        let client = |which: usize| Client { idle_until: which as u64 * 1_000, call: None };
        let mut world = World {
            now: 0,
            sequence: 0,
            events: BTreeMap::new(),
            chance,
            steps,
            seen: vec![vec![LogIndex(0); groups]; count],
            installed: vec![vec![LogIndex(0); groups]; count],
            mates,
            cuts: BTreeMap::new(),
            weather,
            era,
            older,
            wrote_at: vec![0; groups],
            flavour: Flavour::Usual,
            clients: (0..CLIENTS).map(client).collect(),
            judges: (0..groups).map(|_| Judge::default()).collect(),
            incarnations: 0,
            values: 0,
            troubled: true,
            trace: DefaultHasher::new(),
            counts: BTreeMap::new(),
            told: std::env::var_os("CREDENZA_TOLD").is_some(),
        };
        (0..count).for_each(|which| world.at(0, Event::Starts(which)));
        (0..CLIENTS).for_each(|which| world.at(which as u64 * 1_000, Event::Client(which)));
        world.at(1_000_000, Event::Fault);
        if era == Era::Stepped {
            world.at(1_000_000, Event::Housekeeping);
        }
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
            Event::Arrives { from, to, group, payload } => self.arrives((from, to), group, payload),
            Event::Turn(which) if self.mates[which].next_turn == self.now => self.turn(which),
            Event::Turn(_) => {}
            Event::Written { mate, life } if self.era == Era::Stepped => {
                self.writer_steps(mate, life);
            }
            Event::Written { mate, life } => self.written(mate, life),
            Event::Housekeeping => self.housekeeping(),
            Event::Maintains { mate, life } => self.maintains(mate, life),
            Event::Falls { mate, life } => self.falls(mate, life),
            Event::Client(which) => self.client(which),
            Event::Starts(which) => self.starts(which),
            Event::Fault => self.fault(),
            Event::Heals { from, to } => {
                let cuts = self.cuts.entry((from, to)).or_default();
                *cuts = cuts.saturating_sub(1);
            }
            Event::Asked { from, by } => self.asked(from, by),
            Event::Staged { by, staged } => self.staged(by, staged),
        }
    }

    fn starts(&mut self, which: usize) {
        let returns = self.mates[which].hangs_until;
        if returns > self.now {
            return self.at(returns - self.now, Event::Starts(which));
        }
        if self.mates[which].life.is_some() || !self.mends(which) {
            return;
        }
        self.incarnations += 1;
        self.mates[which].look_at_the_clock(self.now);
        if let Err(error) = self.mates[which].start(self.incarnations) {
            return self.fails_to_start(which, &error);
        }
        if let Some(life) = &self.mates[which].life {
            self.seen[which] = (0..self.judges.len()).map(|group| life.applied(group)).collect();
        }
        self.tell(|| format!("{} starts, having applied {:?}", which + 1, self.seen[which]));
        self.wake(which, 0);
    }

    fn arrives(&mut self, (from, to): (usize, usize), group: usize, payload: Bytes) {
        if self.cuts.get(&(from, to)).is_some_and(|cuts| *cuts > 0) {
            return;
        }
        let sender = self.mates[from].node;
        if let Some(life) = &self.mates[to].life {
            Group::arrived(life.group(group), sender, payload);
            self.wake(to, 0);
        }
    }

    fn written(&mut self, which: usize, number: u64) {
        if let Some(life) = self.mates[which].life.as_ref().filter(|life| life.number == number) {
            for job in life.writer.unwritten() {
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
            let written = mate.written();
            self.keeps(which, written);
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
        life.states_again(self.now);
        let (ahead, rate) = mate.clock;
        let own = u128::from(ahead) + u128::from(self.now) * u128::from(rate) / 1_000_000;
        runtime::world::set_time(Some(own as u64 * 1_000));
        let turns = life.seats.iter().map(|seat| seat.group.turn(false));
        let sleep = turns.min_by_key(|turn| turn.as_ref().ok().copied()).expect("there is a group");
        let sent = std::mem::take(&mut *life.outbox.lock().expect("one thread"));
        let number = life.number;
        let mut writes = None;
        if life.writer.rests() && life.log_writer.has_work() {
            life.write().expect("it takes what waits");
            writes = Some(mate.slow_disk);
        }
        if let Some(slow) = writes {
            let takes = if slow {
                self.chance.between(5_000, 300_000)
            } else {
                self.chance.between(100, 3_000)
            };
            self.at(takes, Event::Written { mate: which, life: number });
        }
        for (to, group, payload) in sent {
            self.send(which, to, group, payload);
        }
        let sleep = match sleep {
            Ok(sleep) => sleep,
            Err(error) => return self.fails(which, &error),
        };
        self.look_at_wanted(which);
        self.look_at_applied(which);
        self.look_at_clients(which);
        self.wake(which, sleep.as_micros() as u64);
    }

    pub(super) fn look_at_clients(&mut self, which: usize) {
        for client in 0..self.clients.len() {
            if self.clients[client].call.as_ref().is_some_and(|call| call.mate == which) {
                self.goes_on(client);
            }
        }
    }

    fn goes_on(&mut self, which: usize) {
        let client = &mut self.clients[which];
        let group = client.call.as_ref().map(|call| call.group);
        let Some(outcome) = client.go_on(&self.mates, self.now, &mut self.judges) else { return };
        if let (Outcome::Wrote, Some(group)) = (outcome, group) {
            self.wrote_at[group] = self.now;
        }
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
        if !self.older && self.chance.often(20) {
            self.asks_for_one();
        }
        let client = &self.clients[which];
        if client.call.is_some() || client.idle_until > self.now {
            return;
        }
        // Most know where the master is; some ask anyone.
        let group = self.any_group();
        let leads = |mate: &Mate| mate.life.as_ref().is_some_and(|life| life.leads(group));
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
            let mut value = format!("v{}", self.values);
            if self.era == Era::Stepped && self.steps.often(300) {
                let width = self.steps.below(PADDING_BYTES_MAX) as usize;
                value = format!("{value:width$}");
            }
            let value = Bytes::from(value);
            let judge = &mut self.judges[group];
            clients::write((place, group), life, key, value, self.now, judge)
        } else if probes {
            clients::probe((place, group), life, key, self.now, &mut self.judges[group])
        } else {
            Some(clients::read((place, group), life, key, self.now, rest))
        };
        self.wake(place, 10);
    }
}

//! Simulated world of consistent groups: all events in the order of one clock, from one seed.

use super::clients::{self, Client, ClientCallOutcome};
use super::costs::rows_read;
use super::counted::SimScan;
use super::fed::{READERS, ReplicaReader};
use super::flavours::Flavour;
use super::judge::Judge;
use super::network::draw_profile;
use super::node::{GROUPS_MAX, SimNode, group_id};
use super::snapshots::Fetcher;
use base::{LogIndex, NodeId, Part, Placement};
use bytes::Bytes;
use replica_state::snapshot::StagedSnapshot;
use replication::group::Group;
use sim::{Chance, Cuts, EventQueue, FaultProfile, Journal, SimClock};
use std::time::Duration;

const KEYS: u64 = 4;
const CLIENTS: usize = 6;
/// Longest time until a record that need not be synced is synced.
const INTERVAL: Duration = Duration::from_millis(500);
/// Most bytes by which clients pad values, so that segments of the log fill.
const PADDING_BYTES_MAX: u64 = 6_000;

/// Era of the simulator in which a history is drawn: seeds of an older era keep their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Era {
    /// Disks do not fail, and networks are better.
    Reliable,
    /// The log writer and maintenance do their work in one go.
    Whole,
    /// Threads work step by step, disks hang, and groups may have one voter.
    Stepped,
}

/// Event of the simulation.
pub(super) enum Event {
    Arrives { from: usize, to: usize, group: usize, payload: Bytes },
    Turn(usize),
    Written { node: usize, process: u64 },
    Client(usize),
    Starts(usize),
    Fault,
    Heals { from: usize, to: usize },
    LinkEnds { node: usize, other: usize },
    Asked { from: NodeId, by: Fetcher },
    Staged { by: Fetcher, staged: Option<Box<StagedSnapshot>> },
    Installs(Fetcher),
    Housekeeping,
    Maintains { node: usize, process: u64 },
    Falls { node: usize, process: u64 },
}

pub(super) struct World {
    /// Events, with times in microseconds.
    pub queue: EventQueue<Event>,
    pub chance: Chance,
    pub steps: Chance, // Draws the times of threads' steps.
    pub nodes: Vec<SimNode>,
    pub cuts: Cuts,
    pub profile: FaultProfile,
    pub era: Era,
    /// True in the era [`Era::Reliable`].
    pub older: bool,
    /// Time of the last acknowledged write of each group.
    pub wrote_at: Vec<u64>,
    /// Additional fault of the history.
    pub flavour: Flavour,
    clients: Vec<Client>,
    pub scans: Vec<Option<SimScan>>, // Of counted buckets, one for each group.
    /// Readers of feeds, several for each group.
    pub feed_readers: Vec<[ReplicaReader; READERS]>,
    pub judges: Vec<Judge>, // One for each group.
    /// Applied index that was reported to the judge, by node and group.
    pub judged: Vec<Vec<LogIndex>>,
    /// Highest index that a node got in a snapshot, by node and group.
    pub installed: Vec<Vec<LogIndex>>,
    processes: u64,
    pub values: u64,
    pub has_faults: bool,
    pub journal: Journal,
}

impl World {
    /// Prints an event if tracing is on.
    pub fn tell(&self, what: impl FnOnce() -> String) {
        self.journal.trace(self.queue.now(), what);
    }

    pub fn new(seed: u64) -> World {
        World::of(seed, Era::Stepped)
    }

    pub fn of(seed: u64, era: Era) -> World {
        let (mut chance, older) = (Chance::new(seed), era == Era::Reliable);
        let mut steps = Chance::new(seed.wrapping_add(0x57E9_57E9));
        let sole = era == Era::Stepped && steps.draw_bool(150);
        let several = [3, 3, 4, 5][chance.below(4) as usize];
        let count = if sole { 1 } else { several };
        // In some histories the last node keeps no rows; it joins when members are changed.
        let witnessed = count != 4 && chance.draw_bool(400) && !sole;
        let is_witness = |nth: usize| witnessed && nth + 1 == count;
        let voters = if count == 4 || witnessed { count - 1 } else { count };
        let id = |nth: usize| NodeId(nth as u64 + 1);
        // A single group is the most frequent case, so that it stays as well tested as ever.
        let groups = chance.between(1, GROUPS_MAX).min(chance.between(1, GROUPS_MAX)) as usize;
        let placement = |group: usize| Placement {
            group: group_id(group),
            members: (0..count).map(|nth| (id(nth), Part::Learner)).collect(),
            replicas: voters as u32,
            founders: (0..voters).map(id).collect(),
            quorum: None,
        };
        let placements: Vec<_> = (0..groups).map(placement).collect();
        let nodes = (0..count).map(|nth| {
            // Clock rates within the drift that leases permit: 1 % between any two.
            let clock = SimClock::new(chance.below(1 << 40), 996_000 + chance.below(8_000));
            let witness = is_witness(nth);
            let mut node = SimNode::new(id(nth), placements.clone(), clock);
            if era == Era::Stepped {
                node.interval = INTERVAL;
            }
            SimNode { witness, ..node }
        });
        let nodes: Vec<_> = nodes.collect();
        let profile = draw_profile(&mut chance, older);
        let client = |nth: usize| Client { idle_until: nth as u64 * 1_000, call: None };
        let mut world = World {
            queue: EventQueue::default(),
            chance,
            steps,
            judged: vec![vec![LogIndex(0); groups]; count],
            installed: vec![vec![LogIndex(0); groups]; count],
            nodes,
            cuts: Cuts::default(),
            profile,
            era,
            older,
            wrote_at: vec![0; groups],
            flavour: Flavour::Usual,
            clients: (0..CLIENTS).map(client).collect(),
            scans: (0..groups).map(|_| None).collect(),
            feed_readers: (0..groups).map(|_| Default::default()).collect(),
            judges: (0..groups).map(|_| Judge::default()).collect(),
            processes: 0,
            values: 0,
            has_faults: true,
            journal: Journal::default(),
        };
        (0..count).for_each(|nth| world.at(0, Event::Starts(nth)));
        (0..CLIENTS).for_each(|nth| world.at(nth as u64 * 1_000, Event::Client(nth)));
        world.at(1_000_000, Event::Fault);
        if era == Era::Stepped {
            world.at(1_000_000, Event::Housekeeping);
        }
        world
    }

    /// Schedules an event after this many microseconds.
    pub fn at(&mut self, ahead: u64, event: Event) {
        self.queue.schedule_after(ahead, event);
    }

    /// Runs the simulation for this many microseconds.
    pub fn run(&mut self, microseconds: u64) {
        let end = self.queue.now() + microseconds;
        while let Some(event) = self.queue.next_until(end) {
            self.happens(event);
        }
        // Seeds were found with this order, and keep it.
        self.queue.postpone_first();
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Arrives { from, to, group, payload } => self.arrives((from, to), group, payload),
            Event::Turn(which) if self.nodes[which].next_turn == self.queue.now() => {
                self.turn(which)
            }
            Event::Turn(_) => {}
            Event::Written { node, process } if self.era == Era::Stepped => {
                self.writer_steps(node, process);
            }
            Event::Written { node, process } => self.finish_writes(node, process),
            Event::Housekeeping => self.housekeeping(),
            Event::Maintains { node, process } => self.maintains(node, process),
            Event::Falls { node, process } => self.falls(node, process),
            Event::Client(which) => self.client(which),
            Event::Starts(which) => self.starts(which),
            Event::Fault => self.fault(),
            Event::Heals { from, to } => self.cuts.mend(from, to),
            Event::LinkEnds { node, other } => self.link_ends(node, other),
            Event::Asked { from, by } => self.asked(from, by),
            Event::Staged { by, staged } => self.staged(by, staged),
            Event::Installs(by) => self.install_step(by),
        }
    }

    fn starts(&mut self, nth: usize) {
        let returns = self.nodes[nth].hangs_until;
        if returns > self.queue.now() {
            return self.at(returns - self.queue.now(), Event::Starts(nth));
        }
        if self.nodes[nth].process.is_some() || !self.mends(nth) {
            return;
        }
        self.processes += 1;
        self.nodes[nth].clock.enter(self.queue.now());
        if let Err(error) = self.nodes[nth].start(self.processes) {
            return self.fail_start(nth, &error);
        }
        if let Some(process) = &self.nodes[nth].process {
            self.judged[nth] = (0..self.judges.len()).map(|group| process.applied(group)).collect();
        }
        self.tell(|| format!("{} starts, having applied {:?}", nth + 1, self.judged[nth]));
        self.wake(nth, 0);
    }

    fn arrives(&mut self, (from, to): (usize, usize), group: usize, payload: Bytes) {
        if self.cuts.is_cut(from, to) {
            return;
        }
        let sender = self.nodes[from].id;
        if let Some(process) = &self.nodes[to].process {
            Group::on_message(process.group(group), sender, payload);
            self.wake(to, 0);
        }
    }

    fn finish_writes(&mut self, nth: usize, number: u64) {
        if let Some(process) =
            self.nodes[nth].process.as_ref().filter(|process| process.number == number)
        {
            for job in process.writer.unwritten() {
                self.tell(|| {
                    let (ballot, index) = (job.ballot, job.index);
                    let digest = base::codec::checksum(&job.payload, 0) as u16;
                    format!(
                        "{} wrote {:?} {ballot} {index} ({}) {digest:x}",
                        nth + 1,
                        job.kind,
                        job.decided
                    )
                });
            }
        }
        let node = &mut self.nodes[nth];
        if node.process.as_ref().is_some_and(|process| process.number == number) {
            node.clock.enter(self.queue.now());
            let written = node.finish_writes();
            self.on_write_result(nth, written);
        }
    }

    /// Schedules a node's turn after `ahead` microseconds, or when its pause ends, unless one is
    /// due earlier.
    pub(super) fn wake(&mut self, nth: usize, ahead: u64) {
        let node = &mut self.nodes[nth];
        let when = (self.queue.now() + ahead).max(node.clock.paused_until);
        if when < node.next_turn || node.next_turn < self.queue.now() {
            node.next_turn = when;
            self.at(when - self.queue.now(), Event::Turn(nth));
        }
    }

    fn turn(&mut self, nth: usize) {
        let node = &mut self.nodes[nth];
        node.next_turn = u64::MAX;
        let rows_before = rows_read(node);
        let Some(process) = &mut node.process else { return };
        process.states_again(self.queue.now());
        node.clock.enter(self.queue.now());
        let in_steps = self.flavour == Flavour::Installing;
        let turns = process.replicas.iter().map(|replica| replica.turn(in_steps));
        let sleep = turns.min_by_key(|turn| turn.as_ref().ok().copied()).expect("there is a group");
        let sent = std::mem::take(&mut *process.outbox.lock().expect("one thread"));
        let number = process.number;
        let mut writes = None;
        if process.writer.is_between_rounds() && process.log_writer.has_work() {
            process.write().expect("it takes what waits");
            writes = Some(node.slow_disk);
        }
        if let Some(slow) = writes {
            let takes = if slow {
                self.chance.between(5_000, 300_000)
            } else {
                self.chance.between(100, 3_000)
            };
            self.at(takes, Event::Written { node: nth, process: number });
        }
        for (to, group, payload) in sent {
            self.send(nth, to, group, payload);
        }
        let sleep = match sleep {
            Ok(sleep) => sleep,
            Err(error) => return self.fail_node(nth, &error),
        };
        match self.flavour {
            Flavour::Costly => self.count_rows(nth, rows_before),
            Flavour::Counted => self.judge_counts(nth),
            Flavour::Indexed => self.judge_indexes(nth),
            Flavour::Fed => self.judge_feeds(nth),
            _ => {}
        }
        self.look_at_wanted(nth);
        self.judge_applied(nth);
        self.poll_clients(nth);
        // Rounded up: a sleep of less than a microsecond must pass, too.
        self.wake(nth, sleep.as_nanos().div_ceil(1_000) as u64);
    }

    pub(super) fn poll_clients(&mut self, nth: usize) {
        for client in 0..self.clients.len() {
            if self.clients[client].call.as_ref().is_some_and(|call| call.node == nth) {
                self.poll_client(client);
            }
        }
    }

    fn poll_client(&mut self, nth: usize) {
        let client = &mut self.clients[nth];
        let group = client.call.as_ref().map(|call| call.group);
        let Some(outcome) = client.advance(&self.nodes, self.queue.now(), &mut self.judges) else {
            return;
        };
        if let (ClientCallOutcome::Wrote, Some(group)) = (outcome, group) {
            self.wrote_at[group] = self.queue.now();
        }
        self.journal.record((self.queue.now(), nth, outcome));
        let name = match outcome {
            ClientCallOutcome::Wrote => "wrote",
            ClientCallOutcome::Read => "read",
            ClientCallOutcome::InDoubt => "in doubt",
            ClientCallOutcome::Refused => "refused",
        };
        self.journal.count(name);
        let rest = self.chance.between(500, 20_000);
        self.clients[nth].idle_until = self.queue.now() + rest;
    }

    fn client(&mut self, nth: usize) {
        self.poll_client(nth);
        let pause = self.chance.between(1_000, 5_000);
        self.at(pause, Event::Client(nth));
        if !self.older && self.chance.draw_bool(20) {
            self.asks_for_one();
        }
        let client = &self.clients[nth];
        if client.call.is_some() || client.idle_until > self.queue.now() {
            return;
        }
        let request: Option<fn(&mut World)> = match self.flavour {
            Flavour::Costly => Some(World::costly_request),
            Flavour::Counted => Some(World::counted_request),
            Flavour::Indexed => Some(World::indexed_request),
            Flavour::Fed => Some(World::fed_request),
            _ => None,
        };
        if let Some(request) = request.filter(|_| self.steps.draw_bool(500)) {
            return request(self);
        }
        // Most clients know the master; some call any node.
        let group = self.any_group();
        let leads =
            |node: &SimNode| node.process.as_ref().is_some_and(|process| process.leads(group));
        let masters: Vec<_> = (0..self.nodes.len()).filter(|at| leads(&self.nodes[*at])).collect();
        let place = match masters.len() {
            0 => self.chance.below(self.nodes.len() as u64) as usize,
            _ if self.chance.draw_bool(100) => self.chance.below(self.nodes.len() as u64) as usize,
            many => masters[self.chance.below(many as u64) as usize],
        };
        let key = Bytes::from(format!("k{}", self.chance.below(KEYS)));
        let (writes, probes) = (self.chance.draw_bool(500), self.chance.draw_bool(300));
        let rest = if self.chance.draw_bool(50) { self.chance.below(800_000) } else { 0 };
        let node = &self.nodes[place];
        let Some(process) =
            node.process.as_ref().filter(|_| self.queue.now() >= node.clock.paused_until)
        else {
            return;
        };
        node.clock.enter(self.queue.now());
        self.clients[nth].call = if writes {
            self.values += 1;
            let mut value = format!("v{}", self.values);
            if self.era == Era::Stepped && self.steps.draw_bool(300) {
                let width = self.steps.below(PADDING_BYTES_MAX) as usize;
                value = format!("{value:width$}");
            }
            let value = Bytes::from(value);
            let judge = &mut self.judges[group];
            clients::write((place, group), process, key, value, self.queue.now(), judge)
        } else if probes {
            clients::probe((place, group), process, key, self.queue.now(), &mut self.judges[group])
        } else {
            Some(clients::read((place, group), process, key, self.queue.now(), rest))
        };
        self.wake(place, 10);
    }
}

//! Simulated world of one group: time, network, disks and clocks, and the steps of its nodes.

use super::faults::with_permitted_quorum;
use super::judge::Judge;
use crate::consensus::tests::machine::{Identity, Machine};
use crate::consensus::{
    Configuration, Effect, EntrySize, Event, LeaseClock, Member, Message, Role,
};
use base::{ConfigurationId, LogIndex, Millis, NodeId, Part};
use sim::{Chance, Cuts, EventQueue, FaultProfile, Journal, SimClock};
use std::collections::BTreeMap;

/// Maximum milliseconds between two ticks; several fit in a lease.
const TICK_MAX_MS: u64 = 25;
/// Most events that may be scheduled at a time: with more, messages would multiply without end.
const EVENTS_MAX: usize = 20_000;
/// Nanoseconds per millisecond, the unit of time here.
const MS_NS: u64 = 1_000_000;

/// Simulated node.
pub struct ConsensusNode {
    pub identity: Identity,
    pub machine: Machine,
    pub up: bool,
    /// Contents of the node's lost disk; such a node never comes back. The judge counts them: the
    /// disk failed after a save, so the save itself was true.
    pub lost: Option<Machine>,
    /// Number of the incarnation; disk operations of an earlier one are ignored.
    pub incarnation: u64,
    /// Clock of this incarnation. The node does nothing while it is paused.
    pub clock: SimClock,
    pub syncing: bool,
    pub snapshot_in_progress: bool,
    /// Highest index whose value is gone from its log.
    pub floor: LogIndex,
    /// Index after which it restarted as a witness; it never had the entries up to there.
    pub skipped_to: LogIndex,
}

impl ConsensusNode {
    fn durable_machine(&self) -> &Machine {
        self.lost.as_ref().unwrap_or(&self.machine)
    }
}

/// Event of the simulation.
pub enum SimEvent {
    Deliver { from: usize, to: usize, message: Message, values: Vec<u64> },
    Synced { node: usize, incarnation: u64 },
    Tick { node: usize, incarnation: u64 },
    Snapshot { node: usize, incarnation: u64, from: usize },
    Client,
    Fault,
    Mend,
    Crash { node: usize, incarnation: u64 },
    Restart { node: usize, incarnation: u64 },
    LinkEnd { node: usize, other: usize },
}

/// Faults of network and disks, in per mille and milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct FaultRates {
    /// Fault profile; a straggler takes its own delay in place of the usual one.
    pub network: FaultProfile,
    /// Rate of messages with values that find the send queue full.
    pub full: u64,
    /// Rate of crashes soon after a node has adopted a log or become master.
    pub crash_promoted: u64,
    /// Minimum and maximum time of a sync.
    pub sync: (u64, u64),
}

impl FaultRates {
    /// Returns rates without faults.
    pub fn calm() -> FaultRates {
        let network = FaultProfile { delay: (1, 3), ..FaultProfile::default() };
        FaultRates { network, full: 0, crash_promoted: 0, sync: (0, 4) }
    }
}

pub struct World {
    pub chance: Chance,
    queue: EventQueue<SimEvent>,
    pub nodes: Vec<ConsensusNode>,
    pub cuts: Cuts,
    pub rates: FaultRates,
    pub judge: Judge,
    /// Values that are stop-signs, with the configurations that they name.
    pub signs: BTreeMap<u64, Configuration>,
    next_value: u64,
    tick: u64,
    /// True once faults have ended.
    pub is_calm: bool,
    /// True if the members of the group change.
    pub changes_members: bool,
    /// True if quorums other than a majority save a value.
    pub varies_quorums: bool,
    pub journal: Journal,
}

/// Returns a clock that shows `reading_ms` milliseconds at time 0. A slow clock starts at the end
/// of its millisecond, since its reading is rounded up.
fn new_clock(reading_ms: u64, rate: u64) -> SimClock {
    let rounding_ns = if rate < 1_000_000 { MS_NS - 1 } else { 0 };
    SimClock { ahead_ns: reading_ms * MS_NS + rounding_ns, ..SimClock::new(0, rate) }
}

impl World {
    /// Returns a group of these members, all in their first incarnation, and `spare` nodes that are
    /// no members yet.
    pub fn new(seed: u64, parts: &[Part], spare: u64, lease: LeaseClock) -> World {
        let mut chance = Chance::new(seed);
        let member =
            |(place, part): (usize, &Part)| Member { node: NodeId(place as u64 + 1), part: *part };
        let members: Vec<_> = parts.iter().enumerate().map(member).collect();
        let configuration = Configuration::new(ConfigurationId(0), members.clone()).expect("sound");
        let varies_quorums = seed % 4 == 3;
        let configuration =
            with_permitted_quorum(configuration, varies_quorums.then_some(seed / 4));
        // Each clock may be off by as much as the lease allows, in either direction.
        let drift = i64::from(lease.drift_ppm.min(450_000));
        let nodes: Vec<_> = (1..=members.len() as u64 + spare)
            .map(|node| {
                let identity = Identity {
                    node: NodeId(node),
                    signs: BTreeMap::new(),
                    configuration: configuration.clone(),
                    lease,
                };
                let gain_ppm: i64 = match chance.below(3) {
                    0 => -drift,
                    1 => drift,
                    _ => chance.below(2 * drift as u64 + 1) as i64 - drift,
                };
                ConsensusNode {
                    machine: Machine::fresh(identity.clone()),
                    identity,
                    up: true,
                    lost: None,
                    incarnation: 0,
                    clock: new_clock(
                        chance.below(1_000_000),
                        1_000_000_u64.saturating_add_signed(gain_ppm),
                    ),
                    syncing: false,
                    snapshot_in_progress: false,
                    floor: LogIndex(0),
                    skipped_to: LogIndex(0),
                }
            })
            .collect();
        let mut world = World {
            chance,
            queue: EventQueue::default(),
            nodes,
            cuts: Cuts::default(),
            rates: FaultRates::calm(),
            judge: Judge::new(configuration),
            signs: BTreeMap::new(),
            next_value: 1,
            tick: TICK_MAX_MS.min(lease.length.0 / 10),
            is_calm: false,
            changes_members: spare > 0,
            varies_quorums,
            journal: Journal::default(),
        };
        (0..world.nodes.len()).for_each(|node| world.start(node));
        world
    }

    /// Returns the time since the start of the history, in milliseconds.
    pub fn now(&self) -> u64 {
        self.queue.now()
    }

    pub fn after(&mut self, delay: u64, item: SimEvent) {
        self.queue.schedule_after(delay, item);
        assert!(self.queue.len() < EVENTS_MAX, "messages beget messages");
    }

    /// Runs all events up to this time.
    pub fn run(&mut self, until: u64) {
        while let Some(event) = self.queue.next_until(until) {
            self.handle(event);
        }
    }

    fn handle(&mut self, item: SimEvent) {
        match item {
            SimEvent::Deliver { from, to, message, values } => {
                if self.nodes[to].up && self.is_paused(to) {
                    let until = self.nodes[to].clock.paused_until - self.now();
                    return self.after(until, SimEvent::Deliver { from, to, message, values });
                }
                if self.nodes[to].up && !self.cuts.is_cut(from, to) {
                    let from = self.nodes[from].identity.node;
                    let now = self.clock(to);
                    let signs = self.signs_among(&message, &values);
                    let event = Event::Received { from, message, signs, now };
                    self.step_with(to, event, &values);
                }
            }
            SimEvent::Synced { node, incarnation } => self.synced(node, incarnation),
            SimEvent::Tick { node, incarnation } => {
                if self.nodes[node].incarnation == incarnation && self.nodes[node].up {
                    if !self.is_paused(node) {
                        let now = self.clock(node);
                        self.step(node, Event::Tick { now });
                    }
                    self.after(self.tick, SimEvent::Tick { node, incarnation });
                }
            }
            SimEvent::Snapshot { node, incarnation, from } => {
                self.snapshot(node, incarnation, from);
            }
            SimEvent::Client => self.client(),
            SimEvent::Fault => self.fault(),
            SimEvent::Mend => self.mend(),
            SimEvent::LinkEnd { node, other } => self.link_ends(node, other),
            SimEvent::Crash { node, incarnation } => {
                if self.nodes[node].incarnation == incarnation && !self.is_calm {
                    self.crash_for_a_while(node);
                }
            }
            SimEvent::Restart { node, incarnation } => {
                if self.nodes[node].incarnation == incarnation {
                    self.crash(node); // A node still up here retired and did not end in time.
                    self.start(node);
                }
            }
        }
    }

    /// Returns the stop-signs among the values of a message, with their indexes.
    fn signs_among(&self, message: &Message, values: &[u64]) -> Vec<(LogIndex, Configuration)> {
        let Some((after, _)) = message.body.entry_range() else { return Vec::new() };
        let sign = |(place, value): (usize, &u64)| {
            let configuration = self.signs.get(value)?;
            Some((LogIndex(after.0 + place as u64 + 1), configuration.clone()))
        };
        values.iter().enumerate().filter_map(sign).collect()
    }

    /// Requests a change of the group's members from a master.
    pub fn reconfigure(&mut self, master: usize, members: Vec<Member>) {
        let id = self.nodes[master].machine.replica.configuration().id().0 + 1;
        let configuration = Configuration::new(ConfigurationId(id), members).expect("sound");
        let number = self.varies_quorums.then_some(self.next_value);
        let configuration = with_permitted_quorum(configuration, number);
        self.signs.insert(self.next_value, configuration.clone());
        let size = EntrySize { bytes: 10, updates: 0 };
        self.step(master, Event::Reconfigure { configuration, size });
        self.next_value += 1;
    }

    /// Returns the reading of a node's clock.
    pub fn clock(&self, node: usize) -> Millis {
        Millis(self.nodes[node].clock.monotonic_ns(self.now() * 1_000) / MS_NS)
    }

    pub fn is_paused(&self, node: usize) -> bool {
        self.nodes[node].clock.paused_until > self.now()
    }

    pub fn start(&mut self, node: usize) {
        if self.nodes[node].lost.is_some() {
            return;
        }
        let offset = self.chance.below(1_000_000);
        let slot = &mut self.nodes[node];
        // A machine's monotonic clock restarts.
        slot.clock.ahead_ns = new_clock(offset, slot.clock.rate).ahead_ns;
        slot.up = true;
        slot.incarnation += 1;
        slot.syncing = false;
        slot.snapshot_in_progress = false;
        let (incarnation, now) = (slot.incarnation, self.clock(node));
        self.step(node, Event::Started { now });
        if self.nodes[node].floor > LogIndex(0) {
            let last = self.nodes[node].floor;
            self.step(node, Event::LogTruncated { last });
        }
        let first = self.chance.below(self.tick);
        self.after(first, SimEvent::Tick { node, incarnation });
    }

    pub fn step(&mut self, node: usize, event: Event) {
        self.step_with(node, event, &[]);
    }

    fn step_with(&mut self, node: usize, event: Event, values: &[u64]) {
        self.journal.trace(self.now(), || format!("node {}: {event:?}", node + 1));
        self.nodes[node].machine.next_value = self.next_value;
        self.nodes[node].machine.step_with(event, values);
        self.next_value = self.next_value.max(self.nodes[node].machine.next_value);
        let machines: Vec<_> = self.nodes.iter().map(ConsensusNode::durable_machine).collect();
        let decided = self.judge.ledger.len();
        self.judge.judge(node, &self.nodes[node].machine, &machines, &self.signs);
        let has_decided = self.judge.ledger.len() > decided;
        self.crash_if_promoted(node);
        self.send_outbox(node);
        self.schedule_sync(node);
        let source = self.nodes[node].machine.effects.iter().find_map(|effect| match effect {
            Effect::FetchSnapshot { from } => Some(from.0 as usize - 1),
            _ => None,
        });
        if let Some(from) = source.filter(|_| !self.nodes[node].snapshot_in_progress) {
            self.nodes[node].snapshot_in_progress = true;
            let (incarnation, delay) = (self.nodes[node].incarnation, self.chance.between(5, 200));
            self.after(delay, SimEvent::Snapshot { node, incarnation, from });
        }
        if has_decided {
            self.read_at_masters();
        }
    }

    fn send_outbox(&mut self, node: usize) {
        let outbox = std::mem::take(&mut self.nodes[node].machine.outbox);
        let mut full = None;
        for (to, message, values) in outbox {
            let to = to.0 as usize - 1;
            if let Some((after, _)) = message.body.entry_range() {
                assert!(after >= self.nodes[node].floor, "sends what its log no longer holds");
                if self.chance.draw_bool(self.rates.full) {
                    full = Some(Event::Unsent { to: NodeId(to as u64 + 1), after });
                    continue;
                }
            }
            let profile = self.rates.network;
            if self.cuts.is_cut(node, to) || self.chance.draw_bool(profile.loss) {
                continue;
            }
            for _ in 0..profile.copies(&mut self.chance) {
                let late = self.chance.draw_bool(profile.stragglers);
                let (low, high) = if late { profile.straggler_delay } else { profile.delay };
                let delay = self.chance.between(low, high);
                let values = values.clone();
                self.after(delay, SimEvent::Deliver { from: node, to, message, values });
            }
        }
        if let Some(unsent) = full {
            self.step(node, unsent);
        }
    }

    fn client(&mut self) {
        let node = self.chance.below(self.nodes.len() as u64) as usize;
        // Some clients send their request to any node instead of the master.
        let is_misdirected = self.chance.draw_bool(100);
        if is_misdirected || self.nodes[node].machine.replica.role() == Role::Master {
            if self.chance.draw_bool(700) {
                let size = EntrySize { bytes: 10, updates: 1 };
                let burst = !self.is_calm && self.chance.draw_bool(10);
                let count = if burst { self.chance.below(400) } else { 1 };
                for _ in 0..count {
                    self.submit(node, |_, _| Event::Propose { size });
                }
            } else {
                self.read_at(node);
            }
        }
        let delay = self.chance.between(1, 12);
        self.after(delay, SimEvent::Client);
    }

    fn read_at(&mut self, node: usize) {
        self.submit(node, |world, now| Event::Read { token: world.judge.register_read(), now });
    }

    fn submit(&mut self, node: usize, event: impl FnOnce(&mut World, Millis) -> Event) {
        if self.nodes[node].up && !self.is_paused(node) {
            let now = self.clock(node);
            let event = event(self, now);
            self.step(node, event);
        }
    }

    /// Sends reads to all nodes whose role is master, at random, when an entry was decided: a
    /// superseded master must not answer.
    fn read_at_masters(&mut self) {
        if self.chance.draw_bool(400) {
            for master in self.masters() {
                self.read_at(master);
            }
        }
    }

    /// Returns the nodes that are up and whose role is master.
    pub fn masters(&self) -> Vec<usize> {
        let leads = |slot: &ConsensusNode| slot.up && slot.machine.replica.role() == Role::Master;
        (0..self.nodes.len()).filter(|place| leads(&self.nodes[*place])).collect()
    }
}

//! Simulation of six nodes, their clients and the network between them, in one thread and in
//! simulated time.
//!
//! A read asks all three replicas, answers from the first two, and repairs those that lag with the
//! merge of all three. A write goes to all three and is answered when two have stored it. Under
//! client ids any node coordinates a write. Where a dot is minted only a replica can, so that
//! another node forwards the write, and the replica that coordinates it stores it before it sends
//! it to the others.
//!
//! Promises: one seed and one load give one history; every kind of clock gets the same operations.
//! Never: reads a clock for anything but the cost of the clocks themselves.
//! Read next: `mail.rs`, `acting.rs`, `asking.rs`.

mod acting;
mod asking;
mod mail;

use super::kinds::{ClockKind, Write};
use super::measured::Measured;
use super::study::{Cost, NODES, PARTITIONS, StudyLoad, replicas};
use super::truth::{Truth, Writes};
use asking::{DvvClient, Serving};
use bench::Dice;
use mail::{DvvEvent, Mail};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::time::Duration;

/// Row of a key at a replica, with its true state.
pub struct ReplicaState<K: ClockKind> {
    row: K::Row,
    truth: Truth,
}

/// Context of a key that a client holds: that of the clocks, and the true one.
pub struct Context<K: ClockKind> {
    clock: K::Context,
    seen: Writes,
}

impl<K: ClockKind> Default for Context<K> {
    fn default() -> Context<K> {
        Context { clock: K::Context::default(), seen: Writes::default() }
    }
}

/// A node, which handles one message at a time.
struct DvvNode<K: ClockKind> {
    free_at: u64,
    rows: Vec<Option<Rc<ReplicaState<K>>>>,
    vnodes: Vec<K::Vnode>,
}

/// Simulation of one run; its time is in nanoseconds.
pub struct World<'a, K: ClockKind> {
    kind: K,
    load: &'a StudyLoad,
    cost: Cost,
    now: u64,
    /// Number of events created so far: the second key of their order.
    counted: u64,
    events: BinaryHeap<Reverse<DvvEvent<K>>>,
    nodes: Vec<DvvNode<K>>,
    clients: Vec<DvvClient<K>>,
    serving: Vec<Option<Serving<K>>>,
    free: Vec<usize>,
    /// Writes of every key: true for those that had no context.
    blind: Vec<Vec<bool>>,
    network: Dice,
    measured: Measured,
}

/// Runs a load to its end. `progress` receives the fraction that is done.
pub fn run<K: ClockKind>(
    kind: K,
    load: &StudyLoad,
    cost: Cost,
    progress: &mut dyn FnMut(f64),
) -> Measured {
    let mut world = World::new(kind, load, cost);
    world.begin();
    let end = load.time.as_nanos() as u64;
    let mut told = 0;
    while let Some(Reverse(event)) = world.events.pop() {
        world.now = event.at;
        if event.at / (end / 50 + 1) > told {
            told = event.at / (end / 50 + 1);
            progress((event.at as f64 / end as f64).min(1.0));
        }
        world.happens(event);
    }
    world.settle();
    progress(1.0);
    world.measured
}

impl<'a, K: ClockKind> World<'a, K> {
    fn new(kind: K, load: &'a StudyLoad, cost: Cost) -> World<'a, K> {
        let keys = load.keys as usize + 1;
        let node = |node| DvvNode {
            free_at: 0,
            rows: (0..keys).map(|_| None).collect(),
            vnodes: (0..PARTITIONS).map(|partition| K::vnode(node, partition)).collect(),
        };
        World {
            kind,
            load,
            cost,
            now: 0,
            counted: 0,
            events: BinaryHeap::new(),
            nodes: (0..NODES).map(node).collect(),
            clients: (0..load.clients).map(|number| DvvClient::new(number, load)).collect(),
            serving: Vec::new(),
            free: Vec::new(),
            blind: vec![Vec::new(); keys],
            network: Dice::new(load.seed, u64::MAX - 1),
            measured: Measured::default(),
        }
    }

    /// Schedules the clients' first operations within the first fifty milliseconds.
    fn begin(&mut self) {
        for client in 0..self.clients.len() {
            let at = self.network.below(50_000_000);
            self.at(at, mail::DvvAction::Begin { client });
        }
    }

    fn at(&mut self, at: u64, what: mail::DvvAction<K>) {
        self.counted += 1;
        self.events.push(Reverse(DvvEvent { at, number: self.counted, what }));
    }

    fn happens(&mut self, event: DvvEvent<K>) {
        match event.what {
            mail::DvvAction::Begin { client } => self.begin_operation(client),
            mail::DvvAction::Put { client } => self.put_of(client),
            mail::DvvAction::Answered { client, answer } => self.answered(client, answer),
            mail::DvvAction::Arrived { node, mail } => {
                let done = self.nodes[node].free_at.max(self.now) + self.effort(&mail);
                self.nodes[node].free_at = done;
                self.at(done, mail::DvvAction::Done { node, mail });
            }
            mail::DvvAction::Done { node, mail } => self.act(node, mail),
        }
    }

    /// Sends a message to a node; one to itself crosses no network.
    fn send(&mut self, from: Option<usize>, to: usize, mail: Mail<K>) {
        let bytes = mail.bytes(self.load.value_bytes);
        let flight = if from == Some(to) { 0 } else { self.flight(bytes) };
        self.at(self.now + flight, mail::DvvAction::Arrived { node: to, mail });
    }

    /// Draws the nanoseconds that a message of this many bytes is in transit.
    fn flight(&mut self, bytes: usize) -> u64 {
        let jitter = self.network.exponential(self.cost.jitter.as_nanos() as f64) as u64;
        nanoseconds(self.cost.hop) + jitter + nanoseconds(self.cost.byte) * bytes as u64
    }

    /// Merges the rows of all replicas at the end, and compares them with the truth.
    fn settle(&mut self) {
        for key in 0..self.blind.len() as u32 {
            let mut whole: Option<Rc<ReplicaState<K>>> = None;
            for node in replicas(key) {
                let Some(state) = self.nodes[node].rows[key as usize].clone() else { continue };
                whole = Some(self.joined(whole, state));
            }
            let Some(whole) = whole else { continue };
            let values = K::values(&whole.row);
            self.judge(key, &values, &whole.truth);
            self.measured.keys.0 += 1;
            self.measured.keys.1 += values.len() as u64;
        }
    }

    fn joined(
        &self,
        one: Option<Rc<ReplicaState<K>>>,
        other: Rc<ReplicaState<K>>,
    ) -> Rc<ReplicaState<K>> {
        match one {
            None => other,
            Some(one) if Rc::ptr_eq(&one, &other) => one,
            Some(one) => Rc::new(ReplicaState {
                row: self.kind.merge(&one.row, &other.row),
                truth: one.truth.merge(&other.truth),
            }),
        }
    }

    /// Compares the values that clocks show with the true ones; returns true if one of them had
    /// been replaced.
    fn judge(&mut self, key: u32, values: &[Write], truth: &Truth) -> bool {
        if values == truth.alive {
            return false;
        }
        let wrong = &mut self.measured.wrong;
        let mut shown_false = false;
        for write in values {
            if truth.alive.binary_search(write).is_err() {
                shown_false = true;
                wrong.false_values.insert((key, *write));
            }
        }
        for write in &truth.alive {
            if values.binary_search(write).is_err() && wrong.lost.insert((key, *write)) {
                let blind = self.blind[key as usize][*write as usize - 1];
                wrong.lost_blind += u64::from(blind);
            }
        }
        shown_false
    }
}

fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos() as u64
}

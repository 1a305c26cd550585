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
//! Read next: `messages.rs`, `nodes.rs`, `clients.rs`.

mod clients;
mod messages;
mod nodes;

use super::kinds::{ClockKind, Write};
use super::measured::Measured;
use super::study::{Cost, NODES, PARTITIONS, StudyLoad, replicas};
use super::truth::{Truth, Writes};
use clients::{DvvClient, DvvRequest};
use load_generator::generators::SeededRng;
use messages::{DvvEvent, DvvMessage};
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
    event_count: u64,
    events: BinaryHeap<Reverse<DvvEvent<K>>>,
    nodes: Vec<DvvNode<K>>,
    clients: Vec<DvvClient<K>>,
    requests: Vec<Option<DvvRequest<K>>>,
    free_requests: Vec<usize>,
    /// Writes of every key: true for those that had no context.
    blind: Vec<Vec<bool>>,
    network: SeededRng,
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
    world.schedule_first_operations();
    let end = load.time.as_nanos() as u64;
    let mut reported = 0;
    while let Some(Reverse(event)) = world.events.pop() {
        world.now = event.at;
        if event.at / (end / 50 + 1) > reported {
            reported = event.at / (end / 50 + 1);
            progress((event.at as f64 / end as f64).min(1.0));
        }
        world.handle_event(event);
    }
    world.compare_final_rows();
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
            event_count: 0,
            events: BinaryHeap::new(),
            nodes: (0..NODES).map(node).collect(),
            clients: (0..load.clients).map(|number| DvvClient::new(number, load)).collect(),
            requests: Vec::new(),
            free_requests: Vec::new(),
            blind: vec![Vec::new(); keys],
            network: SeededRng::new(load.seed, u64::MAX - 1),
            measured: Measured::default(),
        }
    }

    /// Schedules the clients' first operations within the first fifty milliseconds.
    fn schedule_first_operations(&mut self) {
        for client in 0..self.clients.len() {
            let at = self.network.below(50_000_000);
            self.schedule(at, messages::DvvAction::Begin { client });
        }
    }

    fn schedule(&mut self, at: u64, action: messages::DvvAction<K>) {
        self.event_count += 1;
        self.events.push(Reverse(DvvEvent { at, number: self.event_count, action }));
    }

    fn handle_event(&mut self, event: DvvEvent<K>) {
        match event.action {
            messages::DvvAction::Begin { client } => self.begin_operation(client),
            messages::DvvAction::Put { client } => self.send_put(client),
            messages::DvvAction::Answered { client, answer } => self.on_answer(client, answer),
            messages::DvvAction::Arrived { node, message } => {
                let done = self.nodes[node].free_at.max(self.now) + self.busy_ns(&message);
                self.nodes[node].free_at = done;
                self.schedule(done, messages::DvvAction::Done { node, message });
            }
            messages::DvvAction::Done { node, message } => self.handle(node, message),
        }
    }

    /// Sends a message to a node; one to itself crosses no network.
    fn send(&mut self, from: Option<usize>, to: usize, message: DvvMessage<K>) {
        let bytes = message.bytes(self.load.value_bytes);
        let transit_ns = if from == Some(to) { 0 } else { self.transit_ns(bytes) };
        self.schedule(self.now + transit_ns, messages::DvvAction::Arrived { node: to, message });
    }

    /// Draws the nanoseconds that a message of this many bytes is in transit.
    fn transit_ns(&mut self, bytes: usize) -> u64 {
        let jitter = self.network.exponential(self.cost.jitter.as_nanos() as f64) as u64;
        nanoseconds(self.cost.hop) + jitter + nanoseconds(self.cost.byte) * bytes as u64
    }

    /// Merges the rows of all replicas at the end, and compares them with the truth.
    fn compare_final_rows(&mut self) {
        for key in 0..self.blind.len() as u32 {
            let mut merged: Option<Rc<ReplicaState<K>>> = None;
            for node in replicas(key) {
                let Some(state) = self.nodes[node].rows[key as usize].clone() else { continue };
                merged = Some(self.merge_states(merged, state));
            }
            let Some(merged) = merged else { continue };
            let values = K::values(&merged.row);
            self.check_values(key, &values, &merged.truth);
            self.measured.keys.0 += 1;
            self.measured.keys.1 += values.len() as u64;
        }
    }

    fn merge_states(
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
    fn check_values(&mut self, key: u32, values: &[Write], truth: &Truth) -> bool {
        if values == truth.alive {
            return false;
        }
        let errors = &mut self.measured.errors;
        let mut has_false_value = false;
        for write in values {
            if truth.alive.binary_search(write).is_err() {
                has_false_value = true;
                errors.false_values.insert((key, *write));
            }
        }
        for write in &truth.alive {
            if values.binary_search(write).is_err() && errors.lost.insert((key, *write)) {
                let blind = self.blind[key as usize][*write as usize - 1];
                errors.lost_blind += u64::from(blind);
            }
        }
        has_false_value
    }
}

fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos() as u64
}

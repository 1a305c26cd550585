//! The clients, and the requests in progress for them.

use super::messages::{DvvAction, DvvMessage, Put};
use super::{Context, ReplicaState, World, nanoseconds};
use crate::kinds::{ClockKind, DvvWriter, Write};
use crate::measured::Returned;
use crate::study::{NODES, StudyLoad};
use load_generator::generators::{KeyStream, Numbers, SeededRng};
use std::rc::Rc;
use std::time::Instant;

/// A get or put in progress at a node.
pub(super) struct DvvRequest<K: ClockKind> {
    pub(super) client: usize,
    pub(super) key: u32,
    /// Node that forwarded the put. `None`: the client sent it here.
    pub(super) origin: Option<usize>,
    /// Number of replicas that have stored it.
    pub(super) stored: usize,
    /// Replicas that have answered, with their rows.
    pub(super) replies: Vec<(usize, Option<Rc<ReplicaState<K>>>)>,
    /// The merge of all their answers.
    pub(super) merged: Option<Rc<ReplicaState<K>>>,
}

impl<K: ClockKind> DvvRequest<K> {
    pub(super) fn read(client: usize, key: u32) -> DvvRequest<K> {
        DvvRequest::write(client, key, None, 0)
    }

    pub(super) fn write(
        client: usize,
        key: u32,
        origin: Option<usize>,
        stored: usize,
    ) -> DvvRequest<K> {
        DvvRequest { client, key, origin, stored, replies: Vec::new(), merged: None }
    }
}

/// Kind of operation that a client has in progress.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OperationKind {
    Get,
    Put,
    Update,
}

/// A client with one operation at a time.
pub(super) struct DvvClient<K: ClockKind> {
    number: usize,
    rng: SeededRng,
    keys: KeyStream,
    operation: OperationKind,
    key: u32,
    sent_at: u64,
    last_node: usize,
    context: Rc<Context<K>>,
}

impl<K: ClockKind> DvvClient<K> {
    pub(super) fn new(number: usize, load: &StudyLoad) -> DvvClient<K> {
        let numbers = Numbers::TruncatedPareto { count: load.keys };
        DvvClient {
            number,
            rng: SeededRng::new(load.seed, number as u64),
            keys: KeyStream::new(&numbers, number, load.clients),
            operation: OperationKind::Get,
            key: 0,
            sent_at: 0,
            last_node: number,
            context: Rc::default(),
        }
    }
}

impl<K: ClockKind> World<'_, K> {
    pub(super) fn begin_operation(&mut self, number: usize) {
        if self.now >= nanoseconds(self.load.time) {
            return;
        }
        let client = &mut self.clients[number];
        let [gets, puts, updates] = self.load.mix.weights;
        let drawn = client.rng.below(gets + puts + updates);
        client.operation = match drawn {
            drawn if drawn < gets => OperationKind::Get,
            drawn if drawn < gets + puts => OperationKind::Put,
            _ => OperationKind::Update,
        };
        client.key = client.keys.next(&mut client.rng).unwrap_or(0) as u32;
        client.context = Rc::default();
        if client.operation == OperationKind::Put {
            return self.send_put(number);
        }
        let key = client.key;
        self.send_to_next_node(number, DvvMessage::Get { client: number, key });
    }

    /// Sends a client's put, with its last context.
    pub(super) fn send_put(&mut self, number: usize) {
        let client = &self.clients[number];
        let (key, context) = (client.key, client.context.clone());
        let writes = &mut self.blind[key as usize];
        writes.push(client.operation == OperationKind::Put);
        let write = writes.len() as Write;
        let writer = DvvWriter { client: client.number as u32, now_ms: self.now / 1_000_000 };
        let put = Put { client: number, key, context, write, writer };
        self.send_to_next_node(number, DvvMessage::Put { put, forwarded_by: None });
    }

    /// Sends a message to the next node in turn.
    fn send_to_next_node(&mut self, number: usize, message: DvvMessage<K>) {
        let client = &mut self.clients[number];
        client.sent_at = self.now;
        client.last_node += 1;
        let node = client.last_node % NODES;
        self.send(None, node, message);
    }

    /// Handles the answer to a client.
    pub(super) fn on_answer(&mut self, number: usize, answer: Option<Option<Rc<ReplicaState<K>>>>) {
        let client = &self.clients[number];
        let (operation, key, latency) = (client.operation, client.key, self.now - client.sent_at);
        match answer {
            None => {
                self.measured.calls[1] += 1;
                self.measured.writes.saturating_record(latency);
            }
            Some(found) => {
                self.measured.calls[0] += 1;
                self.measured.reads.saturating_record(latency);
                let context =
                    found.map(|state| self.record_returned(key, &state)).unwrap_or_default();
                self.clients[number].context = Rc::new(context);
                if operation == OperationKind::Update {
                    let think = nanoseconds(self.load.think);
                    return self.schedule(self.now + think, DvvAction::Put { client: number });
                }
            }
        }
        self.measured.operations += 1;
        self.begin_operation(number);
    }

    /// Records an object returned to a client; returns the new context of the client.
    fn record_returned(&mut self, key: u32, state: &ReplicaState<K>) -> Context<K> {
        let started = Instant::now();
        let clock = K::context(&state.row);
        self.measured.work[0] += started.elapsed();
        let values = K::values(&state.row);
        let is_false = self.check_values(key, &values, &state.truth);
        self.measured.errors.false_reads += u64::from(is_false);
        let object = Returned {
            objects: 1,
            term_bytes: K::term_bytes(&state.row) as u64,
            coded_bytes: K::coded_bytes(&state.row) as u64,
            values: values.len() as u64,
        };
        let second = (self.now / 1_000_000_000) as usize;
        self.measured.returned(second, object, u64::from(key) == self.load.keys);
        Context { clock, seen: state.truth.seen.clone() }
    }
}

//! The clients, and the requests in progress for them.

use super::mail::{DvvAction, Mail, Put};
use super::{Context, ReplicaState, World, nanoseconds};
use crate::kinds::{ClockKind, DvvWriter, Write};
use crate::measured::Returned;
use crate::study::{NODES, StudyLoad};
use bench::{Dice, KeyStream, Numbers};
use std::rc::Rc;
use std::time::Instant;

/// A get or put in progress at a node.
pub(super) struct Serving<K: ClockKind> {
    pub(super) client: usize,
    pub(super) key: u32,
    /// Node that forwarded the put. `None`: the client sent it here.
    pub(super) origin: Option<usize>,
    /// Number of replicas that have stored it.
    pub(super) stored: usize,
    /// Replicas that have answered, with their rows.
    pub(super) replies: Vec<(usize, Option<Rc<ReplicaState<K>>>)>,
    /// The merge of all their answers.
    pub(super) whole: Option<Rc<ReplicaState<K>>>,
}

impl<K: ClockKind> Serving<K> {
    pub(super) fn read(client: usize, key: u32) -> Serving<K> {
        Serving::write(client, key, None, 0)
    }

    pub(super) fn write(
        client: usize,
        key: u32,
        origin: Option<usize>,
        stored: usize,
    ) -> Serving<K> {
        Serving { client, key, origin, stored, replies: Vec::new(), whole: None }
    }
}

/// Kind of operation that a client has in progress.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Doing {
    Get,
    Put,
    Update,
}

/// A client with one operation at a time.
pub(super) struct DvvClient<K: ClockKind> {
    number: usize,
    dice: Dice,
    keys: KeyStream,
    doing: Doing,
    key: u32,
    sent: u64,
    asked: usize,
    context: Rc<Context<K>>,
}

impl<K: ClockKind> DvvClient<K> {
    pub(super) fn new(number: usize, load: &StudyLoad) -> DvvClient<K> {
        let numbers = Numbers::TruncatedPareto { count: load.keys };
        DvvClient {
            number,
            dice: Dice::new(load.seed, number as u64),
            keys: KeyStream::new(&numbers, number, load.clients),
            doing: Doing::Get,
            key: 0,
            sent: 0,
            asked: number,
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
        let drawn = client.dice.below(gets + puts + updates);
        client.doing = match drawn {
            drawn if drawn < gets => Doing::Get,
            drawn if drawn < gets + puts => Doing::Put,
            _ => Doing::Update,
        };
        client.key = client.keys.next(&mut client.dice).unwrap_or(0) as u32;
        client.context = Rc::default();
        if client.doing == Doing::Put {
            return self.put_of(number);
        }
        let key = client.key;
        self.ask(number, Mail::Get { client: number, key });
    }

    /// Sends a client's put, with the context it has.
    pub(super) fn put_of(&mut self, number: usize) {
        let client = &self.clients[number];
        let (key, context) = (client.key, client.context.clone());
        let writes = &mut self.blind[key as usize];
        writes.push(client.doing == Doing::Put);
        let write = writes.len() as Write;
        let by = DvvWriter { client: client.number as u32, now_ms: self.now / 1_000_000 };
        let put = Put { client: number, key, context, write, by };
        self.ask(number, Mail::Put { put, by_way_of: None });
    }

    /// Sends a message to the next node in turn.
    fn ask(&mut self, number: usize, mail: Mail<K>) {
        let client = &mut self.clients[number];
        client.sent = self.now;
        client.asked += 1;
        let node = client.asked % NODES;
        self.send(None, node, mail);
    }

    /// Handles the answer to a client.
    pub(super) fn answered(&mut self, number: usize, answer: Option<Option<Rc<ReplicaState<K>>>>) {
        let client = &self.clients[number];
        let (doing, key, took) = (client.doing, client.key, self.now - client.sent);
        match answer {
            None => {
                self.measured.calls[1] += 1;
                self.measured.writes.saturating_record(took);
            }
            Some(found) => {
                self.measured.calls[0] += 1;
                self.measured.reads.saturating_record(took);
                let context = found.map(|state| self.shown(key, &state)).unwrap_or_default();
                self.clients[number].context = Rc::new(context);
                if doing == Doing::Update {
                    let think = nanoseconds(self.load.think);
                    return self.at(self.now + think, DvvAction::Put { client: number });
                }
            }
        }
        self.measured.operations += 1;
        self.begin_operation(number);
    }

    /// Records an object that a client was shown; returns the context that the client now has.
    fn shown(&mut self, key: u32, state: &ReplicaState<K>) -> Context<K> {
        let begun = Instant::now();
        let clock = K::context(&state.row);
        self.measured.work[0] += begun.elapsed();
        let values = K::values(&state.row);
        let is_false = self.judge(key, &values, &state.truth);
        self.measured.wrong.false_reads += u64::from(is_false);
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

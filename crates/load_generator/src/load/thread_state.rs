//! Choice of the next call of a thread's clients: operation, key and value.

use super::clients::{Draw, Flight, LogicalClient, Swap};
use crate::config::{Config, Operation};
use crate::drivers::{Call, Driver, RespCall};
use crate::generators::{Blob, DrawnKey, seal};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::time::{Duration, Instant};

/// Most rows whose value a thread keeps for test_and_sets; for other rows it expects absence.
pub const KNOWN_VALUES_MAX: usize = 1_000_000;

/// The clients of one thread.
pub struct ThreadState<'a> {
    pub(super) config: &'a Config,
    pub(super) clients: Vec<LogicalClient>,
    /// Clients that may begin: in a closed load, clients without outstanding operations; in an open
    /// load, each client once for every operation that it may begin.
    pub(super) ready: VecDeque<usize>,
    /// Operations whose next call is to be sent.
    pub(super) next_calls: Vec<(usize, Flight)>,
    /// Updates in their think time, with its end; in the order of these times.
    pub(super) thinking: VecDeque<(Instant, usize, Flight)>,
    /// Clients whose connection is lost, with the time of their next attempt; in the order of these
    /// times.
    pub(super) reconnecting: VecDeque<(Instant, usize)>,
    /// Last known values of rows, for test_and_set.
    pub(super) known_values: HashMap<DrawnKey, Vec<u8>>,
    pub(super) failed: bool,
    pub(super) key: Vec<u8>,
    active: usize,
    in_flight: usize,
    draw: Draw,
    blob: Blob,
    value: Vec<u8>,
    keys: Vec<Vec<u8>>,
    rows: Vec<(Vec<u8>, Vec<u8>)>,
}

impl<'a> ThreadState<'a> {
    /// Returns the clients with these numbers among all of the config's.
    pub fn new(config: &'a Config, numbers: Range<usize>, blob: Blob) -> ThreadState<'a> {
        let slots = if config.is_open() { config.pipeline } else { 1 };
        let clients: Vec<_> = numbers.map(|number| LogicalClient::new(config, number)).collect();
        ThreadState {
            config,
            ready: (0..slots).flat_map(|_| 0..clients.len()).collect(),
            next_calls: Vec::new(),
            thinking: VecDeque::new(),
            reconnecting: VecDeque::new(),
            known_values: HashMap::new(),
            failed: false,
            key: Vec::new(),
            active: clients.len(),
            in_flight: 0,
            draw: Draw::new(&config.operations),
            blob,
            value: Vec::new(),
            keys: Vec::new(),
            rows: Vec::new(),
            clients,
        }
    }

    /// Returns the number of operations that were begun and are not finished.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Returns true if all clients have used up their keys and their operations are finished.
    pub fn has_finished(&self) -> bool {
        self.active == 0 && self.in_flight == 0
    }

    /// Returns true if any operation failed.
    pub fn failed(&self) -> bool {
        self.failed
    }

    /// Begins a batch on every client that may begin.
    pub fn start_ready(&mut self, driver: &mut dyn Driver) {
        while let Some(client) = self.ready.pop_front() {
            let now = Instant::now();
            let started = (0..self.config.pipeline).take_while(|_| self.begin(driver, client, now));
            if started.count() > 0 {
                driver.send(client);
            }
        }
    }

    /// Begins one operation that was due at `intended`. Returns false if no client may begin.
    pub fn start_one(&mut self, driver: &mut dyn Driver, intended: Instant) -> bool {
        while let Some(client) = self.ready.pop_front() {
            if self.begin(driver, client, intended) {
                driver.send(client);
                return true;
            }
        }
        false
    }

    /// Sends the next calls of operations that consist of several.
    pub fn send_next_calls(&mut self, driver: &mut dyn Driver) {
        let now = Instant::now();
        while self.thinking.front().is_some_and(|(until, ..)| *until <= now) {
            self.next_calls
                .extend(self.thinking.pop_front().map(|(_, client, flight)| (client, flight)));
        }
        let mut calls = std::mem::take(&mut self.next_calls);
        for (client, flight) in calls.drain(..) {
            self.call(driver, client, flight);
            driver.send(client);
        }
        self.next_calls = calls;
    }

    /// Returns the time until the first think time ends. `None`: no client is in its think time.
    pub fn think_time_left(&self) -> Option<Duration> {
        let (until, ..) = self.thinking.front()?;
        Some(until.saturating_duration_since(Instant::now()))
    }

    /// Counts an operation as finished.
    pub(super) fn finish_operation(&mut self, client: usize) {
        self.in_flight -= 1;
        self.clients[client].outstanding -= 1;
    }

    fn begin(&mut self, driver: &mut dyn Driver, number: usize, intended: Instant) -> bool {
        if self.check_keys_exhausted(number) {
            return false;
        }
        let client = &mut self.clients[number];
        let operation = self.draw.next(&mut client.rng);
        let key = client.keys.next(&mut client.rng, &self.blob);
        let Some(key) = key else { return !self.check_keys_exhausted(number) };
        self.check_keys_exhausted(number);
        self.clients[number].outstanding += 1;
        self.in_flight += 1;
        let (stage, sent, swap, context) = (0, intended, None, None);
        let flight = Flight { operation, stage, intended, sent, key, context, swap };
        self.call(driver, number, flight);
        true
    }

    /// Returns true if a client has no keys left; counts it as inactive the first time.
    pub(super) fn check_keys_exhausted(&mut self, number: usize) -> bool {
        let client = &mut self.clients[number];
        let is_exhausted = client.keys.remaining() == Some(0);
        if is_exhausted && !std::mem::replace(&mut client.keys_exhausted, true) {
            self.active -= 1;
        }
        is_exhausted
    }

    fn call(&mut self, driver: &mut dyn Driver, number: usize, mut flight: Flight) {
        let is_first = flight.stage == 0 && !self.config.is_open();
        flight.sent = if is_first { flight.intended } else { Instant::now() };
        let operation = self.config.operations[flight.operation].operation;
        self.key.clear();
        self.config.key_generator.write(&flight.key, &mut self.key);
        match operation {
            Operation::Get | Operation::GetExisting => driver.begin(number, &Call::Get(&self.key)),
            Operation::Update if flight.stage == 0 => driver.begin(number, &Call::Get(&self.key)),
            Operation::Put | Operation::Update => {
                let rng = &mut self.clients[number].rng;
                let value = next_value(self.config, rng, &self.blob, &self.key, &mut self.value);
                let call = match &flight.context {
                    Some(context) => Call::Replace { key: &self.key, value, context },
                    None => Call::Put(&self.key, value),
                };
                driver.begin(number, &call);
            }
            Operation::Delete => driver.begin(number, &Call::Delete(&self.key)),
            Operation::Exists => driver.begin(number, &Call::Exists(&self.key)),
            Operation::Range => {
                driver.begin(number, &Call::Range(&self.key, self.config.range_rows));
            }
            Operation::TestAndSet => {
                let rng = &mut self.clients[number].rng;
                let wanted = next_value(self.config, rng, &self.blob, &self.key, &mut self.value);
                let expected = self.known_values.get(&flight.key).cloned();
                let swap = Swap { expected, wanted: wanted.to_vec() };
                let expected = swap.expected.as_deref();
                driver.begin(number, &Call::TestAndSet { key: &self.key, expected, wanted });
                flight.swap = Some(Box::new(swap));
            }
            Operation::Increment => {
                driver.begin(number, &Call::Resp(RespCall::Increment(&self.key)))
            }
            Operation::Count => driver.begin(number, &Call::Resp(RespCall::Count)),
            Operation::Pop => {
                let queue = self.config.queue.as_bytes();
                let call = match &flight.context {
                    Some(key) => RespCall::Remove { queue, key },
                    None => RespCall::First(queue),
                };
                driver.begin(number, &Call::Resp(call));
            }
            Operation::PutExpiring | Operation::Push | Operation::SessionPut => {
                let [least, greatest] = self.config.expiry_s;
                let rng = &mut self.clients[number].rng;
                let seconds = least + rng.below(greatest - least + 1);
                let value = next_value(self.config, rng, &self.blob, &self.key, &mut self.value);
                let (key, queue) = (&self.key[..], self.config.queue.as_bytes());
                let call = match operation {
                    Operation::PutExpiring => RespCall::PutExpiring(key, value, seconds),
                    Operation::Push => RespCall::Push { queue, key, value },
                    _ => RespCall::SessionPut(key, value),
                };
                driver.begin(number, &Call::Resp(call));
            }
            Operation::MultiGet => {
                self.draw_keys(number, &flight, self.config.multi_get_keys);
                driver.begin(number, &Call::MultiGet(&self.keys));
            }
            Operation::Sequence => {
                self.draw_keys(number, &flight, self.config.sequence_steps);
                self.fill_rows(number);
                driver.begin(number, &Call::Sequence(&self.rows));
            }
        }
        self.clients[number].flights.push_back(flight);
    }

    /// Draws keys until there are `count` with the flight's own, or the client's keys end.
    fn draw_keys(&mut self, number: usize, flight: &Flight, count: usize) {
        let client = &mut self.clients[number];
        self.keys.truncate(count);
        let mut next_key = Some(flight.key.clone());
        for index in 0..count {
            let Some(key) = next_key else {
                self.keys.truncate(index);
                break;
            };
            if index == self.keys.len() {
                self.keys.push(Vec::new());
            }
            self.keys[index].clear();
            self.config.key_generator.write(&key, &mut self.keys[index]);
            next_key = None;
            if index + 1 < count {
                next_key = client.keys.next(&mut client.rng, &self.blob);
            }
        }
        self.check_keys_exhausted(number);
    }

    fn fill_rows(&mut self, number: usize) {
        let rng = &mut self.clients[number].rng;
        self.rows.clear();
        for key in &self.keys {
            let value = next_value(self.config, rng, &self.blob, key, &mut self.value);
            self.rows.push((key.clone(), value.to_vec()));
        }
    }
}

/// Returns the next value of a key: a slice of the blob, or sealed.
#[inline]
fn next_value<'b>(
    config: &Config,
    rng: &mut crate::generators::SeededRng,
    blob: &'b Blob,
    key: &[u8],
    sealed: &'b mut Vec<u8>,
) -> &'b [u8] {
    if !config.verify {
        return config.value_generator.next_value(rng, blob, sealed);
    }
    let bytes = config.value_generator.bytes(rng);
    let body = blob.slice(rng, bytes);
    sealed.clear();
    seal(key, body, bytes, sealed);
    sealed
}

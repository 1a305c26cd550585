//! Concurrent clients over RESP that write down what they did: a history for the judges.
//!
//! All stamps come from one monotonic clock. Every value is written once, so that a read tells
//! whose write it saw. A client whose call stays without an answer goes on under a new number, for
//! it can never say again that its earlier call is over.

use crate::checkers::{Call, Operation, Outcome, Value};
use crate::client::{Fate, Resp, Word};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What clients do.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How many at once.
    pub clients: usize,
    /// On how many keys.
    pub keys: usize,
    /// What they choose hangs on this, when they do it does not.
    pub seed: u64,
    /// How long a client rests between two calls.
    pub pause: Duration,
    /// How long it waits for an answer.
    pub patience: Duration,
}

impl Plan {
    fn key(&self, at: usize) -> String {
        format!("h{:x}-{at:02}", self.seed)
    }
}

/// What clients saw.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Their calls.
    pub calls: Vec<Call>,
    /// Answers that no such call may get.
    pub strange: Vec<String>,
}

impl History {
    /// How many calls were acknowledged, were refused, stay unknown.
    pub fn counts(&self) -> (u64, u64, u64) {
        let count = |wanted: fn(&Outcome) -> bool| {
            self.calls.iter().filter(|call| wanted(&call.outcome)).count() as u64
        };
        let refused = count(|outcome| *outcome == Outcome::Refused);
        let unknown = count(|outcome| *outcome == Outcome::Unknown);
        (self.calls.len() as u64 - refused - unknown, refused, unknown)
    }

    fn join(&mut self, other: History) {
        self.calls.extend(other.calls);
        self.strange.extend(other.strange);
    }
}

/// What all clients share.
#[derive(Debug)]
struct Shared {
    clock: Instant,
    /// Where the server is; it may move when it starts again.
    address: Mutex<SocketAddr>,
    stop: AtomicBool,
    numbers: AtomicU32,
}

impl Shared {
    fn now(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    fn address(&self) -> SocketAddr {
        *self.address.lock().expect("no panic holds it")
    }

    fn number(&self) -> u32 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }
}

/// Clients at work.
pub struct Recorder {
    shared: Arc<Shared>,
    plan: Plan,
    clients: Vec<JoinHandle<History>>,
}

impl Recorder {
    /// Starts the clients. Their keys must be absent.
    pub fn start(address: SocketAddr, plan: Plan) -> Recorder {
        let shared = Arc::new(Shared {
            clock: Instant::now(),
            address: Mutex::new(address),
            stop: AtomicBool::new(false),
            numbers: AtomicU32::new(0),
        });
        let begin = |at: usize| {
            let mut client = Client::new(shared.clone(), plan, at);
            std::thread::spawn(move || {
                client.work();
                client.history
            })
        };
        let clients = (0..plan.clients).map(begin).collect();
        Recorder { shared, plan, clients }
    }

    /// The server listens elsewhere now.
    pub fn moved(&self, address: SocketAddr) {
        *self.shared.address.lock().expect("no panic holds it") = address;
    }

    /// Stops the clients, reads every key once more, and gives what was seen. An error means that
    /// the server can't be read.
    pub fn stop(self) -> io::Result<History> {
        self.shared.stop.store(true, Ordering::SeqCst);
        let mut all = History::default();
        for client in self.clients {
            all.join(client.join().expect("a client does not panic"));
        }
        let mut last = Client::new(self.shared.clone(), self.plan, self.plan.clients);
        let mut connection = Resp::connect(self.shared.address())?;
        for at in 0..self.plan.keys {
            last.call(&mut connection, self.plan.key(at), Operation::Get)?;
        }
        all.join(last.history);
        Ok(all)
    }
}

struct Client {
    shared: Arc<Shared>,
    plan: Plan,
    dice: StdRng,
    number: u32,
    written: u32,
    /// What it last knew of each key: what a test-and-set expects.
    known: BTreeMap<String, Value>,
    history: History,
}

impl Client {
    fn new(shared: Arc<Shared>, plan: Plan, at: usize) -> Client {
        let dice = StdRng::seed_from_u64(plan.seed.wrapping_mul(1009) ^ at as u64);
        let number = shared.number();
        let (known, history) = (BTreeMap::new(), History::default());
        Client { shared, plan, dice, number, written: 0, known, history }
    }

    fn stopped(&self) -> bool {
        self.shared.stop.load(Ordering::SeqCst)
    }

    /// Calls until told to stop; connects again whenever the connection breaks.
    fn work(&mut self) {
        while !self.stopped() {
            let connected = Resp::with_patience(self.shared.address(), self.plan.patience);
            let Ok(mut connection) = connected else {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            };
            while !self.stopped() {
                let key = self.plan.key(self.dice.random_range(0..self.plan.keys));
                let operation = self.operation(&key);
                if self.call(&mut connection, key, operation).is_err() {
                    break;
                }
                std::thread::sleep(self.plan.pause);
            }
        }
    }

    fn value(&mut self) -> Vec<u8> {
        self.written += 1;
        format!("{}.{}", self.number, self.written).into_bytes()
    }

    fn operation(&mut self, key: &str) -> Operation {
        match self.dice.random_range(0..20) {
            0..8 => Operation::Get,
            8..14 => Operation::Put(self.value()),
            14..16 => Operation::Delete,
            roll => {
                let expect = self.known.get(key).cloned().flatten();
                let wanted = if roll == 19 { None } else { Some(self.value()) };
                Operation::TestAndSet { expect, wanted }
            }
        }
    }

    /// One call, written down whatever becomes of it; an error means that the connection is of no
    /// use any more.
    fn call(&mut self, connection: &mut Resp, key: String, what: Operation) -> io::Result<()> {
        let words = words(&key, &what);
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let began = self.shared.now();
        let answer = connection.call(&words);
        let ended = self.shared.now();
        let (outcome, broken) = match answer {
            Ok(word) => match outcome(&what, &word) {
                Some(outcome) => (outcome, Ok(())),
                None => {
                    self.history.strange.push(format!("{key}: {what:?} was answered {word:?}"));
                    (Outcome::Unknown, Err(io::ErrorKind::InvalidData.into()))
                }
            },
            Err(error) => (Outcome::Unknown, Err(error)),
        };
        self.learn(&key, &what, &outcome);
        let (client, unknown) = (self.number, outcome == Outcome::Unknown);
        self.history.calls.push(Call { client, key, operation: what, outcome, began, ended });
        if unknown {
            self.number = self.shared.number();
        }
        broken
    }

    fn learn(&mut self, key: &str, what: &Operation, outcome: &Outcome) {
        let value = match (what, outcome) {
            (Operation::TestAndSet { expect, wanted }, Outcome::Found(found)) => {
                if found == expect { wanted.clone() } else { found.clone() }
            }
            (_, Outcome::Found(value)) => value.clone(),
            (Operation::Put(value), Outcome::Done) => Some(value.clone()),
            (Operation::Delete, Outcome::Existed(_)) => None,
            _ => return,
        };
        self.known.insert(key.into(), value);
    }
}

/// The command of a call.
fn words(key: &str, what: &Operation) -> Vec<Vec<u8>> {
    let said = |word: &str| word.as_bytes().to_vec();
    let value = |value: &Value| match value {
        Some(value) => vec![said("VALUE"), value.clone()],
        None => vec![said("ABSENT")],
    };
    match what {
        Operation::Get => vec![said("GET"), said(key)],
        Operation::Put(value) => vec![said("SET"), said(key), value.clone()],
        Operation::Delete => vec![said("DEL"), said(key)],
        Operation::TestAndSet { expect, wanted } => {
            [vec![said("CREDENZA.TAS"), said(key)], value(expect), value(wanted)].concat()
        }
    }
}

/// What an answer says; none when no such call may be answered so.
fn outcome(what: &Operation, word: &Word) -> Option<Outcome> {
    match (word.fate(), what, word) {
        (Fate::Info, ..) => Some(Outcome::Unknown),
        (Fate::Fail, ..) => Some(Outcome::Refused),
        (_, Operation::Get | Operation::TestAndSet { .. }, Word::Bulk(found)) => {
            Some(Outcome::Found(found.clone()))
        }
        (_, Operation::Put(_), Word::Simple(said)) if said == "OK" => Some(Outcome::Done),
        (_, Operation::Delete, Word::Number(count @ 0..=1)) => Some(Outcome::Existed(*count == 1)),
        _ => None,
    }
}

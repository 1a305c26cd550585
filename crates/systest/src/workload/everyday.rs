//! Everyday loads that leave garbage: keys that expire, keys that are touched, a queue, a time
//! series, counters, sequences, range reads. Each has one client, which goes to the next node when
//! it is refused, and checks its own answers.
//!
//! They complement the recorders, whose checkers look at single keys: a client's check here
//! concerns an order of keys, a sum, or two keys at once.

use super::{ClientRecord, Workload, WorkloadContext};
use crate::client::{CallOutcome, Resp, RespReply};
use crate::workload::CallOutcome::Acknowledged;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Time that a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Pause of a client after each step, and before it tries the next node.
const PAUSE: Duration = Duration::from_millis(4);
const REST: Duration = Duration::from_millis(20);
/// Number of items in the queue, and of points in the series.
const QUEUE_ITEMS: u64 = 200;
const SERIES_POINTS: u64 = 500;
/// Most points that are deleted at once.
const POINTS_AT_ONCE: u64 = 100;

/// Kind of work of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EverydayWork {
    Expiring,
    Touches,
    Queue,
    Series,
    Counter,
    Sequences,
    Ranges,
}

const ALL: [EverydayWork; 7] = [
    EverydayWork::Expiring,
    EverydayWork::Touches,
    EverydayWork::Queue,
    EverydayWork::Series,
    EverydayWork::Counter,
    EverydayWork::Sequences,
    EverydayWork::Ranges,
];

/// Answers of all clients.
#[derive(Clone, Debug, Default)]
pub struct EverydayAnswers {
    /// Number of steps that were acknowledged.
    pub ok: u64,
    /// Number of steps that were refused.
    pub fail: u64,
    /// Number of steps whose outcome is unknown.
    pub info: u64,
    /// Descriptions of answers that contradict what the client knew.
    pub wrong: Vec<String>,
    /// Number of acknowledged steps in each second.
    pub by_second: Vec<u64>,
}

/// Everyday clients at work.
pub type Everyday = Workload<EverydayAnswers>;

impl Everyday {
    /// Starts one client for each kind of work, spread over the nodes.
    pub fn start(nodes: &[SocketAddr], seed: u64) -> Everyday {
        Workload::spawn(nodes, ALL.len(), move |at, context| {
            let mut client = EverydayClient {
                work: ALL[at],
                context,
                dice: StdRng::seed_from_u64(seed.wrapping_mul(31) + at as u64),
                told: EverydayAnswers::default(),
                known: ClientKnowledge::default(),
            };
            client.work(at);
            client.told
        })
    }
}

impl ClientRecord for EverydayAnswers {
    fn join(&mut self, other: EverydayAnswers) {
        self.ok += other.ok;
        self.fail += other.fail;
        self.info += other.info;
        self.wrong.extend(other.wrong);
        let length = self.by_second.len().max(other.by_second.len());
        self.by_second.resize(length, 0);
        self.by_second.iter_mut().zip(other.by_second).for_each(|(all, one)| *all += one);
    }
}

/// Knowledge of a client about its keys.
#[derive(Debug, Default)]
struct ClientKnowledge {
    /// Next item, point or number.
    next: u64,
    /// Last acknowledged item, point or number.
    acked: u64,
    /// Number of steps since then whose outcome is unknown.
    unknown: u64,
    /// Number of items that were pushed and not popped.
    waiting: u64,
    /// Items and points whose write has an unknown outcome: they may appear at any time.
    late: BTreeSet<u64>,
}

struct EverydayClient {
    work: EverydayWork,
    context: Arc<WorkloadContext>,
    dice: StdRng,
    told: EverydayAnswers,
    known: ClientKnowledge,
}

impl EverydayClient {
    fn work(&mut self, at: usize) {
        for at in at.. {
            if let Ok(mut redis) = Resp::with_patience(self.context.node(at).1, PATIENCE) {
                while !self.context.stopped() && self.turn(&mut redis).is_ok() {
                    std::thread::sleep(PAUSE);
                }
            }
            if self.context.stopped() {
                return;
            }
            std::thread::sleep(REST);
        }
    }

    /// Takes one step. Fails if the client is not served here.
    fn turn(&mut self, redis: &mut Resp) -> io::Result<()> {
        match self.step(redis) {
            Ok(Acknowledged(())) => {
                self.told.ok += 1;
                let second = self.context.elapsed().as_secs() as usize;
                let length = self.told.by_second.len().max(second + 1);
                self.told.by_second.resize(length, 0);
                self.told.by_second[second] += 1;
                Ok(())
            }
            Ok(CallOutcome::Refused) => {
                self.told.fail += 1;
                Err(io::ErrorKind::ConnectionRefused.into())
            }
            Ok(CallOutcome::Unknown) | Err(_) => {
                self.told.info += 1;
                self.known.unknown += 1;
                Err(io::ErrorKind::ConnectionAborted.into())
            }
        }
    }

    fn step(&mut self, redis: &mut Resp) -> io::Result<CallOutcome> {
        match self.work {
            EverydayWork::Expiring => {
                let (key, life) =
                    (self.dice.random_range(0..20_000), self.dice.random_range(1..=5));
                Ok(redis.say(&format!("SET expiring-{key:05} x EX {life}"))?.outcome())
            }
            EverydayWork::Touches => {
                let key = self.dice.random_range(0..50);
                Ok(redis.say(&format!("SET touched-{key:02} x EX 5"))?.outcome())
            }
            EverydayWork::Queue => self.queue(redis),
            EverydayWork::Series => self.series(redis),
            EverydayWork::Counter => self.count(redis),
            EverydayWork::Sequences => self.sequence(redis),
            EverydayWork::Ranges => self.range(redis),
        }
    }

    /// Pushes after the last item or pops the first; items must come in the order of their pushes.
    fn queue(&mut self, redis: &mut Resp) -> io::Result<CallOutcome> {
        if self.known.waiting < QUEUE_ITEMS || self.dice.random_bool(0.5) {
            let fate = self.append(redis, "queue")?;
            self.known.waiting += u64::from(fate != CallOutcome::Refused);
            return Ok(fate);
        }
        let word = redis.say("CREDENZA.PREFIX queue- LIMIT 1 KEYS")?;
        if word.outcome() != Acknowledged(()) {
            return Ok(word.outcome());
        }
        let Some(key) = first_key(&word) else {
            self.known.waiting = 0;
            return Ok(Acknowledged(()));
        };
        let number = number_of(&key);
        // An item whose removal was acknowledged must never come again.
        let may_come = number > self.known.acked || self.known.late.remove(&number);
        self.expect(may_come, || format!("queue: {key} came again"));
        let word = redis.say(&format!("DEL {key}"))?;
        if word.outcome() == Acknowledged(()) {
            self.known.acked = self.known.acked.max(number);
            self.known.waiting = self.known.waiting.saturating_sub(1);
        }
        Ok(word.outcome())
    }

    /// Appends a point, deletes the oldest, and reads the others.
    fn series(&mut self, redis: &mut Resp) -> io::Result<CallOutcome> {
        let fate = self.append(redis, "series")?;
        if fate != Acknowledged(()) || self.known.next <= SERIES_POINTS {
            return Ok(fate);
        }
        // This includes points that were due for deletion while no node served the client.
        let (newest, oldest) = (self.known.next, self.known.next - SERIES_POINTS);
        let last = oldest.min(self.known.acked + POINTS_AT_ONCE);
        let due = self.known.acked + 1..=last;
        let names: Vec<_> = due.map(|number| format!("series-{number:012}")).collect();
        let word = redis.say(&format!("DEL {}", names.join(" ")))?;
        if word.outcome() != Acknowledged(()) {
            return Ok(word.outcome());
        }
        self.known.acked = last;
        let page = format!("CREDENZA.RANGE [series-{last:012} (series. LIMIT 1000 KEYS");
        let word = redis.say(&page)?;
        if word.outcome() == Acknowledged(()) {
            let keys = keys_of(&word);
            let here = |number: u64| keys.contains(&format!("series-{number:012}"));
            let may_be = !here(last) || self.known.late.remove(&last);
            self.expect(may_be, || format!("series: {last} is there after its delete"));
            self.expect(here(newest), || format!("series: {newest} is not there"));
        }
        Ok(word.outcome())
    }

    /// Writes the next item.
    fn append(&mut self, redis: &mut Resp, what: &str) -> io::Result<CallOutcome> {
        self.known.next += 1;
        let told = redis.say(&format!("SET {what}-{:012} x", self.known.next));
        let fate = told.map(|word| word.outcome());
        if matches!(fate, Ok(CallOutcome::Unknown) | Err(_)) {
            self.known.late.insert(self.known.next);
        }
        fate
    }

    /// Adds one; the answer must be the acknowledged sum plus at most the unknown steps.
    fn count(&mut self, redis: &mut Resp) -> io::Result<CallOutcome> {
        let word = redis.say("INCR everyday-counter")?;
        if let RespReply::Number(sum) = word {
            let ClientKnowledge { acked, unknown, .. } = self.known;
            let may = acked + 1..=acked + 1 + unknown;
            self.expect(may.contains(&(sum as u64)), || format!("counter: {sum}, not {may:?}"));
            // Steps that are still unknown may be applied later.
            self.known.unknown = may.end().saturating_sub(sum as u64);
            self.known.acked = sum as u64;
        }
        Ok(word.outcome())
    }

    /// Writes two keys in one sequence, then reads both.
    fn sequence(&mut self, redis: &mut Resp) -> io::Result<CallOutcome> {
        let value = self.dice.random::<u32>();
        for step in ["MULTI", "SET left VALUE", "SET right VALUE"] {
            let word = redis.say(&step.replace("VALUE", &value.to_string()))?;
            if word.outcome() != Acknowledged(()) {
                return Ok(word.outcome());
            }
        }
        let word = redis.say("EXEC")?;
        if word.outcome() != Acknowledged(()) {
            return Ok(word.outcome());
        }
        let word = redis.say("MGET left right")?;
        if word.outcome() == Acknowledged(()) {
            let wanted = RespReply::Bulk(Some(value.to_string().into_bytes()));
            // A sequence of its own with an unknown outcome may be applied later, but never in
            // part.
            let is_mine = self.known.unknown > 0 || word.list().first() == Some(&wanted);
            let is_whole = matches!(word.list(), [left, right] if left == right);
            self.expect(is_mine && is_whole, || format!("sequence: {value}, found {word:?}"));
        }
        Ok(word.outcome())
    }

    /// Reads a page in a range that others write and delete.
    fn range(&mut self, redis: &mut Resp) -> io::Result<CallOutcome> {
        let word = redis.say("CREDENZA.RANGE [expiring- (touched-99 LIMIT 500 KEYS")?;
        if word.outcome() == Acknowledged(()) {
            let sorted = keys_of(&word).is_sorted_by(|one, other| one < other);
            self.expect(sorted, || "range: keys are out of order".into());
        }
        Ok(word.outcome())
    }

    fn expect(&mut self, holds: bool, words: impl FnOnce() -> String) {
        if !holds {
            self.told.wrong.push(words());
        }
    }
}

/// Returns the keys of a page of keys.
fn keys_of(page: &RespReply) -> Vec<String> {
    let keys = page.list().get(1).map_or(&[][..], RespReply::list).iter();
    keys.filter_map(|key| Some(String::from_utf8_lossy(key.bytes()?).into_owned())).collect()
}

fn first_key(page: &RespReply) -> Option<String> {
    keys_of(page).into_iter().next()
}

fn number_of(key: &str) -> u64 {
    key.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or_default()
}

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
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause of a client after each step, and before it tries the next node.
const STEP_PAUSE: Duration = Duration::from_millis(4);
const FAILOVER_PAUSE: Duration = Duration::from_millis(20);
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
                kind: ALL[at],
                context,
                dice: StdRng::seed_from_u64(seed.wrapping_mul(31) + at as u64),
                answers: EverydayAnswers::default(),
                known: ClientKnowledge::default(),
            };
            client.run(at);
            client.answers
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
        self.by_second.iter_mut().zip(other.by_second).for_each(|(sum, count)| *sum += count);
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
    queued: u64,
    /// Items and points whose write has an unknown outcome: they may appear at any time.
    possibly_written: BTreeSet<u64>,
}

struct EverydayClient {
    kind: EverydayWork,
    context: Arc<WorkloadContext>,
    dice: StdRng,
    answers: EverydayAnswers,
    known: ClientKnowledge,
}

impl EverydayClient {
    fn run(&mut self, at: usize) {
        for at in at.. {
            if let Ok(mut redis) = Resp::with_timeout(self.context.node(at).1, ANSWER_TIMEOUT) {
                while !self.context.is_stopped() && self.run_step(&mut redis).is_ok() {
                    std::thread::sleep(STEP_PAUSE);
                }
            }
            if self.context.is_stopped() {
                return;
            }
            std::thread::sleep(FAILOVER_PAUSE);
        }
    }

    /// Runs one step. Fails if the client is not served here.
    fn run_step(&mut self, redis: &mut Resp) -> io::Result<()> {
        match self.step(redis) {
            Ok(Acknowledged(())) => {
                self.answers.ok += 1;
                let second = self.context.elapsed().as_secs() as usize;
                let length = self.answers.by_second.len().max(second + 1);
                self.answers.by_second.resize(length, 0);
                self.answers.by_second[second] += 1;
                Ok(())
            }
            Ok(CallOutcome::Refused) => {
                self.answers.fail += 1;
                Err(io::ErrorKind::ConnectionRefused.into())
            }
            Ok(CallOutcome::Unknown) | Err(_) => {
                self.answers.info += 1;
                self.known.unknown += 1;
                Err(io::ErrorKind::ConnectionAborted.into())
            }
        }
    }

    fn step(&mut self, redis: &mut Resp) -> io::Result<CallOutcome> {
        match self.kind {
            EverydayWork::Expiring => {
                let (key, ttl_s) =
                    (self.dice.random_range(0..20_000), self.dice.random_range(1..=5));
                Ok(redis.call_line(&format!("SET expiring-{key:05} x EX {ttl_s}"))?.outcome())
            }
            EverydayWork::Touches => {
                let key = self.dice.random_range(0..50);
                Ok(redis.call_line(&format!("SET touched-{key:02} x EX 5"))?.outcome())
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
        if self.known.queued < QUEUE_ITEMS || self.dice.random_bool(0.5) {
            let outcome = self.append(redis, "queue")?;
            self.known.queued += u64::from(outcome != CallOutcome::Refused);
            return Ok(outcome);
        }
        let reply = redis.call_line("CREDENZA.PREFIX queue- LIMIT 1 KEYS")?;
        if reply.outcome() != Acknowledged(()) {
            return Ok(reply.outcome());
        }
        let Some(key) = first_key(&reply) else {
            self.known.queued = 0;
            return Ok(Acknowledged(()));
        };
        let number = number_of(&key);
        // An item whose removal was acknowledged must never be returned again.
        let is_allowed = number > self.known.acked || self.known.possibly_written.remove(&number);
        self.expect(is_allowed, || format!("queue: {key} came again"));
        let reply = redis.call_line(&format!("DEL {key}"))?;
        if reply.outcome() == Acknowledged(()) {
            self.known.acked = self.known.acked.max(number);
            self.known.queued = self.known.queued.saturating_sub(1);
        }
        Ok(reply.outcome())
    }

    /// Appends a point, deletes the oldest, and reads the others.
    fn series(&mut self, redis: &mut Resp) -> io::Result<CallOutcome> {
        let outcome = self.append(redis, "series")?;
        if outcome != Acknowledged(()) || self.known.next <= SERIES_POINTS {
            return Ok(outcome);
        }
        // This includes points that were due for deletion while no node served the client.
        let (newest, oldest) = (self.known.next, self.known.next - SERIES_POINTS);
        let last = oldest.min(self.known.acked + POINTS_AT_ONCE);
        let due_for_deletion = self.known.acked + 1..=last;
        let keys_to_delete: Vec<_> =
            due_for_deletion.map(|number| format!("series-{number:012}")).collect();
        let reply = redis.call_line(&format!("DEL {}", keys_to_delete.join(" ")))?;
        if reply.outcome() != Acknowledged(()) {
            return Ok(reply.outcome());
        }
        self.known.acked = last;
        let page = format!("CREDENZA.RANGE [series-{last:012} (series. LIMIT 1000 KEYS");
        let reply = redis.call_line(&page)?;
        if reply.outcome() == Acknowledged(()) {
            let keys = keys_of(&reply);
            let is_present = |number: u64| keys.contains(&format!("series-{number:012}"));
            let is_allowed = !is_present(last) || self.known.possibly_written.remove(&last);
            self.expect(is_allowed, || format!("series: {last} is there after its delete"));
            self.expect(is_present(newest), || format!("series: {newest} is not there"));
        }
        Ok(reply.outcome())
    }

    /// Writes the next item.
    fn append(&mut self, redis: &mut Resp, prefix: &str) -> io::Result<CallOutcome> {
        self.known.next += 1;
        let reply = redis.call_line(&format!("SET {prefix}-{:012} x", self.known.next));
        let outcome = reply.map(|reply| reply.outcome());
        if matches!(outcome, Ok(CallOutcome::Unknown) | Err(_)) {
            self.known.possibly_written.insert(self.known.next);
        }
        outcome
    }

    /// Adds one; the answer must be the acknowledged sum plus at most the unknown steps.
    fn count(&mut self, redis: &mut Resp) -> io::Result<CallOutcome> {
        let reply = redis.call_line("INCR everyday-counter")?;
        if let RespReply::Number(sum) = reply {
            let ClientKnowledge { acked, unknown, .. } = self.known;
            let allowed = acked + 1..=acked + 1 + unknown;
            self.expect(allowed.contains(&(sum as u64)), || {
                format!("counter: {sum}, not {allowed:?}")
            });
            // Steps that are still unknown may be applied later.
            self.known.unknown = allowed.end().saturating_sub(sum as u64);
            self.known.acked = sum as u64;
        }
        Ok(reply.outcome())
    }

    /// Writes two keys in one sequence, then reads both.
    fn sequence(&mut self, redis: &mut Resp) -> io::Result<CallOutcome> {
        let value = self.dice.random::<u32>();
        for step in ["MULTI", "SET left VALUE", "SET right VALUE"] {
            let reply = redis.call_line(&step.replace("VALUE", &value.to_string()))?;
            if reply.outcome() != Acknowledged(()) {
                return Ok(reply.outcome());
            }
        }
        let reply = redis.call_line("EXEC")?;
        if reply.outcome() != Acknowledged(()) {
            return Ok(reply.outcome());
        }
        let reply = redis.call_line("MGET left right")?;
        if reply.outcome() == Acknowledged(()) {
            let expected = RespReply::Bulk(Some(value.to_string().into_bytes()));
            // A sequence of its own with an unknown outcome may be applied later, but never in
            // part.
            let is_own_value = self.known.unknown > 0 || reply.list().first() == Some(&expected);
            let is_complete = matches!(reply.list(), [left, right] if left == right);
            self.expect(is_own_value && is_complete, || {
                format!("sequence: {value}, found {reply:?}")
            });
        }
        Ok(reply.outcome())
    }

    /// Reads a page in a range that others write and delete.
    fn range(&mut self, redis: &mut Resp) -> io::Result<CallOutcome> {
        let reply = redis.call_line("CREDENZA.RANGE [expiring- (touched-99 LIMIT 500 KEYS")?;
        if reply.outcome() == Acknowledged(()) {
            let sorted = keys_of(&reply).is_sorted_by(|one, other| one < other);
            self.expect(sorted, || "range: keys are out of order".into());
        }
        Ok(reply.outcome())
    }

    fn expect(&mut self, condition: bool, message: impl FnOnce() -> String) {
        if !condition {
            self.answers.wrong.push(message());
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

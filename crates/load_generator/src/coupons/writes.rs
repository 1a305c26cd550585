//! Writes of coupons: every document once a round, by many clients.

use super::WAIT;
use crate::drivers::{Answer, Call, DocumentCall, Driver, Failure, Target};
use crate::error::BenchError;
use crate::generators::{CouponSet, write_coupon_key};
use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Time without a successful write after which the experiment ends.
const SUCCESS_TIMEOUT: Duration = Duration::from_secs(60);
/// Pause after writes that failed, before they are repeated.
const FAILURE_PAUSE: Duration = Duration::from_millis(20);
/// Most clients that write documents in bulk. With more of them a server of one process would hold
/// all documents in its memory at once.
const BULK_CLIENTS_MAX: u64 = 4;

/// Rounds of writes.
#[derive(Clone, Copy, Debug)]
pub struct WriteRounds {
    /// Number of clients.
    pub clients: usize,
    /// Number of writes that a client has in flight.
    pub pipeline: usize,
    /// Number of the first round; round 0 is the load.
    pub first: u32,
    /// Number of rounds.
    pub count: u32,
}

/// Result of rounds of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteResult {
    /// Time from the first request to the last answer.
    pub elapsed: Duration,
    /// Number of documents written; one that was written in two rounds counts twice.
    pub documents: u64,
    /// Number of calls that failed and were repeated.
    pub repeated: u64,
}

/// Writes every document once in each round. The writes of a document are applied in the order of
/// the rounds. `observe` receives the number of documents written so far, after each wait for
/// answers. Errors: nothing succeeds for a minute.
pub fn write_rounds(
    target: &dyn Target,
    coupons: &CouponSet,
    rounds: &WriteRounds,
    observe: &mut dyn FnMut(u64),
) -> Result<WriteResult, BenchError> {
    let mut writer = CouponWriter::new(coupons, *rounds, target.bulk_documents());
    let mut driver = target.driver(writer.clients.len())?;
    let begin = Instant::now();
    let (mut last_answer, mut last_success, mut last_failure) = (begin, begin, None);
    (0..writer.clients.len()).for_each(|client| writer.fill(client, &mut *driver));
    let mut answers: Vec<(usize, Instant, Result<u64, Failure>)> = Vec::new();
    while !writer.is_done() {
        driver.wait(WAIT, &mut |client, at, answer| {
            answers.push((client, at, answer.map(|answer| stored(&answer))));
        });
        let repeated = writer.repeated;
        for (client, at, answer) in &answers {
            last_answer = *at;
            match (writer.finish(*client, answer.as_ref().ok().copied()), answer) {
                (true, _) => last_success = *at,
                (false, Ok(_)) => last_failure = Some("not all documents were stored".to_string()),
                (false, Err(failure)) => last_failure = Some(failure.kind.to_string()),
            }
        }
        if writer.repeated > repeated {
            std::thread::sleep(FAILURE_PAUSE);
        }
        for (client, ..) in answers.drain(..) {
            writer.fill(client, &mut *driver);
        }
        observe(writer.documents);
        if last_success.elapsed() > SUCCESS_TIMEOUT {
            let reason = last_failure.unwrap_or_else(|| "no answer".into());
            let text = format!("no write succeeded for a minute: {reason}");
            return Err(BenchError::unavailable(text));
        }
    }
    let elapsed = last_answer.duration_since(begin);
    Ok(WriteResult { elapsed, documents: writer.documents, repeated: writer.repeated })
}

/// Returns the number of documents that were stored.
fn stored(answer: &Answer<'_>) -> u64 {
    match answer {
        Answer::Count(count) => *count,
        _ => 1,
    }
}

/// Writes of all clients.
struct CouponWriter<'a> {
    coupons: &'a CouponSet,
    rounds: WriteRounds,
    /// Number of documents of a call.
    bulk: usize,
    clients: Vec<WritingClient>,
    /// Number of documents written.
    documents: u64,
    /// Number of calls that failed.
    repeated: u64,
    /// Keys and documents of the call that is encoded.
    rows: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Writes of one client. Its calls are numbered from 0 on: those of the first round, then those of
/// the next.
struct WritingClient {
    /// Number of its calls in a round, at least 1.
    calls_per_round: u64,
    /// Number of its next call.
    next: u64,
    /// Calls in flight, in the order in which they were sent.
    in_flight: VecDeque<u64>,
    /// Calls that failed, in the order of their answers.
    failed: VecDeque<u64>,
}

impl<'a> CouponWriter<'a> {
    fn new(coupons: &'a CouponSet, rounds: WriteRounds, bulk: usize) -> CouponWriter<'a> {
        let bulk = bulk.max(1);
        let calls = u64::from(coupons.documents()).div_ceil(bulk as u64);
        let clients_max = if bulk > 1 { BULK_CLIENTS_MAX.min(calls) } else { calls };
        let clients = (rounds.clients as u64).clamp(1, clients_max);
        let clients = (0..clients).map(|client| WritingClient {
            calls_per_round: (calls + clients - 1 - client) / clients,
            next: 0,
            in_flight: VecDeque::new(),
            failed: VecDeque::new(),
        });
        let clients = clients.collect();
        CouponWriter { coupons, rounds, bulk, clients, documents: 0, repeated: 0, rows: Vec::new() }
    }

    fn is_done(&self) -> bool {
        let all = u64::from(self.coupons.documents()) * u64::from(self.rounds.count);
        self.documents >= all
    }

    /// Begins calls of a client until its pipeline is full or no call is left.
    fn fill(&mut self, client: usize, driver: &mut dyn Driver) {
        let mut has_begun = false;
        while let Some(call) = self.clients[client].next_call(&self.rounds) {
            self.begin(client, call, driver);
            has_begun = true;
        }
        if has_begun {
            driver.send(client);
        }
    }

    fn begin(&mut self, client: usize, call: u64, driver: &mut dyn Driver) {
        let (round, numbers) = self.documents_of(client, call);
        let coupons = self.coupons;
        self.rows.resize_with(numbers.len(), Default::default);
        for ((key, document), number) in self.rows.iter_mut().zip(numbers) {
            key.clear();
            document.clear();
            write_coupon_key(number, key);
            coupons.write(number, round, document);
        }
        match &self.rows[..] {
            [(key, document)] if self.bulk == 1 => driver.begin(client, &Call::Put(key, document)),
            rows => driver.begin(client, &Call::Document(DocumentCall::Bulk(rows))),
        }
    }

    /// Returns the round of a client's call and the numbers of its documents.
    fn documents_of(&self, client: usize, call: u64) -> (u32, Range<u32>) {
        let calls_per_round = self.clients[client].calls_per_round;
        let round = self.rounds.first + (call / calls_per_round) as u32;
        let at = client as u64 + (call % calls_per_round) * self.clients.len() as u64;
        let first = at * self.bulk as u64;
        let end = (first + self.bulk as u64).min(self.coupons.documents().into());
        (round, first as u32..end as u32)
    }

    /// Takes the answer to the oldest call of a client: the number of documents that were stored,
    /// or `None` if it failed. Returns true if all were stored; else the call is repeated.
    fn finish(&mut self, client: usize, stored: Option<u64>) -> bool {
        let Some(call) = self.clients[client].in_flight.pop_front() else { return true };
        let (_, numbers) = self.documents_of(client, call);
        let count = numbers.len() as u64;
        if stored == Some(count) {
            self.documents += count;
            return true;
        }
        self.repeated += 1;
        self.clients[client].failed.push_back(call);
        false
    }
}

impl WritingClient {
    /// Returns the call to begin now: one that failed, or the next one. `None`: the pipeline is
    /// full, or no call is left.
    fn next_call(&mut self, rounds: &WriteRounds) -> Option<u64> {
        if self.in_flight.len() >= rounds.pipeline.max(1) {
            return None;
        }
        let call = match self.failed.pop_front() {
            Some(call) => call,
            None => {
                // Two writes of one document are never in flight at once: if the earlier one were
                // repeated, it would undo the later one.
                let is_free = |oldest: &u64| self.next - oldest < self.calls_per_round;
                let is_left = self.next < self.calls_per_round * u64::from(rounds.count);
                if !is_left || !self.in_flight.iter().min().is_none_or(is_free) {
                    return None;
                }
                self.next += 1;
                self.next - 1
            }
        };
        self.in_flight.push_back(call);
        Some(call)
    }
}

//! Writer of documents: puts, deletes, and puts with a time to live, each with its outcome on
//! record.

use super::record::{TTL, value_of};
use super::shared::{DocumentBucket, FAILOVER_PAUSE, SharedState};
use crate::client::{CallOutcome, Http, HttpResponse};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for an answer; then the write is in doubt.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// Pause between two writes.
const PAUSE: Duration = Duration::from_millis(20);
/// Number of keys that a writer has at a time, beside those with a time to live.
const KEYS: usize = 100;

/// Number of writes by outcome.
#[derive(Clone, Debug, Default)]
pub struct WriteCounts {
    /// Acknowledged.
    pub ok: u64,
    /// Certainly without effect.
    pub fail: u64,
    /// In doubt.
    pub info: u64,
    /// Texts of refusals, with their counts.
    pub refusals: BTreeMap<String, u64>,
}

impl WriteCounts {
    /// Adds the counts of another writer.
    pub fn join(&mut self, other: WriteCounts) {
        (self.ok, self.fail) = (self.ok + other.ok, self.fail + other.fail);
        self.info += other.info;
        for (text, count) in other.refusals {
            *self.refusals.entry(text).or_default() += count;
        }
    }
}

/// Key that the writer writes again and again. One that is in doubt has a successor.
#[derive(Clone, Debug, Default)]
struct KeySlot {
    generation: usize,
    has_value: bool,
    /// Context of the last write, in an available bucket: the next one replaces what it left.
    context: Option<String>,
}

/// Kind of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteKind {
    Put,
    Delete,
    /// Put of a key of its own, with a time to live.
    Mortal,
}

/// Writer, on a thread of its own.
pub(super) struct DocumentWriter {
    shared: Arc<SharedState>,
    number: usize,
    dice: StdRng,
    slots: Vec<KeySlot>,
    mortals: usize,
    counts: WriteCounts,
}

impl DocumentWriter {
    pub fn new(shared: Arc<SharedState>, number: usize, seed: u64) -> DocumentWriter {
        let dice = StdRng::seed_from_u64(seed.wrapping_mul(1009) ^ number as u64);
        let slots = vec![KeySlot::default(); KEYS];
        DocumentWriter { shared, number, dice, slots, mortals: 0, counts: WriteCounts::default() }
    }

    /// Writes until stopped; goes to the next node whenever one does not serve it.
    pub fn run(mut self) -> WriteCounts {
        let mut at = self.number;
        while !self.shared.is_stopped() {
            let node = self.shared.node(at);
            if let Ok(mut client) = Http::with_timeout(node, ANSWER_TIMEOUT) {
                while !self.shared.must_leave(node) && self.write(&mut client).is_ok() {
                    std::thread::sleep(PAUSE);
                }
            }
            at += 1;
            std::thread::sleep(FAILOVER_PAUSE);
        }
        self.counts
    }

    /// Makes one write. Fails if the client is not served here.
    fn write(&mut self, client: &mut Http) -> io::Result<()> {
        let slot = self.dice.random_range(0..KEYS);
        let kind = match self.dice.random_range(0..20) {
            0 => WriteKind::Mortal,
            1..4 if self.slots[slot].has_value => WriteKind::Delete,
            _ => WriteKind::Put,
        };
        let key = match kind {
            WriteKind::Mortal => {
                self.mortals += 1;
                format!("w{}-mortal-{}", self.number, self.mortals)
            }
            _ => format!("w{}-{slot:03}-{}", self.number, self.slots[slot].generation),
        };
        let shared = self.shared.clone();
        let _permit = shared.write_permit();
        let number = shared.record.begin(&key, kind == WriteKind::Mortal);
        let value = value_of(&key, number, kind == WriteKind::Delete);
        let (method, path) = self.request_line((slot, &key), kind);
        let headers = [("content-type", "application/octet-stream")];
        let body = value.as_deref().unwrap_or_default();
        let answer = client.request_with_headers(method, &path, &headers, body.as_bytes());
        let outcome = outcome_of(shared.bucket, &answer);
        shared.record.end(&key, value, outcome);
        if kind != WriteKind::Mortal {
            self.keep(slot, kind, outcome, &answer);
        }
        self.count(outcome, &answer);
        match answer {
            Ok(answer) if answer.header("connection") == Some("close") => Err(not_served()),
            Ok(_) if outcome.is_acknowledged() => Ok(()),
            Ok(_) => Err(not_served()),
            Err(error) => Err(error),
        }
    }

    /// Returns method and path of a write. In an available bucket it replaces what the last write
    /// of the key left; a key with a time to live has no earlier one.
    fn request_line(&self, (slot, key): (usize, &str), kind: WriteKind) -> (&'static str, String) {
        let path = self.shared.bucket.path();
        let method = if kind == WriteKind::Delete { "DELETE" } else { "PUT" };
        let path = match (kind, self.shared.bucket) {
            (WriteKind::Mortal, _) => format!("{path}/keys/{key}?ttl_ms={}", TTL.as_millis()),
            (_, DocumentBucket::Consistent) => format!("{path}/keys/{key}"),
            (_, DocumentBucket::Available) => match &self.slots[slot].context {
                Some(context) => format!("{path}/siblings/{key}?context={context}"),
                None => format!("{path}/siblings/{key}"),
            },
        };
        (method, path)
    }

    /// Keeps what the next write of a key needs. A key in doubt is not written again.
    fn keep(
        &mut self,
        slot: usize,
        kind: WriteKind,
        outcome: CallOutcome,
        answer: &io::Result<HttpResponse>,
    ) {
        let slot = &mut self.slots[slot];
        match outcome {
            CallOutcome::Refused => {}
            CallOutcome::Unknown => {
                *slot = KeySlot { generation: slot.generation + 1, ..KeySlot::default() };
            }
            CallOutcome::Acknowledged(()) => {
                slot.has_value = kind == WriteKind::Put;
                let answer = answer.as_ref().map(HttpResponse::json).unwrap_or_default();
                slot.context = answer["context"].as_str().map(String::from);
            }
        }
    }

    fn count(&mut self, outcome: CallOutcome, answer: &io::Result<HttpResponse>) {
        match outcome {
            CallOutcome::Acknowledged(()) => self.counts.ok += 1,
            CallOutcome::Refused => self.counts.fail += 1,
            CallOutcome::Unknown => self.counts.info += 1,
        }
        if !outcome.is_acknowledged() {
            let text = match answer {
                Ok(answer) => format!("{} {}", answer.status, answer.reason()),
                Err(error) => error.kind().to_string(),
            };
            *self.counts.refusals.entry(text).or_default() += 1;
        }
    }
}

/// Returns the outcome of a write. After a server error, replicas of an available bucket may have
/// it; a consistent one answers so, too, where the effect is open.
fn outcome_of(bucket: DocumentBucket, answer: &io::Result<HttpResponse>) -> CallOutcome {
    let Ok(answer) = answer else { return CallOutcome::Unknown };
    match (answer.status, bucket) {
        (200..=299, _) => CallOutcome::Acknowledged(()),
        // A delete of a key without a row.
        (404, DocumentBucket::Consistent) if answer.reason() == "not_found" => {
            CallOutcome::Acknowledged(())
        }
        (500 | 504, DocumentBucket::Consistent) => CallOutcome::Unknown,
        (404 | 500.., DocumentBucket::Available) => CallOutcome::Unknown,
        _ => CallOutcome::Refused,
    }
}

fn not_served() -> io::Error {
    io::ErrorKind::ConnectionRefused.into()
}

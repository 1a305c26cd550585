//! Strict serializability of transactions: sequences over several keys with predicates, ranges,
//! counters, rows with a time to live, reads of every level and pipelines, judged by the log.
//!
//! The log gives the order of all updates. So one replay of a sequential specification tells
//! whether
//!
//! - every acknowledged transaction stands in the log once, in one piece, and was answered what the
//!   state just before it says; a refused one stands nowhere, an unknown one once or never;
//! - every read, of one key or of a range, shows the state at one index; a consistent one not
//!   before what had been answered when it began; one of `at_least:N` not before N; a dirty one not
//!   before what its connection was shown; none shows what was asked for after it ended;
//! - answers on one connection, also those of a pipeline, keep the order of its requests; a read
//!   behind an update of its own pipeline sees that update, and so may show a part of a value of
//!   the log: one that other updates of the same value follow;
//! - an update's index is that of the value that holds it, and nothing that a read shows is later
//!   than its own;
//! - a row with a time to live is not gone before its time, and never shown after it was gone.
//!
//! Reads have no place of their own in the log: each gets the least one that its answer and what
//! went before allow, which leaves most room to those behind it.
//!
//! Promises: what it refuses can't be explained by this log.
//! Never: takes a history in which two transactions write the same value to one key, but for
//! counters.
//! Read next: `state.rs` (the specification), then `judge.rs`.

mod judge;
mod lifetimes;
mod state;

pub use judge::judge;

use std::fmt;

/// How much later than by a perfect clock a row may still be shown, or earlier be gone: the clocks'
/// drift, and that times to live count in the group's own milliseconds.
pub const TTL_TOLERANCE_NS: u64 = 50_000_000;

/// What a key holds; none: it is absent.
pub type KeyValue = Option<Vec<u8>>;

/// A step of a transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum TransactionStep {
    /// Reads a key.
    Get(String),
    /// Reads all keys that begin so, with their values.
    Range(String),
    /// Writes; a time to live in milliseconds, or none.
    Set(String, Vec<u8>, Option<u64>),
    /// Deletes.
    Delete(String),
    /// Writes the second if the key holds the first.
    TestAndSet(String, KeyValue, Vec<u8>),
    /// The whole transaction fails unless the key holds this.
    Assert(String, KeyValue),
    /// The whole transaction fails unless exactly these keys begin so.
    AssertRange(String, Vec<String>),
    /// Adds to a number.
    Add(String, i64),
    /// Adds to a floating point number, a multiple of a quarter.
    AddFloat(String, f64),
}

/// What a step was answered.
#[derive(Clone, Debug, PartialEq)]
pub enum StepAnswer {
    /// It was done, or held.
    Done,
    /// The key held this.
    Row(KeyValue),
    /// These keys and values.
    Rows(Vec<(String, Vec<u8>)>),
    /// A number, as the bytes that the key holds from then on.
    Number(Vec<u8>),
    /// It was done, and the front-end tells no more.
    Mute,
}

/// What became of a transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum TransactionOutcome {
    /// It was done, and each step was answered so.
    Done(Vec<StepAnswer>),
    /// An assertion did not hold: nothing was done.
    Failed,
    /// It was refused: nothing was done.
    Refused,
    /// No answer: it may be done at any time, or never.
    Unknown,
}

/// How fresh a read must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// As fresh as everything that was answered before.
    Consistent,
    /// Whatever the node has.
    Dirty,
    /// As fresh as this index.
    AtLeast(u64),
}

/// One transaction of a client.
#[derive(Clone, Debug, PartialEq)]
pub struct Transaction {
    /// The connection; of one that is broken no more is heard.
    pub connection: u32,
    /// What was asked, in order.
    pub steps: Vec<TransactionStep>,
    /// How fresh its reads must be; updates are consistent.
    pub level: Level,
    /// What became of it.
    pub outcome: TransactionOutcome,
    /// The index that the answer reflects, where the front-end says it.
    pub index: Option<u64>,
    /// When it was sent, in nanoseconds of the recorder's one clock.
    pub began: u64,
    /// When it was answered.
    pub ended: u64,
    /// By which front-end.
    pub front_end: &'static str,
}

impl Transaction {
    /// Whether it changes nothing, whatever it finds.
    pub fn is_read(&self) -> bool {
        self.steps
            .iter()
            .all(|step| matches!(step, TransactionStep::Get(_) | TransactionStep::Range(_)))
    }
}

impl fmt::Display for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{:?} = {:?}", self.steps, self.outcome);
        let text: String = text.chars().take(400).collect();
        let Transaction { connection, level, index, began, ended, front_end, .. } = self;
        write!(f, "{front_end} connection {connection}, {level:?}: {text}")?;
        write!(f, ", index {index:?}, {began}..{ended}")
    }
}

/// What a log value did to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueEffect {
    /// The key.
    pub key: String,
    /// What it holds from then on, and until when by the group's time if not for ever.
    pub row: Option<(Vec<u8>, Option<u64>)>,
}

/// A decided value of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Where it stands.
    pub index: u64,
    /// The group's time, in milliseconds.
    pub time_ms: u64,
    /// What it did, in order; readers see all or nothing of it.
    pub effects: Vec<ValueEffect>,
}

/// The verdict: what the log does not explain, and of how much.
#[derive(Clone, Debug, Default)]
pub struct TransactionReport {
    /// What can't be explained.
    pub violations: Vec<String>,
    /// Updates of a known end, found in the log.
    pub updates: usize,
    /// Updates of an unknown end, found in the log.
    pub late: usize,
    /// Transactions whose assertion failed.
    pub failed: usize,
    /// Reads, of every level.
    pub reads: usize,
    /// Of which were dirty, or of at least some index.
    pub loose: usize,
    /// Reads that found a row gone for its time to live.
    pub expired: usize,
}

impl TransactionReport {
    /// Fails the test unless the log explains everything.
    pub fn must_explain(&self) {
        let told: Vec<_> = self.violations.iter().take(8).map(String::as_str).collect();
        assert!(told.is_empty(), "the log tells otherwise:\n{}", told.join("\n"));
    }
}

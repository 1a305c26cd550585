//! Transactions: steps that apply atomically, with the answer to each.

use crate::workload::{History, KeyValue, WorkloadCall};
use std::fmt;

/// A step of a transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum TransactionStep {
    /// Reads a key.
    Get(String),
    /// Reads all keys with this prefix, with their values.
    Range(String),
    /// Writes, with a time to live in milliseconds. `None`: the row never expires.
    Set(String, Vec<u8>, Option<u64>),
    /// Deletes.
    Delete(String),
    /// Writes the new value if the key holds the expected one.
    TestAndSet(String, KeyValue, Vec<u8>),
    /// Assertion: the whole transaction fails unless the key holds this.
    Assert(String, KeyValue),
    /// Assertion: the whole transaction fails unless exactly these keys have the prefix.
    AssertRange(String, Vec<String>),
    /// Adds to an integer.
    Add(String, i64),
    /// Adds to a floating point number, a multiple of a quarter.
    AddFloat(String, f64),
}

/// Answer to a step.
#[derive(Clone, Debug, PartialEq)]
pub enum StepAnswer {
    /// Success without a result: the step was done, or its assertion held.
    Done,
    /// Value of the key.
    Row(KeyValue),
    /// Keys with their values.
    Rows(Vec<(String, Vec<u8>)>),
    /// New number, as the bytes that the key now holds.
    Number(Vec<u8>),
    /// Success of a front-end that returns no results.
    Mute,
}

/// Answer to an acknowledged transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum TransactionAnswer {
    /// Success, with the answer to each step.
    Done(Vec<StepAnswer>),
    /// Failed assertion: the transaction had no effect.
    Failed,
}

/// Read level: the freshness that a read requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// At least the state of every answer from before it began.
    Consistent,
    /// Any state that the node has.
    Dirty,
    /// At least the state at this index.
    AtLeast(u64),
}

/// Transaction as it was sent, and the index that its answer names.
#[derive(Clone, Debug, PartialEq)]
pub struct TransactionOp {
    /// Steps, in order.
    pub steps: Vec<TransactionStep>,
    /// Read level of its reads; updates are consistent.
    pub level: Level,
    /// Name of the front-end.
    pub front_end: &'static str,
    /// Index of the answer. `None`: the front-end returns none.
    pub index: Option<u64>,
}

/// Transaction of a client; a client is one connection.
pub type Transaction = WorkloadCall<TransactionOp, TransactionAnswer>;
/// History of transactions.
pub type TransactionHistory = History<TransactionOp, TransactionAnswer>;

impl Transaction {
    /// Returns true if it consists of reads alone.
    pub fn is_read(&self) -> bool {
        let reads = |step| matches!(step, &TransactionStep::Get(_) | &TransactionStep::Range(_));
        self.op.steps.iter().all(reads)
    }
}

impl fmt::Display for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{:?} = {:?}", self.op.steps, self.outcome);
        let text: String = text.chars().take(400).collect();
        let TransactionOp { level, index, front_end, .. } = &self.op;
        let WorkloadCall { client, began, ended, .. } = self;
        write!(f, "{front_end} connection {client}, {level:?}: {text}")?;
        write!(f, ", index {index:?}, {began}..{ended}")
    }
}

//! Operations on registers: one key each, read, written, deleted or compared.

use crate::client::CallOutcome;
use crate::workload::CallOutcome::Acknowledged;
use crate::workload::{History, KeyValue, WorkloadCall};
use RegisterAnswer::{Done, Existed, Found};
use std::fmt;
use std::time::Duration;

/// Kind of call, with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegisterAction {
    /// Reads the key.
    Get,
    /// Writes this value.
    Put(Vec<u8>),
    /// Deletes the key.
    Delete,
    /// Writes (or deletes) if the key holds the expected value.
    TestAndSet {
        /// Expected value.
        expect: KeyValue,
        /// New value. `None`: delete.
        wanted: KeyValue,
    },
}

/// Operation on one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterOp {
    /// The key.
    pub key: String,
    /// Action on the key.
    pub action: RegisterAction,
}

/// Answer to an acknowledged operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegisterAnswer {
    /// Success without a result.
    Done,
    /// Value that a read or a test-and-set found.
    Found(KeyValue),
    /// Acknowledgement of a delete; true if the key existed.
    Existed(bool),
}

/// Call of one key.
pub type RegisterCall = WorkloadCall<RegisterOp, RegisterAnswer>;
/// History of calls of single keys.
pub type RegisterHistory = History<RegisterOp, RegisterAnswer>;

impl RegisterHistory {
    /// Returns the times at which updates were acknowledged, on the workload's clock, in order.
    pub fn updates(&self) -> Vec<Duration> {
        let is_applied_update =
            |call: &&RegisterCall| match (&call.op.action, call.outcome.answer()) {
                (_, None) | (RegisterAction::Get, _) => false,
                (RegisterAction::TestAndSet { expect, .. }, Some(Found(found))) => expect == found,
                _ => true,
            };
        let ends = self
            .calls
            .iter()
            .filter(is_applied_update)
            .map(|call| Duration::from_nanos(call.ended));
        let mut ends: Vec<_> = ends.collect();
        ends.sort_unstable();
        ends
    }

    /// Returns the longest time in a span without an acknowledged update.
    pub fn gap(&self, from: Duration, to: Duration) -> Duration {
        let acknowledgements = self.updates().into_iter().filter(|at| (from..to).contains(at));
        let moments: Vec<_> = [from].into_iter().chain(acknowledgements).chain([to]).collect();
        moments.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
    }
}

fn text(value: &KeyValue) -> String {
    let Some(bytes) = value else { return "absent".into() };
    String::from_utf8_lossy(bytes).chars().take(40).collect()
}

impl fmt::Display for RegisterCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {}: ", self.client)?;
        match &self.op.action {
            RegisterAction::Get => write!(f, "get({})", self.op.key)?,
            RegisterAction::Put(value) => {
                write!(f, "put({}, {})", self.op.key, text(&Some(value.clone())))?;
            }
            RegisterAction::Delete => write!(f, "delete({})", self.op.key)?,
            RegisterAction::TestAndSet { expect, wanted } => {
                write!(f, "test_and_set({}, {} -> {})", self.op.key, text(expect), text(wanted))?;
            }
        }
        match &self.outcome {
            Acknowledged(Done) => write!(f, " = done")?,
            Acknowledged(Found(value)) => write!(f, " = {}", text(value))?,
            Acknowledged(Existed(existed)) => write!(f, " = existed: {existed}")?,
            CallOutcome::Refused => write!(f, " = refused")?,
            CallOutcome::Unknown => return write!(f, " = unknown, from {}", self.began),
        }
        write!(f, ", {}..{}", self.began, self.ended)
    }
}

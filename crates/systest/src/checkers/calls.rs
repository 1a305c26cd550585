//! History: the calls of concurrent clients, each with its key, its interval on one clock, and its
//! outcome.

use std::fmt;

/// Value of a key. `None`: the key is absent.
pub type CallValue = Option<Vec<u8>>;

/// Kind of call, with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallOperation {
    /// Reads the key.
    Get,
    /// Writes this value.
    Put(Vec<u8>),
    /// Deletes the key.
    Delete,
    /// Writes (or deletes) if the key holds the expected value.
    TestAndSet {
        /// Expected value.
        expect: CallValue,
        /// New value. `None`: delete.
        wanted: CallValue,
    },
}

/// Outcome of a call, as far as the client learned it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// Acknowledged without a result.
    Done,
    /// The value that a read or a test-and-set found.
    Found(CallValue),
    /// Acknowledgement of a delete; true if the key existed.
    Existed(bool),
    /// Refused: the call had no effect.
    Refused,
    /// No answer: the call may take effect at any time after its beginning, or never.
    Unknown,
}

/// One call of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCall {
    /// Number of the client. A client has one call open at a time. After a call without an answer
    /// the number is never used again (the connection goes on under another one).
    pub client: u32,
    /// The key.
    pub key: String,
    /// Operation requested.
    pub operation: CallOperation,
    /// Outcome of the operation.
    pub outcome: CallOutcome,
    /// Time of the request, in nanoseconds of the recorder's one clock.
    pub began: u64,
    /// Time of the answer, on the same clock. If the outcome is unknown, the time at which the
    /// client gave up, which bounds nothing.
    pub ended: u64,
}

impl ClientCall {
    /// Returns true if the client learned the outcome.
    pub fn is_known(&self) -> bool {
        self.outcome != CallOutcome::Unknown
    }
}

fn text(value: &CallValue) -> String {
    let Some(bytes) = value else { return "absent".into() };
    String::from_utf8_lossy(bytes).chars().take(40).collect()
}

impl fmt::Display for ClientCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {}: ", self.client)?;
        match &self.operation {
            CallOperation::Get => write!(f, "get({})", self.key)?,
            CallOperation::Put(value) => {
                write!(f, "put({}, {})", self.key, text(&Some(value.clone())))?;
            }
            CallOperation::Delete => write!(f, "delete({})", self.key)?,
            CallOperation::TestAndSet { expect, wanted } => {
                write!(f, "test_and_set({}, {} -> {})", self.key, text(expect), text(wanted))?;
            }
        }
        match &self.outcome {
            CallOutcome::Done => write!(f, " = done")?,
            CallOutcome::Found(value) => write!(f, " = {}", text(value))?,
            CallOutcome::Existed(existed) => write!(f, " = existed: {existed}")?,
            CallOutcome::Refused => write!(f, " = refused")?,
            CallOutcome::Unknown => return write!(f, " = unknown, from {}", self.began),
        }
        write!(f, ", {}..{}", self.began, self.ended)
    }
}

//! A history: calls of concurrent clients, each with its key, its interval on one clock, and what
//! became of it.

use std::fmt;

/// What a key holds; none: it is absent.
pub type CallValue = Option<Vec<u8>>;

/// What a client asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallOperation {
    /// Read the key.
    Get,
    /// Write this value.
    Put(Vec<u8>),
    /// Take the key away.
    Delete,
    /// Write (or delete) if the key holds what is expected.
    TestAndSet {
        /// What must be there.
        expect: CallValue,
        /// What shall be there then.
        wanted: CallValue,
    },
}

/// What the client was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// It took effect; nothing else was said.
    Done,
    /// A read, or a test-and-set, found this.
    Found(CallValue),
    /// A delete found something to delete, or nothing.
    Existed(bool),
    /// It was refused: surely nothing happened.
    Refused,
    /// No answer: it may take effect at any time from its beginning on, or never.
    Unknown,
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCall {
    /// Who called. A client has one call open at a time; one whose call stays without an answer is
    /// never heard of again (its connection goes on under another number).
    pub client: u32,
    /// The key.
    pub key: String,
    /// What was asked.
    pub operation: CallOperation,
    /// What was answered.
    pub outcome: CallOutcome,
    /// When the call was made, in nanoseconds of the recorder's one clock.
    pub began: u64,
    /// When the answer came. Of an unknown outcome: when the client gave up, which says nothing.
    pub ended: u64,
}

impl ClientCall {
    /// Whether the client learned what became of it.
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

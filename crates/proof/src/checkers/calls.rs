//! A history: calls of concurrent clients, each with its key, its interval on one clock, and what
//! became of it.

use std::fmt;

/// What a key holds; none: it is absent.
pub type Value = Option<Vec<u8>>;

/// What a client asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Read the key.
    Get,
    /// Write this value.
    Put(Vec<u8>),
    /// Take the key away.
    Delete,
    /// Write (or delete) if the key holds what is expected.
    TestAndSet {
        /// What must be there.
        expect: Value,
        /// What shall be there then.
        wanted: Value,
    },
}

/// What the client was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It took effect; nothing else was said.
    Done,
    /// A read, or a test-and-set, found this.
    Found(Value),
    /// A delete found something to delete, or nothing.
    Existed(bool),
    /// It was refused: surely nothing happened.
    Refused,
    /// No answer: it may take effect at any time from its beginning on, or never.
    Unknown,
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Who called. A client has one call open at a time; one whose call stays without an answer is
    /// never heard of again (its connection goes on under another number).
    pub client: u32,
    /// The key.
    pub key: String,
    /// What was asked.
    pub operation: Operation,
    /// What was answered.
    pub outcome: Outcome,
    /// When the call was made, in nanoseconds of the recorder's one clock.
    pub began: u64,
    /// When the answer came. Of an unknown outcome: when the client gave up, which says nothing.
    pub ended: u64,
}

impl Call {
    /// Whether the client learned what became of it.
    pub fn is_known(&self) -> bool {
        self.outcome != Outcome::Unknown
    }
}

fn text(value: &Value) -> String {
    let Some(bytes) = value else { return "absent".into() };
    String::from_utf8_lossy(bytes).chars().take(40).collect()
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {}: ", self.client)?;
        match &self.operation {
            Operation::Get => write!(f, "get({})", self.key)?,
            Operation::Put(value) => {
                write!(f, "put({}, {})", self.key, text(&Some(value.clone())))?;
            }
            Operation::Delete => write!(f, "delete({})", self.key)?,
            Operation::TestAndSet { expect, wanted } => {
                write!(f, "test_and_set({}, {} -> {})", self.key, text(expect), text(wanted))?;
            }
        }
        match &self.outcome {
            Outcome::Done => write!(f, " = done")?,
            Outcome::Found(value) => write!(f, " = {}", text(value))?,
            Outcome::Existed(existed) => write!(f, " = existed: {existed}")?,
            Outcome::Refused => write!(f, " = refused")?,
            Outcome::Unknown => return write!(f, " = unknown, from {}", self.began),
        }
        write!(f, ", {}..{}", self.began, self.ended)
    }
}

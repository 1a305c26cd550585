//! Translation of the database's errors into Arakoon's: a return code and a message.
//!
//! If Arakoon has a code with the same meaning, the answer uses that code and the message that its
//! clients parse (a node's name, a key). So they react correctly: they locate the master, or report
//! a failed assertion. Otherwise the answer is `unknown failure` with our error text.
//! `docs/use/arakoon.md` lists the whole mapping.

use super::frame::FrameFault;
use super::values::{Malformed, Wire};
use crate::buffer_budget::overloaded;
use base::{Body, Error, Reason, Reply, Result};
use bytes::Bytes;

/// Return code of success.
pub const OK: i32 = 0x00;
const NO_MAGIC: i32 = 0x01;
const NOT_MASTER: i32 = 0x04;
const NOT_FOUND: i32 = 0x05;
const WRONG_CLUSTER: i32 = 0x06;
const ASSERTION_FAILED: i32 = 0x07;
const GOING_DOWN: i32 = 0x10;
const NOT_SUPPORTED: i32 = 0x20;
const NO_LONGER_MASTER: i32 = 0x21;
const BAD_INPUT: i32 = 0x26;
const INCONSISTENT_READ: i32 = 0x80;
const USERHOOK_NOT_FOUND: i32 = 0x82;
const MAX_CONNECTIONS: i32 = 0xfe;
const UNKNOWN_FAILURE: i32 = 0xff;

/// State of the connection after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterAnswer {
    /// The connection stays open and serves the next request.
    KeepOpen,
    /// The server closes the connection after it has sent this answer.
    Close,
}

/// Error answer: a return code, a message, and the state of the connection after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArakoonRefusal {
    code: i32,
    text: Bytes,
    /// State of the connection after this answer.
    pub after: AfterAnswer,
}

impl ArakoonRefusal {
    fn new(code: i32, text: impl Into<Bytes>, after: AfterAnswer) -> ArakoonRefusal {
        ArakoonRefusal { code, text: text.into(), after }
    }

    /// Returns the refusal of arguments that parse but are not acceptable. The connection stays
    /// open.
    pub fn bad_input(text: String) -> ArakoonRefusal {
        ArakoonRefusal::new(BAD_INPUT, text, AfterAnswer::KeepOpen)
    }

    /// Returns the refusal of a command that this server does not implement. The connection stays
    /// open.
    pub fn not_supported(text: &str) -> ArakoonRefusal {
        ArakoonRefusal::new(NOT_SUPPORTED, text.to_string(), AfterAnswer::KeepOpen)
    }

    /// Returns the answer to a read of one key that does not exist.
    pub fn not_found() -> ArakoonRefusal {
        ArakoonRefusal::new(NOT_FOUND, "Not_found", AfterAnswer::KeepOpen)
    }

    /// Returns the refusal of bytes that break the protocol. The connection ends.
    pub fn fatal(text: &'static str) -> ArakoonRefusal {
        ArakoonRefusal::new(UNKNOWN_FAILURE, text, AfterAnswer::Close)
    }

    /// Returns an error with a message built at run time. The connection stays open.
    pub fn unknown_failure(text: String) -> ArakoonRefusal {
        ArakoonRefusal::new(UNKNOWN_FAILURE, text, AfterAnswer::KeepOpen)
    }

    /// Returns the error for an answer that does not fit in memory. If `reply` is an update, the
    /// message says at which index it took effect.
    pub fn no_memory(reply: &Result<Reply>) -> ArakoonRefusal {
        match reply {
            Ok(Reply { index, body: Body::Updated(_), .. }) => {
                ArakoonRefusal::unknown_failure(format!(
                    "the request was applied at index {index}; there is no memory for its answer \
                 (buffer_bytes_max)"
                ))
            }
            _ => ArakoonRefusal::from(&overloaded()),
        }
    }

    /// Returns the refusal of `USER_HOOK`: the server has no hooks. The connection ends, because
    /// the bytes that follow are in the hook's own protocol.
    pub fn no_such_hook(name: Bytes) -> ArakoonRefusal {
        ArakoonRefusal::new(USERHOOK_NOT_FOUND, name, AfterAnswer::Close)
    }

    /// Returns the refusal of `USER_FUNCTION`: the server has no user functions.
    pub fn no_such_function(name: &[u8]) -> ArakoonRefusal {
        ArakoonRefusal::bad_input(format!("User function \"{}\" could not be found", escape(name)))
    }

    /// Returns the error that the server is shutting down. The connection ends.
    pub fn shutting_down() -> ArakoonRefusal {
        ArakoonRefusal::new(GOING_DOWN, "closing socket", AfterAnswer::Close)
    }

    /// Appends the bytes of the answer to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.int(self.code);
        // `NO_MAGIC` is the only return code that has no message.
        if self.code != NO_MAGIC {
            out.text(&self.text);
        }
    }
}

/// Escapes a string as OCaml's `%S` does, because Arakoon prints names that way.
fn escape(name: &[u8]) -> String {
    let mut text = String::new();
    for &byte in name {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(byte)]),
            b'\n' => text.push_str("\\n"),
            b'\t' => text.push_str("\\t"),
            b'\r' => text.push_str("\\r"),
            0x08 => text.push_str("\\b"),
            b' '..=b'~' => text.push(char::from(byte)),
            other => text.push_str(&format!("\\{other:03}")),
        }
    }
    text
}

impl From<Malformed> for ArakoonRefusal {
    fn from(_: Malformed) -> ArakoonRefusal {
        ArakoonRefusal::fatal("unknown failure")
    }
}

impl From<FrameFault> for ArakoonRefusal {
    fn from(fault: FrameFault) -> ArakoonRefusal {
        match fault {
            FrameFault::NoMagic => ArakoonRefusal::new(NO_MAGIC, "", AfterAnswer::Close),
            FrameFault::Unknown(code) => ArakoonRefusal::new(
                NOT_FOUND,
                format!("{code:x}: command not found"),
                AfterAnswer::Close,
            ),
            FrameFault::Malformed => Malformed.into(),
            FrameFault::TooLarge(name, max) => {
                let text = format!("the request is larger than allowed: at most {max} ({name})");
                ArakoonRefusal::new(BAD_INPUT, text, AfterAnswer::Close)
            }
        }
    }
}

impl From<&Error> for ArakoonRefusal {
    fn from(error: &Error) -> ArakoonRefusal {
        let detail = || error.detail.clone();
        let sentence = || error.to_string();
        match error.reason {
            Reason::NotFound => ArakoonRefusal::new(NOT_FOUND, detail(), AfterAnswer::KeepOpen),
            Reason::AssertionFailed => {
                ArakoonRefusal::new(ASSERTION_FAILED, detail(), AfterAnswer::KeepOpen)
            }
            Reason::StaleReplica => ArakoonRefusal::new(
                INCONSISTENT_READ,
                "store not fresh enough",
                AfterAnswer::KeepOpen,
            ),
            Reason::TooLarge => ArakoonRefusal::bad_input(error.text()),
            Reason::NotSupported => ArakoonRefusal::not_supported(&error.text()),
            // Clients locate the master; the request had no effect here.
            Reason::NotMaster => ArakoonRefusal::new(NOT_MASTER, detail(), AfterAnswer::Close),
            Reason::NoQuorum => ArakoonRefusal::new(NOT_MASTER, "None", AfterAnswer::Close),
            Reason::Moved => ArakoonRefusal::new(NOT_MASTER, detail(), AfterAnswer::Close),
            Reason::Starting | Reason::ShuttingDown | Reason::NotBootstrapped => {
                ArakoonRefusal::shutting_down()
            }
            // The update may have taken effect.
            Reason::NoLongerMaster
            | Reason::DeadlinePassed
            | Reason::WriteQuorumUnmet
            | Reason::InDoubt => {
                ArakoonRefusal::new(NO_LONGER_MASTER, detail(), AfterAnswer::KeepOpen)
            }
            // The bucket was dropped while the connection was open.
            Reason::NoSuchBucket | Reason::NoSuchType => {
                ArakoonRefusal::new(WRONG_CLUSTER, "Wrong cluster", AfterAnswer::Close)
            }
            Reason::Malformed
            | Reason::NotANumber
            | Reason::SessionExpired
            | Reason::RequestExpired
            | Reason::RetryMismatch
            | Reason::Forbidden
            | Reason::Unauthenticated
            | Reason::AlreadyExists
            | Reason::Changed
            | Reason::Overloaded
            | Reason::OutOfSpace
            | Reason::TooMany
            | Reason::Siblings
            | Reason::TooManySiblings
            | Reason::MetadataChanged
            | Reason::StartFailed
            | Reason::InUse
            | Reason::Quota
            | Reason::NoSuchIndex
            | Reason::IndexBuilding
            | Reason::IndexFailed
            | Reason::FeedOff
            | Reason::FeedBuilding
            | Reason::MalformedToken
            | Reason::ReadQuorumUnmet => ArakoonRefusal::unknown_failure(sentence()),
            Reason::Corrupt | Reason::StoreFailed => {
                ArakoonRefusal::new(UNKNOWN_FAILURE, sentence(), AfterAnswer::Close)
            }
        }
    }
}

/// Returns the answer for a client that connects while the node starts. Arakoon's clients then try
/// another node.
pub fn starting_answer(text: &'static str) -> Vec<u8> {
    let mut bytes = Vec::new();
    ArakoonRefusal::new(GOING_DOWN, text, AfterAnswer::Close).write(&mut bytes);
    bytes
}

/// Returns the answer for a connection above the limit. The server sends it before it reads a byte.
pub fn too_many_clients_answer() -> Vec<u8> {
    let mut bytes = Vec::new();
    ArakoonRefusal::new(MAX_CONNECTIONS, "too many clients", AfterAnswer::Close).write(&mut bytes);
    bytes
}

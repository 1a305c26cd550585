//! Translation of the database's errors into Arakoon's: a return code and a message.
//!
//! If Arakoon has a code with the same meaning, the answer uses that code and the message that its
//! clients parse (a node's name, a key). So they react correctly: they look for the master again,
//! or report a failed assertion. Otherwise the answer is `unknown failure` with our error text.
//! `docs/use/arakoon.md` lists the whole mapping.

use super::frame::FrameFault;
use super::words::{Malformed, Wire};
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

/// Fate of the connection after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterAnswer {
    /// The connection stays open and serves the next request.
    Stays,
    /// The server closes the connection after it has sent this answer.
    Ends,
}

/// Error answer: a return code, a message, and the fate of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArakoonRefusal {
    code: i32,
    text: Bytes,
    /// Fate of the connection after this answer.
    pub then: AfterAnswer,
}

impl ArakoonRefusal {
    fn new(code: i32, text: impl Into<Bytes>, then: AfterAnswer) -> ArakoonRefusal {
        ArakoonRefusal { code, text: text.into(), then }
    }

    /// Returns the refusal of arguments that parse but are not acceptable. The connection stays
    /// open.
    pub fn bad_input(text: String) -> ArakoonRefusal {
        ArakoonRefusal::new(BAD_INPUT, text, AfterAnswer::Stays)
    }

    /// Returns the refusal of a command that this server does not implement. The connection stays
    /// open.
    pub fn not_supported(text: &str) -> ArakoonRefusal {
        ArakoonRefusal::new(NOT_SUPPORTED, text.to_string(), AfterAnswer::Stays)
    }

    /// Returns the answer to a read of one key that does not exist.
    pub fn not_found() -> ArakoonRefusal {
        ArakoonRefusal::new(NOT_FOUND, "Not_found", AfterAnswer::Stays)
    }

    /// Returns the refusal of bytes that break the protocol. The connection ends.
    pub fn failure(text: &'static str) -> ArakoonRefusal {
        ArakoonRefusal::new(UNKNOWN_FAILURE, text, AfterAnswer::Ends)
    }

    /// Returns an error with a message built at run time. The connection stays open.
    pub fn complaint(text: String) -> ArakoonRefusal {
        ArakoonRefusal::new(UNKNOWN_FAILURE, text, AfterAnswer::Stays)
    }

    /// Returns the error for an answer that does not fit in memory. If `reply` is an update, the
    /// message says at which index it took effect.
    pub fn no_room(reply: &Result<Reply>) -> ArakoonRefusal {
        match reply {
            Ok(Reply { index, body: Body::Updated(_), .. }) => ArakoonRefusal::complaint(format!(
                "the request was carried out at index {index}; there is no memory for its answer \
                 (buffer_bytes_max)"
            )),
            _ => ArakoonRefusal::from(&overloaded()),
        }
    }

    /// Returns the refusal of `USER_HOOK`: the server has no hooks. The connection ends, because
    /// the bytes that follow are in the hook's own protocol.
    pub fn no_such_hook(name: Bytes) -> ArakoonRefusal {
        ArakoonRefusal::new(USERHOOK_NOT_FOUND, name, AfterAnswer::Ends)
    }

    /// Returns the refusal of `USER_FUNCTION`: the server has no user functions.
    pub fn no_such_function(name: &[u8]) -> ArakoonRefusal {
        ArakoonRefusal::bad_input(format!("User function \"{}\" could not be found", escaped(name)))
    }

    /// Returns the error that the server is shutting down. The connection ends.
    pub fn closing() -> ArakoonRefusal {
        ArakoonRefusal::new(GOING_DOWN, "closing socket", AfterAnswer::Ends)
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
fn escaped(name: &[u8]) -> String {
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
        ArakoonRefusal::failure("unknown failure")
    }
}

impl From<FrameFault> for ArakoonRefusal {
    fn from(fault: FrameFault) -> ArakoonRefusal {
        match fault {
            FrameFault::NoMagic => ArakoonRefusal::new(NO_MAGIC, "", AfterAnswer::Ends),
            FrameFault::Unknown(code) => ArakoonRefusal::new(
                NOT_FOUND,
                format!("{code:x}: command not found"),
                AfterAnswer::Ends,
            ),
            FrameFault::Malformed => Malformed.into(),
            FrameFault::TooLarge(name, max) => {
                let text = format!("the request is larger than allowed: at most {max} ({name})");
                ArakoonRefusal::new(BAD_INPUT, text, AfterAnswer::Ends)
            }
        }
    }
}

impl From<&Error> for ArakoonRefusal {
    fn from(error: &Error) -> ArakoonRefusal {
        let detail = || error.detail.clone();
        let sentence = || error.to_string();
        match error.reason {
            Reason::NotFound => ArakoonRefusal::new(NOT_FOUND, detail(), AfterAnswer::Stays),
            Reason::AssertionFailed => {
                ArakoonRefusal::new(ASSERTION_FAILED, detail(), AfterAnswer::Stays)
            }
            Reason::StaleReplica => {
                ArakoonRefusal::new(INCONSISTENT_READ, "store not fresh enough", AfterAnswer::Stays)
            }
            Reason::TooLarge => ArakoonRefusal::bad_input(error.text()),
            Reason::NotSupported => ArakoonRefusal::not_supported(&error.text()),
            // Clients look for the master again; the request had no effect here.
            Reason::NotMaster => ArakoonRefusal::new(NOT_MASTER, detail(), AfterAnswer::Ends),
            Reason::NoQuorum => ArakoonRefusal::new(NOT_MASTER, "None", AfterAnswer::Ends),
            Reason::Moved => ArakoonRefusal::new(NOT_MASTER, detail(), AfterAnswer::Ends),
            Reason::Starting | Reason::ShuttingDown | Reason::NotBootstrapped => {
                ArakoonRefusal::closing()
            }
            // The update may have taken effect.
            Reason::NoLongerMaster
            | Reason::DeadlinePassed
            | Reason::WriteQuorumUnmet
            | Reason::InDoubt => {
                ArakoonRefusal::new(NO_LONGER_MASTER, detail(), AfterAnswer::Stays)
            }
            // The bucket was dropped while the connection was open.
            Reason::NoSuchBucket | Reason::NoSuchType => {
                ArakoonRefusal::new(WRONG_CLUSTER, "Wrong cluster", AfterAnswer::Ends)
            }
            Reason::Malformed
            | Reason::NotANumber
            | Reason::SessionExpired
            | Reason::RequestExpired
            | Reason::RetryMismatch
            | Reason::Forbidden
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
            | Reason::ReadQuorumUnmet => ArakoonRefusal::complaint(sentence()),
            Reason::Corrupt | Reason::StoreFailed => {
                ArakoonRefusal::new(UNKNOWN_FAILURE, sentence(), AfterAnswer::Ends)
            }
        }
    }
}

/// Returns the answer for a client that connects while the node starts. Arakoon's clients then try
/// another node.
pub fn starting(words: &'static str) -> Vec<u8> {
    let mut bytes = Vec::new();
    ArakoonRefusal::new(GOING_DOWN, words, AfterAnswer::Ends).write(&mut bytes);
    bytes
}

/// Returns the answer for a connection above the limit. The server sends it before it reads a byte.
pub fn too_many() -> Vec<u8> {
    let mut bytes = Vec::new();
    ArakoonRefusal::new(MAX_CONNECTIONS, "too many clients", AfterAnswer::Ends).write(&mut bytes);
    bytes
}

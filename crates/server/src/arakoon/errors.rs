//! Our reasons in Arakoon's words: a return code and a message.
//!
//! Where Arakoon has a code of the same meaning, that code is used with the message its clients
//! parse (a node's name, a key), so that they do the right thing: look for the master again, tell
//! the program that an assertion failed. Where it has none, the message is our sentence under
//! `unknown failure`. All of them stand in `docs/use/arakoon.md`.

use super::frame::FrameFault;
use super::words::{Malformed, Wire};
use crate::buffer_room::overloaded;
use base::{Body, Error, Reason, Reply, Result};
use bytes::Bytes;

/// All went well.
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

/// What becomes of the connection behind an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterAnswer {
    /// The next request is answered.
    Stays,
    /// It ends.
    Ends,
}

/// An answer that is an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArakoonRefusal {
    code: i32,
    text: Bytes,
    /// What becomes of the connection.
    pub then: AfterAnswer,
}

impl ArakoonRefusal {
    fn new(code: i32, text: impl Into<Bytes>, then: AfterAnswer) -> ArakoonRefusal {
        ArakoonRefusal { code, text: text.into(), then }
    }

    /// The input is understood and can't be taken; the connection goes on.
    pub fn bad_input(text: String) -> ArakoonRefusal {
        ArakoonRefusal::new(BAD_INPUT, text, AfterAnswer::Stays)
    }

    /// A known thing that this node does not do.
    pub fn not_supported(text: &str) -> ArakoonRefusal {
        ArakoonRefusal::new(NOT_SUPPORTED, text.to_string(), AfterAnswer::Stays)
    }

    /// No key has this name; the message for a read of one key.
    pub fn not_found() -> ArakoonRefusal {
        ArakoonRefusal::new(NOT_FOUND, "Not_found", AfterAnswer::Stays)
    }

    /// Something was said that can't be said: the connection ends.
    pub fn failure(text: &'static str) -> ArakoonRefusal {
        ArakoonRefusal::new(UNKNOWN_FAILURE, text, AfterAnswer::Ends)
    }

    /// The same in words made for the occasion, and the connection goes on.
    pub fn complaint(text: String) -> ArakoonRefusal {
        ArakoonRefusal::new(UNKNOWN_FAILURE, text, AfterAnswer::Stays)
    }

    /// There is no memory for the answer; an update takes effect nevertheless.
    pub fn no_room(reply: &Result<Reply>) -> ArakoonRefusal {
        match reply {
            Ok(Reply { index, body: Body::Updated(_), .. }) => ArakoonRefusal::complaint(format!(
                "the request was carried out at index {index}; there is no memory for its answer \
                 (buffer_bytes_max)"
            )),
            _ => ArakoonRefusal::from(&overloaded()),
        }
    }

    /// There are no hooks; what follows such a request is the hook's own language.
    pub fn no_such_hook(name: Bytes) -> ArakoonRefusal {
        ArakoonRefusal::new(USERHOOK_NOT_FOUND, name, AfterAnswer::Ends)
    }

    /// There are no functions.
    pub fn no_such_function(name: &[u8]) -> ArakoonRefusal {
        ArakoonRefusal::bad_input(format!("User function \"{}\" could not be found", escaped(name)))
    }

    /// The server closes.
    pub fn closing() -> ArakoonRefusal {
        ArakoonRefusal::new(GOING_DOWN, "closing socket", AfterAnswer::Ends)
    }

    /// Adds the answer's bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.int(self.code);
        // The one answer without a message.
        if self.code != NO_MAGIC {
            out.text(&self.text);
        }
    }
}

/// As Arakoon's own language shows a string between quotes.
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
            // Clients look for the master again; nothing has happened here.
            Reason::NotMaster => ArakoonRefusal::new(NOT_MASTER, detail(), AfterAnswer::Ends),
            Reason::NoQuorum => ArakoonRefusal::new(NOT_MASTER, "None", AfterAnswer::Ends),
            Reason::Moved => ArakoonRefusal::new(NOT_MASTER, detail(), AfterAnswer::Ends),
            Reason::Starting | Reason::ShuttingDown | Reason::NotBootstrapped => {
                ArakoonRefusal::closing()
            }
            // It may have happened.
            Reason::NoLongerMaster
            | Reason::DeadlinePassed
            | Reason::WriteQuorumUnmet
            | Reason::InDoubt => {
                ArakoonRefusal::new(NO_LONGER_MASTER, detail(), AfterAnswer::Stays)
            }
            // The bucket was dropped under the connection.
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

/// What a client is told while the node starts; its programs try again elsewhere.
pub fn starting(words: &'static str) -> Vec<u8> {
    let mut bytes = Vec::new();
    ArakoonRefusal::new(GOING_DOWN, words, AfterAnswer::Ends).write(&mut bytes);
    bytes
}

/// What one connection too many is told before it says a word.
pub fn too_many() -> Vec<u8> {
    let mut bytes = Vec::new();
    ArakoonRefusal::new(MAX_CONNECTIONS, "too many clients", AfterAnswer::Ends).write(&mut bytes);
    bytes
}

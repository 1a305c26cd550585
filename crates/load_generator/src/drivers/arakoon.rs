//! Driver of Arakoon's client protocol, for Arakoon 1.7 and later and for Credenza.
//!
//! The clients speak to one node, which must be the master: nothing is forwarded. Reads are
//! consistent.

use super::sockets::{Parsed, Sockets, WireProtocol, connect, request_once, resolve};
use super::{Answer, Call, Driver, Failure, Target};
use crate::config::{ArakoonConfig, Operation};
use crate::error::BenchError;
use std::borrow::Cow;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};

/// High half of every request's first word.
const MAGIC: u32 = 0xb1ff_0000;
/// Version of the prologue.
const PROLOGUE_VERSION: i32 = 1;
/// First byte of a read: only the master answers.
const CONSISTENT: u8 = 0;
/// Code of an answer without a row.
const NOT_FOUND: i32 = 5;
/// Code of an answer that has no message behind it.
const NO_MAGIC: i32 = 1;
/// Tags of updates inside a sequence.
const TAG_SET: usize = 1;
const TAG_SEQUENCE: usize = 5;

/// A node that answered.
pub struct ArakoonTarget {
    protocol: ArakoonProtocol,
    address: SocketAddr,
    version: String,
}

/// The wire protocol: the cluster whose id opens every connection.
#[derive(Clone)]
pub struct ArakoonProtocol {
    cluster: String,
}

/// Format of an answer behind code 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ArakoonExpectation {
    /// No body.
    Done,
    /// A string; code 5 is an absent row.
    Value,
    /// A byte, 0 or 1.
    Flag,
    /// A string or its absence.
    Old,
    /// A list of strings or their absence; the present ones are counted.
    Values,
    /// A list of pairs of strings.
    Pairs,
    /// Three numbers and a text.
    Version,
}

impl ArakoonTarget {
    /// Connects and asks for the server's version.
    pub fn connect(config: &ArakoonConfig) -> Result<ArakoonTarget, BenchError> {
        let address = resolve(&config.address)?;
        let protocol = ArakoonProtocol { cluster: config.cluster.clone() };
        let mut stream = connect(&protocol, address)?;
        let mut request = Vec::new();
        begin(0x28, &mut request);
        let expected = ArakoonExpectation::Version;
        let version =
            request_once(&protocol, &mut stream, &request, &expected, |answer| match answer {
                Ok(Answer::Value(Some(text))) => Ok(String::from_utf8_lossy(text).into_owned()),
                Ok(_) => Ok(String::new()),
                Err(failure) => Err(BenchError::unavailable(failure.kind)),
            });
        let version = version.map_err(|error| match error.text.ends_with("connection") {
            // A node closes a connection for another cluster without a byte.
            true => BenchError::unavailable(format!(
                "{error}: does it serve the cluster `{}` (`arakoon_clusters`)?",
                config.cluster
            )),
            false => error,
        })??;
        Ok(ArakoonTarget { protocol, address, version: product(&version) })
    }
}

/// Returns name and version, from the text of a version answer, in which Credenza names itself.
fn product(text: &str) -> String {
    let own = text.split('"').find(|part| part.starts_with("credenza "));
    own.unwrap_or("arakoon").to_string()
}

impl Target for ArakoonTarget {
    fn version(&self) -> String {
        self.version.clone()
    }

    fn supports(&self, operation: Operation) -> Result<(), String> {
        super::refuse_resp_operation("arakoon", operation)
    }

    fn driver(&self, clients: usize) -> Result<Box<dyn Driver>, BenchError> {
        Ok(Box::new(Sockets::connect(self.protocol.clone(), self.address, clients)?))
    }

    fn close(&self) -> Result<(), String> {
        Ok(())
    }
}

fn begin(code: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&(MAGIC | code).to_le_bytes());
}

fn int(number: usize, out: &mut Vec<u8>) {
    // Keys, values and lists are far below 2 GiB.
    out.extend_from_slice(&(number as i32).to_le_bytes());
}

fn string(text: &[u8], out: &mut Vec<u8>) {
    int(text.len(), out);
    out.extend_from_slice(text);
}

fn optional(text: Option<&[u8]>, out: &mut Vec<u8>) {
    out.push(u8::from(text.is_some()));
    text.into_iter().for_each(|text| string(text, out));
}

fn read(code: u32, out: &mut Vec<u8>) {
    begin(code, out);
    out.push(CONSISTENT);
}

#[cfg(test)]
impl ArakoonProtocol {
    /// Returns the protocol for a cluster's clients.
    pub fn for_cluster(id: &str) -> ArakoonProtocol {
        ArakoonProtocol { cluster: id.into() }
    }
}

impl WireProtocol for ArakoonProtocol {
    type Expected = ArakoonExpectation;

    fn encode(&self, call: &Call<'_>, out: &mut Vec<u8>) -> ArakoonExpectation {
        match *call {
            Call::Get(key) => {
                read(0x08, out);
                string(key, out);
                return ArakoonExpectation::Value;
            }
            Call::Put(key, value) | Call::Replace { key, value, .. } => {
                begin(0x09, out);
                string(key, out);
                string(value, out);
            }
            Call::Delete(key) => {
                begin(0x0a, out);
                string(key, out);
            }
            Call::Exists(key) => {
                read(0x07, out);
                string(key, out);
                return ArakoonExpectation::Flag;
            }
            Call::TestAndSet { key, expected, wanted } => {
                begin(0x0d, out);
                string(key, out);
                optional(expected, out);
                optional(Some(wanted), out);
                return ArakoonExpectation::Old;
            }
            Call::Range(from, rows) => {
                read(0x0f, out);
                optional(Some(from), out);
                out.push(1);
                optional(None, out);
                out.push(0);
                int(rows, out);
                return ArakoonExpectation::Pairs;
            }
            Call::MultiGet(keys) => {
                read(0x31, out);
                int(keys.len(), out);
                keys.iter().for_each(|key| string(key, out));
                return ArakoonExpectation::Values;
            }
            Call::Sequence(rows) => {
                let mut updates = Vec::new();
                int(TAG_SEQUENCE, &mut updates);
                int(rows.len(), &mut updates);
                for (key, value) in rows {
                    int(TAG_SET, &mut updates);
                    string(key, &mut updates);
                    string(value, &mut updates);
                }
                begin(0x10, out);
                string(&updates, out);
            }
            // Unreachable: `supports` refuses these operations.
            Call::Resp(_) | Call::Document(_) => {}
        }
        ArakoonExpectation::Done
    }

    fn parse<'a>(&self, input: &'a [u8], expected: &ArakoonExpectation) -> Parsed<'a> {
        let mut reader = ReplyReader { input, at: 0 };
        match reader.answer(expected) {
            Some(answer) => Parsed::Reply(reader.at, answer),
            None if reader.at > input.len() => Parsed::Partial,
            None => Parsed::Broken,
        }
    }

    fn handshake(&self, stream: &mut TcpStream) -> Result<(), BenchError> {
        let mut prologue = MAGIC.to_le_bytes().to_vec();
        prologue.extend_from_slice(&PROLOGUE_VERSION.to_le_bytes());
        string(self.cluster.as_bytes(), &mut prologue);
        stream.write_all(&prologue).map_err(|error| BenchError::unavailable(error.to_string()))
    }
}

/// Reader of one reply. Behind the input's end it returns `None` with `at` beyond the input; a
/// malformed reply is `None` with `at` within it.
struct ReplyReader<'a> {
    input: &'a [u8],
    at: usize,
}

impl<'a> ReplyReader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let start = self.at;
        self.at = start.checked_add(count)?;
        self.input.get(start..self.at)
    }

    fn int(&mut self) -> Option<i32> {
        self.take(4)?.first_chunk().map(|bytes| i32::from_le_bytes(*bytes))
    }

    fn string(&mut self) -> Option<&'a [u8]> {
        let start = self.at;
        let length = self.int()?;
        match usize::try_from(length) {
            Ok(length) => self.take(length),
            Err(_) => {
                self.at = start;
                None
            }
        }
    }

    fn flag(&mut self) -> Option<bool> {
        self.take(1).map(|byte| byte == [1])
    }

    fn optional(&mut self) -> Option<Option<&'a [u8]>> {
        if self.flag()? { self.string().map(Some) } else { Some(None) }
    }

    fn answer(&mut self, expected: &ArakoonExpectation) -> Option<Result<Answer<'a>, Failure>> {
        match self.int()? {
            0 => self.body(expected).map(Ok),
            NO_MAGIC => Some(Err(Failure::lost("no_magic"))),
            code => {
                self.string()?;
                // An absent row is an answer of a read, and a success of a delete.
                let is_absent = code == NOT_FOUND;
                match expected {
                    ArakoonExpectation::Value if is_absent => Some(Ok(Answer::Value(None))),
                    ArakoonExpectation::Done if is_absent => Some(Ok(Answer::Done)),
                    _ => Some(Err(Failure::refused(error_name(code)))),
                }
            }
        }
    }

    fn body(&mut self, expected: &ArakoonExpectation) -> Option<Answer<'a>> {
        match expected {
            ArakoonExpectation::Done => Some(Answer::Done),
            ArakoonExpectation::Value => self.string().map(|value| Answer::Value(Some(value))),
            ArakoonExpectation::Flag => self.flag().map(|flag| Answer::Count(u64::from(flag))),
            ArakoonExpectation::Old => {
                self.optional().map(|old| Answer::Old(old.map(Cow::Borrowed)))
            }
            ArakoonExpectation::Values => {
                let count = self.int()?;
                let mut present = 0;
                for _ in 0..count {
                    present += u64::from(self.optional()?.is_some());
                }
                Some(Answer::Count(present))
            }
            ArakoonExpectation::Pairs => {
                let count = self.int()?;
                for _ in 0..count {
                    self.string()?;
                    self.string()?;
                }
                Some(Answer::Count(count.max(0) as u64))
            }
            ArakoonExpectation::Version => {
                self.take(12)?;
                self.string().map(|text| Answer::Value(Some(text)))
            }
        }
    }
}

/// Returns the name under which an error code is counted.
fn error_name(code: i32) -> Cow<'static, str> {
    match code {
        0x04 => "not_master".into(),
        0x07 => "assertion_failed".into(),
        0x10 => "going_down".into(),
        0x21 => "no_longer_master".into(),
        0x26 => "bad_input".into(),
        0xfe => "max_connections".into(),
        0xff => "unknown_failure".into(),
        code => format!("{code:#04x}").into(),
    }
}

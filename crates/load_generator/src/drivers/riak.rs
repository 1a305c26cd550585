//! Driver of Riak's HTTP interface, with siblings, and with contexts carried from a get to the next
//! put.

use super::http::HttpTarget;
use super::http_reply::{HttpReply, parse_http_reply};
use super::percent::percent;
use super::sockets::{Addresses, Parsed, WireProtocol};
use super::{Answer, Call, Driver, Failure, RowContext as Row, Target};
use crate::config::{HttpConfig, Operation, RiakConfig};
use crate::error::BenchError;
use base::BucketName;
use std::net::TcpStream;

const VCLOCK: &str = "x-riak-vclock";
/// Accept header that requests the values of all siblings; without it Riak sends only their tags.
const ACCEPT: &[u8] = b"Accept: multipart/mixed, */*;q=0.5\r\n\r\n";

/// Servers that answered.
pub struct RiakTarget {
    protocol: Riak,
    addresses: Addresses,
    version: String,
}

/// The wire protocol.
#[derive(Clone)]
pub struct Riak {
    host: String,
    path: String,
    read_query: String,
    write_query: String,
    tag: Option<NumberTag>,
}

/// Tag that a put sends: the number that a JSON document has under a member.
#[derive(Clone)]
struct NumberTag {
    /// Beginning of the header, up to the term.
    header: String,
    /// Bytes of the document before the number.
    marker: Vec<u8>,
}

/// Format of a request's reply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RiakExpectation {
    /// Success alone.
    Done,
    /// A row with its siblings and its context; 404 if it is absent.
    Row,
    /// 200, 300 or 404, without a body.
    Head,
}

impl RiakTarget {
    /// Connects to the first address and asks for the server's version.
    pub fn connect(config: &RiakConfig) -> Result<RiakTarget, BenchError> {
        let addresses = Addresses::resolve(&config.addresses)?;
        let first = config.addresses.first().cloned().unwrap_or_default();
        let target = HttpTarget::connect(&HttpConfig {
            address: first.clone(),
            bucket: BucketName::default(),
            read_query: String::new(),
        })?;
        let protocol = Riak {
            host: first,
            path: config.path.clone(),
            read_query: query(&[&config.query, &config.read_query]),
            write_query: query(&[&config.query, &config.write_query]),
            tag: config.tag.as_deref().map(NumberTag::new),
        };
        Ok(RiakTarget { protocol, addresses, version: target.version() })
    }
}

/// Joins the parts of a query, and puts a question mark before them.
fn query(parts: &[&String]) -> String {
    let parts = parts.iter().map(|part| part.trim_start_matches(['?', '&']));
    let parts: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { String::new() } else { format!("?{}", parts.join("&")) }
}

#[cfg(test)]
impl RiakTarget {
    /// Returns the wire protocol.
    pub fn protocol(&self) -> &Riak {
        &self.protocol
    }
}

impl Target for RiakTarget {
    fn version(&self) -> String {
        self.version.clone()
    }

    fn supports(&self, operation: Operation) -> Result<(), String> {
        use Operation::{Delete, Exists, Get, GetExisting, Put, Update};
        match operation {
            Get | GetExisting | Put | Delete | Update | Exists => Ok(()),
            other => Err(format!("Riak's interface has no `{}`", other.name())),
        }
    }

    fn driver(&self, clients: usize) -> Result<Box<dyn Driver>, BenchError> {
        Ok(Box::new(self.addresses.connect(self.protocol.clone(), clients)?))
    }

    fn close(&self) -> Result<(), String> {
        Ok(())
    }
}

impl NumberTag {
    fn new(member: &str) -> NumberTag {
        NumberTag {
            header: format!("x-riak-index-{member}_int: "),
            marker: format!("\"{member}\":").into_bytes(),
        }
    }

    /// Appends the header of a document; nothing if it has no number without sign and fraction
    /// behind the member.
    fn write(&self, document: &[u8], out: &mut Vec<u8>) {
        let is_marker = |window: &[u8]| window == self.marker;
        let Some(at) = document.windows(self.marker.len()).position(is_marker) else { return };
        let number = &document[at + self.marker.len()..];
        let digits = number.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits > 0 {
            out.extend_from_slice(self.header.as_bytes());
            out.extend_from_slice(&number[..digits]);
            out.extend_from_slice(b"\r\n");
        }
    }
}

impl Riak {
    fn request_line(&self, method: &str, key: &[u8], query: &str, out: &mut Vec<u8>) {
        let (path, key, host) = (&self.path, percent(key), &self.host);
        let text = format!("{method} {path}/{key}{query} HTTP/1.1\r\nhost: {host}\r\n");
        out.extend_from_slice(text.as_bytes());
    }

    fn put(&self, key: &[u8], value: &[u8], context: Option<&[u8]>, out: &mut Vec<u8>) {
        self.request_line("PUT", key, &self.write_query, out);
        if let Some(context) = context {
            out.extend_from_slice(b"X-Riak-Vclock: ");
            out.extend_from_slice(context);
            out.extend_from_slice(b"\r\n");
        }
        if let Some(tag) = &self.tag {
            tag.write(value, out);
        }
        out.extend_from_slice(b"Content-Type: application/octet-stream\r\n");
        out.extend_from_slice(format!("Content-Length: {}\r\n\r\n", value.len()).as_bytes());
        out.extend_from_slice(value);
    }
}

impl WireProtocol for Riak {
    type Expected = RiakExpectation;

    fn encode(&self, call: &Call<'_>, out: &mut Vec<u8>) -> RiakExpectation {
        match *call {
            Call::Put(key, value) => self.put(key, value, None, out),
            Call::Replace { key, value, context } => self.put(key, value, Some(context), out),
            Call::Delete(key) => {
                self.request_line("DELETE", key, &self.write_query, out);
                out.extend_from_slice(b"\r\n");
            }
            Call::Exists(key) => {
                self.request_line("HEAD", key, &self.read_query, out);
                out.extend_from_slice(b"\r\n");
                return RiakExpectation::Head;
            }
            Call::Get(key) => {
                self.request_line("GET", key, &self.read_query, out);
                out.extend_from_slice(ACCEPT);
                return RiakExpectation::Row;
            }
            // Unreachable: `supports` refuses these operations.
            Call::TestAndSet { .. } | Call::Range(..) | Call::Sequence(_) | Call::MultiGet(_) => {}
            Call::Resp(_) | Call::Document(_) => {}
        }
        RiakExpectation::Done
    }

    fn parse<'a>(&self, input: &'a [u8], expected: &RiakExpectation) -> Parsed<'a> {
        let reply = match parse_http_reply(input, *expected == RiakExpectation::Head) {
            None => return Parsed::Partial,
            Some(Err(_)) => return Parsed::Broken,
            Some(Ok(reply)) => reply,
        };
        let context = reply.header(VCLOCK).map(str::as_bytes);
        let row = |value, values| Ok(Answer::Row(Row { value, values, context }));
        let answer = match (reply.status, expected) {
            (200..=299, RiakExpectation::Done) => Ok(Answer::Done),
            // A delete of an absent row is a success.
            (404, RiakExpectation::Done) => Ok(Answer::Done),
            (200, RiakExpectation::Row) => row(Some(reply.body), 1),
            (300, RiakExpectation::Row) => match siblings(&reply) {
                Some(values) => row(None, values),
                None => Err(Failure::refused("300 without parts")),
            },
            (404, RiakExpectation::Row) if !is_unknown_type(&reply) => row(None, 0),
            (200 | 300, RiakExpectation::Head) => Ok(Answer::Count(1)),
            (404, RiakExpectation::Head) => Ok(Answer::Count(0)),
            (status, _) => Err(Failure::refused(status.to_string())),
        };
        Parsed::Reply(reply.bytes, answer)
    }

    fn handshake(&self, _stream: &mut TcpStream) -> Result<(), BenchError> {
        Ok(())
    }
}

fn is_unknown_type(reply: &HttpReply<'_>) -> bool {
    reply.body.starts_with(b"Unknown bucket type")
}

/// Returns the number of values in a multipart body, or of tags in a text. `None`: malformed.
fn siblings(reply: &HttpReply<'_>) -> Option<usize> {
    let content_type = reply.header("content-type")?;
    if let Some(tags) = reply.body.strip_prefix(b"Siblings:\n") {
        return Some(tags.iter().filter(|byte| **byte == b'\n').count());
    }
    let boundary =
        content_type.split("boundary=").nth(1)?.split(';').next()?.trim().trim_matches('"');
    let boundary_line = format!("\r\n--{boundary}");
    let parts = reply
        .body
        .windows(boundary_line.len())
        .filter(|part| *part == boundary_line.as_bytes())
        .count();
    // The last boundary ends the body.
    parts.checked_sub(1).filter(|values| *values > 0)
}

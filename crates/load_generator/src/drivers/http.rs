//! Driver of Credenza's native HTTP front-end, with a small HTTP/1.1 client: keep-alive, one
//! connection per client.

use super::http_reply::{body_json, parse_http_reply};
use super::percent::percent;
use super::sockets::{Parsed, Sockets, WireProtocol, connect, request_once, resolve};
use super::{Answer, Call, Driver, Failure, Target};
use crate::config::{HttpConfig, Operation};
use crate::error::BenchError;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::net::{SocketAddr, TcpStream};

/// A server that answered.
pub struct HttpTarget {
    protocol: Http,
    address: SocketAddr,
    version: String,
}

/// The wire protocol.
#[derive(Clone)]
pub struct Http {
    host: String,
    bucket: String,
    read_query: String,
}

/// Format of a request's reply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Expected {
    /// Success alone.
    Status,
    /// The row's value; 404 if it is absent.
    Value,
    /// 200 or 404, without a body.
    Head,
    /// A list of this name; its elements that are not null are counted.
    List(&'static str),
    /// The row's value before a test_and_set.
    Old,
}

impl HttpTarget {
    /// Connects once and asks for the server's version.
    pub fn connect(config: &HttpConfig) -> Result<HttpTarget, BenchError> {
        let address = resolve(&config.address)?;
        let query = config.read_query.trim_start_matches('?');
        let protocol = Http {
            host: config.address.clone(),
            bucket: format!("/v1/buckets/{}", config.bucket.full()),
            read_query: if query.is_empty() { String::new() } else { format!("?{query}") },
        };
        let mut stream = connect(&protocol, address)?;
        let request = format!("GET /status HTTP/1.1\r\nhost: {}\r\n\r\n", protocol.host);
        let version = request_once(
            &protocol,
            &mut stream,
            request.as_bytes(),
            &Expected::Value,
            version_of,
        )??;
        let version = match version {
            Some(version) => format!("credenza {version}"),
            None => "unknown HTTP server".into(),
        };
        Ok(HttpTarget { protocol, address, version })
    }
}

impl Target for HttpTarget {
    fn version(&self) -> String {
        self.version.clone()
    }

    fn supports(&self, operation: Operation) -> Result<(), String> {
        super::refuse_resp_operation("http", operation)
    }

    fn driver(&self, clients: usize) -> Result<Box<dyn Driver>, BenchError> {
        Ok(Box::new(Sockets::connect(self.protocol.clone(), self.address, clients)?))
    }

    fn close(&self) -> Result<(), String> {
        Ok(())
    }
}

impl Http {
    fn request_line(&self, method: &str, path: std::fmt::Arguments<'_>, out: &mut Vec<u8>) {
        let text = format!("{method} {}{path} HTTP/1.1\r\nhost: {}\r\n", self.bucket, self.host);
        out.extend_from_slice(text.as_bytes());
    }

    /// Appends a request for one key, without a body.
    fn key_request(&self, method: &str, key: &[u8], query: &str, out: &mut Vec<u8>) {
        self.request_line(method, format_args!("/keys/{}{query}", percent(key)), out);
        out.extend_from_slice(b"\r\n");
    }

    fn post(&self, path: &str, query: &str, body: &Value, out: &mut Vec<u8>) {
        let body = body.to_string();
        self.request_line("POST", format_args!("/{path}{query}"), out);
        let length = body.len();
        let rest =
            format!("content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}");
        out.extend_from_slice(rest.as_bytes());
    }
}

/// Encodes bytes in JSON as the front-end reads them.
fn blob(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => json!({ "base64": STANDARD.encode(bytes) }),
    }
}

/// Returns a step of a sequence that writes a row.
fn set(key: &[u8], value: &[u8]) -> Value {
    json!({ "op": "set", "key": blob(key), "value": blob(value) })
}

/// Decodes bytes from JSON as the front-end writes them. `None`: malformed.
fn bytes_of(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        _ => STANDARD.decode(value.get("base64")?.as_str()?).ok(),
    }
}

impl WireProtocol for Http {
    type Expected = Expected;

    fn encode(&self, call: &Call<'_>, out: &mut Vec<u8>) -> Expected {
        let query = &self.read_query;
        match *call {
            Call::Get(key) => {
                self.key_request("GET", key, query, out);
                Expected::Value
            }
            Call::Exists(key) => {
                self.key_request("HEAD", key, query, out);
                Expected::Head
            }
            Call::Delete(key) => {
                self.key_request("DELETE", key, "", out);
                Expected::Status
            }
            Call::Put(key, value) | Call::Replace { key, value, .. } => {
                self.request_line("PUT", format_args!("/keys/{}", percent(key)), out);
                let length = format!("content-length: {}\r\n\r\n", value.len());
                out.extend_from_slice(length.as_bytes());
                out.extend_from_slice(value);
                Expected::Status
            }
            Call::Range(from, rows) => {
                let more = query.replacen('?', "&", 1);
                let (from, limit) = (percent(from), format!("&limit={rows}{more}"));
                self.request_line("GET", format_args!("/range?from={from}{limit}"), out);
                out.extend_from_slice(b"\r\n");
                Expected::List("entries")
            }
            Call::MultiGet(keys) => {
                let keys: Vec<_> = keys.iter().map(|key| blob(key)).collect();
                self.post("multi_get", query, &json!({ "keys": keys }), out);
                Expected::List("rows")
            }
            Call::Sequence(rows) => {
                let steps: Vec<_> = rows.iter().map(|(key, value)| set(key, value)).collect();
                self.post("sequence", "", &Value::Array(steps), out);
                Expected::Status
            }
            Call::TestAndSet { key, expected, wanted } => {
                let update = json!({
                    "op": "test_and_set",
                    "key": blob(key),
                    "expected": expected.map(blob),
                    "wanted": blob(wanted),
                });
                self.post("update", "", &update, out);
                Expected::Old
            }
            // Unreachable: `supports` refuses these operations, and the driver has no index.
            Call::Resp(_) | Call::Document(_) => Expected::Status,
        }
    }

    fn parse<'a>(&self, input: &'a [u8], expected: &Expected) -> Parsed<'a> {
        let reply = match parse_http_reply(input, *expected == Expected::Head) {
            None => return Parsed::Partial,
            Some(Err(_)) => return Parsed::Broken,
            Some(Ok(reply)) => reply,
        };
        let answer = match (reply.status, expected) {
            (404, Expected::Value) if reply.reason() != Some("no_such_bucket".into()) => {
                Ok(Answer::Value(None))
            }
            (404, Expected::Head) => Ok(Answer::Count(0)),
            (404, Expected::Status) if reply.reason() == Some("not_found".into()) => {
                Ok(Answer::Done)
            }
            (200..=299, Expected::Status) => Ok(Answer::Done),
            (200..=299, Expected::Value) => Ok(Answer::Value(Some(reply.body))),
            (200..=299, Expected::Head) => Ok(Answer::Count(1)),
            (200..=299, Expected::List(name)) => {
                let json = body_json(reply.body);
                let list = json.as_ref().and_then(|json| json.get(name)?.as_array());
                let present = list.map(|list| list.iter().filter(|row| !row.is_null()).count());
                present.map(|count| Answer::Count(count as u64)).ok_or_else(unexpected)
            }
            (200..=299, Expected::Old) => match body_json(reply.body).as_ref().map(|b| &b["old"]) {
                Some(Value::Null) => Ok(Answer::Old(None)),
                Some(old) => {
                    bytes_of(old).map(|old| Answer::Old(Some(old.into()))).ok_or_else(unexpected)
                }
                None => Err(unexpected()),
            },
            (status, _) => {
                let reason = reply.reason().map_or(String::new(), |reason| format!(" {reason}"));
                Err(Failure::refused(format!("{status}{reason}")))
            }
        };
        Parsed::Reply(reply.bytes, answer)
    }

    fn handshake(&self, _stream: &mut TcpStream) -> Result<(), BenchError> {
        Ok(())
    }
}

/// Returns the version in the answer to `/status`. `None`: the server is not Credenza.
fn version_of(answer: Result<Answer<'_>, Failure>) -> Result<Option<String>, BenchError> {
    let body = match answer {
        Ok(Answer::Value(Some(body))) => body,
        Err(failure) if failure.kind.starts_with("503") => {
            return Err(BenchError::unavailable("the server is starting"));
        }
        _ => return Ok(None),
    };
    let status: Value = serde_json::from_slice(body).unwrap_or_default();
    Ok(status.get("version").and_then(Value::as_str).map(String::from))
}

fn unexpected() -> Failure {
    Failure::refused("unexpected_reply")
}

//! Driver of RESP servers: Credenza's fast front-end, and Redis.

use super::resp_page::parse_query_page;
use super::resp_reply::{Reply, first_bulk, parse_reply};
use super::sockets::{Addresses, Parsed, WireProtocol, connect, request_once};
use super::{Answer, Call, DocumentCall, Driver, Failure, IntegerRange, RespCall, Target};
use crate::config::{Operation, RespConfig};
use crate::error::BenchError;
use std::io::Write;
use std::net::TcpStream;

/// A server that speaks RESP.
pub struct RespTarget {
    protocol: Resp,
    addresses: Addresses,
    version: String,
    is_credenza: bool,
}

/// The wire protocol, and the commands that open a connection.
#[derive(Clone, Default)]
pub struct Resp {
    handshake_request: Vec<u8>,
    handshake_replies: usize,
    /// True if queues are sorted sets (Redis); otherwise they are keys with a prefix (Credenza).
    is_redis: bool,
    /// Index that is queried; empty: none.
    index: String,
}

/// Format of a request's reply.
#[derive(Clone, Copy, Debug)]
pub enum Expected {
    /// Any reply that is not an error.
    Status,
    /// A value or nil.
    Value,
    /// A number, or an array whose elements that are not nil are counted.
    Count,
    /// The previous value.
    Old,
    /// A page: the key where the next one begins, then keys and values in turn.
    Page,
    /// A block: this many replies that must not be errors, then an array without an error.
    Block(usize),
    /// A page or a list, of which the first key is the answer.
    First,
    /// A page of an index, with documents if this is true.
    IndexPage(bool),
}

impl RespTarget {
    /// Connects to the first address and asks for the server's version.
    pub fn connect(config: &RespConfig) -> Result<RespTarget, BenchError> {
        let addresses = Addresses::resolve(&config.addresses)?;
        let index = config.index.clone().unwrap_or_default();
        let mut protocol = Resp { index, ..Resp::default() };
        if let Some(password) = &config.password {
            command(&[b"AUTH", password.as_bytes()], &mut protocol.handshake_request);
            protocol.handshake_replies += 1;
        }
        if config.database > 0 {
            command(
                &[b"SELECT", config.database.to_string().as_bytes()],
                &mut protocol.handshake_request,
            );
            protocol.handshake_replies += 1;
        }
        if let Some(bucket) = &config.bucket {
            command(
                &[b"CREDENZA.BUCKET", bucket.full().as_bytes()],
                &mut protocol.handshake_request,
            );
            protocol.handshake_replies += 1;
        }
        let mut stream = connect(&protocol, addresses.first()?)?;
        let mut request = Vec::new();
        command(&[b"INFO", b"server"], &mut request);
        let info =
            request_once(
                &protocol,
                &mut stream,
                &request,
                &Expected::Value,
                |answer| match answer {
                    Ok(Answer::Value(Some(info))) => Ok(String::from_utf8_lossy(info).into_owned()),
                    Err(failure) if failure.kind.starts_with("LOADING") => {
                        Err(BenchError::unavailable("the server is starting"))
                    }
                    _ => Ok(String::new()),
                },
            )??;
        let info_field = |name: &str| {
            let mut lines = info.lines();
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
        };
        let is_credenza = info_field("credenza_version").is_some();
        protocol.is_redis = !is_credenza;
        let version = match (info_field("credenza_version"), info_field("redis_version")) {
            (Some(version), _) => format!("credenza {version}"),
            (None, Some(version)) => format!("redis {version}"),
            (None, None) => "unknown RESP server".into(),
        };
        Ok(RespTarget { protocol, addresses, version, is_credenza })
    }
}

impl Target for RespTarget {
    fn version(&self) -> String {
        self.version.clone()
    }

    fn supports(&self, operation: Operation) -> Result<(), String> {
        match operation {
            Operation::Range | Operation::TestAndSet | Operation::SessionPut
                if !self.is_credenza =>
            {
                Err(format!(
                    "the driver `resp` can't do `{}` on {}: only Credenza has that command",
                    operation.name(),
                    self.version
                ))
            }
            _ => Ok(()),
        }
    }

    fn driver(&self, clients: usize) -> Result<Box<dyn Driver>, BenchError> {
        Ok(Box::new(self.addresses.connect(self.protocol.clone(), clients)?))
    }

    fn close(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Appends a command.
pub fn command(arguments: &[&[u8]], out: &mut Vec<u8>) {
    header(b'*', arguments.len(), out);
    arguments.iter().for_each(|argument| bulk(argument, out));
}

#[inline]
fn bulk(bytes: &[u8], out: &mut Vec<u8>) {
    header(b'$', bytes.len(), out);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

#[inline]
fn header(mark: u8, count: usize, out: &mut Vec<u8>) {
    out.push(mark);
    crate::generators::KeyShape::Decimal.write(count as u64, out);
    out.extend_from_slice(b"\r\n");
}

impl WireProtocol for Resp {
    type Expected = Expected;

    fn encode(&self, call: &Call<'_>, out: &mut Vec<u8>) -> Expected {
        match *call {
            Call::Get(key) => {
                out.extend_from_slice(b"*2\r\n$3\r\nGET\r\n");
                bulk(key, out);
                Expected::Value
            }
            Call::Put(key, value) | Call::Replace { key, value, .. } => {
                out.extend_from_slice(b"*3\r\n$3\r\nSET\r\n");
                bulk(key, out);
                bulk(value, out);
                Expected::Status
            }
            Call::Delete(key) => {
                command(&[b"DEL", key], out);
                Expected::Status
            }
            Call::Exists(key) => {
                command(&[b"EXISTS", key], out);
                Expected::Count
            }
            Call::MultiGet(keys) => {
                header(b'*', keys.len() + 1, out);
                bulk(b"MGET", out);
                keys.iter().for_each(|key| bulk(key, out));
                Expected::Count
            }
            Call::Range(from, rows) => {
                let (low, rows) = ([b"[", from].concat(), rows.to_string());
                command(&[b"CREDENZA.RANGE", &low, b"+", b"LIMIT", rows.as_bytes()], out);
                Expected::Page
            }
            Call::TestAndSet { key, expected: Some(expected), wanted } => {
                let arguments: [&[u8]; 6] =
                    [b"CREDENZA.TAS", key, b"VALUE", expected, b"VALUE", wanted];
                command(&arguments, out);
                Expected::Old
            }
            Call::TestAndSet { key, expected: None, wanted } => {
                command(&[b"SET", key, wanted, b"NX", b"GET"], out);
                Expected::Old
            }
            Call::Sequence(rows) => {
                command(&[b"MULTI"], out);
                for (key, value) in rows {
                    command(&[b"SET", key, value], out);
                }
                command(&[b"EXEC"], out);
                Expected::Block(rows.len() + 1)
            }
            Call::Resp(call) => self.encode_resp(&call, out),
            Call::Document(DocumentCall::Query(range)) => {
                self.encode_query(&range, out);
                Expected::IndexPage(range.wants_documents)
            }
            // Unreachable: `bulk_documents` is 1.
            Call::Document(DocumentCall::Bulk(_)) => Expected::Status,
        }
    }

    #[inline]
    fn parse<'a>(&self, input: &'a [u8], expected: &Expected) -> Parsed<'a> {
        let (mut at, mut failure) = (0, None);
        if let Expected::Block(replies) = expected {
            for _ in 0..*replies {
                match parse_reply(&input[at..]) {
                    Some(Ok((Reply::Error(error), bytes))) => {
                        failure.get_or_insert(refused_by(error));
                        at += bytes;
                    }
                    Some(Ok((_, bytes))) => at += bytes,
                    Some(Err(_)) => return Parsed::Broken,
                    None => return Parsed::Partial,
                }
            }
        }
        let (reply, bytes) = match parse_reply(&input[at..]) {
            Some(Ok(reply)) => reply,
            Some(Err(_)) => return Parsed::Broken,
            None => return Parsed::Partial,
        };
        let answer = match (failure, reply, expected) {
            (Some(failure), ..) => Err(failure),
            (None, Reply::Array { error: None, .. }, Expected::First) => {
                Ok(Answer::Value(first_bulk(&input[at..at + bytes])))
            }
            (None, Reply::Array { error: None, .. }, Expected::IndexPage(wants_documents)) => {
                let page = parse_query_page(&input[at..at + bytes], *wants_documents);
                page.map(Answer::Page).ok_or_else(|| Failure::refused("unexpected_reply"))
            }
            _ => answer_of(reply, expected),
        };
        Parsed::Reply(at + bytes, answer)
    }

    fn handshake(&self, stream: &mut TcpStream) -> Result<(), BenchError> {
        let unavailable = |error: std::io::Error| BenchError::unavailable(error.to_string());
        stream.write_all(&self.handshake_request).map_err(unavailable)?;
        for _ in 0..self.handshake_replies {
            let refused = |failure: Failure| format!("the server refuses: {}", failure.kind);
            request_once(self, stream, b"", &Expected::Status, |answer| answer.map(|_| ()))?
                .map_err(refused)?;
        }
        Ok(())
    }
}

impl Resp {
    /// Returns the protocol for Redis.
    #[cfg(test)]
    pub fn of_redis() -> Resp {
        Resp { is_redis: true, ..Resp::default() }
    }

    /// Returns the protocol for Credenza with this index.
    #[cfg(test)]
    pub fn with_index(index: &str) -> Resp {
        Resp { index: index.into(), ..Resp::default() }
    }

    /// Encodes the query of a page of the index.
    fn encode_query(&self, range: &IntegerRange<'_>, out: &mut Vec<u8>) {
        let bound = |term: Option<u32>, mark: char, open: &str| {
            term.map_or_else(|| open.to_string(), |term| format!("{mark}{term}"))
        };
        let (low, high) = (bound(range.low, '[', "-"), bound(range.high, '(', "+"));
        let rows_max = range.rows_max.to_string();
        let content: &[u8] = if range.wants_documents { b"RECORDS" } else { b"KEYS" };
        let arguments: [&[u8]; 8] = [
            b"CREDENZA.INDEX",
            b"RANGE",
            self.index.as_bytes(),
            low.as_bytes(),
            high.as_bytes(),
            b"LIMIT",
            rows_max.as_bytes(),
            content,
        ];
        let after = range.after.map_or_else(Vec::new, |after| vec![&b"AFTER"[..], after]);
        command(&[&arguments[..], &after[..]].concat(), out);
    }

    /// Encodes a request of RESP servers only. A queue is in Redis a sorted set whose members all
    /// have one score, in Credenza the keys with a prefix.
    fn encode_resp(&self, call: &RespCall<'_>, out: &mut Vec<u8>) -> Expected {
        match (*call, self.is_redis) {
            (RespCall::PutExpiring(key, value, seconds), _) => {
                command(&[b"SET", key, value, b"EX", seconds.to_string().as_bytes()], out);
            }
            (RespCall::Increment(key), _) => command(&[b"INCR", key], out),
            (RespCall::Count, _) => {
                command(&[b"DBSIZE"], out);
                return Expected::Count;
            }
            (RespCall::Push { queue, key, .. }, true) => command(&[b"ZADD", queue, b"0", key], out),
            (RespCall::Push { queue, key, value }, false) => {
                command(&[b"SET", &[queue, key].concat(), value], out);
            }
            (RespCall::First(queue), is_redis) => {
                match is_redis {
                    true => command(&[b"ZRANGE", queue, b"0", b"0"], out),
                    false => command(&[b"CREDENZA.PREFIX", queue, b"LIMIT", b"1"], out),
                }
                return Expected::First;
            }
            (RespCall::Remove { queue, key }, true) => command(&[b"ZREM", queue, key], out),
            (RespCall::Remove { key, .. }, false) => command(&[b"DEL", key], out),
            (RespCall::SessionPut(key, value), _) => {
                command(&[b"CREDENZA.SESSION", b"OPEN"], out);
                command(&[b"CREDENZA.RETRY", b"1", b"SET", key, value], out);
                command(&[b"CREDENZA.SESSION", b"CLOSE"], out);
                return Expected::Block(2);
            }
        }
        Expected::Status
    }
}

#[inline]
fn answer_of<'a>(found: Reply<'a>, expected: &Expected) -> Result<Answer<'a>, Failure> {
    match (found, expected) {
        (Reply::Error(error), _) | (Reply::Array { error: Some(error), .. }, _) => {
            Err(refused_by(error))
        }
        (Reply::Bulk(value), Expected::Value) => Ok(Answer::Value(Some(value))),
        (Reply::Nil, Expected::Value) => Ok(Answer::Value(None)),
        (Reply::Integer(count), Expected::Count) => Ok(Answer::Count(count.max(0) as u64)),
        (Reply::Array { present, .. }, Expected::Count) => Ok(Answer::Count(present as u64)),
        (Reply::Nil, Expected::Old) => Ok(Answer::Old(None)),
        (Reply::Bulk(old), Expected::Old) => Ok(Answer::Old(Some(old.into()))),
        (Reply::Array { inner, .. }, Expected::Page) => Ok(Answer::Count(inner as u64 / 2)),
        (Reply::Nil, Expected::Block(_)) => Err(Failure::refused("sequence_aborted")),
        (_, Expected::Status | Expected::Block(_)) => Ok(Answer::Done),
        _ => Err(Failure::refused("unexpected_reply")),
    }
}

/// Returns a failure whose kind is the first word of the error, and the second if that is in lower
/// case, as Credenza's reasons are.
fn refused_by(error: &[u8]) -> Failure {
    let text = String::from_utf8_lossy(&error[..error.len().min(200)]);
    let mut tokens = text.split([' ', ':']).filter(|token| !token.is_empty());
    let code = tokens.next().unwrap_or("ERR").to_string();
    let reason = tokens.next().filter(|token| {
        token.contains('_') && token.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    });
    Failure::refused(match reason {
        Some(reason) => format!("{code} {reason}"),
        None => code,
    })
}

//! Persistent HTTP/1.1 connection of a client.

use super::replies;
use crate::http::{Chunks, Decoded};
use base::{Error, Reason, Result};
use bytes::{Buf, Bytes, BytesMut};
use serde_json::Value;
use std::io::{self, Write};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

/// Most bytes of an answer: a page of values, each byte escaped.
const ANSWER_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Most bytes of an answer's head.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// HTTP request.
#[derive(Clone, Debug)]
pub struct SentRequest {
    /// Method: `GET`, ...
    pub method: &'static str,
    /// Path and query, percent-encoded.
    pub path: String,
    /// Headers in addition to `host` and `content-length`.
    pub headers: Vec<(&'static str, String)>,
    /// Body, if the method has one.
    pub body: Option<Bytes>,
}

impl SentRequest {
    /// Returns a request without a body.
    pub fn new(method: &'static str, path: impl Into<String>) -> SentRequest {
        SentRequest { method, path: path.into(), headers: Vec::new(), body: None }
    }

    /// Returns a request with a JSON body.
    pub fn json(method: &'static str, path: impl Into<String>, body: Vec<u8>) -> SentRequest {
        let mut sent = SentRequest::new(method, path);
        sent.headers.push(("content-type", "application/json".into()));
        sent.body = Some(body.into());
        sent
    }

    fn is_update(&self) -> bool {
        self.method != "GET" && !self.path.contains("/read?") && !self.path.contains("/multi_get")
    }
}

/// HTTP answer.
#[derive(Clone, Debug)]
pub struct WireResponse {
    /// Status code: 200, 404, ...
    pub status: u16,
    /// Value of `x-credenza-index`.
    pub index: Option<u64>,
    /// Value of `etag`, without quotes.
    pub version: Option<u64>,
    /// Value of `x-credenza-expires-in-ms`.
    pub expires_in_ms: Option<u64>,
    /// Body.
    pub body: Bytes,
}

impl WireResponse {
    /// Parses the body as JSON.
    pub fn json(&self) -> Result<Value> {
        serde_json::from_slice(&self.body).map_err(|_| replies::strange())
    }
}

/// Way in which the end of an answer's body is marked.
enum BodyEnd {
    Length(usize),
    Chunked,
    End,
}

/// Connection that is opened when it is first needed.
pub struct Wire {
    authority: String,
    wait_max: Duration,
    open: Option<(TcpStream, BytesMut)>,
}

impl Wire {
    /// Returns a connection to this host and port, not opened yet. `wait_max` limits each exchange.
    pub fn new(authority: String, wait_max: Duration) -> Wire {
        Wire { authority, wait_max, open: None }
    }

    /// Sends a request and returns its answer.
    pub async fn exchange(&mut self, sent: &SentRequest) -> Result<WireResponse> {
        let deadline = Instant::now() + self.wait_max;
        let (stream, input) = match self.open.take().filter(|(stream, _)| is_alive(stream)) {
            Some(open) => open,
            None => self.connect(deadline).await?,
        };
        let lost = |what: &str| {
            if sent.is_update() {
                let words = format!("{what}: it may have happened; read before retrying");
                Error::new(Reason::DeadlinePassed, words)
            } else {
                Error::new(Reason::NoQuorum, format!("{what}: try again"))
            }
        };
        match timeout_at(deadline, self.talk(stream, input, sent)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(lost(&format!("the connection broke ({error})"))),
            Err(_) => Err(lost("no answer in time")),
        }
    }

    async fn connect(&self, deadline: Instant) -> Result<(TcpStream, BytesMut)> {
        let nobody = |what: String| {
            let words = format!("no node answers at http://{}: {what}", self.authority);
            Error::new(Reason::NoQuorum, words)
        };
        let stream = timeout_at(deadline, TcpStream::connect(&self.authority))
            .await
            .map_err(|_| nobody("no connection in time".into()))?
            .map_err(|error| nobody(error.to_string()))?;
        // Fails only on a dead socket, and the first write notices that.
        let _ = stream.set_nodelay(true);
        Ok((stream, BytesMut::new()))
    }

    async fn talk(
        &mut self,
        mut stream: TcpStream,
        mut input: BytesMut,
        sent: &SentRequest,
    ) -> io::Result<WireResponse> {
        let mut out = Vec::with_capacity(256 + sent.path.len());
        write!(out, "{} {} HTTP/1.1\r\nhost: {}\r\n", sent.method, sent.path, self.authority)?;
        for (name, value) in &sent.headers {
            write!(out, "{name}: {value}\r\n")?;
        }
        match &sent.body {
            Some(body) => {
                write!(out, "content-length: {}\r\n\r\n", body.len())?;
                out.extend_from_slice(body);
            }
            None => out.extend_from_slice(b"\r\n"),
        }
        // A server may answer and close before it has read everything: its answer counts, not the
        // write.
        let written = stream.write_all(&out).await;
        let (mut answer, frame, keep) = match head(&mut stream, &mut input).await {
            Ok(head) => head,
            Err(error) => return Err(written.err().unwrap_or(error)),
        };
        answer.body = body(&mut stream, &mut input, frame).await?;
        if keep && written.is_ok() {
            self.open = Some((stream, input));
        }
        Ok(answer)
    }
}

/// Returns true if a kept connection is open and has no unexpected input.
fn is_alive(stream: &TcpStream) -> bool {
    let mut byte = [0];
    matches!(stream.try_read(&mut byte), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

fn broken(words: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, words)
}

async fn more(stream: &mut TcpStream, input: &mut BytesMut) -> io::Result<()> {
    input.reserve(16 * 1024);
    match stream.read_buf(input).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

async fn head(
    stream: &mut TcpStream,
    input: &mut BytesMut,
) -> io::Result<(WireResponse, BodyEnd, bool)> {
    loop {
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut response = httparse::Response::new(&mut headers);
        match response.parse(input) {
            Ok(httparse::Status::Complete(used)) => {
                let read = words(&response);
                input.advance(used);
                match read.0.status {
                    100 => continue,
                    _ => return Ok(read),
                }
            }
            Ok(httparse::Status::Partial) if input.len() <= HEAD_BYTES_MAX => {}
            _ => return Err(broken("this is no answer of HTTP/1.1")),
        }
        more(stream, input).await?;
    }
}

fn words(response: &httparse::Response<'_, '_>) -> (WireResponse, BodyEnd, bool) {
    let status = response.code.unwrap_or(0);
    let header = |name: &str| {
        let found =
            response.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(found.value).ok()
    };
    let number = |name: &str| header(name)?.trim_matches('"').parse::<u64>().ok();
    let frame = match (header("transfer-encoding"), number("content-length")) {
        _ if matches!(status, 100 | 204 | 304) => BodyEnd::Length(0),
        (Some("chunked"), _) => BodyEnd::Chunked,
        (None, Some(length)) => BodyEnd::Length(usize::try_from(length).unwrap_or(usize::MAX)),
        _ => BodyEnd::End,
    };
    let keep = !header("connection").is_some_and(|word| word.eq_ignore_ascii_case("close"))
        && !matches!(frame, BodyEnd::End);
    let answer = WireResponse {
        status,
        index: number("x-credenza-index"),
        version: number("etag"),
        expires_in_ms: number("x-credenza-expires-in-ms"),
        body: Bytes::new(),
    };
    (answer, frame, keep)
}

async fn body(stream: &mut TcpStream, input: &mut BytesMut, frame: BodyEnd) -> io::Result<Bytes> {
    match frame {
        BodyEnd::Length(length) if length > ANSWER_BYTES_MAX => {
            Err(broken("the answer is too large"))
        }
        BodyEnd::Length(length) => {
            while input.len() < length {
                more(stream, input).await?;
            }
            Ok(input.split_to(length).freeze())
        }
        BodyEnd::Chunked => chunked(stream, input).await,
        BodyEnd::End => {
            while more(stream, input).await.is_ok() {
                if input.len() > ANSWER_BYTES_MAX {
                    return Err(broken("the answer is too large"));
                }
            }
            Ok(input.split().freeze())
        }
    }
}

async fn chunked(stream: &mut TcpStream, input: &mut BytesMut) -> io::Result<Bytes> {
    let mut chunks = Chunks::default();
    let mut body = BytesMut::new();
    loop {
        match chunks.step(input).map_err(|refused| broken(refused.detail))? {
            Decoded::Data(bytes, used) => {
                if body.len() + bytes.len() > ANSWER_BYTES_MAX {
                    return Err(broken("the answer is too large"));
                }
                body.extend_from_slice(bytes);
                input.advance(used);
            }
            Decoded::Skip(used) => input.advance(used),
            Decoded::More => more(stream, input).await?,
            Decoded::End => return Ok(body.freeze()),
        }
    }
}

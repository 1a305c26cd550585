//! One reader of a long feed, from its start until nothing more was decided.

use super::READ_BYTES;
use super::chunks::ChunkDecoder;
use super::connection::FeedConnection;
use super::lines::FeedLines;
use super::pages::{PageSummary, summarize_page};
use crate::config::HttpConfig;
use crate::drivers::parse_http_reply;
use crate::error::BenchError;
use std::time::{Duration, Instant};

/// Most events that a page is asked for: the server's own limit, so that pages end by their size.
const PAGE_EVENTS: usize = 100_000;
/// Pause before a feed that is being built is asked for again.
const REFUSED_PAUSE: Duration = Duration::from_millis(50);

/// Result of reading a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedReading {
    /// Number of events.
    pub events: u64,
    /// Number of bytes read, with those of the framing.
    pub bytes: u64,
    /// Time from the request to the message that nothing more was decided.
    pub elapsed: Duration,
}

/// Waits until the feed answers with a page, at most `timeout`: it may be built meanwhile.
pub fn wait_until_readable(config: &HttpConfig, timeout: Duration) -> Result<(), BenchError> {
    let begin = Instant::now();
    loop {
        let mut connection = FeedConnection::connect(config)?;
        connection.get("?from=now", "")?;
        match connection.read_head(&mut [0; 4 * 1024]) {
            Err(_) if begin.elapsed() < timeout => std::thread::sleep(REFUSED_PAUSE),
            result => return result.map(drop),
        }
    }
}

/// Reads the feed as a stream of JSON lines. `values`: events have their records. Errors: the
/// stream ended with an error, or before nothing more was decided.
pub fn read_stream(config: &HttpConfig, values: bool) -> Result<FeedReading, BenchError> {
    let mut connection = FeedConnection::connect(config)?;
    let (mut reader, mut buffer) = (StreamReader::default(), vec![0; READ_BYTES]);
    let begin = Instant::now();
    connection.get(&format!("/stream?from=start&values={values}"), "")?;
    let body = connection.read_head(&mut buffer)?;
    let mut bytes = body.len();
    let mut is_level = reader.read(&body)?;
    while !is_level {
        let count = connection.read(&mut buffer)?;
        bytes += count;
        is_level = reader.read(&buffer[..count])?;
    }
    let elapsed = begin.elapsed();
    Ok(FeedReading { events: reader.lines.events, bytes: bytes as u64, elapsed })
}

/// Reader of the body of a stream.
#[derive(Default)]
struct StreamReader {
    chunks: ChunkDecoder,
    lines: FeedLines,
}

impl StreamReader {
    /// Reads the next piece of the body. Returns true once nothing more was decided.
    fn read(&mut self, piece: &[u8]) -> Result<bool, BenchError> {
        let StreamReader { chunks, lines } = self;
        if chunks.decode(piece, |data| lines.count(data)).is_err() {
            return Err("the stream is not chunked as HTTP/1.1 says".into());
        }
        if let Some(error) = &lines.error {
            return Err(BenchError::unavailable(format!("the feed ended: {error}")));
        }
        match chunks.is_at_end() && !lines.is_level {
            true => Err(BenchError::unavailable("the stream ended before the feed did")),
            false => Ok(lines.is_level),
        }
    }
}

/// Reads the feed page by page over one connection. `values`: events have their records.
pub fn read_pages(config: &HttpConfig, values: bool) -> Result<FeedReading, BenchError> {
    let mut connection = FeedConnection::connect(config)?;
    let (mut buffer, mut received) = (vec![0; READ_BYTES], Vec::new());
    let (mut token, mut events, mut bytes) = ("start".to_string(), 0, 0);
    let begin = Instant::now();
    loop {
        let query = format!("?from={token}&limit={PAGE_EVENTS}&values={values}");
        connection.get(&query, "")?;
        received.clear();
        let page = read_page(&mut connection, &mut buffer, &mut received)?;
        events += page.events;
        bytes += received.len() as u64;
        if page.is_level {
            return Ok(FeedReading { events, bytes, elapsed: begin.elapsed() });
        }
        token = page.token;
    }
}

/// Reads one answer into `received`, which must be a page.
fn read_page(
    connection: &mut FeedConnection,
    buffer: &mut [u8],
    received: &mut Vec<u8>,
) -> Result<PageSummary, BenchError> {
    loop {
        let count = connection.read(buffer)?;
        received.extend_from_slice(&buffer[..count]);
        let reply = match parse_http_reply(received, false) {
            None => continue,
            Some(Err(_)) => return Err("the server does not answer in HTTP/1.1".into()),
            Some(Ok(reply)) => reply,
        };
        return match (reply.status, summarize_page(reply.body)) {
            (200, Some(page)) => Ok(page),
            (200, None) => Err("the answer is no page of a feed".into()),
            (status, _) => {
                let body = String::from_utf8_lossy(reply.body);
                let text = format!("the feed can't be read: {status} {}", body.trim_end());
                Err(BenchError::unavailable(text))
            }
        };
    }
}

//! Input of an HTTP connection: reads heads and bodies from a socket, within limits. The native
//! front-end and Riak's share it.

use crate::buffer_budget::BufferBudget;
use crate::connection::Shutdown;
use crate::http::{BodyFraming, Chunks, Decoded, RequestRefusal, StatusCode};
use crate::read_buffer::CLOSE_GRACE_MS;
use crate::shared::Shared;
use base::limits::REQUEST_READ_MS_MAX;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, timeout, timeout_at};
use zeroize::Zeroize;

/// Size of a read in bytes when no large body is expected.
const READ_BYTES: usize = 16 * 1024;
/// Minimum by which a body's buffer grows. It never grows by more than has arrived.
const BODY_STEP_BYTES: usize = 64 * 1024;

/// Bytes read from a connection, with the limits on them.
pub struct Input {
    bytes: BytesMut,
    /// Number of bytes already searched for the end of a head. A head that arrives byte by byte
    /// must not be searched again from the beginning each time.
    searched: usize,
    /// Length at which the head is parsed although its end has not arrived: it may be too large, or
    /// no head at all.
    reparse_bytes: usize,
    /// Time by which the request at the beginning of `bytes` must be complete. `None`: no request
    /// has begun.
    deadline: Option<Instant>,
    /// Share of the common memory for a large head or body.
    budget: BufferBudget,
}

/// Reason why reading a request failed. The connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpReadError {
    /// The connection is closed or reset.
    Disconnected,
    /// The bytes are not an HTTP request.
    Refused(RequestRefusal),
    /// The body is larger than this many bytes.
    TooLarge(usize),
    /// The common memory for large requests is used up.
    Overloaded,
}

impl From<io::Error> for HttpReadError {
    fn from(_: io::Error) -> HttpReadError {
        HttpReadError::Disconnected
    }
}

impl From<RequestRefusal> for HttpReadError {
    fn from(refused: RequestRefusal) -> HttpReadError {
        HttpReadError::Refused(refused)
    }
}

impl Input {
    /// Begins with the bytes that were already read.
    pub fn new(first: BytesMut) -> Input {
        Input {
            bytes: first,
            searched: 0,
            reparse_bytes: 0,
            deadline: None,
            budget: BufferBudget::default(),
        }
    }

    /// Returns the bytes read and not yet parsed, for the next reader of this connection.
    pub fn into_bytes(self) -> BytesMut {
        self.bytes
    }

    /// Returns true if a request has begun.
    fn has_request(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Returns the bytes read and not yet parsed.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns true if parsing may find a whole head or an error in it. So a head that arrives byte
    /// by byte is not parsed at each byte.
    pub fn has_head_candidate(&mut self) -> bool {
        self.skip_blank_lines();
        let length = self.bytes.len();
        let unsearched = &self.bytes[self.searched.saturating_sub(2)..];
        let may_end = self.searched == 0 || has_empty_line(unsearched);
        self.searched = length;
        if length == 0 || (!may_end && length < self.reparse_bytes) {
            return false;
        }
        self.reparse_bytes = 2 * length;
        true
    }

    /// Removes the blank lines that a client may send before a request (RFC 9112, section 2.2).
    /// If they stayed, each piece would be searched from the beginning, and memory use would be
    /// unlimited.
    fn skip_blank_lines(&mut self) {
        let blank = self.bytes.chunks_exact(2).take_while(|pair| *pair == b"\r\n").count();
        if blank == 0 {
            return;
        }
        self.bytes.advance(2 * blank);
        (self.searched, self.reparse_bytes) = (0, 0);
        if self.bytes.is_empty() {
            // No request has begun.
            self.deadline = None;
        }
    }

    /// Wipes this many bytes at the beginning.
    fn wipe(&mut self, bytes: usize) {
        self.bytes[..bytes].zeroize();
    }

    /// Removes a head of `used` bytes from the beginning. Wipes it if it has credentials.
    pub fn advance(&mut self, used: usize, has_credentials: bool) {
        if has_credentials {
            self.wipe(used);
        }
        if used > READ_BYTES {
            // Move the rest to a new buffer. The connection would otherwise keep the large head's
            // buffer for its lifetime, and no budget would count it.
            self.bytes = BytesMut::from(&self.bytes[used..]);
        } else {
            self.bytes.advance(used);
        }
        self.searched = 0;
        self.reparse_bytes = 0;
    }

    /// Ends a request: the next one has its own deadline and memory.
    pub fn finish_request(&mut self) {
        self.deadline = None;
        self.budget.release();
    }

    /// Waits for more bytes. Returns false if the connection has ended. When the server closes, a
    /// client may still send for `CLOSE_GRACE_MS`; its request is answered as the last one.
    pub async fn wait_for_input(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        shared: &Shared,
        shutdown: &mut Shutdown,
    ) -> Result<bool, HttpReadError> {
        if self.has_request() {
            return self.fill(stream, shared).await;
        }
        let idle = shared.live.http_idle_max();
        let received = tokio::select! {
            biased;
            received = timeout(idle, self.read_some(stream)) => received,
            _ = shutdown.wait() => {
                let last = idle.min(Duration::from_millis(CLOSE_GRACE_MS));
                timeout(last, self.read_some(stream)).await
            }
        };
        match received {
            Ok(received) => Ok(received? > 0),
            Err(_) => Ok(false),
        }
    }

    /// Reads more of a request. Returns false at the end of the stream.
    async fn fill(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        shared: &Shared,
    ) -> Result<bool, HttpReadError> {
        self.reserve(shared, self.bytes.len())?;
        self.bytes.reserve(READ_BYTES);
        let deadline = self.deadline();
        let read = timeout_at(deadline, stream.read_buf(&mut self.bytes)).await;
        Ok(read.map_err(|_| too_slow())?? > 0)
    }

    /// Reads at least one byte, without a time limit. Cancel-safe.
    async fn read_some(&mut self, stream: &mut (impl AsyncRead + Unpin)) -> io::Result<usize> {
        self.bytes.reserve(READ_BYTES);
        stream.read_buf(&mut self.bytes).await
    }

    /// Returns the time by which the current request must be complete. The first call sets it.
    fn deadline(&mut self) -> Instant {
        let bound = Duration::from_millis(REQUEST_READ_MS_MAX);
        *self.deadline.get_or_insert_with(|| Instant::now() + bound)
    }

    /// Returns true if the whole body has arrived. Always false for a chunked one.
    pub fn has_body(&self, body: BodyFraming) -> bool {
        match body {
            BodyFraming::None => true,
            BodyFraming::Length(length) => self.bytes.len() as u64 >= length,
            BodyFraming::Chunked => false,
        }
    }

    /// Reads a body of at most `bytes_max` bytes.
    pub async fn read_body(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        shared: &Shared,
        body: BodyFraming,
        bytes_max: usize,
    ) -> Result<Bytes, HttpReadError> {
        match body {
            BodyFraming::None => Ok(Bytes::new()),
            BodyFraming::Length(length) => {
                let length = usize::try_from(length).ok().filter(|&length| length <= bytes_max);
                let length = length.ok_or(HttpReadError::TooLarge(bytes_max))?;
                self.sized_body(stream, shared, length).await
            }
            BodyFraming::Chunked => self.chunked_body(stream, shared, bytes_max).await,
        }
    }

    async fn sized_body(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        shared: &Shared,
        length: usize,
    ) -> Result<Bytes, HttpReadError> {
        if self.bytes.len() >= length {
            // Copy the value: a slice would pin the whole buffer.
            let body = Bytes::copy_from_slice(&self.bytes[..length]);
            self.bytes.advance(length);
            return Ok(body);
        }
        let mut body = Vec::new();
        body.extend_from_slice(&self.bytes);
        self.bytes.clear();
        let deadline = self.deadline();
        while body.len() < length {
            let missing = length - body.len();
            if body.capacity() == body.len() {
                body.reserve_exact(missing.min(body.len().max(BODY_STEP_BYTES)));
                self.reserve(shared, body.capacity())?;
            }
            let mut rest = (&mut body).limit(missing);
            let read = timeout_at(deadline, stream.read_buf(&mut rest)).await;
            if read.map_err(|_| too_slow())?? == 0 {
                return Err(HttpReadError::Disconnected);
            }
        }
        Ok(body.into())
    }

    async fn chunked_body(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        shared: &Shared,
        bytes_max: usize,
    ) -> Result<Bytes, HttpReadError> {
        let mut chunks = Chunks::default();
        let mut body = Vec::new();
        self.deadline();
        loop {
            match chunks.step(&self.bytes)? {
                Decoded::Data(bytes, used) => {
                    if body.len() + bytes.len() > bytes_max {
                        return Err(HttpReadError::TooLarge(bytes_max));
                    }
                    body.extend_from_slice(bytes);
                    self.bytes.advance(used);
                    self.reserve(shared, body.capacity())?;
                }
                Decoded::Skip(used) => self.bytes.advance(used),
                Decoded::End => return Ok(body.into()),
                Decoded::More => {
                    if !self.fill(stream, shared).await? {
                        return Err(HttpReadError::Disconnected);
                    }
                }
            }
        }
    }

    /// Counts a large buffer against the memory that all connections share.
    fn reserve(&mut self, shared: &Shared, bytes: usize) -> Result<(), HttpReadError> {
        if self.budget.try_reserve(bytes, shared) { Ok(()) } else { Err(HttpReadError::Overloaded) }
    }
}

/// Returns true if an empty line is in `bytes`: it ends a head.
fn has_empty_line(bytes: &[u8]) -> bool {
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    ends.map(|(at, _)| &bytes[at + 1..])
        .any(|rest| rest.starts_with(b"\n") || rest.starts_with(b"\r\n"))
}

fn too_slow() -> HttpReadError {
    let status = StatusCode::RequestTimeout;
    RequestRefusal { status, detail: "the request did not arrive within 30 seconds" }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_with_credentials_is_wiped_and_the_rest_stays() {
        let mut input = Input::new(BytesMut::from(&b"authorization: secret\r\n\r\nbody"[..]));
        input.wipe(25);
        assert_eq!(input.bytes()[..25], [0; 25]);
        input.advance(25, true);
        assert_eq!(input.bytes(), b"body");
    }

    /// Parsing a long head again at each byte would slow down other connections.
    #[test]
    fn head_arriving_byte_by_byte_triggers_few_parse_attempts() {
        let head = format!("GET / HTTP/1.1\r\nhost: a\r\n{}\r\n", "x: y\r\n".repeat(50_000));
        let mut input = Input::new(BytesMut::new());
        let mut looks = 0;
        for byte in head.bytes() {
            input.bytes.put_u8(byte);
            looks += usize::from(input.has_head_candidate());
        }
        assert!(looks < 30, "{looks}");
        assert!(!input.has_head_candidate(), "nothing new came");
        // The parser finds the end of a head wherever the pieces are cut.
        let short = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
        for cut in 1..short.len() {
            let mut input = Input::new(BytesMut::from(&short[..cut]));
            input.has_head_candidate();
            input.bytes.extend_from_slice(&short[cut..]);
            assert!(input.has_head_candidate(), "cut at {cut}");
        }
    }

    #[test]
    fn blank_lines_before_a_request_are_discarded_as_they_arrive() {
        let mut input = Input::new(BytesMut::new());
        for piece in [&b"\r\n"[..], b"\r", b"\n\r\n\r", b"\n"].iter().cycle().take(100_000) {
            input.bytes.extend_from_slice(piece);
            assert!(input.bytes.len() < 8, "they are kept");
            assert!(!input.has_head_candidate() || input.bytes == b"\r"[..], "they are no head");
        }
        assert!(input.bytes.is_empty() && !input.has_request());
        input.bytes.extend_from_slice(b"\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n");
        assert!(input.has_head_candidate() && input.bytes.starts_with(b"GET"));
    }

    #[test]
    fn buffer_of_a_large_head_is_released_when_consumed() {
        let mut input = Input::new(BytesMut::with_capacity(700_000));
        input.bytes.extend_from_slice(&[b'x'; 300_000]);
        input.bytes.extend_from_slice(b"GET");
        input.advance(300_000, false);
        assert_eq!(input.bytes(), b"GET");
        assert!(input.bytes.capacity() < READ_BYTES, "{}", input.bytes.capacity());
    }
}

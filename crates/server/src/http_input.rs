//! Input of an HTTP connection: reads heads and bodies from a socket, within limits. The native
//! front-end and Riak's share it.

use crate::buffer_budget::InputBudget;
use crate::connection::Shutdown;
use crate::http::{BodyFraming, Chunks, Decoded, Refused, StatusCode};
use crate::read_buffer::LAST_WORDS_MS;
use crate::shared::Shared;
use base::limits::REQUEST_READ_MS_MAX;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, timeout, timeout_at};

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
    look_again_at: usize,
    /// Time by which the request at the beginning of `bytes` must be complete. `None`: no request
    /// has begun.
    deadline: Option<Instant>,
    /// Share of the common memory for a large head or body.
    room: InputBudget,
}

/// Reason why reading a request failed. The connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// The socket is dead.
    Dead,
    /// The bytes are not an HTTP request.
    Refused(Refused),
    /// The body is larger than this many bytes.
    TooLarge(usize),
    /// The common memory for large requests is used up.
    Overloaded,
}

impl From<io::Error> for Unread {
    fn from(_: io::Error) -> Unread {
        Unread::Dead
    }
}

impl From<Refused> for Unread {
    fn from(refused: Refused) -> Unread {
        Unread::Refused(refused)
    }
}

impl Input {
    /// Begins with the bytes that were already read.
    pub fn new(first: BytesMut) -> Input {
        Input {
            bytes: first,
            searched: 0,
            look_again_at: 0,
            deadline: None,
            room: InputBudget::default(),
        }
    }

    /// Returns the bytes read and not yet parsed, for the next reader of this connection.
    pub fn into_bytes(self) -> BytesMut {
        self.bytes
    }

    /// Returns true if a request has begun.
    fn has_begun(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Returns the bytes read and not yet parsed.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns true if parsing may find a whole head or an error in it. So a head that arrives byte
    /// by byte is not parsed at each byte.
    pub fn may_hold_head(&mut self) -> bool {
        self.skip_blank_lines();
        let length = self.bytes.len();
        let fresh = &self.bytes[self.searched.saturating_sub(2)..];
        let may_end = self.searched == 0 || has_empty_line(fresh);
        self.searched = length;
        if length == 0 || (!may_end && length < self.look_again_at) {
            return false;
        }
        self.look_again_at = 2 * length;
        true
    }

    /// Removes the blank lines that a client may send before a request (RFC 9112, section 2.2).
    /// Left in place they would be searched again with each piece, and take unlimited memory.
    fn skip_blank_lines(&mut self) {
        let blank = self.bytes.chunks_exact(2).take_while(|pair| *pair == b"\r\n").count();
        if blank == 0 {
            return;
        }
        self.bytes.advance(2 * blank);
        (self.searched, self.look_again_at) = (0, 0);
        if self.bytes.is_empty() {
            // No request has begun.
            self.deadline = None;
        }
    }

    /// Removes a head of `used` bytes from the beginning.
    pub fn advance(&mut self, used: usize) {
        if used > READ_BYTES {
            // Move the rest to a new buffer. The connection would otherwise keep the large head's
            // buffer for its lifetime, and no budget would count it.
            self.bytes = BytesMut::from(&self.bytes[used..]);
        } else {
            self.bytes.advance(used);
        }
        self.searched = 0;
        self.look_again_at = 0;
    }

    /// Ends a request: the next one has its own deadline and memory.
    pub fn finish_request(&mut self) {
        self.deadline = None;
        self.room.release();
    }

    /// Waits for more bytes. Returns false if the connection has ended. When the server closes, a
    /// client may still send for `LAST_WORDS_MS`; its request is answered as the last one.
    pub async fn listen(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        shared: &Shared,
        shutdown: &mut Shutdown,
    ) -> Result<bool, Unread> {
        if self.has_begun() {
            return self.fill(stream, shared).await;
        }
        let idle = Duration::from_millis(shared.settings.http_idle_ms_max);
        let heard = tokio::select! {
            biased;
            heard = timeout(idle, self.wait(stream)) => heard,
            () = shutdown.called() => {
                let last = idle.min(Duration::from_millis(LAST_WORDS_MS));
                timeout(last, self.wait(stream)).await
            }
        };
        match heard {
            Ok(heard) => Ok(heard? > 0),
            Err(_) => Ok(false),
        }
    }

    /// Reads more of a request. Returns false at the end of the stream.
    async fn fill(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        shared: &Shared,
    ) -> Result<bool, Unread> {
        self.reserve(shared, self.bytes.len())?;
        self.bytes.reserve(READ_BYTES);
        let deadline = self.deadline();
        let read = timeout_at(deadline, stream.read_buf(&mut self.bytes)).await;
        Ok(read.map_err(|_| too_slow())?? > 0)
    }

    /// Reads at least one byte, without a time limit. Cancel-safe.
    async fn wait(&mut self, stream: &mut (impl AsyncRead + Unpin)) -> io::Result<usize> {
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
    pub async fn body(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        shared: &Shared,
        body: BodyFraming,
        bytes_max: usize,
    ) -> Result<Bytes, Unread> {
        match body {
            BodyFraming::None => Ok(Bytes::new()),
            BodyFraming::Length(length) => {
                let length = usize::try_from(length).ok().filter(|&length| length <= bytes_max);
                let length = length.ok_or(Unread::TooLarge(bytes_max))?;
                self.plain_body(stream, shared, length).await
            }
            BodyFraming::Chunked => self.chunked_body(stream, shared, bytes_max).await,
        }
    }

    async fn plain_body(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        shared: &Shared,
        length: usize,
    ) -> Result<Bytes, Unread> {
        if self.bytes.len() >= length {
            // Copy the value: a slice would keep the whole buffer alive.
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
                return Err(Unread::Dead);
            }
        }
        Ok(body.into())
    }

    async fn chunked_body(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        shared: &Shared,
        bytes_max: usize,
    ) -> Result<Bytes, Unread> {
        let mut chunks = Chunks::default();
        let mut body = Vec::new();
        self.deadline();
        loop {
            match chunks.step(&self.bytes)? {
                Decoded::Data(bytes, used) => {
                    if body.len() + bytes.len() > bytes_max {
                        return Err(Unread::TooLarge(bytes_max));
                    }
                    body.extend_from_slice(bytes);
                    self.bytes.advance(used);
                    self.reserve(shared, body.capacity())?;
                }
                Decoded::Skip(used) => self.bytes.advance(used),
                Decoded::End => return Ok(body.into()),
                Decoded::More => {
                    if !self.fill(stream, shared).await? {
                        return Err(Unread::Dead);
                    }
                }
            }
        }
    }

    /// Counts a large buffer against the memory that all connections share.
    fn reserve(&mut self, shared: &Shared, bytes: usize) -> Result<(), Unread> {
        if self.room.holds(bytes, shared) { Ok(()) } else { Err(Unread::Overloaded) }
    }
}

/// Returns true if an empty line is in `bytes`: it ends a head.
fn has_empty_line(bytes: &[u8]) -> bool {
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    ends.map(|(place, _)| &bytes[place + 1..])
        .any(|rest| rest.starts_with(b"\n") || rest.starts_with(b"\r\n"))
}

fn too_slow() -> Unread {
    let status = StatusCode::RequestTimeout;
    Refused { status, detail: "the request did not arrive within 30 seconds" }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parsing a long head again at each byte would slow down other connections.
    #[test]
    fn a_head_that_comes_byte_by_byte_is_looked_at_a_few_times() {
        let head = format!("GET / HTTP/1.1\r\nhost: a\r\n{}\r\n", "x: y\r\n".repeat(50_000));
        let mut input = Input::new(BytesMut::new());
        let mut looks = 0;
        for byte in head.bytes() {
            input.bytes.put_u8(byte);
            looks += usize::from(input.may_hold_head());
        }
        assert!(looks < 30, "{looks}");
        assert!(!input.may_hold_head(), "nothing new came");
        // The parser finds the end of a head wherever the pieces are cut.
        let short = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
        for cut in 1..short.len() {
            let mut input = Input::new(BytesMut::from(&short[..cut]));
            input.may_hold_head();
            input.bytes.extend_from_slice(&short[cut..]);
            assert!(input.may_hold_head(), "cut at {cut}");
        }
    }

    #[test]
    fn blank_lines_before_a_request_take_no_memory_and_are_searched_once() {
        let mut input = Input::new(BytesMut::new());
        for piece in [&b"\r\n"[..], b"\r", b"\n\r\n\r", b"\n"].iter().cycle().take(100_000) {
            input.bytes.extend_from_slice(piece);
            assert!(input.bytes.len() < 8, "they are kept");
            assert!(!input.may_hold_head() || input.bytes == b"\r"[..], "they are no head");
        }
        assert!(input.bytes.is_empty() && !input.has_begun());
        input.bytes.extend_from_slice(b"\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n");
        assert!(input.may_hold_head() && input.bytes.starts_with(b"GET"));
    }

    #[test]
    fn the_buffer_of_a_large_head_goes_with_it() {
        let mut input = Input::new(BytesMut::with_capacity(700_000));
        input.bytes.extend_from_slice(&[b'x'; 300_000]);
        input.bytes.extend_from_slice(b"GET");
        input.advance(300_000);
        assert_eq!(input.bytes(), b"GET");
        assert!(input.bytes.capacity() < READ_BYTES, "{}", input.bytes.capacity());
    }
}

//! What a connection has heard and not yet understood: heads and bodies out of a socket, within
//! bounds.

use super::output::LARGE_BYTES;
use super::target::{Refusal, too_large};
use crate::http::{Body, Chunks, Decoded, Refused, head};
use crate::shared::Shared;
use base::limits::REQUEST_READ_MS_MAX;
use base::{Error, Reason};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};

/// What is read at a time when nothing larger is expected.
const READ_BYTES: usize = 16 * 1024;
/// How much a body's buffer grows at least; it never grows by more than has arrived.
const BODY_STEP_BYTES: usize = 64 * 1024;

/// Bytes heard.
pub struct Input {
    bytes: BytesMut,
    /// So many bytes were searched for the end of a head; what comes byte by byte must not be read
    /// again each time.
    searched: usize,
    /// With this much the head is looked at although it has no end yet: it may be too large, or no
    /// head at all.
    look_again_at: usize,
    /// When the request whose beginning stands in `bytes` must be complete.
    deadline: Option<Instant>,
    /// A share of the common memory for a large head or body.
    reserved: Option<OwnedSemaphorePermit>,
    reserved_bytes: usize,
}

/// What ends a connection while it is read: nothing more can be said, or one last answer.
#[derive(Debug)]
pub enum Stop {
    /// The socket is dead, or the client took too long with what can't be answered.
    Dead,
    /// This is answered, then the connection ends.
    Refused(Box<Refusal>),
}

impl From<io::Error> for Stop {
    fn from(_: io::Error) -> Stop {
        Stop::Dead
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Stop {
        Stop::Refused(Box::new(refusal))
    }
}

impl From<Refused> for Stop {
    fn from(refused: Refused) -> Stop {
        Refusal::from(refused).into()
    }
}

impl Input {
    /// Beginning with what was already read.
    pub fn new(first: BytesMut) -> Input {
        Input {
            bytes: first,
            searched: 0,
            look_again_at: 0,
            deadline: None,
            reserved: None,
            reserved_bytes: 0,
        }
    }

    /// Whether a request has begun.
    pub fn has_begun(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// The head at the beginning, if it is complete, and how many bytes it takes.
    pub fn head(&mut self) -> Result<Option<(head::Head<'_>, usize)>, Refused> {
        let length = self.bytes.len();
        let fresh = &self.bytes[self.searched.saturating_sub(2)..];
        let may_end = self.searched == 0 || has_empty_line(fresh);
        if length == 0 || (!may_end && length < self.look_again_at) {
            self.searched = length;
            return Ok(None);
        }
        self.searched = length;
        self.look_again_at = 2 * length;
        match head::parse(&self.bytes)? {
            head::Parsed::Head(head, used) => Ok(Some((head, used))),
            head::Parsed::More => Ok(None),
        }
    }

    /// Takes a head off the beginning.
    pub fn advance(&mut self, used: usize) {
        self.bytes.advance(used);
        self.searched = 0;
        self.look_again_at = 0;
    }

    /// A request is understood: the next one has its own time and memory.
    pub fn finish_request(&mut self) {
        self.deadline = None;
        self.reserved = None;
        self.reserved_bytes = 0;
    }

    /// Reads more of a request; `false` at the end of the stream.
    pub async fn fill(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        shared: &Shared,
    ) -> Result<bool, Stop> {
        self.reserve(shared, self.bytes.len())?;
        self.bytes.reserve(READ_BYTES);
        let deadline = self.deadline();
        let read = timeout_at(deadline, stream.read_buf(&mut self.bytes)).await;
        Ok(read.map_err(|_| too_slow())?? > 0)
    }

    /// Reads what comes, however long it takes. Cancel-safe.
    pub async fn wait(&mut self, stream: &mut (impl AsyncRead + Unpin)) -> io::Result<usize> {
        self.bytes.reserve(READ_BYTES);
        stream.read_buf(&mut self.bytes).await
    }

    /// When the present request must be complete; from its first byte on.
    pub fn deadline(&mut self) -> Instant {
        let bound = Duration::from_millis(REQUEST_READ_MS_MAX);
        *self.deadline.get_or_insert_with(|| Instant::now() + bound)
    }

    /// Whether this body has wholly arrived.
    pub fn has_body(&self, body: Body) -> bool {
        match body {
            Body::None => true,
            Body::Length(length) => self.bytes.len() as u64 >= length,
            Body::Chunked => false,
        }
    }

    /// Reads a body of at most `bytes_max`.
    pub async fn body(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        shared: &Shared,
        body: Body,
        bytes_max: usize,
    ) -> Result<Bytes, Stop> {
        match body {
            Body::None => Ok(Bytes::new()),
            Body::Length(length) => {
                let length = usize::try_from(length).ok().filter(|&length| length <= bytes_max);
                let length = length.ok_or_else(|| too_large(bytes_max))?;
                self.plain_body(stream, shared, length).await
            }
            Body::Chunked => self.chunked_body(stream, shared, bytes_max).await,
        }
    }

    async fn plain_body(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        shared: &Shared,
        length: usize,
    ) -> Result<Bytes, Stop> {
        if self.bytes.len() >= length {
            // A copy: a small value must not keep the whole buffer alive.
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
                return Err(Stop::Dead);
            }
        }
        Ok(body.into())
    }

    async fn chunked_body(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        shared: &Shared,
        bytes_max: usize,
    ) -> Result<Bytes, Stop> {
        let mut chunks = Chunks::default();
        let mut body = Vec::new();
        self.deadline();
        loop {
            match chunks.step(&self.bytes)? {
                Decoded::Data(bytes, used) => {
                    if body.len() + bytes.len() > bytes_max {
                        return Err(too_large(bytes_max).into());
                    }
                    body.extend_from_slice(bytes);
                    self.bytes.advance(used);
                    self.reserve(shared, body.capacity())?;
                }
                Decoded::Skip(used) => self.bytes.advance(used),
                Decoded::End => return Ok(body.into()),
                Decoded::More => {
                    if !self.fill(stream, shared).await? {
                        return Err(Stop::Dead);
                    }
                }
            }
        }
    }

    /// Counts a large buffer against the memory that all connections share.
    fn reserve(&mut self, shared: &Shared, bytes: usize) -> Result<(), Stop> {
        if bytes <= LARGE_BYTES || bytes <= self.reserved_bytes {
            return Ok(());
        }
        let Some(more) = shared.reserve(bytes - self.reserved_bytes) else {
            let words = "too many large requests are on their way; nothing was changed";
            return Err(Refusal::from(Error::new(Reason::Overloaded, words)).into());
        };
        self.reserved_bytes = bytes;
        match &mut self.reserved {
            Some(reserved) => reserved.merge(more),
            None => self.reserved = Some(more),
        }
        Ok(())
    }
}

/// Whether a line end follows a line end: what ends a head.
fn has_empty_line(bytes: &[u8]) -> bool {
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    ends.map(|(place, _)| &bytes[place + 1..])
        .any(|rest| rest.starts_with(b"\n") || rest.starts_with(b"\r\n"))
}

fn too_slow() -> Stop {
    let status = crate::http::Status::RequestTimeout;
    Refused { status, detail: "the request did not arrive within 30 seconds" }.into()
}

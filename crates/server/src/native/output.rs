//! Output queue of a connection: answers in order, some of which wait until their update is
//! decided.

use super::errors;
use crate::buffer_budget::overloaded;
use crate::counters::{ClientProtocol, OperationKind, Verdict};
use crate::http::answer::Manner;
use crate::http::date::DateCache;
use crate::http::{AnswerContent, HttpAnswer, StatusCode};
use crate::shared::Shared;
use base::limits::{ANSWER_WRITE_MS_MAX, PIPELINE_DEPTH_MAX};
use base::{Error, LogIndex};
use bytes::Bytes;
use node::Ticket;
use std::io;
use std::ops::Range;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout};

/// Bodies up to this are copied behind their heads, so that many answers leave with one call.
const INLINE_BYTES_MAX: usize = 32 * 1024;
/// With this much to say it is said before more is read.
const BUFFERED_BYTES_MAX: usize = 256 * 1024;
/// Size in bytes from which a body counts against the memory that all connections share.
pub const LARGE_BYTES: usize = 64 * 1024;
/// Size in bytes of the parts that a client must read within `ANSWER_WRITE_MS_MAX` each.
const PIECE_BYTES: usize = 256 * 1024;

/// Answers not yet sent.
#[derive(Default)]
pub struct HttpOutput {
    bytes: Vec<u8>,
    /// Body that is too large to copy. No answer may follow it before it is sent.
    tail: Option<Bytes>,
    reserved: Option<OwnedSemaphorePermit>,
    waiting: Vec<WaitingAnswer>,
    date: DateCache,
}

/// Answer that must not be sent before its ticket is decided.
struct WaitingAnswer {
    place: Range<usize>,
    ticket: Ticket,
    asked: AnswerOrigin,
    verdict: Verdict,
}

/// Request that an answer belongs to, as far as output and counters need it.
#[derive(Clone, Copy, Debug)]
pub struct AnswerOrigin {
    /// Kind of operation, for the counters.
    pub operation: OperationKind,
    /// Time when the request was parsed.
    pub since: Instant,
    /// Encoding of the answer.
    pub manner: Manner,
    /// True if an answer may be replaced by an error for lack of memory, because the request
    /// changed nothing.
    pub is_read: bool,
}

impl HttpOutput {
    /// Returns true if the answers must be sent before another is added.
    pub fn is_full(&self) -> bool {
        self.tail.is_some()
            || self.bytes.len() >= BUFFERED_BYTES_MAX
            || self.waiting.len() >= PIPELINE_DEPTH_MAX
    }

    /// Returns true if there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.tail.is_none()
    }

    /// Adds an answer that may be sent at once.
    pub fn push(
        &mut self,
        shared: &Shared,
        answer: HttpAnswer,
        asked: AnswerOrigin,
        verdict: Verdict,
    ) {
        let (_, verdict) = self.append(shared, answer, asked, verdict);
        observe(shared, &asked, verdict);
    }

    /// Adds an answer that may be sent once the ticket is decided.
    pub fn push_waiting(
        &mut self,
        shared: &Shared,
        answer: HttpAnswer,
        asked: AnswerOrigin,
        verdict: Verdict,
        ticket: Ticket,
    ) {
        let (place, verdict) = self.append(shared, answer, asked, verdict);
        self.waiting.push(WaitingAnswer { place, ticket, asked, verdict });
    }

    fn append(
        &mut self,
        shared: &Shared,
        mut answer: HttpAnswer,
        asked: AnswerOrigin,
        mut verdict: Verdict,
    ) -> (Range<usize>, Verdict) {
        debug_assert!(self.tail.is_none(), "nothing stands behind a tail");
        let mut body = answer.content.bytes();
        if body.len() > LARGE_BYTES && !asked.manner.head_only {
            self.reserved = shared.reserve(body.len());
            if self.reserved.is_none() {
                answer = match answer.index.filter(|_| !asked.is_read) {
                    // The update takes effect; only its answer is lost.
                    Some(index) => super::render::applied_at(LogIndex(index)),
                    None => {
                        let error = overloaded();
                        verdict = Verdict::Failed(error.kind());
                        errors::answer(&error)
                    }
                };
                body = answer.content.bytes();
            }
        }
        let start = self.bytes.len();
        let date = self.date.at(shared.clock.unix_ms());
        answer.encode_head(&mut self.bytes, asked.manner, date);
        if !asked.manner.head_only && answer.content != AnswerContent::None {
            if body.len() <= INLINE_BYTES_MAX {
                self.bytes.extend_from_slice(&body);
            } else {
                self.tail = Some(body);
            }
        }
        (start..self.bytes.len(), verdict)
    }

    /// Waits until every ticket is decided. Replaces the answers of those that fail with their
    /// error.
    pub async fn settle(&mut self, shared: &Shared) {
        let Some(last) = self.waiting.last() else { return };
        let group = last.ticket.group;
        let is_one_group = self.waiting.iter().all(|waiting| waiting.ticket.group == group);
        if is_one_group && shared.node.decided(last.ticket).await.is_ok() {
            for waiting in self.waiting.drain(..) {
                observe(shared, &waiting.asked, waiting.verdict);
            }
            return;
        }
        self.settle_each(shared).await;
    }

    async fn settle_each(&mut self, shared: &Shared) {
        let old = std::mem::take(&mut self.bytes);
        let count = self.waiting.len();
        let mut copied = 0;
        for (place, waiting) in std::mem::take(&mut self.waiting).into_iter().enumerate() {
            self.bytes.extend_from_slice(&old[copied..waiting.place.start]);
            copied = waiting.place.end;
            match shared.node.decided(waiting.ticket).await {
                Ok(()) => {
                    self.bytes.extend_from_slice(&old[waiting.place.clone()]);
                    observe(shared, &waiting.asked, waiting.verdict);
                }
                Err(error) => {
                    // The tail is the body of the last answer; drop it if that answer fails.
                    if place + 1 == count && waiting.place.end == old.len() {
                        self.tail = None;
                    }
                    self.replace(shared, &error, &waiting.asked);
                    observe(shared, &waiting.asked, Verdict::Failed(error.kind()));
                }
            }
        }
        self.bytes.extend_from_slice(&old[copied..]);
    }

    fn replace(&mut self, shared: &Shared, error: &Error, asked: &AnswerOrigin) {
        let answer = errors::answer(error);
        let date = self.date.at(shared.clock.unix_ms());
        answer.encode_head(&mut self.bytes, asked.manner, date);
        if !asked.manner.head_only {
            self.bytes.extend_from_slice(&answer.content.bytes());
        }
    }

    /// Sends all answers. They must be settled.
    pub async fn flush(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        debug_assert!(self.waiting.is_empty(), "an undecided answer is never said");
        write(stream, &self.bytes).await?;
        self.bytes.clear();
        // Shrink the buffer: the connection would otherwise keep it for its lifetime, and no budget
        // would count it.
        self.bytes.shrink_to(INLINE_BYTES_MAX);
        if let Some(tail) = self.tail.take() {
            write(stream, &tail).await?;
        }
        self.reserved = None;
        Ok(())
    }
}

fn observe(shared: &Shared, asked: &AnswerOrigin, verdict: Verdict) {
    let took = asked.since.elapsed();
    let (operation, took_us) = (asked.operation, took.as_micros() as u64);
    tracing::debug!(target: "http", ?operation, ?verdict, took_us, "answered");
    shared.counters.observe(ClientProtocol::Http, operation, verdict, took);
}

/// Sends bytes. Fails if the client does not read a part of them in time.
pub async fn write(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    let bound = Duration::from_millis(ANSWER_WRITE_MS_MAX);
    for piece in bytes.chunks(PIECE_BYTES) {
        timeout(bound, stream.write_all(piece))
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    }
    Ok(())
}

/// Returns the verdict on a result, for the counters: a failed condition is a conflict.
pub fn verdict(answer: &HttpAnswer, result: &Result<base::Reply, Error>) -> Verdict {
    if answer.status == StatusCode::PreconditionFailed {
        return Verdict::Failed(base::Kind::Conflict);
    }
    Verdict::of(result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn a_connection_that_has_said_much_keeps_a_small_buffer() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (own, client) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (mut own, mut client) = (own.expect("connects"), client.expect("accepts").0);
        let mut said =
            HttpOutput { bytes: vec![b'x'; BUFFERED_BYTES_MAX], ..HttpOutput::default() };
        let mut heard = vec![0; BUFFERED_BYTES_MAX];
        let (flushed, read) = tokio::join!(said.flush(&mut own), client.read_exact(&mut heard));
        assert!(flushed.is_ok() && read.is_ok() && said.is_empty());
        assert!(said.bytes.capacity() <= INLINE_BYTES_MAX, "{}", said.bytes.capacity());
    }
}

//! Output queue of a connection: answers in order, some of which wait until their update is
//! decided.

use super::errors;
use crate::buffer_budget::{BufferBudget, FREE_BYTES, overloaded};
use crate::counters::{ClientProtocol, OperationKind, Verdict};
use crate::http::answer::EncodeOptions;
use crate::http::date::DateCache;
use crate::http::{AnswerContent, HttpAnswer, StatusCode};
use crate::shared::Shared;
use crate::slow::{self, SlowTarget};
use crate::stages::{StageTimes, WaitStage};
use crate::writer;
use base::limits::PIPELINE_DEPTH_MAX;
use base::{Error, LogIndex};
use bytes::Bytes;
use node::Ticket;
use std::io;
use std::ops::Range;
use std::time::Duration;
use tokio::io::AsyncWrite;
use tokio::time::Instant;

/// Bodies up to this size are copied behind their heads, so that one call sends many answers.
const INLINE_BYTES_MAX: usize = 32 * 1024;
/// Number of buffered bytes from which the output is flushed before further requests are read. It
/// needs no share of the memory that all connections have in common.
const BUFFERED_BYTES_MAX: usize = FREE_BYTES;

/// Answers not yet sent.
#[derive(Default)]
pub struct HttpOutput {
    bytes: Vec<u8>,
    /// Body that is too large to copy. No answer may follow it before it is sent.
    tail: Option<Bytes>,
    /// Memory of the body that is answered next or stands in the tail.
    budget: BufferBudget,
    waiting: Vec<WaitingAnswer>,
    date: DateCache,
}

/// Answer that must not be sent before its ticket is decided.
struct WaitingAnswer {
    position: Range<usize>,
    ticket: Ticket,
    origin: AnswerOrigin,
    verdict: Verdict,
}

/// Request that an answer belongs to, as far as output and counters need it.
#[derive(Clone, Debug)]
pub struct AnswerOrigin {
    /// Kind of operation, for the counters.
    pub operation: OperationKind,
    /// Time when the request was parsed.
    pub parsed_at: Instant,
    /// Encoding of the answer.
    pub encode_options: EncodeOptions,
    /// Target of the request, if it reached the node.
    pub target: Option<SlowTarget>,
    /// Waits of the request.
    pub stages: StageTimes,
    /// True if an answer may be replaced by an error for lack of memory, because the request
    /// changed nothing.
    pub is_read: bool,
}

impl WaitingAnswer {
    /// Adds the waits until the answer was decided.
    fn add_waits(&mut self, waits: &StageTimes) {
        self.origin.stages.add(waits);
        self.origin.stages.note_ticket(self.ticket);
    }
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

    /// Reserves memory for the body of the next answer, before it is built. Returns false if there
    /// is none.
    pub fn reserve(&mut self, shared: &Shared, bytes: usize) -> bool {
        self.budget.try_reserve(bytes, shared)
    }

    /// Adds an answer that may be sent at once.
    pub fn push(
        &mut self,
        shared: &Shared,
        answer: HttpAnswer,
        origin: AnswerOrigin,
        verdict: Verdict,
    ) {
        let (_, verdict) = self.append(shared, answer, &origin, verdict);
        observe(shared, &origin, verdict);
    }

    /// Adds an answer that may be sent once the ticket is decided.
    pub fn push_pending(
        &mut self,
        shared: &Shared,
        answer: HttpAnswer,
        origin: AnswerOrigin,
        verdict: Verdict,
        ticket: Ticket,
    ) {
        let (position, verdict) = self.append(shared, answer, &origin, verdict);
        self.waiting.push(WaitingAnswer { position, ticket, origin, verdict });
    }

    fn append(
        &mut self,
        shared: &Shared,
        mut answer: HttpAnswer,
        origin: &AnswerOrigin,
        mut verdict: Verdict,
    ) -> (Range<usize>, Verdict) {
        debug_assert!(self.tail.is_none(), "nothing stands behind a tail");
        let mut body = answer.content.bytes();
        if !origin.encode_options.head_only && !self.reserve(shared, body.len()) {
            (answer, verdict) = without_memory(answer.index, origin.is_read, verdict);
            body = answer.content.bytes();
        }
        let start = self.bytes.len();
        let date = self.date.format_at(shared.clock.unix_ms());
        answer.encode_head(&mut self.bytes, origin.encode_options, date);
        if !origin.encode_options.head_only && answer.content != AnswerContent::None {
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
    pub async fn wait_decided(&mut self, shared: &Shared) {
        let Some(last) = self.waiting.last() else { return };
        let group = last.ticket.group;
        let is_one_group = self.waiting.iter().all(|waiting| waiting.ticket.group == group);
        let (mut waits, decided) = (StageTimes::new(shared), shared.node.wait_decided(last.ticket));
        if is_one_group && waits.measure(WaitStage::Decide, decided).await.is_ok() {
            for mut waiting in self.waiting.drain(..) {
                waiting.add_waits(&waits);
                observe(shared, &waiting.origin, waiting.verdict);
            }
            return;
        }
        self.wait_each_decided(shared).await;
    }

    async fn wait_each_decided(&mut self, shared: &Shared) {
        let encoded = std::mem::take(&mut self.bytes);
        let count = self.waiting.len();
        let (mut copied, mut waits) = (0, StageTimes::new(shared));
        for (answer_number, mut waiting) in
            std::mem::take(&mut self.waiting).into_iter().enumerate()
        {
            self.bytes.extend_from_slice(&encoded[copied..waiting.position.start]);
            copied = waiting.position.end;
            let decided = shared.node.wait_decided(waiting.ticket);
            let decided = waits.measure(WaitStage::Decide, decided).await;
            waiting.add_waits(&waits);
            match decided {
                Ok(()) => {
                    self.bytes.extend_from_slice(&encoded[waiting.position.clone()]);
                    observe(shared, &waiting.origin, waiting.verdict);
                }
                Err(error) => {
                    // The tail is the body of the last answer; drop it if that answer fails.
                    if answer_number + 1 == count && waiting.position.end == encoded.len() {
                        self.tail = None;
                    }
                    self.replace(shared, &error, &waiting.origin);
                    observe(shared, &waiting.origin, Verdict::Failed(error.kind()));
                }
            }
        }
        self.bytes.extend_from_slice(&encoded[copied..]);
    }

    fn replace(&mut self, shared: &Shared, error: &Error, origin: &AnswerOrigin) {
        let answer = errors::answer(error);
        let date = self.date.format_at(shared.clock.unix_ms());
        answer.encode_head(&mut self.bytes, origin.encode_options, date);
        if !origin.encode_options.head_only {
            self.bytes.extend_from_slice(&answer.content.bytes());
        }
    }

    /// Sends all answers. They must be decided.
    pub async fn flush(&mut self, stream: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        debug_assert!(self.waiting.is_empty(), "an undecided answer is never said");
        writer::write_bytes(stream, &self.bytes).await?;
        self.bytes.clear();
        // Shrink the buffer: the connection would otherwise keep it for its lifetime, and no budget
        // would count it.
        self.bytes.shrink_to(INLINE_BYTES_MAX);
        if let Some(tail) = self.tail.take() {
            writer::write_bytes(stream, &tail).await?;
        }
        self.budget.release();
        Ok(())
    }
}

fn observe(shared: &Shared, origin: &AnswerOrigin, verdict: Verdict) {
    let elapsed = origin.parsed_at.elapsed();
    let (operation, took_us) = (origin.operation, elapsed.as_micros() as u64);
    tracing::debug!(target: "http", ?operation, ?verdict, took_us, "answered");
    shared.counters.observe(ClientProtocol::Http, operation, verdict, elapsed);
    report_slow(shared, origin, elapsed);
}

/// Records the request, if it was slow.
pub fn report_slow(shared: &Shared, origin: &AnswerOrigin, elapsed: Duration) {
    let request = (ClientProtocol::Http, origin.operation);
    slow::report_one(shared, request, origin.target.as_ref(), elapsed, &origin.stages);
}

/// Returns the answer in place of one for which there is no memory. `index`: log index of the
/// answer, if it has one.
pub fn without_memory(
    index: Option<u64>,
    is_read: bool,
    verdict: Verdict,
) -> (HttpAnswer, Verdict) {
    match index.filter(|_| !is_read) {
        // The update takes effect; only its answer is lost.
        Some(index) => (super::render::applied_at(LogIndex(index)), verdict),
        None => {
            let error = overloaded();
            (errors::answer(&error), Verdict::Failed(error.kind()))
        }
    }
}

/// Returns the verdict on a result, for the counters: a failed condition is a conflict.
pub fn verdict(answer: &HttpAnswer, result: &Result<base::Reply, Error>) -> Verdict {
    if answer.status == StatusCode::PreconditionFailed {
        return Verdict::Failed(base::Kind::Conflict);
    }
    Verdict::from_result(result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpStream};

    #[tokio::test]
    async fn output_buffer_shrinks_after_a_large_flush() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (server, client) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (mut server, mut client) = (server.expect("connects"), client.expect("accepts").0);
        let mut output =
            HttpOutput { bytes: vec![b'x'; BUFFERED_BYTES_MAX], ..HttpOutput::default() };
        let mut received = vec![0; BUFFERED_BYTES_MAX];
        let (flushed, read) =
            tokio::join!(output.flush(&mut server), client.read_exact(&mut received));
        assert!(flushed.is_ok() && read.is_ok() && output.is_empty());
        assert!(output.bytes.capacity() <= INLINE_BYTES_MAX, "{}", output.bytes.capacity());
    }
}

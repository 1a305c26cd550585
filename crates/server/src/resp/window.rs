//! Window of one connection: its requests that are in flight at the same time.
//!
//! A request of an available bucket waits for replicas and for no request of another key. So the
//! requests of a pipeline run concurrently, in the connection's own task: most go on by themselves
//! once they have begun. Answers leave in the order of the requests: only the first one is awaited,
//! and those that are done by then leave with it.
//!
//! Promises: at most one request of a key at a time; no more requests and bytes than the limits
//! below, and than all connections together may have in flight.
//! Never: outlives its connection.

use super::translate::RespShape;
use crate::counters::OperationKind;
use base::{Key, Reply, Result};
use node::LaterReply;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

/// Most requests of a connection on an available bucket that are under way at the same time.
pub const WINDOW_REQUESTS_MAX: usize = 64;
/// Most bytes of theirs, and of what reads among them are expected to bring.
pub const WINDOW_BYTES_MAX: usize = 2 * 1024 * 1024;
/// A request of an available bucket that is larger than this goes alone.
pub const WINDOW_REQUEST_BYTES_MAX: usize = 64 * 1024;
/// Expected size of a read's answer in bytes before one has been seen.
const INITIAL_READ_BYTES: usize = WINDOW_BYTES_MAX / 16;

/// Request that concerns one key and nothing else.
pub struct ParallelCall {
    pub key: Key,
    pub answer: LaterReply,
    pub shape: RespShape,
    pub operation: OperationKind,
}

/// Reply to a request of the window, with what is needed to write and count it.
pub struct WindowAnswer {
    pub key: Key,
    pub reply: Result<Reply>,
    pub shape: RespShape,
    pub operation: OperationKind,
    pub began: Instant,
}

/// Answer of a request in flight.
enum RunningAnswer {
    Pending(LaterReply),
    Done(Result<Reply>),
}

impl RunningAnswer {
    /// Continues the request, unless it is done.
    fn poll(&mut self, context: &mut Context<'_>) {
        if let RunningAnswer::Pending(answer) = self
            && let Poll::Ready(reply) = answer.as_mut().poll(context)
        {
            *self = RunningAnswer::Done(reply);
        }
    }
}

/// Request in flight.
struct RunningRequest {
    key: Key,
    bytes: usize,
    answer: RunningAnswer,
    shape: RespShape,
    operation: OperationKind,
    began: Instant,
    _permit: OwnedSemaphorePermit,
}

/// Requests in flight, in order.
pub struct Window {
    running: VecDeque<RunningRequest>,
    /// Bytes of all requests in flight: of each request, and of the answer that a read may return.
    bytes: usize,
    /// Expected size of a read's answer in bytes: the maximum of recent answers, which decays.
    read_bytes: usize,
}

impl Default for Window {
    fn default() -> Window {
        Window { running: VecDeque::new(), bytes: 0, read_bytes: INITIAL_READ_BYTES }
    }
}

impl Window {
    /// Returns true if no request is in flight.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Returns true if a request of this key is in flight, or its answer is not written yet.
    pub fn contains_key(&self, key: &Key) -> bool {
        self.running.iter().any(|running| running.key == *key)
    }

    /// Returns true if one more request may start. An empty window always admits one.
    pub fn admits(&self, operation: OperationKind, bytes: usize) -> bool {
        let fits = || self.bytes + self.expected_bytes(operation, bytes) <= WINDOW_BYTES_MAX;
        self.is_empty() || (self.running.len() < WINDOW_REQUESTS_MAX && fits())
    }

    fn expected_bytes(&self, operation: OperationKind, bytes: usize) -> usize {
        let reads = matches!(operation, OperationKind::Get | OperationKind::MultiGet);
        bytes + if reads { self.read_bytes } else { 0 }
    }

    /// Adds a request of this many bytes. It begins with the next call of
    /// [`Window::begin_last`] or of a function that returns an answer.
    pub fn start(&mut self, call: ParallelCall, bytes: usize, permit: OwnedSemaphorePermit) {
        let ParallelCall { key, answer, shape, operation } = call;
        let bytes = self.expected_bytes(operation, bytes);
        self.bytes += bytes;
        let answer = RunningAnswer::Pending(answer);
        let began = Instant::now();
        self.running.push_back(RunningRequest {
            key,
            bytes,
            answer,
            shape,
            operation,
            began,
            _permit: permit,
        });
    }

    /// Begins the request that was added last.
    pub async fn begin_last(&mut self) {
        poll_fn(|context| {
            if let Some(last) = self.running.back_mut() {
                last.answer.poll(context);
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Records the size of a read's answer in bytes.
    pub fn record_read_bytes(&mut self, bytes: usize) {
        self.read_bytes = bytes.max(self.read_bytes - self.read_bytes / 8);
    }

    /// Waits for the first request; forever if none is in flight. Cancel-safe.
    pub async fn first_answer(&mut self) -> WindowAnswer {
        poll_fn(|context| self.poll_first(context)).await
    }

    /// Returns the reply of the first request, or `None` if it is not done.
    pub async fn try_first_answer(&mut self) -> Option<WindowAnswer> {
        poll_fn(|context| {
            Poll::Ready(match self.poll_first(context) {
                Poll::Ready(answer) => Some(answer),
                Poll::Pending => None,
            })
        })
        .await
    }

    /// Returns the reply of the first request if it was done when it was last polled.
    pub fn take_done(&mut self) -> Option<WindowAnswer> {
        self.running.front().filter(|first| matches!(first.answer, RunningAnswer::Done(_)))?;
        let first = self.running.pop_front()?;
        self.bytes -= first.bytes;
        let RunningRequest { key, answer, shape, operation, began, .. } = first;
        let RunningAnswer::Done(reply) = answer else { return None };
        Some(WindowAnswer { key, reply, shape, operation, began })
    }

    fn poll_first(&mut self, context: &mut Context<'_>) -> Poll<WindowAnswer> {
        let mut running = self.running.iter_mut();
        let Some(first) = running.next() else { return Poll::Pending };
        first.answer.poll(context);
        if matches!(first.answer, RunningAnswer::Pending(_)) {
            // The task may have been woken for any of them.
            running.for_each(|later| later.answer.poll(context));
        }
        self.take_done().map_or(Poll::Pending, Poll::Ready)
    }
}

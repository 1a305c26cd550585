//! Window of one connection: its requests that are in flight at the same time.
//!
//! A request of an available bucket waits for replicas and for no request of another key. So the
//! requests of a pipeline run concurrently, each in a task that ends with its connection. Answers
//! leave in the order of the requests: only the first one is awaited, and those that are done by
//! then leave with it.
//!
//! Promises: at most one request of a key at a time; no more requests and bytes than the limits
//! below, and than all connections together may have in flight.
//! Never: outlives its connection.

use super::translate::RespShape;
use crate::counters::OperationKind;
use base::{Error, Key, Reason, Reply, Result};
use node::LaterReply;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;

/// Most requests of a connection on an available bucket that are under way at the same time.
pub const WINDOW_REQUESTS_MAX: usize = 64;
/// Most bytes of theirs, and of what reads among them are expected to bring.
pub const WINDOW_BYTES_MAX: usize = 2 * 1024 * 1024;
/// A request of an available bucket that is larger than this goes alone.
pub const WINDOW_REQUEST_BYTES_MAX: usize = 64 * 1024;
/// Expected size of a read's answer in bytes before one has been seen.
const READ_BYTES: usize = WINDOW_BYTES_MAX / 16;

/// Request that concerns one key and nothing else.
pub struct ParallelCall {
    pub key: Key,
    pub answer: LaterReply,
    pub shape: RespShape,
    pub operation: OperationKind,
}

/// Reply to a request of the window, with what is needed to write and count it.
pub struct WindowAnswer {
    pub reply: Result<Reply>,
    pub shape: RespShape,
    pub operation: OperationKind,
    pub began: Instant,
}

/// Request in flight.
struct RunningRequest {
    key: Key,
    bytes: usize,
    answer: JoinHandle<Result<Reply>>,
    shape: RespShape,
    operation: OperationKind,
    began: Instant,
    _seat: OwnedSemaphorePermit,
}

/// Requests in flight, in order.
pub struct Window {
    going: VecDeque<RunningRequest>,
    /// Bytes of all of them: their own, and those that reads are expected to return.
    bytes: usize,
    /// Expected size of a read's answer in bytes: the maximum of recent answers, which decays.
    read_bytes: usize,
}

impl Default for Window {
    fn default() -> Window {
        Window { going: VecDeque::new(), bytes: 0, read_bytes: READ_BYTES }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.going.iter().for_each(|going| going.answer.abort());
    }
}

impl Window {
    /// Returns true if no request is in flight.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.going.is_empty()
    }

    /// Returns true if a request of this key is in flight or its answer was not taken yet.
    pub fn has(&self, key: &Key) -> bool {
        self.going.iter().any(|going| going.key == *key)
    }

    /// Returns true if one more request may start. An empty window always admits one.
    pub fn has_room(&self, operation: OperationKind, bytes: usize) -> bool {
        let fits = || self.bytes + self.reckoned(operation, bytes) <= WINDOW_BYTES_MAX;
        self.is_empty() || (self.going.len() < WINDOW_REQUESTS_MAX && fits())
    }

    fn reckoned(&self, operation: OperationKind, bytes: usize) -> usize {
        let reads = matches!(operation, OperationKind::Get | OperationKind::MultiGet);
        bytes + if reads { self.read_bytes } else { 0 }
    }

    /// Starts a request of this many bytes.
    pub fn begin(&mut self, apart: ParallelCall, bytes: usize, seat: OwnedSemaphorePermit) {
        let ParallelCall { key, answer, shape, operation } = apart;
        let bytes = self.reckoned(operation, bytes);
        self.bytes += bytes;
        let answer = tokio::spawn(answer);
        let began = Instant::now();
        self.going.push_back(RunningRequest {
            key,
            bytes,
            answer,
            shape,
            operation,
            began,
            _seat: seat,
        });
    }

    /// Records the size of a read's answer in bytes.
    pub fn brought(&mut self, bytes: usize) {
        self.read_bytes = bytes.max(self.read_bytes - self.read_bytes / 8);
    }

    /// Waits for the first request; forever if none is in flight. Cancel-safe.
    pub async fn first(&mut self) -> WindowAnswer {
        poll_fn(|context| self.poll_first(context)).await
    }

    /// Returns the reply of the first request, or `None` if it is not done.
    pub async fn done(&mut self) -> Option<WindowAnswer> {
        poll_fn(|context| {
            Poll::Ready(match self.poll_first(context) {
                Poll::Ready(answered) => Some(answered),
                Poll::Pending => None,
            })
        })
        .await
    }

    fn poll_first(&mut self, context: &mut Context<'_>) -> Poll<WindowAnswer> {
        let Some(first) = self.going.front_mut() else { return Poll::Pending };
        let Poll::Ready(ended) = Pin::new(&mut first.answer).poll(context) else {
            return Poll::Pending;
        };
        let Some(first) = self.going.pop_front() else { return Poll::Pending };
        self.bytes -= first.bytes;
        let RunningRequest { shape, operation, began, .. } = first;
        Poll::Ready(WindowAnswer {
            reply: ended.unwrap_or_else(broken_off),
            shape,
            operation,
            began,
        })
    }
}

/// Converts the failure of a task: a panic continues in the connection's own task.
fn broken_off(error: JoinError) -> Result<Reply> {
    match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => Err(Error::new(Reason::ShuttingDown, "the node is stopping")),
    }
}

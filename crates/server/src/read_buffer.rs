//! Read buffer of a connection: bytes that are not decoded yet, their memory budget, and timeouts.
//!
//! Promises: the buffer holds at most twice the bytes that have arrived, whatever length a request
//! claims; all large requests together stay within the front-ends' memory budget.

use crate::Shared;
use base::limits::{FRAME_BYTES_MAX, REQUEST_READ_MS_MAX};
use bytes::BytesMut;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;
use tls::Stream;
use tokio::io::AsyncReadExt;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep, timeout_at};

/// Size of one read in bytes, at first and at most. It doubles when a read fills it.
const READ_BYTES: (usize, usize) = (4 * 1024, 64 * 1024);
/// A slow client has `REQUEST_READ_MS_MAX` for each part of a request of this size.
const PART_BYTES: usize = 1024 * 1024;
/// Time for which a connection still reads when the server closes. A request that arrives within it
/// is answered with a refusal, because its client may have sent it before the close.
pub const CLOSE_GRACE_MS: u64 = 500;
/// Pause between two attempts to get memory that other requests hold.
const BUDGET_RETRY_MS: u64 = 5;

/// Requests of a connection as they arrive.
pub struct ReadBuffer {
    /// Bytes from the beginning of the next request on.
    pub input: BytesMut,
    read_bytes: usize,
    /// Share of the memory budget. `None`: the request fits into a usual buffer.
    share: Option<OwnedSemaphorePermit>,
    share_bytes: usize,
    /// Deadline of a half-sent request, and the length in bytes at which it is extended. `None`: no
    /// request has begun.
    part_deadline: Option<(Instant, usize)>,
    /// Maximum time without bytes between two requests. `None`: no maximum.
    idle: Option<Duration>,
    /// True if answers are still due to the client, so that it does not count as idle.
    pub expects_answers: bool,
    /// Time until which the client is still read from. `None`: the server is not closing.
    grace_end: Option<Instant>,
}

impl ReadBuffer {
    /// Begins with the bytes that were already read.
    pub fn new(first: BytesMut) -> ReadBuffer {
        ReadBuffer {
            input: first,
            read_bytes: READ_BYTES.0,
            share: None,
            share_bytes: 0,
            part_deadline: None,
            idle: None,
            expects_answers: false,
            grace_end: None,
        }
    }

    /// Returns true if the server is closing: later requests are refused, and the connection ends.
    pub fn is_closing(&self) -> bool {
        self.grace_end.is_some()
    }

    /// Sets the time in milliseconds after which an idle connection is closed. `None`: never.
    pub fn with_idle_timeout(self, idle_ms_max: Option<u64>) -> ReadBuffer {
        ReadBuffer { idle: idle_ms_max.map(Duration::from_millis), ..self }
    }

    /// Makes space for a request of this size. A request beyond a usual buffer acquires a share of
    /// the memory budget, and waits for it. Returns false if none became free in time. The buffer
    /// itself holds at most twice the bytes that have arrived.
    pub async fn reserve(&mut self, needed: usize, shared: &Shared) -> bool {
        let arrived = self.input.len();
        if self.share.is_some() && needed <= READ_BYTES.1 {
            self.release();
        }
        let usual_capacity = arrived + self.read_bytes;
        let capacity = if needed > READ_BYTES.1 {
            needed.min(2 * arrived).max(usual_capacity)
        } else {
            usual_capacity
        };
        if capacity > 2 * READ_BYTES.1
            && capacity > self.share_bytes
            && !self.acquire_share(capacity, shared).await
        {
            return false;
        }
        let spare = self.input.capacity() - arrived;
        if spare < self.read_bytes / 2 || self.input.capacity() < capacity {
            self.input.reserve(capacity - arrived);
        }
        true
    }

    /// Releases a large request's share and its buffer: the bytes behind the request move to a new
    /// buffer. Otherwise a silent connection would hold memory that no budget counts.
    fn release(&mut self) {
        (self.share, self.share_bytes) = (None, 0);
        self.input = BytesMut::from(&self.input[..]);
    }

    async fn acquire_share(&mut self, capacity: usize, shared: &Shared) -> bool {
        let deadline = Instant::now() + Duration::from_millis(REQUEST_READ_MS_MAX);
        // A vector at least doubles its capacity when it grows.
        let bytes = capacity.next_power_of_two().min(2 * FRAME_BYTES_MAX);
        while Instant::now() < deadline {
            // The old share is released first: two waiting requests could otherwise block each
            // other.
            self.share = None;
            if let Some(share) = shared.reserve(bytes) {
                (self.share, self.share_bytes) = (Some(share), bytes);
                return true;
            }
            sleep(Duration::from_millis(BUDGET_RETRY_MS)).await;
        }
        false
    }

    /// Reads available bytes. Returns false if the connection has ended, must end, or was too slow.
    /// `ended` resolves when it must end: true if the server closes, so that the client may still
    /// send for `CLOSE_GRACE_MS`.
    pub async fn read(
        &mut self,
        stream: &mut Stream,
        mut ended: Pin<&mut impl Future<Output = bool>>,
    ) -> bool {
        let arrived = self.input.len();
        self.part_deadline = match self.part_deadline {
            _ if arrived == 0 => None,
            Some((deadline, mark)) if arrived < mark => Some((deadline, mark)),
            _ => {
                let wait = Duration::from_millis(REQUEST_READ_MS_MAX);
                Some((Instant::now() + wait, arrived + PART_BYTES))
            }
        };
        let spare = self.input.capacity() - arrived;
        let until = match self.part_deadline {
            Some((deadline, _)) => Some(deadline),
            None if self.expects_answers => None,
            None => self.idle.map(|idle| Instant::now() + idle),
        };
        let read = loop {
            let until = [until, self.grace_end].into_iter().flatten().min();
            let read = stream.read_buf(&mut self.input);
            tokio::select! {
                biased;
                is_server_closing = ended.as_mut(), if self.grace_end.is_none() => {
                    if !is_server_closing {
                        return false;
                    }
                    self.grace_end = Some(Instant::now() + Duration::from_millis(CLOSE_GRACE_MS));
                }
                read = async move {
                    match until {
                        None => read.await.ok(),
                        Some(deadline) => timeout_at(deadline, read).await.ok()?.ok(),
                    }
                } => break read,
            }
        };
        if read == Some(spare) {
            self.read_bytes = (self.read_bytes * 2).min(READ_BYTES.1);
        }
        read.is_some_and(|bytes| bytes > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_buffer_shrinks_after_a_large_request() {
        let mut read_buffer = ReadBuffer::new(BytesMut::with_capacity(4 << 20));
        read_buffer.input.extend_from_slice(&vec![b'x'; 3 << 20]);
        read_buffer.input.extend_from_slice(b"PING");
        drop(read_buffer.input.split_to(3 << 20).freeze());
        read_buffer.release();
        assert_eq!(read_buffer.input, b"PING"[..]);
        // No other handle to the old buffer exists: `reserve` would reclaim a retained one.
        read_buffer.input.reserve(READ_BYTES.1);
        assert!(read_buffer.input.capacity() < 1 << 20, "{}", read_buffer.input.capacity());
    }
}

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
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep, timeout_at};

/// Size of one read in bytes, at first and at most. It doubles when a read fills it.
const READ_BYTES: (usize, usize) = (4 * 1024, 64 * 1024);
/// A slow client has `REQUEST_READ_MS_MAX` for each part of a request of this size.
const PATIENCE_BYTES: usize = 1024 * 1024;
/// Time for which a connection still reads when the server closes. A request that arrives within it
/// is answered with a refusal, because its client can't know that the server is closing.
pub const LAST_WORDS_MS: u64 = 500;
/// Pause between two attempts to get memory that other requests hold.
const ROOM_PAUSE_MS: u64 = 5;

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
    patience: Option<(Instant, usize)>,
    /// Maximum time without bytes between two requests. `None`: no maximum.
    idle: Option<Duration>,
    /// True if the client waits for answers, so that it does not count as idle.
    pub answers_follow: bool,
    /// Time until which the client is still read from. `None`: the server is not closing.
    last_words: Option<Instant>,
}

impl ReadBuffer {
    /// Begins with the bytes that were already read.
    pub fn new(first: BytesMut) -> ReadBuffer {
        ReadBuffer {
            input: first,
            read_bytes: READ_BYTES.0,
            share: None,
            share_bytes: 0,
            patience: None,
            idle: None,
            answers_follow: false,
            last_words: None,
        }
    }

    /// Returns true if the server is closing: later requests are refused, and the connection ends.
    pub fn is_last(&self) -> bool {
        self.last_words.is_some()
    }

    /// Sets the time in milliseconds after which an idle connection is closed. `None`: never.
    pub fn closing_idle(self, idle_ms_max: Option<u64>) -> ReadBuffer {
        ReadBuffer { idle: idle_ms_max.map(Duration::from_millis), ..self }
    }

    /// Makes space for a request of this size. A request beyond a usual buffer takes a share of the
    /// memory budget and waits for it. Returns false if none became free in time. The buffer itself
    /// holds at most twice the bytes that have arrived.
    pub async fn reserve(&mut self, needed: usize, shared: &Shared) -> bool {
        let arrived = self.input.len();
        if self.share.is_some() && needed <= READ_BYTES.1 {
            self.release();
        }
        let usual = arrived + self.read_bytes;
        let wanted = if needed > READ_BYTES.1 { needed.min(2 * arrived).max(usual) } else { usual };
        if wanted > 2 * READ_BYTES.1
            && wanted > self.share_bytes
            && !self.take_share(wanted, shared).await
        {
            return false;
        }
        let spare = self.input.capacity() - arrived;
        if spare < self.read_bytes / 2 || self.input.capacity() < wanted {
            self.input.reserve(wanted - arrived);
        }
        true
    }

    /// Gives a large request's share back, and frees its buffer: the bytes behind the request move
    /// to a new buffer. Otherwise a silent connection would keep memory that no budget counts.
    fn release(&mut self) {
        (self.share, self.share_bytes) = (None, 0);
        self.input = BytesMut::from(&self.input[..]);
    }

    async fn take_share(&mut self, wanted: usize, shared: &Shared) -> bool {
        let deadline = Instant::now() + Duration::from_millis(REQUEST_READ_MS_MAX);
        // A vector at least doubles its capacity when it grows.
        let bytes = wanted.next_power_of_two().min(2 * FRAME_BYTES_MAX);
        while Instant::now() < deadline {
            // The old share is released first: two waiting requests could otherwise block each
            // other.
            self.share = None;
            if let Some(share) = shared.reserve(bytes) {
                (self.share, self.share_bytes) = (Some(share), bytes);
                return true;
            }
            sleep(Duration::from_millis(ROOM_PAUSE_MS)).await;
        }
        false
    }

    /// Reads available bytes. Returns false if the connection has ended, must end, or was too slow.
    /// `ended` resolves when it must end: true if the server closes, so that the client may still
    /// send for `LAST_WORDS_MS`.
    pub async fn read(
        &mut self,
        stream: &mut TcpStream,
        mut ended: Pin<&mut impl Future<Output = bool>>,
    ) -> bool {
        let arrived = self.input.len();
        self.patience = match self.patience {
            _ if arrived == 0 => None,
            Some((deadline, mark)) if arrived < mark => Some((deadline, mark)),
            _ => {
                let wait = Duration::from_millis(REQUEST_READ_MS_MAX);
                Some((Instant::now() + wait, arrived + PATIENCE_BYTES))
            }
        };
        let spare = self.input.capacity() - arrived;
        let until = match self.patience {
            Some((deadline, _)) => Some(deadline),
            None if self.answers_follow => None,
            None => self.idle.map(|idle| Instant::now() + idle),
        };
        let read = loop {
            let until = [until, self.last_words].into_iter().flatten().min();
            let read = stream.read_buf(&mut self.input);
            tokio::select! {
                biased;
                may_speak = ended.as_mut(), if self.last_words.is_none() => {
                    if !may_speak {
                        return false;
                    }
                    self.last_words = Some(Instant::now() + Duration::from_millis(LAST_WORDS_MS));
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
    fn the_buffer_of_a_large_request_goes_with_its_share() {
        let mut read_buffer = ReadBuffer::new(BytesMut::with_capacity(4 << 20));
        read_buffer.input.extend_from_slice(&vec![b'x'; 3 << 20]);
        read_buffer.input.extend_from_slice(b"PING");
        drop(read_buffer.input.split_to(3 << 20).freeze());
        read_buffer.release();
        assert_eq!(read_buffer.input, b"PING"[..]);
        // No other handle to the old buffer exists: had it been kept, `reserve` would reclaim it.
        read_buffer.input.reserve(READ_BYTES.1);
        assert!(read_buffer.input.capacity() < 1 << 20, "{}", read_buffer.input.capacity());
    }
}

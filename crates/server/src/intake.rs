//! Read buffer of a connection: bytes that are not decoded yet, their memory budget, and timeouts.
//!
//! Promises: the buffer never has more than twice what has arrived, whatever a request claims; all
//! large requests together stay within the front-ends' memory for them.

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

/// What is read at once, at first and at most; it doubles when a read fills it.
const READ_BYTES: (usize, usize) = (4 * 1024, 64 * 1024);
/// A slow client has `REQUEST_READ_MS_MAX` for each piece of a request of this size.
const PATIENCE_BYTES: usize = 1024 * 1024;
/// How long a connection goes on listening when the server closes: what a client says meanwhile is
/// answered, for it can't know that nobody hears it.
pub const LAST_WORDS_MS: u64 = 500;
/// How long a wait for memory of other requests lasts before it is looked at again.
const ROOM_PAUSE_MS: u64 = 5;

/// The requests of a connection as they arrive.
pub struct Intake {
    /// Begins where the next request begins.
    pub input: BytesMut,
    read_bytes: usize,
    /// Whole requests larger than a usual buffer hold a share of the memory for them.
    share: Option<OwnedSemaphorePermit>,
    share_bytes: usize,
    /// Until when a half-sent request may take, and from which length on it gets more time.
    patience: Option<(Instant, usize)>,
    /// How long a client may say nothing between two requests; none: for ever.
    idle: Option<Duration>,
    /// A client that waits for answers is not idle.
    pub answers_follow: bool,
    /// The server closes: until when the client is listened to.
    last_words: Option<Instant>,
}

impl Intake {
    /// With what was already read.
    pub fn new(first: BytesMut) -> Intake {
        Intake {
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

    /// Whether the server closes: what is read from now on is refused, and the connection ends.
    pub fn is_last(&self) -> bool {
        self.last_words.is_some()
    }

    /// Closes a connection that says nothing between two requests for so long.
    pub fn closing_idle(self, idle_ms_max: Option<u64>) -> Intake {
        Intake { idle: idle_ms_max.map(Duration::from_millis), ..self }
    }

    /// Room for a request of this size. What outgrows a usual buffer takes a share of the memory
    /// that is meant for such, and waits for it; `false` when none became free. The buffer itself
    /// never has more than twice what has arrived.
    pub async fn take_room(&mut self, needed: usize, shared: &Shared) -> bool {
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

    /// Gives a large request's share back, and its buffer with it: what is behind the request moves
    /// to a buffer of its own, or a silent connection would keep memory that nobody counts.
    fn release(&mut self) {
        (self.share, self.share_bytes) = (None, 0);
        self.input = BytesMut::from(&self.input[..]);
    }

    async fn take_share(&mut self, wanted: usize, shared: &Shared) -> bool {
        let deadline = Instant::now() + Duration::from_millis(REQUEST_READ_MS_MAX);
        // A vector grows to twice its size at least.
        let bytes = wanted.next_power_of_two().min(2 * FRAME_BYTES_MAX);
        while Instant::now() < deadline {
            // The old share goes first, or two waiting requests could hold what each needs.
            self.share = None;
            if let Some(share) = shared.reserve(bytes) {
                (self.share, self.share_bytes) = (Some(share), bytes);
                return true;
            }
            sleep(Duration::from_millis(ROOM_PAUSE_MS)).await;
        }
        false
    }

    /// Reads what there is; `false` when the connection has ended, is told to end, or was too slow.
    /// `ended` tells it to end, and whether the client is listened to for its last words.
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
        let mut intake = Intake::new(BytesMut::with_capacity(4 << 20));
        intake.input.extend_from_slice(&vec![b'x'; 3 << 20]);
        intake.input.extend_from_slice(b"PING");
        drop(intake.input.split_to(3 << 20).freeze());
        intake.release();
        assert_eq!(intake.input, b"PING"[..]);
        // Nobody else has the old buffer: were it kept, it would be had again.
        intake.input.reserve(READ_BYTES.1);
        assert!(intake.input.capacity() < 1 << 20, "{}", intake.input.capacity());
    }
}

//! Memory for what one connection holds: an answer that it is about to say, the commands of a
//! transaction, and a large request that is still being read.
//!
//! A connection says what it has before it asks for more, so it holds one large answer at a time.
//! But many connections together, whose clients take theirs slowly, would hold as many. So what
//! outgrows a usual buffer counts against the memory that all connections share, until it is sent;
//! and so do queued commands until they run.

use crate::Shared;
use base::{Error, Reason};
use tokio::sync::OwnedSemaphorePermit;

/// A share grows by so much at a time.
const STEP_BYTES: usize = 64 * 1024;

/// The share of one connection: so many bytes it may hold without.
#[derive(Debug, Default)]
pub struct Room<const FREE_BYTES: usize> {
    share: Option<OwnedSemaphorePermit>,
    bytes: usize,
}

/// For what it is about to say.
pub type AnswerRoom = Room<{ 1024 * 1024 }>;
/// For a request that is on its way.
pub type InputRoom = Room<{ 64 * 1024 }>;
/// For commands that wait: a client may leave them for as long as it likes.
pub type QueueRoom = Room<{ 64 * 1024 }>;

impl<const FREE_BYTES: usize> Room<FREE_BYTES> {
    /// Whether there is room for so many bytes; they count until `release`.
    #[inline]
    pub fn holds(&mut self, bytes: usize, shared: &Shared) -> bool {
        bytes <= FREE_BYTES.max(self.bytes) || self.grow(bytes, shared)
    }

    #[cold]
    fn grow(&mut self, bytes: usize, shared: &Shared) -> bool {
        let bytes = bytes.next_multiple_of(STEP_BYTES);
        let Some(more) = shared.reserve(bytes - self.bytes) else { return false };
        match &mut self.share {
            Some(share) => share.merge(more),
            None => self.share = Some(more),
        }
        self.bytes = bytes;
        true
    }

    /// Everything is sent.
    #[inline]
    pub fn release(&mut self) {
        if self.share.is_some() {
            *self = Room::default();
        }
    }
}

/// What is said instead of an answer for which there is no room, where nothing was changed.
pub fn overloaded() -> Error {
    let text = "too many large answers are on their way (buffer_bytes_max): ask for less at a \
                time, or later";
    Error::new(Reason::Overloaded, text)
}

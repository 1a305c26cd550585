//! Buffer memory of one connection: an answer that it is about to say, the commands of a
//! transaction, or a large request that is still being read.
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

/// Share of the common buffer memory (`buffer_bytes_max`) that one connection holds for one
/// purpose. Up to `FREE_BYTES` it holds without a share.
#[derive(Debug, Default)]
pub struct BufferRoom<const FREE_BYTES: usize> {
    share: Option<OwnedSemaphorePermit>,
    bytes: usize,
}

/// Room for what a connection is about to say.
pub type AnswerRoom = BufferRoom<{ 1024 * 1024 }>;
/// Room for a request that is on its way.
pub type InputRoom = BufferRoom<{ 64 * 1024 }>;
/// Room for commands that wait: a client may leave them for as long as it likes.
pub type QueueRoom = BufferRoom<{ 64 * 1024 }>;

impl<const FREE_BYTES: usize> BufferRoom<FREE_BYTES> {
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
            *self = BufferRoom::default();
        }
    }
}

/// What is said instead of an answer for which there is no room, where nothing was changed.
pub fn overloaded() -> Error {
    let text = "too many large answers are on their way (buffer_bytes_max): ask for less at a \
                time, or later";
    Error::new(Reason::Overloaded, text)
}

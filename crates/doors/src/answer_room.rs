//! Memory for what one connection is about to say.
//!
//! A connection says what it has before it asks for more, so it holds one large answer at a time.
//! But many connections together, whose clients take theirs slowly, would hold as many. So what
//! outgrows a usual buffer counts against the memory that all connections share, until it is sent.

use crate::Shared;
use base::{Error, Reason};
use tokio::sync::OwnedSemaphorePermit;

/// So much every connection may hold by itself.
const FREE_BYTES: usize = 1024 * 1024;

/// The share of one connection.
#[derive(Default)]
pub struct AnswerRoom {
    share: Option<OwnedSemaphorePermit>,
    bytes: usize,
}

impl AnswerRoom {
    /// Whether there is room for so many bytes; they count until `release`.
    #[inline]
    pub fn holds(&mut self, bytes: usize, shared: &Shared) -> bool {
        bytes <= FREE_BYTES.max(self.bytes) || self.grow(bytes, shared)
    }

    #[cold]
    fn grow(&mut self, bytes: usize, shared: &Shared) -> bool {
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
            *self = AnswerRoom::default();
        }
    }
}

/// What is said instead of an answer for which there is no room, where nothing was changed.
pub fn overloaded() -> Error {
    let text = "too many large answers are on their way (buffer_bytes_max): ask for less at a \
                time, or later";
    Error::new(Reason::Overloaded, text)
}

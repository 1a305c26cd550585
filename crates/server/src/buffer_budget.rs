//! Buffer memory of one connection: an answer to be sent, the commands of a transaction, or a large
//! request that is still being read.
//!
//! A connection sends its answers before it reads more, so it holds at most one large answer. But
//! many connections with slow clients hold many. So memory beyond a usual buffer counts against the
//! budget that all connections share, until the answer is sent or the queued commands run.

use crate::Shared;
use base::{Error, Reason};
use tokio::sync::OwnedSemaphorePermit;

/// Granularity by which a share of the common memory grows.
const STEP_BYTES: usize = 64 * 1024;

/// Share of the common buffer memory (`buffer_bytes_max`) that one connection holds for one
/// purpose. The first `FREE_BYTES` need no share.
#[derive(Debug, Default)]
pub struct BufferBudget<const FREE_BYTES: usize> {
    share: Option<OwnedSemaphorePermit>,
    bytes: usize,
}

/// Memory for the answers that a connection is about to send.
pub type AnswerBudget = BufferBudget<{ 1024 * 1024 }>;
/// Memory for a request that is still arriving.
pub type InputBudget = BufferBudget<{ 64 * 1024 }>;
/// Memory for queued commands, which a client may leave queued without a time limit.
pub type QueueBudget = BufferBudget<{ 64 * 1024 }>;

impl<const FREE_BYTES: usize> BufferBudget<FREE_BYTES> {
    /// Returns true if the connection may hold this many bytes. They count until `release`.
    #[inline]
    pub fn try_reserve(&mut self, bytes: usize, shared: &Shared) -> bool {
        bytes <= FREE_BYTES.max(self.bytes) || self.grow(bytes, shared)
    }

    #[cold]
    fn grow(&mut self, bytes: usize, shared: &Shared) -> bool {
        let bytes = bytes.next_multiple_of(STEP_BYTES);
        let Some(added) = shared.reserve(bytes - self.bytes) else { return false };
        match &mut self.share {
            Some(share) => share.merge(added),
            None => self.share = Some(added),
        }
        self.bytes = bytes;
        true
    }

    /// Releases the share: the bytes were sent or dropped.
    #[inline]
    pub fn release(&mut self) {
        if self.share.is_some() {
            *self = BufferBudget::default();
        }
    }
}

/// Returns the error for an answer that does not fit into the common buffer memory. The request
/// must not have changed anything.
pub fn overloaded() -> Error {
    let text = "too many large answers are in progress (buffer_bytes_max): ask for less at a time, \
                or try again later";
    Error::new(Reason::Overloaded, text)
}

//! Buffer memory of one connection: an answer to be sent, the commands of a transaction, or a large
//! request that is still being read.
//!
//! A connection sends its answers before it reads more, so it holds at most one large answer. But
//! many connections with slow clients hold many. So memory beyond a usual buffer counts against the
//! budget that all connections share, until the answer is sent or the queued commands run.
//!
//! An answer is counted before it is encoded: [`reply_bytes`] sizes the node's reply. So an answer
//! for which there is no memory is never built.

use crate::Shared;
use base::wire::answer_bytes;
use base::{Body, Error, Outcome, Reason, Reply, Result};
use tokio::sync::OwnedSemaphorePermit;

/// Bytes of a usual buffer, which need no share.
pub const FREE_BYTES: usize = 64 * 1024;
/// Granularity by which a share of the common memory grows.
const STEP_BYTES: usize = 64 * 1024;

/// Share of the common buffer memory (`buffer_bytes_max`) that one connection holds for one
/// purpose. The first `FREE_BYTES` need no share.
#[derive(Debug, Default)]
pub struct BufferBudget {
    share: Option<OwnedSemaphorePermit>,
    bytes: usize,
}

impl BufferBudget {
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

/// Returns the size in bytes of the keys and values in a reply. Small replies, the most frequent
/// ones, count as 0.
#[inline]
pub fn reply_bytes(reply: &Result<Reply>) -> usize {
    match reply {
        Ok(Reply { body: Body::Row(row), .. }) => row.as_ref().map_or(0, |row| row.value.len()),
        Ok(Reply { body: Body::Done | Body::Count(_), .. }) | Err(_) => 0,
        Ok(Reply { body: Body::Updated(outcome), .. }) if !holds_values(outcome) => 0,
        reply => answer_bytes(reply),
    }
}

/// Returns true if an outcome may hold values.
#[inline]
fn holds_values(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Done
        | Outcome::Applied(_)
        | Outcome::Existed(_)
        | Outcome::Count(_)
        | Outcome::Number(_)
        | Outcome::Length(_)
        | Outcome::AppliedAt(_) => false,
        Outcome::Old(old) | Outcome::Swapped { old, .. } => old.is_some(),
        Outcome::Text(_) | Outcome::Read(_) | Outcome::Steps(_) => true,
    }
}

/// Returns the error for an answer that does not fit into the common buffer memory. The request
/// must not have changed anything.
pub fn overloaded() -> Error {
    let text = "too many large answers are in progress (buffer_bytes_max): ask for less at a time, \
                or try again later";
    Error::new(Reason::Overloaded, text)
}

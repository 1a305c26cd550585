//! Memory for answers that are gathered away from the client's connection, and for those that go to
//! other nodes.
//!
//! A connection holds one answer at a time, and its front-end counts that. An answer that is
//! gathered on a thread of its own uses memory in addition, until the connection takes it. So it
//! reserves as much memory as it may need before it begins, and waits in a queue if there is none.

use base::limits::{
    ANSWER_BYTES_MAX, FEED_PAGE_BYTES_MAX, FORWARD_MS_MAX, GATHERED_BYTES_MIN, PAGE_BYTES_MAX,
    VALUE_BYTES_MAX, VALUES_BYTES_MAX, WHOLE_RANGE_BYTES_MAX,
};
use base::range::Extent;
use base::{Error, Read, Reason, Result};
use runtime::world::timeout;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Unit in which memory is counted.
const UNIT_BYTES: usize = 1024;
/// The pool is the store's memory divided by this, or `GATHERED_BYTES_MIN`. It is not part of the
/// store's memory.
const MEMORY_FRACTION: u64 = 4;

/// Memory for large answers; see the head of this file.
pub(crate) struct Answers(Arc<Semaphore>);

/// Permit for an answer's memory, held until the answer is sent.
pub(crate) type MemoryPermit = Option<OwnedSemaphorePermit>;

impl Answers {
    /// Sizes the pool for a node whose store has `memory_bytes_max` bytes of memory.
    pub(crate) fn new(memory_bytes_max: u64) -> Answers {
        let bytes = usize::try_from(memory_bytes_max / MEMORY_FRACTION).unwrap_or(usize::MAX);
        let units = bytes.max(GATHERED_BYTES_MIN) / UNIT_BYTES;
        Answers(Arc::new(Semaphore::new(units.min(Semaphore::MAX_PERMITS))))
    }

    /// Reserves memory for `bytes` bytes. `Overloaded` if none becomes free in `FORWARD_MS_MAX`.
    pub(crate) async fn reserve(&self, bytes: usize) -> Result<MemoryPermit> {
        let Some(units) = units(bytes) else { return Ok(None) };
        let acquire = self.0.clone().acquire_many_owned(units);
        match timeout(Duration::from_millis(FORWARD_MS_MAX), acquire).await {
            Some(Ok(permit)) => Ok(Some(permit)),
            _ => Err(overloaded()),
        }
    }

    /// Reserves memory for `bytes` bytes if it is free now; otherwise `Overloaded`.
    pub(crate) fn try_reserve(&self, bytes: usize) -> Result<MemoryPermit> {
        let Some(units) = units(bytes) else { return Ok(None) };
        self.0.clone().try_acquire_many_owned(units).map(Some).map_err(|_| overloaded())
    }
}

/// Converts bytes into units of memory. `None` for 0 bytes, which need no permit.
fn units(bytes: usize) -> Option<u32> {
    u32::try_from(bytes.div_ceil(UNIT_BYTES)).ok().filter(|units| *units > 0)
}

fn overloaded() -> Error {
    let text = "nothing was done: too many large answers are in progress: retry later, or ask for \
                less at a time";
    Error::new(Reason::Overloaded, text)
}

/// Returns the maximum length of the answer to a read.
pub(crate) fn read_answer_bytes_max(read: &Read) -> usize {
    match read {
        Read::Get(_) => VALUE_BYTES_MAX,
        Read::MultiGet(keys) | Read::MultiGetAll(keys) => {
            keys.len().saturating_mul(VALUE_BYTES_MAX).min(VALUES_BYTES_MAX)
        }
        Read::Range(range) => match range.extent {
            Extent::Whole => WHOLE_RANGE_BYTES_MAX,
            // The page ends after the row that fills it.
            Extent::Page => range.bytes_max.unwrap_or(PAGE_BYTES_MAX).min(PAGE_BYTES_MAX),
        },
        // As a page of a range.
        Read::Index(_) => PAGE_BYTES_MAX,
        // The page ends after the event that fills it.
        Read::Feed(_) => FEED_PAGE_BYTES_MAX,
        // At most 16 bytes for a key, and the request held the key.
        Read::KeyVersions(_) => 0,
        Read::Exists(_) | Read::KeyCount | Read::Assert { .. } | Read::AssertExists(_) => 0,
    }
}

/// Returns the maximum length of the answer to a sequence.
pub(crate) fn steps_answer_bytes_max(may_return_values: bool) -> usize {
    if may_return_values { ANSWER_BYTES_MAX } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn gathered_answer_waits_for_memory_in_fifo_order() {
        let answers = Answers::new(0);
        let first = answers.reserve(GATHERED_BYTES_MIN - UNIT_BYTES).await.expect("all is free");
        assert!(answers.try_reserve(UNIT_BYTES).expect("so much is left").is_some());
        let refused = answers.try_reserve(2 * UNIT_BYTES).expect_err("there is no room");
        assert_eq!(refused.reason, Reason::Overloaded);
        let mut second = Box::pin(answers.reserve(2 * UNIT_BYTES));
        let waiting = tokio::time::timeout(Duration::from_millis(20), &mut second).await;
        assert!(waiting.is_err(), "it waits");
        assert!(answers.try_reserve(UNIT_BYTES).is_err(), "whoever came before goes first");
        assert!(answers.reserve(0).await.expect("nothing needs no room").is_none());
        drop(first);
        assert!(second.await.expect("its turn").is_some());
        let large = Answers::new(1 << 30);
        let quarter = large.try_reserve(1 << 28).expect("a quarter of the store's memory");
        assert!(quarter.is_some() && large.try_reserve(UNIT_BYTES).is_err());
    }
}

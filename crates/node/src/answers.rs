//! Memory for answers that are gathered away from the client's connection, and for those that go to
//! other nodes.
//!
//! A connection holds one answer at a time, and its front-end counts that. An answer that is
//! gathered on a thread of its own uses memory in addition, until the connection takes it. So it
//! reserves as much memory as it may need before it begins, and waits in a queue if there is none.

use base::limits::{
    ANSWER_BYTES_MAX, FORWARD_MS_MAX, GATHERED_BYTES_MIN, PAGE_BYTES_MAX, VALUE_BYTES_MAX,
    VALUES_BYTES_MAX, WHOLE_RANGE_BYTES_MAX,
};
use base::range::Extent;
use base::{Error, Read, Reason, Result};
use runtime::world::timeout;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// In which bytes are counted.
const UNIT_BYTES: usize = 1024;
/// Answers take this part of the store's memory, on top of it, or `GATHERED_BYTES_MIN`.
const PART: u64 = 4;

/// See the head of this file.
pub(crate) struct Answers(Arc<Semaphore>);

/// Held as long as the answer is.
pub(crate) type MemoryPermit = Option<OwnedSemaphorePermit>;

impl Answers {
    /// Sizes the pool for a node whose store has so much memory.
    pub(crate) fn new(memory_bytes_max: u64) -> Answers {
        let bytes = usize::try_from(memory_bytes_max / PART).unwrap_or(usize::MAX);
        let units = bytes.max(GATHERED_BYTES_MIN) / UNIT_BYTES;
        Answers(Arc::new(Semaphore::new(units.min(Semaphore::MAX_PERMITS))))
    }

    /// Reserves memory for so many bytes. `Overloaded` if none becomes free in `FORWARD_MS_MAX`.
    pub(crate) async fn room(&self, bytes: usize) -> Result<MemoryPermit> {
        let Some(units) = units(bytes) else { return Ok(None) };
        let taking = self.0.clone().acquire_many_owned(units);
        match timeout(Duration::from_millis(FORWARD_MS_MAX), taking).await {
            Some(Ok(room)) => Ok(Some(room)),
            _ => Err(overloaded()),
        }
    }

    /// Reserves memory for so many bytes, if it is free now.
    pub(crate) fn room_now(&self, bytes: usize) -> Result<MemoryPermit> {
        let Some(units) = units(bytes) else { return Ok(None) };
        self.0.clone().try_acquire_many_owned(units).map(Some).map_err(|_| overloaded())
    }
}

/// Converts bytes into units of memory. `None` for 0 bytes, which need no permit.
fn units(bytes: usize) -> Option<u32> {
    u32::try_from(bytes.div_ceil(UNIT_BYTES)).ok().filter(|units| *units > 0)
}

fn overloaded() -> Error {
    let text = "nothing was done: too many large answers are being gathered: retry later, or ask \
                for less at a time";
    Error::new(Reason::Overloaded, text)
}

/// The most that a read may be answered with.
pub(crate) fn bytes_of_read(read: &Read) -> usize {
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
        Read::Exists(_) | Read::KeyCount | Read::Assert { .. } | Read::AssertExists(_) => 0,
    }
}

/// The most that a sequence may be answered with.
pub(crate) fn bytes_of_steps(brings_values: bool) -> usize {
    if brings_values { ANSWER_BYTES_MAX } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_gathered_waits_for_room_in_line() {
        let answers = Answers::new(0);
        let first = answers.room(GATHERED_BYTES_MIN - UNIT_BYTES).await.expect("all is free");
        assert!(answers.room_now(UNIT_BYTES).expect("so much is left").is_some());
        let refused = answers.room_now(2 * UNIT_BYTES).expect_err("there is no room");
        assert_eq!(refused.reason, Reason::Overloaded);
        let mut second = Box::pin(answers.room(2 * UNIT_BYTES));
        let waits = tokio::time::timeout(Duration::from_millis(20), &mut second).await;
        assert!(waits.is_err(), "it waits");
        assert!(answers.room_now(UNIT_BYTES).is_err(), "whoever came before goes first");
        assert!(answers.room(0).await.expect("nothing needs no room").is_none());
        drop(first);
        assert!(second.await.expect("its turn").is_some());
        let large = Answers::new(1 << 30);
        let quarter = large.room_now(1 << 28).expect("a quarter of the store's memory");
        assert!(quarter.is_some() && large.room_now(UNIT_BYTES).is_err());
    }
}

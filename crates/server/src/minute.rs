//! Count of events in the last minute.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const SECONDS: u64 = 60;

/// Counter per second of the last minute: the Unix second (40 bits), and the count (24 bits).
pub struct MinuteCounter([AtomicU64; SECONDS as usize]);

impl Default for MinuteCounter {
    fn default() -> MinuteCounter {
        MinuteCounter(array::from_fn(|_| 0.into()))
    }
}

const COUNT_BITS: u32 = 24;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;

impl MinuteCounter {
    /// Counts an event in this second.
    pub fn record(&self, second: u64) {
        let slot = &self.0[(second % SECONDS) as usize];
        let _ = slot.fetch_update(Relaxed, Relaxed, |packed| {
            let count = if packed >> COUNT_BITS == second { packed & COUNT_MAX } else { 0 };
            Some(second << COUNT_BITS | (count + 1).min(COUNT_MAX))
        });
    }

    /// Returns the number of events in the minute that ends with this second.
    pub fn sum(&self, second: u64) -> u64 {
        let recent = |slot: &AtomicU64| {
            let packed = slot.load(Relaxed);
            let age = second.checked_sub(packed >> COUNT_BITS);
            if age.is_some_and(|age| age < SECONDS) { packed & COUNT_MAX } else { 0 }
        };
        self.0.iter().map(recent).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_older_than_a_minute_are_not_counted() {
        let minute = MinuteCounter::default();
        for second in [1_000, 1_000, 1_001, 1_059] {
            minute.record(second);
        }
        assert_eq!([1_059, 1_060, 1_061, 1_118, 1_119].map(|at| minute.sum(at)), [4, 2, 1, 1, 0]);
        minute.record(1_060);
        assert_eq!(minute.sum(1_060), 3, "a slot is used again for another second");
    }
}

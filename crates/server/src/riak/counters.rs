//! Counters of answers to Riak's clients, which no other front-end needs.

use crate::minute::MinuteCounter;
use base::datatype::{FieldKind, TypeOperation};
use base::{AvailableCall, Body, Call, Error, Reply, Request};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Upper bounds of the histogram of sibling counts.
const SIBLINGS: &[u64] = &[1, 2, 3, 5, 10, 25, 50, 100, 250, 1_000];
/// Upper bounds of the histogram of sizes in bytes.
const BYTES: &[u64] = &[
    0, 64, 128, 256, 512, 1_024, 2_048, 4_096, 8_192, 16_384, 32_768, 65_536, 131_072, 262_144,
    524_288, 1_048_576, 2_097_152, 4_194_304, 8_388_608,
];
/// Data types that are counted separately.
const KINDS: [FieldKind; 5] =
    [FieldKind::Counter, FieldKind::Set, FieldKind::Map, FieldKind::Hll, FieldKind::Gset];

/// Distribution of numbers, to the resolution of its bounds.
pub(crate) struct Histogram {
    bounds: &'static [u64],
    /// Count per bound, and one more for numbers beyond the last.
    counts: Vec<AtomicU64>,
    sum: AtomicU64,
    max: AtomicU64,
}

impl Histogram {
    fn new(bounds: &'static [u64]) -> Histogram {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { bounds, counts, sum: 0.into(), max: 0.into() }
    }

    pub(super) fn record(&self, number: u64) {
        self.counts[self.bounds.partition_point(|bound| *bound < number)].fetch_add(1, Relaxed);
        self.sum.fetch_add(number, Relaxed);
        self.max.fetch_max(number, Relaxed);
    }

    /// Returns each statistic with the suffix of its name. A percentile is the upper bound of its
    /// bucket.
    pub(super) fn statistics(&self) -> [(&'static str, u64); 5] {
        let counts: Vec<u64> = self.counts.iter().map(|count| count.load(Relaxed)).collect();
        let (total, max) = (counts.iter().sum::<u64>(), self.max.load(Relaxed));
        let percentile = |percent: u64| {
            let (rank, mut below) = ((total * percent).div_ceil(100), 0);
            let bucket = counts.iter().position(|count| {
                below += count;
                below >= rank
            });
            bucket.and_then(|bucket| self.bounds.get(bucket)).map_or(max, |bound| max.min(*bound))
        };
        [
            ("mean", self.sum.load(Relaxed).checked_div(total).unwrap_or(0)),
            ("median", percentile(50)),
            ("95", percentile(95)),
            ("99", percentile(99)),
            ("100", max),
        ]
    }
}

/// Event counter: total since the start, and number in the last minute.
#[derive(Default)]
pub(crate) struct MinuteRate {
    total: AtomicU64,
    minute: MinuteCounter,
}

impl MinuteRate {
    pub(super) fn record(&self, second: u64) {
        self.total.fetch_add(1, Relaxed);
        self.minute.record(second);
    }

    pub(super) fn total(&self) -> u64 {
        self.total.load(Relaxed)
    }

    pub(super) fn last_minute(&self, second: u64) -> u64 {
        self.minute.sum(second)
    }
}

/// Past values of a counter of another module, to compute its growth in the last minute.
#[derive(Default)]
pub(crate) struct CounterHistory(Mutex<VecDeque<(u64, u64)>>);

impl CounterHistory {
    /// Records the total at this second. Returns its growth in the last minute: exact if called
    /// more than once a minute, else the average since the last call.
    pub(super) fn last_minute(&self, second: u64, total: u64) -> u64 {
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.back().is_none_or(|(last, _)| *last < second) {
            samples.push_back((second, total));
        }
        while samples.get(1).is_some_and(|(next, _)| next + 60 <= second) {
            samples.pop_front();
        }
        let (first_second, first_total) = samples.front().copied().unwrap_or((second, total));
        let (growth, seconds) =
            (total.saturating_sub(first_total), second.saturating_sub(first_second));
        growth * 60 / seconds.max(60)
    }
}

/// All counters of this front-end.
pub(crate) struct RiakCounters {
    /// Number of values per key read.
    pub(super) siblings: Histogram,
    /// Bytes of a key's values together.
    pub(super) bytes: Histogram,
    gets: [MinuteRate; KINDS.len()],
    puts: [MinuteRate; KINDS.len()],
    /// Number of lists in progress.
    pub(super) lists_active: AtomicU64,
    pub(super) lists: MinuteRate,
    pub(super) lists_failed: MinuteRate,
    pub(super) repairs: CounterHistory,
}

impl Default for RiakCounters {
    fn default() -> RiakCounters {
        RiakCounters {
            siblings: Histogram::new(SIBLINGS),
            bytes: Histogram::new(BYTES),
            gets: Default::default(),
            puts: Default::default(),
            lists_active: 0.into(),
            lists: MinuteRate::default(),
            lists_failed: MinuteRate::default(),
            repairs: CounterHistory::default(),
        }
    }
}

/// Guard that counts a list as in progress until it is dropped.
pub(crate) struct ActiveList<'a>(&'a AtomicU64);

impl Drop for ActiveList<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl RiakCounters {
    /// Counts an answer; for a read also the values in it.
    pub(super) fn record_answer(
        &self,
        is_read: bool,
        is_name_list: bool,
        reply: &Result<Reply, Error>,
        second: u64,
    ) {
        if is_name_list && reply.is_err() {
            self.lists_failed.record(second);
        }
        let Ok(reply) = reply else { return };
        match &reply.body {
            Body::Siblings(found) if is_read && !found.values.is_empty() => {
                let bytes = found.values.iter().map(|value| value.content.value.len() as u64);
                self.siblings.record(found.values.len() as u64);
                self.bytes.record(bytes.sum());
            }
            Body::Typed(found) if is_read => {
                let index = KINDS.iter().position(|kind| *kind == found.kind);
                index.into_iter().for_each(|position| self.gets[position].record(second));
            }
            _ => {}
        }
    }

    /// Counts a request and returns true if it is a read. Only changes of counters and maps imply
    /// their data type: sets, grow-only sets and HyperLogLogs have the same operations.
    pub(super) fn count_request(&self, request: &Request, second: u64) -> bool {
        match &request.call {
            Call::Available(AvailableCall::Change(change)) => match change.operation {
                TypeOperation::Add(_) => self.puts[0].record(second),
                TypeOperation::Fields(_) => self.puts[2].record(second),
                _ => {}
            },
            Call::Available(AvailableCall::Fetch { .. } | AvailableCall::FetchType { .. }) => {
                return true;
            }
            _ => {}
        }
        false
    }

    /// Counts a list of names, as in progress until the returned guard is dropped.
    pub(super) fn begin_list(&self, is_name_list: bool, second: u64) -> Option<ActiveList<'_>> {
        if !is_name_list {
            return None;
        }
        self.lists.record(second);
        self.lists_active.fetch_add(1, Relaxed);
        Some(ActiveList(&self.lists_active))
    }

    /// Returns the counters of data types: `gets` or `puts`, the data type, and the counter.
    pub(super) fn type_counters(
        &self,
    ) -> impl Iterator<Item = (&'static str, &'static str, &MinuteRate)> {
        let gets = KINDS.iter().zip(&self.gets).map(|(kind, rate)| ("gets", kind.name(), rate));
        let puts = KINDS.iter().zip(&self.puts).map(|(kind, rate)| ("puts", kind.name(), rate));
        // Changes of the other types can't be distinguished, so they are left out.
        gets.chain(puts.filter(|(_, kind, _)| ["counter", "map"].contains(kind)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_reports_percentile_bounds_and_exact_mean_and_maximum() {
        let histogram = Histogram::new(SIBLINGS);
        assert!(histogram.statistics().iter().all(|(_, number)| *number == 0));
        (0..98).for_each(|_| histogram.record(1));
        [4, 2_000].into_iter().for_each(|number| histogram.record(number));
        let reported = histogram.statistics().map(|(_, number)| number);
        assert_eq!(reported, [(98 + 4 + 2_000) / 100, 1, 1, 5, 2_000]);
    }

    #[test]
    fn last_minute_growth_is_exact_or_averaged_since_last_call() {
        let past = CounterHistory::default();
        assert_eq!(past.last_minute(1_000, 7), 0, "who never asked knows nothing of before");
        assert_eq!(past.last_minute(1_030, 10), 3);
        assert_eq!(past.last_minute(1_060, 11), 4);
        assert_eq!(past.last_minute(1_090, 11), 1);
        assert_eq!(past.last_minute(1_390, 61), 10, "fifty in five minutes");
        for second in 2_000..2_500 {
            past.last_minute(second, second);
        }
        let kept = past.0.lock().expect("nobody panicked").len();
        assert!(kept <= 62, "{kept}");
        assert_eq!(past.last_minute(2_500, 2_500), 60);
    }
}

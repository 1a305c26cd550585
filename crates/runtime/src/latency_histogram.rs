//! Histogram of latencies, for percentiles of a window: fixed memory, 8 buckets for each doubling.

/// Buckets for each doubling of the latency: a percentile is at most an eighth too high.
const BUCKETS_PER_OCTAVE: usize = 8;
/// Latencies below it, in microseconds, share the first bucket.
const LATENCY_US_MIN: u64 = 8;
/// Doublings above it. Latencies from about two minutes on share the last bucket.
const OCTAVES: usize = 24;

/// Number of operations by their latency.
#[derive(Clone)]
pub struct LatencyHistogram {
    counts: [u32; BUCKETS_PER_OCTAVE * OCTAVES],
    total: u64,
}

impl Default for LatencyHistogram {
    fn default() -> LatencyHistogram {
        LatencyHistogram { counts: [0; BUCKETS_PER_OCTAVE * OCTAVES], total: 0 }
    }
}

impl LatencyHistogram {
    /// Adds operations that took this long, in microseconds.
    pub fn add(&mut self, latency_us: u64, operations: u32) {
        let latency_us = latency_us.max(LATENCY_US_MIN);
        let octave = (latency_us.ilog2() - LATENCY_US_MIN.ilog2()) as usize;
        // The three bits behind the highest one.
        let part = (latency_us >> octave) as usize - BUCKETS_PER_OCTAVE;
        let bucket = (octave * BUCKETS_PER_OCTAVE + part).min(self.counts.len() - 1);
        self.counts[bucket] = self.counts[bucket].saturating_add(operations);
        self.total += u64::from(operations);
    }

    /// Returns the number of operations.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the latency, in microseconds, that 99 % of the operations do not exceed, rounded up
    /// to the end of its bucket; 0 if there was no operation.
    pub fn p99_us(&self) -> u64 {
        let rank = self.total - self.total / 100;
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= rank && seen > 0 {
                let (octave, part) = (bucket / BUCKETS_PER_OCTAVE, bucket % BUCKETS_PER_OCTAVE);
                return ((BUCKETS_PER_OCTAVE + part + 1) as u64) << octave;
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_is_that_of_the_sorted_latencies_and_at_most_an_eighth_too_high() {
        assert_eq!(LatencyHistogram::default().p99_us(), 0);
        for exact in [8, 9, 63, 64, 1_000, 4_095, 4_096, 5_000_000, 100_000_000] {
            let mut histogram = LatencyHistogram::default();
            histogram.add(1, 9_800);
            assert_eq!(histogram.p99_us(), LATENCY_US_MIN + 1);
            histogram.add(exact, 150);
            histogram.add(u64::MAX, 50);
            assert_eq!(histogram.total(), 10_000);
            let found = histogram.p99_us();
            assert!((exact + 1..=exact + exact / 8 + 1).contains(&found), "{exact}: {found}");
            histogram.add(u64::MAX, 100);
            assert!(histogram.p99_us() > 100_000_000, "more than 1 % took longer");
        }
    }

    #[test]
    fn longer_latencies_never_have_lower_percentiles() {
        let mut last = 0;
        for shift in 0..2_000_u64 {
            let mut histogram = LatencyHistogram::default();
            histogram.add(shift * shift * 40, 1);
            assert!(histogram.p99_us() >= last, "{shift}");
            last = histogram.p99_us();
        }
    }
}

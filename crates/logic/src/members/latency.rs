//! Latency statistic of a node: its response time compared with that of other nodes.

use base::Millis;

/// Answers needed before a node is compared with others.
const SAMPLES_MIN: u32 = 8;
/// Factor by which the latency of a slow node exceeds the median of the other nodes.
const SLOW_TIMES: u64 = 8;
/// Minimum latency of a slow node in microseconds: a node below it is never replaced by a fallback.
const SLOW_MIN_MICROS: u64 = 100_000;

/// Moving average of a node's latency: each new answer counts an eighth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeLatency {
    micros: u64,
    samples: u32,
}

impl NodeLatency {
    /// Adds the time of an answer, or the time waited without one.
    pub(super) fn record(&mut self, after: Millis) {
        // More than an hour is no useful latency any more; the bound keeps the arithmetic in range.
        let micros = after.0.min(3_600_000) * 1_000;
        self.micros = if self.samples == 0 { micros } else { self.micros / 8 * 7 + micros / 8 };
        self.samples = self.samples.saturating_add(1);
    }

    /// Resets the statistic to that of a node without trouble.
    pub(super) fn reset(&mut self) {
        *self = NodeLatency::default();
    }

    /// Returns true if this node is slow compared with the other nodes. Requires the latencies of
    /// at least two others: with one, it is undecidable which of the two is slow.
    pub(super) fn is_slow(&self, others: &[NodeLatency]) -> bool {
        if self.samples < SAMPLES_MIN || self.micros <= SLOW_MIN_MICROS {
            return false;
        }
        median(others).is_some_and(|median| self.micros > median.saturating_mul(SLOW_TIMES))
    }

    /// Returns true if one answer is fast enough for a node that counted as slow.
    pub(super) fn is_normal(after: Millis, others: &[NodeLatency]) -> bool {
        let bound = median(others).map_or(0, |median| median.saturating_mul(SLOW_TIMES / 2));
        after.0.saturating_mul(1_000) <= bound.max(SLOW_MIN_MICROS / 2)
    }
}

/// Returns the median of the known latencies, the lower of two.
fn median(others: &[NodeLatency]) -> Option<u64> {
    let known = others.iter().filter(|latency| latency.samples >= SAMPLES_MIN);
    let mut known: Vec<_> = known.map(|latency| latency.micros).collect();
    known.sort_unstable();
    if known.len() < 2 { None } else { Some(known[(known.len() - 1) / 2]) }
}

//! Latency statistic of a node: how long it takes to answer, beside what is usual.

use base::Millis;

/// Answers that must have come before a node is compared with others.
const SAMPLES_MIN: u32 = 8;
/// A node is slow when it takes so many times as long as the others do,
const SLOW_TIMES: u64 = 8;
/// and longer than this: below it, being slower than others is no reason to ask somebody else.
const SLOW_MIN_MICROS: u64 = 100_000;

/// The moving average of a node's answers: each new one counts an eighth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeLatency {
    micros: u64,
    samples: u32,
}

impl NodeLatency {
    /// An answer took so long, or was not there after so long.
    pub(super) fn took(&mut self, after: Millis) {
        // Over an hour is no measure of pace any more; the bound keeps the arithmetic in range.
        let micros = after.0.min(3_600_000) * 1_000;
        self.micros = if self.samples == 0 { micros } else { self.micros / 8 * 7 + micros / 8 };
        self.samples = self.samples.saturating_add(1);
    }

    /// Forgets all but that there was nothing wrong.
    pub(super) fn forget(&mut self) {
        *self = NodeLatency::default();
    }

    /// Whether this one is slow beside those others. Two others at least must be known: with one,
    /// nobody could say which of the two is usual.
    pub(super) fn is_slow(&self, others: &[NodeLatency]) -> bool {
        if self.samples < SAMPLES_MIN || self.micros <= SLOW_MIN_MICROS {
            return false;
        }
        usual(others).is_some_and(|usual| self.micros > usual.saturating_mul(SLOW_TIMES))
    }

    /// Whether one answer is quick enough for a node that was called slow.
    pub(super) fn is_usual(after: Millis, others: &[NodeLatency]) -> bool {
        let bound = usual(others).map_or(0, |usual| usual.saturating_mul(SLOW_TIMES / 2));
        after.0.saturating_mul(1_000) <= bound.max(SLOW_MIN_MICROS / 2)
    }
}

/// The median of those that are known, the quicker of two.
fn usual(others: &[NodeLatency]) -> Option<u64> {
    let known = others.iter().filter(|pace| pace.samples >= SAMPLES_MIN);
    let mut known: Vec<_> = known.map(|pace| pace.micros).collect();
    known.sort_unstable();
    if known.len() < 2 { None } else { Some(known[(known.len() - 1) / 2]) }
}

//! Causality of reads from a server that keeps siblings: sizes of contexts and numbers of values.

use crate::drivers::RowContext;
use hdrhistogram::Histogram;

/// Largest context and number of values that the histograms distinguish; larger ones count as this.
const COUNTED_MAX: u64 = 1 << 24;

/// Contexts and values of the rows found.
#[derive(Clone, Debug)]
pub struct Causality {
    /// Length of the context before base 64, bytes.
    pub clock_bytes: Histogram<u64>,
    /// Number of values of the key.
    pub values: Histogram<u64>,
}

/// Kind of an update's call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateCall {
    /// Its get.
    Get,
    /// Its put.
    Put,
}

impl Default for Causality {
    fn default() -> Causality {
        let histogram =
            || Histogram::new_with_bounds(1, COUNTED_MAX, 3).expect("the bounds are in order");
        Causality { clock_bytes: histogram(), values: histogram() }
    }
}

impl Causality {
    /// Counts a row.
    pub fn count(&mut self, row: &RowContext<'_>) {
        let text = row.context.unwrap_or_default();
        let filled = text.iter().filter(|letter| **letter != b'=').count();
        self.clock_bytes.saturating_record(filled as u64 * 3 / 4);
        self.values.saturating_record(row.values as u64);
    }

    /// Adds the counts of another thread or window.
    pub fn add(&mut self, other: &Causality) {
        let message = "all histograms have the same bounds";
        self.clock_bytes.add(&other.clock_bytes).expect(message);
        self.values.add(&other.values).expect(message);
    }
}

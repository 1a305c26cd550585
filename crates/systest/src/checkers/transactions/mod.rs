//! Transaction checker: verifies strict serializability of sequences over several keys with
//! predicates, ranges, counters, rows with a time to live, reads of every level and pipelines,
//! against the log.
//!
//! The log gives the order of all updates. So one replay of a sequential specification verifies
//! that
//!
//! - every acknowledged transaction is in the log once, in one piece, and its answer follows from
//!   the state just before it; a refused one is nowhere, an unknown one is there once or never;
//! - every read, of one key or of a range, shows the state at one index: a consistent one not
//!   before any answer that came before it began; one of `at_least:N` not before N; a dirty one not
//!   before the state its connection was shown; none shows an update that was requested after it
//!   ended;
//! - answers on one connection, also those of a pipeline, keep the order of its requests; a read
//!   after an update of its own pipeline sees that update, and so may show a part of a value of the
//!   log, which other updates of the same value follow;
//! - an update's index is that of the value that holds it, and a read shows nothing later than its
//!   own index;
//! - a row with a time to live is not gone before its time, and never shown after it was gone.
//!
//! Reads have no position of their own in the log: each gets the least one that its answer and the
//! transactions before it allow, which leaves most choice to those after it.
//!
//! Promises: a violation can't be explained by this log.
//! Never: accepts a history in which two transactions write the same value to one key, but for
//! counters.
//! Read next: `state.rs` (the specification), then `judge.rs`.

mod judge;
mod lifetimes;
mod state;

pub use judge::judge;

/// Tolerance of times to live, nanoseconds: a row may be shown this much later, or be gone this
/// much earlier, than by a perfect clock. It covers clock drift, and that times to live count in
/// the group's milliseconds.
pub const TTL_TOLERANCE_NS: u64 = 50_000_000;

/// Effect of a log value on one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueEffect {
    /// The key.
    pub key: String,
    /// Value that the key holds from then on, with the group time at which it expires (`None`:
    /// never). Outer `None`: the key is deleted.
    pub row: Option<(Vec<u8>, Option<u64>)>,
}

/// A decided value of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Log index.
    pub index: u64,
    /// Group time, in milliseconds.
    pub time_ms: u64,
    /// Effects, in order; readers see all or none of them.
    pub effects: Vec<ValueEffect>,
}

/// Verdict: everything that the log does not explain, and the amount checked.
#[derive(Clone, Debug, Default)]
pub struct TransactionReport {
    /// Descriptions of the violations.
    pub violations: Vec<String>,
    /// Number of updates with a known outcome that are in the log.
    pub updates: usize,
    /// Number of updates with an unknown outcome that are in the log.
    pub late: usize,
    /// Number of transactions whose assertion failed.
    pub failed: usize,
    /// Number of reads, of every level.
    pub reads: usize,
    /// Number of reads at the levels dirty and at-least.
    pub weak_reads: usize,
    /// Number of reads that found a row expired.
    pub expired: usize,
}

impl TransactionReport {
    /// Fails the test unless the log explains the whole history.
    pub fn must_explain(&self) {
        let violations: Vec<_> = self.violations.iter().take(8).map(String::as_str).collect();
        assert!(violations.is_empty(), "the log tells otherwise:\n{}", violations.join("\n"));
    }
}

//! Report of a comparison.

use super::super::layout::{ROW_PREFIX_BYTES, Space, read_bucket_prefix};
use base::{BucketId, Error, NodeId};
use bytes::Bytes;
use runtime::world;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of differences that are retained of one pass.
pub const DIFFERENCES_MAX: usize = 16;

/// Result of comparing a group's replicas, at its master.
#[derive(Clone, Debug, Default)]
pub struct ComparisonReport {
    /// True while a pass is running.
    pub running: bool,
    /// Passes that ended, also those that broke off.
    pub passes: u64,
    /// Error that broke the last one off, if one did.
    pub error: Option<String>,
    /// Time at which the last one ended.
    pub ended_ms: Option<u64>,
    /// Rows and bytes of this replica that were compared in the pass that runs, or ran last.
    pub rows: u64,
    /// Bytes of these rows.
    pub bytes: u64,
    /// Replicas that were compared in it, each with its number of rows.
    pub compared: BTreeMap<NodeId, u64>,
    /// Differences that the last whole pass found.
    last_differences: Vec<Difference>,
    /// Differences that the running pass found.
    found_differences: Vec<Difference>,
}

/// Replicas that do not hold the same rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// First tree key of the range, which holds one row of the master at most.
    pub low: Bytes,
    /// First tree key behind the range.
    pub high: Bytes,
    /// Replicas that hold the same rows, largest set first.
    pub agreeing: Vec<BTreeSet<NodeId>>,
}

impl ComparisonReport {
    /// Begins a pass.
    pub fn begin(&mut self) {
        (self.running, self.rows, self.bytes) = (true, 0, 0);
        self.compared.clear();
        self.found_differences.clear();
    }

    /// Ends a pass that compared everything.
    pub fn end(&mut self) {
        self.running = false;
        self.passes += 1;
        self.error = None;
        self.ended_ms = Some(world::milliseconds());
        self.last_differences = std::mem::take(&mut self.found_differences);
    }

    /// Ends a pass with an error.
    pub fn fail(&mut self, error: &Error) {
        self.running = false;
        self.passes += 1;
        self.error = Some(error.to_string());
    }

    /// Adds a difference. Returns false if the report is full.
    pub fn add(&mut self, difference: Difference) -> bool {
        let fits = self.found_differences.len() < DIFFERENCES_MAX;
        if fits {
            self.found_differences.push(difference);
        }
        fits
    }

    /// Returns every known difference: those of the running pass, and those of the last pass that
    /// it has not replaced.
    pub fn differences(&self) -> Vec<Difference> {
        let new = self.found_differences.iter();
        let old =
            self.last_differences.iter().filter(|old| new.clone().all(|new| new.low != old.low));
        old.chain(new.clone()).cloned().collect()
    }
}

impl Difference {
    /// Returns the bucket of these rows. `None`: the group's own bookkeeping.
    pub fn bucket(&self) -> Option<BucketId> {
        read_bucket_prefix(&self.low).map(|(_, bucket)| bucket)
    }

    /// Returns the kind of the bucket's rows. `None`: the group's own bookkeeping.
    pub fn space(&self) -> Option<Space> {
        read_bucket_prefix(&self.low).map(|(space, _)| space)
    }

    /// Returns the range in the keys of clients: the first key, and the first behind the range,
    /// which is empty at the bucket's end.
    pub fn keys(&self) -> (Bytes, Bytes) {
        let front = if self.bucket().is_some() { ROW_PREFIX_BYTES } else { 4 };
        let same = self.high.get(..front) == self.low.get(..front);
        let behind = if same { self.high.slice(front..) } else { Bytes::new() };
        (self.low.slice(front.min(self.low.len())..), behind)
    }
}

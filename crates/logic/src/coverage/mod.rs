//! Coverage queries of available buckets: reads of all partitions, planned for the fewest nodes.
//!
//! A [`CoverageRequest`] makes a [`CoveragePlan`]: the nodes to ask, and the partitions that each
//! answers for, so that R nodes answer for each partition. If a node is lost,
//! [`CoveragePlan::replace`] names the nodes that answer in its place.
//!
//! Promises: each partition is asked of exactly R different nodes, or is reported as incomplete; a
//! plan needs every one of its nodes; it is a function of the ring, the nodes that are down, and
//! this node.
//! Never: sends, waits, or finds out which nodes are alive (the caller says which are down).
//! Read next: `plan.rs`, then `cover.rs`; `tests/plan.rs` has examples.

mod cover;
mod partition_runs;
mod plan;

pub use partition_runs::{PartitionRun, PartitionRuns};
pub use plan::{CoveragePlan, CoverageRequest, CoverageShare, CoverageShares, IncompleteCoverage};

#[cfg(test)]
mod tests;

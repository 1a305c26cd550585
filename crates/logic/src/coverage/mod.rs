//! Coverage queries of available buckets: reads of all partitions, planned for the fewest nodes,
//! and the merge of their answers.
//!
//! A [`CoverageRequest`] makes a [`CoveragePlan`]: the nodes to ask, and the partitions that each
//! answers for, so that R nodes answer for each partition. Each node sends a stream of rows, in the
//! order of their positions, such as (term, key). A [`StreamMerge`] makes one stream of them and
//! marks the rows on which the replicas differ. If a node is lost, [`CoveragePlan::replace`] names
//! the nodes that answer in its place, and their streams continue where its stream ended.
//!
//! Promises: each partition is asked of exactly R different nodes, or is reported as incomplete; a
//! plan needs every one of its nodes; it is a function of the ring, the nodes that are down, and
//! this node; a row is returned only when no stream can still have an earlier one.
//! Never: sends, waits, or finds out which nodes are alive (the caller says which are down); reads
//! a row's content.
//! Read next: `plan.rs`, `cover.rs`, then `merge.rs`; `tests/plan.rs` has examples.

mod cover;
mod merge;
mod partition_runs;
mod plan;

pub use merge::{MergedPage, MergedRow, PageEnd, StreamError, StreamMerge, StreamPage};
pub use partition_runs::{PartitionRun, PartitionRuns};
pub use plan::{CoveragePlan, CoverageRequest, CoverageShare, CoverageShares, IncompleteCoverage};

#[cfg(test)]
mod tests;

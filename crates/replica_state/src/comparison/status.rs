//! State of the comparison of a group's replicas, as operators see it.

/// Outcome of comparing a group's replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ComparisonStatus {
    /// True while a pass over all rows is running.
    pub running: bool,
    /// Passes that ended while this node is master, also those that broke off.
    pub passes: u64,
    /// Error that broke the last one off, if one did.
    pub error: Option<String>,
    /// Milliseconds since the last whole one.
    pub ended_ms_ago: Option<u64>,
    /// The master's rows that were compared in the pass that runs, or ran last.
    pub rows: u64,
    /// Number of bytes compared in it.
    pub bytes: u64,
    /// Names of the other replicas, each with the number of rows compared.
    pub replicas: Vec<(String, u64)>,
    /// Places where they differ, up to a small number.
    pub differences: Vec<DifferenceStatus>,
}

/// A range of keys in which replicas do not hold the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DifferenceStatus {
    /// The bucket. `None`: the group's own bookkeeping.
    pub bucket: Option<String>,
    /// The first key, as escaped text.
    pub from: String,
    /// The first key behind, as escaped text; empty: the bucket's end.
    pub upto: String,
    /// Replicas by name, in groups that hold the same rows; the largest group first.
    pub agreeing: Vec<Vec<String>>,
    /// Description in words.
    pub text: String,
}

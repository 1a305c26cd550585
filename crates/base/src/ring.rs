//! The ring of available buckets: what can be asked about it, and what the directory keeps of it.

use crate::NodeId;

/// What can be asked about the ring; the request's bucket is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingCall {
    /// `Body::Ring`.
    Describe,
    /// Every member that stays takes an even part. `Body::Ring`.
    Claim,
}

/// Who owns which partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingDescription {
    /// Goes up with every change.
    pub epoch: u64,
    /// The owners by partition; none: there is no ring yet.
    pub owners: Vec<NodeId>,
}

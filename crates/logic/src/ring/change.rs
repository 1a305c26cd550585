//! Changes of the ring that may be planned, and the reasons to refuse one.

use super::layout::Rack;
use base::{NodeId, Partition};
use std::fmt;

/// Requested change of the ring; several may go into one plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RingChangeRequest {
    /// Adds a node, which takes its share.
    Join {
        /// The node.
        node: NodeId,
        /// Rack of the node; the empty name for none.
        rack: Rack,
    },
    /// Removes a node; the others take over what it owns.
    Leave {
        /// The node.
        node: NodeId,
    },
    /// Replaces a node by a new one, which takes over all it owns; nothing else moves.
    Replace {
        /// Node that leaves.
        old: NodeId,
        /// Node that takes over.
        new: NodeId,
        /// Rack of the new node.
        rack: Rack,
    },
    /// Moves a node to another rack.
    Rack {
        /// The node.
        node: NodeId,
        /// New rack of the node.
        rack: Rack,
    },
    /// Splits each partition into two with the same owners: no copy moves.
    Double,
    /// Merges each pair of partitions into one; both get the same owners first.
    Halve,
}

/// Reason why a plan is refused; its text names the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// An earlier change is still moving copies.
    InProgress {
        /// Number of partitions still to hand off.
        left: usize,
    },
    /// The plan is for an earlier ring.
    Outdated {
        /// Epoch of the ring that it was made for.
        base_epoch: u64,
        /// Current epoch of the ring.
        epoch: u64,
    },
    /// Plan without any effect.
    NoChange,
    /// The node is in the ring already.
    AlreadyInRing(NodeId),
    /// The node is not in the ring.
    NotInRing(NodeId),
    /// Fewer nodes than copies would be left, where there were enough.
    TooFewNodes {
        /// Number of nodes left.
        nodes: usize,
        /// Number of copies.
        n: usize,
    },
    /// A node would own no partition.
    TooFewPartitions {
        /// Number of nodes after the change.
        nodes: usize,
        /// Number of partitions.
        partitions: u32,
    },
    /// The number of partitions would exceed a limit.
    Partitions {
        /// Number of partitions requested.
        partitions: u32,
    },
    /// A change of the number of partitions must be the only change of a plan.
    ResizeNotAlone,
    /// Every copy of this partition is on nodes that are down: none could send it.
    NoSource {
        /// The partition.
        partition: Partition,
    },
    /// A node that is down would have to receive copies.
    DownReceiver(NodeId),
    /// The name of a rack is too long or has control characters.
    RackName,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::InProgress { left } => write!(
                f,
                "an earlier change is in progress, {left} partitions are not transferred yet: wait \
                 for it, or cancel it"
            ),
            PlanError::Outdated { base_epoch, epoch } => write!(
                f,
                "the plan was made for epoch {base_epoch} of the ring, which is at epoch {epoch}: \
                 plan again"
            ),
            PlanError::NoChange => write!(f, "the plan changes nothing"),
            PlanError::AlreadyInRing(node) => write!(f, "node {node} is on the ring already"),
            PlanError::NotInRing(node) => write!(f, "node {node} is not on the ring"),
            PlanError::TooFewNodes { nodes, n: copies } => write!(
                f,
                "{nodes} nodes would remain for {copies} copies of each key: let another node join \
                 first, replace the leaving node, or lower n_val"
            ),
            PlanError::TooFewPartitions { nodes, partitions } => write!(
                f,
                "{partitions} partitions are too few for {nodes} nodes: double their number first \
                 (`credenza cluster ring resize`)"
            ),
            PlanError::Partitions { partitions } => write!(
                f,
                "the number of partitions must be a power of two from {} to {}, not {partitions}",
                super::PARTITIONS_MIN,
                super::PARTITIONS_MAX
            ),
            PlanError::ResizeNotAlone => write!(
                f,
                "a change of the number of partitions needs a plan of its own: commit the other \
                 changes first"
            ),
            PlanError::NoSource { partition } => write!(
                f,
                "all copies of partition {partition} are on nodes that are down: start one of \
                 them, or its data is lost"
            ),
            PlanError::DownReceiver(node) => {
                write!(f, "node {node} is down and can't receive its copies: start it first")
            }
            PlanError::RackName => write!(
                f,
                "a rack's name has at most {} bytes and no control characters",
                super::RACK_BYTES_MAX
            ),
        }
    }
}

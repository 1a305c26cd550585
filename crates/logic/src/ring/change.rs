//! Changes of the ring that may be planned, and the reasons to refuse one.

use super::layout::Rack;
use base::{NodeId, Partition};
use std::fmt;

/// Requested change of the ring; several may go into one plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RingWish {
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
pub enum Unsafe {
    /// An earlier change is still moving copies.
    UnderWay {
        /// Number of partitions still to hand off.
        left: usize,
    },
    /// The plan is for an earlier ring.
    Outdated {
        /// Epoch of the ring that it was made for.
        made_for: u64,
        /// Current epoch of the ring.
        epoch: u64,
    },
    /// Plan without any effect.
    Nothing,
    /// The node is in the ring already.
    Known(NodeId),
    /// The node is not in the ring.
    Unknown(NodeId),
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
    OnItsOwn,
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

impl fmt::Display for Unsafe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsafe::UnderWay { left } => write!(
                f,
                "an earlier change is under way, {left} partitions are to go over yet: wait for \
                 it, or cancel it"
            ),
            Unsafe::Outdated { made_for, epoch } => write!(
                f,
                "the plan was made for epoch {made_for} of the ring, which is at epoch {epoch}: \
                 plan again"
            ),
            Unsafe::Nothing => write!(f, "the plan changes nothing"),
            Unsafe::Known(node) => write!(f, "node {node} has its place in the ring already"),
            Unsafe::Unknown(node) => write!(f, "node {node} has no place in the ring"),
            Unsafe::TooFewNodes { nodes, n } => write!(
                f,
                "{nodes} nodes would be left for {n} copies of each key: let another node join \
                 first, replace the one that goes, or lower n_val"
            ),
            Unsafe::TooFewPartitions { nodes, partitions } => write!(
                f,
                "{partitions} partitions are too few for {nodes} nodes: double their number first \
                 (`credenza cluster ring resize`)"
            ),
            Unsafe::Partitions { partitions } => write!(
                f,
                "a ring has a power of two of partitions, {} to {}, not {partitions}",
                super::PARTITIONS_MIN,
                super::PARTITIONS_MAX
            ),
            Unsafe::OnItsOwn => write!(
                f,
                "the number of partitions changes in a plan of its own: commit the other changes \
                 first"
            ),
            Unsafe::NoSource { partition } => write!(
                f,
                "all copies of partition {partition} are on nodes that are down: start one of \
                 them, or its data is lost"
            ),
            Unsafe::DownReceiver(node) => {
                write!(f, "node {node} is down and can't receive its copies: start it first")
            }
            Unsafe::RackName => write!(
                f,
                "a rack's name has at most {} bytes and no control characters",
                super::RACK_BYTES_MAX
            ),
        }
    }
}

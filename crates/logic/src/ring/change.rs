//! Changes of the ring that may be planned, and refusals of those that may not.

use super::layout::Rack;
use base::{NodeId, Partition};
use std::fmt;

/// One wish; several may go into one plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RingWish {
    /// A node comes and takes its share.
    Join {
        /// The node.
        node: NodeId,
        /// Its rack; the empty name for none.
        rack: Rack,
    },
    /// A node goes; the others take what it owns.
    Leave {
        /// The node.
        node: NodeId,
    },
    /// A new node takes all that another one owns, and nothing else moves.
    Replace {
        /// Who goes.
        old: NodeId,
        /// Who takes its place.
        new: NodeId,
        /// The new one's rack.
        rack: Rack,
    },
    /// A node stands in another rack than before.
    Rack {
        /// The node.
        node: NodeId,
        /// Its rack from now on.
        rack: Rack,
    },
    /// Each partition becomes two, with the same owners: no copy moves.
    Double,
    /// Each two partitions become one; first they are given the same owners.
    Halve,
}

/// Why there is no such plan; the words say what can be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unsafe {
    /// An earlier change still moves copies.
    UnderWay {
        /// How many partitions are still to go over.
        left: usize,
    },
    /// Made for an earlier ring.
    Outdated {
        /// The epoch it was made for.
        made_for: u64,
        /// The ring's epoch.
        epoch: u64,
    },
    /// Nothing to do.
    Nothing,
    /// The node has a place in the ring already.
    Known(NodeId),
    /// The node has no place in the ring.
    Unknown(NodeId),
    /// There would be fewer nodes than copies, where there were enough.
    TooFewNodes {
        /// How many would be left.
        nodes: usize,
        /// How many copies are wanted.
        n: usize,
    },
    /// A node would own nothing.
    TooFewPartitions {
        /// How many nodes there would be.
        nodes: usize,
        /// How many partitions there are.
        partitions: u32,
    },
    /// The number of partitions would leave the limits.
    Partitions {
        /// The number wished for.
        partitions: u32,
    },
    /// The number of partitions changes on its own, in a plan without anything else.
    OnItsOwn,
    /// Every copy of this partition is on nodes that are down: nobody could send it on.
    NoSource {
        /// The partition.
        partition: Partition,
    },
    /// A node that is down is to receive copies.
    DownReceiver(NodeId),
    /// A rack's name is too long or has control characters.
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

//! The ring of available buckets: calls about it, and its descriptions.

use crate::{NodeId, Partition};

/// Call about the ring; the request's bucket is ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RingCall {
    /// Describes the ring: `Body::Ring`.
    Describe,
    /// Assigns an even share to every member that stays, while the ring holds no data.
    /// `Body::Ring`.
    Claim,
    /// Returns the effect of the planned changes. `Body::RingPlan`.
    Plan,
    /// Plans one more change; refused where all together would be unsafe. `Body::RingPlan`.
    Stage(RingChange),
    /// Discards the planned changes.
    Clear,
    /// Begins the planned changes. `Body::Ring`.
    Commit {
        /// Epoch of the ring that the plan was shown for. `None`: the current one.
        epoch: Option<u64>,
    },
    /// Cancels the change in progress: partitions already handed off go back. `Body::Ring`.
    Cancel,
    /// Returns the progress of the change. `Body::RingTransfers`.
    Transfers,
    /// Reports that a node has its copy of a partition; nodes send it, not clients.
    Received {
        /// Epoch with which the change began.
        since: u64,
        /// Partition that was received.
        partition: Partition,
        /// Node that received it.
        node: NodeId,
    },
    /// Reports that a node deleted its rows of a partition that it no longer owns; nodes send it,
    /// not clients.
    Cleared {
        /// Partition that was cleared.
        partition: Partition,
        /// Number of partitions of the ring that the partition's number refers to. 0: unknown
        /// (versions that did not send it).
        partitions: u32,
        /// Node that cleared it.
        node: NodeId,
    },
}

/// Requested change of the ring; members are given by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RingChange {
    /// Adds a member to the ring with a share of its own.
    Join {
        /// Name of the member.
        node: String,
        /// Rack of the member. Empty: a rack of its own.
        rack: String,
    },
    /// Removes a member, which may be down, from the ring; the others take over its copies.
    Leave {
        /// Name of the member.
        node: String,
    },
    /// Replaces a member by one that holds no copies.
    Replace {
        /// Name of the member that leaves.
        node: String,
        /// Name of the member that takes over.
        by: String,
        /// Rack of the new member. Empty: a rack of its own.
        rack: String,
    },
    /// Moves a member to another rack.
    Rack {
        /// Name of the member.
        node: String,
        /// Rack of the member. Empty: a rack of its own.
        rack: String,
    },
    /// Splits each partition into two.
    Double,
    /// Merges each pair of partitions into one.
    Halve,
}

impl RingChange {
    /// Returns the name of the change at every front-end.
    pub fn name(&self) -> &'static str {
        match self {
            RingChange::Join { .. } => "join",
            RingChange::Leave { .. } => "leave",
            RingChange::Replace { .. } => "replace",
            RingChange::Rack { .. } => "rack",
            RingChange::Double => "double",
            RingChange::Halve => "halve",
        }
    }
}

/// Assignment of partitions to nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingDescription {
    /// Epoch of the ring; increases with every change.
    pub epoch: u64,
    /// Owners by partition. Empty: there is no ring yet.
    pub owners: Vec<NodeId>,
}

/// Effect of all planned changes together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingPlan {
    /// Epoch of the ring that the plan is for.
    pub epoch: u64,
    /// The planned changes.
    pub changes: Vec<RingChange>,
    /// Owned partitions and copies of each node, before and after.
    pub loads: Vec<RingLoad>,
    /// The partitions whose owner changes.
    pub moves: Vec<RingMove>,
    /// Number of partition copies sent to nodes that have none.
    pub copies_sent: u64,
    /// Number of partition copies after the changes.
    pub copies: u64,
    /// Estimated bytes of the rows to send.
    pub bytes: u64,
    /// Warnings: safe, but worth knowing.
    pub warnings: Vec<String>,
    /// Reason why the plan cannot begin now. `None`: it can.
    pub refused: Option<String>,
}

/// Load of a node before and after a change of the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingLoad {
    /// Id of the node.
    pub node: NodeId,
    /// Number of partitions it owns now. `None`: it is not in the ring yet.
    pub before: Option<u64>,
    /// Number of partitions it will own. `None`: it leaves the ring.
    pub after: Option<u64>,
    /// Number of partitions of which it keeps a copy now.
    pub copies_before: u64,
    /// Number of partitions of which it will keep a copy.
    pub copies_after: u64,
}

/// Change of a partition's owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingMove {
    /// Number of the partition.
    pub partition: u32,
    /// Current owner.
    pub from: NodeId,
    /// Future owner.
    pub to: NodeId,
}

/// Progress of a change of the ring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingTransfers {
    /// The ring's epoch.
    pub epoch: u64,
    /// Number of partitions still to hand off.
    pub left: u64,
    /// Progress of each node.
    pub nodes: Vec<RingTransfer>,
}

/// Progress of one node in a change of the ring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingTransfer {
    /// Id of the node.
    pub node: NodeId,
    /// Number of partitions of which it still has to receive a copy.
    pub receiving: u64,
    /// Number of partitions of which it has received a copy, among those not handed off yet.
    pub received: u64,
    /// Number of rows received since the node started or the change began, whichever is later.
    pub rows: u64,
    /// Bytes of those rows.
    pub bytes: u64,
    /// Estimated bytes still to receive. `None`: not known yet.
    pub bytes_left: Option<u64>,
    /// Recent rate in bytes per second.
    pub rate: u64,
    /// Estimated time left in milliseconds. `None`: not known.
    pub eta_ms: Option<u64>,
    /// Number of partitions of which it still has rows that it no longer owns.
    pub clearing: u64,
    /// Reason why it waits. Empty: it does not.
    pub waits_for: String,
}

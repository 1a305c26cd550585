//! The ring of available buckets: what can be asked about it, and what the directory keeps of it.

use crate::{NodeId, Partition};

/// What can be asked about the ring; the request's bucket is ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RingCall {
    /// `Body::Ring`.
    Describe,
    /// Every member that stays takes an even part, while nothing is held. `Body::Ring`.
    Claim,
    /// Returns the effect of the planned changes. `Body::RingPlan`.
    Plan,
    /// Plans one more change; refused where all together would be unsafe. `Body::RingPlan`.
    Stage(RingChange),
    /// Discards the planned changes.
    Clear,
    /// Begins the planned changes. `Body::Ring`.
    Commit {
        /// Of the ring that the plan was shown for; none: whatever it is now.
        epoch: Option<u64>,
    },
    /// The change under way is called off: what has gone over goes back. `Body::Ring`.
    Cancel,
    /// How far the change under way is. `Body::RingTransfers`.
    Transfers,
    /// A node has its copy of a partition; nodes say so, no client.
    Received {
        /// In the change that began with this epoch.
        since: u64,
        /// Of which partition.
        partition: Partition,
        /// Who.
        node: NodeId,
    },
    /// A node has let go of what it had left of a partition; nodes say so, no client.
    Cleared {
        /// Of which partition.
        partition: Partition,
        /// Of a ring of so many; 0: it does not say so, as earlier versions did not.
        of: u32,
        /// Who.
        node: NodeId,
    },
}

/// A change of the ring that somebody wishes, members by their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RingChange {
    /// A member comes and takes its share.
    Join {
        /// Who.
        node: String,
        /// Its rack; empty: a rack of its own.
        rack: String,
    },
    /// A member goes, the others take what it keeps; it may be down.
    Leave {
        /// Who.
        node: String,
    },
    /// A member that keeps nothing takes all that another one keeps.
    Replace {
        /// Who goes.
        node: String,
        /// Who takes its place.
        by: String,
        /// Its rack; empty: a rack of its own.
        rack: String,
    },
    /// A member stands in another rack.
    Rack {
        /// Who.
        node: String,
        /// Its rack; empty: a rack of its own.
        rack: String,
    },
    /// Each partition becomes two.
    Double,
    /// Each two partitions become one.
    Halve,
}

impl RingChange {
    /// Its word at every front-end.
    pub fn word(&self) -> &'static str {
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

/// Who owns which partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingDescription {
    /// Goes up with every change.
    pub epoch: u64,
    /// The owners by partition; none: there is no ring yet.
    pub owners: Vec<NodeId>,
}

/// Effect of the planned changes together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingPlan {
    /// The ring it is made for.
    pub epoch: u64,
    /// The planned changes.
    pub changes: Vec<RingChange>,
    /// What each node owns and keeps, before and after.
    pub loads: Vec<RingLoad>,
    /// The partitions whose owner changes.
    pub moves: Vec<RingMove>,
    /// How many copies of partitions are sent to a node that has none.
    pub copies_sent: u64,
    /// How many copies of partitions there are afterwards.
    pub copies: u64,
    /// About how many bytes of rows that is.
    pub bytes: u64,
    /// What is not unsafe but should be known.
    pub warnings: Vec<String>,
    /// Why it can't begin now.
    pub refused: Option<String>,
}

/// A node's part of the ring, before and after a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingLoad {
    /// Who.
    pub node: NodeId,
    /// How many partitions it owns; none: it comes.
    pub before: Option<u64>,
    /// How many it will own; none: it goes.
    pub after: Option<u64>,
    /// Of how many it keeps a copy.
    pub copies_before: u64,
    /// Of how many it will.
    pub copies_after: u64,
}

/// A partition gets another owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingMove {
    /// Which.
    pub partition: u32,
    /// Whose it is.
    pub from: NodeId,
    /// Whose it will be.
    pub to: NodeId,
}

/// How far a change of the ring is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingTransfers {
    /// The ring's epoch.
    pub epoch: u64,
    /// How many partitions are still to go over.
    pub left: u64,
    /// What each node has to do with it.
    pub nodes: Vec<RingTransfer>,
}

/// A node's part in a change of the ring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingTransfer {
    /// Who.
    pub node: NodeId,
    /// Of how many partitions it is still to receive a copy.
    pub receiving: u64,
    /// Of how many it has one, of those that have not gone over.
    pub received: u64,
    /// Rows it has received since it started or the change began.
    pub rows: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// About how many bytes are still to come; none: not known yet.
    pub bytes_left: Option<u64>,
    /// Bytes a second, of late.
    pub rate: u64,
    /// About how long it still takes, in milliseconds; none: not known.
    pub eta_ms: Option<u64>,
    /// Of how many partitions it still has rows that are not its to keep.
    pub clearing: u64,
    /// What it waits for; empty: nothing.
    pub waits_for: String,
}

//! Ids and counters, each of a type of its own so that they can't be mixed up.

use std::fmt;

/// Incarnation of a node: a number that increases, and a random token that distinguishes two
/// incarnations of one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IncarnationId {
    /// Number of the incarnation, counted in the node's data directory.
    pub number: u64,
    /// Random token. 0: absent; the number alone identifies the incarnation.
    pub token: u64,
}

/// Number displayed in decimal.
macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $inner:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

/// Random id, displayed as 16 hexadecimal digits only: a decimal form would be a second spelling,
/// and exceeds the range of integers that many JSON readers keep exact.
macro_rules! random_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:016x}", self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }
    };
}

random_id!(
    /// Durable identity of a node, drawn at first start and kept in its data directory; never 0.
    NodeId
);
random_id!(
    /// Durable identity of the cluster, drawn by the first node.
    ClusterId
);
number!(
    /// A group: the replicas that agree on one log. Group 0 is the directory.
    GroupId, u32
);
impl GroupId {
    /// The directory's group.
    pub const DIRECTORY: GroupId = GroupId(0);
    /// The group of consistent buckets that every cluster begins with.
    pub const DEFAULT: GroupId = GroupId(1);
}

number!(
    /// Number of a bucket; never reused, not even after a drop. Bucket 0 holds a group's own
    /// bookkeeping.
    BucketId, u32
);
number!(
    /// Digest of a bucket's full name: identifies the bucket even after it moved to another group
    /// or was cleared, which changes its [`BucketId`].
    BucketDigest, u64
);
number!(
    /// Digest of a user's name: identifies the user whose a session is.
    UserDigest, u64
);
number!(
    /// Index of a log entry (a batch of updates) in its group's log; the first entry has index 1.
    LogIndex, u64
);
number!(
    /// Number of a group's configuration (its set of members); increases by one with every
    /// stop-sign.
    ConfigurationId, u32
);
number!(
    /// Span or point of *group time* in milliseconds; group time advances by monotonic time only.
    Millis, u64
);
number!(
    /// Client session, opened through the log: 64 unguessable random bits, drawn by the master that
    /// opens it.
    SessionId, u64
);
number!(
    /// Version of a row: increases with every update in the row's group, never reused.
    Version, u64
);

number!(
    /// Partition of the ring; its replica on a node is a vnode.
    Partition, u32
);

impl LogIndex {
    /// Returns the next index.
    pub fn next(self) -> LogIndex {
        LogIndex(self.0 + 1)
    }
}

/// A ballot: rounds first, the node breaks ties (Lamport, *Paxos Made Simple*).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ballot {
    /// Round; increases with every attempt to lead.
    pub round: u64,
    /// Node that attempts to lead.
    pub node: NodeId,
}

impl fmt::Display for Ballot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.round, self.node)
    }
}

/// Id of one attempt of one client, so that a retried request applies once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RetryId {
    /// The session the client opened.
    pub session: SessionId,
    /// Number chosen by the client, increasing; the last `SESSION_WINDOW` numbers are remembered.
    pub number: u64,
}

/// Minter of dots: a vnode in one of its incarnations. A new incarnation begins whenever the vnode
/// may have forgotten a dot that it minted, so no dot is minted twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Actor {
    /// The node.
    pub node: NodeId,
    /// Number of the vnode's partition.
    pub vnode: u32,
    /// Incarnation of the vnode; increases, and is never reused.
    pub incarnation: u64,
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.node, self.vnode, self.incarnation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_and_cluster_ids_print_as_sixteen_hex_digits() {
        let node = NodeId(0x0ad4_c29d_653e_1029);
        assert_eq!(node.to_string(), "0ad4c29d653e1029");
        assert_eq!(format!("{node:?}"), "NodeId(0ad4c29d653e1029)");
        assert_eq!(ClusterId(7).to_string(), "0000000000000007");
        assert_eq!(Ballot { round: 3, node }.to_string(), "3.0ad4c29d653e1029");
        assert_eq!(GroupId(12).to_string(), "12", "what is counted stays a number");
    }
}

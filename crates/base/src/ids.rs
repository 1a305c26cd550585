//! Numbers that must never be mixed up, each its own type.

use std::fmt;

/// A life of a node, told from every other of the same node: its number goes up, its token is drawn
/// when it begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lived {
    /// Which, counted by the node's data directory.
    pub number: u64,
    /// 0: it has none, and is known by its number alone.
    pub token: u64,
}

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

/// An id that is drawn by chance: 16 hexadecimal digits wherever people or programs read it. As a
/// decimal number it would be another word for the same thing, and larger than what many readers of
/// JSON keep exact.
macro_rules! drawn {
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

drawn!(
    /// A node's durable identity, drawn at first start and kept in its data directory; never 0.
    NodeId
);
drawn!(
    /// The cluster's durable identity, drawn by the first node.
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
    /// A bucket's number; never given twice, not even after a drop. Bucket 0 is a group's own
    /// bookkeeping.
    BucketId, u32
);
number!(
    /// A digest of a bucket's full name: names the bucket also where it has moved to another group
    /// or was emptied, which gives it another [`BucketId`].
    BucketDigest, u64
);
number!(
    /// The place of a value (a batch of updates) in its group's log; the first value has index 1.
    LogIndex, u64
);
number!(
    /// Which configuration (set of members) of a group; goes up by one with every stop-sign.
    ConfigurationId, u32
);
number!(
    /// A span or point of *group time* in milliseconds; group time is advanced by monotonic time
    /// only.
    Millis, u64
);
number!(
    /// A client session, opened through the log: 64 bits that nobody can guess, drawn by the master
    /// that opens it.
    SessionId, u64
);
number!(
    /// The version of a row: goes up with every update in the row's group, never given twice.
    Version, u64
);

number!(
    /// A partition of the ring; its replica on a node is a vnode.
    Partition, u32
);

impl LogIndex {
    /// The index after this one.
    pub fn next(self) -> LogIndex {
        LogIndex(self.0 + 1)
    }
}

/// A ballot: rounds first, the node breaks ties (Lamport, *Paxos Made Simple*).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ballot {
    /// Goes up with every attempt to lead.
    pub round: u64,
    /// Who attempts.
    pub node: NodeId,
}

impl fmt::Display for Ballot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.round, self.node)
    }
}

/// Names one attempt of one client, so that a repeated request applies once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RetryId {
    /// The session the client opened.
    pub session: SessionId,
    /// Chosen by the client, going up; a window of `SESSION_WINDOW` numbers is remembered.
    pub number: u64,
}

/// Who gives writes their dots: a vnode in one of its incarnations. A new incarnation begins
/// whenever the vnode may have forgotten a dot that it gave, so that none is ever given twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Actor {
    /// The node.
    pub node: NodeId,
    /// The partition whose replica it is, by its number.
    pub vnode: u32,
    /// Goes up, and is never used again.
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
    fn drawn_ids_have_one_form_of_sixteen_hexadecimal_digits() {
        let node = NodeId(0x0ad4_c29d_653e_1029);
        assert_eq!(node.to_string(), "0ad4c29d653e1029");
        assert_eq!(format!("{node:?}"), "NodeId(0ad4c29d653e1029)");
        assert_eq!(ClusterId(7).to_string(), "0000000000000007");
        assert_eq!(Ballot { round: 3, node }.to_string(), "3.0ad4c29d653e1029");
        assert_eq!(GroupId(12).to_string(), "12", "what is counted stays a number");
    }
}

//! Refusal of a connection between two nodes, each with its remedy.

use super::incarnation::Incarnation;
use super::versions::Versions;
use base::{ClusterId, NodeId};
use std::fmt;

/// Reason why a connection between two nodes is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Both sides know versions of the protocol, but none in common.
    NoCommonVersion {
        /// Lowest and highest version of the refusing side.
        ours: (u16, u16),
        /// Lowest and highest version of the other side.
        theirs: (u16, u16),
    },
    /// Nodes of different clusters.
    ForeignCluster {
        /// Cluster of the refusing side.
        ours: ClusterId,
        /// Cluster of the other side.
        theirs: ClusterId,
    },
    /// A node has reached itself.
    Oneself,
    /// Another node answers at that address.
    OtherNode {
        /// Node that was dialled.
        wanted: NodeId,
        /// Node that answered.
        found: NodeId,
    },
    /// The caller is not on the list of members.
    NotAMember(NodeId),
    /// The caller's incarnation is older than one already seen.
    Outdated {
        /// The caller.
        node: NodeId,
        /// Incarnation that it claims.
        said: Incarnation,
        /// Highest incarnation seen.
        seen: Incarnation,
    },
    /// Two processes claim the same incarnation of the same node.
    TwoProcesses(NodeId),
    /// The two nodes are connected already.
    Connected,
    /// The refusing side is dialling itself, and its dial takes precedence.
    Dialling,
    /// Too many handshakes are in progress.
    Busy,
    /// The caller does not list the incarnation accepted last: it descends from an earlier one.
    Copied {
        /// The caller.
        node: NodeId,
        /// Incarnation that it claims.
        said: Incarnation,
        /// Incarnation that it does not list.
        incarnation_id: Incarnation,
    },
    /// The caller's incarnation is further ahead of the last known one than any number of starts
    /// explains.
    FarAhead {
        /// The caller.
        node: NodeId,
        /// Incarnation that it claims.
        said: Incarnation,
        /// Highest incarnation seen.
        seen: Incarnation,
    },
    /// Its greeting does not prove that it holds the cluster's secret.
    Unproven,
    /// Malformed greeting; the text names the field.
    Malformed(&'static str),
}

impl Refusal {
    /// Returns its number on the wire; it never changes once released.
    pub(super) fn code(&self) -> u8 {
        match self {
            Refusal::NoCommonVersion { .. } => 1,
            Refusal::ForeignCluster { .. } => 2,
            Refusal::Oneself => 3,
            Refusal::OtherNode { .. } => 4,
            Refusal::NotAMember(_) => 5,
            Refusal::Outdated { .. } => 6,
            Refusal::TwoProcesses(_) => 7,
            Refusal::Connected => 8,
            Refusal::Dialling => 9,
            Refusal::Busy => 10,
            Refusal::Malformed(_) => 11,
            Refusal::Copied { .. } => 12,
            Refusal::Unproven => 13,
            Refusal::FarAhead { .. } => 14,
        }
    }

    /// Returns true if the refusal is transient and not worth a log line.
    pub(super) fn passes(code: u8) -> bool {
        (8..=10).contains(&code)
    }

    /// Returns true if it says that the refused node runs on an old copy of its directory.
    pub(super) fn outdates(code: u8) -> bool {
        matches!(code, 6 | 12)
    }

    /// Returns the text for a caller that has not proven to be a member: without the ids of this
    /// cluster and this node, with which a stranger could impersonate one.
    pub(super) fn words_for_strangers(&self) -> String {
        let words = match self {
            Refusal::ForeignCluster { .. } => {
                "another cluster than this node's; give the right address, or join the node to \
                 this cluster with an empty data directory"
            }
            Refusal::OtherNode { .. } => {
                "another node than the one looked for lives here; correct the member's address"
            }
            others => return others.to_string(),
        };
        words.into()
    }

    pub(super) fn versions(ours: Versions, theirs: Versions) -> Refusal {
        let pair = |versions: Versions| (versions.lowest, versions.highest);
        Refusal::NoCommonVersion { ours: pair(ours), theirs: pair(theirs) }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoCommonVersion { ours, theirs } => write!(
                f,
                "no common version of the peer protocol: this node speaks {} to {}, the other {} \
                 to {}; upgrade the older one, one release at a time",
                ours.0, ours.1, theirs.0, theirs.1
            ),
            Refusal::ForeignCluster { ours, theirs } => write!(
                f,
                "another cluster: this node belongs to {:016x}, the other to {:016x}; give the \
                 right address, or join the node to this cluster with an empty data directory",
                ours.0, theirs.0
            ),
            Refusal::Oneself => f.write_str(
                "a node reached itself: the address of another member points here; correct that \
                 member's address",
            ),
            Refusal::OtherNode { wanted, found } => write!(
                f,
                "node {:016x} was looked for, but node {:016x} lives here; correct the member's \
                 address",
                wanted.0, found.0
            ),
            Refusal::NotAMember(node) => write!(
                f,
                "node {:016x} is no member of the cluster; add it first, and if it was removed, \
                 join it with an empty data directory under a new id",
                node.0
            ),
            Refusal::Outdated { node, said, seen } => write!(
                f,
                "node {:016x} says it is in its life {said}, but its life {seen} was seen: its \
                 data directory was wiped, restored or copied, so it may have forgotten its votes; \
                 remove the member, and join with an empty data directory under a new id",
                node.0
            ),
            Refusal::TwoProcesses(node) => write!(
                f,
                "two processes say they are node {:016x}: stop the one that runs on a copy of the \
                 data directory, and delete that copy",
                node.0
            ),
            Refusal::Copied { node, said, incarnation_id } => write!(
                f,
                "node {:016x} says it is in its life {said}, and does not know its own life \
                 {incarnation_id}, which was let in: its data directory is an old copy, so it may \
                 have forgotten its votes; put the newest one back, or replace the member and \
                 start it with an empty one",
                node.0
            ),
            Refusal::FarAhead { node, said, seen } => far_ahead(f, *node, *said, *seen),
            Refusal::Unproven => f.write_str(UNPROVEN),
            Refusal::Connected => f.write_str("connected already; try again"),
            Refusal::Dialling => f.write_str("a dial of this node is under way; wait for it"),
            Refusal::Busy => f.write_str("too many connections are being greeted; try again"),
            Refusal::Malformed(field) => write!(
                f,
                "no greeting of a peer ({field}); the peer address is for nodes only, clients have \
                 an address of their own"
            ),
        }
    }
}

const UNPROVEN: &str = "the greeting does not prove that its sender holds the cluster's secret: a \
                        node of an older version is upgraded; one without the file SECRET in its \
                        data directory, as one that joined with an older version, is replaced and \
                        joins anew; a stranger is not let in";

fn far_ahead(
    f: &mut fmt::Formatter<'_>,
    node: NodeId,
    said: Incarnation,
    seen: Incarnation,
) -> fmt::Result {
    write!(
        f,
        "node {:016x} says it is in its life {said}, and the last one seen was {seen}: no node \
         starts so often; if its INCARNATION file was changed, replace the member and start it \
         with an empty data directory",
        node.0
    )
}

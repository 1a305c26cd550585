//! Why a node does not take another for its peer, each in words with the remedy.

use super::incarnation::Incarnation;
use super::versions::Versions;
use base::{ClusterId, NodeId};
use std::fmt;

/// Why a connection between two nodes is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Both sides know versions of the protocol, but none in common.
    NoCommonVersion {
        /// The refusing side's.
        ours: (u16, u16),
        /// The other's.
        theirs: (u16, u16),
    },
    /// It belongs to another cluster.
    ForeignCluster {
        /// The refusing side's.
        ours: ClusterId,
        /// The other's.
        theirs: ClusterId,
    },
    /// A node has reached itself.
    Oneself,
    /// Another node lives at that address.
    OtherNode {
        /// Who was looked for.
        wanted: NodeId,
        /// Who is there.
        found: NodeId,
    },
    /// The caller is not on the list of members.
    NotAMember(NodeId),
    /// The caller's incarnation is older than one that was seen already.
    Outdated {
        /// Whose.
        node: NodeId,
        /// What it says.
        said: Incarnation,
        /// The highest that was seen.
        seen: Incarnation,
    },
    /// Two processes say they are the same life of the same node.
    TwoProcesses(NodeId),
    /// The two are connected already.
    Connected,
    /// The refusing side is dialling itself, and its dial goes before.
    Dialling,
    /// Too many connections are being greeted.
    Busy,
    /// The caller does not know the life that was let in last: it comes from an earlier one.
    Copied {
        /// Whose.
        node: NodeId,
        /// Which life it says it is in.
        said: Incarnation,
        /// The one that it does not know.
        lived: Incarnation,
    },
    /// The caller's life is further ahead of the last known one than any number of starts explains.
    FarAhead {
        /// Whose.
        node: NodeId,
        /// What it says.
        said: Incarnation,
        /// The highest that was seen.
        seen: Incarnation,
    },
    /// Its greeting does not prove that it holds the cluster's secret.
    Unproven,
    /// What came is no greeting of a peer; the text names the field.
    Malformed(&'static str),
}

impl Refusal {
    /// Its number on the wire; never changes once released.
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

    /// Returns true if it passes by itself, so that nobody needs to be told.
    pub(super) fn passes(code: u8) -> bool {
        (8..=10).contains(&code)
    }

    /// Returns true if it says that the one who hears it runs on an old copy of its directory.
    pub(super) fn outdates(code: u8) -> bool {
        matches!(code, 6 | 12)
    }

    /// Returns the words for a caller that has not proven to be a member: without the ids of this
    /// cluster and this node, by which a stranger could pass for one.
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
            Refusal::Copied { node, said, lived } => write!(
                f,
                "node {:016x} says it is in its life {said}, and does not know its own life \
                 {lived}, which was let in: its data directory is an old copy, so it may have \
                 forgotten its votes; put the newest one back, or replace the member and start it \
                 with an empty one",
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

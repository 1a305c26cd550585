//! Refusal of a connection between two nodes, each with its remedy.

use super::incarnation::Incarnation;
use super::versions::Versions;
use base::{ClusterId, FeatureLevel, NodeId};
use std::fmt;

/// Reason why a connection between two nodes is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Both sides know versions of the protocol, but none in common.
    NoCommonVersion {
        /// Lowest and highest version of the refusing side.
        local: (u16, u16),
        /// Lowest and highest version of the other side.
        remote: (u16, u16),
    },
    /// Nodes of different clusters.
    ForeignCluster {
        /// Cluster of the refusing side.
        local: ClusterId,
        /// Cluster of the other side.
        remote: ClusterId,
    },
    /// A node has dialled itself.
    SelfConnection,
    /// Another node answers at that address.
    OtherNode {
        /// Node that was dialled.
        target: NodeId,
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
        claimed: Incarnation,
        /// Highest incarnation seen.
        highest_seen: Incarnation,
    },
    /// Two processes claim the same incarnation of the same node.
    TwoProcesses(NodeId),
    /// The two nodes are connected already.
    Connected,
    /// The refusing side is dialling the caller at the same time, and its dial takes precedence.
    Dialling,
    /// Too many handshakes are in progress.
    Busy,
    /// The caller does not list the incarnation accepted last: it descends from an earlier one.
    OldCopy {
        /// The caller.
        node: NodeId,
        /// Incarnation that it claims.
        claimed: Incarnation,
        /// Incarnation that it does not list.
        incarnation_id: Incarnation,
    },
    /// The caller's incarnation is further ahead of the last known one than any number of starts
    /// explains.
    FarAhead {
        /// The caller.
        node: NodeId,
        /// Incarnation that it claims.
        claimed: Incarnation,
        /// Highest incarnation seen.
        highest_seen: Incarnation,
    },
    /// Its greeting does not prove that it holds the cluster's secret.
    Unauthenticated,
    /// The connection is plain, and only encrypted ones are accepted.
    Unencrypted,
    /// The certificate is that of another node than the member whose id the greeting has.
    OtherCertificate {
        /// Name of the node in the certificate; empty: it names none.
        certified: String,
        /// Name of the member.
        member: String,
    },
    /// Malformed greeting; the text names the field.
    Malformed(&'static str),
}

impl Refusal {
    /// Returns its number on the wire, which never changes once released.
    pub(super) fn code(&self) -> u8 {
        match self {
            Refusal::NoCommonVersion { .. } => 1,
            Refusal::ForeignCluster { .. } => 2,
            Refusal::SelfConnection => 3,
            Refusal::OtherNode { .. } => 4,
            Refusal::NotAMember(_) => 5,
            Refusal::Outdated { .. } => 6,
            Refusal::TwoProcesses(_) => 7,
            Refusal::Connected => 8,
            Refusal::Dialling => 9,
            Refusal::Busy => 10,
            Refusal::Malformed(_) => 11,
            Refusal::OldCopy { .. } => 12,
            Refusal::Unauthenticated => 13,
            Refusal::FarAhead { .. } => 14,
            Refusal::Unencrypted => 15,
            Refusal::OtherCertificate { .. } => 16,
        }
    }

    /// Returns true if the refusal is transient and not worth a log line.
    pub(super) fn is_transient(code: u8) -> bool {
        (8..=10).contains(&code)
    }

    /// Returns true if the reason is that the refused node runs on an old copy of its directory.
    pub(super) fn reports_old_copy(code: u8) -> bool {
        matches!(code, 6 | 12)
    }

    /// Returns the text for a caller that has not proven to be a member: without the ids of this
    /// cluster and this node, which would help to impersonate a member.
    pub(super) fn redacted_text(&self) -> String {
        let text = match self {
            Refusal::ForeignCluster { .. } => {
                "different clusters: this node belongs to another; correct the address, or join \
                 the node to this cluster with an empty data directory"
            }
            Refusal::OtherNode { .. } => {
                "another node has this address; correct the member's address"
            }
            other => return other.to_string(),
        };
        text.into()
    }

    pub(super) fn versions(local: Versions, remote: Versions) -> Refusal {
        let pair = |versions: Versions| (versions.lowest, versions.highest);
        Refusal::NoCommonVersion { local: pair(local), remote: pair(remote) }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoCommonVersion { local, remote } => no_common_version(f, *local, *remote),
            Refusal::ForeignCluster { local, remote } => write!(
                f,
                "different clusters: this node belongs to {:016x}, the other to {:016x}; correct \
                 the address, or join the node to this cluster with an empty data directory",
                local.0, remote.0
            ),
            Refusal::SelfConnection => f.write_str(
                "the node connected to itself: the address of another member points to this node; \
                 correct that member's address",
            ),
            Refusal::OtherNode { target, found } => write!(
                f,
                "expected node {:016x} at this address, but node {:016x} has it; correct the \
                 member's address",
                target.0, found.0
            ),
            Refusal::NotAMember(node) => write!(
                f,
                "node {:016x} is not a member of the cluster; add it first, or if it was removed, \
                 join it with an empty data directory as a new node",
                node.0
            ),
            Refusal::Outdated { node, claimed, highest_seen } => write!(
                f,
                "node {:016x} has incarnation {claimed}, but its incarnation {highest_seen} was \
                 seen: its data directory was wiped, restored or copied, so it may have lost its \
                 votes; remove the member, and join with an empty data directory as a new node",
                node.0
            ),
            Refusal::TwoProcesses(node) => write!(
                f,
                "two processes have the id of node {:016x}: stop the one that runs on a copy of \
                 the data directory, and delete that copy",
                node.0
            ),
            Refusal::OldCopy { node, claimed, incarnation_id } => {
                old_copy(f, *node, *claimed, *incarnation_id)
            }
            Refusal::FarAhead { node, claimed, highest_seen } => {
                far_ahead(f, *node, *claimed, *highest_seen)
            }
            Refusal::Unauthenticated => f.write_str(UNPROVEN),
            Refusal::Unencrypted => f.write_str(
                "this node accepts only encrypted connections: set `peer_tls` and the certificate \
                 of the other node",
            ),
            Refusal::OtherCertificate { certified, member } => write!(
                f,
                "the certificate is that of node `{certified}`, the greeting that of `{member}`: \
                 give each node the certificate of its own name"
            ),
            Refusal::Connected => f.write_str("connected already; try again"),
            Refusal::Dialling => f.write_str(
                "this node is already connecting to the other; wait for that connection",
            ),
            Refusal::Busy => f.write_str("too many connections are in their handshake; try again"),
            Refusal::Malformed(field) => write!(
                f,
                "not a peer's greeting ({field}); the peer address is for nodes only, clients must \
                 use the client address"
            ),
        }
    }
}

const UNPROVEN: &str = "the greeting does not prove that its sender has the cluster's secret: \
                        upgrade a node of an older version; replace a node without the file SECRET \
                        in its data directory (one that joined with an older version), so that it \
                        joins again";

fn no_common_version(
    f: &mut fmt::Formatter<'_>,
    local: (u16, u16),
    remote: (u16, u16),
) -> fmt::Result {
    write!(
        f,
        "no common version of the peer protocol: this node speaks {} to {}, the other {} to {}; \
         the older one must run {}",
        local.0,
        local.1,
        remote.0,
        remote.1,
        FeatureLevel(local.0.max(remote.0)).program_text()
    )
}

fn old_copy(
    f: &mut fmt::Formatter<'_>,
    node: NodeId,
    claimed: Incarnation,
    incarnation_id: Incarnation,
) -> fmt::Result {
    write!(
        f,
        "node {:016x} has incarnation {claimed}, and does not know its own incarnation \
         {incarnation_id}, which was admitted: its data directory is an old copy, so it may have \
         lost its votes; restore the newest one, or replace the member and start it with an empty \
         one",
        node.0
    )
}

fn far_ahead(
    f: &mut fmt::Formatter<'_>,
    node: NodeId,
    said: Incarnation,
    seen: Incarnation,
) -> fmt::Result {
    write!(
        f,
        "node {:016x} has incarnation {said}, but the last one seen was {seen}: no node starts so \
         often; if its INCARNATION file was changed, replace the member and start it with an empty \
         data directory",
        node.0
    )
}

//! Group that this node is master of: its desired and present members, and how far each is.

use super::membership_controller::{MembershipView, Parts};
use super::{parts_of, saved};
use base::{ClusterDescription, LogIndex, NodeId};
use replica_host::PeerLinks;
use replication::group::Group;
use std::collections::{BTreeMap, BTreeSet};

/// State of a group at its master, from which the next membership step and the next master are
/// chosen.
pub(super) struct LedGroup {
    desired: Parts,
    pub current: Parts,
    saved: BTreeMap<NodeId, LogIndex>,
    master: NodeId,
}

impl LedGroup {
    /// Reads the state of a group. `None`: it has no placement.
    pub(super) fn read(
        links: &PeerLinks,
        group: &Group,
        cluster: &ClusterDescription,
    ) -> Option<LedGroup> {
        let desired = cluster.placement(group.id)?.members.iter().copied().collect();
        Some(LedGroup {
            desired,
            current: parts_of(group),
            saved: saved(group),
            master: links.node,
        })
    }

    /// Returns the state in the form that the decisions take.
    pub(super) fn view(&self) -> MembershipView<'_> {
        let LedGroup { desired, current, saved, master } = self;
        MembershipView { desired, current, saved, master: *master }
    }
}

/// Returns the nodes among these to which this node is connected.
pub(super) fn linked<'a>(
    links: &PeerLinks,
    nodes: impl IntoIterator<Item = &'a NodeId>,
) -> BTreeSet<NodeId> {
    nodes.into_iter().copied().filter(|node| links.is_linked(*node)).collect()
}

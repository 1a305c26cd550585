//! Group that this node is master of: its desired and present members, and how far each is.

use super::membership_controller::{ClusterSight, Parts};
use super::{parts_of, saved};
use crate::peer_links::PeerLinks;
use base::{ClusterDescription, LogIndex, NodeId};
use replication::group::Group;
use std::collections::{BTreeMap, BTreeSet};

/// State of a group at its master, from which the next step and the next master are chosen.
pub(super) struct LedGroup {
    wanted: Parts,
    pub now: Parts,
    saved: BTreeMap<NodeId, LogIndex>,
    master: NodeId,
}

impl LedGroup {
    /// Reads the state of a group. `None`: it has no placement.
    pub(super) fn of(
        links: &PeerLinks,
        group: &Group,
        known: &ClusterDescription,
    ) -> Option<LedGroup> {
        let wanted = known.placement(group.id)?.members.iter().copied().collect();
        Some(LedGroup { wanted, now: parts_of(group), saved: saved(group), master: links.node })
    }

    /// Returns it in the form on which the choices are made.
    pub(super) fn sight(&self) -> ClusterSight<'_> {
        let LedGroup { wanted, now, saved, master } = self;
        ClusterSight { wanted, now, saved, master: *master }
    }
}

/// Returns those of these nodes to which this one is connected.
pub(super) fn linked<'a>(
    links: &PeerLinks,
    nodes: impl IntoIterator<Item = &'a NodeId>,
) -> BTreeSet<NodeId> {
    nodes.into_iter().copied().filter(|node| links.is_linked(*node)).collect()
}

//! Life of a declared index in the directory: what reports, moves and clears make of its row.
//!
//! In a consistent bucket the group's own rows say whether an index is complete, and its master
//! reports it; the directory follows. In an available bucket each node derives entries from its own
//! rows, says itself whether it can answer, and is asked for no more than it has. So the directory
//! needs no exact set of nodes: an index is ready once a quorum of the owners of every partition
//! was complete, and stays it. A node that joins has its definitions before its first row; one that
//! is dead delays nothing; a resize moves no row between nodes by itself.

use super::rows::{DirectoryIndex, DirectoryState, NodeProgress};
use base::index::{BuildProgress, ReportedState};
use base::limits::INDEX_CAUSE_BYTES_MAX;
use base::{BucketId, ClusterDescription, NodeId, Partition};
use logic::ring::Ring;
use std::collections::{BTreeMap, BTreeSet};

/// Effect of an event on the row of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RowEffect {
    /// Leaves it as it is.
    Keep,
    /// Replaces it.
    Put(DirectoryIndex),
    /// Removes it.
    Delete,
}

impl DirectoryIndex {
    fn with_state(&self, state: DirectoryState) -> DirectoryIndex {
        DirectoryIndex { state, ..self.clone() }
    }

    /// Returns the effect of another row.
    fn effect(&self, after: DirectoryIndex) -> RowEffect {
        if after == *self { RowEffect::Keep } else { RowEffect::Put(after) }
    }

    /// Returns the effect of a report of the group in which the bucket is.
    pub(super) fn on_group_report(&self, reported: &ReportedState) -> RowEffect {
        if self.state == DirectoryState::Dropping {
            // A report may have been sent before its master learned of the drop.
            let is_removed = *reported == ReportedState::Removed;
            return if is_removed { RowEffect::Delete } else { RowEffect::Keep };
        }
        let state = match reported {
            ReportedState::Building(progress) => {
                DirectoryState::Building { progress: *progress, nodes: BTreeMap::new() }
            }
            ReportedState::Complete(_) => DirectoryState::Ready,
            ReportedState::Failed(cause) => DirectoryState::Failed(cut(cause)),
            ReportedState::Removed => return RowEffect::Keep,
        };
        self.effect(self.with_state(state))
    }

    /// Returns the effect of a report of the group to which the bucket moves, about the rows that
    /// have this number there.
    pub(super) fn on_target_report(&self, target: BucketId, reported: &ReportedState) -> RowEffect {
        let complete_at = match reported {
            ReportedState::Complete(_) => Some(target),
            ReportedState::Building(_) | ReportedState::Failed(_) | ReportedState::Removed => None,
        };
        self.effect(DirectoryIndex { complete_at, ..self.clone() })
    }

    /// Returns the effect of a report of a node with vnodes. `is_covered` says whether these nodes
    /// hold enough copies of everything.
    pub(super) fn on_node_report(
        &self,
        node: NodeId,
        reported: &ReportedState,
        members: &ClusterDescription,
        is_covered: impl FnOnce(&BTreeSet<NodeId>) -> bool,
    ) -> RowEffect {
        let DirectoryState::Building { progress, nodes } = &self.state else {
            return RowEffect::Keep;
        };
        let reported = match *reported {
            ReportedState::Building(progress) => NodeProgress { progress, is_complete: false },
            ReportedState::Complete(records) => {
                let progress = BuildProgress { done: records, total: records };
                NodeProgress { progress, is_complete: true }
            }
            // A node builds what it can, and removes what the directory does not list.
            ReportedState::Failed(_) | ReportedState::Removed => return RowEffect::Keep,
        };
        let mut nodes = nodes.clone();
        nodes.insert(node, reported);
        nodes.retain(|node, _| members.member(*node).is_some());
        let complete = nodes.iter().filter(|(_, node)| node.is_complete).map(|(node, _)| *node);
        let state = match is_covered(&complete.collect()) {
            true => DirectoryState::Ready,
            false => DirectoryState::Building { progress: *progress, nodes },
        };
        self.effect(self.with_state(state))
    }

    /// Returns the effect of a clear of a consistent bucket: its rows have another number, and what
    /// was removed or failed went with the former ones.
    pub(super) fn on_clear(&self) -> RowEffect {
        match self.state {
            DirectoryState::Dropping => RowEffect::Delete,
            _ => self.effect(self.with_state(DirectoryState::begin())),
        }
    }

    /// Returns the effect of the end of a move: the rows have this number in their new group, whose
    /// index counts from now on.
    pub(super) fn on_moved(&self, target: BucketId) -> RowEffect {
        let is_complete = self.complete_at == Some(target);
        let state = match &self.state {
            DirectoryState::Dropping => DirectoryState::Dropping,
            _ if is_complete => DirectoryState::Ready,
            // The same rows fail in the new group.
            DirectoryState::Failed(cause) => DirectoryState::Failed(cause.clone()),
            DirectoryState::Building { .. } | DirectoryState::Ready => DirectoryState::begin(),
        };
        self.effect(DirectoryIndex { state, complete_at: None, ..self.clone() })
    }
}

/// Returns true if these nodes are a quorum of the owners of every partition, for buckets with so
/// many copies: then reads of a quorum can be answered from them.
pub(super) fn is_covered_by(ring: &Ring, n_val: usize, nodes: &BTreeSet<NodeId>) -> bool {
    (0..ring.partitions()).all(|partition| {
        let owners = ring.owners(Partition(partition), n_val);
        let complete = owners.iter().filter(|owner| nodes.contains(owner)).count();
        complete > owners.len() / 2
    })
}

/// Returns the cause of a failure, cut at a character to the length that is kept.
fn cut(cause: &str) -> String {
    cause[..cause.floor_char_boundary(INDEX_CAUSE_BYTES_MAX)].into()
}

#[cfg(test)]
mod tests;

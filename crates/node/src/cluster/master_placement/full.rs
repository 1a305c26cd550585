//! Hand-over from a full disk: a master whose disk is full would refuse its group's writes though
//! another node has space, so it hands the group over to a node that reports space.
//!
//! Promises: asks a node before it hands over, one at a time, and each at most once in a second;
//! only voters that are connected and near, the nearest first.
//! Never: hands a group over while its members change, or if preferred masters are set.

use crate::cluster::membership_controller::{MembershipStep, MembershipView, next_step};
use base::{GroupId, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// Pause before a node that declined, or handed the group back, is asked again, in milliseconds.
const RETRY_PAUSE_MS: u64 = 1_000;

/// Times at which nodes were asked, for each group, in milliseconds.
#[derive(Debug, Default)]
pub(crate) struct FullDiskHandover {
    asked_ms: BTreeMap<(GroupId, NodeId), u64>,
}

impl FullDiskHandover {
    /// Returns the node to ask next whether it accepts a group. Called at every check while this
    /// node's disk is full.
    pub fn pick(
        &mut self,
        group: GroupId,
        view: &MembershipView,
        linked: &BTreeSet<NodeId>,
        now: u64,
    ) -> Option<NodeId> {
        self.asked_ms.retain(|_, at| now < at.saturating_add(RETRY_PAUSE_MS));
        if next_step(view) != MembershipStep::Idle {
            return None;
        }
        let is_linked = |node| linked.contains(&node);
        let candidates = view.saved.iter().filter(|(node, _)| {
            let is_other = **node != view.master && !self.asked_ms.contains_key(&(group, **node));
            is_other && view.could_lead(**node, is_linked)
        });
        let successor = candidates.max_by_key(|(node, saved)| (**saved, std::cmp::Reverse(**node)));
        let successor = successor.map(|(node, _)| *node)?;
        self.asked_ms.insert((group, successor), now);
        Some(successor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::membership_controller::Parts;
    use base::{LogIndex, Part};

    const GROUP: GroupId = GroupId(1);

    fn parts(all: [(u64, Part); 4]) -> Parts {
        all.into_iter().map(|(node, part)| (NodeId(node), part)).collect()
    }

    #[test]
    fn full_disk_master_asks_near_voters_in_turn_and_again_after_rest() {
        let current =
            parts([(1, Part::Voter), (2, Part::Voter), (3, Part::Voter), (4, Part::Learner)]);
        let saved = [(1, 900), (2, 890), (3, 900), (4, 900)];
        let saved = saved.map(|(node, saved)| (NodeId(node), LogIndex(saved))).into();
        let view = MembershipView {
            desired: &current,
            current: &current,
            saved: &saved,
            master: NodeId(1),
        };
        let linked = [NodeId(2), NodeId(3), NodeId(4)].into();
        let mut handover = FullDiskHandover::default();
        let mut at = |ms| handover.pick(GROUP, &view, &linked, ms).map(|node| node.0);
        assert_eq!((at(0), at(250), at(500)), (Some(3), Some(2), None));
        assert_eq!((at(RETRY_PAUSE_MS - 1), at(RETRY_PAUSE_MS)), (None, Some(3)));
        assert_eq!(handover.pick(GroupId(2), &view, &[NodeId(2)].into(), 1), Some(NodeId(2)));
    }

    #[test]
    fn full_disk_master_asks_no_node_during_membership_change() {
        let current =
            parts([(1, Part::Voter), (2, Part::Voter), (3, Part::Voter), (4, Part::Learner)]);
        let desired =
            parts([(1, Part::Voter), (2, Part::Voter), (3, Part::Voter), (4, Part::Voter)]);
        let saved = current.keys().map(|node| (*node, LogIndex(900))).collect();
        let view = MembershipView {
            desired: &desired,
            current: &current,
            saved: &saved,
            master: NodeId(1),
        };
        let linked = [NodeId(2), NodeId(3)].into();
        assert_eq!(FullDiskHandover::default().pick(GROUP, &view, &linked, 0), None);
    }
}

//! Hand-over from a full disk: a master whose disk is full would refuse its group's writes though
//! another node has space, so it hands the group over to a node that reports space.
//!
//! Promises: asks a node before it hands over, one at a time, and each at most once in a second;
//! only voters that are connected and near, the nearest first.
//! Never: hands a group over while its members change, or if preferred masters are set.

use super::membership_controller::{ClusterSight, MembershipStep, next_step};
use base::{GroupId, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// Time for which a node is not asked again after it declined, or gave the group back, in
/// milliseconds.
const REST_MS: u64 = 1_000;

/// Times at which nodes were asked, for each group, in milliseconds.
#[derive(Debug, Default)]
pub(super) struct Cramped {
    asked: BTreeMap<(GroupId, NodeId), u64>,
}

impl Cramped {
    /// Returns the node to ask next whether it takes a group. To be called at every check while
    /// this node's disk is full.
    pub fn due(
        &mut self,
        group: GroupId,
        seen: &ClusterSight,
        linked: &BTreeSet<NodeId>,
        now: u64,
    ) -> Option<NodeId> {
        self.asked.retain(|_, at| now < at.saturating_add(REST_MS));
        if next_step(seen) != MembershipStep::Rest {
            return None;
        }
        let is_linked = |node| linked.contains(&node);
        let fit = seen.saved.iter().filter(|(node, _)| {
            let other = **node != seen.master && !self.asked.contains_key(&(group, **node));
            other && seen.could_lead(**node, is_linked)
        });
        let heir = fit.max_by_key(|(node, saved)| (**saved, std::cmp::Reverse(**node)));
        let heir = heir.map(|(node, _)| *node)?;
        self.asked.insert((group, heir), now);
        Some(heir)
    }
}

#[cfg(test)]
mod tests {
    use super::super::membership_controller::Parts;
    use super::*;
    use base::{LogIndex, Part};

    const GROUP: GroupId = GroupId(1);

    fn parts(all: [(u64, Part); 4]) -> Parts {
        all.into_iter().map(|(node, part)| (NodeId(node), part)).collect()
    }

    #[test]
    fn those_that_vote_and_are_near_are_asked_in_turn_and_again_after_a_rest() {
        let now = parts([(1, Part::Voter), (2, Part::Voter), (3, Part::Voter), (4, Part::Learner)]);
        let saved = [(1, 900), (2, 890), (3, 900), (4, 900)];
        let saved = saved.map(|(node, saved)| (NodeId(node), LogIndex(saved))).into();
        let seen = ClusterSight { wanted: &now, now: &now, saved: &saved, master: NodeId(1) };
        let linked = [NodeId(2), NodeId(3), NodeId(4)].into();
        let mut cramped = Cramped::default();
        let mut at = |ms| cramped.due(GROUP, &seen, &linked, ms).map(|node| node.0);
        assert_eq!((at(0), at(250), at(500)), (Some(3), Some(2), None));
        assert_eq!((at(REST_MS - 1), at(REST_MS)), (None, Some(3)));
        assert_eq!(cramped.due(GroupId(2), &seen, &[NodeId(2)].into(), 1), Some(NodeId(2)));
    }

    #[test]
    fn nobody_is_asked_while_members_change() {
        let now = parts([(1, Part::Voter), (2, Part::Voter), (3, Part::Voter), (4, Part::Learner)]);
        let wanted =
            parts([(1, Part::Voter), (2, Part::Voter), (3, Part::Voter), (4, Part::Voter)]);
        let saved = now.keys().map(|node| (*node, LogIndex(900))).collect();
        let seen = ClusterSight { wanted: &wanted, now: &now, saved: &saved, master: NodeId(1) };
        let linked = [NodeId(2), NodeId(3)].into();
        assert_eq!(Cramped::default().due(GROUP, &seen, &linked, 0), None);
    }
}

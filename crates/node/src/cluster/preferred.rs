//! Preferred masters, in order of preference: a master that is not the first of them hands over to
//! one before it, once that one has been fit to lead for a while.
//!
//! Promises: hands a group only to a voter that is connected and near, and has been so for a pause.
//! A member that comes and goes moves nothing.
//! Never: delays an election. If no preferred master is fit, the present one stays.

use super::membership_controller::{ClusterSight, MembershipStep, next_step};
use base::{GroupId, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// Node that is fit to take over from this one, with the time since which it is, for each group.
#[derive(Debug, Default)]
pub(super) struct Fit(BTreeMap<GroupId, (NodeId, u64)>);

/// Wish of the operator.
#[derive(Clone, Copy, Debug)]
pub(super) struct PreferredWish<'a> {
    /// Preferred masters, in order of preference.
    pub order: &'a [NodeId],
    /// Time for which a preferred node must be fit before it takes over, in milliseconds.
    pub pause_ms: u64,
}

impl Fit {
    /// Returns the node to which this one is to hand a group over now. `None`: this node stays
    /// master. To be called at every check.
    pub fn due(
        &mut self,
        group: GroupId,
        seen: &ClusterSight,
        wish: PreferredWish,
        linked: &BTreeSet<NodeId>,
        now: u64,
    ) -> Option<NodeId> {
        let Some(heir) = first(seen, wish.order, linked) else {
            self.0.remove(&group);
            return None;
        };
        let fit = self.0.entry(group).or_insert((heir, now));
        if fit.0 != heir {
            *fit = (heir, now);
        }
        if now < fit.1.saturating_add(wish.pause_ms) {
            return None;
        }
        // The result is not known yet; the next try is after the same pause.
        fit.1 = now;
        Some(heir)
    }

    /// Forgets a group that this node is not master of.
    pub fn forget(&mut self, group: GroupId) {
        self.0.remove(&group);
    }
}

/// Returns the first of the list that is fit to lead, if it stands before the master. `None` while
/// members change.
fn first(seen: &ClusterSight, order: &[NodeId], linked: &BTreeSet<NodeId>) -> Option<NodeId> {
    if next_step(seen) != MembershipStep::Rest {
        return None;
    }
    let before = order.iter().take_while(|node| **node != seen.master);
    let mut fit = before.filter(|node| seen.could_lead(**node, |node| linked.contains(&node)));
    fit.next().copied()
}

#[cfg(test)]
mod tests {
    use super::super::membership_controller::Parts;
    use super::*;
    use base::{LogIndex, Part};

    const GROUP: GroupId = GroupId(1);
    const PREFER_PAUSE_MS: u64 = 10_000;

    struct Scene {
        parts: Parts,
        saved: BTreeMap<NodeId, LogIndex>,
        linked: BTreeSet<NodeId>,
        order: Vec<NodeId>,
        fit: Fit,
    }

    impl Scene {
        /// Three level voters, all connected; this order is preferred.
        fn new(order: &[u64]) -> Scene {
            let nodes = || (1..=3).map(NodeId);
            Scene {
                parts: nodes().map(|node| (node, Part::Voter)).collect(),
                saved: nodes().map(|node| (node, LogIndex(9_000))).collect(),
                linked: nodes().collect(),
                order: order.iter().copied().map(NodeId).collect(),
                fit: Fit::default(),
            }
        }

        fn due(&mut self, master: u64, now: u64) -> Option<u64> {
            let (parts, saved) = (&self.parts, &self.saved);
            let seen = ClusterSight { wanted: parts, now: parts, saved, master: NodeId(master) };
            let wish = PreferredWish { order: &self.order, pause_ms: PREFER_PAUSE_MS };
            let due = self.fit.due(GROUP, &seen, wish, &self.linked, now);
            due.map(|node| node.0)
        }
    }

    #[test]
    fn the_first_that_is_fit_takes_over_after_the_pause_and_not_before() {
        let mut scene = Scene::new(&[2, 3]);
        assert_eq!(scene.due(1, 1_000), None, "fit since now");
        assert_eq!(scene.due(1, 999 + PREFER_PAUSE_MS), None);
        assert_eq!(scene.due(1, 1_000 + PREFER_PAUSE_MS), Some(2));
        // It did not take over: not again at once.
        assert_eq!(scene.due(1, 1_001 + PREFER_PAUSE_MS), None);
        assert_eq!(scene.due(1, 1_000 + 2 * PREFER_PAUSE_MS), Some(2));
    }

    #[test]
    fn who_is_not_connected_not_near_or_no_voter_is_passed_by() {
        let spoils: [fn(&mut Scene); 3] = [
            |scene| {
                let _ = scene.linked.remove(&NodeId(2));
            },
            |scene| {
                let _ = scene.saved.insert(NodeId(2), LogIndex(7_999));
            },
            |scene| {
                let _ = scene.parts.insert(NodeId(2), Part::Witness);
            },
        ];
        for spoil in spoils {
            let mut scene = Scene::new(&[2, 3]);
            spoil(&mut scene);
            assert_eq!(scene.due(1, 0), None);
            assert_eq!(scene.due(1, PREFER_PAUSE_MS), Some(3), "the next of the list");
            assert_eq!(scene.due(3, 3 * PREFER_PAUSE_MS), None, "nobody fit stands before it");
        }
    }

    #[test]
    fn who_comes_and_goes_moves_nothing() {
        let mut scene = Scene::new(&[2]);
        for round in 0..20 {
            let now = round * PREFER_PAUSE_MS;
            assert_eq!(scene.due(1, now), None, "round {round}");
            scene.linked.remove(&NodeId(2));
            assert_eq!(scene.due(1, now + PREFER_PAUSE_MS / 2), None);
            scene.linked.insert(NodeId(2));
        }
        scene.fit.forget(GROUP);
        assert_eq!(scene.due(1, 1 << 40), None, "in a new office it begins anew");
    }

    #[test]
    fn the_first_of_the_list_and_a_group_without_one_stay_as_they_are() {
        for (order, master) in [(&[2, 3][..], 2), (&[][..], 1), (&[9][..], 1)] {
            let mut scene = Scene::new(order);
            assert_eq!(scene.due(master, 0), None);
            assert_eq!(scene.due(master, PREFER_PAUSE_MS), None, "{order:?}");
        }
    }

    #[test]
    fn while_members_change_nobody_is_handed_anything() {
        let mut scene = Scene::new(&[2]);
        let wanted: Parts = [(NodeId(4), Part::Voter)].into();
        for now in [0, PREFER_PAUSE_MS, 2 * PREFER_PAUSE_MS] {
            let (parts, saved) = (&scene.parts, &scene.saved);
            let seen = ClusterSight { wanted: &wanted, now: parts, saved, master: NodeId(1) };
            let wish = PreferredWish { order: &scene.order, pause_ms: PREFER_PAUSE_MS };
            let due = scene.fit.due(GROUP, &seen, wish, &scene.linked, now);
            assert_eq!(due, None);
        }
    }
}

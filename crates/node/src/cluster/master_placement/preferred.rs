//! Preferred masters, in order of preference: a master that is not the first of them hands over to
//! one before it, once that one has been fit to lead for a while.
//!
//! Promises: hands a group only to a voter that is connected and near, and has been so for a pause.
//! A member that comes and goes moves nothing.
//! Never: delays an election. If no preferred master is fit, the present one stays.

use crate::cluster::membership_controller::{MembershipStep, MembershipView, next_step};
use base::{GroupId, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// Preferred node that is fit to take each group over, with the time since which it is.
#[derive(Debug, Default)]
pub(crate) struct PreferredHandover(BTreeMap<GroupId, (NodeId, u64)>);

/// Preferred masters as configured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PreferredMasters<'a> {
    /// Preferred masters, in order of preference.
    pub order: &'a [NodeId],
    /// Time for which a preferred node must be fit before it takes over, in milliseconds.
    pub pause_ms: u64,
}

impl PreferredHandover {
    /// Returns the node to which this one is to hand a group over now. `None`: this node stays
    /// master. Called at every check.
    pub fn pick(
        &mut self,
        group: GroupId,
        view: &MembershipView,
        preferred: PreferredMasters,
        linked: &BTreeSet<NodeId>,
        now: u64,
    ) -> Option<NodeId> {
        let Some(successor) = first_candidate(view, preferred.order, linked) else {
            self.0.remove(&group);
            return None;
        };
        let candidate = self.0.entry(group).or_insert((successor, now));
        if candidate.0 != successor {
            *candidate = (successor, now);
        }
        if now < candidate.1.saturating_add(preferred.pause_ms) {
            return None;
        }
        // The outcome is unknown yet; the next attempt follows after the same pause.
        candidate.1 = now;
        Some(successor)
    }

    /// Discards the state of a group that this node is not master of.
    pub fn forget(&mut self, group: GroupId) {
        self.0.remove(&group);
    }
}

/// Returns the first preferred node that is fit to lead and precedes the master in the list. `None`
/// during a membership change.
fn first_candidate(
    view: &MembershipView,
    order: &[NodeId],
    linked: &BTreeSet<NodeId>,
) -> Option<NodeId> {
    if next_step(view) != MembershipStep::Idle {
        return None;
    }
    let before = order.iter().take_while(|node| **node != view.master);
    let mut candidates =
        before.filter(|node| view.could_lead(**node, |node| linked.contains(&node)));
    candidates.next().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::membership_controller::Parts;
    use base::{LogIndex, Part};

    const GROUP: GroupId = GroupId(1);
    const PREFER_PAUSE_MS: u64 = 10_000;

    struct Scene {
        parts: Parts,
        saved: BTreeMap<NodeId, LogIndex>,
        linked: BTreeSet<NodeId>,
        order: Vec<NodeId>,
        handover: PreferredHandover,
    }

    impl Scene {
        /// Three voters with equal logs, all connected; `order` is preferred.
        fn new(order: &[u64]) -> Scene {
            let nodes = || (1..=3).map(NodeId);
            Scene {
                parts: nodes().map(|node| (node, Part::Voter)).collect(),
                saved: nodes().map(|node| (node, LogIndex(9_000))).collect(),
                linked: nodes().collect(),
                order: order.iter().copied().map(NodeId).collect(),
                handover: PreferredHandover::default(),
            }
        }

        fn pick(&mut self, master: u64, now: u64) -> Option<u64> {
            let (parts, saved) = (&self.parts, &self.saved);
            let view =
                MembershipView { desired: parts, current: parts, saved, master: NodeId(master) };
            let preferred = PreferredMasters { order: &self.order, pause_ms: PREFER_PAUSE_MS };
            let successor = self.handover.pick(GROUP, &view, preferred, &self.linked, now);
            successor.map(|node| node.0)
        }
    }

    #[test]
    fn first_fit_preferred_master_takes_over_only_after_pause() {
        let mut scene = Scene::new(&[2, 3]);
        assert_eq!(scene.pick(1, 1_000), None, "fit since now");
        assert_eq!(scene.pick(1, 999 + PREFER_PAUSE_MS), None);
        assert_eq!(scene.pick(1, 1_000 + PREFER_PAUSE_MS), Some(2));
        // It did not take over: the next attempt follows after the pause.
        assert_eq!(scene.pick(1, 1_001 + PREFER_PAUSE_MS), None);
        assert_eq!(scene.pick(1, 1_000 + 2 * PREFER_PAUSE_MS), Some(2));
    }

    #[test]
    fn unfit_preferred_master_is_skipped() {
        let faults: [fn(&mut Scene); 3] = [
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
        for inject_fault in faults {
            let mut scene = Scene::new(&[2, 3]);
            inject_fault(&mut scene);
            assert_eq!(scene.pick(1, 0), None);
            assert_eq!(scene.pick(1, PREFER_PAUSE_MS), Some(3), "the next of the list");
            assert_eq!(scene.pick(3, 3 * PREFER_PAUSE_MS), None, "nobody fit stands before it");
        }
    }

    #[test]
    fn flapping_preferred_master_gets_no_handover() {
        let mut scene = Scene::new(&[2]);
        for round in 0..20 {
            let now = round * PREFER_PAUSE_MS;
            assert_eq!(scene.pick(1, now), None, "round {round}");
            scene.linked.remove(&NodeId(2));
            assert_eq!(scene.pick(1, now + PREFER_PAUSE_MS / 2), None);
            scene.linked.insert(NodeId(2));
        }
        scene.handover.forget(GROUP);
        assert_eq!(scene.pick(1, 1 << 40), None, "in a new office it begins anew");
    }

    #[test]
    fn handover_is_not_due_without_a_better_preferred_master() {
        for (order, master) in [(&[2, 3][..], 2), (&[][..], 1), (&[9][..], 1)] {
            let mut scene = Scene::new(order);
            assert_eq!(scene.pick(master, 0), None);
            assert_eq!(scene.pick(master, PREFER_PAUSE_MS), None, "{order:?}");
        }
    }

    #[test]
    fn preferred_master_gets_no_handover_during_membership_change() {
        let mut scene = Scene::new(&[2]);
        let desired: Parts = [(NodeId(4), Part::Voter)].into();
        for now in [0, PREFER_PAUSE_MS, 2 * PREFER_PAUSE_MS] {
            let (parts, saved) = (&scene.parts, &scene.saved);
            let view =
                MembershipView { desired: &desired, current: parts, saved, master: NodeId(1) };
            let preferred = PreferredMasters { order: &scene.order, pause_ms: PREFER_PAUSE_MS };
            let successor = scene.handover.pick(GROUP, &view, preferred, &scene.linked, now);
            assert_eq!(successor, None);
        }
    }
}

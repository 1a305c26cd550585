//! Spreading of masters: a node that is master of at least two groups more than another that could
//! lead one of them hands one over.
//!
//! Each hand-over brings the two counts nearer, so it ends by itself: no master has more than one
//! group beyond any node that could take over. A node that is to get a group is asked first how
//! many it leads, because this node knows nothing of groups without a replica here. A node answers
//! one asker at a time, so that not all hand groups to the same.
//!
//! Promises: hands a group only to a voter that is connected and near. Nothing begins before the
//! difference has lasted for a pause, and two hand-overs of a node are a tenth of it apart. No
//! group is spread while masters are preferred, or to a node whose disk is slow or full.
//! Never: moves the directory, or counts it.

use base::{GroupId, NodeId};
use std::collections::BTreeMap;

/// The pause between two hand-overs is the first pause divided by this.
const PAUSE_DIVISOR: u64 = 10;

/// Groups with buckets, by their masters.
#[derive(Clone, Debug, Default)]
pub(crate) struct LedGroups {
    /// Number of groups that each node is master of, as far as this node can tell.
    pub counts: BTreeMap<NodeId, usize>,
    /// Groups that this node is master of, each with the nodes that could take over.
    pub own_groups: BTreeMap<GroupId, Vec<NodeId>>,
}

/// Schedule of the next hand-over of a node that leads too many groups.
#[derive(Debug, Default)]
pub(crate) struct SpreadState {
    due_ms: Option<u64>,
    /// Number of groups that other nodes reported to lead, with the expiry of that report in
    /// milliseconds.
    reported: BTreeMap<NodeId, (usize, u64)>,
}

impl SpreadState {
    /// Returns a group to hand over now and its next master, if that reported two groups fewer.
    /// Called at every check.
    pub fn pick(
        &mut self,
        led_groups: &LedGroups,
        pause_ms: u64,
        now: u64,
    ) -> Option<(GroupId, NodeId)> {
        self.reported.retain(|_, (_, until)| now < *until);
        let observed = |node: &NodeId| led_groups.counts.get(node).copied().unwrap_or(0);
        let reported = |node: &NodeId| self.reported.get(node).map_or(0, |(led, _)| *led);
        // The greater of the two: this node may not observe all groups, and the report may be old.
        let Some(handover) = pick_handover(led_groups, |node| observed(node).max(reported(node)))
        else {
            self.due_ms = None;
            return None;
        };
        if now < *self.due_ms.get_or_insert(now.saturating_add(pause_ms)) {
            return None;
        }
        self.due_ms = Some(now.saturating_add(pause_ms / PAUSE_DIVISOR));
        Some(handover)
    }

    /// Records the number of groups that another node reported to lead.
    pub fn record_report(&mut self, node: NodeId, led: usize, pause_ms: u64, now: u64) {
        self.reported.insert(node, (led, now.saturating_add(pause_ms)));
    }
}

/// Returns true if a node with `own` groups should hand one to a node with `other` groups.
pub(crate) fn should_hand_over(own: usize, other: usize) -> bool {
    other.saturating_add(2) <= own
}

fn pick_handover(
    led_groups: &LedGroups,
    led: impl Fn(&NodeId) -> usize,
) -> Option<(GroupId, NodeId)> {
    let candidates = led_groups
        .own_groups
        .iter()
        .flat_map(|(group, candidates)| candidates.iter().map(move |node| (*group, *node)));
    let target =
        candidates.min_by_key(|(group, node)| (led(node), *node, std::cmp::Reverse(*group)))?;
    should_hand_over(led_groups.own_groups.len(), led(&target.1)).then_some(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE_MS: u64 = 1_000;

    /// Simulation of many groups, each on `replicas` nodes in turn, with their masters.
    struct Scene {
        members: BTreeMap<GroupId, Vec<NodeId>>,
        masters: BTreeMap<GroupId, NodeId>,
        spreads: BTreeMap<NodeId, SpreadState>,
        now: u64,
    }

    impl Scene {
        fn new(nodes: u64, groups: u32, replicas: u64) -> Scene {
            let members_of = |group: u32| {
                (0..replicas)
                    .map(|index| NodeId(1 + (u64::from(group) + index) % nodes))
                    .collect::<Vec<_>>()
            };
            let members: BTreeMap<_, _> =
                (1..=groups).map(|index| (GroupId(index), members_of(index))).collect();
            let first = |(group, of): (&GroupId, &Vec<NodeId>)| (*group, of[0].min(of[1]));
            let masters = members.iter().map(first).collect();
            let spreads = (1..=nodes).map(|node| (NodeId(node), SpreadState::default())).collect();
            Scene { members, masters, spreads, now: 0 }
        }

        fn led(&self, node: NodeId) -> usize {
            self.masters.values().filter(|master| **master == node).count()
        }

        /// Returns the groups that a node observes: those of which it has a replica.
        fn led_groups(&self, own: NodeId) -> LedGroups {
            let mut led_groups = LedGroups::default();
            for (group, members) in self.members.iter().filter(|(_, of)| of.contains(&own)) {
                let master = self.masters[group];
                *led_groups.counts.entry(master).or_default() += 1;
                if master == own {
                    let others = members.iter().copied().filter(|node| *node != own).collect();
                    led_groups.own_groups.insert(*group, others);
                }
            }
            led_groups
        }

        /// Runs a check of every node. Returns the number of groups handed over.
        fn check(&mut self) -> usize {
            self.now += 250;
            let nodes: Vec<_> = self.spreads.keys().copied().collect();
            let mut handed = 0;
            for node in nodes {
                let led_groups = self.led_groups(node);
                let spread = self.spreads.get_mut(&node).expect("it is known");
                let due = spread.pick(&led_groups, PAUSE_MS, self.now);
                let Some((group, heir)) = due else { continue };
                let fewer = self.masters.values().filter(|master| **master == heir).count();
                spread.record_report(heir, fewer, PAUSE_MS, self.now);
                if should_hand_over(self.led(node), fewer) {
                    self.masters.insert(group, heir);
                    handed += 1;
                }
            }
            handed
        }
    }

    #[test]
    fn master_spreading_converges_to_difference_of_one_and_stops() {
        for (nodes, groups, replicas) in
            [(3, 30, 3), (3, 2, 3), (5, 50, 5), (5, 100, 3), (7, 60, 3)]
        {
            let mut scene = Scene::new(nodes, groups, replicas);
            let handed: usize = (0..2_000).map(|_| scene.check()).sum();
            for (group, members) in &scene.members {
                let master = scene.led(scene.masters[group]);
                let fewest = members.iter().map(|node| scene.led(*node)).min();
                assert!(Some(master) <= fewest.map(|led| led + 1), "{groups} on {nodes}: {group}");
            }
            assert!(handed <= 2 * groups as usize, "{handed} hand-overs of {groups} groups");
            assert_eq!((0..400).map(|_| scene.check()).sum::<usize>(), 0, "it rests");
        }
    }

    #[test]
    fn master_spreading_waits_for_pause_and_is_rate_limited() {
        let mut scene = Scene::new(3, 30, 3);
        let before = (0..3).map(|_| scene.check()).sum::<usize>();
        assert_eq!(before, 0, "not before the pause is over");
        for _ in 0..4 {
            let at_once = (0..2).map(|_| scene.check()).sum::<usize>();
            assert!(at_once <= 6, "{at_once} within half a second");
        }
    }

    #[test]
    fn group_goes_only_to_least_loaded_member_with_two_fewer() {
        let led_groups = |led: &[(u64, usize)], own: usize| LedGroups {
            counts: led.iter().map(|(node, led)| (NodeId(*node), *led)).collect(),
            own_groups: (1..=own as u32)
                .map(|at| (GroupId(at), vec![NodeId(2), NodeId(3)]))
                .collect(),
        };
        let handover_for =
            |led: &[(u64, usize)], own| SpreadState::default().pick(&led_groups(led, own), 0, 1);
        assert_eq!(handover_for(&[(1, 2), (2, 2), (3, 1)], 2), None);
        assert_eq!(handover_for(&[(1, 2), (2, 2)], 2), Some((GroupId(2), NodeId(3))));
        assert_eq!(handover_for(&[(1, 3), (2, 1), (3, 1)], 3), Some((GroupId(3), NodeId(2))));
        assert_eq!(handover_for(&[(1, 0)], 0), None);
        let mut state = SpreadState::default();
        state.record_report(NodeId(3), 9, PAUSE_MS, 1);
        assert_eq!(
            state.pick(&led_groups(&[(1, 2), (2, 2)], 2), 0, 1),
            None,
            "it has others elsewhere"
        );
    }
}

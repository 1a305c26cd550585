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

/// Fraction of the first pause that lies between two hand-overs.
const PART: u64 = 10;

/// Groups with buckets, as this node sees them.
#[derive(Clone, Debug, Default)]
pub(super) struct Sight {
    /// Number of groups that each node is master of, as far as this one knows.
    pub led: BTreeMap<NodeId, usize>,
    /// Groups that this node is master of, each with the nodes that could take over.
    pub own: BTreeMap<GroupId, Vec<NodeId>>,
}

/// Time since which this node leads too many groups, and times for the next hand-over.
#[derive(Debug, Default)]
pub(super) struct SpreadState {
    due: Option<u64>,
    /// Number of groups that other nodes reported to lead, with the time until which it is
    /// believed.
    said: BTreeMap<NodeId, (usize, u64)>,
}

impl SpreadState {
    /// Returns a group to hand over now and its next master, if that has reported two groups fewer.
    /// To be called at every check.
    pub fn due(&mut self, sight: &Sight, pause_ms: u64, now: u64) -> Option<(GroupId, NodeId)> {
        self.said.retain(|_, (_, until)| now < *until);
        let seen = |node: &NodeId| sight.led.get(node).copied().unwrap_or(0);
        let said = |node: &NodeId| self.said.get(node).map_or(0, |(led, _)| *led);
        // The greater of the two: this node may not see all its groups, and what it said may be
        // old.
        let Some(wanted) = wanted(sight, |node| seen(node).max(said(node))) else {
            self.due = None;
            return None;
        };
        if now < *self.due.get_or_insert(now.saturating_add(pause_ms)) {
            return None;
        }
        self.due = Some(now.saturating_add(pause_ms / PART));
        Some(wanted)
    }

    /// Notes how many groups another node leads; this node may not know some of them.
    pub fn heard(&mut self, node: NodeId, led: usize, pause_ms: u64, now: u64) {
        self.said.insert(node, (led, now.saturating_add(pause_ms)));
    }
}

/// Returns true if a node with `own` groups should hand one to a node with `other` groups.
pub(super) fn differs(own: usize, other: usize) -> bool {
    other.saturating_add(2) <= own
}

fn wanted(sight: &Sight, led: impl Fn(&NodeId) -> usize) -> Option<(GroupId, NodeId)> {
    let fit = sight.own.iter().flat_map(|(group, fit)| fit.iter().map(move |node| (*group, *node)));
    let least = fit.min_by_key(|(group, node)| (led(node), *node, std::cmp::Reverse(*group)))?;
    differs(sight.own.len(), led(&least.1)).then_some(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE_MS: u64 = 1_000;

    /// Simulation of many groups, each on three of the nodes in turn or on all, with their masters.
    struct Scene {
        members: BTreeMap<GroupId, Vec<NodeId>>,
        masters: BTreeMap<GroupId, NodeId>,
        spreads: BTreeMap<NodeId, SpreadState>,
        now: u64,
    }

    impl Scene {
        fn new(nodes: u64, groups: u32, each: u64) -> Scene {
            let of = |group: u32| {
                (0..each).map(|at| NodeId(1 + (u64::from(group) + at) % nodes)).collect::<Vec<_>>()
            };
            let members: BTreeMap<_, _> = (1..=groups).map(|at| (GroupId(at), of(at))).collect();
            let first = |(group, of): (&GroupId, &Vec<NodeId>)| (*group, of[0].min(of[1]));
            let masters = members.iter().map(first).collect();
            let spreads = (1..=nodes).map(|node| (NodeId(node), SpreadState::default())).collect();
            Scene { members, masters, spreads, now: 0 }
        }

        fn led(&self, node: NodeId) -> usize {
            self.masters.values().filter(|master| **master == node).count()
        }

        /// Returns the view of a node: the masters of the groups of which it has a replica.
        fn sight(&self, own: NodeId) -> Sight {
            let mut sight = Sight::default();
            for (group, members) in self.members.iter().filter(|(_, of)| of.contains(&own)) {
                let master = self.masters[group];
                *sight.led.entry(master).or_default() += 1;
                if master == own {
                    let others = members.iter().copied().filter(|node| *node != own).collect();
                    sight.own.insert(*group, others);
                }
            }
            sight
        }

        /// One look of every node; how many groups were handed over.
        fn look(&mut self) -> usize {
            self.now += 250;
            let nodes: Vec<_> = self.spreads.keys().copied().collect();
            let mut handed = 0;
            for node in nodes {
                let sight = self.sight(node);
                let spread = self.spreads.get_mut(&node).expect("it is known");
                let due = spread.due(&sight, PAUSE_MS, self.now);
                let Some((group, heir)) = due else { continue };
                let fewer = self.masters.values().filter(|master| **master == heir).count();
                spread.heard(heir, fewer, PAUSE_MS, self.now);
                if differs(self.led(node), fewer) {
                    self.masters.insert(group, heir);
                    handed += 1;
                }
            }
            handed
        }
    }

    #[test]
    fn whatever_the_groups_no_master_has_two_more_than_one_who_could_be_and_then_all_rest() {
        for (nodes, groups, each) in [(3, 30, 3), (3, 2, 3), (5, 50, 5), (5, 100, 3), (7, 60, 3)] {
            let mut scene = Scene::new(nodes, groups, each);
            let handed: usize = (0..2_000).map(|_| scene.look()).sum();
            for (group, members) in &scene.members {
                let master = scene.led(scene.masters[group]);
                let fewest = members.iter().map(|node| scene.led(*node)).min();
                assert!(Some(master) <= fewest.map(|led| led + 1), "{groups} on {nodes}: {group}");
            }
            assert!(handed <= 2 * groups as usize, "{handed} hand-overs of {groups} groups");
            assert_eq!((0..400).map(|_| scene.look()).sum::<usize>(), 0, "it rests");
        }
    }

    #[test]
    fn a_difference_must_last_and_the_rate_is_bounded() {
        let mut scene = Scene::new(3, 30, 3);
        let before = (0..3).map(|_| scene.look()).sum::<usize>();
        assert_eq!(before, 0, "not before the pause is over");
        for _ in 0..4 {
            let at_once = (0..2).map(|_| scene.look()).sum::<usize>();
            assert!(at_once <= 6, "{at_once} within half a second");
        }
    }

    #[test]
    fn one_more_is_no_difference_and_who_has_least_gets_the_last() {
        let sight = |led: &[(u64, usize)], own: usize| Sight {
            led: led.iter().map(|(node, led)| (NodeId(*node), *led)).collect(),
            own: (1..=own as u32).map(|at| (GroupId(at), vec![NodeId(2), NodeId(3)])).collect(),
        };
        let of = |led: &[(u64, usize)], own| SpreadState::default().due(&sight(led, own), 0, 1);
        assert_eq!(of(&[(1, 2), (2, 2), (3, 1)], 2), None);
        assert_eq!(of(&[(1, 2), (2, 2)], 2), Some((GroupId(2), NodeId(3))));
        assert_eq!(of(&[(1, 3), (2, 1), (3, 1)], 3), Some((GroupId(3), NodeId(2))));
        assert_eq!(of(&[(1, 0)], 0), None);
        let mut told = SpreadState::default();
        told.heard(NodeId(3), 9, PAUSE_MS, 1);
        assert_eq!(told.due(&sight(&[(1, 2), (2, 2)], 2), 0, 1), None, "it has others elsewhere");
    }
}

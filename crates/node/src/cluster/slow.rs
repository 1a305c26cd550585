//! Hand-over from a slow disk: a master whose disk is slow delays its whole group, though a
//! majority without it would do. It hands over to a voter that has entries on disk before it has
//! them itself.
//!
//! Promises: hands over only while this node's own disk is slow by its own clock, entries are
//! taken, and a node fit to lead was ahead in eleven of twelve checks; not again for a minute.
//! Never: judges another node's disk, except that it was quicker than this one's.

use super::membership_controller::{ClusterSight, MembershipStep, next_step};
use base::{GroupId, LogIndex, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// Number of checks at which the group took entries, before a decision: several seconds.
const LOOKS: u32 = 12;
/// Number of them at which another node must have been ahead.
const AHEAD: u32 = 11;
/// Time before a group is handed over for this again, in milliseconds.
const REST_MS: u64 = 60_000;

/// Observations of the groups that a slow node is master of.
#[derive(Debug, Default)]
pub(super) struct Laggard {
    groups: BTreeMap<GroupId, Looks>,
    /// Time at which each group was handed over for this, in milliseconds.
    handed: BTreeMap<GroupId, u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Looks {
    /// Highest index that any member had on disk.
    last: LogIndex,
    seen: u32,
    ahead: u32,
}

impl Laggard {
    /// Returns the node to which this slow one is to hand a group over now. `None`: this node stays
    /// master. To be called at every check.
    pub fn due(
        &mut self,
        group: GroupId,
        seen: &ClusterSight,
        linked: &BTreeSet<NodeId>,
        now: u64,
    ) -> Option<NodeId> {
        let rests = self.handed.get(&group).is_some_and(|at| now < at.saturating_add(REST_MS));
        if rests || next_step(seen) != MembershipStep::Rest {
            self.groups.remove(&group);
            return None;
        }
        let own = seen.saved.get(&seen.master).copied().unwrap_or_default();
        let is_linked = |node| linked.contains(&node);
        let fit = seen.saved.iter().filter(|(node, _)| seen.could_lead(**node, is_linked));
        let first = fit.max_by_key(|(node, saved)| (**saved, std::cmp::Reverse(**node)));
        let last = first.map_or(own, |(_, saved)| own.max(*saved));
        let looks = self.groups.entry(group).or_insert(Looks { last, ..Looks::default() });
        if last == looks.last {
            return None; // Nothing was taken: nothing is held up.
        }
        let ahead = first.filter(|(_, saved)| **saved > own).map(|(node, _)| *node);
        looks.last = last;
        looks.seen += 1;
        looks.ahead += u32::from(ahead.is_some());
        if looks.seen < LOOKS {
            return None;
        }
        let clear = looks.ahead >= AHEAD;
        self.groups.remove(&group);
        let heir = ahead.filter(|_| clear)?;
        self.handed.insert(group, now);
        Some(heir)
    }

    /// Forgets a group that this node is not master of, or all once its disk is not slow.
    pub fn forget(&mut self, group: GroupId) {
        self.groups.remove(&group);
    }
}

#[cfg(test)]
mod tests {
    use super::super::membership_controller::Parts;
    use super::*;
    use base::Part;

    const GROUP: GroupId = GroupId(1);

    /// Returns the node that is handed the group within so many checks. `lead`: how far it is ahead
    /// of the master at each; `step`: entries that the group takes between two checks.
    fn within(
        laggard: &mut Laggard,
        looks: u64,
        step: u64,
        lead: impl Fn(u64) -> i64,
    ) -> Option<u64> {
        let parts: Parts = (1..=3).map(|node| (NodeId(node), Part::Voter)).collect();
        let linked = [NodeId(2), NodeId(3)].into();
        (1..=looks).find_map(|look| {
            let own = 10_000 + look * step;
            let other = own.saturating_add_signed(lead(look));
            let saved = [(1, own), (2, own - 50), (3, other)];
            let saved = saved.map(|(node, saved)| (NodeId(node), LogIndex(saved))).into();
            let seen =
                ClusterSight { wanted: &parts, now: &parts, saved: &saved, master: NodeId(1) };
            laggard.due(GROUP, &seen, &linked, look * 250).map(|node| node.0)
        })
    }

    #[test]
    fn who_was_ahead_nearly_always_takes_over_once() {
        let mut laggard = Laggard::default();
        assert_eq!(within(&mut laggard, 40, 30, |look| if look == 7 { -1 } else { 9 }), Some(3));
        assert_eq!(within(&mut laggard, 200, 30, |_| 9), None, "not again for a minute");
    }

    #[test]
    fn a_quick_master_one_that_is_as_quick_and_an_idle_one_stay() {
        let due =
            |step, lead: &dyn Fn(u64) -> i64| within(&mut Laggard::default(), 200, step, lead);
        assert_eq!(due(30, &|_| -2), None);
        assert_eq!(due(30, &|_| 0), None);
        assert_eq!(
            due(30, &|look| if look % 4 == 0 { -1 } else { 1 }),
            None,
            "three of four times"
        );
        assert_eq!(due(0, &|_| 9), None, "nothing is held up");
    }

    #[test]
    fn what_was_seen_before_the_disk_was_quick_again_counts_no_more() {
        let mut laggard = Laggard::default();
        for _ in 0..10 {
            assert_eq!(within(&mut laggard, 9, 30, |_| 9), None);
            laggard.forget(GROUP);
        }
    }
}

//! A master whose disk is slow holds its whole group up, though a majority without it would do: it
//! hands over to a voter that has values on disk before it has them itself.
//!
//! Promises: only while this node's own disk is slow by its own clock, values go on being taken,
//! and in eleven of twelve looks somebody fit to lead was ahead; not again for a minute.
//! Never: says anything of another node's disk but that it was quicker than this one's.

use super::membership_controller::{ClusterSight, MembershipStep, next_step};
use base::{GroupId, LogIndex, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// Looks at which the group took values, before anything is decided: several seconds.
const LOOKS: u32 = 12;
/// Of so many of them somebody must have been ahead in [`AHEAD`].
const AHEAD: u32 = 11;
/// A group that was handed over is not handed over again for this before so long, milliseconds.
const REST_MS: u64 = 60_000;

/// What was seen of the groups that a slow node is master of.
#[derive(Debug, Default)]
pub(super) struct Laggard {
    groups: BTreeMap<GroupId, Looks>,
    /// When a group was handed over for this.
    handed: BTreeMap<GroupId, u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Looks {
    /// The last value that anyone had on disk.
    last: LogIndex,
    seen: u32,
    ahead: u32,
}

impl Laggard {
    /// Who is to be master of a group now instead of this slow node, if anyone; to be asked at
    /// every look.
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

    /// This node is not master of the group, or its disk is not slow.
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

    /// Who is handed the group within so many looks, this far ahead of the master or behind it at
    /// each; `step`: how many values the group takes between two looks.
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

//! Hand-over from a slow disk: a master whose disk is slow delays its whole group, though a
//! majority without it would do. It hands over to a voter that has entries on disk before it has
//! them itself.
//!
//! Promises: hands over only while this node's own disk is slow by its own clock, entries are
//! taken, and a node fit to lead was ahead in eleven of twelve checks; not again for a minute.
//! Never: judges another node's disk, except that it was quicker than this one's.

use crate::cluster::membership_controller::{MembershipStep, MembershipView, next_step};
use base::{GroupId, LogIndex, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// Number of observed checks before a decision, several seconds. Only checks at which entries were
/// saved count.
const CHECKS: u32 = 12;
/// Number of these checks at which another node must have been ahead.
const CHECKS_AHEAD_MIN: u32 = 11;
/// Pause before a group is handed over for this reason again, in milliseconds.
const RETRY_PAUSE_MS: u64 = 60_000;

/// Observations of the groups that a slow node is master of.
#[derive(Debug, Default)]
pub(crate) struct SlowDiskHandover {
    groups: BTreeMap<GroupId, Observations>,
    /// Time of the last hand-over of each group for this reason, in milliseconds.
    handed_over_ms: BTreeMap<GroupId, u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Observations {
    /// Highest index that any member has on disk.
    last: LogIndex,
    checks: u32,
    checks_ahead: u32,
}

impl SlowDiskHandover {
    /// Returns the node to which this slow node is to hand a group over now. `None`: this node
    /// stays master. Called at every check.
    pub fn pick(
        &mut self,
        group: GroupId,
        view: &MembershipView,
        linked: &BTreeSet<NodeId>,
        now: u64,
    ) -> Option<NodeId> {
        let is_paused = self
            .handed_over_ms
            .get(&group)
            .is_some_and(|at| now < at.saturating_add(RETRY_PAUSE_MS));
        if is_paused || next_step(view) != MembershipStep::Idle {
            self.groups.remove(&group);
            return None;
        }
        let own_saved = view.saved.get(&view.master).copied().unwrap_or_default();
        let is_linked = |node| linked.contains(&node);
        let candidates = view.saved.iter().filter(|(node, _)| view.could_lead(**node, is_linked));
        let best = candidates.max_by_key(|(node, saved)| (**saved, std::cmp::Reverse(**node)));
        let last = best.map_or(own_saved, |(_, saved)| own_saved.max(*saved));
        let observed =
            self.groups.entry(group).or_insert(Observations { last, ..Observations::default() });
        if last == observed.last {
            return None; // No entry was saved, so the disk delays nothing.
        }
        let ahead = best.filter(|(_, saved)| **saved > own_saved).map(|(node, _)| *node);
        observed.last = last;
        observed.checks += 1;
        observed.checks_ahead += u32::from(ahead.is_some());
        if observed.checks < CHECKS {
            return None;
        }
        let is_slower = observed.checks_ahead >= CHECKS_AHEAD_MIN;
        self.groups.remove(&group);
        let successor = ahead.filter(|_| is_slower)?;
        self.handed_over_ms.insert(group, now);
        Some(successor)
    }

    /// Discards the observations of a group that this node is not master of, or whose disk is not
    /// slow any more.
    pub fn forget(&mut self, group: GroupId) {
        self.groups.remove(&group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::membership_controller::Parts;
    use base::Part;

    const GROUP: GroupId = GroupId(1);

    /// Returns the node that is handed the group within `checks` checks. `lead`: entries by which
    /// it is ahead of the master at each check; `step`: entries that the group accepts between two
    /// checks.
    fn successor_within(
        handover: &mut SlowDiskHandover,
        checks: u64,
        step: u64,
        lead: impl Fn(u64) -> i64,
    ) -> Option<u64> {
        let parts: Parts = (1..=3).map(|node| (NodeId(node), Part::Voter)).collect();
        let linked = [NodeId(2), NodeId(3)].into();
        (1..=checks).find_map(|check| {
            let own = 10_000 + check * step;
            let other = own.saturating_add_signed(lead(check));
            let saved = [(1, own), (2, own - 50), (3, other)];
            let saved = saved.map(|(node, saved)| (NodeId(node), LogIndex(saved))).into();
            let view = MembershipView {
                desired: &parts,
                current: &parts,
                saved: &saved,
                master: NodeId(1),
            };
            handover.pick(GROUP, &view, &linked, check * 250).map(|node| node.0)
        })
    }

    #[test]
    fn voter_ahead_of_slow_disk_master_takes_over_once_a_minute() {
        let mut handover = SlowDiskHandover::default();
        assert_eq!(
            successor_within(&mut handover, 40, 30, |check| if check == 7 { -1 } else { 9 }),
            Some(3)
        );
        assert_eq!(successor_within(&mut handover, 200, 30, |_| 9), None, "not again for a minute");
    }

    #[test]
    fn master_stays_if_idle_or_no_voter_is_clearly_ahead() {
        let successor = |step, lead: &dyn Fn(u64) -> i64| {
            successor_within(&mut SlowDiskHandover::default(), 200, step, lead)
        };
        assert_eq!(successor(30, &|_| -2), None);
        assert_eq!(successor(30, &|_| 0), None);
        assert_eq!(
            successor(30, &|check| if check % 4 == 0 { -1 } else { 1 }),
            None,
            "three of four times"
        );
        assert_eq!(successor(0, &|_| 9), None, "nothing is held up");
    }

    #[test]
    fn slow_disk_checks_start_over_after_forget() {
        let mut handover = SlowDiskHandover::default();
        for _ in 0..10 {
            assert_eq!(successor_within(&mut handover, 9, 30, |_| 9), None);
            handover.forget(GROUP);
        }
    }
}

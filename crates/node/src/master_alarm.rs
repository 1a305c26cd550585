//! The alarm of groups without a master: a line in the log when this node reaches the masters of
//! some groups no more, and one when it reaches them again.
//!
//! An election follows every loss of a master and is over within two leases: what lasts longer
//! needs an operator. The sentence is that of `/ready` (`readiness.rs`).

use crate::readiness::{self, Unreached};
use crate::route::Router;
use base::GroupId;
use base::duration::format_ms;
use replica_host::follows;
use runtime::world;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Period of the checks.
const PERIOD: Duration = Duration::from_millis(500);
/// Number of leases that a loss lasts before it is logged.
const LEASES_MIN: u64 = 2;
/// Time after the start for which nothing is logged, in milliseconds: the node is still connecting.
const STARTUP_QUIET_MS: u64 = 3_000;
/// Pause between two log lines, in milliseconds: flapping masters must not fill the log.
const PAUSE_MS: u64 = 5_000;

/// Watches until the node stops.
pub(crate) async fn watch(router: Arc<Router>) {
    let (readiness, lifecycle) = (&router.readiness, &router.lifecycle);
    let stop = lifecycle.stop_signal();
    let lease_ms = readiness.settings.lease_ms;
    let mut alarm =
        MasterAlarm::new(world::milliseconds() + STARTUP_QUIET_MS, LEASES_MIN * lease_ms);
    // A stopping node hands its groups over.
    while !stop.is_cancelled() && !lifecycle.is_stopping() {
        let unreached = readiness.unreached();
        if !unreached.iter().any(|entry| entry.group == GroupId::DIRECTORY) {
            router.access.note_contact();
        }
        let AlarmReport { lost, restored } = alarm.check(world::milliseconds(), &unreached);
        if !lost.is_empty() {
            let lost: Vec<_> =
                unreached.into_iter().filter(|entry| lost.contains(&entry.group)).collect();
            for sentence in readiness::sentences(&lost) {
                tracing::warn!(target: "node", "{sentence}");
            }
        }
        // A group that was dropped, or that this node has left, is not restored.
        let is_followed = |(group, _): &(GroupId, u64)| {
            readiness.groups.get(*group).is_some_and(|group| follows(&group))
        };
        let restored: Vec<_> = restored.into_iter().filter(is_followed).collect();
        if let Some(longest_ms) = restored.iter().map(|(_, lasted_ms)| *lasted_ms).max() {
            let groups: Vec<_> = restored.iter().map(|(group, _)| *group).collect();
            let (groups, lasted) = (readiness::group_names(&groups), format_ms(longest_ms));
            tracing::info!(target: "node", "{groups}: the master is reached again, after {lasted}");
        }
        world::next_or_cancelled(&stop, PERIOD).await;
    }
}

/// Changes to log after a check.
#[derive(Debug, Default, PartialEq, Eq)]
struct AlarmReport {
    /// Groups whose loss lasted long enough to be logged.
    lost: Vec<GroupId>,
    /// Groups that were logged as lost and have a reachable master again, each with the duration of
    /// its loss in milliseconds.
    restored: Vec<(GroupId, u64)>,
}

/// Lost groups, and which of them were logged.
struct MasterAlarm {
    /// Time before which nothing is logged, in milliseconds.
    quiet_until_ms: u64,
    /// Time that a loss must last before it is logged, in milliseconds.
    delay_ms: u64,
    /// Lost groups: time of the loss, and true if it was logged.
    lost: BTreeMap<GroupId, (u64, bool)>,
}

impl MasterAlarm {
    fn new(quiet_until_ms: u64, delay_ms: u64) -> MasterAlarm {
        MasterAlarm { quiet_until_ms, delay_ms, lost: BTreeMap::new() }
    }

    fn check(&mut self, now_ms: u64, unreached: &[Unreached]) -> AlarmReport {
        let mut report = AlarmReport::default();
        self.lost.retain(|group, (since_ms, is_reported)| {
            let is_lost = unreached.iter().any(|entry| entry.group == *group);
            if !is_lost && *is_reported {
                report.restored.push((*group, now_ms.saturating_sub(*since_ms)));
            }
            is_lost
        });
        for entry in unreached {
            self.lost.entry(entry.group).or_insert((now_ms, false));
        }
        if now_ms < self.quiet_until_ms {
            return report;
        }
        let elapsed_ms = |since_ms: u64| now_ms.saturating_sub(since_ms);
        let is_due = |(since_ms, is_reported): &(u64, bool)| {
            !is_reported && elapsed_ms(*since_ms) >= self.delay_ms
        };
        if !self.lost.values().any(is_due) {
            return report;
        }
        // One cause mostly affects the masters of several groups within a short time: they share a
        // log line.
        for (group, (since_ms, is_reported)) in &mut self.lost {
            if !*is_reported && elapsed_ms(*since_ms) >= self.delay_ms / 2 {
                *is_reported = true;
                report.lost.push(*group);
            }
        }
        self.quiet_until_ms = now_ms + PAUSE_MS;
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readiness::{Cause, UnreachableNode};

    fn lost(groups: &[u32]) -> Vec<Unreached> {
        let cause =
            || Cause::Master(UnreachableNode { name: "n2".into(), unreachable_ms: Some(1) });
        groups.iter().map(|group| Unreached { group: GroupId(*group), cause: cause() }).collect()
    }

    fn report_of_lost(groups: &[u32]) -> AlarmReport {
        AlarmReport { lost: groups.iter().copied().map(GroupId).collect(), restored: Vec::new() }
    }

    #[test]
    fn lasting_master_loss_and_its_end_are_each_reported_once() {
        let mut alarm = MasterAlarm::new(0, 1_000);
        assert_eq!(
            alarm.check(100, &lost(&[0, 1])),
            report_of_lost(&[]),
            "an election may be under way"
        );
        assert_eq!(alarm.check(1_100, &lost(&[0, 1])), report_of_lost(&[0, 1]));
        for now in (1_200..60_000).step_by(150) {
            assert_eq!(alarm.check(now, &lost(&[0, 1])), report_of_lost(&[]), "it is said once");
        }
        let restored = vec![(GroupId(0), 59_900), (GroupId(1), 59_900)];
        assert_eq!(alarm.check(60_000, &[]), AlarmReport { lost: Vec::new(), restored });
        assert_eq!(alarm.check(60_150, &[]), report_of_lost(&[]));
    }

    #[test]
    fn groups_losing_masters_almost_together_share_a_line() {
        let mut alarm = MasterAlarm::new(0, 1_000);
        alarm.check(0, &lost(&[0]));
        alarm.check(300, &lost(&[0, 1]));
        alarm.check(900, &lost(&[0, 1, 2]));
        assert_eq!(alarm.check(1_050, &lost(&[0, 1, 2])), report_of_lost(&[0, 1]));
    }

    #[test]
    fn short_master_loss_is_not_reported() {
        let mut alarm = MasterAlarm::new(0, 1_000);
        for round in 0..20 {
            assert_eq!(alarm.check(round * 1_000, &lost(&[1])), report_of_lost(&[]));
            assert_eq!(alarm.check(round * 1_000 + 900, &[]), report_of_lost(&[]));
        }
    }

    #[test]
    fn flapping_master_loss_is_reported_at_a_bounded_rate() {
        let mut alarm = MasterAlarm::new(0, 1_000);
        let mut lines = 0;
        for round in 0..10 {
            let start_ms = round * 2_000;
            alarm.check(start_ms, &lost(&[1]));
            let report = alarm.check(start_ms + 1_000, &lost(&[1]));
            let report_after = alarm.check(start_ms + 1_500, &[]);
            assert_eq!(
                report_after.restored.len(),
                report.lost.len(),
                "only what was said ends with a word"
            );
            lines += report.lost.len();
        }
        assert_eq!(lines, 4, "at 1, 7, 13 and 19 seconds");
    }

    #[test]
    fn master_loss_is_not_reported_during_startup_grace() {
        let mut alarm = MasterAlarm::new(3_000, 1_000);
        assert_eq!(alarm.check(100, &lost(&[0])), report_of_lost(&[]));
        assert_eq!(alarm.check(2_900, &lost(&[0])), report_of_lost(&[]));
        assert_eq!(alarm.check(3_000, &lost(&[0])), report_of_lost(&[0]));
    }
}

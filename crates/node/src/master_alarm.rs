//! The alarm of groups without a master: a line in the log when this node reaches the masters of
//! some groups no more, and one when it reaches them again.
//!
//! An election follows every loss of a master and is over within two leases: what lasts longer
//! needs an operator. The sentence is that of `/ready` (`readiness.rs`).

use crate::groups::keeps_up;
use crate::lifecycle::Lifecycle;
use crate::readiness::{self, Readiness, Unreached};
use base::GroupId;
use base::duration::text_of_ms;
use runtime::world;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Looks in the length of a lease.
const LOOKS_PER_LEASE: u64 = 4;
/// Number of leases that a loss lasts before it is logged.
const LEASES: u64 = 2;
/// Time after the start for which nothing is logged, in milliseconds: the node looks for the
/// others.
const FIRST_MS: u64 = 3_000;
/// Between two such lines, milliseconds: masters that come and go fill no log.
const PAUSE_MS: u64 = 5_000;

/// Watches until the node stops.
pub(crate) async fn watch(readiness: Arc<Readiness>, lifecycle: Arc<Lifecycle>) {
    let stop = lifecycle.stop_signal();
    let lease_ms = readiness.settings.lease_ms;
    let pause = Duration::from_millis((lease_ms / LOOKS_PER_LEASE).max(1));
    let mut alarm = Alarm::new(world::milliseconds() + FIRST_MS, LEASES * lease_ms);
    // A node that stops gives its groups away.
    while !stop.is_cancelled() && !lifecycle.is_stopping() {
        let unreached = readiness.unreached();
        let Look { lost, back } = alarm.look(world::milliseconds(), &unreached);
        if !lost.is_empty() {
            let lost: Vec<_> =
                unreached.into_iter().filter(|one| lost.contains(&one.group)).collect();
            for sentence in readiness::sentences(&lost) {
                tracing::warn!(target: "node", "{sentence}");
            }
        }
        // A group that was dropped, or that this node has left, is not back.
        let keeps_up = |(group, _): &(GroupId, u64)| {
            readiness.groups.get(*group).is_some_and(|group| keeps_up(&group))
        };
        let back: Vec<_> = back.into_iter().filter(keeps_up).collect();
        if let Some(longest_ms) = back.iter().map(|(_, lasted_ms)| *lasted_ms).max() {
            let groups: Vec<_> = back.iter().map(|(group, _)| *group).collect();
            let (groups, lasted) = (readiness::named(&groups), text_of_ms(longest_ms));
            tracing::info!(target: "node", "{groups}: the master is reached again, after {lasted}");
        }
        world::rest(&stop, pause).await;
    }
}

/// Findings of one check that are to be logged.
#[derive(Debug, Default, PartialEq, Eq)]
struct Look {
    /// Groups whose loss has lasted long enough.
    lost: Vec<GroupId>,
    /// Groups that were logged as lost and are not any more, each with the time of its loss, in
    /// milliseconds.
    back: Vec<(GroupId, u64)>,
}

/// State of the alarm: losses, and which of them were logged.
struct Alarm {
    /// Time before which nothing is logged, in milliseconds.
    quiet_until_ms: u64,
    /// Time that a loss must last before it is logged, in milliseconds.
    patience_ms: u64,
    /// Groups that are lost: since when, and true if that was logged.
    lost: BTreeMap<GroupId, (u64, bool)>,
}

impl Alarm {
    fn new(quiet_until_ms: u64, patience_ms: u64) -> Alarm {
        Alarm { quiet_until_ms, patience_ms, lost: BTreeMap::new() }
    }

    fn look(&mut self, now_ms: u64, unreached: &[Unreached]) -> Look {
        let mut look = Look::default();
        self.lost.retain(|group, (since_ms, said)| {
            let stays = unreached.iter().any(|one| one.group == *group);
            if !stays && *said {
                look.back.push((*group, now_ms.saturating_sub(*since_ms)));
            }
            stays
        });
        for one in unreached {
            self.lost.entry(one.group).or_insert((now_ms, false));
        }
        if now_ms < self.quiet_until_ms {
            return look;
        }
        let lasts = |since_ms: u64| now_ms.saturating_sub(since_ms);
        let is_due = |(since_ms, said): &(u64, bool)| !said && lasts(*since_ms) >= self.patience_ms;
        if !self.lost.values().any(is_due) {
            return look;
        }
        // A cause that took one group's master mostly took others', too, a little sooner or later:
        // they share a line.
        for (group, (since_ms, said)) in &mut self.lost {
            if !*said && lasts(*since_ms) >= self.patience_ms / 2 {
                *said = true;
                look.lost.push(*group);
            }
        }
        self.quiet_until_ms = now_ms + PAUSE_MS;
        look
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readiness::{Cause, Missing};

    fn lost(groups: &[u32]) -> Vec<Unreached> {
        let cause = || Cause::Master(Missing { name: "n2".into(), away_ms: Some(1) });
        groups.iter().map(|group| Unreached { group: GroupId(*group), cause: cause() }).collect()
    }

    fn said(groups: &[u32]) -> Look {
        Look { lost: groups.iter().copied().map(GroupId).collect(), back: Vec::new() }
    }

    #[test]
    fn a_loss_that_lasts_is_said_once_and_its_end_once() {
        let mut alarm = Alarm::new(0, 1_000);
        assert_eq!(alarm.look(100, &lost(&[0, 1])), said(&[]), "an election may be under way");
        assert_eq!(alarm.look(1_100, &lost(&[0, 1])), said(&[0, 1]));
        for now in (1_200..60_000).step_by(150) {
            assert_eq!(alarm.look(now, &lost(&[0, 1])), said(&[]), "it is said once");
        }
        let back = vec![(GroupId(0), 59_900), (GroupId(1), 59_900)];
        assert_eq!(alarm.look(60_000, &[]), Look { lost: Vec::new(), back });
        assert_eq!(alarm.look(60_150, &[]), said(&[]));
    }

    #[test]
    fn groups_that_are_lost_within_a_moment_share_a_line() {
        let mut alarm = Alarm::new(0, 1_000);
        alarm.look(0, &lost(&[0]));
        alarm.look(300, &lost(&[0, 1]));
        alarm.look(900, &lost(&[0, 1, 2]));
        assert_eq!(alarm.look(1_050, &lost(&[0, 1, 2])), said(&[0, 1]));
    }

    #[test]
    fn what_passes_by_itself_is_not_said() {
        let mut alarm = Alarm::new(0, 1_000);
        for round in 0..20 {
            assert_eq!(alarm.look(round * 1_000, &lost(&[1])), said(&[]));
            assert_eq!(alarm.look(round * 1_000 + 900, &[]), said(&[]));
        }
    }

    #[test]
    fn masters_that_come_and_go_are_said_now_and_then() {
        let mut alarm = Alarm::new(0, 1_000);
        let mut lines = 0;
        for round in 0..10 {
            let begins = round * 2_000;
            alarm.look(begins, &lost(&[1]));
            let look = alarm.look(begins + 1_000, &lost(&[1]));
            let back = alarm.look(begins + 1_500, &[]);
            assert_eq!(back.back.len(), look.lost.len(), "only what was said ends with a word");
            lines += look.lost.len();
        }
        assert_eq!(lines, 4, "at 1, 7, 13 and 19 seconds");
    }

    #[test]
    fn a_node_that_has_just_started_says_nothing() {
        let mut alarm = Alarm::new(3_000, 1_000);
        assert_eq!(alarm.look(100, &lost(&[0])), said(&[]));
        assert_eq!(alarm.look(2_900, &lost(&[0])), said(&[]));
        assert_eq!(alarm.look(3_000, &lost(&[0])), said(&[0]));
    }
}

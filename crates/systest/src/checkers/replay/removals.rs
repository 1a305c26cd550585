//! Matching of deletes with removals in the log: deletes of one key look alike there.

use super::log::{LogPosition, ReplayLog};
use super::placement::{AllowedPositions, ceilings, floors};
use super::{ClaimedEffects, UnexplainedEvent};
use crate::workload::CallOutcome;
use crate::workload::registers::{RegisterAction, RegisterCall};
use std::collections::{BTreeMap, BTreeSet};

/// Assigns a removal to each delete that found a value, and reports removals that no call of
/// unknown outcome explains. Returns the number of deletes that could have been several removals.
pub(super) fn match_deletes(
    history: &[RegisterCall],
    log: &ReplayLog,
    claimed: &ClaimedEffects,
    allowed: &mut [AllowedPositions],
    unexplained: &mut Vec<UnexplainedEvent>,
) -> usize {
    let mut free: BTreeMap<&str, BTreeSet<LogPosition>> = BTreeMap::new();
    let keys: BTreeSet<&str> = history.iter().map(|call| call.op.key.as_str()).collect();
    for (key, timeline) in log.timelines().filter(|(key, _)| keys.contains(key.as_str())) {
        let unclaimed = timeline.removals().filter(|position| !claimed.removals.contains(position));
        free.insert(key, unclaimed.collect());
    }
    let mut open: Vec<usize> =
        (0..history.len()).filter(|at| allowed[*at] == AllowedPositions::Removal).collect();
    let mut guessed = 0;
    while !open.is_empty() {
        for at in &open {
            let positions = free.get(history[*at].op.key.as_str());
            allowed[*at] =
                AllowedPositions::OneOf(positions.into_iter().flatten().copied().collect());
        }
        let (floors, ceilings) = (floors(history, log, allowed), ceilings(history, log, allowed));
        let window = |at: &usize| {
            let positions = free.get(history[*at].op.key.as_str()).into_iter();
            let after_floor = positions.flat_map(|all| all.range(floors[*at] + 1..));
            let mut within = after_floor.take_while(|position| **position <= ceilings[*at]);
            (within.next().copied(), within.next().is_some())
        };
        let windows: Vec<_> = open.iter().map(|at| (*at, window(at))).collect();
        let unambiguous: Vec<_> = windows.iter().filter(|(_, (_, several))| !several).collect();
        let assigned: Vec<(usize, Option<LogPosition>)> = match unambiguous.is_empty() {
            false => unambiguous.into_iter().map(|(at, (position, _))| (*at, *position)).collect(),
            // Of the deletes of one key that could be several, the one with the earliest ceiling
            // gets the first.
            true => {
                let mut first: BTreeMap<&str, usize> = BTreeMap::new();
                for at in &open {
                    let earliest = first.entry(&history[*at].op.key).or_insert(*at);
                    if (ceilings[*at], floors[*at]) < (ceilings[*earliest], floors[*earliest]) {
                        *earliest = *at;
                    }
                }
                guessed += first.len();
                first.into_values().map(|at| (at, window(&at).0)).collect()
            }
        };
        for (at, position) in assigned {
            let call = &history[at];
            let claimed_position = position.filter(|position| {
                free.get_mut(call.op.key.as_str()).is_some_and(|free| free.remove(position))
            });
            allowed[at] = claimed_position.map_or(AllowedPositions::Anywhere, AllowedPositions::At);
            open.retain(|one| *one != at);
            if claimed_position.is_none() {
                let message = format!("the log takes nothing away for it: {call}");
                unexplained.push(UnexplainedEvent { message, depends_on_guess: guessed > 0 });
            }
        }
    }
    report_unexplained_removals(history, log, allowed, &free, |message| {
        unexplained.push(UnexplainedEvent { message, depends_on_guess: guessed > 0 });
    });
    guessed
}

/// Reports removals that no acknowledged call and no call of unknown outcome made; each of the
/// latter explains one.
fn report_unexplained_removals(
    history: &[RegisterCall],
    log: &ReplayLog,
    allowed: &[AllowedPositions],
    free: &BTreeMap<&str, BTreeSet<LogPosition>>,
    mut report: impl FnMut(String),
) {
    let floors = floors(history, log, allowed);
    let mut deletes: BTreeMap<&str, Vec<LogPosition>> = BTreeMap::new();
    let mut tests: BTreeMap<(&str, &[u8]), Vec<LogPosition>> = BTreeMap::new();
    for (call, floor) in history.iter().zip(floors) {
        match (&call.op.action, &call.outcome) {
            (RegisterAction::Delete, CallOutcome::Unknown) => {
                deletes.entry(&call.op.key).or_default().push(floor);
            }
            (
                RegisterAction::TestAndSet { expect: Some(value), wanted: None },
                CallOutcome::Unknown,
            ) => {
                tests.entry((&call.op.key, value)).or_default().push(floor);
            }
            _ => {}
        }
    }
    let claim = |floors: Option<&mut Vec<LogPosition>>, position: LogPosition| {
        let floors = floors?;
        let at = floors.iter().position(|floor| *floor < position)?;
        Some(floors.swap_remove(at))
    };
    for (key, positions) in free {
        let timeline = log.timeline(key);
        for position in positions {
            let previous = timeline.before(*position).as_deref().unwrap_or_default();
            let explained = claim(tests.get_mut(&(*key, previous)), *position)
                .or_else(|| claim(deletes.get_mut(key), *position));
            if explained.is_none() {
                report(format!("nobody took {key} away at {}", log.index(*position)));
            }
        }
    }
}

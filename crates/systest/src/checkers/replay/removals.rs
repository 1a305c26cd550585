//! Matching of deletes with removals in the log: deletes of one key look alike there.

use super::log::{LogPosition, ReplayLog};
use super::places::{Allowed, ceilings, floors};
use super::{Claimed, Unexplained};
use crate::workload::CallOutcome;
use crate::workload::registers::{RegisterAction, RegisterCall};
use std::collections::{BTreeMap, BTreeSet};

/// Assigns a removal to each delete that found a value, and reports removals that no call of
/// unknown outcome explains. Returns the number of deletes that could have been several removals.
pub(super) fn ascribe(
    history: &[RegisterCall],
    log: &ReplayLog,
    claimed: &Claimed,
    allowed: &mut [Allowed],
    found: &mut Vec<Unexplained>,
) -> usize {
    let mut free: BTreeMap<&str, BTreeSet<LogPosition>> = BTreeMap::new();
    let keys: BTreeSet<&str> = history.iter().map(|call| call.op.key.as_str()).collect();
    for (key, line) in log.lines().filter(|(key, _)| keys.contains(key.as_str())) {
        let nobodys = line.removals().filter(|place| !claimed.removals.contains(place));
        free.insert(key, nobodys.collect());
    }
    let mut open: Vec<usize> =
        (0..history.len()).filter(|at| allowed[*at] == Allowed::Removal).collect();
    let mut guessed = 0;
    while !open.is_empty() {
        for at in &open {
            let places = free.get(history[*at].op.key.as_str());
            allowed[*at] = Allowed::OneOf(places.into_iter().flatten().copied().collect());
        }
        let (floors, ceilings) = (floors(history, log, allowed), ceilings(history, log, allowed));
        let window = |at: &usize| {
            let places = free.get(history[*at].op.key.as_str()).into_iter();
            let behind = places.flat_map(|all| all.range(floors[*at] + 1..));
            let mut within = behind.take_while(|place| **place <= ceilings[*at]);
            (within.next().copied(), within.next().is_some())
        };
        let windows: Vec<_> = open.iter().map(|at| (*at, window(at))).collect();
        let sure: Vec<_> = windows.iter().filter(|(_, (_, several))| !several).collect();
        let chosen: Vec<(usize, Option<LogPosition>)> = match sure.is_empty() {
            false => sure.into_iter().map(|(at, (place, _))| (*at, *place)).collect(),
            // Of the deletes of one key that could be several, the one with the earliest ceiling
            // gets the first.
            true => {
                let mut first: BTreeMap<&str, usize> = BTreeMap::new();
                for at in &open {
                    let soonest = first.entry(&history[*at].op.key).or_insert(*at);
                    if (ceilings[*at], floors[*at]) < (ceilings[*soonest], floors[*soonest]) {
                        *soonest = *at;
                    }
                }
                guessed += first.len();
                first.into_values().map(|at| (at, window(&at).0)).collect()
            }
        };
        for (at, place) in chosen {
            let call = &history[at];
            let taken = place.filter(|place| {
                free.get_mut(call.op.key.as_str()).is_some_and(|free| free.remove(place))
            });
            allowed[at] = taken.map_or(Allowed::Anywhere, Allowed::At);
            open.retain(|one| *one != at);
            if taken.is_none() {
                let words = format!("the log takes nothing away for it: {call}");
                found.push(Unexplained { words, hangs_on_guess: guessed > 0 });
            }
        }
    }
    left_over(history, log, allowed, &free, |words| {
        found.push(Unexplained { words, hangs_on_guess: guessed > 0 });
    });
    guessed
}

/// Reports removals that no acknowledged call and no call of unknown outcome made; each of the
/// latter explains one.
fn left_over(
    history: &[RegisterCall],
    log: &ReplayLog,
    allowed: &[Allowed],
    free: &BTreeMap<&str, BTreeSet<LogPosition>>,
    mut say: impl FnMut(String),
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
    let take = |floors: Option<&mut Vec<LogPosition>>, place: LogPosition| {
        let floors = floors?;
        let at = floors.iter().position(|floor| *floor < place)?;
        Some(floors.swap_remove(at))
    };
    for (key, places) in free {
        let line = log.line(key);
        for place in places {
            let before = line.before(*place).as_deref().unwrap_or_default();
            let explained = take(tests.get_mut(&(*key, before)), *place)
                .or_else(|| take(deletes.get_mut(key), *place));
            if explained.is_none() {
                say(format!("nobody took {key} away at {}", log.index(*place)));
            }
        }
    }
}

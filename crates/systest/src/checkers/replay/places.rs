//! Assignment of places to all calls that keeps the order in which clients saw them end and begin.

use super::log::{LogPosition, PlaceSpan, ReplayLog};
use crate::workload::registers::RegisterCall;
use std::sync::Arc;

/// Places at which a call may have been done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Allowed {
    /// At this effect.
    At(LogPosition),
    /// At one of the removals of its key that belong to no call yet.
    Removal,
    /// At one of these effects.
    OneOf(Vec<LogPosition>),
    /// In one of these ranges, in a state that readers may see: after a whole decided value.
    Seen(Arc<[PlaceSpan]>),
    /// In one of these ranges, in any state: the value that a write found when it was evaluated.
    Held(Arc<[PlaceSpan]>),
    /// At this effect, but its client never learned of it: only the beginning bounds it.
    NotBefore(LogPosition),
    /// Anywhere: the call proves nothing.
    Anywhere,
}

impl Allowed {
    /// Returns the least place after `floor`, the calls that had ended before it began. `None`:
    /// there is none.
    fn least(&self, log: &ReplayLog, floor: LogPosition) -> Option<LogPosition> {
        match self {
            Allowed::At(place) | Allowed::NotBefore(place) => {
                Some(*place).filter(|place| *place > floor)
            }
            Allowed::OneOf(places) => places.iter().find(|place| **place > floor).copied(),
            Allowed::Held(spans) => {
                let (from, _) = spans.get(spans.partition_point(|(_, end)| *end <= floor))?;
                Some(floor.max(*from))
            }
            Allowed::Seen(spans) => {
                let late = spans.partition_point(|(_, end)| *end <= floor);
                spans[late..].iter().find_map(|(from, end)| {
                    log.seen_from(floor.max(*from)).filter(|place| place < end)
                })
            }
            Allowed::Removal | Allowed::Anywhere => Some(floor),
        }
    }

    /// Returns the greatest place at or before `ceiling`. `None`: there is none.
    fn greatest(&self, log: &ReplayLog, ceiling: LogPosition) -> Option<LogPosition> {
        // Number of ranges that begin early enough.
        let early = |spans: &Arc<[PlaceSpan]>| spans.partition_point(|(from, _)| *from <= ceiling);
        let within = |end: LogPosition| ceiling.min(end.saturating_sub(1)).min(log.effects());
        match self {
            Allowed::At(place) => Some(*place).filter(|place| *place <= ceiling),
            Allowed::OneOf(places) => places.iter().rev().find(|at| **at <= ceiling).copied(),
            Allowed::Held(spans) => spans[..early(spans)].last().map(|(_, end)| within(*end)),
            Allowed::Seen(spans) => spans[..early(spans)].iter().rev().find_map(|(from, end)| {
                Some(log.seen_upto(within(*end))).filter(|place| place >= from)
            }),
            Allowed::Removal | Allowed::Anywhere | Allowed::NotBefore(_) => Some(ceiling),
        }
    }

    /// Returns true if it is an effect: a call that ended before it did not see it.
    fn is_effect(&self) -> bool {
        matches!(self, Allowed::At(_) | Allowed::OneOf(_) | Allowed::Removal)
    }
}

/// Returns the calls to which earlier ones leave no place, each with the call that is in its way.
pub(super) fn misplaced(
    history: &[RegisterCall],
    log: &ReplayLog,
    allowed: &[Allowed],
) -> Vec<String> {
    let (floors, least, stuck) = upwards(history, log, allowed);
    let words = stuck.into_iter().map(|at| {
        let floor = floors[at];
        let why = history.iter().zip(&least).zip(allowed).find(|((call, place), one)| {
            let counts = call.is_known() && **one != Allowed::Anywhere;
            counts && call.ended < history[at].began && **place == floor
        });
        let why = why.map_or_else(|| "nothing".into(), |((call, _), _)| call.to_string());
        let index = log.index(floor);
        format!("{} has no place behind index {index}, which is that of {why}", history[at])
    });
    words.collect()
}

/// Returns for each call the place that had certainly been reached before it began.
pub(super) fn floors(
    history: &[RegisterCall],
    log: &ReplayLog,
    allowed: &[Allowed],
) -> Vec<LogPosition> {
    upwards(history, log, allowed).0
}

/// Returns each call's floor, its least place, and the calls that have none.
fn upwards(
    history: &[RegisterCall],
    log: &ReplayLog,
    allowed: &[Allowed],
) -> (Vec<LogPosition>, Vec<LogPosition>, Vec<usize>) {
    let mut by_begin: Vec<usize> = (0..history.len()).collect();
    by_begin.sort_by_key(|at| history[*at].began);
    let mut by_end: Vec<usize> = (0..history.len()).filter(|at| history[*at].is_known()).collect();
    by_end.sort_by_key(|at| history[*at].ended);
    let mut ends = by_end.into_iter().peekable();
    let (mut floors, mut least) = (vec![0; history.len()], vec![0; history.len()]);
    let (mut floor, mut stuck) = (0, Vec::new());
    for at in by_begin {
        while let Some(over) = ends.next_if(|over| history[*over].ended < history[at].began) {
            floor = floor.max(least[over]);
        }
        floors[at] = floor;
        least[at] = allowed[at].least(log, floor).unwrap_or_else(|| {
            stuck.push(at);
            floor
        });
    }
    (floors, least, stuck)
}

/// Returns for each call the place at or before which it must have been done, since others began
/// after it had ended.
pub(super) fn ceilings(
    history: &[RegisterCall],
    log: &ReplayLog,
    allowed: &[Allowed],
) -> Vec<LogPosition> {
    let mut by_end: Vec<usize> = (0..history.len()).collect();
    by_end.sort_by_key(|at| std::cmp::Reverse(history[*at].ended));
    let mut by_begin: Vec<usize> =
        (0..history.len()).filter(|at| history[*at].is_known()).collect();
    by_begin.sort_by_key(|at| std::cmp::Reverse(history[*at].began));
    let mut begins = by_begin.into_iter().peekable();
    let mut ceilings = vec![log.effects(); history.len()];
    let mut greatest = vec![log.effects(); history.len()];
    let mut ceiling = log.effects();
    for at in by_end {
        while let Some(next) = begins.next_if(|next| history[*next].began > history[at].ended) {
            let effect = usize::from(allowed[next].is_effect());
            ceiling = ceiling.min(greatest[next].saturating_sub(effect));
        }
        if history[at].is_known() {
            ceilings[at] = ceiling;
            greatest[at] = allowed[at].greatest(log, ceiling).unwrap_or(ceiling);
        }
    }
    ceilings
}

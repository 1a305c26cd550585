//! Assignment of positions to all calls that keeps the order in which clients saw them end and
//! begin.

use super::log::{LogPosition, PositionSpan, ReplayLog};
use crate::workload::registers::RegisterCall;
use std::sync::Arc;

/// Positions at which a call may have been done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AllowedPositions {
    /// At this effect.
    At(LogPosition),
    /// At one of the removals of its key that belong to no call yet.
    Removal,
    /// At one of these effects.
    OneOf(Vec<LogPosition>),
    /// In one of these ranges, in a state that readers may see: after a whole decided value.
    VisibleWithin(Arc<[PositionSpan]>),
    /// In one of these ranges, in any state: the value that a write found when it was evaluated.
    Within(Arc<[PositionSpan]>),
    /// At this effect, but the outcome is unknown to the client: only the beginning bounds it.
    NotBefore(LogPosition),
    /// Anywhere: the call proves nothing.
    Anywhere,
}

impl AllowedPositions {
    /// Returns the least position after `floor`, the calls that had ended before it began. `None`:
    /// there is none.
    fn least(&self, log: &ReplayLog, floor: LogPosition) -> Option<LogPosition> {
        match self {
            AllowedPositions::At(position) | AllowedPositions::NotBefore(position) => {
                Some(*position).filter(|position| *position > floor)
            }
            AllowedPositions::OneOf(positions) => {
                positions.iter().find(|position| **position > floor).copied()
            }
            AllowedPositions::Within(spans) => {
                let (from, _) = spans.get(spans.partition_point(|(_, end)| *end <= floor))?;
                Some(floor.max(*from))
            }
            AllowedPositions::VisibleWithin(spans) => {
                let late = spans.partition_point(|(_, end)| *end <= floor);
                spans[late..].iter().find_map(|(from, end)| {
                    log.first_visible(floor.max(*from)).filter(|position| position < end)
                })
            }
            AllowedPositions::Removal | AllowedPositions::Anywhere => Some(floor),
        }
    }

    /// Returns the greatest position at or before `ceiling`. `None`: there is none.
    fn greatest(&self, log: &ReplayLog, ceiling: LogPosition) -> Option<LogPosition> {
        // Number of ranges that begin early enough.
        let early =
            |spans: &Arc<[PositionSpan]>| spans.partition_point(|(from, _)| *from <= ceiling);
        let within = |end: LogPosition| ceiling.min(end.saturating_sub(1)).min(log.effects());
        match self {
            AllowedPositions::At(position) => {
                Some(*position).filter(|position| *position <= ceiling)
            }
            AllowedPositions::OneOf(positions) => {
                positions.iter().rev().find(|at| **at <= ceiling).copied()
            }
            AllowedPositions::Within(spans) => {
                spans[..early(spans)].last().map(|(_, end)| within(*end))
            }
            AllowedPositions::VisibleWithin(spans) => {
                spans[..early(spans)].iter().rev().find_map(|(from, end)| {
                    Some(log.last_visible(within(*end))).filter(|position| position >= from)
                })
            }
            AllowedPositions::Removal
            | AllowedPositions::Anywhere
            | AllowedPositions::NotBefore(_) => Some(ceiling),
        }
    }

    /// Returns true if the position is an effect: a call that ended before it did not observe it.
    fn is_effect(&self) -> bool {
        matches!(
            self,
            AllowedPositions::At(_) | AllowedPositions::OneOf(_) | AllowedPositions::Removal
        )
    }
}

/// Returns the calls that have no position after the calls before them, each with the call that
/// blocks it.
pub(super) fn unplaceable_calls(
    history: &[RegisterCall],
    log: &ReplayLog,
    allowed: &[AllowedPositions],
) -> Vec<String> {
    let (floors, least, unplaceable) = lower_bounds(history, log, allowed);
    let messages = unplaceable.into_iter().map(|at| {
        let floor = floors[at];
        let blocker =
            history.iter().zip(&least).zip(allowed).find(|((call, position), allowed_here)| {
                let counts = call.is_known() && **allowed_here != AllowedPositions::Anywhere;
                counts && call.ended < history[at].began && **position == floor
            });
        let blocker = blocker.map_or_else(|| "nothing".into(), |((call, _), _)| call.to_string());
        let index = log.index(floor);
        format!("{} has no place behind index {index}, which is that of {blocker}", history[at])
    });
    messages.collect()
}

/// Returns for each call the position that had certainly been reached before it began.
pub(super) fn floors(
    history: &[RegisterCall],
    log: &ReplayLog,
    allowed: &[AllowedPositions],
) -> Vec<LogPosition> {
    lower_bounds(history, log, allowed).0
}

/// Returns each call's floor, its least position, and the calls that have none.
fn lower_bounds(
    history: &[RegisterCall],
    log: &ReplayLog,
    allowed: &[AllowedPositions],
) -> (Vec<LogPosition>, Vec<LogPosition>, Vec<usize>) {
    let mut by_begin: Vec<usize> = (0..history.len()).collect();
    by_begin.sort_by_key(|at| history[*at].began);
    let mut by_end: Vec<usize> = (0..history.len()).filter(|at| history[*at].is_known()).collect();
    by_end.sort_by_key(|at| history[*at].ended);
    let mut ends = by_end.into_iter().peekable();
    let (mut floors, mut least) = (vec![0; history.len()], vec![0; history.len()]);
    let (mut floor, mut unplaceable) = (0, Vec::new());
    for at in by_begin {
        while let Some(ended) = ends.next_if(|ended| history[*ended].ended < history[at].began) {
            floor = floor.max(least[ended]);
        }
        floors[at] = floor;
        least[at] = allowed[at].least(log, floor).unwrap_or_else(|| {
            unplaceable.push(at);
            floor
        });
    }
    (floors, least, unplaceable)
}

/// Returns for each call the position at or before which it must have been done, since others began
/// after it had ended.
pub(super) fn ceilings(
    history: &[RegisterCall],
    log: &ReplayLog,
    allowed: &[AllowedPositions],
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

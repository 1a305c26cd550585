//! Replay checker: verifies strict serializability against the log. Each call must have been done
//! where the log says, and the log must keep the order in which clients saw calls end and begin.
//!
//! A checker without a log must search for an order (`linear.rs`), key by key. Here the order of
//! all writes of all keys is known from the log of the members. So one replay verifies that
//!
//! - every acknowledged write is in the log once, and its answer is the value before it;
//! - no refused write is in the log, nor an effect that no client requested; a write of unknown
//!   outcome is there once or never, and not before it was requested;
//! - keys that were written together have one index;
//! - every read shows the keys as they were after one decided value; and all calls have positions
//!   such that none is before one that had ended when it began.
//!
//! The least positions that keep that order are found by one sweep in the order of beginnings: each
//! call only forbids positions to others that are too small. Two deletes of a key look alike; a
//! delete gets its removal by what ended before it and began after it.
//!
//! Promises: a violation can't be explained by this log; where a delete was matched with one of
//! several removals, and the match fails, the verdict is "undecided".
//! Never: searches for an order; accepts a history in which two calls write the same value.
//! Read next: `log.rs`, `placement.rs`, then `removals.rs`.

mod log;
mod placement;
mod removals;

pub use log::Decided;

use crate::workload::CallOutcome;
use crate::workload::CallOutcome::Acknowledged;
use crate::workload::registers::RegisterAnswer::{Done, Existed, Found};
use crate::workload::registers::{RegisterAction, RegisterCall};
use log::{LogPosition, ReplayLog};
use placement::AllowedPositions;
use std::collections::{BTreeMap, BTreeSet};

/// Largest number of violations that are reported.
const REPORTED_MAX: usize = 12;

/// Verdict of the checker. Every key is absent before the first decided value, and every value was
/// written by one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayVerdict {
    /// The log explains every answer.
    Explained,
    /// The log contradicts these answers.
    Violated(Vec<String>),
    /// The removals of deletes could not be identified.
    Undecided(String),
    /// Such a history, or log, proves nothing.
    Unusable(String),
}

/// Verdict, with the amount checked.
#[derive(Clone, Debug)]
pub struct ReplayReport {
    /// Verdict of the checker.
    pub verdict: ReplayVerdict,
    /// Number of calls that were checked.
    pub calls: usize,
    /// Number of effects in the log.
    pub effects: usize,
    /// Number of deletes that could have been several of the log's removals.
    pub guessed: usize,
}

impl ReplayReport {
    /// Fails the test with a report unless the log explains the history.
    pub fn must_explain(&self) {
        match &self.verdict {
            ReplayVerdict::Explained => {}
            ReplayVerdict::Violated(violations) => {
                panic!("the log tells otherwise:\n{}", violations.join("\n"))
            }
            other => panic!("not judged: {other:?}"),
        }
    }
}

/// Checks a history against the log that decided it. The log must hold at least all values decided
/// between the first call's beginning and the last one's end.
pub fn replay(history: &[RegisterCall], decided: &[Decided]) -> ReplayReport {
    let mut report = ReplayReport {
        verdict: ReplayVerdict::Explained,
        calls: history.len(),
        effects: 0,
        guessed: 0,
    };
    report.verdict = match ReplayLog::new(decided).and_then(|log| judge(history, &log, &mut report))
    {
        Err(reason) => ReplayVerdict::Unusable(reason),
        Ok(unexplained) if unexplained.is_empty() => ReplayVerdict::Explained,
        Ok(unexplained)
            if report.guessed > 0 && unexplained.iter().all(|event| event.depends_on_guess) =>
        {
            ReplayVerdict::Undecided(unexplained[0].message.clone())
        }
        Ok(unexplained) => ReplayVerdict::Violated(
            unexplained.into_iter().take(REPORTED_MAX).map(|event| event.message).collect(),
        ),
    };
    report
}

/// An answer or effect that the log does not explain.
struct UnexplainedEvent {
    message: String,
    /// True if another matching of deletes with removals might explain it.
    depends_on_guess: bool,
}

fn certain(message: String) -> UnexplainedEvent {
    UnexplainedEvent { message, depends_on_guess: false }
}

fn judge(
    history: &[RegisterCall],
    log: &ReplayLog,
    report: &mut ReplayReport,
) -> Result<Vec<UnexplainedEvent>, String> {
    report.effects = log.effects();
    validate(history)?;
    let mut unexplained = Vec::new();
    let mut claimed = ClaimedEffects::default();
    let mut allowed = Vec::with_capacity(history.len());
    for call in history {
        match allowed_positions(call, log, &mut claimed) {
            Ok(positions) => allowed.push(positions),
            Err(message) => {
                unexplained.push(certain(format!("{message}: {call}")));
                allowed.push(AllowedPositions::Anywhere);
            }
        }
    }
    check_unclaimed_effects(history, log, &claimed, &mut unexplained);
    if !unexplained.is_empty() {
        return Ok(unexplained);
    }
    report.guessed =
        removals::match_deletes(history, log, &claimed, &mut allowed, &mut unexplained);
    let unplaceable = placement::unplaceable_calls(history, log, &allowed);
    unexplained.extend(
        unplaceable.into_iter().map(|message| UnexplainedEvent { message, depends_on_guess: true }),
    );
    Ok(unexplained)
}

/// Effects that belong to a known call.
#[derive(Default)]
struct ClaimedEffects {
    writes: BTreeSet<LogPosition>,
    removals: BTreeSet<LogPosition>,
}

/// Returns the positions at which a call may have been done, by the log's contents. Fails if there
/// are none.
fn allowed_positions(
    call: &RegisterCall,
    log: &ReplayLog,
    claimed: &mut ClaimedEffects,
) -> Result<AllowedPositions, String> {
    let timeline = log.timeline(&call.op.key);
    let known = call.is_known();
    match (&call.op.action, &call.outcome) {
        (RegisterAction::Get, Acknowledged(Found(value))) => {
            Ok(AllowedPositions::VisibleWithin(log.spans(&call.op.key, value)))
        }
        (RegisterAction::TestAndSet { expect, .. }, Acknowledged(Found(value)))
            if value != expect =>
        {
            Ok(AllowedPositions::Within(log.spans(&call.op.key, value)))
        }
        (RegisterAction::Delete, Acknowledged(Existed(false))) => {
            Ok(AllowedPositions::Within(timeline.absent()))
        }
        (RegisterAction::Delete, Acknowledged(Existed(true))) => Ok(AllowedPositions::Removal),
        (RegisterAction::Put(value), outcome)
        | (RegisterAction::TestAndSet { wanted: Some(value), .. }, outcome) => {
            match (log.positions(&call.op.key, value), outcome) {
                ([], CallOutcome::Refused | CallOutcome::Unknown) => Ok(AllowedPositions::Anywhere),
                ([], _) => Err("acknowledged, and not in the log".into()),
                (_, CallOutcome::Refused) => Err("refused, and in the log".into()),
                ([position], _) => {
                    claimed.writes.insert(*position);
                    let previous = timeline.before(*position);
                    match &call.op.action {
                        RegisterAction::TestAndSet { expect, .. } if expect != previous => Err(
                            format!("done where something else was, at {}", log.index(*position)),
                        ),
                        _ if known => Ok(AllowedPositions::At(*position)),
                        _ => Ok(AllowedPositions::NotBefore(*position)),
                    }
                }
                (positions, _) => Err(format!("{} times in the log", positions.len())),
            }
        }
        (RegisterAction::TestAndSet { expect: None, wanted: None }, Acknowledged(Found(_))) => {
            Ok(AllowedPositions::Within(timeline.absent()))
        }
        (
            RegisterAction::TestAndSet { expect: Some(value), wanted: None },
            Acknowledged(Found(_)),
        ) => {
            let written = log.positions(&call.op.key, value).first();
            match written.and_then(|position| timeline.next(*position)) {
                Some((position, None)) if claimed.removals.insert(*position) => {
                    Ok(AllowedPositions::At(*position))
                }
                _ => Err("took away what the log does not take away".into()),
            }
        }
        _ => Ok(AllowedPositions::Anywhere),
    }
}

/// Reports effects that no client requested, and values that were written together but have several
/// indexes.
fn check_unclaimed_effects(
    history: &[RegisterCall],
    log: &ReplayLog,
    claimed: &ClaimedEffects,
    unexplained: &mut Vec<UnexplainedEvent>,
) {
    let keys: BTreeSet<&str> = history.iter().map(|call| call.op.key.as_str()).collect();
    let mut index_by_value: BTreeMap<&[u8], u64> = BTreeMap::new();
    for ((key, value), positions) in log.written() {
        for position in positions {
            let (index, text) = (log.index(*position), String::from_utf8_lossy(value));
            if keys.contains(key.as_str()) && !claimed.writes.contains(position) {
                unexplained.push(certain(format!("nobody wrote {text} to {key}, at {index}")));
            }
            let first = *index_by_value.entry(value).or_insert(index);
            if first != index {
                let message = format!("{text} was written once, and stands at {first} and {index}");
                unexplained.push(certain(message));
            }
        }
    }
}

/// Checks that no value of a key was written by two calls, that every delete reports the value it
/// found, and that no call ends before it begins.
fn validate(history: &[RegisterCall]) -> Result<(), String> {
    let mut writers: BTreeMap<(&str, &[u8]), &RegisterCall> = BTreeMap::new();
    for call in history {
        let value_written = match &call.op.action {
            RegisterAction::Put(value) => Some(value),
            RegisterAction::TestAndSet { wanted, .. } => wanted.as_ref(),
            RegisterAction::Get | RegisterAction::Delete => None,
        };
        let other = value_written.and_then(|value| writers.insert((&call.op.key, value), call));
        if let Some(other) = other {
            return Err(format!("two calls write the same: {other} and {call}"));
        }
        if call.op.action == RegisterAction::Delete && call.outcome == Acknowledged(Done) {
            return Err(format!("a delete that does not say what it found: {call}"));
        }
        if call.ended < call.began {
            return Err(format!("ends before it begins: {call}"));
        }
    }
    Ok(())
}

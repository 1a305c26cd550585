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
//! - every read shows the keys as they were after one decided value; and all calls have places such
//!   that none is before one that had ended when it began.
//!
//! The least places that keep that order are found by one sweep in the order of beginnings: each
//! call only forbids places to others that are too small. Two deletes of a key look alike; a delete
//! gets its removal by what ended before it and began after it.
//!
//! Promises: a violation can't be explained by this log; where a delete was matched with one of
//! several removals, and the match fails, the verdict is "undecided".
//! Never: searches for an order; accepts a history in which two calls write the same value.
//! Read next: `log.rs`, `places.rs`, then `removals.rs`.

mod log;
mod places;
mod removals;

pub use log::Decided;

use crate::workload::CallOutcome;
use crate::workload::CallOutcome::Acknowledged;
use crate::workload::registers::RegisterAnswer::{Done, Existed, Found};
use crate::workload::registers::{RegisterAction, RegisterCall};
use log::{LogPosition, ReplayLog};
use places::Allowed;
use std::collections::{BTreeMap, BTreeSet};

/// Largest number of violations that are reported.
const TOLD_MAX: usize = 12;

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
            ReplayVerdict::Violated(found) => {
                panic!("the log tells otherwise:\n{}", found.join("\n"))
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
        Err(why) => ReplayVerdict::Unusable(why),
        Ok(found) if found.is_empty() => ReplayVerdict::Explained,
        Ok(found) if report.guessed > 0 && found.iter().all(|one| one.hangs_on_guess) => {
            ReplayVerdict::Undecided(found[0].words.clone())
        }
        Ok(found) => {
            ReplayVerdict::Violated(found.into_iter().take(TOLD_MAX).map(|one| one.words).collect())
        }
    };
    report
}

/// An answer or effect that the log does not explain.
struct Unexplained {
    words: String,
    /// True if another match of deletes with removals might explain it.
    hangs_on_guess: bool,
}

fn surely(words: String) -> Unexplained {
    Unexplained { words, hangs_on_guess: false }
}

fn judge(
    history: &[RegisterCall],
    log: &ReplayLog,
    report: &mut ReplayReport,
) -> Result<Vec<Unexplained>, String> {
    report.effects = log.effects();
    usable(history)?;
    let mut found = Vec::new();
    let mut claimed = Claimed::default();
    let mut allowed = Vec::with_capacity(history.len());
    for call in history {
        match content(call, log, &mut claimed) {
            Ok(one) => allowed.push(one),
            Err(words) => {
                found.push(surely(format!("{words}: {call}")));
                allowed.push(Allowed::Anywhere);
            }
        }
    }
    strangers(history, log, &claimed, &mut found);
    if !found.is_empty() {
        return Ok(found);
    }
    report.guessed = removals::ascribe(history, log, &claimed, &mut allowed, &mut found);
    let misplaced = places::misplaced(history, log, &allowed);
    found.extend(misplaced.into_iter().map(|words| Unexplained { words, hangs_on_guess: true }));
    Ok(found)
}

/// Effects that belong to a known call.
#[derive(Default)]
struct Claimed {
    writes: BTreeSet<LogPosition>,
    removals: BTreeSet<LogPosition>,
}

/// Returns the places at which a call may have been done, by the log's contents. Fails if there are
/// none.
fn content(call: &RegisterCall, log: &ReplayLog, claimed: &mut Claimed) -> Result<Allowed, String> {
    let line = log.line(&call.op.key);
    let known = call.is_known();
    match (&call.op.action, &call.outcome) {
        (RegisterAction::Get, Acknowledged(Found(value))) => {
            Ok(Allowed::Seen(log.spans(&call.op.key, value)))
        }
        (RegisterAction::TestAndSet { expect, .. }, Acknowledged(Found(value)))
            if value != expect =>
        {
            Ok(Allowed::Held(log.spans(&call.op.key, value)))
        }
        (RegisterAction::Delete, Acknowledged(Existed(false))) => Ok(Allowed::Held(line.absent())),
        (RegisterAction::Delete, Acknowledged(Existed(true))) => Ok(Allowed::Removal),
        (RegisterAction::Put(value), outcome)
        | (RegisterAction::TestAndSet { wanted: Some(value), .. }, outcome) => {
            match (log.places(&call.op.key, value), outcome) {
                ([], CallOutcome::Refused | CallOutcome::Unknown) => Ok(Allowed::Anywhere),
                ([], _) => Err("acknowledged, and not in the log".into()),
                (_, CallOutcome::Refused) => Err("refused, and in the log".into()),
                ([place], _) => {
                    claimed.writes.insert(*place);
                    let before = line.before(*place);
                    match &call.op.action {
                        RegisterAction::TestAndSet { expect, .. } if expect != before => {
                            Err(format!("done where something else was, at {}", log.index(*place)))
                        }
                        _ if known => Ok(Allowed::At(*place)),
                        _ => Ok(Allowed::NotBefore(*place)),
                    }
                }
                (places, _) => Err(format!("{} times in the log", places.len())),
            }
        }
        (RegisterAction::TestAndSet { expect: None, wanted: None }, Acknowledged(Found(_))) => {
            Ok(Allowed::Held(line.absent()))
        }
        (
            RegisterAction::TestAndSet { expect: Some(value), wanted: None },
            Acknowledged(Found(_)),
        ) => {
            let written = log.places(&call.op.key, value).first();
            match written.and_then(|place| line.next(*place)) {
                Some((place, None)) if claimed.removals.insert(*place) => Ok(Allowed::At(*place)),
                _ => Err("took away what the log does not take away".into()),
            }
        }
        _ => Ok(Allowed::Anywhere),
    }
}

/// Reports effects that no client requested, and values that were written together but have several
/// indexes.
fn strangers(
    history: &[RegisterCall],
    log: &ReplayLog,
    claimed: &Claimed,
    found: &mut Vec<Unexplained>,
) {
    let keys: BTreeSet<&str> = history.iter().map(|call| call.op.key.as_str()).collect();
    let mut together: BTreeMap<&[u8], u64> = BTreeMap::new();
    for ((key, value), places) in log.written() {
        for place in places {
            let (index, shown) = (log.index(*place), String::from_utf8_lossy(value));
            if keys.contains(key.as_str()) && !claimed.writes.contains(place) {
                found.push(surely(format!("nobody wrote {shown} to {key}, at {index}")));
            }
            let first = *together.entry(value).or_insert(index);
            if first != index {
                let words = format!("{shown} was written once, and stands at {first} and {index}");
                found.push(surely(words));
            }
        }
    }
}

/// Checks that no value of a key was written by two calls, that every delete says what it found,
/// and that no call ends before it begins.
fn usable(history: &[RegisterCall]) -> Result<(), String> {
    let mut writers: BTreeMap<(&str, &[u8]), &RegisterCall> = BTreeMap::new();
    for call in history {
        let written = match &call.op.action {
            RegisterAction::Put(value) => Some(value),
            RegisterAction::TestAndSet { wanted, .. } => wanted.as_ref(),
            RegisterAction::Get | RegisterAction::Delete => None,
        };
        let other = written.and_then(|value| writers.insert((&call.op.key, value), call));
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

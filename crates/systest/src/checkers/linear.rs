//! Linearizability checker: searches for one order of all calls, each at a moment between its
//! beginning and its end, in which a plain table would have returned these answers.
//!
//! Sources. The property, and that a history is linearizable if and only if its part of each key
//! is: Herlihy and Wing, "Linearizability: a correctness condition for concurrent objects", 1990.
//! The search: Wing and Gong, "Testing and verifying concurrent objects", 1993; with Lowe's memory
//! of the configurations that led nowhere, "Testing for linearizability", 2017; in the form of
//! Athalye's porcupine. The question is NP-complete (Gibbons and Korach, "Testing shared memories",
//! 1997), so the work is bounded and "undecided" is an answer.

use super::search::{CallStep, KeyCalls, Search, SearchOutcome};
use crate::workload::CallOutcome::Acknowledged;
use crate::workload::registers::RegisterAnswer::{Done, Existed, Found};
use crate::workload::registers::{RegisterAction, RegisterCall};
use crate::workload::{CallOutcome, KeyValue};
use std::collections::{BTreeMap, BTreeSet};

/// Verdict of the checker. Every key is absent before the first call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinearVerdict {
    /// There is such an order.
    Linearizable,
    /// There is no such order for these keys.
    Violated(Vec<Violation>),
    /// No violation was found, but the step limit was reached for these keys.
    Undecided(Vec<String>),
    /// The recorder is broken: such a history proves nothing.
    Unusable(String),
}

/// Violation of linearizability on one key: the longest order that was found, and why it can't be
/// continued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The key.
    pub key: String,
    /// Number of calls in the longest order found.
    pub ordered: usize,
    /// Number of the key's calls.
    pub calls: usize,
    /// Value of the key after that order.
    pub value: KeyValue,
    /// Calls of which one would have to come next; none fits.
    pub candidates: Vec<RegisterCall>,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = self.value.as_deref().map(String::from_utf8_lossy);
        write!(f, "{}: {} of {} calls can be ordered; ", self.key, self.ordered, self.calls)?;
        write!(f, "then it holds {}", value.as_deref().unwrap_or("nothing"))?;
        write!(f, " and no call fits:")?;
        self.candidates.iter().take(8).try_for_each(|call| write!(f, "\n  {call}"))
    }
}

/// Verdict, with the work it took.
#[derive(Clone, Debug)]
pub struct LinearReport {
    /// Verdict of the checker.
    pub verdict: LinearVerdict,
    /// Number of calls that were checked.
    pub calls: usize,
    /// Number of calls whose outcome is unknown.
    pub unknown: usize,
    /// Number of keys.
    pub keys: usize,
    /// Number of configurations tried.
    pub steps: u64,
}

impl LinearReport {
    /// Fails the test with a report unless the history is linearizable.
    pub fn must_be_linearizable(&self) {
        match &self.verdict {
            LinearVerdict::Linearizable => {}
            LinearVerdict::Violated(violations) => {
                let descriptions: Vec<_> = violations.iter().map(ToString::to_string).collect();
                panic!("not linearizable:\n{}", descriptions.join("\n"));
            }
            other => panic!("not judged: {other:?}"),
        }
    }

    /// Returns true if a violation was found.
    pub fn is_violated(&self) -> bool {
        matches!(self.verdict, LinearVerdict::Violated(_))
    }
}

/// Checks a history; tries at most `steps_max` configurations for each key.
pub fn check(history: &[RegisterCall], steps_max: u64) -> LinearReport {
    let unknown = history.iter().filter(|call| !call.is_known()).count();
    let mut by_key: BTreeMap<&str, Vec<&RegisterCall>> = BTreeMap::new();
    for call in history {
        by_key.entry(&call.op.key).or_default().push(call);
    }
    let calls = history.len();
    let mut report = LinearReport {
        verdict: LinearVerdict::Linearizable,
        calls,
        unknown,
        keys: by_key.len(),
        steps: 0,
    };
    if let Err(reason) = validate(history) {
        report.verdict = LinearVerdict::Unusable(reason);
        return report;
    }
    let (mut violated, mut undecided) = (Vec::new(), Vec::new());
    for (key, calls) in by_key {
        let (calls, key_calls, values) = prepare(calls);
        let (outcome, steps) = Search::new(&key_calls).run(steps_max);
        report.steps += steps;
        match outcome {
            SearchOutcome::Ordered => {}
            SearchOutcome::StepLimit => undecided.push(key.to_string()),
            SearchOutcome::Stuck { ordered, value, next } => violated.push(Violation {
                key: key.into(),
                ordered,
                calls: calls.len(),
                value: values[value as usize].clone(),
                candidates: next.into_iter().map(|at| calls[at].clone()).collect(),
            }),
        }
    }
    if !violated.is_empty() {
        report.verdict = LinearVerdict::Violated(violated);
    } else if !undecided.is_empty() {
        report.verdict = LinearVerdict::Undecided(undecided);
    }
    report
}

/// Checks that each client has one open call at a time. A recorder that violates this stamps times
/// wrongly.
fn validate(history: &[RegisterCall]) -> Result<(), String> {
    let mut by_client: BTreeMap<u32, Vec<&RegisterCall>> = BTreeMap::new();
    for call in history {
        if call.ended < call.began {
            return Err(format!("ends before it begins: {call}"));
        }
        if !has_matching_answer(call) {
            return Err(format!("no answer to such a call: {call}"));
        }
        by_client.entry(call.client).or_default().push(call);
    }
    for calls in by_client.values_mut() {
        calls.sort_by_key(|call| (call.began, call.ended));
        for pair in calls.windows(2) {
            if !pair[0].is_known() {
                return Err(format!("a client goes on after an unknown outcome: {}", pair[1]));
            }
            if pair[0].ended > pair[1].began {
                return Err(format!("a client calls twice at once: {} and {}", pair[0], pair[1]));
            }
        }
    }
    Ok(())
}

fn has_matching_answer(call: &RegisterCall) -> bool {
    match &call.outcome {
        CallOutcome::Refused | CallOutcome::Unknown => true,
        Acknowledged(Found(_)) => {
            matches!(call.op.action, RegisterAction::Get | RegisterAction::TestAndSet { .. })
        }
        Acknowledged(Done) => {
            matches!(call.op.action, RegisterAction::Put(_) | RegisterAction::Delete)
        }
        Acknowledged(Existed(_)) => call.op.action == RegisterAction::Delete,
    }
}

/// Returns the value that a call would write if it takes effect. `None`: it writes no value.
fn written_value(call: &RegisterCall) -> Option<&[u8]> {
    match &call.op.action {
        RegisterAction::Put(value) => Some(value),
        RegisterAction::TestAndSet { wanted, .. } => wanted.as_deref(),
        RegisterAction::Get | RegisterAction::Delete => None,
    }
}

/// Calls of one key that concern one value.
#[derive(Default)]
struct ValueCalls {
    writers: usize,
    /// Earliest time at which a client received the value. `None`: no client did.
    seen: Option<u64>,
    expected: bool,
}

/// Removes calls that can't matter, narrows unknown ones, and replaces values by numbers: number 0
/// is the absent value. As far as that is sound:
/// - a refused call, and a read without an answer, prove nothing;
/// - a write of unknown outcome whose value one client read and no other call wrote took effect
///   before that client's answer;
/// - a write whose value no call read and no call expects may be treated as one that never took
///   effect, unless a delete found something, which may have been that value.
fn prepare(calls: Vec<&RegisterCall>) -> (Vec<&RegisterCall>, KeyCalls, Vec<KeyValue>) {
    let mut by_value: BTreeMap<&[u8], ValueCalls> = BTreeMap::new();
    let mut deleted = false;
    for call in calls.iter().filter(|call| call.outcome != CallOutcome::Refused) {
        if let Some(value) = written_value(call) {
            by_value.entry(value).or_default().writers += 1;
        }
        if let RegisterAction::TestAndSet { expect: Some(value), .. } = &call.op.action {
            by_value.entry(value).or_default().expected = true;
        }
        if let Acknowledged(Found(Some(value))) = &call.outcome {
            let seen = &mut by_value.entry(value).or_default().seen;
            *seen = Some(seen.map_or(call.ended, |earlier| earlier.min(call.ended)));
        }
        deleted |= matches!(call.op.action, RegisterAction::Delete)
            && matches!(call.outcome, Acknowledged(Existed(true)));
    }
    let mut bounded = Vec::new();
    let mut open = Vec::new();
    for call in calls {
        match call.outcome {
            CallOutcome::Refused => {}
            CallOutcome::Unknown if call.op.action == RegisterAction::Get => {}
            CallOutcome::Unknown => match written_value(call).and_then(|value| by_value.get(value))
            {
                Some(ValueCalls { writers: 1, seen: Some(seen), .. }) if *seen >= call.began => {
                    bounded.push((call, *seen));
                }
                Some(ValueCalls { writers: 1, seen: None, expected: false }) if !deleted => {}
                _ => open.push((call, u64::MAX)),
            },
            _ => bounded.push((call, call.ended)),
        }
    }
    bounded.sort_by_key(|(call, ended)| (call.began, *ended));
    open.sort_by_key(|(call, _)| call.began);
    number_values(bounded, open)
}

type TimedCalls<'a> = Vec<(&'a RegisterCall, u64)>;

fn number_values<'a>(
    bounded: TimedCalls<'a>,
    open: TimedCalls<'a>,
) -> (Vec<&'a RegisterCall>, KeyCalls, Vec<KeyValue>) {
    let first_open = bounded.len();
    let all: Vec<_> = bounded.into_iter().chain(open).collect();
    let mut distinct: BTreeSet<&Vec<u8>> = BTreeSet::new();
    for (call, _) in &all {
        match &call.op.action {
            RegisterAction::Put(value) => drop(distinct.insert(value)),
            RegisterAction::TestAndSet { expect, wanted } => {
                distinct.extend(expect.iter().chain(wanted));
            }
            RegisterAction::Get | RegisterAction::Delete => {}
        }
        if let Acknowledged(Found(Some(value))) = &call.outcome {
            distinct.insert(value);
        }
    }
    let mut values: Vec<KeyValue> = vec![None];
    values.extend(distinct.iter().map(|value| Some((*value).clone())));
    let numbers: BTreeMap<&KeyValue, u32> = values.iter().zip(0..).collect();
    let steps = all
        .iter()
        .enumerate()
        .map(|(at, (call, _))| {
            match step(call, &numbers) {
                // Its end is bounded because a client read its value: so it wrote, and found the
                // expected value.
                CallStep::TestAndSet { expect, wanted, found: None } if at < first_open => {
                    CallStep::TestAndSet { expect, wanted, found: Some(expect) }
                }
                step => step,
            }
        })
        .collect();
    let times = all.iter().map(|(call, ended)| (call.began, *ended)).collect();
    let calls = all.into_iter().map(|(call, _)| call).collect();
    (calls, KeyCalls::new(steps, times, first_open), values)
}

fn step(call: &RegisterCall, numbers: &BTreeMap<&KeyValue, u32>) -> CallStep {
    let found = match &call.outcome {
        Acknowledged(Found(value)) => Some(numbers[value]),
        _ => None,
    };
    match &call.op.action {
        RegisterAction::Get => CallStep::Get { found },
        RegisterAction::Put(value) => CallStep::Put { value: numbers[&Some(value.clone())] },
        RegisterAction::Delete => CallStep::Delete {
            existed: match call.outcome {
                Acknowledged(Existed(existed)) => Some(existed),
                _ => None,
            },
        },
        RegisterAction::TestAndSet { expect, wanted } => {
            CallStep::TestAndSet { expect: numbers[expect], wanted: numbers[wanted], found }
        }
    }
}

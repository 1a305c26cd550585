//! Tests of the causality checker: histories with a known verdict, one for each kind of violation,
//! and random ones of a correct set of dots, unchanged and tampered with.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use systest::checkers::causal::{Copy, Findings, judge};
use systest::workload::CallOutcome;
use systest::workload::CallOutcome::Acknowledged;
use systest::workload::siblings::{SiblingAction, SiblingCall, SiblingOp};

fn set(text: &str) -> BTreeSet<String> {
    text.split_whitespace().map(String::from).collect()
}

/// Parses `write VALUE < SEEN`, `delete < SEEN`, `read FOUND`; a prefix `?` is an unknown outcome,
/// `x` a refusal.
fn call(line: &str) -> SiblingCall {
    let (outcome, line) = match line.split_once(' ') {
        Some(("?", rest)) => (CallOutcome::Unknown, rest),
        Some(("x", rest)) => (CallOutcome::Refused, rest),
        _ => (Acknowledged(None), line),
    };
    let (operation, seen) = line.split_once('<').unwrap_or((line, ""));
    let (verb, rest) = operation.trim().split_once(' ').unwrap_or((operation.trim(), ""));
    let (action, outcome) = match verb {
        "write" => (SiblingAction::Write(rest.trim().into()), outcome),
        "delete" => (SiblingAction::Delete, outcome),
        "read" => (SiblingAction::Read, Acknowledged(Some(set(rest)))),
        other => panic!("no such call: {other}"),
    };
    SiblingCall::untimed(SiblingOp { key: "k".into(), action, seen: set(seen) }, outcome)
}

/// Returns the verdict on these calls, with these values in two copies at the end.
fn judge_calls(calls: &[&str], copies: [&str; 2]) -> Findings {
    let calls: Vec<_> = calls.iter().map(|line| call(line)).collect();
    let copy = |(at, values): (usize, &str)| Copy {
        key: "k".into(),
        location: format!("n{at}"),
        values: set(values),
    };
    judge(&calls, &copies.into_iter().enumerate().map(copy).collect::<Vec<_>>())
}

#[track_caller]
fn must_be_clean(calls: &[&str], end: &str) {
    judge_calls(calls, [end, end]).must_be_clean();
}

#[track_caller]
fn must_find(calls: &[&str], end: &str, list: impl Fn(&Findings) -> &Vec<String>) {
    let found = judge_calls(calls, [end, end]);
    assert!(!list(&found).is_empty(), "{calls:?} ending as {end:?}: {found}");
    let is_only_kind = found.violations() == list(&found).len();
    assert!(is_only_kind, "only this was to be found: {found}");
}

#[test]
fn causality_checker_accepts_legal_histories() {
    must_be_clean(&["write a", "read a", "write b < a", "read b"], "b");
    must_be_clean(&["write a", "write b"], "a b");
    must_be_clean(&["write a", "write b", "read a b", "write c < a b"], "c");
    must_be_clean(&["write a", "delete < a"], "");
    must_be_clean(&["write a", "write b < a", "delete < a"], "b");
    // A write without an answer may have had its effect or not, so the values that it replaces may
    // be gone.
    must_be_clean(&["write a", "? write b < a"], "a");
    must_be_clean(&["write a", "? write b < a"], "b");
    must_be_clean(&["write a", "? delete < a"], "");
    must_be_clean(&["write a", "? delete < a"], "a");
    // It can be followed by writes whose clients read it.
    must_be_clean(&["write a", "? write b < a", "read b", "write c < b"], "c");
    must_be_clean(&["write a", "x write b < a"], "a");
}

#[test]
fn causality_checker_reports_each_kind_of_violation() {
    must_find(&["write a"], "", |found| &found.lost);
    must_find(&["write a", "write b"], "b", |found| &found.lost);
    must_find(&["write a", "x delete < a"], "", |found| &found.lost);
    must_find(&["write a", "delete < a"], "a", |found| &found.resurrected);
    must_find(&["write a"], "a z", |found| &found.phantom);
    must_find(&["write a", "x write b < a"], "a b", |found| &found.phantom);
    must_find(&["write a", "read a z"], "a", |found| &found.phantom);
    must_find(&["write a", "write b < a"], "a b", |found| &found.false_siblings);
    // It took effect: a client read it.
    must_find(&["write a", "? write b < a", "read b"], "a b", |found| &found.false_siblings);
    // Through a third value that has been replaced by then; only the reader had it.
    let chain = ["write a", "write b < a", "write c < b", "read a c"];
    must_find(&chain, "c", |found| &found.false_siblings);
    let found = judge_calls(&["write a", "write b"], ["a b", "b"]);
    assert_eq!((found.lost.len(), found.unequal.len()), (1, 1), "{found}");
    // A key without any copy, which had values, or none.
    let found = judge(&[call("write a"), call("write b")], &[]);
    assert_eq!((found.lost.len(), found.keys), (2, 0), "{found}");
    judge(&[call("write a"), call("delete < a")], &[]).must_be_clean();
    let found = judge_calls(&["write a", "? write b < a"], ["a", "b"]);
    assert_eq!(found.violations(), found.unequal.len() + found.false_siblings.len(), "{found}");
    assert!(!found.unequal.is_empty());
}

/// A correct store: a plain set of values, and the values that each one replaced.
#[derive(Default)]
struct ReferenceStore {
    alive: BTreeSet<String>,
    calls: Vec<SiblingCall>,
    /// Values that each client holds the context of.
    known: BTreeMap<usize, BTreeSet<String>>,
}

impl ReferenceStore {
    fn step(&mut self, dice: &mut StdRng, count: usize) {
        let client = dice.random_range(0..3);
        let seen = self.known.get(&client).cloned().unwrap_or_default();
        let call_outcome = [
            Acknowledged(None),
            Acknowledged(None),
            Acknowledged(None),
            CallOutcome::Unknown,
            CallOutcome::Refused,
        ];
        let call_outcome = call_outcome[dice.random_range(0..call_outcome.len())].clone();
        let takes_effect = call_outcome.is_acknowledged()
            || call_outcome == CallOutcome::Unknown && dice.random_bool(0.5);
        let (action, seen, outcome) = match dice.random_range(0..4) {
            0 => {
                self.known.insert(client, self.alive.clone());
                let answer = Acknowledged(Some(self.alive.clone()));
                (SiblingAction::Read, BTreeSet::new(), answer)
            }
            1 if !seen.is_empty() => {
                self.alive.retain(|value| !takes_effect || !seen.contains(value));
                (SiblingAction::Delete, seen, call_outcome)
            }
            _ => {
                let value = format!("v{count}");
                if takes_effect {
                    self.alive.retain(|value| !seen.contains(value));
                    self.alive.insert(value.clone());
                }
                (SiblingAction::Write(value), seen, call_outcome)
            }
        };
        let op = SiblingOp { key: "k".into(), action, seen };
        self.calls.push(SiblingCall::untimed(op, outcome));
    }

    fn copies(&self) -> Vec<Copy> {
        let copy =
            |at: &str| Copy { key: "k".into(), location: at.into(), values: self.alive.clone() };
        ["n1", "n2", "n3"].map(copy).into()
    }
}

#[test]
fn causality_checker_accepts_random_histories_and_rejects_tampered() {
    let mut dice = StdRng::seed_from_u64(7);
    let (mut losses, mut returns) = (0, 0);
    for _ in 0..2_000 {
        let mut store = ReferenceStore::default();
        (0..dice.random_range(1..25)).for_each(|count| store.step(&mut dice, count));
        let mut copies = store.copies();
        judge(&store.calls, &copies).must_be_clean();
        let is_acknowledged = |call: &&SiblingCall| call.outcome.is_acknowledged();
        let value = |call: &SiblingCall| match &call.op.action {
            SiblingAction::Write(value) => Some(value.clone()),
            _ => None,
        };
        // Remove a value that no write or delete replaced; restore one that was replaced.
        let written: BTreeSet<_> =
            store.calls.iter().filter(is_acknowledged).filter_map(value).collect();
        let is_unreplaced = |value: &&String| {
            let replaces = |call: &SiblingCall| {
                call.outcome != CallOutcome::Refused && call.op.seen.contains(*value)
            };
            !store.calls.iter().any(replaces)
        };
        if let Some(value) =
            store.alive.iter().filter(|it| written.contains(*it)).find(is_unreplaced)
        {
            copies[1].values.remove(value);
            let found = judge(&store.calls, &copies);
            assert!(!found.lost.is_empty() && !found.unequal.is_empty(), "{found}");
            losses += 1;
            copies[1].values.insert(value.clone());
            assert!(!judge(&store.calls, &[]).lost.is_empty(), "{value} is nowhere");
        }
        let mut replaced =
            store.calls.iter().filter(is_acknowledged).flat_map(|call| &call.op.seen);
        if let Some(value) = replaced.find(|value| !store.alive.contains(*value)) {
            copies.iter_mut().for_each(|copy| copy.values.extend([value.clone()]));
            let found = judge(&store.calls, &copies);
            let returned = found.resurrected.len() + found.false_siblings.len();
            assert!(returned > 0, "{found}");
            returns += 1;
        }
    }
    assert!(losses > 500 && returns > 500, "{losses} losses and {returns} returns were tried");
}

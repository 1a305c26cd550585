//! Tests of the causality checker: histories with a known verdict, one for each kind of violation,
//! and random ones of a correct set of dots, unchanged and tampered with.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use systest::checkers::causal::{Copy, Findings, judge};
use systest::workload::CallOutcome;
use systest::workload::CallOutcome::Acknowledged;
use systest::workload::siblings::{SiblingAction, SiblingCall, SiblingOp};

fn set(words: &str) -> BTreeSet<String> {
    words.split_whitespace().map(String::from).collect()
}

/// Parses `write VALUE < SEEN`, `delete < SEEN`, `read FOUND`; a prefix `?` is an unknown outcome,
/// `x` a refusal.
fn call(line: &str) -> SiblingCall {
    let (outcome, line) = match line.split_once(' ') {
        Some(("?", rest)) => (CallOutcome::Unknown, rest),
        Some(("x", rest)) => (CallOutcome::Refused, rest),
        _ => (Acknowledged(None), line),
    };
    let (what, seen) = line.split_once('<').unwrap_or((line, ""));
    let (verb, rest) = what.trim().split_once(' ').unwrap_or((what.trim(), ""));
    let (action, outcome) = match verb {
        "write" => (SiblingAction::Write(rest.trim().into()), outcome),
        "delete" => (SiblingAction::Delete, outcome),
        "read" => (SiblingAction::Read, Acknowledged(Some(set(rest)))),
        other => panic!("no such call: {other}"),
    };
    SiblingCall::untimed(SiblingOp { key: "k".into(), action, seen: set(seen) }, outcome)
}

/// Returns the verdict on these calls, with these values in two copies at the end.
fn judged(calls: &[&str], copies: [&str; 2]) -> Findings {
    let calls: Vec<_> = calls.iter().map(|line| call(line)).collect();
    let copy = |(at, values): (usize, &str)| Copy {
        key: "k".into(),
        at: format!("n{at}"),
        values: set(values),
    };
    judge(&calls, &copies.into_iter().enumerate().map(copy).collect::<Vec<_>>())
}

#[track_caller]
fn clean(calls: &[&str], end: &str) {
    judged(calls, [end, end]).must_be_clean();
}

#[track_caller]
fn finds(calls: &[&str], end: &str, list: impl Fn(&Findings) -> &Vec<String>) {
    let found = judged(calls, [end, end]);
    assert!(!list(&found).is_empty(), "{calls:?} ending as {end:?}: {found}");
    let alone = found.violations() == list(&found).len();
    assert!(alone, "only this was to be found: {found}");
}

#[test]
fn what_may_happen_is_found_clean() {
    clean(&["write a", "read a", "write b < a", "read b"], "b");
    clean(&["write a", "write b"], "a b");
    clean(&["write a", "write b", "read a b", "write c < a b"], "c");
    clean(&["write a", "delete < a"], "");
    clean(&["write a", "write b < a", "delete < a"], "b");
    // A write without an answer may have had its effect or not, so the values that it replaces may
    // be gone.
    clean(&["write a", "? write b < a"], "a");
    clean(&["write a", "? write b < a"], "b");
    clean(&["write a", "? delete < a"], "");
    clean(&["write a", "? delete < a"], "a");
    // It can be followed by writes that saw it.
    clean(&["write a", "? write b < a", "read b", "write c < b"], "c");
    clean(&["write a", "x write b < a"], "a");
}

#[test]
fn each_thing_that_may_not_happen_is_found() {
    finds(&["write a"], "", |found| &found.lost);
    finds(&["write a", "write b"], "b", |found| &found.lost);
    finds(&["write a", "x delete < a"], "", |found| &found.lost);
    finds(&["write a", "delete < a"], "a", |found| &found.resurrected);
    finds(&["write a"], "a z", |found| &found.phantom);
    finds(&["write a", "x write b < a"], "a b", |found| &found.phantom);
    finds(&["write a", "read a z"], "a", |found| &found.phantom);
    finds(&["write a", "write b < a"], "a b", |found| &found.false_siblings);
    // It took effect: a client saw it.
    finds(&["write a", "? write b < a", "read b"], "a b", |found| &found.false_siblings);
    // Through a third value that is gone by then; only the reader saw it.
    let chain = ["write a", "write b < a", "write c < b", "read a c"];
    finds(&chain, "c", |found| &found.false_siblings);
    let found = judged(&["write a", "write b"], ["a b", "b"]);
    assert_eq!((found.lost.len(), found.unequal.len()), (1, 1), "{found}");
    // A key without any copy, which had values, or none.
    let found = judge(&[call("write a"), call("write b")], &[]);
    assert_eq!((found.lost.len(), found.keys), (2, 0), "{found}");
    judge(&[call("write a"), call("delete < a")], &[]).must_be_clean();
    let found = judged(&["write a", "? write b < a"], ["a", "b"]);
    assert_eq!(found.violations(), found.unequal.len() + found.false_siblings.len(), "{found}");
    assert!(!found.unequal.is_empty());
}

/// A correct store: a plain set of values, and of the values that each replaced.
#[derive(Default)]
struct True {
    alive: BTreeSet<String>,
    calls: Vec<SiblingCall>,
    /// Values that each client holds the context of.
    known: BTreeMap<usize, BTreeSet<String>>,
}

impl True {
    fn step(&mut self, dice: &mut StdRng, count: usize) {
        let client = dice.random_range(0..3);
        let seen = self.known.get(&client).cloned().unwrap_or_default();
        let told = [
            Acknowledged(None),
            Acknowledged(None),
            Acknowledged(None),
            CallOutcome::Unknown,
            CallOutcome::Refused,
        ];
        let told = told[dice.random_range(0..told.len())].clone();
        let happens =
            told.is_acknowledged() || told == CallOutcome::Unknown && dice.random_bool(0.5);
        let (action, seen, outcome) = match dice.random_range(0..4) {
            0 => {
                self.known.insert(client, self.alive.clone());
                let shown = Acknowledged(Some(self.alive.clone()));
                (SiblingAction::Read, BTreeSet::new(), shown)
            }
            1 if !seen.is_empty() => {
                self.alive.retain(|value| !happens || !seen.contains(value));
                (SiblingAction::Delete, seen, told)
            }
            _ => {
                let value = format!("v{count}");
                if happens {
                    self.alive.retain(|value| !seen.contains(value));
                    self.alive.insert(value.clone());
                }
                (SiblingAction::Write(value), seen, told)
            }
        };
        let op = SiblingOp { key: "k".into(), action, seen };
        self.calls.push(SiblingCall::untimed(op, outcome));
    }

    fn copies(&self) -> Vec<Copy> {
        let copy = |at: &str| Copy { key: "k".into(), at: at.into(), values: self.alive.clone() };
        ["n1", "n2", "n3"].map(copy).into()
    }
}

#[test]
fn true_histories_are_clean_and_tampered_ones_are_not() {
    let mut dice = StdRng::seed_from_u64(7);
    let (mut losses, mut returns) = (0, 0);
    for _ in 0..2_000 {
        let mut store = True::default();
        (0..dice.random_range(1..25)).for_each(|count| store.step(&mut dice, count));
        let mut copies = store.copies();
        judge(&store.calls, &copies).must_be_clean();
        let done = |call: &&SiblingCall| call.outcome.is_acknowledged();
        let value = |call: &SiblingCall| match &call.op.action {
            SiblingAction::Write(value) => Some(value.clone()),
            _ => None,
        };
        // Remove a value that no client which may have seen it replaced; restore one that was
        // replaced.
        let written: BTreeSet<_> = store.calls.iter().filter(done).filter_map(value).collect();
        let unseen = |value: &&String| {
            let saw = |call: &SiblingCall| {
                call.outcome != CallOutcome::Refused && call.op.seen.contains(*value)
            };
            !store.calls.iter().any(saw)
        };
        if let Some(value) = store.alive.iter().filter(|it| written.contains(*it)).find(unseen) {
            copies[1].values.remove(value);
            let found = judge(&store.calls, &copies);
            assert!(!found.lost.is_empty() && !found.unequal.is_empty(), "{found}");
            losses += 1;
            copies[1].values.insert(value.clone());
            assert!(!judge(&store.calls, &[]).lost.is_empty(), "{value} is nowhere");
        }
        let mut replaced = store.calls.iter().filter(done).flat_map(|call| &call.op.seen);
        if let Some(value) = replaced.find(|value| !store.alive.contains(*value)) {
            copies.iter_mut().for_each(|copy| copy.values.extend([value.clone()]));
            let found = judge(&store.calls, &copies);
            let back = found.resurrected.len() + found.false_siblings.len();
            assert!(back > 0, "{found}");
            returns += 1;
        }
    }
    assert!(losses > 500 && returns > 500, "{losses} losses and {returns} returns were tried");
}

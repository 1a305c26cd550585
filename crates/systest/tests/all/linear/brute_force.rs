//! Naive linearizability checker: all keys at once, every order, every choice of unknown calls, no
//! memory; the two checkers must agree on thousands of small histories with any answers.

use super::{STEPS_MAX, bytes};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use systest::checkers::{LinearVerdict, check};
use systest::workload::CallOutcome::Acknowledged;
use systest::workload::registers::RegisterAnswer::{Done, Existed, Found};
use systest::workload::registers::{RegisterAction, RegisterCall, RegisterOp};
use systest::workload::{CallOutcome, KeyValue, WorkloadCall};

/// Returns true if any order explains the history.
pub fn brute_force(calls: &[RegisterCall]) -> bool {
    let calls: Vec<_> = calls.iter().filter(|call| call.outcome != CallOutcome::Refused).collect();
    can_be_ordered(&calls, &BTreeMap::new())
}

fn can_be_ordered(remaining: &[&RegisterCall], table: &BTreeMap<&str, Vec<u8>>) -> bool {
    if !remaining.iter().any(|call| call.is_known()) {
        return true;
    }
    (0..remaining.len()).any(|at| {
        let call = remaining[at];
        let must_wait = remaining.iter().any(|other| other.is_known() && other.ended < call.began);
        let mut table = table.clone();
        if must_wait || !apply(call, &mut table) {
            return false;
        }
        let rest: Vec<_> =
            remaining.iter().enumerate().filter(|(n, _)| *n != at).map(|(_, call)| *call).collect();
        can_be_ordered(&rest, &table)
    })
}

/// Applies a call to a plain table. Returns false if it can't have been answered so.
fn apply<'a>(call: &'a RegisterCall, table: &mut BTreeMap<&'a str, Vec<u8>>) -> bool {
    let before = table.get(call.op.key.as_str()).cloned();
    let mut set = |value: &KeyValue| match value {
        Some(value) => drop(table.insert(&call.op.key, value.clone())),
        None => drop(table.remove(call.op.key.as_str())),
    };
    match &call.op.action {
        RegisterAction::Get => {}
        RegisterAction::Put(value) => set(&Some(value.clone())),
        RegisterAction::Delete => set(&None),
        RegisterAction::TestAndSet { expect, wanted } if *expect == before => set(wanted),
        RegisterAction::TestAndSet { .. } => {}
    }
    match &call.outcome {
        Acknowledged(Found(found)) => *found == before,
        Acknowledged(Existed(existed)) => *existed == before.is_some(),
        Acknowledged(Done) | CallOutcome::Refused | CallOutcome::Unknown => true,
    }
}

fn any_value(dice: &mut StdRng) -> KeyValue {
    bytes(["-", "x", "y"][dice.random_range(0..3)])
}

/// Returns a call with any answer, correct or not.
fn any_call(dice: &mut StdRng, client: u32) -> RegisterCall {
    let (operation, outcome) = match dice.random_range(0..6) {
        0 | 1 => (RegisterAction::Get, Acknowledged(Found(any_value(dice)))),
        2 | 3 => (RegisterAction::Put(vec![b'x' + dice.random_range(0..3)]), Acknowledged(Done)),
        4 => {
            let answers =
                [Acknowledged(Done), Acknowledged(Existed(true)), Acknowledged(Existed(false))];
            (RegisterAction::Delete, answers[dice.random_range(0..3)].clone())
        }
        _ => {
            let (expect, wanted) = (any_value(dice), any_value(dice));
            (RegisterAction::TestAndSet { expect, wanted }, Acknowledged(Found(any_value(dice))))
        }
    };
    let outcome = match dice.random_range(0..10) {
        0..3 => CallOutcome::Unknown,
        3 => CallOutcome::Refused,
        _ => outcome,
    };
    let began = dice.random_range(0..12);
    let ended = began + dice.random_range(0..8);
    let key = ["a", "b"][usize::from(dice.random_range(0..4) == 0)].into();
    WorkloadCall {
        client,
        node: 0,
        op: RegisterOp { key, action: operation },
        outcome,
        began,
        ended,
    }
}

fn describe(calls: &[RegisterCall]) -> String {
    calls.iter().map(|call| format!("{call}\n")).collect()
}

#[test]
fn linearizability_checker_agrees_with_brute_force_reference() {
    let mut verdicts = [0; 2];
    for seed in 0..8_000 {
        let mut dice = StdRng::seed_from_u64(seed);
        let count = dice.random_range(1..8);
        let calls: Vec<_> = (0..count).map(|client| any_call(&mut dice, client)).collect();
        let report = check(&calls, STEPS_MAX);
        let holds = report.verdict == LinearVerdict::Linearizable;
        assert!(holds || report.is_violated(), "seed {seed}: {report:?}");
        assert_eq!(holds, brute_force(&calls), "seed {seed}: {report:?}\n{}", describe(&calls));
        verdicts[usize::from(holds)] += 1;
    }
    assert!(verdicts.iter().all(|count| *count > 1_000), "{verdicts:?}");
}

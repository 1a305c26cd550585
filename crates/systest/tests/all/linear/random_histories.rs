//! Histories of a correct register, with random times: the checker must always accept them, and
//! always reject them with one falsified answer.

use super::{STEPS_MAX, history};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use systest::checkers::check;
use systest::checkers::replay::Decided;
use systest::workload::CallOutcome::Acknowledged;
use systest::workload::registers::RegisterAnswer::{Done, Existed, Found};
use systest::workload::registers::{RegisterAction, RegisterCall, RegisterOp};
use systest::workload::{CallOutcome, WorkloadCall};

/// Returns the history of a correct register with concurrent clients: each call takes effect at a
/// moment between its beginning and its end; one without an answer at any moment after its
/// beginning, or never. Every value is written once.
fn random_history(seed: u64, clients: u32, calls: usize, unknown: f64) -> Vec<RegisterCall> {
    random_history_with_log(seed, clients, calls, unknown).0
}

/// Returns such a history, and its effects in order as a log; a read of any key closes a decided
/// value.
pub fn random_history_with_log(
    seed: u64,
    clients: u32,
    calls: usize,
    unknown: f64,
) -> (Vec<RegisterCall>, Vec<Decided>) {
    let mut dice = StdRng::seed_from_u64(seed);
    let mut moments: Vec<(u64, RegisterCall)> = Vec::new();
    let mut next_client = clients;
    for client in 0..clients {
        let (mut client, mut now) = (client, dice.random_range(0..20));
        for at in 0..calls {
            let value = format!("{client}.{at}").into_bytes();
            let operation = match dice.random_range(0..10) {
                0..4 => RegisterAction::Get,
                4..7 => RegisterAction::Put(value),
                7 => RegisterAction::Delete,
                _ => RegisterAction::TestAndSet { expect: None, wanted: Some(value) },
            };
            let (began, ended) = (now, now + dice.random_range(1..40));
            let mut effect_time = dice.random_range(began..=ended);
            let mut outcome = Acknowledged(Done);
            if dice.random_bool(unknown) {
                outcome = CallOutcome::Unknown;
                let never = dice.random_bool(0.5);
                effect_time = if never { u64::MAX } else { began + dice.random_range(0..300) };
            }
            now = ended + dice.random_range(1..10);
            let key = format!("k{}", dice.random_range(0..2));
            let call = WorkloadCall {
                client,
                node: 0,
                op: RegisterOp { key, action: operation },
                outcome,
                began,
                ended,
            };
            if !call.is_known() {
                client = next_client;
                next_client += 1;
            }
            moments.push((effect_time, call));
        }
    }
    moments.sort_by_key(|(effect_time, _)| *effect_time);
    let mut table: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut log = vec![Decided { index: 10, effects: Vec::new() }];
    for (effect_time, call) in &mut moments {
        if *effect_time < u64::MAX {
            let index = log.last().expect("one was begun").index + dice.random_range(1..4);
            if call.op.action == RegisterAction::Get || dice.random_bool(0.3) {
                log.push(Decided { index, effects: Vec::new() });
            }
            let before = table.get(&call.op.key).cloned();
            apply_call(call, &mut table);
            let after = table.get(&call.op.key).cloned();
            if before != after {
                let last = log.last_mut().expect("one was begun");
                last.effects.push((call.op.key.clone(), after));
            }
        }
    }
    (moments.into_iter().map(|(_, call)| call).collect(), log)
}

fn apply_call(call: &mut RegisterCall, table: &mut BTreeMap<String, Vec<u8>>) {
    let before = table.get(&call.op.key).cloned();
    let outcome = match &call.op.action {
        RegisterAction::Get => Acknowledged(Found(before)),
        RegisterAction::Put(value) => {
            table.insert(call.op.key.clone(), value.clone());
            Acknowledged(Done)
        }
        RegisterAction::Delete => Acknowledged(Existed(table.remove(&call.op.key).is_some())),
        RegisterAction::TestAndSet { expect, wanted } => {
            if *expect == before {
                table.insert(call.op.key.clone(), wanted.clone().expect("ours write"));
            }
            Acknowledged(Found(before))
        }
    };
    if call.is_known() {
        call.outcome = outcome;
    }
}

#[test]
fn linearizability_checker_accepts_random_register_histories() {
    for seed in 0..150 {
        let unknown = [0.0, 0.02, 0.1][seed as usize % 3];
        let calls = random_history(seed, 2 + seed as u32 % 7, 40, unknown);
        check(&calls, STEPS_MAX).must_be_linearizable();
    }
    let large = random_history(7, 16, 400, 0.01);
    let report = check(&large, STEPS_MAX);
    report.must_be_linearizable();
    assert_eq!((report.calls, report.keys), (6_400, 2));
}

/// Finds known writes of a key that certainly came one after the other, and a read after them: each
/// of the pair ends before the next begins, and the read begins after the second.
fn find_tamper_positions(calls: &[RegisterCall]) -> Option<(usize, usize, usize)> {
    let is_put =
        |call: &RegisterCall| matches!(call.op.action, RegisterAction::Put(_)) && call.is_known();
    let is_read = |call: &RegisterCall| call.op.action == RegisterAction::Get && call.is_known();
    for (older, first) in calls.iter().enumerate().filter(|(_, call)| is_put(call)) {
        for (newer, second) in calls.iter().enumerate().filter(|(_, call)| is_put(call)) {
            if second.op.key != first.op.key || second.began <= first.ended {
                continue;
            }
            let reads = calls.iter().enumerate().filter(|(_, call)| is_read(call));
            let mut after =
                reads.filter(|(_, c)| c.op.key == first.op.key && c.began > second.ended);
            if let Some((at, _)) = after.next() {
                return Some((older, newer, at));
            }
        }
    }
    None
}

#[test]
fn linearizability_checker_rejects_tampered_histories() {
    let mut tampered = 0;
    for seed in 0..60 {
        let calls = random_history(seed, 4, 30, 0.0);
        let Some((older, newer, read)) = find_tamper_positions(&calls) else { continue };
        tampered += 1;
        let must_reject = |what: &str, calls: &[RegisterCall]| {
            let report = check(calls, STEPS_MAX);
            assert!(report.is_violated(), "seed {seed}, {what}: {report:?}");
        };
        let written = |at: usize| match &calls[at].op.action {
            RegisterAction::Put(value) => Some(value.clone()),
            _ => None,
        };
        // A stale read: the value of a write that another had certainly replaced.
        let mut stale = calls.clone();
        stale[read].outcome = Acknowledged(Found(written(older)));
        must_reject("stale read", &stale);
        // A lost write: a value was read, and the call that wrote it is not in the history.
        let read_value = calls.iter().find_map(|call| match &call.outcome {
            Acknowledged(Found(Some(value))) if call.op.action == RegisterAction::Get => {
                Some(value.clone())
            }
            _ => None,
        });
        let read_value = read_value.expect("some read found something");
        let mut lost = calls.clone();
        lost.retain(|call| match &call.op.action {
            RegisterAction::Put(value) => *value != read_value,
            RegisterAction::TestAndSet { wanted, .. } => wanted.as_ref() != Some(&read_value),
            _ => true,
        });
        must_reject("a read of what nobody wrote", &lost);
        // A lost write as clients see it: at the end, a key holds the value from before the write.
        let end = calls.iter().map(|call| call.ended).max().unwrap_or(0);
        let key = &calls[older].op.key;
        let with_final_calls = |lines: &[&str]| {
            let mut calls = calls.clone();
            let mut last = history(lines);
            for call in &mut last {
                (call.client, call.op.key) = (call.client + 1_000, key.clone());
                (call.began, call.ended) = (call.began + end, call.ended + end);
            }
            calls.extend(last);
            calls
        };
        let mut stale_end = with_final_calls(&["1 get k - 1 2"]);
        stale_end.last_mut().expect("one was added").outcome = Acknowledged(Found(written(older)));
        must_reject("lost write", &stale_end);
        // A read from the future: a value that is written only after it.
        let mut future = calls.clone();
        future[newer] = WorkloadCall {
            client: 2_000,
            began: end + 10,
            ended: end + 20,
            ..calls[newer].clone()
        };
        future[read].outcome = Acknowledged(Found(written(newer)));
        must_reject("read from the future", &future);
        // A split brain: two sides serve, each with its own values; each side alone is correct.
        let (left, right) =
            (["1 put k L 1 2", "1 get k L 5 6"], ["2 put k R 3 4", "2 get k R 7 8"]);
        check(&with_final_calls(&left), STEPS_MAX).must_be_linearizable();
        check(&with_final_calls(&right), STEPS_MAX).must_be_linearizable();
        must_reject("split brain", &with_final_calls(&[left, right].concat()));
    }
    assert!(tampered > 50, "only {tampered} histories had a place for a lie");
}

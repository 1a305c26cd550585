//! Histories of a correct register, with random moments: the checker must always accept them, and
//! always refuse them with one falsified answer.

use super::{ENOUGH, history};
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
fn lived(seed: u64, clients: u32, calls: usize, unknown: f64) -> Vec<RegisterCall> {
    lived_and_logged(seed, clients, calls, unknown).0
}

/// Returns such a history, and its effects in order as a log; a read of any key closes a decided
/// value.
pub fn lived_and_logged(
    seed: u64,
    clients: u32,
    calls: usize,
    unknown: f64,
) -> (Vec<RegisterCall>, Vec<Decided>) {
    let mut dice = StdRng::seed_from_u64(seed);
    let mut moments: Vec<(u64, RegisterCall)> = Vec::new();
    let mut fresh = clients;
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
            let mut happens = dice.random_range(began..=ended);
            let mut outcome = Acknowledged(Done);
            if dice.random_bool(unknown) {
                outcome = CallOutcome::Unknown;
                let never = dice.random_bool(0.5);
                happens = if never { u64::MAX } else { began + dice.random_range(0..300) };
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
                client = fresh;
                fresh += 1;
            }
            moments.push((happens, call));
        }
    }
    moments.sort_by_key(|(happens, _)| *happens);
    let mut table: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut log = vec![Decided { index: 10, effects: Vec::new() }];
    for (happens, call) in &mut moments {
        if *happens < u64::MAX {
            let index = log.last().expect("one was begun").index + dice.random_range(1..4);
            if call.op.action == RegisterAction::Get || dice.random_bool(0.3) {
                log.push(Decided { index, effects: Vec::new() });
            }
            let before = table.get(&call.op.key).cloned();
            live(call, &mut table);
            let after = table.get(&call.op.key).cloned();
            if before != after {
                let last = log.last_mut().expect("one was begun");
                last.effects.push((call.op.key.clone(), after));
            }
        }
    }
    (moments.into_iter().map(|(_, call)| call).collect(), log)
}

fn live(call: &mut RegisterCall, table: &mut BTreeMap<String, Vec<u8>>) {
    let before = table.get(&call.op.key).cloned();
    let told = match &call.op.action {
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
        call.outcome = told;
    }
}

#[test]
fn what_a_true_register_answers_is_accepted() {
    for seed in 0..150 {
        let unknown = [0.0, 0.02, 0.1][seed as usize % 3];
        let calls = lived(seed, 2 + seed as u32 % 7, 40, unknown);
        check(&calls, ENOUGH).must_be_linearizable();
    }
    let large = lived(7, 16, 400, 0.01);
    let report = check(&large, ENOUGH);
    report.must_be_linearizable();
    assert_eq!((report.calls, report.keys), (6_400, 2));
}

/// Finds known writes of a key that certainly came one after the other, and a read after them: each
/// of the pair ends before the next begins, and the read begins after the second.
fn place_for_a_lie(calls: &[RegisterCall]) -> Option<(usize, usize, usize)> {
    let is_put =
        |call: &RegisterCall| matches!(call.op.action, RegisterAction::Put(_)) && call.is_known();
    let read = |call: &RegisterCall| call.op.action == RegisterAction::Get && call.is_known();
    for (older, first) in calls.iter().enumerate().filter(|(_, call)| is_put(call)) {
        for (newer, second) in calls.iter().enumerate().filter(|(_, call)| is_put(call)) {
            if second.op.key != first.op.key || second.began <= first.ended {
                continue;
            }
            let reads = calls.iter().enumerate().filter(|(_, call)| read(call));
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
fn tampered_histories_are_refused() {
    let mut tampered = 0;
    for seed in 0..60 {
        let calls = lived(seed, 4, 30, 0.0);
        let Some((older, newer, read)) = place_for_a_lie(&calls) else { continue };
        tampered += 1;
        let refused = |what: &str, calls: &[RegisterCall]| {
            let report = check(calls, ENOUGH);
            assert!(report.is_violated(), "seed {seed}, {what}: {report:?}");
        };
        let written = |at: usize| match &calls[at].op.action {
            RegisterAction::Put(value) => Some(value.clone()),
            _ => None,
        };
        // A stale read: the value of a write that another had certainly replaced.
        let mut stale = calls.clone();
        stale[read].outcome = Acknowledged(Found(written(older)));
        refused("stale read", &stale);
        // A lost write: acknowledged, but the clients that saw its value find that no call wrote
        // it.
        let seen = calls.iter().find_map(|call| match &call.outcome {
            Acknowledged(Found(Some(value))) if call.op.action == RegisterAction::Get => {
                Some(value.clone())
            }
            _ => None,
        });
        let seen = seen.expect("some read found something");
        let mut lost = calls.clone();
        lost.retain(|call| match &call.op.action {
            RegisterAction::Put(value) => *value != seen,
            RegisterAction::TestAndSet { wanted, .. } => wanted.as_ref() != Some(&seen),
            _ => true,
        });
        refused("a read of what nobody wrote", &lost);
        // A lost write as clients see it: at the end, a key holds the value from before the write.
        let end = calls.iter().map(|call| call.ended).max().unwrap_or(0);
        let key = &calls[older].op.key;
        let finally = |lines: &[&str]| {
            let mut calls = calls.clone();
            let mut last = history(lines);
            for call in &mut last {
                (call.client, call.op.key) = (call.client + 1_000, key.clone());
                (call.began, call.ended) = (call.began + end, call.ended + end);
            }
            calls.extend(last);
            calls
        };
        let mut gone = finally(&["1 get k - 1 2"]);
        gone.last_mut().expect("one was added").outcome = Acknowledged(Found(written(older)));
        refused("lost write", &gone);
        // A read from the future: a value that is written only after it.
        let mut future = calls.clone();
        future[newer] = WorkloadCall {
            client: 2_000,
            began: end + 10,
            ended: end + 20,
            ..calls[newer].clone()
        };
        future[read].outcome = Acknowledged(Found(written(newer)));
        refused("read from the future", &future);
        // A split brain: two sides go on, each with its own values; one side alone is correct.
        let (left, right) =
            (["1 put k L 1 2", "1 get k L 5 6"], ["2 put k R 3 4", "2 get k R 7 8"]);
        check(&finally(&left), ENOUGH).must_be_linearizable();
        check(&finally(&right), ENOUGH).must_be_linearizable();
        refused("split brain", &finally(&[left, right].concat()));
    }
    assert!(tampered > 50, "only {tampered} histories had a place for a lie");
}

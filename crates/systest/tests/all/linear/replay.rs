//! Tests of the replay checker: the log of a correct register explains its history; with one
//! falsified answer or entry, it does not.

use super::random_histories::random_history_with_log;
use super::{STEPS_MAX, bytes, history};
use systest::checkers::check;
use systest::checkers::replay::{Decided, ReplayReport, ReplayVerdict, replay};
use systest::workload::registers::RegisterAnswer::Done;
use systest::workload::registers::{RegisterAction, RegisterCall, RegisterOp};
use systest::workload::{CallOutcome, KeyValue, WorkloadCall};

/// Parses `INDEX KEY=VALUE ...`, each value of the log a line; `-` deletes the key.
fn log(lines: &[&str]) -> Vec<Decided> {
    let effect = |field: &str| {
        let (key, value) = field.split_once('=').expect("KEY=VALUE");
        (key.to_string(), bytes(value))
    };
    let decided = |line: &&str| {
        let mut fields = line.split_whitespace();
        let index = fields.next().expect("an index").parse().expect("a number");
        Decided { index, effects: fields.map(effect).collect() }
    };
    lines.iter().map(decided).collect()
}

fn must_explain(calls: &[&str], lines: &[&str]) {
    let calls = history(calls);
    replay(&calls, &log(lines)).must_explain();
    // A history that a log explains has an order.
    check(&calls, STEPS_MAX).must_be_linearizable();
}

fn is_violated(report: &ReplayReport) -> bool {
    matches!(report.verdict, ReplayVerdict::Violated(_))
}

fn must_be_violated(calls: &[&str], lines: &[&str], expected: &str) {
    let report = replay(&history(calls), &log(lines));
    let ReplayVerdict::Violated(found) = &report.verdict else { panic!("{calls:?}: {report:?}") };
    assert!(found.iter().any(|text| text.contains(expected)), "{expected}: {found:?}");
}

#[test]
fn replay_checker_accepts_logs_that_explain_the_history() {
    must_explain(&[], &[]);
    must_explain(&["1 get a - 0 1", "1 put a x 2 3", "2 get a x 4 5"], &["7 a=x"]);
    must_explain(&["1 put a x 0 5", "2 put a y 0 5", "3 get a x 6 7"], &["7 a=y a=x"]);
    // An unknown write may come late or never; a refused one never.
    must_explain(&["1 put a x 0 ?", "2 get a - 1 2", "2 put a y 3 4"], &["1 a=y", "2 a=x"]);
    must_explain(&["1 put a x 0 ?", "2 put b x 0 x"], &[]);
    must_explain(&["1 put a x 0 1", "2 del a yes 2 ?", "3 get a - 4 5"], &["1 a=x", "2 a=-"]);
    must_explain(&["1 put a x 0 1", "2 tas a x - x 2 ?", "3 get a - 4 5"], &["1 a=x", "2 a=-"]);
    must_explain(&["1 tas a - x - 0 1", "2 tas a - y x 2 3", "3 del a no 0 9"], &["5 a=x"]);
    // Two deletes that look alike: other reads show which one was first.
    must_explain(
        &["1 put a x 0 1", "2 del a yes 2 9", "1 put a y 4 5", "3 del a yes 6 7", "3 get a - 8 9"],
        &["1 a=x", "2 a=-", "3 a=y", "4 a=-"],
    );
    // Keys that were written together have one index.
    must_explain(&["1 put a x 0 1", "2 put b x 0 1"], &["4 a=x b=x"]);
    // Within one decided value a delete may remove a value that was visible to no reader.
    must_explain(&["1 put a x 0 9", "2 del a yes 0 9", "3 get a - 0 9"], &["4 a=x a=-"]);
}

#[test]
fn replay_checker_rejects_logs_that_contradict_the_history() {
    must_be_violated(&["1 put a x 0 1"], &[], "not in the log");
    must_be_violated(&["1 put a x 0 1"], &["1 a=x", "2 a=x"], "2 times in the log");
    must_be_violated(&["1 put a x 0 x"], &["1 a=x"], "refused, and in the log");
    must_be_violated(&["1 get a - 0 1"], &["1 a=x"], "nobody wrote x");
    must_be_violated(&["1 put a x 0 1"], &["1 a=x", "2 a=-"], "nobody took a away");
    must_be_violated(&["1 put a x 0 1", "2 del a yes 2 3"], &["1 a=x"], "takes nothing away");
    must_be_violated(
        &["1 put a x 0 1", "2 tas a x y x 2 3"],
        &["1 a=x", "2 a=-"],
        "not in the log",
    );
    must_be_violated(
        &["1 put a x 0 1", "2 put a y 2 3", "3 tas a x z x 4 5"],
        &["1 a=x", "2 a=y", "3 a=z"],
        "something else was",
    );
    must_be_violated(&["1 put a x 0 1", "2 put b x 0 1"], &["4 a=x", "5 b=x"], "was written once");
    // A stale read; a read from the future; a write that is logged before it was requested.
    let two_writes = ["1 a=x", "2 a=y"];
    must_be_violated(
        &["1 put a x 0 1", "2 put a y 2 3", "3 get a x 4 5"],
        &two_writes,
        "has no place",
    );
    must_be_violated(
        &["1 put a x 0 1", "3 get a y 2 3", "2 put a y 4 5"],
        &two_writes,
        "has no place",
    );
    must_be_violated(&["1 put a x 3 ?", "2 put b y 0 1"], &["1 a=x", "2 b=y"], "has no place");
    // A read of a part of a decided value.
    must_be_violated(
        &["1 put a x 0 9", "2 put a y 0 9", "3 get a x 1 8"],
        &["4 a=x a=y"],
        "has no place",
    );
    // Each key by itself is correct; the order of both is not that of the clients.
    let calls = ["1 put a x 0 1", "2 put b y 2 3"];
    check(&history(&calls), STEPS_MAX).must_be_linearizable();
    must_be_violated(&calls, &["1 b=y", "2 a=x"], "has no place");
}

#[test]
fn replay_checker_reports_malformed_input_as_unusable() {
    let must_be_unusable = |calls: &[&str], lines: &[&str]| {
        let report = replay(&history(calls), &log(lines));
        assert!(matches!(report.verdict, ReplayVerdict::Unusable(_)), "{report:?}");
    };
    must_be_unusable(&["1 put a x 0 1"], &["2 a=x", "2 b=y"]);
    must_be_unusable(&["1 put a x 0 1", "2 put a x 2 3"], &["1 a=x"]);
    must_be_unusable(&["1 del a done 0 1"], &[]);
    must_be_unusable(&["1 put a x 5 4"], &["1 a=x"]);
}

/// Returns the history of a register, and its log.
fn history_and_log(seed: u64) -> (Vec<RegisterCall>, Vec<Decided>) {
    let unknown = [0.0, 0.02, 0.1][seed as usize % 3];
    random_history_with_log(seed, 2 + seed as u32 % 7, 40, unknown)
}

#[test]
fn replay_checker_accepts_logs_of_random_register_histories() {
    let (mut guessed, mut undecided) = (0, 0);
    for seed in 0..300 {
        let (calls, log) = history_and_log(seed);
        let report = replay(&calls, &log);
        guessed += report.guessed;
        match report.verdict {
            // Eight clients delete two keys all the time: the match of deletes with removals may be
            // wrong.
            ReplayVerdict::Undecided(_) => undecided += 1,
            _ => report.must_explain(),
        }
    }
    assert!(guessed > 0 && undecided < 10, "{guessed} guessed, {undecided} undecided");
}

/// Returns the positions of a known write whose value is in the log: in the history, and in the
/// log.
fn find_known_write(calls: &[RegisterCall], log: &[Decided]) -> (usize, usize, usize) {
    let positions = log.iter().enumerate().flat_map(|(at, decided)| {
        let effects = decided.effects.iter().enumerate();
        effects.map(move |(nth, effect)| (at, nth, effect))
    });
    let mut known = positions.filter_map(|(at, nth, (key, value))| {
        let is_write = |call: &RegisterCall| {
            let RegisterAction::Put(written) = &call.op.action else { return false };
            call.is_known() && call.op.key == *key && Some(written) == value.as_ref()
        };
        Some((calls.iter().position(is_write)?, at, nth))
    });
    known.next().expect("somebody wrote something")
}

#[test]
fn replay_checker_rejects_tampered_histories_and_logs() {
    for seed in 0..60 {
        let (calls, log) = history_and_log(seed);
        let (call, at, nth) = find_known_write(&calls, &log);
        let must_reject = |what: &str, calls: &[RegisterCall], log: &[Decided]| {
            let report = replay(calls, log);
            assert!(is_violated(&report), "seed {seed}, {what}: {report:?}");
        };
        let mut without_effect = log.clone();
        without_effect[at].effects.remove(nth);
        must_reject("a lost write", &calls, &without_effect);
        let mut with_duplicate = log.clone();
        let duplicate = with_duplicate[at].effects[nth].clone();
        with_duplicate.last_mut().expect("one").effects.push(duplicate);
        must_reject("a write that was done twice", &calls, &with_duplicate);
        let mut with_refusal = calls.clone();
        with_refusal[call].outcome = CallOutcome::Refused;
        must_reject("a refusal of what was done", &with_refusal, &log);
        let mut without_call = calls.clone();
        without_call.remove(call);
        must_reject("a write that nobody asked for", &without_call, &log);
        let last = calls.iter().map(|call| call.ended).max().expect("some");
        let mut late_calls = calls.clone();
        let (began, ended) = (last + 10, last + 20);
        late_calls[call] = WorkloadCall { client: 9_000, began, ended, ..calls[call].clone() };
        let end: KeyValue = Some(b"end".to_vec());
        let put = RegisterAction::Put(b"end".to_vec());
        let (key, outcome) = (calls[call].op.key.clone(), CallOutcome::Acknowledged(Done));
        let other = WorkloadCall {
            client: 9_001,
            node: 0,
            op: RegisterOp { key: key.clone(), action: put },
            outcome,
            began,
            ended,
        };
        late_calls.push(WorkloadCall { began: last + 1, ended: last + 2, ..other });
        let mut extended_log = log.clone();
        let index = log.last().expect("one").index + 1;
        extended_log.push(Decided { index, effects: vec![(key, end)] });
        must_reject(
            "a write that was logged long before it was asked for",
            &late_calls,
            &extended_log,
        );
    }
}

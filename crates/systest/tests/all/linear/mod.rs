//! Tests of the linearizability checker: histories with a known verdict, random ones of a correct
//! register, tampered ones, and comparison with a naive checker.
//!
//! Promises: every history with a known verdict is passed to the naive checker, too.
//! Never: needs a server.
//! Read next: `brute_force.rs`, `random_histories.rs`, then `replay.rs` (the checker with a log).

mod brute_force;
mod random_histories;
mod replay;
mod transactions;

use brute_force::brute_force;
use std::time::Duration;
use systest::checkers::{LinearVerdict, check};
use systest::workload::CallOutcome::Acknowledged;
use systest::workload::registers::RegisterAnswer::{Done, Existed, Found};
use systest::workload::registers::{RegisterAction, RegisterCall, RegisterHistory, RegisterOp};
use systest::workload::{CallOutcome, KeyValue, WorkloadCall};

const STEPS_MAX: u64 = 1_000_000;

fn bytes(text: &str) -> KeyValue {
    (text != "-").then(|| text.as_bytes().to_vec())
}

/// Parses `client put KEY VALUE BEGAN ENDED`, `client get KEY VALUE ...`, `client del KEY
/// yes|no|done ...`, `client tas KEY EXPECT WANTED FOUND ...`; `-` is the absent value, and an end
/// of `?` or `x` makes the outcome unknown or the call refused.
fn history(lines: &[&str]) -> Vec<RegisterCall> {
    let call = |line: &&str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let (operation, outcome) = match fields[1] {
            "put" => (RegisterAction::Put(bytes(fields[3]).expect("a value")), Acknowledged(Done)),
            "get" => (RegisterAction::Get, Acknowledged(Found(bytes(fields[3])))),
            "del" if fields[3] == "done" => (RegisterAction::Delete, Acknowledged(Done)),
            "del" => (RegisterAction::Delete, Acknowledged(Existed(fields[3] == "yes"))),
            "tas" => {
                let (expect, wanted) = (bytes(fields[3]), bytes(fields[4]));
                (
                    RegisterAction::TestAndSet { expect, wanted },
                    Acknowledged(Found(bytes(fields[5]))),
                )
            }
            other => panic!("no such call: {other}"),
        };
        let [began, ended] = fields[fields.len() - 2..] else { panic!("two times") };
        let began: u64 = began.parse().expect("a time");
        let (outcome, ended) = match ended {
            "?" => (CallOutcome::Unknown, began),
            "x" => (CallOutcome::Refused, began),
            time => (outcome, time.parse().expect("a time")),
        };
        let client = fields[0].parse().expect("a number");
        WorkloadCall {
            client,
            node: 0,
            op: RegisterOp { key: fields[2].into(), action: operation },
            outcome,
            began,
            ended,
        }
    };
    lines.iter().map(call).collect()
}

fn must_accept(lines: &[&str]) {
    let calls = history(lines);
    check(&calls, STEPS_MAX).must_be_linearizable();
    assert!(brute_force(&calls), "the twin: {lines:?}");
}

fn must_reject(lines: &[&str]) {
    let calls = history(lines);
    let report = check(&calls, STEPS_MAX);
    assert!(report.is_violated(), "{lines:?}: {report:?}");
    assert!(!brute_force(&calls), "the twin: {lines:?}");
}

#[test]
fn linearizability_checker_accepts_linearizable_histories() {
    must_accept(&[]);
    must_accept(&["1 get a - 0 1", "1 put a x 2 3", "2 get a x 4 5"]);
    // During a write, reads may see it or not; once seen, it stays.
    must_accept(&["1 put a x 0 9", "2 get a - 1 2", "2 get a x 3 4", "3 get a x 5 6"]);
    must_accept(&["1 put a x 0 5", "2 put a y 0 5", "3 get a x 6 7", "3 get a x 8 9"]);
    must_accept(&["1 put a x 0 5", "2 put a y 0 5", "3 get a y 6 7"]);
    // An unknown write takes effect at once, much later, or never.
    must_accept(&["1 put a x 0 ?", "2 get a x 1 2"]);
    must_accept(&["1 put a x 0 ?", "2 get a - 1 2", "2 put a y 3 4", "2 get a x 5 6"]);
    must_accept(&["1 put a x 0 ?", "2 get a - 1 2", "2 get a - 3 4"]);
    must_accept(&["1 put a x 0 1", "2 del a yes 2 ?", "3 get a - 4 5", "3 put a y 6 7"]);
    must_accept(&["1 tas a - x - 0 1", "2 tas a - y x 2 3", "2 tas a x - x 4 5", "3 get a - 6 7"]);
    must_accept(&["1 del a no 0 1", "1 put a x 2 3", "2 del a yes 4 5", "3 del a no 6 7"]);
    must_accept(&["1 put a x 0 x", "2 get a - 1 2"]);
    // A write of the present value is not a call without effect: it may have come later.
    must_accept(&[
        "1 del a done 1 7",
        "2 put a y 1 8",
        "3 put a y 5 6",
        "4 put a y 7 14",
        "5 get a - 9 10",
    ]);
    // A test-and-set of unknown outcome took effect if its value was read.
    must_accept(&["1 tas a x y - 0 ?", "2 put a x 1 2", "3 get a y 3 4", "3 get a y 5 6"]);
    // Two unknown deletes explain two removals.
    must_accept(&[
        "1 del a done 0 ?",
        "2 del a done 0 ?",
        "3 put a x 1 2",
        "3 get a - 3 4",
        "3 put a y 5 6",
        "3 get a - 7 8",
    ]);
}

#[test]
fn linearizability_checker_rejects_non_linearizable_histories() {
    must_reject(&["1 put a x 0 1", "2 get a - 2 3"]);
    // Seen, then not seen again.
    must_reject(&["1 put a x 0 9", "2 get a x 1 2", "3 get a - 3 4"]);
    must_reject(&["1 put a x 0 ?", "2 get a x 1 2", "2 get a - 3 4"]);
    // Two readers disagree about the order of two writes.
    must_reject(&[
        "1 put a x 0 9",
        "2 put a y 0 9",
        "3 get a x 1 2",
        "4 get a y 3 4",
        "3 get a x 5 6",
    ]);
    must_reject(&["1 get a x 0 1", "2 put a x 2 3"]);
    must_reject(&["1 get a z 0 1"]);
    must_reject(&["1 put a x 0 x", "2 get a x 1 2"]);
    // Two winners of one lock.
    must_reject(&["1 tas a - x - 0 5", "2 tas a - y - 0 5"]);
    must_reject(&["1 put a x 0 1", "2 del a no 2 3"]);
    must_reject(&[
        "1 del a done 0 ?",
        "3 put a x 1 2",
        "3 get a - 3 4",
        "3 put a y 5 6",
        "3 get a - 7 8",
    ]);
    // Split brain: each side serves its own value, later than the other's write.
    must_reject(&["1 put a x 0 1", "2 put a y 2 3", "1 get a x 4 5", "2 get a y 6 7"]);
    // One wrong key among correct ones is named.
    let calls = history(&["1 put a x 0 1", "2 put b x 0 1", "3 get a x 2 3", "4 get b - 2 3"]);
    let LinearVerdict::Violated(found) = check(&calls, STEPS_MAX).verdict else {
        panic!("not seen")
    };
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].key.as_str(), found[0].ordered), ("b", 1));
    assert_eq!((found[0].value.clone(), found[0].candidates.len()), (bytes("x"), 1));
    assert!(found[0].to_string().contains("get(b) = absent"), "{}", found[0]);
}

#[test]
fn linearizability_checker_reports_malformed_history_as_unusable() {
    let is_unusable = |calls: &[RegisterCall]| {
        matches!(check(calls, STEPS_MAX).verdict, LinearVerdict::Unusable(_))
    };
    assert!(is_unusable(&history(&["1 put a x 0 5", "1 get a x 4 6"])), "two calls at once");
    assert!(is_unusable(&history(&["1 put a x 0 ?", "1 get a x 4 6"])), "goes on after unknown");
    assert!(is_unusable(&history(&["1 put a x 5 4"])), "ends before it begins");
    let mut malformed = history(&["1 put a x 0 1"]);
    malformed[0].outcome = Acknowledged(Existed(true));
    assert!(is_unusable(&malformed), "no answer to a write");
    assert!(!is_unusable(&history(&["1 put a x 0 4", "1 get a x 4 6"])));
}

#[test]
fn linearizability_checker_out_of_steps_is_undecided() {
    // Many concurrent writes, and a read at the end of a value that no call can have written last.
    let mut lines: Vec<_> = (0..12).map(|n| format!("{n} put a v{n} 0 9")).collect();
    lines.extend((0..12).map(|n| format!("{} get a v{n} 10 20", 20 + n)));
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    let calls = history(&lines);
    let verdict = check(&calls, 50).verdict;
    assert_eq!(verdict, LinearVerdict::Undecided(vec!["a".into()]));
    // A violation elsewhere is a violation all the same.
    let mut with_violation = calls.clone();
    with_violation.extend(history(&["90 put b x 0 1", "91 get b - 2 3"]));
    assert!(check(&with_violation, 50).is_violated());
    assert!(check(&calls, STEPS_MAX).is_violated());
}

#[test]
fn gaps_between_acknowledged_updates_are_measured() {
    let calls = history(&[
        "1 put k a 1 2",
        "1 get k a 3 30",
        "2 put k b 2 ?",
        "1 tas k x y a 31 40",
        "3 put k c 31 x",
        "1 del k yes 41 50",
        "1 tas k - d - 51 60",
    ]);
    let register_history = RegisterHistory { calls, ..RegisterHistory::default() };
    let nanos = Duration::from_nanos;
    assert_eq!(register_history.updates(), [nanos(2), nanos(50), nanos(60)]);
    assert_eq!(register_history.gap(nanos(0), nanos(70)), nanos(48));
    assert_eq!(register_history.gap(nanos(55), nanos(100)), nanos(40));
}

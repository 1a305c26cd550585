//! Tests of the transaction checker: the log of a correct store explains its history; with one
//! falsified answer or entry, it does not.

use systest::checkers::transactions::{Committed, TransactionReport, ValueEffect, judge};
use systest::workload::transactions::{
    Level, StepAnswer, Transaction, TransactionAnswer, TransactionOp, TransactionStep,
};
use systest::workload::{CallOutcome, WorkloadCall};

const SECOND: u64 = 1_000_000_000;

fn value(text: &str) -> Option<Vec<u8>> {
    (text != "-").then(|| text.as_bytes().to_vec())
}

fn get(key: &str) -> TransactionStep {
    TransactionStep::Get(key.into())
}

fn set(key: &str, text: &str) -> TransactionStep {
    TransactionStep::Set(key.into(), text.into(), None)
}

fn row(text: &str) -> StepAnswer {
    StepAnswer::Row(value(text))
}

fn number(sum: i64) -> StepAnswer {
    StepAnswer::Number(sum.to_string().into_bytes())
}

/// Returns an acknowledged transaction on its own connection.
fn acked(
    steps: &[TransactionStep],
    answers: &[StepAnswer],
    (began, ended): (u64, u64),
) -> Transaction {
    let (level, front_end) = (Level::Consistent, "test");
    WorkloadCall {
        client: began as u32,
        node: 0,
        op: TransactionOp { steps: steps.to_vec(), level, front_end, index: None },
        outcome: CallOutcome::Acknowledged(TransactionAnswer::Done(answers.to_vec())),
        began,
        ended,
    }
}

fn with_outcome(outcome: CallOutcome<TransactionAnswer>, mut call: Transaction) -> Transaction {
    call.outcome = outcome;
    call
}

fn at_level(level: Level, connection: u32, mut call: Transaction) -> Transaction {
    (call.op.level, call.client) = (level, connection);
    call
}

/// Parses `INDEX KEY=VALUE ...`, each value of the log a line; `-` deletes a key, `VALUE!` expires
/// at 100.
fn log(lines: &[&str]) -> Vec<Committed> {
    let effect = |field: &str| {
        let (key, text) = field.split_once('=').expect("KEY=VALUE");
        let expires = text.ends_with('!').then_some(100);
        let row = value(text.trim_end_matches('!')).map(|value| (value, expires));
        ValueEffect { key: key.into(), row }
    };
    let committed = |line: &&str| {
        let mut fields = line.split_whitespace();
        let index = fields.next().expect("an index").parse().expect("a number");
        Committed { index, time_ms: index, effects: fields.map(effect).collect() }
    };
    lines.iter().map(committed).collect()
}

fn accept(history: &[Transaction], lines: &[&str]) -> TransactionReport {
    let report = judge(history, &log(lines));
    report.must_explain();
    report
}

fn reject(expected: &str, history: &[Transaction], lines: &[&str]) {
    let found = judge(history, &log(lines)).violations;
    assert!(found.iter().any(|text| text.contains(expected)), "{expected}: {found:?}");
}

#[test]
fn transaction_checker_rejects_stale_lost_and_reordered_calls() {
    let write = |at, text: &str| acked(&[set("a", text)], &[StepAnswer::Done], (at, at + 1));
    let read = |at, text: &str| acked(&[get("a")], &[row(text)], (at, at + 1));
    let two = ["1 a=x", "2 a=y"];
    accept(&[read(0, "-"), write(2, "x"), read(4, "x"), write(6, "y"), read(8, "y")], &two);
    reject("no state", &[write(2, "x"), write(6, "y"), read(8, "x")], &two);
    reject("no state", &[write(2, "x"), read(4, "y"), write(6, "y")], &two);
    reject("not in the log", &[write(2, "x"), write(6, "y"), write(8, "z")], &two);
    reject("nobody asked", &[write(2, "x")], &two);
    reject("2 times", &[write(2, "x"), write(4, "y")], &["1 a=x", "2 a=y", "3 a=x"]);
    reject("done at place", &[write(2, "x"), write(6, "y")], &["1 a=y", "2 a=x"]);
    let unknown = with_outcome(CallOutcome::Unknown, write(2, "x"));
    accept(&[unknown.clone(), write(4, "y"), read(8, "x")], &["1 a=y", "2 a=x"]);
    accept(&[unknown.clone(), write(4, "y"), read(8, "y")], &["1 a=y"]);
    reject("done at place", &[write(0, "y"), unknown], &["1 a=x", "2 a=y"]);
    let refused_call = with_outcome(CallOutcome::Refused, write(2, "x"));
    reject("refused, and in the log", &[refused_call.clone(), write(6, "y")], &two);
    let dirty = at_level(Level::Dirty, 9, read(8, "x"));
    reject("no state", &[refused_call, write(6, "y"), dirty], &["2 a=y"]);
}

#[test]
fn transaction_checker_rejects_lost_and_repeated_additions() {
    let add = |at, sum| acked(&[TransactionStep::Add("n".into(), 2)], &[number(sum)], (at, at + 1));
    let lost = with_outcome(CallOutcome::Unknown, add(4, 0));
    accept(&[add(0, 2), add(2, 4)], &["1 n=2", "2 n=4"]);
    let late = accept(&[add(0, 2), lost.clone(), add(8, 6)], &["1 n=2", "2 n=4", "3 n=6"]);
    assert_eq!((late.updates, late.late), (2, 1));
    accept(&[add(0, 2), lost.clone(), add(8, 4)], &["1 n=2", "2 n=4"]);
    reject("not in the log", &[add(0, 2), add(2, 4)], &["1 n=2"]);
    reject("nobody asked", &[add(0, 2)], &["1 n=2", "2 n=4"]);
    reject("nobody asked", &[add(0, 2), lost.clone()], &["1 n=2", "2 n=4", "3 n=6"]);
    reject("the state before it", &[add(0, 2), lost, add(8, 7)], &["1 n=2", "2 n=7"]);
    let float = |at, sum: &str| {
        let answer = StepAnswer::Number(sum.as_bytes().to_vec());
        acked(&[TransactionStep::AddFloat("f".into(), 0.25)], &[answer], (at, at + 1))
    };
    accept(&[float(0, "0.25"), float(2, "0.5")], &["1 f=0.25", "2 f=0.5"]);
    reject("the state before it", &[float(0, "0.25"), float(2, "0.75")], &["1 f=0.25", "2 f=0.75"]);
}

#[test]
fn transaction_checker_rejects_write_skew_and_partial_sequences() {
    let guarded = |at, guard: &str, key: &str, text: &str| {
        let steps = [TransactionStep::Assert(guard.into(), None), set(key, text)];
        acked(&steps, &[StepAnswer::Done, StepAnswer::Done], (at, at + 5))
    };
    let both = [guarded(0, "a", "b", "x"), guarded(1, "b", "a", "y")];
    reject("not those of the state", &both, &["1 b=x", "2 a=y"]);
    let failed =
        with_outcome(CallOutcome::Acknowledged(TransactionAnswer::Failed), both[1].clone());
    let report = accept(&[both[0].clone(), failed.clone()], &["1 b=x"]);
    assert_eq!(report.failed, 1);
    reject("no state", &[failed], &[]);
    let swap = |at, old: &str, text: &str| {
        let step = |key: &str| TransactionStep::TestAndSet(key.into(), value(old), text.into());
        acked(&[step("a"), step("b")], &[row(old), row(old)], (at, at + 1))
    };
    accept(&[swap(0, "-", "x"), swap(2, "x", "y")], &["1 a=x b=x", "2 a=y b=y"]);
    reject("answers", &[swap(0, "-", "x")], &["1 a=x", "2 b=x"]);
    reject("answers", &[swap(0, "-", "x")], &["1 a=x"]);
    reject("answers", &[swap(0, "-", "x"), swap(2, "-", "y")], &["1 a=x b=x", "2 a=y b=y"]);
    // Of two tests without an answer either may have succeeded alone.
    let write = |key: &str| acked(&[set(key, "w")], &[StepAnswer::Done], (0, 1));
    let unknown = with_outcome(CallOutcome::Unknown, swap(2, "-", "x"));
    let report = accept(&[write("a"), unknown.clone()], &["1 a=w", "2 b=x"]);
    assert_eq!(report.late, 1);
    accept(&[write("b"), unknown.clone()], &["1 b=w", "2 a=x"]);
    accept(&[write("b"), unknown.clone()], &["1 b=w"]);
    reject("answers", &[write("c"), unknown], &["1 c=w", "2 b=x"]);
    let refused_call = with_outcome(CallOutcome::Refused, swap(2, "-", "x"));
    reject("refused, and in the log", &[write("a"), refused_call], &["1 a=w", "2 b=x"]);
    // The state between two halves of a transaction is visible to no reader.
    let read_both = |texts: [&str; 2]| acked(&[get("a"), get("b")], &texts.map(row), (1, 9));
    accept(&[swap(0, "-", "x"), read_both(["-", "-"])], &["1 a=x b=x"]);
    reject("no state", &[swap(0, "-", "x"), read_both(["x", "-"])], &["1 a=x b=x"]);
}

#[test]
fn transaction_checker_rejects_ranges_that_mix_log_indexes() {
    let insert = |at, key: &str| acked(&[set(key, "v")], &[StepAnswer::Done], (at, at + 1));
    let range = |span, keys: &[&str]| {
        let rows = keys.iter().map(|key| (key.to_string(), b"v".to_vec())).collect();
        acked(&[TransactionStep::Range("k".into())], &[StepAnswer::Rows(rows)], span)
    };
    let deletes = acked(
        &[TransactionStep::Delete("k2".into()), set("t", "1")],
        &[StepAnswer::Done, StepAnswer::Done],
        (6, 7),
    );
    let three_entries = ["1 k1=v", "2 k2=v k3=v", "3 k2=- t=1"];
    let history = |reader: Transaction| {
        let inserts = [insert(0, "k1"), insert(2, "k2"), insert(2, "k3")];
        [inserts.to_vec(), vec![deletes.clone(), reader]].concat()
    };
    accept(&history(range((1, 9), &["k1"])), &three_entries);
    accept(&history(range((1, 9), &["k1", "k2", "k3"])), &three_entries);
    accept(&history(range((8, 9), &["k1", "k3"])), &three_entries);
    reject("no state", &history(range((1, 9), &["k1", "k2"])), &three_entries);
    reject("no state", &history(range((1, 9), &["k2", "k3"])), &three_entries);
    reject("no state", &history(range((8, 9), &["k1", "k2", "k3"])), &three_entries);
    let assert_range = |keys: &[&str]| {
        let keys = keys.iter().map(|key| key.to_string()).collect();
        let steps = [TransactionStep::AssertRange("k".into(), keys), set("t", "2")];
        acked(&steps, &[StepAnswer::Done, StepAnswer::Done], (8, 9))
    };
    let four_entries = [three_entries[0], three_entries[1], three_entries[2], "4 t=2"];
    accept(&history(assert_range(&["k1", "k3"])), &four_entries);
    reject("answers", &history(assert_range(&["k1", "k2"])), &four_entries);
}

#[test]
fn transaction_checker_enforces_dirty_and_at_least_read_levels() {
    let write = |at, text: &str| acked(&[set("a", text)], &[StepAnswer::Done], (at, at + 1));
    let read = |level, connection, at, text: &str| {
        at_level(level, connection, acked(&[get("a")], &[row(text)], (at, at + 1)))
    };
    let two = ["4 a=x", "6 a=y"];
    let history = |reads: &[Transaction]| [&[write(0, "x"), write(2, "y")], reads].concat();
    let dirty = |connection, at, text| read(Level::Dirty, connection, at, text);
    accept(&history(&[dirty(77, 5, "-"), dirty(77, 7, "x"), dirty(78, 9, "-")]), &two);
    reject("no state", &history(&[dirty(77, 5, "y"), dirty(77, 7, "x")]), &two);
    let at_least = |index, text| read(Level::AtLeast(index), 79, 5, text);
    accept(&history(&[at_least(4, "x"), at_least(6, "y")]), &two);
    reject("no state", &history(&[at_least(6, "x")]), &two);
    reject("no state", &history(&[at_least(4, "-")]), &two);
    // An index may be later than the state shown, and never earlier.
    let with_index = |index, text| {
        let mut call = dirty(77, 5, text);
        call.op.index = Some(index);
        call
    };
    accept(&history(&[with_index(5, "x"), with_index(6, "x"), with_index(6, "y")]), &two);
    reject("no state", &history(&[with_index(5, "y")]), &two);
    reject("no state", &history(&[with_index(3, "x")]), &two);
    reject("no state", &[dirty(77, 0, "x"), write(3, "x")], &["4 a=x"]);
}

#[test]
fn transaction_checker_rejects_pipelined_read_missing_own_write() {
    let own = |step, answer| at_level(Level::Consistent, 5, acked(&[step], &[answer], (1, 9)));
    let set_and_get = |text: &str| [own(set("a", "x"), StepAnswer::Done), own(get("a"), row(text))];
    accept(&set_and_get("x"), &["1 a=x"]);
    reject("no state", &set_and_get("-"), &["1 a=x"]);
    let other = acked(&[set("a", "y")], &[StepAnswer::Done], (0, 9));
    accept(&[&set_and_get("y")[..], std::slice::from_ref(&other)].concat(), &["1 a=x", "2 a=y"]);
    reject("no state", &[&set_and_get("y")[..], &[other]].concat(), &["1 a=y", "2 a=x"]);
}

/// Returns a transaction of a pipeline on connection 5, from 1 to 9.
fn piped(steps: &[TransactionStep], answers: &[StepAnswer]) -> Transaction {
    at_level(Level::Consistent, 5, acked(steps, answers, (1, 9)))
}

fn piped_set(key: &str, text: &str) -> Transaction {
    piped(&[set(key, text)], &[StepAnswer::Done])
}

fn piped_get(key: &str, text: &str) -> Transaction {
    piped(&[get(key)], &[row(text)])
}

/// Returns updates of other clients, each on its own connection, concurrent with the pipeline.
fn others(steps: &[TransactionStep]) -> Vec<Transaction> {
    let other = |(at, step): (usize, &TransactionStep)| {
        let call = acked(std::slice::from_ref(step), &[StepAnswer::Done], (1, 9));
        at_level(Level::Consistent, 100 + at as u32, call)
    };
    steps.iter().enumerate().map(other).collect()
}

#[test]
fn pipelined_read_after_own_update_may_see_partial_decided_value() {
    let history =
        |pipeline: &[Transaction], steps: &[TransactionStep]| [pipeline, &others(steps)].concat();
    let (x, later_update) = (piped_set("a", "x"), [set("b", "y")]);
    accept(&history(&[x.clone(), piped_get("b", "-")], &later_update), &["1 a=x b=y"]);
    accept(&history(&[x.clone(), piped_get("b", "y")], &later_update), &["1 a=x b=y"]);
    accept(&history(&[x.clone(), piped_get("a", "x")], &[set("a", "y")]), &["1 a=x a=y"]);
    accept(&history(&[x.clone(), piped_get("a", "y")], &[set("a", "y")]), &["1 a=x a=y"]);
    // A later value than that of the update, and a part of it.
    let two = [set("b", "p"), set("b", "q")];
    accept(&history(&[x.clone(), piped_get("b", "p")], &two), &["1 a=x", "2 b=p b=q"]);
    // Several updates of the pipeline in one value, and reads between them.
    let own_calls = [x, piped_get("a", "x"), piped_set("a", "z"), piped_get("a", "z")];
    accept(&own_calls, &["1 a=x a=z"]);
    accept(&own_calls, &["1 a=x", "2 a=z"]);
    accept(&history(&own_calls, &two), &["1 b=p a=x b=q a=z"]);
    let add = |sum| piped(&[TransactionStep::Add("n".into(), 1)], &[number(sum)]);
    let sums = [add(1), piped_get("n", "1"), add(3), piped_get("n", "3")];
    let other = acked(&[TransactionStep::Add("n".into(), 1)], &[number(2)], (0, 9));
    accept(&[&sums[..], &[other]].concat(), &["1 n=1 n=2 n=3"]);
    // Reads before the update, and whole values.
    let front = [piped_get("b", "-"), piped_set("a", "x"), piped_get("b", "y")];
    accept(&history(&front, &later_update), &["1 a=x b=y"]);
    accept(&history(&front, &later_update), &["1 b=y", "2 a=x"]);
    let front = [piped_get("b", "p"), piped_set("a", "x"), piped_get("b", "q")];
    accept(&history(&front, &two), &["1 b=p", "2 a=x b=q"]);
}

#[test]
fn partial_decided_value_is_visible_only_after_own_pipelined_update() {
    let two = [set("b", "p"), set("b", "q")];
    let history = |own_calls: &[Transaction]| [own_calls, &others(&two)].concat();
    let (x, part) = (piped_set("a", "x"), piped_get("b", "p"));
    let (one, later) = (["1 a=x b=p b=q"], ["1 a=x", "2 b=p b=q"]);
    accept(&history(&[x.clone(), part.clone()]), &one);
    reject("no state", &history(&[part.clone(), x.clone()]), &one);
    reject("no state", &history(&[part.clone(), x.clone()]), &later);
    reject("no state", &history(&[x.clone(), at_level(Level::Dirty, 5, part.clone())]), &one);
    reject(
        "no state",
        &history(&[x.clone(), at_level(Level::AtLeast(1), 5, part.clone())]),
        &later,
    );
    reject("no state", &history(&[x.clone(), at_level(Level::Consistent, 6, part.clone())]), &one);
    // The update is answered already.
    let mut early = x.clone();
    (early.began, early.ended) = (0, 1);
    reject("no state", &history(&[early, part.clone()]), &later);
    // A read is not an update that other calls have to wait for.
    reject("no state", &history(&[piped_get("a", "-"), part, piped_get("a", "x"), x]), &one);
}

#[test]
fn transaction_checker_rejects_pipelines_that_break_their_order() {
    let history =
        |pipeline: &[Transaction], steps: &[TransactionStep]| [pipeline, &others(steps)].concat();
    let (x, y) = (piped_set("a", "x"), [set("b", "y")]);
    let own = [x.clone(), piped_set("a", "z")];
    reject("done at place", &own, &["1 a=z a=x"]);
    let lost = [x.clone(), piped_get("a", "-")];
    reject("no state", &history(&lost, &y), &["1 a=x b=y"]);
    let stale = [x.clone(), piped_set("a", "z"), piped_get("a", "x")];
    reject("no state", &stale, &["1 a=x a=z"]);
    let ahead = [x.clone(), piped_get("a", "z"), piped_set("a", "z")];
    reject("done at place", &ahead, &["1 a=x a=z"]);
    let back = [x.clone(), piped_get("b", "y"), piped_get("b", "-")];
    reject("no state", &history(&back, &y), &["1 a=x b=y"]);
    // Halves of a sequence.
    let both =
        acked(&[set("b", "y"), set("c", "y")], &[StepAnswer::Done, StepAnswer::Done], (0, 9));
    let half = [x.clone(), piped_get("b", "y"), piped_get("c", "-"), both.clone()];
    reject("no state", &half, &["1 a=x b=y c=y"]);
    accept(&[x.clone(), piped_get("b", "-"), piped_get("c", "y"), both], &["1 a=x b=y c=y"]);
    // Updates answered before the pipeline began, and updates requested after its end.
    let write = |at| acked(&[set("b", "y")], &[StepAnswer::Done], (at, at));
    let calls = |text| [x.clone(), piped_get("b", text)];
    let (old, new) = ([&calls("-")[..], &[write(0)]].concat(), [&calls("y")[..], &[write(10)]]);
    reject("no state", &old, &["1 b=y", "2 a=x"]);
    reject("no state", &new.concat(), &["1 a=x b=y"]);
    // A later read must not return an earlier state than the pipeline did.
    let after = acked(&[get("b")], &[row("-")], (10, 11));
    let late = others(&[set("b", "q")]);
    let calls = [&calls("q")[..], &late[..], &[after]].concat();
    reject("no state", &calls, &["1 a=x b=q"]);
}

#[test]
fn update_reporting_a_wrong_log_index_is_rejected() {
    let with_index = |index, mut call: Transaction| {
        call.op.index = Some(index);
        call
    };
    let write = |text: &str| acked(&[set("a", text)], &[StepAnswer::Done], (1, 9));
    let (x, y) = (write("x"), at_level(Level::Consistent, 2, write("y")));
    let two = ["4 a=x", "6 a=y"];
    accept(&[with_index(4, x.clone()), with_index(6, y.clone())], &two);
    reject("another index", &[with_index(4, x.clone()), with_index(7, y.clone())], &two);
    reject("another index", &[with_index(4, x.clone()), with_index(4, y.clone())], &two);
    // An update without effect was evaluated on the values before, and on a part of its own.
    let swap = TransactionStep::TestAndSet("a".into(), value("other"), b"z".to_vec());
    let unchanged = |text: &str| acked(std::slice::from_ref(&swap), &[row(text)], (1, 9));
    let history =
        |unchanged: Transaction| [x.clone(), y.clone(), at_level(Level::Consistent, 3, unchanged)];
    accept(&history(with_index(6, unchanged("x"))), &two);
    accept(&history(with_index(6, unchanged("x"))), &["6 a=x a=y"]);
    accept(&history(with_index(6, unchanged("-"))), &["6 a=x a=y"]);
    reject("no state", &history(with_index(7, unchanged("x"))), &["6 a=x a=y"]);
    reject("no state", &history(with_index(6, unchanged("-"))), &two);
}

#[test]
fn row_that_expires_early_or_reappears_is_rejected() {
    let expiring_set = TransactionStep::Set("m".into(), b"x".to_vec(), Some(1_000));
    let write = acked(&[expiring_set], &[StepAnswer::Done], (0, 1));
    let read = |at, text: &str| acked(&[get("m")], &[row(text)], (at, at + 1));
    let history = |reads: &[Transaction]| [std::slice::from_ref(&write), reads].concat();
    let report = accept(&history(&[read(5, "x"), read(SECOND, "-")]), &["7 m=x!"]);
    assert_eq!(report.expired, 1);
    accept(&history(&[read(5, "x"), read(SECOND, "-")]), &["7 m=x!", "101 m=-"]);
    reject("no state", &history(&[read(SECOND / 2, "-")]), &["7 m=x!"]);
    // By the log the row had expired; by the clock of the client that wrote it, it had not.
    reject("no state", &history(&[read(SECOND / 2, "-")]), &["7 m=x!", "101 m=-"]);
    accept(&history(&[read(SECOND, "-"), read(2 * SECOND, "-")]), &["7 m=x!", "101 m=-"]);
    reject("is shown again", &history(&[read(SECOND, "-"), read(SECOND + 9, "x")]), &["7 m=x!"]);
    // A read during the removal may return either; a read after one that found the row absent may
    // not.
    let repeated_reads = [read(SECOND, "-"), read(SECOND + 9, "x")];
    reject("is shown again", &history(&repeated_reads), &["7 m=x!", "101 m=-"]);
    // Removed before its time, by the group's own clock; and a row that never expires.
    reject("nobody asked", &history(&[]), &["7 m=x!", "99 m=-"]);
    reject(
        "nobody asked",
        &[acked(&[set("m", "x")], &[StepAnswer::Done], (0, 1))],
        &["7 m=x", "101 m=-"],
    );
}

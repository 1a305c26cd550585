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

/// Returns a transaction on its own connection.
fn done(steps: &[TransactionStep], said: &[StepAnswer], (began, ended): (u64, u64)) -> Transaction {
    let (level, front_end) = (Level::Consistent, "test");
    WorkloadCall {
        client: began as u32,
        node: 0,
        op: TransactionOp { steps: steps.to_vec(), level, front_end, index: None },
        outcome: CallOutcome::Acknowledged(TransactionAnswer::Done(said.to_vec())),
        began,
        ended,
    }
}

fn ended(outcome: CallOutcome<TransactionAnswer>, mut one: Transaction) -> Transaction {
    one.outcome = outcome;
    one
}

fn at_level(level: Level, connection: u32, mut one: Transaction) -> Transaction {
    (one.op.level, one.client) = (level, connection);
    one
}

/// Parses `INDEX KEY=VALUE ...`, each value of the log a line; `-` deletes a key, `VALUE!` expires
/// at 100.
fn log(lines: &[&str]) -> Vec<Committed> {
    let effect = |word: &str| {
        let (key, text) = word.split_once('=').expect("KEY=VALUE");
        let expires = text.ends_with('!').then_some(100);
        let row = value(text.trim_end_matches('!')).map(|value| (value, expires));
        ValueEffect { key: key.into(), row }
    };
    let committed = |line: &&str| {
        let mut words = line.split_whitespace();
        let index = words.next().expect("an index").parse().expect("a number");
        Committed { index, time_ms: index, effects: words.map(effect).collect() }
    };
    lines.iter().map(committed).collect()
}

fn explained(history: &[Transaction], lines: &[&str]) -> TransactionReport {
    let report = judge(history, &log(lines));
    report.must_explain();
    report
}

fn refused(said: &str, history: &[Transaction], lines: &[&str]) {
    let found = judge(history, &log(lines)).violations;
    assert!(found.iter().any(|words| words.contains(said)), "{said}: {found:?}");
}

#[test]
fn a_register_is_judged_across_doors() {
    let write = |at, text: &str| done(&[set("a", text)], &[StepAnswer::Done], (at, at + 1));
    let read = |at, text: &str| done(&[get("a")], &[row(text)], (at, at + 1));
    let two = ["1 a=x", "2 a=y"];
    explained(&[read(0, "-"), write(2, "x"), read(4, "x"), write(6, "y"), read(8, "y")], &two);
    refused("no state", &[write(2, "x"), write(6, "y"), read(8, "x")], &two);
    refused("no state", &[write(2, "x"), read(4, "y"), write(6, "y")], &two);
    refused("not in the log", &[write(2, "x"), write(6, "y"), write(8, "z")], &two);
    refused("nobody asked", &[write(2, "x")], &two);
    refused("2 times", &[write(2, "x"), write(4, "y")], &["1 a=x", "2 a=y", "3 a=x"]);
    refused("done at place", &[write(2, "x"), write(6, "y")], &["1 a=y", "2 a=x"]);
    let unknown = ended(CallOutcome::Unknown, write(2, "x"));
    explained(&[unknown.clone(), write(4, "y"), read(8, "x")], &["1 a=y", "2 a=x"]);
    explained(&[unknown.clone(), write(4, "y"), read(8, "y")], &["1 a=y"]);
    refused("done at place", &[write(0, "y"), unknown], &["1 a=x", "2 a=y"]);
    let no = ended(CallOutcome::Refused, write(2, "x"));
    refused("refused, and in the log", &[no.clone(), write(6, "y")], &two);
    let dirty = at_level(Level::Dirty, 9, read(8, "x"));
    refused("no state", &[no, write(6, "y"), dirty], &["2 a=y"]);
}

#[test]
fn numbers_that_are_lost_or_doubled_are_refused() {
    let add = |at, sum| done(&[TransactionStep::Add("n".into(), 2)], &[number(sum)], (at, at + 1));
    let lost = ended(CallOutcome::Unknown, add(4, 0));
    explained(&[add(0, 2), add(2, 4)], &["1 n=2", "2 n=4"]);
    let late = explained(&[add(0, 2), lost.clone(), add(8, 6)], &["1 n=2", "2 n=4", "3 n=6"]);
    assert_eq!((late.updates, late.late), (2, 1));
    explained(&[add(0, 2), lost.clone(), add(8, 4)], &["1 n=2", "2 n=4"]);
    refused("not in the log", &[add(0, 2), add(2, 4)], &["1 n=2"]);
    refused("nobody asked", &[add(0, 2)], &["1 n=2", "2 n=4"]);
    refused("nobody asked", &[add(0, 2), lost.clone()], &["1 n=2", "2 n=4", "3 n=6"]);
    refused("the state before it", &[add(0, 2), lost, add(8, 7)], &["1 n=2", "2 n=7"]);
    let float = |at, sum: &str| {
        let said = StepAnswer::Number(sum.as_bytes().to_vec());
        done(&[TransactionStep::AddFloat("f".into(), 0.25)], &[said], (at, at + 1))
    };
    explained(&[float(0, "0.25"), float(2, "0.5")], &["1 f=0.25", "2 f=0.5"]);
    refused(
        "the state before it",
        &[float(0, "0.25"), float(2, "0.75")],
        &["1 f=0.25", "2 f=0.75"],
    );
}

#[test]
fn skew_and_torn_sequences_are_refused() {
    let guarded = |at, guard: &str, key: &str, text: &str| {
        let steps = [TransactionStep::Assert(guard.into(), None), set(key, text)];
        done(&steps, &[StepAnswer::Done, StepAnswer::Done], (at, at + 5))
    };
    let both = [guarded(0, "a", "b", "x"), guarded(1, "b", "a", "y")];
    refused("not those of the state", &both, &["1 b=x", "2 a=y"]);
    let failed = ended(CallOutcome::Acknowledged(TransactionAnswer::Failed), both[1].clone());
    let report = explained(&[both[0].clone(), failed.clone()], &["1 b=x"]);
    assert_eq!(report.failed, 1);
    refused("no state", &[failed], &[]);
    let swap = |at, old: &str, text: &str| {
        let step = |key: &str| TransactionStep::TestAndSet(key.into(), value(old), text.into());
        done(&[step("a"), step("b")], &[row(old), row(old)], (at, at + 1))
    };
    explained(&[swap(0, "-", "x"), swap(2, "x", "y")], &["1 a=x b=x", "2 a=y b=y"]);
    refused("answers", &[swap(0, "-", "x")], &["1 a=x", "2 b=x"]);
    refused("answers", &[swap(0, "-", "x")], &["1 a=x"]);
    refused("answers", &[swap(0, "-", "x"), swap(2, "-", "y")], &["1 a=x b=x", "2 a=y b=y"]);
    // Of two tests without an answer either may have succeeded alone.
    let write = |key: &str| done(&[set(key, "w")], &[StepAnswer::Done], (0, 1));
    let unknown = ended(CallOutcome::Unknown, swap(2, "-", "x"));
    let report = explained(&[write("a"), unknown.clone()], &["1 a=w", "2 b=x"]);
    assert_eq!(report.late, 1);
    explained(&[write("b"), unknown.clone()], &["1 b=w", "2 a=x"]);
    explained(&[write("b"), unknown.clone()], &["1 b=w"]);
    refused("answers", &[write("c"), unknown], &["1 c=w", "2 b=x"]);
    let no = ended(CallOutcome::Refused, swap(2, "-", "x"));
    refused("refused, and in the log", &[write("a"), no], &["1 a=w", "2 b=x"]);
    // No reader sees the state between two halves of a transaction.
    let gets = |said: [&str; 2]| done(&[get("a"), get("b")], &said.map(row), (1, 9));
    explained(&[swap(0, "-", "x"), gets(["-", "-"])], &["1 a=x b=x"]);
    refused("no state", &[swap(0, "-", "x"), gets(["x", "-"])], &["1 a=x b=x"]);
}

#[test]
fn ranges_show_one_index() {
    let insert = |at, key: &str| done(&[set(key, "v")], &[StepAnswer::Done], (at, at + 1));
    let range = |span, keys: &[&str]| {
        let rows = keys.iter().map(|key| (key.to_string(), b"v".to_vec())).collect();
        done(&[TransactionStep::Range("k".into())], &[StepAnswer::Rows(rows)], span)
    };
    let deletes = done(
        &[TransactionStep::Delete("k2".into()), set("t", "1")],
        &[StepAnswer::Done, StepAnswer::Done],
        (6, 7),
    );
    let three = ["1 k1=v", "2 k2=v k3=v", "3 k2=- t=1"];
    let history = |seen: Transaction| {
        let inserts = [insert(0, "k1"), insert(2, "k2"), insert(2, "k3")];
        [inserts.to_vec(), vec![deletes.clone(), seen]].concat()
    };
    explained(&history(range((1, 9), &["k1"])), &three);
    explained(&history(range((1, 9), &["k1", "k2", "k3"])), &three);
    explained(&history(range((8, 9), &["k1", "k3"])), &three);
    refused("no state", &history(range((1, 9), &["k1", "k2"])), &three);
    refused("no state", &history(range((1, 9), &["k2", "k3"])), &three);
    refused("no state", &history(range((8, 9), &["k1", "k2", "k3"])), &three);
    let must = |keys: &[&str]| {
        let keys = keys.iter().map(|key| key.to_string()).collect();
        let steps = [TransactionStep::AssertRange("k".into(), keys), set("t", "2")];
        done(&steps, &[StepAnswer::Done, StepAnswer::Done], (8, 9))
    };
    let four = [three[0], three[1], three[2], "4 t=2"];
    explained(&history(must(&["k1", "k3"])), &four);
    refused("answers", &history(must(&["k1", "k2"])), &four);
}

#[test]
fn levels_are_held() {
    let write = |at, text: &str| done(&[set("a", text)], &[StepAnswer::Done], (at, at + 1));
    let read = |level, connection, at, text: &str| {
        at_level(level, connection, done(&[get("a")], &[row(text)], (at, at + 1)))
    };
    let two = ["4 a=x", "6 a=y"];
    let with = |reads: &[Transaction]| [&[write(0, "x"), write(2, "y")], reads].concat();
    let dirty = |connection, at, text| read(Level::Dirty, connection, at, text);
    explained(&with(&[dirty(77, 5, "-"), dirty(77, 7, "x"), dirty(78, 9, "-")]), &two);
    refused("no state", &with(&[dirty(77, 5, "y"), dirty(77, 7, "x")]), &two);
    let least = |index, text| read(Level::AtLeast(index), 79, 5, text);
    explained(&with(&[least(4, "x"), least(6, "y")]), &two);
    refused("no state", &with(&[least(6, "x")]), &two);
    refused("no state", &with(&[least(4, "-")]), &two);
    // An index may be later than the state shown, and never earlier.
    let claims = |index, text| {
        let mut one = dirty(77, 5, text);
        one.op.index = Some(index);
        one
    };
    explained(&with(&[claims(5, "x"), claims(6, "x"), claims(6, "y")]), &two);
    refused("no state", &with(&[claims(5, "y")]), &two);
    refused("no state", &with(&[claims(3, "x")]), &two);
    refused("no state", &[dirty(77, 0, "x"), write(3, "x")], &["4 a=x"]);
}

#[test]
fn pipelines_keep_their_order() {
    let mine = |step, said| at_level(Level::Consistent, 5, done(&[step], &[said], (1, 9)));
    let both = |first: &str| [mine(set("a", "x"), StepAnswer::Done), mine(get("a"), row(first))];
    explained(&both("x"), &["1 a=x"]);
    refused("no state", &both("-"), &["1 a=x"]);
    let other = done(&[set("a", "y")], &[StepAnswer::Done], (0, 9));
    explained(&[&both("y")[..], std::slice::from_ref(&other)].concat(), &["1 a=x", "2 a=y"]);
    refused("no state", &[&both("y")[..], &[other]].concat(), &["1 a=y", "2 a=x"]);
}

/// Returns a transaction of a pipeline on connection 5, from 1 to 9.
fn piped(steps: &[TransactionStep], said: &[StepAnswer]) -> Transaction {
    at_level(Level::Consistent, 5, done(steps, said, (1, 9)))
}

fn piped_set(key: &str, text: &str) -> Transaction {
    piped(&[set(key, text)], &[StepAnswer::Done])
}

fn piped_get(key: &str, text: &str) -> Transaction {
    piped(&[get(key)], &[row(text)])
}

/// Returns updates of others, each on its own connection, in progress as long as the pipeline.
fn others(steps: &[TransactionStep]) -> Vec<Transaction> {
    let other = |(at, step): (usize, &TransactionStep)| {
        let one = done(std::slice::from_ref(step), &[StepAnswer::Done], (1, 9));
        at_level(Level::Consistent, 100 + at as u32, one)
    };
    steps.iter().enumerate().map(other).collect()
}

#[test]
fn pipelined_reads_behind_an_update_may_show_part_of_a_value() {
    let with =
        |pipeline: &[Transaction], steps: &[TransactionStep]| [pipeline, &others(steps)].concat();
    let (x, after) = (piped_set("a", "x"), [set("b", "y")]);
    explained(&with(&[x.clone(), piped_get("b", "-")], &after), &["1 a=x b=y"]);
    explained(&with(&[x.clone(), piped_get("b", "y")], &after), &["1 a=x b=y"]);
    explained(&with(&[x.clone(), piped_get("a", "x")], &[set("a", "y")]), &["1 a=x a=y"]);
    explained(&with(&[x.clone(), piped_get("a", "y")], &[set("a", "y")]), &["1 a=x a=y"]);
    // A later value than that of the update, and a part of it.
    let two = [set("b", "p"), set("b", "q")];
    explained(&with(&[x.clone(), piped_get("b", "p")], &two), &["1 a=x", "2 b=p b=q"]);
    // Several updates of the pipeline in one value, and reads between them.
    let own = [x, piped_get("a", "x"), piped_set("a", "z"), piped_get("a", "z")];
    explained(&own, &["1 a=x a=z"]);
    explained(&own, &["1 a=x", "2 a=z"]);
    explained(&with(&own, &two), &["1 b=p a=x b=q a=z"]);
    let add = |sum| piped(&[TransactionStep::Add("n".into(), 1)], &[number(sum)]);
    let sums = [add(1), piped_get("n", "1"), add(3), piped_get("n", "3")];
    let other = done(&[TransactionStep::Add("n".into(), 1)], &[number(2)], (0, 9));
    explained(&[&sums[..], &[other]].concat(), &["1 n=1 n=2 n=3"]);
    // Reads before the update, and whole values.
    let front = [piped_get("b", "-"), piped_set("a", "x"), piped_get("b", "y")];
    explained(&with(&front, &after), &["1 a=x b=y"]);
    explained(&with(&front, &after), &["1 b=y", "2 a=x"]);
    let front = [piped_get("b", "p"), piped_set("a", "x"), piped_get("b", "q")];
    explained(&with(&front, &two), &["1 b=p", "2 a=x b=q"]);
}

#[test]
fn parts_of_a_value_are_shown_to_nobody_else() {
    let two = [set("b", "p"), set("b", "q")];
    let with = |mine: &[Transaction]| [mine, &others(&two)].concat();
    let (x, part) = (piped_set("a", "x"), piped_get("b", "p"));
    let (one, later) = (["1 a=x b=p b=q"], ["1 a=x", "2 b=p b=q"]);
    explained(&with(&[x.clone(), part.clone()]), &one);
    refused("no state", &with(&[part.clone(), x.clone()]), &one);
    refused("no state", &with(&[part.clone(), x.clone()]), &later);
    refused("no state", &with(&[x.clone(), at_level(Level::Dirty, 5, part.clone())]), &one);
    refused("no state", &with(&[x.clone(), at_level(Level::AtLeast(1), 5, part.clone())]), &later);
    refused("no state", &with(&[x.clone(), at_level(Level::Consistent, 6, part.clone())]), &one);
    // The update is answered already.
    let mut early = x.clone();
    (early.began, early.ended) = (0, 1);
    refused("no state", &with(&[early, part.clone()]), &later);
    // A read alone is not an update that others would have to wait for.
    refused("no state", &with(&[piped_get("a", "-"), part, piped_get("a", "x"), x]), &one);
}

#[test]
fn pipelines_that_break_their_order_are_refused() {
    let with =
        |pipeline: &[Transaction], steps: &[TransactionStep]| [pipeline, &others(steps)].concat();
    let (x, y) = (piped_set("a", "x"), [set("b", "y")]);
    let own = [x.clone(), piped_set("a", "z")];
    refused("done at place", &own, &["1 a=z a=x"]);
    let lost = [x.clone(), piped_get("a", "-")];
    refused("no state", &with(&lost, &y), &["1 a=x b=y"]);
    let stale = [x.clone(), piped_set("a", "z"), piped_get("a", "x")];
    refused("no state", &stale, &["1 a=x a=z"]);
    let ahead = [x.clone(), piped_get("a", "z"), piped_set("a", "z")];
    refused("done at place", &ahead, &["1 a=x a=z"]);
    let back = [x.clone(), piped_get("b", "y"), piped_get("b", "-")];
    refused("no state", &with(&back, &y), &["1 a=x b=y"]);
    // Halves of a sequence.
    let both = done(&[set("b", "y"), set("c", "y")], &[StepAnswer::Done, StepAnswer::Done], (0, 9));
    let half = [x.clone(), piped_get("b", "y"), piped_get("c", "-"), both.clone()];
    refused("no state", &half, &["1 a=x b=y c=y"]);
    explained(&[x.clone(), piped_get("b", "-"), piped_get("c", "y"), both], &["1 a=x b=y c=y"]);
    // Updates answered before the pipeline began, and updates requested after its end.
    let write = |at| done(&[set("b", "y")], &[StepAnswer::Done], (at, at));
    let seen = |text| [x.clone(), piped_get("b", text)];
    let (old, new) = ([&seen("-")[..], &[write(0)]].concat(), [&seen("y")[..], &[write(10)]]);
    refused("no state", &old, &["1 b=y", "2 a=x"]);
    refused("no state", &new.concat(), &["1 a=x b=y"]);
    // A later reader sees no earlier state than the pipeline did.
    let after = done(&[get("b")], &[row("-")], (10, 11));
    let late = others(&[set("b", "q")]);
    let seen = [&seen("q")[..], &late[..], &[after]].concat();
    refused("no state", &seen, &["1 a=x b=q"]);
}

#[test]
fn an_update_names_the_value_that_holds_it() {
    let named = |index, mut one: Transaction| {
        one.op.index = Some(index);
        one
    };
    let write = |text: &str| done(&[set("a", text)], &[StepAnswer::Done], (1, 9));
    let (x, y) = (write("x"), at_level(Level::Consistent, 2, write("y")));
    let both = ["4 a=x", "6 a=y"];
    explained(&[named(4, x.clone()), named(6, y.clone())], &both);
    refused("another index", &[named(4, x.clone()), named(7, y.clone())], &both);
    refused("another index", &[named(4, x.clone()), named(4, y.clone())], &both);
    // An update without effect was evaluated on the values before, and on a part of its own.
    let swap = TransactionStep::TestAndSet("a".into(), value("other"), b"z".to_vec());
    let kept = |text: &str| done(std::slice::from_ref(&swap), &[row(text)], (1, 9));
    let history = |kept: Transaction| [x.clone(), y.clone(), at_level(Level::Consistent, 3, kept)];
    explained(&history(named(6, kept("x"))), &both);
    explained(&history(named(6, kept("x"))), &["6 a=x a=y"]);
    explained(&history(named(6, kept("-"))), &["6 a=x a=y"]);
    refused("no state", &history(named(7, kept("x"))), &["6 a=x a=y"]);
    refused("no state", &history(named(6, kept("-"))), &both);
}

#[test]
fn rows_live_their_time_and_do_not_come_back() {
    let mortal = TransactionStep::Set("m".into(), b"x".to_vec(), Some(1_000));
    let write = done(&[mortal], &[StepAnswer::Done], (0, 1));
    let read = |at, text: &str| done(&[get("m")], &[row(text)], (at, at + 1));
    let with = |reads: &[Transaction]| [std::slice::from_ref(&write), reads].concat();
    let report = explained(&with(&[read(5, "x"), read(SECOND, "-")]), &["7 m=x!"]);
    assert_eq!(report.expired, 1);
    explained(&with(&[read(5, "x"), read(SECOND, "-")]), &["7 m=x!", "101 m=-"]);
    refused("no state", &with(&[read(SECOND / 2, "-")]), &["7 m=x!"]);
    // By the log the time had passed; by the clock of the client that requested it, it had not.
    refused("no state", &with(&[read(SECOND / 2, "-")]), &["7 m=x!", "101 m=-"]);
    explained(&with(&[read(SECOND, "-"), read(2 * SECOND, "-")]), &["7 m=x!", "101 m=-"]);
    refused("is shown again", &with(&[read(SECOND, "-"), read(SECOND + 9, "x")]), &["7 m=x!"]);
    // A reader during the removal may see either; not one that comes after a reader that saw it
    // gone.
    let again = [read(SECOND, "-"), read(SECOND + 9, "x")];
    refused("is shown again", &with(&again), &["7 m=x!", "101 m=-"]);
    // Removed before its time, by the group's own clock; and a row that never expires.
    refused("nobody asked", &with(&[]), &["7 m=x!", "99 m=-"]);
    refused(
        "nobody asked",
        &[done(&[set("m", "x")], &[StepAnswer::Done], (0, 1))],
        &["7 m=x", "101 m=-"],
    );
}

//! F-41 and F-46 at the promised size: a hundred thousand hints, a million rows of which a thousand
//! differ.

use super::{COPIES, Done, SECOND};
use std::time::{Duration, Instant};
use systest::report::{Figures, bound, long, skipped};
use systest::rigs::{Cluster, Network, Options, Scratch, experiment};
use systest::workload::CallOutcome;
use systest::workload::siblings::{Bulk, SiblingHistory};
use systest::workload::siblings::{SiblingAction, SiblingCall, SiblingOp};

/// Longest wait for an operation that should take half a minute.
const WITHIN: Duration = Duration::from_secs(300);
/// Longest time that it should take, in seconds.
const SECONDS_MAX: f64 = 30.0;
/// Most bytes that may be sent for each row that differs, with its value, its name, its place in
/// the hash trees, and all frames.
const BYTES_A_ROW_MAX: f64 = 2_048.0;
/// Bytes of a value.
const VALUE: usize = 100;

#[test]
fn a_hundred_thousand_hints_go_home() {
    let name = "F-41 a hundred thousand hints";
    if !long() {
        return skipped(name, "takes minutes: CREDENZA_TEST_LONG=1");
    }
    let _permit = experiment();
    let scratch = Scratch::new("available-hints");
    let mut cluster = Cluster::start(&scratch, Options::of(4));
    cluster.share_ring();
    let mut figures = Figures::begin(name);
    let away = 4;
    cluster.kill(away);
    figures.faults += 1;
    std::thread::sleep(3 * SECOND);
    // The node that is down owns a copy of three keys in four.
    let (place, name) = ("available/trial41".to_string(), "h".to_string());
    let rows = Bulk { place, name, keys: 0..140_000, bytes: VALUE };
    let begun = Instant::now();
    rows.write(&cluster.clients()[..3]);
    figures.also("written_after_ms", begun.elapsed().as_millis());
    let hints = cluster.hints();
    assert!(hints >= 100_000.0, "{hints} rows are kept");
    cluster.begin(away);
    let begun = Instant::now();
    while cluster.hints() > 0.0 {
        assert!(begun.elapsed() < WITHIN, "{} hints do not go home", cluster.hints());
        std::thread::sleep(SECOND / 2);
    }
    figures.also("hints", hints);
    let home = begun.elapsed();
    figures.also("home_after_ms", home.as_millis());
    let moved = cluster.mended().moved;
    let mut done = Done::of(figures, &rows.place, rows.history());
    cluster.must_be_quiet();
    done.figures.also("left_to_comparison", cluster.mended().moved - moved);
    super::judge_all(&cluster.copies(COPIES), vec![done]);
    bound("F-41 until all hints are at home, s", home.as_secs_f64(), SECONDS_MAX);
}

#[test]
fn a_thousand_of_a_million_rows_are_found() {
    let name = "F-46 a thousand of a million rows";
    if !long() {
        return skipped(name, "takes minutes: CREDENZA_TEST_LONG=1");
    }
    if let Some(why) = Network::missing() {
        return skipped(name, &why);
    }
    let _permit = experiment();
    let scratch = Scratch::new("available-million");
    let mut options = Options::of(3).behind_the_switch();
    options.words.extend(["--memory-bytes-max", "256MiB"].map(String::from));
    let mut cluster = Cluster::start(&scratch, options);
    cluster.share_ring();
    let mut figures = Figures::begin(name);
    let (place, name) = ("available/trial46".to_string(), "m".to_string());
    let rows = Bulk { place, name, keys: 0..1_000_000, bytes: VALUE };
    let begun = Instant::now();
    cluster.from_clients(|| rows.write(&cluster.clients()));
    figures.also("written_after_ms", begun.elapsed().as_millis());
    cluster.must_be_quiet();
    let behind = 3;
    let mut history = rows.history();
    let (mut slowest, mut sent) = (Duration::ZERO, Vec::new());
    for (round, differ) in [0, 10, 1_000].into_iter().enumerate() {
        cluster.kill(behind);
        figures.faults += 1;
        std::thread::sleep(2 * SECOND);
        // The node has an old version of half of the rows, and lacks the other half.
        let (old, new) = (round * differ, rows.keys.end + round * differ);
        for keys in [old..old + differ / 2, new..new + differ / 2] {
            // Another length makes another value.
            let some = Bulk { keys, bytes: VALUE + 1, ..rows.clone() };
            cluster.from_clients(|| some.write(&cluster.clients()[..2]));
            history.join(replaced(&rows, &some));
        }
        let (before, carried) = (cluster.mended(), cluster.carried(behind));
        let begun = Instant::now();
        cluster.begin(behind);
        cluster.must_settle();
        cluster.must_reach_all();
        let took = begun.elapsed() + cluster.must_be_quiet();
        let after = cluster.mended();
        let moved = after.moved - before.moved;
        // Two others have each row; both may have sent it at the same time.
        let enough = (differ as f64..=2.0 * differ as f64).contains(&moved);
        assert!(enough, "{differ} rows differed, {moved} were moved");
        figures.also(&format!("of_{differ}_moved"), moved);
        slowest = slowest.max(took);
        sent.push(cluster.carried(behind) - carried);
        figures.also(&format!("of_{differ}_ms"), took.as_millis());
        figures.also(&format!("of_{differ}_carried"), sent[round]);
    }
    let before = cluster.mended().moved;
    let begun = (Instant::now(), cluster.carried(behind));
    std::thread::sleep(20 * SECOND);
    let idle = (cluster.carried(behind) - begun.1) / begun.0.elapsed().as_secs();
    figures.also("carried_a_second_when_equal", idle);
    assert_eq!(cluster.mended().moved, before, "rows move although all are equal");
    super::judge_all(&cluster.copies(COPIES), vec![Done::of(figures, &rows.place, history)]);
    bound("F-46 until all copies are equal, s", slowest.as_secs_f64(), SECONDS_MAX);
    let each = sent[2].saturating_sub(sent[0]) as f64 / 1_000.0;
    bound("F-46 bytes for each row that differs", each, BYTES_A_ROW_MAX);
}

/// Returns the history of rows overwritten with the context of their first value, for the checker.
fn replaced(rows: &Bulk, some: &Bulk) -> SiblingHistory {
    let old = |at: usize| rows.keys.contains(&at).then(|| rows.value(at));
    let call = |at: usize| {
        let (key, action) = (some.key(at), SiblingAction::Write(some.value(at)));
        let op = SiblingOp { key, action, seen: old(at).into_iter().collect() };
        SiblingCall::untimed(op, CallOutcome::Acknowledged(None))
    };
    SiblingHistory { calls: some.keys.clone().map(call).collect(), ..SiblingHistory::default() }
}

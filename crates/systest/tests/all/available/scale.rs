//! F-41 and F-46 at the promised size: a hundred thousand hints, a million rows of which a thousand
//! differ.

use super::{COPIES, FinishedTrial, SECOND};
use std::time::{Duration, Instant};
use systest::cluster::{Cluster, Options};
use systest::environment::{Scratch, experiment};
use systest::fault_injection::Network;
use systest::report::{Figures, check_bound, is_long_form, skipped};
use systest::workload::CallOutcome;
use systest::workload::siblings::{Bulk, SiblingHistory};
use systest::workload::siblings::{SiblingAction, SiblingCall, SiblingOp};

/// Longest wait for an operation that should take half a minute.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(300);
/// Longest time that it should take, in seconds.
const SECONDS_MAX: f64 = 30.0;
/// Most bytes that may be sent for each row that differs, with its value, its name, its place in
/// the hash trees, and all frames.
const BYTES_A_ROW_MAX: f64 = 2_048.0;
/// Bytes of a value.
const VALUE_BYTES: usize = 100;

#[test]
fn hundred_thousand_hints_are_delivered_when_node_returns() {
    let name = "F-41 a hundred thousand hints";
    if !is_long_form() {
        return skipped(name, "takes minutes: CREDENZA_TEST_LONG=1");
    }
    let _permit = experiment();
    let scratch = Scratch::new("available-hints");
    let mut cluster = Cluster::start(&scratch, Options::new(4));
    cluster.init_ring();
    let mut figures = Figures::start(name);
    let down = 4;
    cluster.kill(down);
    figures.faults += 1;
    std::thread::sleep(3 * SECOND);
    // The node that is down owns a copy of three keys in four.
    let (bucket_path, name) = ("available/trial41".to_string(), "h".to_string());
    let rows = Bulk { bucket_path, name, keys: 0..140_000, bytes: VALUE_BYTES };
    let started = Instant::now();
    rows.write(&cluster.client_addresses()[..3]);
    figures.add("written_after_ms", started.elapsed().as_millis());
    let hints = cluster.hints();
    assert!(hints >= 100_000.0, "{hints} rows are kept");
    cluster.start_node(down);
    let started = Instant::now();
    while cluster.hints() > 0.0 {
        assert!(started.elapsed() < OPERATION_TIMEOUT, "{} hints do not go home", cluster.hints());
        std::thread::sleep(SECOND / 2);
    }
    figures.add("hints", hints);
    let delivery_time = started.elapsed();
    figures.add("home_after_ms", delivery_time.as_millis());
    let transferred = cluster.repair_counts().transferred;
    let mut finished = FinishedTrial::new(figures, &rows.bucket_path, rows.history());
    cluster.must_finish_repair();
    finished.figures.add("left_to_comparison", cluster.repair_counts().transferred - transferred);
    super::judge_all(&cluster.copies(COPIES), vec![finished]);
    check_bound("F-41 until all hints are at home, s", delivery_time.as_secs_f64(), SECONDS_MAX);
}

#[test]
fn anti_entropy_sends_only_the_differing_rows_of_a_million() {
    let name = "F-46 a thousand of a million rows";
    if !is_long_form() {
        return skipped(name, "takes minutes: CREDENZA_TEST_LONG=1");
    }
    if let Some(reason) = Network::missing() {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("available-million");
    let mut options = Options::new(3).with_switch();
    options.args.extend(["--memory-bytes-max", "256MiB"].map(String::from));
    let mut cluster = Cluster::start(&scratch, options);
    cluster.init_ring();
    let mut figures = Figures::start(name);
    let (bucket_path, name) = ("available/trial46".to_string(), "m".to_string());
    let rows = Bulk { bucket_path, name, keys: 0..1_000_000, bytes: VALUE_BYTES };
    let started = Instant::now();
    cluster.on_client_host(|| rows.write(&cluster.client_addresses()));
    figures.add("written_after_ms", started.elapsed().as_millis());
    cluster.must_finish_repair();
    let stale_node = 3;
    let mut history = rows.history();
    let (mut slowest_repair, mut sent) = (Duration::ZERO, Vec::new());
    for (round, differ) in [0, 10, 1_000].into_iter().enumerate() {
        cluster.kill(stale_node);
        figures.faults += 1;
        std::thread::sleep(2 * SECOND);
        // The node has an old version of half of the rows, and lacks the other half.
        let (old, new) = (round * differ, rows.keys.end + round * differ);
        for keys in [old..old + differ / 2, new..new + differ / 2] {
            // Another length makes another value.
            let overwritten = Bulk { keys, bytes: VALUE_BYTES + 1, ..rows.clone() };
            cluster.on_client_host(|| overwritten.write(&cluster.client_addresses()[..2]));
            history.join(overwrite_history(&rows, &overwritten));
        }
        let (before, bytes_before) = (cluster.repair_counts(), cluster.exchanged_bytes(stale_node));
        let started = Instant::now();
        cluster.start_node(stale_node);
        cluster.must_converge();
        cluster.must_suspect_none();
        let repair_time = started.elapsed() + cluster.must_finish_repair();
        let after = cluster.repair_counts();
        let transferred = after.transferred - before.transferred;
        // Two others have each row; both may have sent it at the same time.
        let transferred_plausibly = (differ as f64..=2.0 * differ as f64).contains(&transferred);
        assert!(transferred_plausibly, "{differ} rows differed, {transferred} were moved");
        figures.add(&format!("of_{differ}_moved"), transferred);
        slowest_repair = slowest_repair.max(repair_time);
        sent.push(cluster.exchanged_bytes(stale_node) - bytes_before);
        figures.add(&format!("of_{differ}_ms"), repair_time.as_millis());
        figures.add(&format!("of_{differ}_carried"), sent[round]);
    }
    let before = cluster.repair_counts().transferred;
    let started = (Instant::now(), cluster.exchanged_bytes(stale_node));
    std::thread::sleep(20 * SECOND);
    let idle_bytes_per_second =
        (cluster.exchanged_bytes(stale_node) - started.1) / started.0.elapsed().as_secs();
    figures.add("carried_a_second_when_equal", idle_bytes_per_second);
    assert_eq!(cluster.repair_counts().transferred, before, "rows move although all are equal");
    super::judge_all(
        &cluster.copies(COPIES),
        vec![FinishedTrial::new(figures, &rows.bucket_path, history)],
    );
    check_bound("F-46 until all copies are equal, s", slowest_repair.as_secs_f64(), SECONDS_MAX);
    let bytes_per_row = sent[2].saturating_sub(sent[0]) as f64 / 1_000.0;
    check_bound("F-46 bytes for each row that differs", bytes_per_row, BYTES_A_ROW_MAX);
}

/// Returns the history of rows overwritten with the context of their first value, for the checker.
fn overwrite_history(rows: &Bulk, overwritten: &Bulk) -> SiblingHistory {
    let old_value = |at: usize| rows.keys.contains(&at).then(|| rows.value(at));
    let call = |at: usize| {
        let (key, action) = (overwritten.key(at), SiblingAction::Write(overwritten.value(at)));
        let op = SiblingOp { key, action, seen: old_value(at).into_iter().collect() };
        SiblingCall::untimed(op, CallOutcome::Acknowledged(None))
    };
    SiblingHistory {
        calls: overwritten.keys.clone().map(call).collect(),
        ..SiblingHistory::default()
    }
}

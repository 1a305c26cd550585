//! F-46, the corrupted round: rows of one replica exist and can't be read. Damaged rows are never
//! served, and all copies become equal, whether the node repairs itself or is replaced.

use super::{COPIES, FinishedTrial, SECOND, judge_all, options};
use std::time::{Duration, Instant};
use systest::cluster::Cluster;
use systest::environment::{Scratch, experiment, path_str};
use systest::fault_injection::file_damage::{Damage, damage_file, data_end, list_files};
use systest::report::{Figures, check_bound, is_long_form, skipped};
use systest::workload::siblings::Bulk;

/// Exit code of a node that found its data damaged.
const DAMAGED: i32 = 7;
/// Damages of a table: the offset, in percent of its length, and the kind.
const DAMAGES: [(usize, Damage); 4] =
    [(2, Damage::Flip), (50, Damage::Flip), (40, Damage::Zeros), (98, Damage::Flip)];
const REPAIR_TIMEOUT: Duration = Duration::from_secs(300);
/// Node whose rows are corrupted. Not node 1, which the others join.
const VICTIM: usize = 3;

#[test]
fn corrupted_table_is_detected_and_all_replicas_converge() {
    let name = "F-46 corrupted rows at one node";
    if !is_long_form() {
        return skipped(name, "takes its time: CREDENZA_TEST_LONG=1");
    }
    let _permit = experiment();
    let scratch = Scratch::new("available-corrupted");
    let mut cluster = Cluster::start(&scratch, options(3));
    cluster.init_ring();
    let mut figures = Figures::start(name);
    let bucket_path = "available/corrupted".to_string();
    let rows = Bulk { bucket_path, name: "c".into(), keys: 0..100_000, bytes: 400 };
    rows.write(&cluster.client_addresses());
    cluster.must_finish_repair();
    let (mut repaired, mut replaced, mut longest_repair) = (0, 0, Duration::ZERO);
    for (percent, damage) in DAMAGES {
        figures.faults += 1;
        assert_eq!(cluster.stop(VICTIM), Some(0));
        damage_largest_table(&mut cluster, percent, damage);
        let started = Instant::now();
        if starts_intact(&mut cluster) {
            repaired += 1;
        } else {
            cluster.replace(VICTIM);
            cluster.watch_transfers((1, VICTIM), REPAIR_TIMEOUT, |_, _, _| {});
            replaced += 1;
        }
        cluster.must_converge();
        cluster.must_suspect_none();
        longest_repair = longest_repair.max(started.elapsed());
        cluster.must_finish_repair();
    }
    figures.add("mended", repaired);
    figures.add("replaced", replaced);
    figures.add("whole_after_ms", longest_repair.as_millis());
    let trial = FinishedTrial::new(figures, &rows.bucket_path, rows.history());
    judge_all(&cluster.copies(COPIES), vec![trial]);
    check_bound("F-46 corrupted: until the node is whole, s", longest_repair.as_secs_f64(), 30.0);
}

/// Damages the largest table of the node, which is stopped; `credenza verify` must find it.
fn damage_largest_table(cluster: &mut Cluster, percent: usize, damage: Damage) {
    let data = cluster.setup_mut(VICTIM).data.clone();
    let tables = list_files(&data.join("store/tables"));
    let table =
        tables.into_iter().max_by_key(|path| data_end(path)).expect("something was flushed");
    damage_file(&table, data_end(&table) * percent / 100, damage);
    assert_eq!(
        verify_exit_code(cluster),
        Some(DAMAGED),
        "{percent} {damage:?} of {}",
        table.display()
    );
}

/// Returns the exit code of `credenza verify` on the data of the node, which is stopped.
fn verify_exit_code(cluster: &mut Cluster) -> Option<i32> {
    let data = cluster.setup_mut(VICTIM).data.clone();
    let output =
        systest::server::tool(&["verify", path_str(&data)]).output().expect("the tool runs");
    output.status.code()
}

/// Starts the node. Returns true if it has repaired everything by itself; if not, it is down
/// afterwards.
fn starts_intact(cluster: &mut Cluster) -> bool {
    if let Err(refusal) = cluster.try_start(VICTIM) {
        assert_eq!(refusal.code, Some(DAMAGED), "{refusal}");
        return false;
    }
    // It may find the damage in a merge or a comparison, and end by itself.
    let deadline = Instant::now() + 10 * SECOND;
    while Instant::now() < deadline && cluster.server(VICTIM).is_alive() {
        std::thread::sleep(SECOND / 10);
    }
    if !cluster.server(VICTIM).is_alive() {
        let stderr = cluster.server(VICTIM).stderr_text();
        assert!(stderr.contains("damage"), "it ended for another reason: {stderr}");
        cluster.kill(VICTIM);
        return false;
    }
    cluster.stop(VICTIM);
    let is_intact = verify_exit_code(cluster) == Some(0);
    if is_intact {
        cluster.start_node(VICTIM);
    }
    is_intact
}

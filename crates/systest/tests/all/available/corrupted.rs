//! F-46, the corrupted round: rows of one replica exist and can't be read. Damaged rows are never
//! served, and all copies become equal, whether the node repairs itself or is replaced.

use super::{COPIES, Done, SECOND, judge_all, options};
use std::time::{Duration, Instant};
use systest::report::{Figures, bound, long, skipped};
use systest::rigs::rot::{Rot, end, files, spoil};
use systest::rigs::{Cluster, Scratch, experiment, text};
use systest::workload::siblings::Bulk;

/// Exit code of a node that found its data damaged.
const DAMAGED: i32 = 7;
/// Damages of a table: the place, in percent of its length, and the kind.
const HARMS: [(usize, Rot); 4] =
    [(2, Rot::Flip), (50, Rot::Flip), (40, Rot::Zeros), (98, Rot::Flip)];
const WITHIN: Duration = Duration::from_secs(300);
/// Node whose rows are corrupted. Not node 1, which the others join.
const VICTIM: usize = 3;

#[test]
fn corrupted_rows_are_found_and_all_copies_become_equal() {
    let name = "F-46 corrupted rows at one node";
    if !long() {
        return skipped(name, "takes its time: CREDENZA_TEST_LONG=1");
    }
    let _permit = experiment();
    let scratch = Scratch::new("available-corrupted");
    let mut cluster = Cluster::start(&scratch, options(3));
    cluster.share_ring();
    let mut figures = Figures::begin(name);
    let place = "available/corrupted".to_string();
    let rows = Bulk { place, name: "c".into(), keys: 0..100_000, bytes: 400 };
    rows.write(&cluster.clients());
    cluster.must_be_quiet();
    let (mut mended, mut replaced, mut slowest) = (0, 0, Duration::ZERO);
    for (percent, rot) in HARMS {
        figures.faults += 1;
        assert_eq!(cluster.stop(VICTIM), Some(0));
        damage(&mut cluster, percent, rot);
        let begun = Instant::now();
        if begins_whole(&mut cluster) {
            mended += 1;
        } else {
            cluster.replace(VICTIM);
            cluster.watch_transfers((1, VICTIM), WITHIN, |_, _, _| {});
            replaced += 1;
        }
        cluster.must_settle();
        cluster.must_reach_all();
        slowest = slowest.max(begun.elapsed());
        cluster.must_be_quiet();
    }
    figures.also("mended", mended);
    figures.also("replaced", replaced);
    figures.also("whole_after_ms", slowest.as_millis());
    let done = Done::of(figures, &rows.place, rows.history());
    judge_all(&cluster.copies(COPIES), vec![done]);
    bound("F-46 corrupted: until the node is whole, s", slowest.as_secs_f64(), 30.0);
}

/// Damages the largest table of the node, which is stopped; `credenza verify` must find it.
fn damage(cluster: &mut Cluster, percent: usize, rot: Rot) {
    let data = cluster.how(VICTIM).data.clone();
    let tables = files(&data.join("store/tables"));
    let table = tables.into_iter().max_by_key(|path| end(path)).expect("something was flushed");
    spoil(&table, end(&table) * percent / 100, rot);
    assert_eq!(checked(cluster), Some(DAMAGED), "{percent} {rot:?} of {}", table.display());
}

/// Returns the exit code of `credenza verify` on the data of the node, which is stopped.
fn checked(cluster: &mut Cluster) -> Option<i32> {
    let data = cluster.how(VICTIM).data.clone();
    let output = systest::server::tool(&["verify", text(&data)]).output().expect("the tool runs");
    output.status.code()
}

/// Starts the node. Returns true if it has repaired everything by itself; if not, it is down
/// afterwards.
fn begins_whole(cluster: &mut Cluster) -> bool {
    if let Err(refusal) = cluster.try_to_begin(VICTIM) {
        assert_eq!(refusal.code, Some(DAMAGED), "{refusal}");
        return false;
    }
    // It may find the damage in a merge or a comparison, and end by itself.
    let until = Instant::now() + 10 * SECOND;
    while Instant::now() < until && cluster.server(VICTIM).alive() {
        std::thread::sleep(SECOND / 10);
    }
    if !cluster.server(VICTIM).alive() {
        let said = cluster.server(VICTIM).said();
        assert!(said.contains("damage"), "it ended for another reason: {said}");
        cluster.kill(VICTIM);
        return false;
    }
    cluster.stop(VICTIM);
    let whole = checked(cluster) == Some(0);
    if whole {
        cluster.begin(VICTIM);
    }
    whole
}

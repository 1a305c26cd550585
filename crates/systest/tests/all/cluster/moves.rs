//! A bucket moves to another group and back during reads and writes, and nodes die during the
//! moves.

use super::{Trial, plan};
use serde_json::Value;
use std::time::{Duration, Instant};
use systest::cluster::{Cluster, Options, wait_until};
use systest::environment::{Scratch, experiment};
use systest::report::short_or_long;

/// Rows that no client reads, so that a move takes a while.
const ROWS: usize = 60_000;
/// Times from the start of a move to the death of a node, in turn.
const PAUSES_MS: [u64; 4] = [0, 60, 150, 300];

#[test]
fn bucket_move_under_load_completes_despite_killed_nodes() {
    let _permit = experiment();
    let scratch = Scratch::new("cluster-moves");
    let mut cluster = Cluster::start(&scratch, Options::new(3));
    cluster.run_tool(&["group", "create", "--replicas", "3"]);
    write_rows(&cluster, &scratch);
    let mut trial = Trial::start("a bucket moves", &cluster, plan(61));
    trial.log_from = None;
    let (mut died_during_move, mut longest_move) = (0, Duration::ZERO);
    for round in 0..short_or_long(3, 24) {
        let (to, victim) = ([2, 1][round % 2], round % cluster.size() + 1);
        trial.fault(&mut cluster, |cluster| {
            let started = Instant::now();
            let group = to.to_string();
            cluster.run_tool(&["bucket", "move", "default", "--group", &group, "--no-wait"]);
            std::thread::sleep(Duration::from_millis(PAUSES_MS[round % PAUSES_MS.len()]));
            died_during_move += usize::from(is_moving(cluster).unwrap_or_default());
            cluster.kill(victim);
            cluster.start_node(victim);
            wait_until("the end of the move", || match current_group(cluster)? {
                found if found == to => Ok(()),
                found => Err(format!("it lives in group {found}")),
            });
            longest_move = longest_move.max(started.elapsed());
        });
    }
    trial.figures.add("died_under_way", died_during_move);
    trial.figures.add("longest_move_ms", longest_move.as_millis());
    trial.end(&cluster);
    assert!(
        died_during_move > 0,
        "every move was over before a node died: the experiment proves nothing"
    );
}

fn write_rows(cluster: &Cluster, scratch: &Scratch) {
    let settings = format!(
        "duration = \"infinity\"\nconcurrent = 8\npipeline = 16\noperations = [[\"put\", 1]]\n\
         value_generator = [\"fixed_bin\", 500]\nkey_generator = \
         [\"fixed_width\", 20, \"fill:\", [\"partitioned_sequential_int\", 1, {ROWS}]]\n"
    );
    let report = cluster.bench(scratch.path(), "fill", cluster.master(), &settings).report();
    assert_eq!(report["ok"], ROWS, "{report}");
}

/// Returns the status of the bucket, with its group and the group it is moving to, as node 1
/// reports it.
fn status(cluster: &Cluster) -> Result<Value, String> {
    let output = cluster.tool(1, &["bucket", "status", "default", "--json"]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    serde_json::from_slice(&output.stdout).map_err(|_| stderr)
}

fn is_moving(cluster: &Cluster) -> Result<bool, String> {
    status(cluster).map(|status| !status["to"].is_null())
}

/// Returns the group of the bucket, when it is not moving.
fn current_group(cluster: &Cluster) -> Result<u64, String> {
    let status = status(cluster)?;
    match (status["group"].as_u64(), status["to"].is_null()) {
        (Some(group), true) => Ok(group),
        _ => Err(status.to_string()),
    }
}

//! A bucket moves to another group and back during reads and writes, and nodes die during the
//! moves.

use super::{Trial, plan};
use serde_json::Value;
use std::time::{Duration, Instant};
use systest::report::times;
use systest::rigs::{Cluster, Options, Scratch, experiment, wait};

/// Rows that no client reads, so that a move takes a while.
const ROWS: usize = 60_000;
/// Times from the start of a move to the death of a node, in turn.
const PAUSES_MS: [u64; 4] = [0, 60, 150, 300];

#[test]
fn a_bucket_moves_while_clients_use_it_and_each_node_dies_on_the_way() {
    let _permit = experiment();
    let scratch = Scratch::new("cluster-moves");
    let mut cluster = Cluster::start(&scratch, Options::of(3));
    cluster.operate(&["group", "create", "--replicas", "3"]);
    fill(&cluster, &scratch);
    let mut trial = Trial::begin("a bucket moves", &cluster, plan(61));
    trial.log_from = None;
    let (mut under_way, mut longest) = (0, Duration::ZERO);
    for round in 0..times(3, 24) {
        let (to, victim) = ([2, 1][round % 2], round % cluster.size() + 1);
        trial.fault(&mut cluster, |cluster| {
            let begun = Instant::now();
            let group = to.to_string();
            cluster.operate(&["bucket", "move", "default", "--group", &group, "--no-wait"]);
            std::thread::sleep(Duration::from_millis(PAUSES_MS[round % PAUSES_MS.len()]));
            under_way += usize::from(is_on_its_way(cluster).unwrap_or_default());
            cluster.kill(victim);
            cluster.begin(victim);
            wait("the end of the move", || match lives_in(cluster)? {
                found if found == to => Ok(()),
                found => Err(format!("it lives in group {found}")),
            });
            longest = longest.max(begun.elapsed());
        });
    }
    trial.figures.also("died_under_way", under_way);
    trial.figures.also("longest_move_ms", longest.as_millis());
    trial.end(&cluster);
    assert!(under_way > 0, "every move was over before a node died: the experiment proves nothing");
}

fn fill(cluster: &Cluster, scratch: &Scratch) {
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
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    serde_json::from_slice(&output.stdout).map_err(|_| said)
}

fn is_on_its_way(cluster: &Cluster) -> Result<bool, String> {
    status(cluster).map(|status| !status["to"].is_null())
}

/// Returns the group of the bucket, when it is not moving.
fn lives_in(cluster: &Cluster) -> Result<u64, String> {
    let status = status(cluster)?;
    match (status["group"].as_u64(), status["to"].is_null()) {
        (Some(group), true) => Ok(group),
        _ => Err(status.to_string()),
    }
}

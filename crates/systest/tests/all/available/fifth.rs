//! A fifth node joins four that are in use, by an operator's commands; then once more while it, and
//! a node that transfers data to it, are killed.

use super::{COPIES, FinishedTrial, SECOND, Trial, judge_all, options};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use systest::client::Http;
use systest::cluster::{Cluster, wait_until};
use systest::environment::{Scratch, experiment};
use systest::report::{is_long_form, skipped};
use systest::workload::siblings::{Bulk, SiblingPlan};

/// Bytes of one value of the ballast.
const VALUE_BYTES: usize = 4 * 1024;
/// Time limit for the change of the ring.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(300);
/// Time limit for a list of keys.
const LIST_TIMEOUT: Duration = Duration::from_secs(20);
/// Node that joins, and the node that transfers data to it and is killed.
const JOINING: usize = 5;
const SENDER: usize = 2;

#[test]
fn ring_join_of_fifth_node_under_load_and_kills_loses_no_row() {
    if !is_long_form() {
        let reason = "former owners keep what they gave for ten seconds: CREDENZA_TEST_LONG=1";
        return skipped("a fifth node joins", reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("available-fifth");
    for kills in [false, true] {
        join_fifth_node(&scratch, kills);
    }
}

fn join_fifth_node(scratch: &Scratch, with_kills: bool) {
    let (ballast_bytes, rate) = (64 << 20, 8 << 20);
    let mut options = options(4);
    options.args.extend(["--handoff-bytes-per-second".into(), rate.to_string()]);
    let mut cluster = Cluster::start(scratch, options);
    cluster.init_ring();
    let plan = SiblingPlan { deletes: false, ..SiblingPlan::new(if with_kills { 55 } else { 54 }) };
    let ballast = Bulk {
        bucket_path: format!("available/ballast{}", plan.seed),
        name: "b".into(),
        keys: 0..ballast_bytes / VALUE_BYTES,
        bytes: VALUE_BYTES,
    };
    ballast.write(&cluster.client_addresses());
    let name = if with_kills { "a fifth node joins, with kills" } else { "a fifth node joins" };
    let mut trial = Trial::start(name, &cluster, plan);
    let lists = ListThread::start(cluster.client_address(1), &ballast);
    cluster.add();
    cluster.must_converge();
    cluster.run_tool(&["cluster", "ring", "join", "n5"]);
    let planned = planned_bytes(&cluster);
    cluster.run_tool(&["cluster", "ring", "commit"]);
    let mut kills_left = if with_kills { vec![(SENDER, 3), (JOINING, 5)] } else { Vec::new() };
    let mut down_spans = Vec::new();
    let transfer = cluster.watch_transfers((1, JOINING), TRANSFER_TIMEOUT, |cluster, _, report| {
        let bytes = bytes_received(report);
        if let Some((node, _)) =
            kills_left.pop_if(|(_, share)| bytes > 0 && bytes * *share > planned)
        {
            let from = trial.workload.now();
            cluster.kill(node);
            std::thread::sleep(SECOND / 2);
            cluster.start_node(node);
            down_spans.push((node, (from, trial.workload.now())));
            trial.figures.faults += 1;
        }
    });
    assert!(
        kills_left.is_empty(),
        "{kills_left:?} were not killed: it was over before; {transfer:?}"
    );
    wait_until("former owners that let go of what they gave", || {
        let report = cluster.transfers(1).unwrap_or_default();
        let mut nodes = report["nodes"].as_array().into_iter().flatten();
        let is_cleared = report["remaining"] == 0 && nodes.all(|node| node["clearing"] == 0);
        if is_cleared { Ok(()) } else { Err(report.to_string()) }
    });
    let lists = lists.end();
    let mut finished = trial.end(&cluster);
    finished.figures.add("lists", lists.complete);
    finished.figures.add("lists_refused", lists.refused.len());
    finished.figures.add("seen_on_its_way", transfer.estimates);
    finished.figures.add("went_over_after_ms", transfer.duration.as_millis());
    finished.figures.add("bytes", transfer.bytes);
    finished.figures.add("bytes_planned", planned);
    assert!(transfer.estimates > 0, "nobody was told how long it takes");
    must_be_answered(&finished, &down_spans);
    assert!(with_kills || lists.refused.is_empty(), "{:?}", lists.refused);
    assert!(lists.complete > 0, "no list was made: {:?}", lists.refused);
    let copies = cluster.copies(COPIES);
    finished.figures.add("bytes_that_had_to_move", copies.bytes(JOINING));
    judge_all(&copies, vec![finished]);
    let copied = copies.of_bucket(&ballast.bucket_path).len();
    assert_eq!(copied, COPIES * ballast.keys.len(), "rows of the ballast");
}

/// Checks that no call failed or was refused, except those of a killed node, and the few that
/// another node had forwarded to it at that moment: their outcome is unknown.
fn must_be_answered(finished: &FinishedTrial, down_spans: &[(usize, (Duration, Duration))]) {
    let whole_time = (Duration::ZERO, Duration::MAX);
    let was_killed = |at: usize| down_spans.iter().any(|(node, _)| *node == at + 1);
    let (answered, all) = finished.history.answer_counts(whole_time, |at| !was_killed(at));
    let unanswered = all - answered;
    let unanswered_max = if down_spans.is_empty() { 0 } else { all / 1_000 };
    assert!(
        all > 100 && unanswered <= unanswered_max,
        "{answered} of {all}: {:?}",
        finished.history.refusals
    );
}

/// Returns the number of bytes to move by the plan.
fn planned_bytes(cluster: &Cluster) -> u64 {
    let output = cluster.tool(1, &["cluster", "ring", "plan", "--json"]);
    let plan: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    plan["bytes"].as_u64().expect("a number")
}

fn bytes_received(report: &serde_json::Value) -> u64 {
    let nodes = report["nodes"].as_array().into_iter().flatten();
    nodes.filter_map(|node| node["bytes"].as_u64()).max().unwrap_or(0)
}

/// A thread that lists the keys of the ballast repeatedly.
struct ListThread {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<ListResults>,
}

/// Results of the lists.
#[derive(Default)]
struct ListResults {
    complete: usize,
    refused: Vec<String>,
}

impl ListThread {
    fn start(node: SocketAddr, ballast: &Bulk) -> ListThread {
        let stop = Arc::new(AtomicBool::new(false));
        let (is_stopped, ballast) = (stop.clone(), ballast.clone());
        let thread = std::thread::spawn(move || {
            let mut results = ListResults::default();
            while !is_stopped.load(Ordering::SeqCst) {
                results.list_once(node, &ballast);
                std::thread::sleep(SECOND / 10);
            }
            results
        });
        ListThread { stop, thread }
    }

    fn end(self) -> ListResults {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().expect("every list is complete")
    }
}

impl ListResults {
    /// Lists the keys once: the list must have every key once, or be refused.
    fn list_once(&mut self, node: SocketAddr, ballast: &Bulk) {
        let (kind, bucket) = ballast.bucket_path.split_once('/').expect("TYPE/BUCKET");
        let path = format!("/types/{kind}/buckets/{bucket}/keys?keys=true");
        let started = Instant::now();
        let web = Http::with_timeout(node, LIST_TIMEOUT);
        match web.and_then(|mut web| web.request("GET", &path, b"")) {
            Ok(answer) if answer.status == 200 => {
                let json = answer.json();
                let keys = json["keys"].as_array().map_or(0, Vec::len);
                assert_eq!(keys, ballast.keys.len(), "a list is incomplete");
                self.complete += 1;
            }
            Ok(answer) => self.refused.push(answer.text()),
            Err(error) => self.refused.push(format!("{error} after {:?}", started.elapsed())),
        }
    }
}

//! A fifth node joins four that are in use, by an operator's commands; then once more while it, and
//! a node that transfers data to it, are killed.

use super::{COPIES, Done, SECOND, Trial, judge_all, options};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use systest::client::Http;
use systest::report::{long, skipped};
use systest::rigs::{Cluster, Scratch, experiment, wait};
use systest::workload::siblings::{Bulk, SiblingPlan};

/// Bytes of one value of the ballast.
const VALUE: usize = 4 * 1024;
/// Time limit for the change of the ring.
const WITHIN: Duration = Duration::from_secs(300);
/// Time limit for a list of keys.
const LIST_MAX: Duration = Duration::from_secs(20);
/// Node that joins, and the node that transfers data to it and is killed.
const FIFTH: usize = 5;
const GIVER: usize = 2;

#[test]
fn a_fifth_node_joins_four_in_use() {
    if !long() {
        let why = "former owners keep what they gave for ten seconds: CREDENZA_TEST_LONG=1";
        return skipped("a fifth node joins", why);
    }
    let _permit = experiment();
    let scratch = Scratch::new("available-fifth");
    for kills in [false, true] {
        joins(&scratch, kills);
    }
}

fn joins(scratch: &Scratch, kills: bool) {
    let (weight, rate) = (64 << 20, 8 << 20);
    let mut options = options(4);
    options.words.extend(["--handoff-bytes-per-second".into(), rate.to_string()]);
    let mut cluster = Cluster::start(scratch, options);
    cluster.share_ring();
    let plan = SiblingPlan { deletes: false, ..SiblingPlan::of(if kills { 55 } else { 54 }) };
    let ballast = Bulk {
        place: format!("available/ballast{}", plan.seed),
        name: "b".into(),
        keys: 0..weight / VALUE,
        bytes: VALUE,
    };
    ballast.write(&cluster.clients());
    let name = if kills { "a fifth node joins, with kills" } else { "a fifth node joins" };
    let mut trial = Trial::begin(name, &cluster, plan);
    let lists = Lists::begin(cluster.client(1), &ballast);
    cluster.add();
    cluster.must_settle();
    cluster.operate(&["cluster", "ring", "join", "n5"]);
    let planned = plan_of(&cluster);
    cluster.operate(&["cluster", "ring", "commit"]);
    let mut left = if kills { vec![(GIVER, 3), (FIFTH, 5)] } else { Vec::new() };
    let mut gone = Vec::new();
    let going = cluster.watch_transfers((1, FIFTH), WITHIN, |cluster, _, told| {
        let bytes = received(told);
        if let Some((node, _)) = left.pop_if(|(_, share)| bytes > 0 && bytes * *share > planned) {
            let from = trial.clients.now();
            cluster.kill(node);
            std::thread::sleep(SECOND / 2);
            cluster.begin(node);
            gone.push((node, (from, trial.clients.now())));
            trial.figures.faults += 1;
        }
    });
    assert!(left.is_empty(), "{left:?} were not killed: it was over before; {going:?}");
    wait("former owners that let go of what they gave", || {
        let told = cluster.transfers(1).unwrap_or_default();
        let mut nodes = told["nodes"].as_array().into_iter().flatten();
        let clear = told["remaining"] == 0 && nodes.all(|node| node["clearing"] == 0);
        if clear { Ok(()) } else { Err(told.to_string()) }
    });
    let lists = lists.end();
    let mut done = trial.end(&cluster);
    done.figures.also("lists", lists.complete);
    done.figures.also("lists_refused", lists.refused.len());
    done.figures.also("seen_on_its_way", going.foreseen);
    done.figures.also("went_over_after_ms", going.took.as_millis());
    done.figures.also("bytes", going.bytes);
    done.figures.also("bytes_planned", planned);
    assert!(going.foreseen > 0, "nobody was told how long it takes");
    must_be_answered(&done, &gone);
    assert!(kills || lists.refused.is_empty(), "{:?}", lists.refused);
    assert!(lists.complete > 0, "no list was made: {:?}", lists.refused);
    let copies = cluster.copies(COPIES);
    done.figures.also("bytes_that_had_to_move", copies.bytes(FIFTH));
    judge_all(&copies, vec![done]);
    let copied = copies.of(&ballast.place).len();
    assert_eq!(copied, COPIES * ballast.keys.len(), "rows of the ballast");
}

/// Checks that no call failed or was refused, except those of a killed node, and the few that
/// another node had forwarded to it at that moment: their outcome is unknown.
fn must_be_answered(done: &Done, gone: &[(usize, (Duration, Duration))]) {
    let never = (Duration::ZERO, Duration::MAX);
    let killed = |at: usize| gone.iter().any(|(node, _)| *node == at + 1);
    let (answered, all) = done.history.answered(never, |at| !killed(at));
    let lost = all - answered;
    let bound = if gone.is_empty() { 0 } else { all / 1_000 };
    assert!(all > 100 && lost <= bound, "{answered} of {all}: {:?}", done.history.refusals);
}

/// Returns the number of bytes that the plan says will move.
fn plan_of(cluster: &Cluster) -> u64 {
    let output = cluster.tool(1, &["cluster", "ring", "plan", "--json"]);
    let plan: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    plan["bytes"].as_u64().expect("a number")
}

fn received(told: &serde_json::Value) -> u64 {
    let nodes = told["nodes"].as_array().into_iter().flatten();
    nodes.filter_map(|node| node["bytes"].as_u64()).max().unwrap_or(0)
}

/// A thread that lists the keys of the ballast repeatedly.
struct Lists {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Listed>,
}

/// Results of the lists.
#[derive(Default)]
struct Listed {
    complete: usize,
    refused: Vec<String>,
}

impl Lists {
    fn begin(node: SocketAddr, ballast: &Bulk) -> Lists {
        let stop = Arc::new(AtomicBool::new(false));
        let (ended, ballast) = (stop.clone(), ballast.clone());
        let thread = std::thread::spawn(move || {
            let mut listed = Listed::default();
            while !ended.load(Ordering::SeqCst) {
                listed.look(node, &ballast);
                std::thread::sleep(SECOND / 10);
            }
            listed
        });
        Lists { stop, thread }
    }

    fn end(self) -> Listed {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().expect("every list is complete")
    }
}

impl Listed {
    /// Lists the keys once: the list must have every key once, or be refused.
    fn look(&mut self, node: SocketAddr, ballast: &Bulk) {
        let (kind, bucket) = ballast.place.split_once('/').expect("TYPE/BUCKET");
        let path = format!("/types/{kind}/buckets/{bucket}/keys?keys=true");
        let begun = Instant::now();
        let web = Http::with_patience(node, LIST_MAX);
        match web.and_then(|mut web| web.ask("GET", &path, b"")) {
            Ok(answer) if answer.status == 200 => {
                let json = answer.json();
                let keys = json["keys"].as_array().map_or(0, Vec::len);
                assert_eq!(keys, ballast.keys.len(), "a list is incomplete");
                self.complete += 1;
            }
            Ok(answer) => self.refused.push(answer.text()),
            Err(error) => self.refused.push(format!("{error} after {:?}", begun.elapsed())),
        }
    }
}

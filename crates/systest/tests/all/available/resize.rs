//! F-48: the ring changes during writes and faults: nodes join and leave, the number of partitions
//! doubles and halves.

use super::{Done, SECOND, Trial, clocks, judge_all, options};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use systest::report::{long, say, skipped};
use systest::rigs::{Cluster, Network, NodeClock, Root, Scratch, System, experiment, missing};
use systest::workload::siblings::SiblingPlan;

/// Longest wait for the end of a change, on a busy machine.
const REST_MAX: Duration = Duration::from_secs(300);
/// Size of each node's file system, if it has its own.
const DISK_MIB: usize = 256;
/// Errors of the wall clocks, in seconds.
const JUMPS: [i64; 5] = [3_600, -3_600, 86_400, -600, 600];

/// Fault in the middle of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Nothing,
    /// The directory's master, and then another node, are killed.
    Kill,
    /// One node is cut off from the others.
    Apart,
    Clock,
    DiskFull,
    Pause,
    /// The change is cancelled, and started anew.
    CalledOff,
}

/// A change of the ring, as commands of the tool, beginning with three nodes and 64 partitions.
struct Step {
    name: &'static str,
    words: &'static [&'static [&'static str]],
    /// Number of partitions before it, and after it.
    partitions: [f64; 2],
}

/// A fifth of 128 partitions fits no ring of 64: halving must first bring partitions together.
const STEPS: [Step; 4] = [
    Step { name: "x2", words: &[&["resize", "128"]], partitions: [64.0, 128.0] },
    Step {
        name: "3 to 5 nodes",
        words: &[&["join", "n4"], &["join", "n5"]],
        partitions: [128.0; 2],
    },
    Step { name: "/2", words: &[&["resize", "64"]], partitions: [128.0, 64.0] },
    Step { name: "5 to 4 nodes", words: &[&["leave", "n5"]], partitions: [64.0; 2] },
];

/// Change by which three of five nodes get the ring, which the first one has alone.
const THREE: Step =
    Step { name: "three", words: &[&["join", "n2"], &["join", "n3"]], partitions: [64.0; 2] };

impl Wrong {
    /// Returns the reason why the fault can't be injected here. `None`: it can.
    fn missing(self) -> Option<String> {
        match self {
            Wrong::Apart => Network::missing(),
            Wrong::Clock => NodeClock::missing(),
            Wrong::DiskFull => missing(Root::Needed, System::Ext4.tools()),
            _ => None,
        }
    }
}

/// Five nodes, of which three have the ring.
struct TestCluster {
    cluster: Cluster,
    clocks: Vec<NodeClock>,
    _scratch: Scratch,
}

impl TestCluster {
    fn new(wrong: Wrong, run: usize) -> TestCluster {
        let scratch = Scratch::new(&format!("resize-{wrong:?}-{run}"));
        // Behind the switch no node can be added later.
        let mut options = options(if wrong == Wrong::Apart { 5 } else { 3 });
        if wrong == Wrong::Apart {
            options = options.behind_the_switch();
        }
        options.disk = (wrong == Wrong::DiskFull).then_some((System::Ext4, DISK_MIB));
        let mut cluster = Cluster::start(&scratch, options);
        if wrong != Wrong::Apart {
            cluster.share_ring();
            cluster.add();
            cluster.add();
            cluster.must_settle();
        }
        let mut clocks = Vec::new();
        if wrong == Wrong::Clock {
            clocks = clocks::clocks(&mut cluster, &scratch);
            for node in cluster.nodes() {
                assert_eq!(cluster.stop(node), Some(0));
                cluster.begin(node);
            }
            cluster.must_settle();
        }
        let test_cluster = TestCluster { cluster, clocks, _scratch: scratch };
        if wrong == Wrong::Apart {
            test_cluster.begin(&THREE);
            test_cluster.must_rest(64.0);
        }
        test_cluster.cluster.must_reach_all();
        test_cluster
    }

    fn begin(&self, step: &Step) {
        for words in step.words {
            self.cluster.operate(&[&["cluster", "ring"], *words].concat());
        }
        self.cluster.operate(&["cluster", "ring", "commit"]);
    }

    /// Runs one cell of the grid once.
    fn cell(&mut self, wrong: Wrong, step: &Step, seed: u64) -> Done {
        let name = format!("F-48 {} with {wrong:?}", step.name);
        let mut trial = Trial::begin(&name, &self.cluster, SiblingPlan::of(seed));
        let from = trial.clients.now();
        let begun = Instant::now();
        self.begin(step);
        trial.figures.faults += self.go_wrong(wrong, step);
        let rested = self.must_rest(step.partitions[1]);
        let upto = trial.clients.now();
        trial.figures.also("moved_in_ms", (rested - begun).as_millis());
        let mut done = trial.end(&self.cluster);
        let (answered, all) = done.history.answered((from, upto), |_| true);
        // Refusals of malformed requests count as answers, but these clients send none.
        let words = &done.history.refusals;
        let mistakes = words.iter().filter(|(word, _)| !word.starts_with('5'));
        let mistakes: u64 = mistakes.map(|(_, count)| count).sum();
        let share = 100.0 * (answered - mistakes.min(answered)) as f64 / all.max(1) as f64;
        let said = format!("{share:.2}%_of_{all}: {words:?}");
        assert!(wrong != Wrong::Nothing || share >= 99.9, "answered: {said}");
        done.figures.also("answered", format!("{share:.2}%_of_{all}"));
        if mistakes > 0 {
            done.figures.also("not_understood", format!("{words:?}"));
        }
        done
    }

    /// Injects the fault, a moment after the change has begun; returns the number of faults.
    fn go_wrong(&mut self, wrong: Wrong, step: &Step) -> u64 {
        let cluster = &mut self.cluster;
        std::thread::sleep(SECOND / 4);
        match wrong {
            Wrong::Nothing => return 0,
            Wrong::Kill => {
                let master = cluster.nodes().find(|node| leads_directory(cluster, *node));
                for node in [master.unwrap_or(1), 3] {
                    cluster.kill(node);
                    std::thread::sleep(SECOND);
                    cluster.begin(node);
                }
                return 2;
            }
            Wrong::Apart => {
                cluster.isolate(3);
                std::thread::sleep(3 * SECOND);
                cluster.heal();
            }
            Wrong::Clock => {
                for (clock, jump) in self.clocks.iter().zip(JUMPS) {
                    clock.wrong_by(jump);
                    std::thread::sleep(SECOND / 4);
                }
                return JUMPS.len() as u64;
            }
            Wrong::DiskFull => {
                let filler = fill(cluster, 3);
                std::thread::sleep(3 * SECOND);
                std::fs::remove_file(filler).expect("it is ours");
                cluster.begin_ended();
            }
            Wrong::Pause => {
                cluster.pause(3);
                std::thread::sleep(3 * SECOND);
                cluster.wake(3);
            }
            // Doubling takes effect at once: it can't be cancelled.
            Wrong::CalledOff if step.words[0] == ["resize", "128"] => return 0,
            Wrong::CalledOff => {
                // A change with little to move may end before it is cancelled.
                if let Err(said) = cluster.try_to_operate(&["cluster", "ring", "cancel"]) {
                    assert!(said.contains("no change of the ring is under way"), "{said}");
                    return 0;
                }
                self.must_rest(step.partitions[0]);
                self.begin(step);
            }
        }
        1
    }

    /// Waits until no transfer is in progress, no node has rows left to delete, and all know a ring
    /// of `partitions` partitions; returns the time of that.
    fn must_rest(&self, partitions: f64) -> Instant {
        let begun = Instant::now();
        loop {
            let why = match self.moving(partitions) {
                None => return Instant::now(),
                Some(why) => why,
            };
            assert!(begun.elapsed() < REST_MAX, "the ring does not come to rest: {why}");
            std::thread::sleep(SECOND / 10);
        }
    }

    /// Describes the work left of a change. `None`: it is complete.
    fn moving(&self, partitions: f64) -> Option<String> {
        let output = self.cluster.tool(1, &["cluster", "ring", "transfers", "--json"]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let told: serde_json::Value = serde_json::from_str(&said).unwrap_or_default();
        let mut nodes = told["nodes"].as_array().into_iter().flatten();
        let rests = told["remaining"] == 0 && nodes.all(|node| node["clearing"] == 0);
        let of = |node| self.cluster.metric(node, "credenza_ring_partitions");
        let all: f64 = self.cluster.nodes().map(of).sum();
        let known = all == partitions;
        (!rests || !known).then(|| format!("{all} of {partitions} partitions; {said}"))
    }
}

/// Returns true if a node reports itself as master of the directory, which holds the ring.
fn leads_directory(cluster: &Cluster, node: usize) -> bool {
    cluster.said(node, 0).is_some_and(|said| said.role == "master")
}

/// Fills a node's file system.
fn fill(cluster: &mut Cluster, node: usize) -> PathBuf {
    use std::io::Write;
    let path = cluster.disk(node).point().join("filler");
    let mut file = std::fs::File::create(&path).expect("there was space");
    let chunk = vec![1; 256 * 1024];
    while file.write_all(&chunk).is_ok() {}
    path
}

/// Runs steps in turn with a fault in each, in a cluster made for the first.
fn row(cells: &[(Wrong, &Step)], run: usize) {
    let mut test_cluster = TestCluster::new(cells[0].0, run);
    let mut trials = Vec::new();
    for (at, (wrong, step)) in cells.iter().enumerate() {
        trials.push(test_cluster.cell(*wrong, step, 4_800 + at as u64));
    }
    let copies = test_cluster.cluster.copies(super::COPIES);
    judge_all(&copies, trials);
}

#[test]
fn partitions_double_and_halve_while_nodes_are_killed_and_sleep() {
    let _permit = experiment();
    row(&[(Wrong::Kill, &STEPS[0]), (Wrong::Pause, &STEPS[2])], 0);
}

/// Runs a row of the grid several times.
fn rows(wrong: Wrong) {
    let name = format!("F-48 with {wrong:?}");
    if !long() {
        return skipped(&name, "takes many minutes: CREDENZA_TEST_LONG=1");
    }
    if let Some(why) = wrong.missing() {
        return skipped(&name, &why);
    }
    let _permit = experiment();
    let runs = std::env::var("CREDENZA_TEST_RUNS").ok().and_then(|runs| runs.parse().ok());
    for run in 0..runs.unwrap_or(10) {
        row(&STEPS.each_ref().map(|step| (wrong, step)), run);
        say(&format!("{name}: run {} of each cell is done", run + 1));
    }
}

#[test]
fn the_ring_changes_and_nothing_goes_wrong() {
    rows(Wrong::Nothing);
}

#[test]
fn the_ring_changes_and_nodes_are_killed() {
    rows(Wrong::Kill);
}

#[test]
fn the_ring_changes_and_a_node_is_cut_off() {
    rows(Wrong::Apart);
}

#[test]
fn the_ring_changes_and_clocks_jump() {
    rows(Wrong::Clock);
}

#[test]
fn the_ring_changes_and_a_disk_is_full() {
    rows(Wrong::DiskFull);
}

#[test]
fn the_ring_changes_and_a_node_sleeps() {
    rows(Wrong::Pause);
}

#[test]
fn the_ring_changes_and_is_called_off() {
    rows(Wrong::CalledOff);
}

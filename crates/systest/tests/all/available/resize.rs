//! F-48: the ring changes during writes and faults: nodes join and leave, the number of partitions
//! doubles and halves.

use super::{FinishedTrial, SECOND, Trial, clocks, judge_all, options};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use systest::cluster::Cluster;
use systest::environment::{Root, Scratch, experiment, missing};
use systest::fault_injection::{FileSystem, Network, NodeClock};
use systest::report::{is_long_form, print_line, skipped};
use systest::workload::siblings::SiblingPlan;

/// Longest wait for the end of a change, on a busy machine.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(300);
/// Size of each node's file system, if it has its own.
const DISK_MIB: usize = 256;
/// Errors of the wall clocks, in seconds.
const JUMPS: [i64; 5] = [3_600, -3_600, 86_400, -600, 600];

/// Fault in the middle of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RingFault {
    Nothing,
    /// The directory's master, and then another node, are killed.
    Kill,
    /// One node is cut off from the others.
    Apart,
    Clock,
    DiskFull,
    Pause,
    /// The change is cancelled, then restarted.
    CalledOff,
}

/// A change of the ring, as commands of the tool, beginning with three nodes and 64 partitions.
struct RingChangeCase {
    name: &'static str,
    commands: &'static [&'static [&'static str]],
    /// Number of partitions before it, and after it.
    partitions: [f64; 2],
}

/// A fifth of 128 partitions fits no ring of 64: halving must first bring partitions together.
const CHANGES: [RingChangeCase; 4] = [
    RingChangeCase { name: "x2", commands: &[&["resize", "128"]], partitions: [64.0, 128.0] },
    RingChangeCase {
        name: "3 to 5 nodes",
        commands: &[&["join", "n4"], &["join", "n5"]],
        partitions: [128.0; 2],
    },
    RingChangeCase { name: "/2", commands: &[&["resize", "64"]], partitions: [128.0, 64.0] },
    RingChangeCase { name: "5 to 4 nodes", commands: &[&["leave", "n5"]], partitions: [64.0; 2] },
];

/// Change by which three of five nodes get the ring, which the first one has alone.
const JOIN_THREE: RingChangeCase = RingChangeCase {
    name: "three",
    commands: &[&["join", "n2"], &["join", "n3"]],
    partitions: [64.0; 2],
};

impl RingFault {
    /// Returns the reason why the fault can't be injected here. `None`: it can.
    fn missing(self) -> Option<String> {
        match self {
            RingFault::Apart => Network::missing(),
            RingFault::Clock => NodeClock::missing(),
            RingFault::DiskFull => missing(Root::Needed, FileSystem::Ext4.tools()),
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
    fn new(fault: RingFault, run: usize) -> TestCluster {
        let scratch = Scratch::new(&format!("resize-{fault:?}-{run}"));
        // Behind the switch no node can be added later.
        let mut options = options(if fault == RingFault::Apart { 5 } else { 3 });
        if fault == RingFault::Apart {
            options = options.with_switch();
        }
        options.disk = (fault == RingFault::DiskFull).then_some((FileSystem::Ext4, DISK_MIB));
        let mut cluster = Cluster::start(&scratch, options);
        if fault != RingFault::Apart {
            cluster.init_ring();
            cluster.add();
            cluster.add();
            cluster.must_converge();
        }
        let mut clocks = Vec::new();
        if fault == RingFault::Clock {
            clocks = clocks::install_faulty_clocks(&mut cluster, &scratch);
            for node in cluster.nodes() {
                assert_eq!(cluster.stop(node), Some(0));
                cluster.start_node(node);
            }
            cluster.must_converge();
        }
        let test_cluster = TestCluster { cluster, clocks, _scratch: scratch };
        if fault == RingFault::Apart {
            test_cluster.apply(&JOIN_THREE);
            test_cluster.must_settle(64.0);
        }
        test_cluster.cluster.must_suspect_none();
        test_cluster
    }

    fn apply(&self, change: &RingChangeCase) {
        for command in change.commands {
            self.cluster.run_tool(&[&["cluster", "ring"], *command].concat());
        }
        self.cluster.run_tool(&["cluster", "ring", "commit"]);
    }

    /// Runs one cell of the grid once.
    fn run_change(
        &mut self,
        fault: RingFault,
        change: &RingChangeCase,
        seed: u64,
    ) -> FinishedTrial {
        let name = format!("F-48 {} with {fault:?}", change.name);
        let mut trial = Trial::start(&name, &self.cluster, SiblingPlan::new(seed));
        let from = trial.workload.now();
        let started = Instant::now();
        self.apply(change);
        trial.figures.faults += self.inject(fault, change);
        let settled_at = self.must_settle(change.partitions[1]);
        let to = trial.workload.now();
        trial.figures.add("moved_in_ms", (settled_at - started).as_millis());
        let mut finished = trial.end(&self.cluster);
        let (answered, all) = finished.history.answer_counts((from, to), |_| true);
        // Refusals of malformed requests count as answers, but these clients send none.
        let refusals = &finished.history.refusals;
        let client_errors = refusals.iter().filter(|(text, _)| !text.starts_with('5'));
        let client_errors: u64 = client_errors.map(|(_, count)| count).sum();
        let answered_percent =
            100.0 * (answered - client_errors.min(answered)) as f64 / all.max(1) as f64;
        let summary = format!("{answered_percent:.2}%_of_{all}: {refusals:?}");
        assert!(fault != RingFault::Nothing || answered_percent >= 99.9, "answered: {summary}");
        finished.figures.add("answered", format!("{answered_percent:.2}%_of_{all}"));
        if client_errors > 0 {
            finished.figures.add("not_understood", format!("{refusals:?}"));
        }
        finished
    }

    /// Injects the fault shortly after the change has started; returns the number of faults.
    fn inject(&mut self, fault: RingFault, change: &RingChangeCase) -> u64 {
        let cluster = &mut self.cluster;
        std::thread::sleep(SECOND / 4);
        match fault {
            RingFault::Nothing => return 0,
            RingFault::Kill => {
                let master = cluster.nodes().find(|node| is_directory_master(cluster, *node));
                for node in [master.unwrap_or(1), 3] {
                    cluster.kill(node);
                    std::thread::sleep(SECOND);
                    cluster.start_node(node);
                }
                return 2;
            }
            RingFault::Apart => {
                cluster.isolate(3);
                std::thread::sleep(3 * SECOND);
                cluster.heal();
            }
            RingFault::Clock => {
                for (clock, jump) in self.clocks.iter().zip(JUMPS) {
                    clock.set_offset(jump);
                    std::thread::sleep(SECOND / 4);
                }
                return JUMPS.len() as u64;
            }
            RingFault::DiskFull => {
                let filler = fill_disk(cluster, 3);
                std::thread::sleep(3 * SECOND);
                std::fs::remove_file(filler).expect("it is ours");
                cluster.restart_ended();
            }
            RingFault::Pause => {
                cluster.pause(3);
                std::thread::sleep(3 * SECOND);
                cluster.resume(3);
            }
            // Doubling takes effect at once: it can't be cancelled.
            RingFault::CalledOff if change.commands[0] == ["resize", "128"] => return 0,
            RingFault::CalledOff => {
                // A change with little to move may end before it is cancelled.
                if let Err(said) = cluster.try_run_tool(&["cluster", "ring", "cancel"]) {
                    assert!(said.contains("no ring change is in progress"), "{said}");
                    return 0;
                }
                self.must_settle(change.partitions[0]);
                self.apply(change);
            }
        }
        1
    }

    /// Waits until no transfer is in progress, no node has rows left to delete, and all have a ring
    /// of `partitions` partitions; returns the time of that.
    fn must_settle(&self, partitions: f64) -> Instant {
        let started = Instant::now();
        loop {
            let reason = match self.work_left(partitions) {
                None => return Instant::now(),
                Some(reason) => reason,
            };
            assert!(started.elapsed() < CHANGE_TIMEOUT, "the ring does not come to rest: {reason}");
            std::thread::sleep(SECOND / 10);
        }
    }

    /// Describes the work left of a change. `None`: it is complete.
    fn work_left(&self, partitions: f64) -> Option<String> {
        let output = self.cluster.tool(1, &["cluster", "ring", "transfers", "--json"]);
        let json_text = String::from_utf8_lossy(&output.stdout).into_owned();
        let report: serde_json::Value = serde_json::from_str(&json_text).unwrap_or_default();
        let mut nodes = report["nodes"].as_array().into_iter().flatten();
        let is_settled = report["remaining"] == 0 && nodes.all(|node| node["clearing"] == 0);
        let partitions_of = |node| self.cluster.metric(node, "credenza_ring_partitions");
        let all: f64 = self.cluster.nodes().map(partitions_of).sum();
        let is_expected = all == partitions;
        (!is_settled || !is_expected)
            .then(|| format!("{all} of {partitions} partitions; {json_text}"))
    }
}

/// Returns true if a node reports itself as master of the directory, which holds the ring.
fn is_directory_master(cluster: &Cluster, node: usize) -> bool {
    cluster.group_status(node, 0).is_some_and(|status| status.role == "master")
}

/// Fills a node's file system.
fn fill_disk(cluster: &mut Cluster, node: usize) -> PathBuf {
    use std::io::Write;
    let path = cluster.disk(node).point().join("filler");
    let mut file = std::fs::File::create(&path).expect("there was space");
    let chunk = vec![1; 256 * 1024];
    while file.write_all(&chunk).is_ok() {}
    path
}

/// Runs steps in turn with a fault in each, in a cluster made for the first.
fn run_changes(changes: &[(RingFault, &RingChangeCase)], run: usize) {
    let mut test_cluster = TestCluster::new(changes[0].0, run);
    let mut trials = Vec::new();
    for (at, (fault, change)) in changes.iter().enumerate() {
        trials.push(test_cluster.run_change(*fault, change, 4_800 + at as u64));
    }
    let copies = test_cluster.cluster.copies(super::COPIES);
    judge_all(&copies, trials);
}

#[test]
fn ring_doubles_under_kills_and_halves_under_pauses_without_loss() {
    let _permit = experiment();
    run_changes(&[(RingFault::Kill, &CHANGES[0]), (RingFault::Pause, &CHANGES[2])], 0);
}

/// Runs a row of the grid several times.
fn run_repeatedly(fault: RingFault) {
    let name = format!("F-48 with {fault:?}");
    if !is_long_form() {
        return skipped(&name, "takes many minutes: CREDENZA_TEST_LONG=1");
    }
    if let Some(reason) = fault.missing() {
        return skipped(&name, &reason);
    }
    let _permit = experiment();
    let runs = std::env::var("CREDENZA_TEST_RUNS").ok().and_then(|runs| runs.parse().ok());
    for run in 0..runs.unwrap_or(10) {
        run_changes(&CHANGES.each_ref().map(|change| (fault, change)), run);
        print_line(&format!("{name}: run {} of each cell is done", run + 1));
    }
}

#[test]
fn ring_change_without_fault_answers_requests_and_loses_nothing() {
    run_repeatedly(RingFault::Nothing);
}

#[test]
fn ring_change_with_killed_nodes_loses_nothing() {
    run_repeatedly(RingFault::Kill);
}

#[test]
fn ring_change_with_isolated_node_loses_nothing() {
    run_repeatedly(RingFault::Apart);
}

#[test]
fn ring_change_with_clock_jumps_loses_nothing() {
    run_repeatedly(RingFault::Clock);
}

#[test]
fn ring_change_with_full_disk_loses_nothing() {
    run_repeatedly(RingFault::DiskFull);
}

#[test]
fn ring_change_with_paused_node_loses_nothing() {
    run_repeatedly(RingFault::Pause);
}

#[test]
fn ring_change_cancelled_and_restarted_loses_nothing() {
    run_repeatedly(RingFault::CalledOff);
}

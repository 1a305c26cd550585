//! Real faults under available buckets: clients of all nodes record the values that they had seen,
//! and the contents of the stores at the end must follow from the records.
//!
//! Promises: an experiment ends with all copies equal, byte by byte, as they are on the disks of
//! stopped nodes; no value is lost, resurrected, a phantom or a false sibling; or it says why it
//! was skipped.
//! Never: asserts in its short form how long clients felt a fault: other work shares the machine.
//! The long form checks times against their bounds.
//! Read next: `handoff.rs`, then `memory.rs` and `healing.rs`.

mod both;
mod clocks;
mod corrupted;
mod death;
mod fifth;
mod forgets;
mod gray;
mod handoff;
mod healing;
mod memory;
mod resize;
mod ring_flood;
mod scale;
mod siblings;
mod slow_disk;
mod wiped;

use std::time::Duration;
use systest::checkers::causal::{Copy, judge};
use systest::cluster::{Cluster, Copies, Options};
use systest::environment::{Scratch, experiment};
use systest::fault_injection::{Network, NodeClock};
use systest::report::{Figures, skipped};
use systest::workload::siblings::{SiblingHistory, SiblingPlan, SiblingWorkload};

const SECOND: Duration = Duration::from_secs(1);
/// Number of copies of each key.
const COPIES: usize = 3;

/// Interval of anti-entropy, as the value of the setting.
const ANTI_ENTROPY_INTERVAL: &str = "300ms";

/// Returns options for this many nodes, with frequent anti-entropy.
fn options(nodes: usize) -> Options {
    let mut options = Options::new(nodes);
    options.args.extend(["--anti-entropy-interval-ms", ANTI_ENTROPY_INTERVAL].map(String::from));
    options
}

/// An experiment whose clients are running.
struct Trial {
    figures: Figures,
    plan: SiblingPlan,
    workload: SiblingWorkload,
}

/// An experiment whose clients have stopped, before its final check.
struct FinishedTrial {
    figures: Figures,
    bucket_path: String,
    history: SiblingHistory,
    /// Time until all copies were equal.
    converged_after: Duration,
}

impl Trial {
    fn start(name: &str, cluster: &Cluster, plan: SiblingPlan) -> Trial {
        let figures = Figures::start(name);
        let nodes = cluster.client_addresses();
        let clients = cluster.on_client_host(|| SiblingWorkload::start(&nodes, &plan));
        std::thread::sleep(SECOND);
        Trial { figures, plan, workload: clients }
    }

    /// Stops the clients, and waits until no repair is left to do.
    fn end(mut self, cluster: &Cluster) -> FinishedTrial {
        let history = self.workload.stop();
        let (ok, fail, info) = history.counts();
        (self.figures.ok, self.figures.fail, self.figures.info) = (ok, fail, info);
        assert!(ok > 100, "clients did almost nothing: {:?}", history.refusals);
        cluster.must_suspect_none();
        let converged_after = cluster.must_finish_repair();
        self.figures.add("equal_after_ms", converged_after.as_millis());
        FinishedTrial {
            figures: self.figures,
            bucket_path: self.plan.bucket_path,
            history,
            converged_after,
        }
    }
}

impl FinishedTrial {
    /// Returns an experiment from a history that a test made step by step.
    fn new(figures: Figures, bucket_path: &str, history: SiblingHistory) -> FinishedTrial {
        let converged_after = Duration::ZERO;
        let mut finished =
            FinishedTrial { figures, bucket_path: bucket_path.into(), history, converged_after };
        let (ok, fail, info) = finished.history.counts();
        (finished.figures.ok, finished.figures.fail, finished.figures.info) = (ok, fail, info);
        finished
    }

    /// Checks the history against the contents of the stores, and prints the figures.
    fn judge(&mut self, copies: &[Copy]) {
        assert!(!copies.is_empty(), "no copy of {} was found", self.bucket_path);
        let findings = judge(&self.history.calls, copies);
        let figures = &mut self.figures;
        figures.lost = findings.lost.len() as u64;
        figures.add("resurrected", findings.resurrected.len());
        figures.add("phantom", findings.phantom.len());
        figures.add("false_siblings", findings.false_siblings.len());
        figures.add("unequal", findings.unequal.len());
        figures.add("keys", findings.keys);
        figures.add("most_siblings", findings.siblings);
        figures.print();
        findings.must_be_clean();
    }
}

/// Waits some seconds; returns their beginning and end on the clients' clock.
fn span(trial: &Trial, seconds: usize) -> (Duration, Duration) {
    let from = trial.workload.now();
    std::thread::sleep(seconds as u32 * SECOND);
    (from, trial.workload.now())
}

/// Checks every experiment against the contents of all nodes' disks.
fn judge_all(copies: &Copies, mut trials: Vec<FinishedTrial>) {
    trials.iter_mut().for_each(|finished| finished.judge(&copies.of_bucket(&finished.bucket_path)));
    assert_eq!(copies.differences(), Vec::<String>::new());
    assert_eq!(copies.hints(), 0, "hints are left");
}

/// Restarts every node with this interval of anti-entropy.
fn set_anti_entropy_interval(cluster: &mut Cluster, interval: &str) {
    for node in cluster.nodes() {
        assert_eq!(cluster.stop(node), Some(0));
        let setup = cluster.setup_mut(node);
        *setup = setup.clone().with_args(&["--anti-entropy-interval-ms", interval]);
    }
    cluster.start_all();
    cluster.must_converge();
    cluster.must_suspect_none();
}

#[test]
fn five_available_nodes_converge_after_kills_cuts_and_slow_links() {
    let name = "F-41, F-42, F-50, F-52 five nodes of available buckets";
    if let Some(reason) = Network::missing() {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("available-five");
    let mut cluster = Cluster::start(&scratch, options(5).with_switch());
    cluster.init_ring();
    let trials = vec![
        handoff::kill_hint_holders(&mut cluster),
        handoff::partition_two_from_three(&cluster),
        both::refuse_in_minority(&cluster),
        gray::impair_links(&cluster),
    ];
    judge_all(&cluster.copies(COPIES), trials);
}

#[test]
fn three_available_nodes_converge_after_lost_rows_and_old_copies() {
    let _permit = experiment();
    let scratch = Scratch::new("available-three");
    let mut cluster = Cluster::start(&scratch, options(3));
    cluster.init_ring();
    let mut trials = vec![
        siblings::interleave_writes(&cluster),
        siblings::delete_concurrently(&mut cluster),
        healing::repair_by_anti_entropy(&mut cluster),
    ];
    let control = siblings::Control::start(&cluster);
    cluster.must_finish_repair();
    // From here on only reads and the writes themselves may repair differences.
    set_anti_entropy_interval(&mut cluster, "0");
    healing::repair_by_reads(&mut cluster);
    trials.push(memory::lose_rows(&mut cluster));
    trials.push(memory::restore_old_copy(&mut cluster, &scratch));
    let clocks = match NodeClock::missing() {
        Some(reason) => {
            skipped("F-49 wall clocks an hour off", &reason);
            None
        }
        None => Some(clocks::install_faulty_clocks(&mut cluster, &scratch)),
    };
    set_anti_entropy_interval(&mut cluster, ANTI_ENTROPY_INTERVAL);
    trials.extend(clocks.map(|clocks| clocks::shift_clocks(&cluster, &clocks)));
    cluster.must_finish_repair();
    let copies = cluster.copies(COPIES);
    control.judge(&copies);
    judge_all(&copies, trials);
}

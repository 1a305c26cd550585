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
mod scale;
mod siblings;
mod slow_disk;
mod wiped;

use std::time::Duration;
use systest::checkers::causal::{Copy, judge};
use systest::report::{Figures, skipped};
use systest::rigs::{Cluster, Copies, Network, NodeClock, Options, Scratch, experiment};
use systest::workload::siblings::{SiblingHistory, SiblingPlan, SiblingWorkload};

const SECOND: Duration = Duration::from_secs(1);
/// Number of copies of each key.
const COPIES: usize = 3;

/// Interval of anti-entropy, as the value of the setting.
const PACE: &str = "300ms";

/// Returns options for this many nodes, with frequent anti-entropy.
fn options(nodes: usize) -> Options {
    let mut options = Options::of(nodes);
    options.words.extend(["--anti-entropy-interval-ms", PACE].map(String::from));
    options
}

/// An experiment whose clients are running.
struct Trial {
    figures: Figures,
    plan: SiblingPlan,
    clients: SiblingWorkload,
}

/// An experiment whose clients have stopped, before its final check.
struct Done {
    figures: Figures,
    place: String,
    history: SiblingHistory,
    /// Time until all copies were equal.
    equal: Duration,
}

impl Trial {
    fn begin(name: &str, cluster: &Cluster, plan: SiblingPlan) -> Trial {
        let figures = Figures::begin(name);
        let nodes = cluster.clients();
        let clients = cluster.from_clients(|| SiblingWorkload::start(&nodes, &plan));
        std::thread::sleep(SECOND);
        Trial { figures, plan, clients }
    }

    /// Stops the clients, and waits until no repair is left to do.
    fn end(mut self, cluster: &Cluster) -> Done {
        let history = self.clients.stop();
        let (ok, fail, info) = history.counts();
        (self.figures.ok, self.figures.fail, self.figures.info) = (ok, fail, info);
        assert!(ok > 100, "clients did almost nothing: {:?}", history.refusals);
        cluster.must_reach_all();
        let quiet = cluster.must_be_quiet();
        self.figures.also("equal_after_ms", quiet.as_millis());
        Done { figures: self.figures, place: self.plan.place, history, equal: quiet }
    }
}

impl Done {
    /// Returns an experiment from a history that a test made step by step.
    fn of(figures: Figures, place: &str, history: SiblingHistory) -> Done {
        let equal = Duration::ZERO;
        let mut done = Done { figures, place: place.into(), history, equal };
        let (ok, fail, info) = done.history.counts();
        (done.figures.ok, done.figures.fail, done.figures.info) = (ok, fail, info);
        done
    }

    /// Checks the history against the contents of the stores, and prints the figures.
    fn judge(&mut self, copies: &[Copy]) {
        assert!(!copies.is_empty(), "no copy of {} was found", self.place);
        let found = judge(&self.history.calls, copies);
        let figures = &mut self.figures;
        figures.lost = found.lost.len() as u64;
        figures.also("resurrected", found.resurrected.len());
        figures.also("phantom", found.phantom.len());
        figures.also("false_siblings", found.false_siblings.len());
        figures.also("unequal", found.unequal.len());
        figures.also("keys", found.keys);
        figures.also("most_siblings", found.siblings);
        figures.print();
        found.must_be_clean();
    }
}

/// Waits some seconds; returns their beginning and end on the clients' clock.
fn span(trial: &Trial, seconds: usize) -> (Duration, Duration) {
    let from = trial.clients.now();
    std::thread::sleep(seconds as u32 * SECOND);
    (from, trial.clients.now())
}

/// Checks every experiment against the contents of all nodes' disks.
fn judge_all(copies: &Copies, mut trials: Vec<Done>) {
    trials.iter_mut().for_each(|done| done.judge(&copies.of(&done.place)));
    assert_eq!(copies.differences(), Vec::<String>::new());
    assert_eq!(copies.hints(), 0, "hints are left");
}

/// Restarts every node with this interval of anti-entropy.
fn compare(cluster: &mut Cluster, pace: &str) {
    for node in cluster.nodes() {
        assert_eq!(cluster.stop(node), Some(0));
        let how = cluster.how(node);
        *how = how.clone().with(&["--anti-entropy-interval-ms", pace]);
    }
    cluster.begin_all();
    cluster.must_settle();
    cluster.must_reach_all();
}

#[test]
fn five_nodes_bear_deaths_cuts_and_a_node_that_limps() {
    let name = "F-41, F-42, F-50, F-52 five nodes of available buckets";
    if let Some(why) = Network::missing() {
        return skipped(name, &why);
    }
    let _permit = experiment();
    let scratch = Scratch::new("available-five");
    let mut cluster = Cluster::start(&scratch, options(5).behind_the_switch());
    cluster.share_ring();
    let trials = vec![
        handoff::handoff(&mut cluster),
        handoff::halves(&cluster),
        both::both(&cluster),
        gray::limps(&cluster),
    ];
    judge_all(&cluster.copies(COPIES), trials);
}

#[test]
fn three_nodes_bear_lost_memory_and_come_together() {
    let _permit = experiment();
    let scratch = Scratch::new("available-three");
    let mut cluster = Cluster::start(&scratch, options(3));
    cluster.share_ring();
    let mut trials = vec![
        siblings::explosion(&cluster),
        siblings::deletes(&mut cluster),
        healing::comparison(&mut cluster),
    ];
    let control = siblings::Control::begin(&cluster);
    cluster.must_be_quiet();
    // From here on only reads and the writes themselves may repair differences.
    compare(&mut cluster, "0");
    healing::read_repair(&mut cluster);
    trials.push(memory::rows_lost(&mut cluster));
    trials.push(memory::old_copy(&mut cluster, &scratch));
    let clocks = match NodeClock::missing() {
        Some(why) => {
            skipped("F-49 wall clocks an hour off", &why);
            None
        }
        None => Some(clocks::clocks(&mut cluster, &scratch)),
    };
    compare(&mut cluster, PACE);
    trials.extend(clocks.map(|clocks| clocks::jumps(&cluster, &clocks)));
    cluster.must_be_quiet();
    let copies = cluster.copies(COPIES);
    control.judge(&copies);
    judge_all(&copies, trials);
}

//! F-49: wall clocks that are an hour or a day wrong.

use super::{FinishedTrial, SECOND, Trial};
use systest::cluster::Cluster;
use systest::environment::Scratch;
use systest::fault_injection::NodeClock;
use systest::report::short_or_long;
use systest::workload::siblings::SiblingPlan;

/// Errors of the wall clock of one node after the other, in seconds.
const JUMPS: [i64; 4] = [3_600, -3_600, 86_400, 0];

/// Prepares faulty clocks for all nodes, which use them from their next start.
pub fn install_faulty_clocks(cluster: &mut Cluster, scratch: &Scratch) -> Vec<NodeClock> {
    let count = cluster.size();
    let clock = |node: usize| {
        let clock = NodeClock::new(scratch.join(&format!("clock{node}")));
        cluster.setup_mut(node).environment = clock.environment();
        clock
    };
    (1..=count).map(clock).collect()
}

/// Shifts wall clocks while clients write; no result may depend on them.
pub fn shift_clocks(cluster: &Cluster, clocks: &[NodeClock]) -> FinishedTrial {
    let mut trial = Trial::start("F-49 wall clocks an hour off", cluster, SiblingPlan::new(49));
    for round in 0..short_or_long(1, 10) {
        for (at, jump) in JUMPS.into_iter().enumerate() {
            clocks[(round + at) % clocks.len()].set_offset(jump);
            trial.figures.faults += 1;
            std::thread::sleep(SECOND / 2);
        }
    }
    trial.end(cluster)
}

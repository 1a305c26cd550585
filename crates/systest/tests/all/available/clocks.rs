//! F-49: wall clocks that are an hour off.

use super::{Done, SECOND, Trial};
use systest::attentive::AttentivePlan;
use systest::report::times;
use systest::rigs::{Cluster, NodeClock, Scratch};

/// How wrong the wall clock becomes, in seconds, of one node after the other.
const JUMPS: [i64; 4] = [3_600, -3_600, 86_400, 0];

/// Clocks for all nodes, which take them with their next start.
pub fn clocks(cluster: &mut Cluster, scratch: &Scratch) -> Vec<NodeClock> {
    let count = cluster.size();
    let clock = |node: usize| {
        let clock = NodeClock::new(scratch.join(&format!("clock{node}")));
        cluster.how(node).environment = clock.environment();
        clock
    };
    (1..=count).map(clock).collect()
}

/// Wall clocks jump while clients write; nothing hangs on them.
pub fn jumps(cluster: &Cluster, clocks: &[NodeClock]) -> Done {
    let mut trial = Trial::begin("F-49 wall clocks an hour off", cluster, AttentivePlan::of(49));
    for round in 0..times(1, 10) {
        for (at, jump) in JUMPS.into_iter().enumerate() {
            clocks[(round + at) % clocks.len()].wrong_by(jump);
            trial.figures.faults += 1;
            std::thread::sleep(SECOND / 2);
        }
    }
    trial.end(cluster)
}

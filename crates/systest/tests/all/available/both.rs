//! F-52: a consistent and an available bucket in one cluster whose network is partitioned.

use super::handoff::{DETECTION_MAX, cut_between};
use super::{FinishedTrial, SECOND, Trial};
use std::time::Duration;
use systest::checkers::check;
use systest::client::{Resp, RespReply};
use systest::cluster::Cluster;
use systest::report::short_or_long;
use systest::workload::registers;
use systest::workload::siblings::SiblingPlan;

/// Most configurations that the linearizability checker tries for each key.
const STEPS_MAX: u64 = 3_000_000;

/// Partitions the master of the consistent buckets and one more node from the other three. In the
/// minority the consistent bucket must refuse and the available bucket must answer, and neither
/// waits for the other.
pub fn refuse_in_minority(cluster: &Cluster) -> FinishedTrial {
    let failover = registers::Failover::NextNode;
    let register_plan = registers::RegisterPlan {
        clients: 6,
        keys: 8,
        seed: 52,
        pause: Duration::from_millis(6),
        timeout: SECOND,
        pairs: 0,
        failover,
    };
    cluster.must_serve();
    let registers = cluster.record(register_plan);
    // A client of a partitioned node gets no answer once, uses another node, then returns.
    let plan = SiblingPlan { return_delay: Some(SECOND), ..SiblingPlan::new(52) };
    let mut trial = Trial::start("F-52 both promises at once", cluster, plan);
    let before = trial.workload.now();
    std::thread::sleep(SECOND);
    let before_partition = (before, trial.workload.now());
    let master = cluster.master();
    let in_minority = |node: usize| node == master || node == master % 5 + 1;
    cut_between(cluster, in_minority);
    std::thread::sleep(DETECTION_MAX.max(2 * cluster.lease()));
    let from = trial.workload.now();
    let refused = refusals_of_isolated_master(cluster, master);
    std::thread::sleep(short_or_long(3, 20) as u32 * SECOND);
    let partitioned = (from, trial.workload.now());
    cluster.heal();
    trial.figures.faults += 1;
    cluster.must_converge();
    cluster.must_serve();
    let history = cluster.on_client_host(|| registers.stop()).expect("every node is readable");
    let report = check(&history.calls, STEPS_MAX);
    report.must_be_linearizable();
    let (ok, ..) = history.counts();
    assert!(ok > 100, "clients of the consistent buckets did almost nothing");
    trial.figures.add("consistent_ok", ok);
    trial.figures.add("consistent_refused_by_the_few", refused);
    let mut finished = trial.end(cluster);
    for (name, span, side) in [
        ("before", before_partition, None),
        ("few", partitioned, Some(true)),
        ("many", partitioned, Some(false)),
    ] {
        let at_side = |at: usize| side.is_none_or(|side| in_minority(at + 1) == side);
        let p99 = finished.history.percentile(span, at_side, 99);
        finished.figures.add(&format!("p99_{name}_ms"), p99.as_millis());
        let (answered, all) = finished.history.answer_counts(span, at_side);
        let refusals = &finished.history.refusals;
        let answered_enough = all > 50 && answered * 100 >= all * 99;
        assert!(answered_enough, "{name}: {answered} of {all} answered: {refusals:?}");
    }
    finished
}

/// Sends requests to a partitioned master, which must refuse all once its lease has expired;
/// returns the number of its refusals.
fn refusals_of_isolated_master(cluster: &Cluster, master: usize) -> u32 {
    let address = cluster.client_address(master);
    cluster.on_client_host(|| {
        for command_line in ["GET probe", "SET probe isolated"].into_iter().cycle().take(6) {
            let mut redis = Resp::with_timeout(address, SECOND).expect("clients reach it");
            match redis.call_line(command_line) {
                Ok(RespReply::Error(_)) | Err(_) => {}
                other => panic!("a master that is cut off answers {command_line} with {other:?}"),
            }
        }
        6
    })
}

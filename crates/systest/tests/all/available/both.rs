//! F-52: a consistent and an available bucket in one cluster whose network is partitioned.

use super::handoff::{DETECTED, split};
use super::{Done, SECOND, Trial};
use std::time::Duration;
use systest::checkers::check;
use systest::client::{Resp, RespReply};
use systest::report::times;
use systest::rigs::Cluster;
use systest::workload::registers;
use systest::workload::siblings::SiblingPlan;

/// Most configurations that the linearizability checker tries for each key.
const STEPS_MAX: u64 = 3_000_000;

/// Partitions the master of the consistent buckets and one more node from the other three. In the
/// minority the consistent bucket must refuse and the available bucket must answer, and neither
/// waits for the other.
pub fn both(cluster: &Cluster) -> Done {
    let turns = registers::Turns::On;
    let strong = registers::RegisterPlan {
        clients: 6,
        keys: 8,
        seed: 52,
        pause: Duration::from_millis(6),
        patience: SECOND,
        pairs: 0,
        turns,
    };
    cluster.must_serve();
    let strong = cluster.record(strong);
    // A client of a partitioned node gets no answer once, then comes back.
    let plan = SiblingPlan { returns: Some(SECOND), ..SiblingPlan::of(52) };
    let mut trial = Trial::begin("F-52 both promises at once", cluster, plan);
    let before = trial.clients.now();
    std::thread::sleep(SECOND);
    let good = (before, trial.clients.now());
    let master = cluster.master();
    let few = |node: usize| node == master || node == master % 5 + 1;
    split(cluster, few);
    std::thread::sleep(DETECTED.max(2 * cluster.lease()));
    let from = trial.clients.now();
    let refused = ask(cluster, master);
    std::thread::sleep(times(3, 20) as u32 * SECOND);
    let cut = (from, trial.clients.now());
    cluster.heal();
    trial.figures.faults += 1;
    cluster.must_settle();
    cluster.must_serve();
    let history = cluster.from_clients(|| strong.stop()).expect("every node is readable");
    let report = check(&history.calls, STEPS_MAX);
    report.must_be_linearizable();
    let (ok, ..) = history.counts();
    assert!(ok > 100, "clients of the consistent buckets did almost nothing");
    trial.figures.also("consistent_ok", ok);
    trial.figures.also("consistent_refused_by_the_few", refused);
    let mut done = trial.end(cluster);
    for (name, span, side) in
        [("before", good, None), ("few", cut, Some(true)), ("many", cut, Some(false))]
    {
        let here = |at: usize| side.is_none_or(|side| few(at + 1) == side);
        let p99 = done.history.percentile(span, here, 99);
        done.figures.also(&format!("p99_{name}_ms"), p99.as_millis());
        let (answered, all) = done.history.answered(span, here);
        let words = &done.history.refusals;
        let enough = all > 50 && answered * 100 >= all * 99;
        assert!(enough, "{name}: {answered} of {all} answered: {words:?}");
    }
    done
}

/// Asks a partitioned master, which must answer nothing once its lease has expired; returns the
/// number of its refusals.
fn ask(cluster: &Cluster, master: usize) -> u32 {
    let address = cluster.client(master);
    cluster.from_clients(|| {
        for command in ["GET probe", "SET probe isolated"].into_iter().cycle().take(6) {
            let mut redis = Resp::with_patience(address, SECOND).expect("clients reach it");
            match redis.say(command) {
                Ok(RespReply::Error(_)) | Err(_) => {}
                other => panic!("a master that is cut off answers {command} with {other:?}"),
            }
        }
        6
    })
}

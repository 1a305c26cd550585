//! F-41 and F-42: nodes that are down, and partitioned networks.

use super::{Done, SECOND, Trial};
use std::time::{Duration, Instant};
use systest::client::Http;
use systest::report::{bound, times};
use systest::rigs::Cluster;
use systest::workload::CallOutcome;
use systest::workload::siblings::{ManualClient, ShownValues, SiblingHistory, SiblingPlan};

/// Longest time until a silent node is detected.
pub const DETECTED: Duration = Duration::from_millis(2_500);

/// One node is down, others keep hints for it; one of those is killed with its hints.
pub fn handoff(cluster: &mut Cluster) -> Done {
    let mut trial = Trial::begin("F-41 hinted handoff", cluster, SiblingPlan::of(41));
    let (mut most, mut slowest) = (0.0_f64, Duration::ZERO);
    for round in 0..times(1, 5) {
        let (away, holder) = (5 - round % 4, 1 + (5 - round % 4) % 5);
        cluster.kill(away);
        std::thread::sleep(times(3, 60) as u32 * SECOND);
        most = most.max(cluster.hints());
        cluster.kill(holder);
        std::thread::sleep(SECOND / 2);
        cluster.begin(holder);
        std::thread::sleep(SECOND);
        most = most.max(cluster.hints());
        slowest = slowest.max(come_home(cluster));
        trial.figures.faults += 2;
    }
    assert!(most > 0.0, "nobody kept anything for the node that was away");
    trial.figures.also("hints_most", most);
    let only = kept_by_nobody_else(cluster, &trial.plan.place, &mut slowest);
    trial.figures.faults += 3;
    trial.figures.also("home_after_ms", slowest.as_millis());
    let mut done = trial.end(cluster);
    done.history.join(only);
    done
}

/// Starts the nodes that are down; returns the time until all hints have been delivered.
fn come_home(cluster: &mut Cluster) -> Duration {
    let begun = Instant::now();
    cluster.begin_all();
    cluster.must_reach_all();
    while cluster.hints() > 0.0 {
        assert!(begun.elapsed() < 60 * SECOND, "hints do not go home");
        std::thread::sleep(SECOND / 20);
    }
    begun.elapsed()
}

/// Kills all three owners of some keys. Writes to these keys are only in the hints of the two
/// fallbacks, so that anti-entropy can't restore a row whose hint was removed too early.
fn kept_by_nobody_else(
    cluster: &mut Cluster,
    place: &str,
    slowest: &mut Duration,
) -> SiblingHistory {
    let owners = owners(cluster, place, "only-0");
    assert_eq!(owners.len(), super::COPIES, "{owners:?}");
    let left: Vec<_> = cluster.nodes().filter(|node| !owners.contains(node)).collect();
    owners.iter().for_each(|owner| cluster.kill(*owner));
    std::thread::sleep(DETECTED + SECOND);
    let mut hand = ManualClient::new(&cluster.clients(), place, "only");
    let taken = cluster.from_clients(|| {
        let mut put = |at: usize| {
            hand.put(left[at % left.len()], &format!("only-{at}"), &ShownValues::default(), "")
        };
        (0..200).filter(|at| put(*at) == CallOutcome::Acknowledged(())).count()
    });
    assert!(taken > 100, "two of five nodes took {taken} of 200 writes");
    *slowest = come_home(cluster).max(*slowest);
    hand.history()
}

/// Returns the owners of a key.
fn owners(cluster: &Cluster, place: &str, key: &str) -> Vec<usize> {
    let (kind, bucket) = place.split_once('/').expect("TYPE/BUCKET");
    let path = format!("/types/{kind}/buckets/{bucket}/keys/{key}/preflist");
    let address = cluster.client(1);
    let ask = || Http::connect(address)?.ask("GET", &path, b"");
    let answer = cluster.from_clients(ask).expect("it answers");
    let list = answer.json()["preflist"].as_array().cloned().unwrap_or_default();
    let names: Vec<_> = list.iter().filter_map(|one| one["node"].as_str()).collect();
    let is_named = |node: &usize| {
        let machine = format!("@{}", cluster.client(*node).ip());
        names.iter().any(|name| name.ends_with(&machine))
    };
    cluster.nodes().filter(is_named).collect()
}

/// Partitions two nodes from the three others; clients reach all of them, and write everywhere.
pub fn halves(cluster: &Cluster) -> Done {
    let mut trial = Trial::begin("F-42 two and three nodes apart", cluster, SiblingPlan::of(42));
    let (mut spans, mut healed) = (Vec::new(), Instant::now());
    for round in 0..times(1, 5) {
        split(cluster, |node| (node + round) % 5 < 2);
        std::thread::sleep(DETECTED);
        let from = trial.clients.now();
        std::thread::sleep(times(5, 20) as u32 * SECOND);
        spans.push(((from, trial.clients.now()), round));
        cluster.heal();
        healed = Instant::now();
        trial.figures.faults += 1;
        cluster.must_reach_all();
        std::thread::sleep(SECOND);
    }
    // Clients went on writing until now.
    let healed = healed.elapsed();
    let mut done = trial.end(cluster);
    for (name, few) in [("two", true), ("three", false)] {
        let side = |round: usize| move |at: usize| ((at + 1 + round) % 5 < 2) == few;
        let counts = spans.iter().map(|(span, round)| done.history.answered(*span, side(*round)));
        let (answered, all) = counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let share = 100.0 * answered as f64 / all.max(1) as f64;
        done.figures.also(&format!("answered_by_{name}"), format!("{share:.2}%_of_{all}"));
        let words = &done.history.refusals;
        assert!(all > 100 && share >= 99.9, "{answered} of {all} were answered: {words:?}");
    }
    bound("F-42 until all copies are equal, s", (healed + done.equal).as_secs_f64(), 30.0);
    done
}

/// Cuts the links between some nodes and all others.
pub fn split(cluster: &Cluster, few: impl Fn(usize) -> bool) {
    for one in cluster.nodes().filter(|node| few(*node)) {
        cluster.nodes().filter(|node| !few(*node)).for_each(|other| cluster.cut(one, other));
    }
}

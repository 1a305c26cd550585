//! F-41 and F-42: nodes that are down, and partitioned networks.

use super::{FinishedTrial, SECOND, Trial};
use std::time::{Duration, Instant};
use systest::client::Http;
use systest::cluster::Cluster;
use systest::report::{check_bound, short_or_long};
use systest::workload::CallOutcome;
use systest::workload::siblings::{ManualClient, ReadValues, SiblingHistory, SiblingPlan};

/// Longest time until a silent node is detected.
pub const DETECTION_MAX: Duration = Duration::from_millis(2_500);

/// One node is down, others keep hints for it; one of those is killed with its hints.
pub fn kill_hint_holders(cluster: &mut Cluster) -> FinishedTrial {
    let mut trial = Trial::start("F-41 hinted handoff", cluster, SiblingPlan::new(41));
    let (mut most_hints, mut slowest_delivery) = (0.0_f64, Duration::ZERO);
    for round in 0..short_or_long(1, 5) {
        let (down, holder) = (5 - round % 4, 1 + (5 - round % 4) % 5);
        cluster.kill(down);
        std::thread::sleep(short_or_long(3, 60) as u32 * SECOND);
        most_hints = most_hints.max(cluster.hints());
        cluster.kill(holder);
        std::thread::sleep(SECOND / 2);
        cluster.start_node(holder);
        std::thread::sleep(SECOND);
        most_hints = most_hints.max(cluster.hints());
        slowest_delivery = slowest_delivery.max(start_and_await_hint_delivery(cluster));
        trial.figures.faults += 2;
    }
    assert!(most_hints > 0.0, "nobody kept anything for the node that was away");
    trial.figures.add("hints_most", most_hints);
    let fallback_history =
        write_to_fallbacks_only(cluster, &trial.plan.bucket_path, &mut slowest_delivery);
    trial.figures.faults += 3;
    trial.figures.add("home_after_ms", slowest_delivery.as_millis());
    let mut finished = trial.end(cluster);
    finished.history.join(fallback_history);
    finished
}

/// Starts the nodes that are down; returns the time until all hints have been delivered.
fn start_and_await_hint_delivery(cluster: &mut Cluster) -> Duration {
    let started = Instant::now();
    cluster.start_all();
    cluster.must_suspect_none();
    while cluster.hints() > 0.0 {
        assert!(started.elapsed() < 60 * SECOND, "hints do not go home");
        std::thread::sleep(SECOND / 20);
    }
    started.elapsed()
}

/// Kills all three owners of some keys. Writes to these keys are only in the hints of the two
/// fallbacks, so that anti-entropy can't restore a row whose hint was removed too early.
fn write_to_fallbacks_only(
    cluster: &mut Cluster,
    bucket_path: &str,
    slowest_delivery: &mut Duration,
) -> SiblingHistory {
    let owners = owners(cluster, bucket_path, "only-0");
    assert_eq!(owners.len(), super::COPIES, "{owners:?}");
    let fallbacks: Vec<_> = cluster.nodes().filter(|node| !owners.contains(node)).collect();
    owners.iter().for_each(|owner| cluster.kill(*owner));
    std::thread::sleep(DETECTION_MAX + SECOND);
    let mut client = ManualClient::new(&cluster.client_addresses(), bucket_path, "only");
    let accepted = cluster.on_client_host(|| {
        let mut put = |at: usize| {
            client.put(
                fallbacks[at % fallbacks.len()],
                &format!("only-{at}"),
                &ReadValues::default(),
                "",
            )
        };
        (0..200).filter(|at| put(*at) == CallOutcome::Acknowledged(())).count()
    });
    assert!(accepted > 100, "two of five nodes took {accepted} of 200 writes");
    *slowest_delivery = start_and_await_hint_delivery(cluster).max(*slowest_delivery);
    client.history()
}

/// Returns the owners of a key.
fn owners(cluster: &Cluster, bucket_path: &str, key: &str) -> Vec<usize> {
    let (kind, bucket) = bucket_path.split_once('/').expect("TYPE/BUCKET");
    let path = format!("/types/{kind}/buckets/{bucket}/keys/{key}/preflist");
    let address = cluster.client_address(1);
    let request = || Http::connect(address)?.request("GET", &path, b"");
    let answer = cluster.on_client_host(request).expect("it answers");
    let list = answer.json()["preflist"].as_array().cloned().unwrap_or_default();
    let names: Vec<_> = list.iter().filter_map(|one| one["node"].as_str()).collect();
    let is_named = |node: &usize| {
        let host_suffix = format!("@{}", cluster.client_address(*node).ip());
        names.iter().any(|name| name.ends_with(&host_suffix))
    };
    cluster.nodes().filter(is_named).collect()
}

/// Partitions two nodes from the three others; clients reach all of them, and write everywhere.
pub fn partition_two_from_three(cluster: &Cluster) -> FinishedTrial {
    let mut trial = Trial::start("F-42 two and three nodes apart", cluster, SiblingPlan::new(42));
    let (mut spans, mut healed) = (Vec::new(), Instant::now());
    for round in 0..short_or_long(1, 5) {
        cut_between(cluster, |node| (node + round) % 5 < 2);
        std::thread::sleep(DETECTION_MAX);
        let from = trial.workload.now();
        std::thread::sleep(short_or_long(5, 20) as u32 * SECOND);
        spans.push(((from, trial.workload.now()), round));
        cluster.heal();
        healed = Instant::now();
        trial.figures.faults += 1;
        cluster.must_suspect_none();
        std::thread::sleep(SECOND);
    }
    // Clients went on writing until now.
    let healed = healed.elapsed();
    let mut finished = trial.end(cluster);
    for (name, is_minority) in [("two", true), ("three", false)] {
        let is_on_side = |round: usize| move |at: usize| ((at + 1 + round) % 5 < 2) == is_minority;
        let counts = spans
            .iter()
            .map(|(span, round)| finished.history.answer_counts(*span, is_on_side(*round)));
        let (answered, all) = counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let answered_percent = 100.0 * answered as f64 / all.max(1) as f64;
        finished
            .figures
            .add(&format!("answered_by_{name}"), format!("{answered_percent:.2}%_of_{all}"));
        let refusals = &finished.history.refusals;
        assert!(
            all > 100 && answered_percent >= 99.9,
            "{answered} of {all} were answered: {refusals:?}"
        );
    }
    check_bound(
        "F-42 until all copies are equal, s",
        (healed + finished.converged_after).as_secs_f64(),
        30.0,
    );
    finished
}

/// Cuts the links between some nodes and all others.
pub fn cut_between(cluster: &Cluster, in_minority: impl Fn(usize) -> bool) {
    for one in cluster.nodes().filter(|node| in_minority(*node)) {
        cluster
            .nodes()
            .filter(|node| !in_minority(*node))
            .for_each(|other| cluster.cut(one, other));
    }
}

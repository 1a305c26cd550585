//! F-08 and F-10 to F-15: links that are cut between nodes; clients reach all of them.

use super::{SECOND, Trial, plan, two_leases};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use std::time::{Duration, Instant};
use systest::client::{Resp, RespReply};
use systest::cluster::{Cluster, Options};
use systest::environment::{Scratch, experiment};
use systest::fault_injection::{Cable, Network};
use systest::report::{check_bound, short_or_long, skipped};

#[test]
fn cluster_stays_linearizable_under_link_cuts_and_bad_packets() {
    let name = "F-08, F-12 to F-15 cables";
    if let Some(reason) = Network::missing() {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-wires");
    let mut options = Options::new(3).with_switch();
    // At this level nodes log why a connection ended.
    options.args.extend(["--log-level", "info,other=info"].map(String::from));
    let mut cluster = Cluster::start(&scratch, options);
    isolate_master(&mut cluster);
    cut_chain(&mut cluster);
    cut_one_way(&mut cluster);
    inject_bad_packets(&mut cluster);
    cut_and_heal_in_random_order(&mut cluster);
}

/// Clients still reach a master that reaches no other node: it must answer nothing from its old
/// state.
fn isolate_master(cluster: &mut Cluster) {
    let mut trial = Trial::start("F-08 master isolated", cluster, plan(8));
    let (mut refused, mut slowest_election) = (0, Duration::ZERO);
    for _ in 0..short_or_long(2, 10) {
        let master = cluster.master();
        trial.fault(cluster, |cluster| {
            let cut_at = Instant::now();
            cluster.isolate(master);
            assert_ne!(new_master(cluster, master), master);
            slowest_election = slowest_election.max(cut_at.elapsed());
            std::thread::sleep((2 * cluster.lease()).saturating_sub(cut_at.elapsed()));
            refused += count_refusals_of_isolated(cluster, master);
            cluster.heal();
        });
    }
    trial.figures.add("refused_by_the_isolated", refused);
    trial.figures.add("new_master_after_ms", slowest_election.as_millis());
    trial.end(cluster);
    let limit = 2 * cluster.lease();
    check_bound("F-08 until another leads, s", slowest_election.as_secs_f64(), limit.as_secs_f64());
}

/// Sends requests to a cut-off master: once its lease has expired it must refuse reads and writes.
fn count_refusals_of_isolated(cluster: &Cluster, master: usize) -> u32 {
    let address = cluster.client_address(master);
    cluster.on_client_host(|| {
        let mut refused = 0;
        for command_line in ["GET probe", "SET probe isolated"].into_iter().cycle().take(6) {
            let mut redis = Resp::with_timeout(address, SECOND).expect("clients reach it");
            match redis.call_line(command_line) {
                Ok(RespReply::Error(_)) | Err(_) => refused += 1,
                other => panic!("a master that is cut off answers {command_line} with {other:?}"),
            }
        }
        refused
    })
}

/// Waits for the node that leads instead of this one, and returns it.
fn new_master(cluster: &Cluster, old: usize) -> usize {
    let deadline = Instant::now() + 60 * SECOND;
    loop {
        let statuses: Vec<_> =
            cluster.nodes().filter_map(|node| cluster.group_status(node, 1)).collect();
        let master = statuses.iter().find(|status| status.role == "master" && status.node != old);
        if let Some(master) = master {
            return master.node;
        }
        assert!(Instant::now() < deadline, "nobody else leads: {statuses:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// One end of a chain can't reach the master at the other end: elections must not repeat.
fn cut_chain(cluster: &mut Cluster) {
    let mut trial = Trial::start("F-12 chain", cluster, plan(12));
    let master = cluster.master();
    let far_end = cluster.follower();
    let mut changes = 0;
    trial.fault(cluster, |cluster| {
        cluster.cut(master, far_end);
        let deadline = Instant::now() + short_or_long(20, 60) as u32 * SECOND;
        let mut last = ballot(cluster);
        while Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(100));
            let now = ballot(cluster);
            changes += usize::from(now.is_some() && now != last);
            last = now.or(last);
        }
        cluster.heal();
    });
    trial.figures.add("master_changes", changes);
    let (from, to) = trial.faults[0];
    let history = trial.end(cluster);
    let updates = history.updates().iter().filter(|at| (from..to).contains(*at)).count();
    assert!(updates > 100, "a chain with a master in it takes writes, not {updates}");
    assert!(changes <= 1, "{changes} changes of the master in a chain that stood still");
}

/// Returns the ballot of the node that reports itself as leader.
fn ballot(cluster: &Cluster) -> Option<String> {
    let statuses = cluster.nodes().filter_map(|node| cluster.group_status(node, 1));
    statuses.filter(|status| status.role == "master").map(|status| status.ballot).max()
}

/// Cuts each direction between two nodes in turn.
fn cut_one_way(cluster: &mut Cluster) {
    let mut trial = Trial::start("F-13 one-way cuts", cluster, plan(13));
    trial.bounds.gap_max = two_leases(cluster, SECOND);
    for from in cluster.nodes() {
        for to in cluster.nodes().filter(|to| *to != from) {
            trial.fault(cluster, |cluster| {
                cluster.network().set_link(from, to, Cable::CUT);
                std::thread::sleep(short_or_long(3, 10) as u32 * SECOND);
                cluster.heal();
            });
        }
    }
    trial.end(cluster);
}

/// Delays, reorders, loses, duplicates and corrupts packets between all nodes. Each corruption must
/// be found by a frame's checksum, for TCP does not find it (`fault_injection_network`), and have
/// no effect.
fn inject_bad_packets(cluster: &mut Cluster) {
    let mut trial = Trial::start("F-15 bad network", cluster, plan(15));
    let (delay, jitter) = (Duration::from_millis(25), Duration::from_millis(20));
    // In a few seconds at half a percent there may be none.
    let corrupt = short_or_long(10, 5) as u32;
    let link = Cable { delay, jitter, loss: 50, duplicate: 100, corrupt, ..Cable::default() };
    trial.fault(cluster, |cluster| {
        for from in cluster.nodes() {
            let others = cluster.nodes().filter(|to| *to != from);
            others.for_each(|to| cluster.network().set_link(from, to, link));
        }
        std::thread::sleep(short_or_long(5, 60) as u32 * SECOND);
        cluster.heal();
    });
    let links = cluster.nodes().flat_map(|from| cluster.nodes().map(move |to| (from, to)));
    let corrupted_counts = links.filter(|(from, to)| from != to);
    let corrupted_counts =
        corrupted_counts.map(|(from, to)| cluster.network().counts(from, to).corrupted);
    let corrupted: u64 = corrupted_counts.sum();
    let detected = cluster.nodes().map(|node| checksum_errors(cluster, node)).sum::<usize>();
    trial.figures.add("packets_changed", corrupted);
    trial.figures.add("frames_refused_by_checksum", detected);
    trial.end(cluster);
    assert!(corrupted > 0 && detected > 0, "{detected} noticed of {corrupted}");
}

/// Returns the number of connections that a node ended because a frame's checksum was wrong.
fn checksum_errors(cluster: &mut Cluster, node: usize) -> usize {
    let stderr = cluster.server(node).stderr_text();
    stderr
        .matches("connection ended: an invalid frame was received: its checksum does not match")
        .count()
}

/// Cuts links one by one until none is left, and heals them one by one in another order.
fn cut_and_heal_in_random_order(cluster: &mut Cluster) {
    let mut trial = Trial::start("F-14 swizzle", cluster, plan(14));
    trial.bounds.recovery_max = two_leases(cluster, 2 * SECOND);
    let mut dice = StdRng::seed_from_u64(14);
    let started = Instant::now();
    while trial.faults.is_empty() || started.elapsed() < short_or_long(0, 600) as u32 * SECOND {
        let mut links: Vec<_> = cluster
            .nodes()
            .flat_map(|from| cluster.nodes().map(move |to| (from, to)))
            .filter(|(from, to)| from != to)
            .collect();
        trial.fault(cluster, |cluster| {
            for cable in [Cable::CUT, Cable::default()] {
                links.shuffle(&mut dice);
                for (from, to) in &links {
                    std::thread::sleep(SECOND * 2 / 3);
                    cluster.network().set_link(*from, *to, cable);
                }
            }
        });
    }
    trial.end(cluster);
}

#[test]
fn hub_that_alone_reaches_a_majority_of_five_becomes_master() {
    let name = "F-10, F-11 quorum loss around a hub";
    if let Some(reason) = Network::missing() {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-hub");
    let mut cluster = Cluster::start(&scratch, Options::new(5).with_switch());
    let election_time =
        isolate_around_hub(&mut cluster, "F-10 quorum loss around a hub", 10, |_, _| {});
    // A node that received nothing for a lease starts an election: that is one election.
    let limit = 4 * cluster.lease();
    check_bound(
        "F-10 until the hub takes writes, s",
        election_time.as_secs_f64(),
        limit.as_secs_f64(),
    );
    // The hub's messages are delayed, so that it lags when they are cut off.
    isolate_around_hub(
        &mut cluster,
        "F-11 quorum loss around a hub that is behind",
        11,
        |cluster, hub| {
            for other in cluster.nodes().filter(|other| *other != hub) {
                cluster.network().set_link(other, hub, Cable::slow(Duration::from_millis(300)));
            }
            std::thread::sleep(2 * SECOND);
        },
    );
}

/// Every node reaches only one other, the hub, which is not the master; returns the longest time
/// until the hub led.
fn isolate_around_hub(
    cluster: &mut Cluster,
    name: &str,
    seed: u64,
    prepare: impl Fn(&Cluster, usize),
) -> Duration {
    let mut trial = Trial::start(name, cluster, plan(seed));
    let mut longest = Duration::ZERO;
    for _ in 0..short_or_long(1, 5) {
        let master = cluster.master();
        let hub = cluster.follower();
        trial.fault(cluster, |cluster| {
            prepare(cluster, hub);
            let others: Vec<_> = cluster.nodes().filter(|node| *node != hub).collect();
            for (at, one) in others.iter().enumerate() {
                others[at + 1..].iter().for_each(|other| cluster.cut(*one, *other));
            }
            for other in others {
                cluster.network().link_both_ways(other, hub, Cable::default());
            }
            let cut_at = Instant::now();
            assert_eq!(new_master(cluster, master), hub, "only the hub hears a majority");
            let address = cluster.client_address(hub);
            cluster.on_client_host(|| {
                let mut redis = Resp::connect(address).expect("clients reach it");
                while redis.call_line("SET hub leads").expect("it answers").error().is_some() {
                    assert!(cut_at.elapsed() < 60 * SECOND, "the hub leads and takes no writes");
                }
            });
            longest = longest.max(cut_at.elapsed());
            std::thread::sleep(3 * SECOND);
            cluster.heal();
        });
    }
    trial.figures.add("hub_took_writes_after_ms", longest.as_millis());
    trial.end(cluster);
    longest
}

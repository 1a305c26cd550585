//! F-08 and F-10 to F-15: links that are cut between nodes; clients reach all of them.

use super::{SECOND, Trial, plan, two_leases};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use std::time::{Duration, Instant};
use systest::client::{Resp, RespReply};
use systest::report::{bound, skipped, times};
use systest::rigs::{Cable, Cluster, Network, Options, Scratch, experiment};

#[test]
fn a_cluster_whose_cables_are_cut_stays_one() {
    let name = "F-08, F-12 to F-15 cables";
    if let Some(why) = Network::missing() {
        return skipped(name, &why);
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-wires");
    let mut options = Options::of(3).behind_the_switch();
    // At this level nodes log why a connection ended.
    options.words.extend(["--log-level", "info,other=info"].map(String::from));
    let mut cluster = Cluster::start(&scratch, options);
    master_isolated(&mut cluster);
    chain(&mut cluster);
    one_way(&mut cluster);
    bad(&mut cluster);
    swizzle(&mut cluster);
}

/// Clients still reach a master that reaches no other node: it must answer nothing from its old
/// state.
fn master_isolated(cluster: &mut Cluster) {
    let mut trial = Trial::begin("F-08 master isolated", cluster, plan(8));
    let (mut refused, mut slowest) = (0, Duration::ZERO);
    for _ in 0..times(2, 10) {
        let master = cluster.master();
        trial.fault(cluster, |cluster| {
            let cut = Instant::now();
            cluster.isolate(master);
            assert_ne!(new_master(cluster, master), master);
            slowest = slowest.max(cut.elapsed());
            std::thread::sleep((2 * cluster.lease()).saturating_sub(cut.elapsed()));
            refused += ask_the_isolated(cluster, master);
            cluster.heal();
        });
    }
    trial.figures.also("refused_by_the_isolated", refused);
    trial.figures.also("new_master_after_ms", slowest.as_millis());
    trial.end(cluster);
    let limit = 2 * cluster.lease();
    bound("F-08 until another leads, s", slowest.as_secs_f64(), limit.as_secs_f64());
}

/// Asks a cut-off master: once its lease has expired it must answer neither reads nor writes.
fn ask_the_isolated(cluster: &Cluster, master: usize) -> u32 {
    let address = cluster.client(master);
    cluster.from_clients(|| {
        let mut refused = 0;
        for command in ["GET probe", "SET probe isolated"].into_iter().cycle().take(6) {
            let mut redis = Resp::with_patience(address, SECOND).expect("clients reach it");
            match redis.say(command) {
                Ok(RespReply::Error(_)) | Err(_) => refused += 1,
                other => panic!("a master that is cut off answers {command} with {other:?}"),
            }
        }
        refused
    })
}

/// Waits for the node that leads instead of this one, and returns it.
fn new_master(cluster: &Cluster, old: usize) -> usize {
    let until = Instant::now() + 60 * SECOND;
    loop {
        let said: Vec<_> = cluster.nodes().filter_map(|node| cluster.said(node, 1)).collect();
        let new = said.iter().find(|one| one.role == "master" && one.node != old);
        if let Some(new) = new {
            return new.node;
        }
        assert!(Instant::now() < until, "nobody else leads: {said:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// One end of a chain can't hear the master at the other end: elections must not follow each other.
fn chain(cluster: &mut Cluster) {
    let mut trial = Trial::begin("F-12 chain", cluster, plan(12));
    let master = cluster.master();
    let far = cluster.follower();
    let mut changes = 0;
    trial.fault(cluster, |cluster| {
        cluster.cut(master, far);
        let until = Instant::now() + times(20, 60) as u32 * SECOND;
        let mut last = ballot(cluster);
        while Instant::now() < until {
            std::thread::sleep(Duration::from_millis(100));
            let now = ballot(cluster);
            changes += usize::from(now.is_some() && now != last);
            last = now.or(last);
        }
        cluster.heal();
    });
    trial.figures.also("master_changes", changes);
    let (from, to) = trial.faults[0];
    let history = trial.end(cluster);
    let written = history.updates().iter().filter(|at| (from..to).contains(at)).count();
    assert!(written > 100, "a chain with a master in it takes writes, not {written}");
    assert!(changes <= 1, "{changes} changes of the master in a chain that stood still");
}

/// Returns the ballot of the node that reports itself as leader.
fn ballot(cluster: &Cluster) -> Option<String> {
    let said = cluster.nodes().filter_map(|node| cluster.said(node, 1));
    said.filter(|one| one.role == "master").map(|one| one.ballot).max()
}

/// Cuts each direction between two nodes in turn.
fn one_way(cluster: &mut Cluster) {
    let mut trial = Trial::begin("F-13 one-way cuts", cluster, plan(13));
    trial.bounds.gap_max = two_leases(cluster, SECOND);
    for from in cluster.nodes() {
        for to in cluster.nodes().filter(|to| *to != from) {
            trial.fault(cluster, |cluster| {
                cluster.network().link(from, to, Cable::CUT);
                std::thread::sleep(times(3, 10) as u32 * SECOND);
                cluster.heal();
            });
        }
    }
    trial.end(cluster);
}

/// Delays, reorders, loses, duplicates and corrupts packets between all nodes. Each corruption must
/// be found by a frame's checksum, for TCP does not find it (`rigs_network`), and have no effect.
fn bad(cluster: &mut Cluster) {
    let mut trial = Trial::begin("F-15 bad network", cluster, plan(15));
    let (delay, jitter) = (Duration::from_millis(25), Duration::from_millis(20));
    // In a few seconds at half a percent there may be none.
    let corrupt = times(10, 5) as u32;
    let link = Cable { delay, jitter, loss: 50, twice: 100, corrupt, ..Cable::default() };
    trial.fault(cluster, |cluster| {
        for from in cluster.nodes() {
            let others = cluster.nodes().filter(|to| *to != from);
            others.for_each(|to| cluster.network().link(from, to, link));
        }
        std::thread::sleep(times(5, 60) as u32 * SECOND);
        cluster.heal();
    });
    let ways = cluster.nodes().flat_map(|from| cluster.nodes().map(move |to| (from, to)));
    let counts = ways.filter(|(from, to)| from != to);
    let counts = counts.map(|(from, to)| cluster.network().counts(from, to).corrupted);
    let corrupted: u64 = counts.sum();
    let noticed = cluster.nodes().map(|node| said_of_checksums(cluster, node)).sum::<usize>();
    trial.figures.also("packets_changed", corrupted);
    trial.figures.also("frames_refused_by_checksum", noticed);
    trial.end(cluster);
    assert!(corrupted > 0 && noticed > 0, "{noticed} noticed of {corrupted}");
}

/// Returns the number of connections that a node ended because a frame's checksum was wrong.
fn said_of_checksums(cluster: &mut Cluster, node: usize) -> usize {
    let said = cluster.server(node).said();
    said.matches("connection ended: a bad frame came: its checksum does not hold").count()
}

/// Cuts links one by one until none is left, and heals them one by one in another order.
fn swizzle(cluster: &mut Cluster) {
    let mut trial = Trial::begin("F-14 swizzle", cluster, plan(14));
    trial.bounds.recovery_max = two_leases(cluster, 2 * SECOND);
    let mut dice = StdRng::seed_from_u64(14);
    let begun = Instant::now();
    while trial.faults.is_empty() || begun.elapsed() < times(0, 600) as u32 * SECOND {
        let mut ways: Vec<_> = cluster
            .nodes()
            .flat_map(|from| cluster.nodes().map(move |to| (from, to)))
            .filter(|(from, to)| from != to)
            .collect();
        trial.fault(cluster, |cluster| {
            for link in [Cable::CUT, Cable::default()] {
                ways.shuffle(&mut dice);
                for (from, to) in &ways {
                    std::thread::sleep(SECOND * 2 / 3);
                    cluster.network().link(*from, *to, link);
                }
            }
        });
    }
    trial.end(cluster);
}

#[test]
fn five_nodes_of_which_only_one_hears_all_go_on() {
    let name = "F-10, F-11 quorum loss around a hub";
    if let Some(why) = Network::missing() {
        return skipped(name, &why);
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-hub");
    let mut cluster = Cluster::start(&scratch, Options::of(5).behind_the_switch());
    let took = hub(&mut cluster, "F-10 quorum loss around a hub", 10, |_, _| {});
    // A node that has heard nothing for a lease tries to lead: that is one election.
    let limit = 4 * cluster.lease();
    bound("F-10 until the hub takes writes, s", took.as_secs_f64(), limit.as_secs_f64());
    // The hub's messages are delayed, so that it lags when they are cut off.
    hub(&mut cluster, "F-11 quorum loss around a hub that is behind", 11, |cluster, hub| {
        for other in cluster.nodes().filter(|other| *other != hub) {
            cluster.network().link(other, hub, Cable::slow(Duration::from_millis(300)));
        }
        std::thread::sleep(2 * SECOND);
    });
}

/// Every node hears only one other, the hub, which is not the master; returns the longest time
/// until the hub led.
fn hub(cluster: &mut Cluster, name: &str, seed: u64, before: impl Fn(&Cluster, usize)) -> Duration {
    let mut trial = Trial::begin(name, cluster, plan(seed));
    let mut took = Duration::ZERO;
    for _ in 0..times(1, 5) {
        let master = cluster.master();
        let hub = cluster.follower();
        trial.fault(cluster, |cluster| {
            before(cluster, hub);
            let others: Vec<_> = cluster.nodes().filter(|node| *node != hub).collect();
            for (at, one) in others.iter().enumerate() {
                others[at + 1..].iter().for_each(|other| cluster.cut(*one, *other));
            }
            for other in others {
                cluster.network().both(other, hub, Cable::default());
            }
            let cut = Instant::now();
            assert_eq!(new_master(cluster, master), hub, "only the hub hears a majority");
            let address = cluster.client(hub);
            cluster.from_clients(|| {
                let mut redis = Resp::connect(address).expect("clients reach it");
                while redis.say("SET hub leads").expect("it answers").error().is_some() {
                    assert!(cut.elapsed() < 60 * SECOND, "the hub leads and takes no writes");
                }
            });
            took = took.max(cut.elapsed());
            std::thread::sleep(3 * SECOND);
            cluster.heal();
        });
    }
    trial.figures.also("hub_took_writes_after_ms", took.as_millis());
    trial.end(cluster);
    took
}

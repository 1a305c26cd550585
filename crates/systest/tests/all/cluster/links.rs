//! F-16: a follower behind a link that is far slower than the writes of the others.

use super::{SECOND, Trial, percentile, plan, waits_for_the_long_tests};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use systest::report::{bound, ratio, say, skipped};
use systest::rigs::{Cable, Cluster, Network, Options, Scratch, experiment, resident_bytes};
use systest::workload::Load;
use systest::workload::ledger::{ClientProtocol, Writing};

/// Rate of the slow link: a million bits a second.
const NARROW_KBIT: u32 = 1_000;
/// Number of updates while the link is slow: more than the log keeps for a lagging member, though
/// many of them are small ones of the other clients.
const UPDATES: f64 = 30_000.0;
const VALUE_BYTES_MAX: usize = 32 << 10;
/// Most memory that a master may hold, however far a member lags.
const RESIDENT_BYTES_MAX: u64 = 512 << 20;
const UPDATED: &str = "credenza_updates_total";
const RECEIVED: &str = "credenza_snapshots_received_total";

#[test]
fn a_follower_behind_a_narrow_cable_holds_nobody_up() {
    let name = "F-16 slow follower link";
    if waits_for_the_long_tests(name) {
        return;
    }
    if let Some(why) = Network::missing() {
        return skipped(name, &why);
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-narrow");
    let mut options = Options::of(3).behind_the_switch();
    options.words.extend(["--log-bytes-max", "128MiB"].map(String::from));
    let mut cluster = Cluster::start(&scratch, options);
    let mut trial = Trial::begin(name, &cluster, plan(16));
    let (master, follower) = (cluster.master(), cluster.follower());
    // The same load runs before, so that only the link differs.
    let wide = trial.recorder.now();
    let load = write_much(&cluster, master, 50);
    std::thread::sleep(4 * SECOND);
    trial.told.join(load.stop());
    let narrow = trial.recorder.now();
    let load = write_much(&cluster, master, 60);
    let (mut behind, mut resident, mut took) = (0, 0, Duration::ZERO);
    trial.fault(&mut cluster, |cluster| {
        cluster.network().both(master, follower, Cable::narrow(NARROW_KBIT));
        let before = cluster.metric(master, UPDATED);
        while cluster.metric(master, UPDATED) < before + UPDATES {
            std::thread::sleep(SECOND / 4);
            resident = resident.max(resident_bytes(cluster.server(master).pid()));
            behind = behind.max(lag(cluster, master, follower));
        }
        cluster.heal();
        let healed = Instant::now();
        cluster.must_catch_up(follower);
        took = healed.elapsed();
    });
    trial.told.join(load.stop());
    let healed = trial.faults[0].1;
    let received = cluster.metric(follower, RECEIVED);
    trial.figures.also("values_behind_at_most", behind);
    trial.figures.also("master_resident_MiB_at_most", resident >> 20);
    trial.figures.also("level_after_ms", took.as_millis());
    trial.figures.also("snapshots_received", received);
    let history = trial.end(&cluster);
    let p99 = |from, to| {
        let others = cluster.nodes().filter(|node| *node != follower);
        let times = others.flat_map(|node| history.times(from, to, node - 1)).collect();
        percentile(times, 99)
    };
    let (before, during) = (p99(wide, narrow), p99(narrow, healed));
    say(&format!("F-16 p99 of the others' clients before={before:?} during={during:?}"));
    bound("F-16 p99 of the others' clients, times", ratio(during, before), 2.0);
    assert!(received >= 1.0, "the log reached back far enough: no snapshot was needed");
    assert!(resident < RESIDENT_BYTES_MAX, "the master holds {resident} bytes");
}

/// Returns the number of values that a follower lacks.
fn lag(cluster: &Cluster, master: usize, follower: usize) -> u64 {
    let applied = |node| cluster.said(node, 1).map_or(0, |said| said.applied);
    applied(master).saturating_sub(applied(follower))
}

/// Starts four clients of one node, each with large values.
fn write_much(cluster: &Cluster, node: usize, first: usize) -> Load {
    let one = |at: usize| Writing {
        client: first + at,
        keys: 200,
        depth: 2,
        bytes: VALUE_BYTES_MAX,
        protocol: ClientProtocol::Resp,
    };
    let nodes: [SocketAddr; 1] = [cluster.client(node)];
    let writing: Vec<_> = (0..4).map(one).collect();
    cluster.from_clients(|| Load::roam(&nodes, &writing, 10 * SECOND))
}

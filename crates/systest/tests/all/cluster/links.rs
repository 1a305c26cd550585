//! F-16: a follower behind a link that is far slower than the writes of the others.

use super::{SECOND, Trial, is_left_to_long_form, percentile, plan};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use systest::cluster::{Cluster, Options};
use systest::environment::{Scratch, experiment, resident_bytes};
use systest::fault_injection::{Cable, Network};
use systest::report::{check_bound, print_line, ratio, skipped};
use systest::workload::Load;
use systest::workload::ledger::{ClientProtocol, WriterPlan};

/// Rate of the slow link: a million bits a second.
const NARROW_KBIT: u32 = 1_000;
/// Number of updates while the link is slow: more than the log keeps for a lagging member, though
/// many of them are small ones of the other clients.
const UPDATES: f64 = 30_000.0;
const VALUE_BYTES_MAX: usize = 32 << 10;
/// Most memory that a master may hold, however far a member lags.
const RESIDENT_BYTES_MAX: u64 = 512 << 20;
const UPDATES_TOTAL: &str = "credenza_updates_total";
const SNAPSHOTS_RECEIVED: &str = "credenza_snapshots_received_total";

#[test]
fn slow_follower_link_delays_no_other_client_and_bounds_memory() {
    let name = "F-16 slow follower link";
    if is_left_to_long_form(name) {
        return;
    }
    if let Some(reason) = Network::missing() {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-narrow");
    let mut options = Options::new(3).with_switch();
    options.args.extend(["--log-bytes-max", "128MiB"].map(String::from));
    let mut cluster = Cluster::start(&scratch, options);
    let mut trial = Trial::start(name, &cluster, plan(16));
    let (master, follower) = (cluster.master(), cluster.follower());
    // The same load runs before, so that only the link differs.
    let baseline_start = trial.recorder.now();
    let load = start_large_writes(&cluster, master, 50);
    std::thread::sleep(4 * SECOND);
    trial.extra_ledger.join(load.stop());
    let narrow_start = trial.recorder.now();
    let load = start_large_writes(&cluster, master, 60);
    let (mut largest_lag, mut resident, mut catch_up_time) = (0, 0, Duration::ZERO);
    trial.fault(&mut cluster, |cluster| {
        cluster.network().link_both_ways(master, follower, Cable::narrow(NARROW_KBIT));
        let before = cluster.metric(master, UPDATES_TOTAL);
        while cluster.metric(master, UPDATES_TOTAL) < before + UPDATES {
            std::thread::sleep(SECOND / 4);
            resident = resident.max(resident_bytes(cluster.server(master).pid()));
            largest_lag = largest_lag.max(lag(cluster, master, follower));
        }
        cluster.heal();
        let healed = Instant::now();
        cluster.must_catch_up(follower);
        catch_up_time = healed.elapsed();
    });
    trial.extra_ledger.join(load.stop());
    let healed = trial.faults[0].1;
    let received = cluster.metric(follower, SNAPSHOTS_RECEIVED);
    trial.figures.add("values_behind_at_most", largest_lag);
    trial.figures.add("master_resident_MiB_at_most", resident >> 20);
    trial.figures.add("level_after_ms", catch_up_time.as_millis());
    trial.figures.add("snapshots_received", received);
    let history = trial.end(&cluster);
    let p99 = |from, to| {
        let others = cluster.nodes().filter(|node| *node != follower);
        let times = others.flat_map(|node| history.durations(from, to, node - 1)).collect();
        percentile(times, 99)
    };
    let (before, during) = (p99(baseline_start, narrow_start), p99(narrow_start, healed));
    print_line(&format!("F-16 p99 of the others' clients before={before:?} during={during:?}"));
    check_bound("F-16 p99 of the others' clients, times", ratio(during, before), 2.0);
    assert!(received >= 1.0, "the log reached back far enough: no snapshot was needed");
    assert!(resident < RESIDENT_BYTES_MAX, "the master holds {resident} bytes");
}

/// Returns the number of values that a follower lacks.
fn lag(cluster: &Cluster, master: usize, follower: usize) -> u64 {
    let applied = |node| cluster.group_status(node, 1).map_or(0, |status| status.applied);
    applied(master).saturating_sub(applied(follower))
}

/// Starts four clients of one node, each with large values.
fn start_large_writes(cluster: &Cluster, node: usize, first: usize) -> Load {
    let plan = |at: usize| WriterPlan {
        client: first + at,
        keys: 200,
        depth: 2,
        bytes: VALUE_BYTES_MAX,
        protocol: ClientProtocol::Resp,
    };
    let nodes: [SocketAddr; 1] = [cluster.client_address(node)];
    let plans: Vec<_> = (0..4).map(plan).collect();
    cluster.on_client_host(|| Load::with_failover(&nodes, &plans, 10 * SECOND))
}

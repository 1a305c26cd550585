//! F-02 to F-05 and F-09: nodes that are killed, stopped and paused, on loopback.

use super::{SECOND, Trial, percentile, plan, two_leases};
use std::time::{Duration, Instant};
use systest::client::{Resp, RespReply};
use systest::cluster::{Cluster, Options};
use systest::environment::{Scratch, experiment, path_str, run_ok};
use systest::report::{Figures, check_bound, print_line, ratio, short_or_long};
use systest::workload::registers::RegisterPlan;

/// Lease of a cluster with default settings.
const DEFAULT_LEASE: Duration = Duration::from_millis(600);
/// Most seconds without a write after the master of such a cluster is killed, in the median: half
/// of the lease, syncs and round trips (docs/inside/consensus.md).
const KILLED_GAP_S_MAX: f64 = 0.5;

#[test]
fn cluster_stays_linearizable_under_kills_restarts_and_pauses() {
    let _permit = experiment();
    let scratch = Scratch::new("cluster-master");
    let mut cluster = Cluster::start(&scratch, Options::new(3));
    run_without_fault(&mut cluster);
    kill_master_under_load(&mut cluster);
    kill_follower_under_load(&mut cluster);
    kill_all_under_load(&mut cluster);
    restart_one_by_one(&mut cluster);
    pause_master_under_load(&mut cluster);
}

/// Without a fault every call has an answer, and the master stays.
fn run_without_fault(cluster: &mut Cluster) {
    let before = cluster.group_status(cluster.master(), 1).expect("it answers").ballot;
    let trial = Trial::start("F-01 cluster, no fault", cluster, plan(1));
    std::thread::sleep(4 * SECOND);
    let after = cluster.group_status(cluster.master(), 1).expect("it answers").ballot;
    let history = trial.end(cluster);
    assert_eq!(history.counts().2, 0, "calls without an answer");
    assert_eq!(before, after, "the master changed for no reason");
}

fn kill_master_under_load(cluster: &mut Cluster) {
    let mut trial = Trial::start("F-02 master killed", cluster, plan(2));
    trial.bounds.gap_max = two_leases(cluster, SECOND);
    kill_masters(&mut trial, cluster, short_or_long(3, 30));
    trial.end(cluster);
}

/// Kills the master several times, and restarts it.
fn kill_masters(trial: &mut Trial, cluster: &mut Cluster, count: usize) {
    for _ in 0..count {
        let master = cluster.master();
        trial.fault(cluster, |cluster| {
            let killed = Instant::now();
            cluster.kill(master);
            assert_ne!(cluster.master(), master);
            // Long enough that another node leads without it.
            let down_time = short_or_long(0, 5) as u32 * SECOND;
            std::thread::sleep(down_time.saturating_sub(killed.elapsed()));
            cluster.start_node(master);
        });
    }
}

/// Kills masters of a cluster with default timers.
#[test]
fn killed_master_with_default_timers_is_replaced_without_loss() {
    let _permit = experiment();
    let scratch = Scratch::new("cluster-default-timers");
    let options = Options { lease: DEFAULT_LEASE, ..Options::new(3) };
    let mut cluster = Cluster::start(&scratch, options);
    let name = "F-02 master killed, default timers";
    let mut trial = Trial::start(name, &cluster, plan(61));
    trial.bounds.gap_max = two_leases(&cluster, SECOND);
    kill_masters(&mut trial, &mut cluster, short_or_long(2, 30));
    let faults = trial.faults.clone();
    let history = trial.end(&cluster);
    let gaps: Vec<_> = faults.iter().map(|(from, to)| history.gap(*from, *to)).collect();
    let longest = gaps.iter().max().copied().unwrap_or_default();
    let p50 = percentile(gaps, 50);
    print_line(&format!("{name}: gap p50_ms={} max_ms={}", p50.as_millis(), longest.as_millis()));
    check_bound(
        "F-02 median gap with default timers, seconds",
        p50.as_secs_f64(),
        KILLED_GAP_S_MAX,
    );
}

/// Kills followers: calls at the other nodes must not fail or slow down.
fn kill_follower_under_load(cluster: &mut Cluster) {
    let mut trial = Trial::start("F-03 follower killed", cluster, plan(3));
    let down_time = short_or_long(3, 5) as u32 * SECOND;
    let follower = cluster.follower();
    let (from, mut killed_at) = (trial.recorder.now(), Vec::new());
    std::thread::sleep(2 * SECOND);
    for _ in 0..short_or_long(1, 30) {
        killed_at.push(trial.recorder.now());
        trial.fault(cluster, |cluster| {
            cluster.kill(follower);
            std::thread::sleep(down_time);
            cluster.start_node(follower);
        });
    }
    let other_nodes: Vec<_> = cluster.nodes().filter(|node| *node != follower).collect();
    let p99 = |history: &systest::workload::registers::RegisterHistory, from, to| {
        let times = other_nodes.iter().flat_map(|node| history.durations(from, to, node - 1));
        percentile(times.collect(), 99)
    };
    let first_kill = killed_at.first().copied().unwrap_or_default();
    let history = trial.end(cluster);
    let before = p99(&history, from, first_kill);
    let during = killed_at.into_iter().map(|at| p99(&history, at, at + down_time)).max();
    let during = during.unwrap_or_default();
    print_line(&format!(
        "F-03 p99 before={}us during={}us",
        before.as_micros(),
        during.as_micros()
    ));
    check_bound("F-03 p99 of the others' clients, times", ratio(during, before), 3.0);
    let failed_call = history
        .calls
        .iter()
        .find(|call| !call.outcome.is_acknowledged() && other_nodes.contains(&(call.node + 1)));
    assert!(
        failed_call.is_none(),
        "a client of another node noticed: {}",
        failed_call.expect("there is")
    );
}

fn kill_all_under_load(cluster: &mut Cluster) {
    let mut trial = Trial::start("F-04 all killed", cluster, plan(4));
    trial.bounds.gap_max = two_leases(cluster, 3 * SECOND);
    for _ in 0..short_or_long(2, 20) {
        trial.fault(cluster, |cluster| {
            cluster.nodes().for_each(|node| cluster.kill(node));
            cluster.start_all();
        });
    }
    trial.end(cluster);
}

/// Restarts the nodes one by one: a master that is stopped hands its lease over.
fn restart_one_by_one(cluster: &mut Cluster) {
    let mut trial = Trial::start("F-05 rolling restart", cluster, plan(5));
    trial.bounds.gap_max = Some(SECOND / 2);
    for _ in 0..short_or_long(1, 5) {
        for node in cluster.nodes() {
            trial.fault(cluster, |cluster| {
                assert_eq!(cluster.stop(node), Some(0));
                std::thread::sleep(SECOND);
                cluster.start_node(node);
            });
        }
    }
    trial.end(cluster);
}

/// Pauses the master for longer than its lease: it must answer nothing from its old state.
fn pause_master_under_load(cluster: &mut Cluster) {
    let plan = RegisterPlan { timeout: 10 * SECOND, ..plan(9) };
    let mut trial = Trial::start("F-09 master paused", cluster, plan);
    let (mut fresh, mut refused) = (0, 0);
    for _ in 0..short_or_long(1, 10) {
        let master = cluster.master();
        let answers = trial.pause_with_pending_reads(cluster, master);
        fresh += answers.0;
        refused += answers.1;
    }
    trial.figures.add("answers_after_waking", format!("{fresh} fresh, {refused} refused"));
    trial.end(cluster);
}

impl Trial {
    /// Pauses the master for three leases. It finds the requests sent meanwhile when it resumes;
    /// the key has changed by then.
    fn pause_with_pending_reads(&mut self, cluster: &mut Cluster, master: usize) -> (u32, u32) {
        let mut readers: Vec<_> = (0..10)
            .map(|_| Resp::connect(cluster.client_address(master)).expect("it listens"))
            .collect();
        let set = |cluster: &Cluster, node: usize, value: &str| {
            let mut redis = Resp::connect(cluster.client_address(node)).expect("it listens");
            let answer = redis.call_line(&format!("SET slept {value}")).expect("it answers");
            assert_eq!(answer, RespReply::Simple("OK".into()));
        };
        let (mut current_reads, mut refused_reads) = (0, 0);
        self.fault(cluster, |cluster| {
            set(cluster, master, "before");
            cluster.pause(master);
            std::thread::sleep(2 * cluster.lease());
            let other = cluster.master();
            assert_ne!(other, master);
            cluster.must_serve();
            set(cluster, other, "meanwhile");
            for reader in &mut readers {
                reader
                    .send(&systest::client::encode_command(&[b"GET", b"slept"]))
                    .expect("it is buffered");
            }
            std::thread::sleep(cluster.lease());
            cluster.resume(master);
            for reader in &mut readers {
                match reader.receive().expect("it answers when it wakes") {
                    RespReply::Bulk(Some(value)) => {
                        assert_eq!(value, b"meanwhile", "a stale read");
                        current_reads += 1;
                    }
                    RespReply::Error(_) => refused_reads += 1,
                    other => panic!("a key that exists is answered {other:?}"),
                }
            }
        });
        (current_reads, refused_reads)
    }
}

/// Positive control of the checker: a majority's directories are replaced by old copies.
#[test]
fn ledger_reports_lost_writes_after_rollback_to_old_copies() {
    let _permit = experiment();
    let scratch = Scratch::new("cluster-forgets");
    let mut cluster = Cluster::start(&scratch, Options::new(3));
    let mut figures = Figures::start("F-04 cluster, control");
    cluster.nodes().for_each(|node| assert_eq!(cluster.stop(node), Some(0)));
    for node in cluster.nodes() {
        let data = cluster.setup_mut(node).data.clone();
        let copy = data.with_extension("copy");
        run_ok(&["cp", "-a", path_str(&data), path_str(&copy)]);
    }
    cluster.start_all();
    cluster.must_serve();
    let load = systest::workload::Load::with_failover(
        &cluster.client_addresses(),
        &super::writers(0),
        SECOND,
    );
    std::thread::sleep(2 * SECOND);
    let ledger = load.stop();
    cluster.nodes().for_each(|node| cluster.kill(node));
    for node in cluster.nodes() {
        let data = cluster.setup_mut(node).data.clone();
        let copy = data.with_extension("copy");
        std::fs::remove_dir_all(&data).expect("it is ours");
        std::fs::rename(copy, data).expect("both are in one folder");
    }
    cluster.start_all();
    cluster.must_serve();
    let verdict = ledger.judge(cluster.client_address(1)).expect("it is readable");
    figures.add("control_lost", verdict.lost.len());
    figures.print();
    assert!(!verdict.lost.is_empty(), "the judge does not see a forgotten round");
}

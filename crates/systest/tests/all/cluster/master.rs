//! F-02 to F-05 and F-09: nodes that are killed, stopped and paused, on loopback.

use super::{SECOND, Trial, percentile, plan, two_leases};
use std::time::{Duration, Instant};
use systest::client::{Resp, RespReply};
use systest::report::{Figures, bound, ratio, say, times};
use systest::rigs::{Cluster, Options, Scratch, experiment, must, text};
use systest::workload::registers::RegisterPlan;

/// Lease of a cluster with default settings.
const DEFAULT_LEASE: Duration = Duration::from_millis(600);

#[test]
fn a_cluster_whose_nodes_are_killed_stopped_and_paused_stays_one() {
    let _permit = experiment();
    let scratch = Scratch::new("cluster-master");
    let mut cluster = Cluster::start(&scratch, Options::of(3));
    nothing(&mut cluster);
    master_killed(&mut cluster);
    follower_killed(&mut cluster);
    all_killed(&mut cluster);
    rolling_restart(&mut cluster);
    master_paused(&mut cluster);
}

/// Without a fault every call has an answer, and the master stays.
fn nothing(cluster: &mut Cluster) {
    let before = cluster.said(cluster.master(), 1).expect("it answers").ballot;
    let trial = Trial::begin("F-01 cluster, no fault", cluster, plan(1));
    std::thread::sleep(4 * SECOND);
    let after = cluster.said(cluster.master(), 1).expect("it answers").ballot;
    let history = trial.end(cluster);
    assert_eq!(history.counts().2, 0, "calls without an answer");
    assert_eq!(before, after, "the master changed for no reason");
}

fn master_killed(cluster: &mut Cluster) {
    let mut trial = Trial::begin("F-02 master killed", cluster, plan(2));
    trial.bounds.gap_max = two_leases(cluster, SECOND);
    masters_killed(&mut trial, cluster, times(3, 30));
    trial.end(cluster);
}

/// Kills the master several times, and restarts it.
fn masters_killed(trial: &mut Trial, cluster: &mut Cluster, count: usize) {
    for _ in 0..count {
        let master = cluster.master();
        trial.fault(cluster, |cluster| {
            let killed = Instant::now();
            cluster.kill(master);
            assert_ne!(cluster.master(), master);
            // Long enough that another node leads without it.
            let away = times(0, 5) as u32 * SECOND;
            std::thread::sleep(away.saturating_sub(killed.elapsed()));
            cluster.begin(master);
        });
    }
}

/// Kills masters of a cluster with default timers.
#[test]
fn a_master_with_default_timers_is_killed() {
    let _permit = experiment();
    let scratch = Scratch::new("cluster-default-timers");
    let options = Options { lease: DEFAULT_LEASE, ..Options::of(3) };
    let mut cluster = Cluster::start(&scratch, options);
    let name = "F-02 master killed, default timers";
    let mut trial = Trial::begin(name, &cluster, plan(61));
    trial.bounds.gap_max = two_leases(&cluster, SECOND);
    masters_killed(&mut trial, &mut cluster, times(2, 30));
    let faults = trial.faults.clone();
    let history = trial.end(&cluster);
    let gaps: Vec<_> = faults.iter().map(|(from, to)| history.gap(*from, *to)).collect();
    let most = gaps.iter().max().copied().unwrap_or_default();
    let p50 = percentile(gaps, 50);
    say(&format!("{name}: gap p50_ms={} max_ms={}", p50.as_millis(), most.as_millis()));
}

/// Kills followers: clients of the other nodes must not notice.
fn follower_killed(cluster: &mut Cluster) {
    let mut trial = Trial::begin("F-03 follower killed", cluster, plan(3));
    let away = times(3, 5) as u32 * SECOND;
    let follower = cluster.follower();
    let (from, mut killed) = (trial.recorder.now(), Vec::new());
    std::thread::sleep(2 * SECOND);
    for _ in 0..times(1, 30) {
        killed.push(trial.recorder.now());
        trial.fault(cluster, |cluster| {
            cluster.kill(follower);
            std::thread::sleep(away);
            cluster.begin(follower);
        });
    }
    let others: Vec<_> = cluster.nodes().filter(|node| *node != follower).collect();
    let p99 = |history: &systest::workload::registers::RegisterHistory, from, to| {
        let times = others.iter().flat_map(|node| history.times(from, to, node - 1));
        percentile(times.collect(), 99)
    };
    let first = killed.first().copied().unwrap_or_default();
    let history = trial.end(cluster);
    let before = p99(&history, from, first);
    let during = killed.into_iter().map(|at| p99(&history, at, at + away)).max();
    let during = during.unwrap_or_default();
    say(&format!("F-03 p99 before={}us during={}us", before.as_micros(), during.as_micros()));
    bound("F-03 p99 of the others' clients, times", ratio(during, before), 3.0);
    let failed = history
        .calls
        .iter()
        .find(|call| !call.outcome.is_acknowledged() && others.contains(&(call.node + 1)));
    assert!(failed.is_none(), "a client of another node noticed: {}", failed.expect("there is"));
}

fn all_killed(cluster: &mut Cluster) {
    let mut trial = Trial::begin("F-04 all killed", cluster, plan(4));
    trial.bounds.gap_max = two_leases(cluster, 3 * SECOND);
    for _ in 0..times(2, 20) {
        trial.fault(cluster, |cluster| {
            cluster.nodes().for_each(|node| cluster.kill(node));
            cluster.begin_all();
        });
    }
    trial.end(cluster);
}

/// Restarts the nodes one by one: a master that is stopped hands its lease over.
fn rolling_restart(cluster: &mut Cluster) {
    let mut trial = Trial::begin("F-05 rolling restart", cluster, plan(5));
    trial.bounds.gap_max = Some(SECOND / 2);
    for _ in 0..times(1, 5) {
        for node in cluster.nodes() {
            trial.fault(cluster, |cluster| {
                assert_eq!(cluster.stop(node), Some(0));
                std::thread::sleep(SECOND);
                cluster.begin(node);
            });
        }
    }
    trial.end(cluster);
}

/// Pauses the master for longer than its lease: it must answer nothing from its old state.
fn master_paused(cluster: &mut Cluster) {
    let patient = RegisterPlan { patience: 10 * SECOND, ..plan(9) };
    let mut trial = Trial::begin("F-09 master paused", cluster, patient);
    let (mut fresh, mut refused) = (0, 0);
    for _ in 0..times(1, 10) {
        let master = cluster.master();
        let answers = trial.paused_with_questions(cluster, master);
        fresh += answers.0;
        refused += answers.1;
    }
    trial.figures.also("answers_after_waking", format!("{fresh} fresh, {refused} refused"));
    trial.end(cluster);
}

impl Trial {
    /// Pauses the master for three leases. It finds the requests sent meanwhile when it resumes;
    /// the key has changed by then.
    fn paused_with_questions(&mut self, cluster: &mut Cluster, master: usize) -> (u32, u32) {
        let mut readers: Vec<_> =
            (0..10).map(|_| Resp::connect(cluster.client(master)).expect("it listens")).collect();
        let set = |cluster: &Cluster, node: usize, value: &str| {
            let mut redis = Resp::connect(cluster.client(node)).expect("it listens");
            let answer = redis.say(&format!("SET slept {value}")).expect("it answers");
            assert_eq!(answer, RespReply::Simple("OK".into()));
        };
        let (mut fresh, mut refused) = (0, 0);
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
                    .send(&systest::client::command(&[b"GET", b"slept"]))
                    .expect("it is buffered");
            }
            std::thread::sleep(cluster.lease());
            cluster.wake(master);
            for reader in &mut readers {
                match reader.receive().expect("it answers when it wakes") {
                    RespReply::Bulk(Some(value)) => {
                        assert_eq!(value, b"meanwhile", "a stale read");
                        fresh += 1;
                    }
                    RespReply::Error(_) => refused += 1,
                    other => panic!("a key that exists is answered {other:?}"),
                }
            }
        });
        (fresh, refused)
    }
}

/// Positive control of the checker: a majority's directories are replaced by old copies.
#[test]
fn a_cluster_that_forgets_is_seen() {
    let _permit = experiment();
    let scratch = Scratch::new("cluster-forgets");
    let mut cluster = Cluster::start(&scratch, Options::of(3));
    let mut figures = Figures::begin("F-04 cluster, control");
    cluster.nodes().for_each(|node| assert_eq!(cluster.stop(node), Some(0)));
    for node in cluster.nodes() {
        let data = cluster.how(node).data.clone();
        let copy = data.with_extension("copy");
        must(&["cp", "-a", text(&data), text(&copy)]);
    }
    cluster.begin_all();
    cluster.must_serve();
    let load = systest::workload::Load::roam(&cluster.clients(), &super::writing(0), SECOND);
    std::thread::sleep(2 * SECOND);
    let ledger = load.stop();
    cluster.nodes().for_each(|node| cluster.kill(node));
    for node in cluster.nodes() {
        let data = cluster.how(node).data.clone();
        let copy = data.with_extension("copy");
        std::fs::remove_dir_all(&data).expect("it is ours");
        std::fs::rename(copy, data).expect("both are in one folder");
    }
    cluster.begin_all();
    cluster.must_serve();
    let verdict = ledger.judge(cluster.client(1)).expect("it is readable");
    figures.also("control_lost", verdict.lost.len());
    figures.print();
    assert!(!verdict.lost.is_empty(), "the judge does not see a forgotten round");
}

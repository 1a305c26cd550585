//! Real faults under real clusters: clients of all nodes record their answers, and one order of all
//! calls must explain them.
//!
//! Promises: an experiment ends with all nodes at one applied index, equal row by row, every
//! acknowledged write read back at every node, and a linearizable history; or it says why it was
//! skipped.
//! Never: asserts in its short form how long clients felt a fault: other work shares the machine.
//! The long form checks gaps against their bounds. `hostile_but_valid.rs`, which injects no fault,
//! has a bound for both forms.
//! Read next: `master.rs`, then `wires.rs`.

mod at_work;
mod calls;
mod catch_up;
mod clocks;
mod damage;
mod dead_rows;
mod disks;
mod distance;
mod documents;
mod failpoints;
mod feeds;
mod hanging;
mod hostile_but_valid;
mod idle;
mod index_build;
mod leases;
mod links;
mod master;
mod members;
mod members_away;
mod moves;
mod once;
mod replay;
mod snapshots;
mod soak;
mod space;
mod tls;
mod torn;
mod transactions;
mod upgrade;
mod wires;

use std::net::SocketAddr;
use std::time::{Duration, Instant};
use systest::checkers::check;
use systest::checkers::replay::{ReplayReport, replay};
use systest::cluster::Cluster;
use systest::environment::Scratch;
use systest::fault_injection::Trace;
use systest::report::{BoundChecks, Figures, is_long_form, short_or_long, skipped};
use systest::workload::Load;
use systest::workload::ledger::{ClientProtocol, Ledger, WriterPlan};
use systest::workload::registers::{Failover, RegisterHistory, RegisterPlan, RegisterWorkload};

const SECOND: Duration = Duration::from_secs(1);
/// Most configurations that the linearizability checker tries for each key.
const STEPS_MAX: u64 = 3_000_000;
/// Exit code of a node that found its data damaged, or could not make them durable.
const DAMAGED: i32 = 7;

/// Returns a plan of eight clients (thirteen in the long form: sixteen with those of the ledger) on
/// twelve keys and two pairs, which go to the next node when one does not serve them within a
/// second.
fn plan(seed: u64) -> RegisterPlan {
    let pause = Duration::from_millis(4);
    let clients = short_or_long(8, 13);
    RegisterPlan {
        clients,
        keys: 12,
        seed,
        pause,
        timeout: SECOND,
        pairs: 2,
        failover: Failover::NextNode,
    }
}

/// Returns three clients of the ledger, whose keys no other experiment uses.
fn writers(seed: u64) -> Vec<WriterPlan> {
    let one = |(at, protocol): (usize, ClientProtocol)| {
        let client = seed as usize * 10 + at;
        WriterPlan { client, keys: 100, depth: 1 + 3 * at, bytes: 300, protocol }
    };
    [ClientProtocol::Resp, ClientProtocol::Resp, ClientProtocol::Http]
        .into_iter()
        .enumerate()
        .map(one)
        .collect()
}

/// Returns true if a long experiment is left to the long form; prints so in that case.
fn is_left_to_long_form(name: &str) -> bool {
    if !is_long_form() {
        skipped(name, "takes its time: `make test-long`");
    }
    !is_long_form()
}

/// Returns a percentile of these times.
fn percentile(mut times: Vec<Duration>, percent: usize) -> Duration {
    times.sort_unstable();
    times.get(times.len() * percent / 100).copied().unwrap_or_default()
}

/// A running experiment: its clients, and the faults injected so far.
struct Trial {
    figures: Figures,
    recorder: RegisterWorkload,
    load: Load,
    /// Ledger of further clients, which have stopped.
    extra_ledger: Ledger,
    addresses: Vec<SocketAddr>,
    /// Time of each fault, from its beginning until all nodes served again.
    faults: Vec<(Duration, Duration)>,
    recovery: Duration,
    bounds: Bounds,
    /// Decided index of the data's group at the beginning. `None`: no replay, because the log will
    /// not reach back so far at the end, or there are several groups.
    log_from: Option<u64>,
}

/// Bounds that the long form checks. `None`: no bound.
#[derive(Clone, Copy, Debug, Default)]
struct Bounds {
    /// Longest gap between acknowledgements.
    gap_max: Option<Duration>,
    /// Longest recovery.
    recovery_max: Option<Duration>,
    /// Longest time that a node with failing syncs took to end.
    stop_time: Option<Duration>,
}

impl Trial {
    /// Starts the clients, and lets them run for a while.
    fn start(name: &str, cluster: &Cluster, plan: RegisterPlan) -> Trial {
        let figures = Figures::start(name);
        cluster.must_serve();
        let addresses = cluster.client_addresses();
        let log_from = Some(cluster.decided_index());
        let recorder = cluster.record(plan);
        let load = cluster
            .on_client_host(|| Load::with_failover(&addresses, &writers(plan.seed), plan.timeout));
        std::thread::sleep(short_or_long(1, 5) as u32 * SECOND);
        Trial {
            figures,
            recorder,
            load,
            extra_ledger: Ledger::default(),
            addresses,
            faults: Vec::new(),
            recovery: Duration::ZERO,
            bounds: Bounds::default(),
            log_from,
        }
    }

    /// Injects a fault by `inject`; after it, all nodes must serve again.
    fn fault(&mut self, cluster: &mut Cluster, inject: impl FnOnce(&mut Cluster)) {
        let from = self.recorder.now();
        self.figures.faults += 1;
        inject(cluster);
        let ended_at = Instant::now();
        cluster.must_serve();
        self.recovery = self.recovery.max(ended_at.elapsed());
        self.faults.push((from, self.recorder.now()));
        std::thread::sleep(SECOND);
    }

    /// Makes the next sync by this system call fail, at a follower and then at the master. Each
    /// must end by itself within `end_max`, the others go on, and it restarts. Until it has ended,
    /// `meanwhile` makes writes that need a sync.
    fn fail_next_sync(
        &mut self,
        cluster: &mut Cluster,
        (call, end_max): (&str, Duration),
        scratch: &Scratch,
        meanwhile: impl Fn(&[SocketAddr]) + Sync,
    ) {
        let mut seconds: f64 = 0.0;
        for pick_node in [Cluster::follower, Cluster::master] {
            let node = pick_node(cluster);
            let record = scratch.join(&format!("record{node}"));
            self.fault(cluster, |cluster| {
                let pid = cluster.server(node).pid();
                let mut trace = Trace::attach(pid, call, "error=EIO:when=1", record);
                let others = cluster.nodes().filter(|other| *other != node);
                let others: Vec<_> = others.map(|other| cluster.client_address(other)).collect();
                let status = std::thread::scope(|threads| {
                    threads.spawn(|| meanwhile(&others));
                    cluster.server(node).wait(end_max)
                });
                trace.wait(SECOND);
                let stderr = cluster.server(node).stderr_text();
                let status = status.unwrap_or_else(|| panic!("it lives on: {stderr}"));
                assert_eq!(status.code(), Some(DAMAGED), "{stderr}");
                seconds = seconds.max(trace.seconds_to_exit().expect("it was recorded"));
                cluster.kill(node);
                cluster.must_serve();
                cluster.start_node(node);
            });
        }
        self.figures.add("seconds_to_stop", format!("{seconds:.3}"));
        self.bounds.stop_time = Some(Duration::from_secs_f64(seconds));
    }

    /// Lets the clients run for a while, stops them, and checks everything.
    fn end(mut self, cluster: &Cluster) -> RegisterHistory {
        std::thread::sleep(short_or_long(0, 15) as u32 * SECOND);
        cluster.must_converge();
        let mut ledger = self.load.stop();
        ledger.join(self.extra_ledger);
        let history = cluster.on_client_host(|| self.recorder.stop());
        let history = history.unwrap_or_else(|error| panic!("{error}\n{}", cluster.describe()));
        let figures = &mut self.figures;
        let (ok, refused, unknown) = history.counts();
        figures.ok += ok + ledger.ok;
        figures.fail += refused + ledger.fail;
        figures.info += unknown + ledger.info;
        for (node, address) in (1..).zip(&self.addresses) {
            let verdict =
                cluster.on_client_host(|| ledger.judge(*address)).expect("it is readable");
            figures.lost += verdict.lost.len() as u64;
            if !verdict.lost.is_empty() || !verdict.unexpected.is_empty() {
                figures.add("unclean_node", node);
                figures.print();
            }
            verdict.must_be_clean();
        }
        let gap = self.faults.iter().map(|(from, to)| history.gap(*from, *to)).max();
        figures.add("longest_gap_ms", gap.unwrap_or_default().as_millis());
        figures.add("recovery_ms", self.recovery.as_millis());
        let report = check(&history.calls, STEPS_MAX);
        figures.add("violations", usize::from(report.is_violated()));
        let replay_report = self.log_from.and_then(|from| replay_log(cluster, from, &history));
        match &replay_report {
            Some(report) => figures.add("replayed", report.effects),
            None => figures.add("replayed", "no"),
        }
        figures.print();
        assert_eq!(history.unexpected, Vec::<String>::new());
        report.must_be_linearizable();
        if let Some(report) = replay_report {
            report.must_explain();
        }
        cluster.must_have_equal_rows();
        // Times are checked last: a broken bound must not hide a wrong result.
        self.bounds.must_hold(self.figures.name(), gap.unwrap_or_default(), self.recovery);
        assert!(ok > 100 && ledger.ok > 100, "clients did almost nothing: {ok}, {ledger:?}");
        history
    }
}

impl Bounds {
    fn must_hold(self, name: &str, gap: Duration, recovery: Duration) {
        let checks_to_make = [
            ("longest gap, s", Some(gap).zip(self.gap_max)),
            ("recovery, s", Some(recovery).zip(self.recovery_max)),
            ("until a node stops, s", self.stop_time.zip(Some(SECOND))),
        ];
        let mut checks = BoundChecks::default();
        for (what, measured_and_limit) in checks_to_make {
            if let Some((measured, limit)) = measured_and_limit {
                let what = format!("{name}: {what}");
                checks.check(&what, measured.as_secs_f64(), limit.as_secs_f64());
            }
        }
        checks.assert_bounds();
    }
}

/// Checks a history against the log. `None`: in the long form, the log may have been truncated
/// meanwhile.
fn replay_log(cluster: &Cluster, from: u64, history: &RegisterHistory) -> Option<ReplayReport> {
    let keys = history.calls.iter().map(|call| call.op.key.as_str()).collect();
    match cluster.decided(from, cluster.decided_index(), &keys) {
        Ok(decided) => Some(replay(&history.calls, &decided)),
        Err(_) if is_long_form() => None,
        Err(reason) => panic!("{reason}\n{}", cluster.describe()),
    }
}

/// Returns a bound of two leases and `more`.
fn two_leases(cluster: &Cluster, more: Duration) -> Option<Duration> {
    Some(2 * cluster.lease() + more)
}

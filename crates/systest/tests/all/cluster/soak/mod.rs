//! Everyday work under all faults, for as long as garbage needs to build up: recorders with their
//! checkers, loads that leave garbage, a client that sends hostile but valid requests, and
//! open-loop probes at each node that measure what each fault costs clients.
//!
//! The seed is printed and chooses the faults: `CREDENZA_SEED=7 cargo test -p systest soak` draws
//! the same. `CREDENZA_FAULTS=kill,hang` draws only those whose name holds one of the words, and
//! `CREDENZA_SOAK_SECONDS=240` ends the long form earlier. The short form draws some; the long form
//! goes on for half an hour, draws each fault again and again, and two at once in every second
//! turn.
//!
//! Promises: no acknowledged write is lost, histories are linearizable or causal, and clients' own
//! checks hold, whatever was drawn. The long form checks pauses, rates and memory against bounds.
//! Never: counts a pause at a node that the fault itself keeps from serving.
//! Read next: `faults.rs` and `faulty.rs`, then `hostile.rs` and `timeline.rs`.

mod faults;
mod faulty;
mod hostile;
mod post_mortem;
mod timeline;
mod victims;

use super::{SECOND, STEPS_MAX, is_left_to_long_form, percentile, writers};
use faults::{ALL, Fault};
use faulty::{ActiveFault, FaultInjector};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use std::time::{Duration, Instant};
use systest::checkers::causal::judge;
use systest::checkers::check;
use systest::cluster::{Cluster, Options};
use systest::environment::{Root, Scratch, experiment, missing};
use systest::fault_injection::{FileSystem, Network, NodeClock};
use systest::probes::Probes;
use systest::report::{BoundChecks, Figures, is_long_form, print_line, short_or_long, skipped};
use systest::workload::Load;
use systest::workload::everyday::{self, Everyday};
use systest::workload::registers::{Failover, RegisterPlan, RegisterWorkload};
use systest::workload::siblings::{SiblingCall, SiblingPlan, SiblingWorkload};
use timeline::Timeline;

/// Lease of a cluster with default settings: pauses are compared with what users see.
const LEASE: Duration = Duration::from_millis(600);
/// Length of the long form.
const LONG_TIME: Duration = Duration::from_secs(30 * 60);
/// Number of faults of a short form, and the time after which none is begun any more.
const SHORT_FAULTS: usize = 4;
const SHORT_TIME: Duration = Duration::from_secs(20);
/// Time between faults, so that late effects are not attributed to the next one.
const PAUSE_AFTER_FAULT: Duration = Duration::from_secs(2);
/// Longest pause of acknowledged writes while a majority is healthy: one fault, and two at once.
const PAUSE_MAX_S: f64 = 2.0;
const PAUSE_OF_TWO_MAX_S: f64 = 3.0;
/// Length of the spans whose rates are printed, seconds.
const SPAN_SECONDS: usize = 180;
/// Length of the two spans whose rates are compared. Rates of three minutes differ by a tenth in
/// one soak, because they have different faults.
const COMPARED_SECONDS: usize = 600;
/// The first of the two, after the warm-up.
const FIRST_COMPARED_SPAN: std::ops::Range<usize> = 120..120 + COMPARED_SECONDS;
/// Memory that a node may hold above the memory of its tables by the settings.
const MEMORY_SLACK_BYTES: u64 = 512 << 20;
const MEMORY_BYTES_MAX: u64 = 64 << 20;
/// Time until all nodes serve again after a fault, above which their logs are printed.
const SLOW_RECOVERY: Duration = Duration::from_secs(2);
/// Number of copies of each key of an available bucket.
const COPIES: usize = 3;

#[test]
fn three_node_soak_under_random_faults_loses_nothing() {
    soak("soak of three nodes", 3);
}

#[test]
fn five_node_soak_under_random_faults_loses_nothing() {
    let name = "soak of five nodes";
    if !is_left_to_long_form(name) {
        soak(name, 5);
    }
}

fn soak(name: &str, nodes: usize) {
    let tools = [FileSystem::Ext4.tools(), &["fsfreeze"]].concat();
    let missing_tool =
        missing(Root::Needed, &tools).or_else(Network::missing).or_else(NodeClock::missing);
    if let Some(reason) = missing_tool {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let seed = choose_seed();
    print_line(&format!("{name}: CREDENZA_SEED={seed}"));
    let scratch = Scratch::new(&format!("cluster-soak-{nodes}"));
    let injector = FaultInjector::start(&scratch, options(nodes), seed);
    let mut soak = Soak::start(name, injector, seed);
    let started = Instant::now();
    let (end, faults_max) =
        if is_long_form() { (long_form_time(), usize::MAX) } else { (SHORT_TIME, SHORT_FAULTS) };
    let mut deck = Vec::new();
    for round in 0..faults_max {
        if started.elapsed() > end {
            break;
        }
        let first = soak.draw(&mut deck);
        // Two at once: one that stops nodes, and one that stops none.
        let second = (is_long_form() && round % 2 == 1).then(|| soak.draw_second(first)).flatten();
        soak.run_round(&[Some(first), second].into_iter().flatten().collect::<Vec<_>>());
    }
    soak.end();
}

/// Returns the length of the long form: from the environment, or half an hour.
pub(super) fn long_form_time() -> Duration {
    let seconds = std::env::var("CREDENZA_SOAK_SECONDS").ok().and_then(|text| text.parse().ok());
    seconds.map_or(LONG_TIME, Duration::from_secs)
}

/// Returns the seed: from the environment, or from the clock.
pub(super) fn choose_seed() -> u64 {
    let seed = std::env::var("CREDENZA_SEED").ok().and_then(|text| text.parse().ok());
    seed.unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(0, |since| since.subsec_nanos().into())
    })
}

fn options(nodes: usize) -> Options {
    let args = [
        ["--memory-bytes-max", "64MiB"],
        ["--segment-bytes", "4MiB"],
        ["--log-bytes-max", "128MiB"],
        ["--disk-reserve-bytes", "12MiB"],
        ["--anti-entropy-interval-ms", "300ms"],
    ];
    Options {
        disk: Some((FileSystem::Ext4, 512)),
        lease: LEASE,
        args: args.concat().into_iter().map(String::from).collect(),
        ..Options::new(nodes).with_switch()
    }
}

/// A running soak.
struct Soak {
    figures: Figures,
    injector: FaultInjector,
    dice: StdRng,
    plan: SiblingPlan,
    probes: Probes,
    recorder: RegisterWorkload,
    ledger: Load,
    everyday: Everyday,
    available: SiblingWorkload,
    timeline: Timeline,
}

impl Soak {
    /// Starts all clients that record their answers.
    fn start(name: &str, injector: FaultInjector, seed: u64) -> Soak {
        let figures = Figures::start(name);
        let cluster = &injector.cluster;
        cluster.must_serve();
        let nodes = cluster.client_addresses();
        let timeout = 2 * SECOND;
        let register_plan = RegisterPlan {
            clients: 4,
            keys: 8,
            seed: seed % 0xffff,
            pause: Duration::from_millis(8),
            timeout,
            pairs: 2,
            failover: Failover::NextNode,
        };
        let plan = SiblingPlan {
            clients: 3,
            pause: Duration::from_millis(10),
            bucket_path: "available/soak".into(),
            return_delay: Some(SECOND),
            ..SiblingPlan::new(seed % 0xffff)
        };
        let (probes, recorder, ledger, everyday, available) = cluster.on_client_host(|| {
            (
                Probes::start(&nodes),
                RegisterWorkload::start(&nodes, register_plan),
                Load::with_failover(&nodes, &writers(1 + seed % 1000), timeout),
                Everyday::start(&nodes, seed),
                SiblingWorkload::start(&nodes, &plan),
            )
        });
        let timeline = Timeline::default();
        let dice = StdRng::seed_from_u64(seed);
        std::thread::sleep(short_or_long(1, 30) as u32 * SECOND);
        let mut soak = Soak {
            figures,
            injector,
            dice,
            plan,
            probes,
            recorder,
            ledger,
            everyday,
            available,
            timeline,
        };
        soak.record_memory();
        soak
    }

    /// Returns the next fault of the deck, which is refilled and shuffled when it is empty.
    fn draw(&mut self, deck: &mut Vec<Fault>) -> Fault {
        if deck.is_empty() {
            deck.extend(ALL.into_iter().filter(|fault| is_selected(*fault)));
            deck.shuffle(&mut self.dice);
            assert!(!deck.is_empty(), "CREDENZA_FAULTS names no fault");
        }
        let is_allowed =
            |fault: &Fault| is_long_form() || are_faults_selected() || fault.is_quick();
        let at = deck.iter().rposition(is_allowed).unwrap_or(deck.len() - 1);
        deck.remove(at)
    }

    /// Draws a fault that stops no node, to run beside one that does. `None`: none fits.
    fn draw_second(&mut self, first: Fault) -> Option<Fault> {
        let candidates: Vec<_> = ALL
            .into_iter()
            .filter(|fault| fault.may_run_beside(first) && is_selected(*fault))
            .collect();
        let at = self.dice.random_range(0..candidates.len().max(1));
        candidates.get(at).copied()
    }

    /// Runs some faults at once, from their beginning until all nodes serve again.
    fn run_round(&mut self, faults: &[Fault]) {
        let from = self.probes.now();
        // Printed first, so that a round that does not end is reported, too.
        let names: Vec<_> = faults.iter().map(|fault| fault.name()).collect();
        print_line(&format!("    begins: {}", names.join(" + ")));
        let mut in_order = faults.to_vec();
        // A move is requested while there is a majority that can start it.
        in_order.sort_by_key(|fault| fault.stops_majority());
        let mut active: Vec<_> =
            in_order.iter().map(|fault| self.injector.inject(*fault, &mut self.dice)).collect();
        self.injector.wait(&active, &mut self.dice);
        let victims = active.iter().flat_map(|active_fault| active_fault.victims_among(faults));
        let victims = victims.collect();
        let has_majority = active.iter().all(|active_fault| active_fault.leaves_majority);
        // The end of a move is awaited last, when no fault delays it any more.
        active.sort_by_key(ActiveFault::is_bucket_move);
        for active_fault in active {
            self.injector.undo(active_fault);
        }
        let faults_ended = self.probes.now();
        self.injector.must_serve_all();
        self.figures.faults += faults.len() as u64;
        let to = self.probes.now();
        if to - faults_ended > SLOW_RECOVERY {
            // The nodes' logs are gone when pauses are checked, at the end.
            print_line(&format!(
                "    slow: {:?}\n{}",
                to - faults_ended,
                self.injector.cluster.last_log_lines(80)
            ));
        }
        std::thread::sleep(PAUSE_AFTER_FAULT);
        self.timeline.add(faults, (from, faults_ended, to), victims, has_majority);
        self.record_memory();
    }

    fn record_memory(&mut self) {
        let resident_bytes = self.injector.resident_bytes();
        self.timeline.memory.push((self.probes.now(), resident_bytes));
    }

    /// Stops all clients and checks everything.
    fn end(self) {
        let Soak { mut figures, mut injector, plan, timeline, .. } = self;
        injector.move_back_to_first_group();
        let cluster = &injector.cluster;
        cluster.must_converge();
        let probes = self.probes.stop();
        let everyday = self.everyday.stop();
        let ledger = self.ledger.stop();
        let history = cluster.on_client_host(|| self.recorder.stop());
        let history = history.unwrap_or_else(|error| panic!("{error}\n{}", cluster.describe()));
        let available_history = self.available.stop();
        let (ok, fail, info) = history.counts();
        let (causal_ok, causal_fail, causal_info) = available_history.counts();
        figures.ok = ok + ledger.ok + everyday.ok + causal_ok;
        figures.fail = fail + ledger.fail + everyday.fail + causal_fail;
        figures.info = info + ledger.info + everyday.info + causal_info;
        figures.add("probes", probes.count());
        timeline.print(&probes, cluster.size());
        for (node, address) in (1..).zip(cluster.client_addresses()) {
            let verdict = cluster.on_client_host(|| ledger.judge(address)).expect("it is readable");
            figures.lost += verdict.lost.len() as u64;
            if !verdict.lost.is_empty() || !verdict.unexpected.is_empty() {
                figures.add("unclean_node", node);
                figures.print();
            }
            verdict.must_be_clean();
        }
        let report = check(&history.calls, STEPS_MAX);
        figures.add("violations", usize::from(report.is_violated()));
        figures.add("everyday_wrong", everyday.wrong.len());
        timeline.figures(&mut figures);
        figures.print();
        assert_eq!(history.unexpected, Vec::<String>::new());
        assert_eq!(everyday.wrong, Vec::<String>::new());
        report.must_be_linearizable();
        cluster.must_have_equal_rows();
        check_available_copies(&mut injector.cluster, &plan.bucket_path, &available_history.calls);
        assert!(ok > 100 && ledger.ok > 100 && causal_ok > 50, "clients did almost nothing");
        assert!(everyday.ok > 100, "everyday clients did almost nothing: {everyday:?}");
        // Times are checked last: a broken bound must not hide a wrong result.
        let mut checks = BoundChecks::default();
        timeline.bounds(&mut checks, figures.name(), &probes, injector.cluster.size());
        hostile::bounds(&mut checks, figures.name(), &injector.hostile);
        bounds(&mut checks, figures.name(), &timeline, &everyday);
        checks.assert_bounds();
    }
}

/// Checks the available bucket's copies, as they are on the disks of stopped nodes.
fn check_available_copies(cluster: &mut Cluster, bucket_path: &str, calls: &[SiblingCall]) {
    cluster.must_suspect_none();
    cluster.must_finish_repair();
    let copies = cluster.copies(COPIES);
    judge(calls, &copies.of_bucket(bucket_path)).must_be_clean();
    assert_eq!(copies.differences(), Vec::<String>::new());
}

/// Checks the bounds of the whole soak: memory, the rate at its end, and that each fault was drawn.
fn bounds(
    checks: &mut BoundChecks,
    name: &str,
    timeline: &Timeline,
    everyday: &everyday::EverydayAnswers,
) {
    let memory: Vec<_> = timeline.memory.iter().map(|(_, bytes)| *bytes as f64).collect();
    let largest = memory.iter().copied().fold(0.0, f64::max);
    let limit = (MEMORY_BYTES_MAX + MEMORY_SLACK_BYTES) as f64;
    checks.check(&format!("{name}: memory of a node, MiB"), mib(largest), mib(limit));
    if !is_long_form() {
        return;
    }
    // A fault that was never drawn proves nothing.
    let never_drawn: Vec<_> = ALL.into_iter().filter(|fault| timeline.count(*fault) == 0).collect();
    assert!(are_faults_selected() || never_drawn.is_empty(), "never drawn: {never_drawn:?}");
    let end = everyday.by_second.len();
    let rates: Vec<_> = (0..end)
        .step_by(SPAN_SECONDS)
        .map(|from| {
            format!("{:.0}", fault_free_rate(timeline, everyday, from..from + SPAN_SECONDS))
        })
        .collect();
    print_line(&format!("{name}: steps a calm second, by {SPAN_SECONDS} s: {}", rates.join(" ")));
    let bound_name =
        format!("{name}: rate of {COMPARED_SECONDS} s from the third minute to that of the last");
    if end < FIRST_COMPARED_SPAN.end + COMPARED_SECONDS {
        print_line(&format!("{bound_name}: not held, the soak is too short for it"));
    } else {
        let first = fault_free_rate(timeline, everyday, FIRST_COMPARED_SPAN);
        let last = fault_free_rate(timeline, everyday, end - COMPARED_SECONDS..end);
        assert!(first > 0.0, "no calm second in the first span: {FIRST_COMPARED_SPAN:?}");
        checks.check(&bound_name, first / last, 1.0 / 0.9);
    }
    timeline.check_memory_growth(checks, name);
}

fn mib(bytes: f64) -> f64 {
    bytes / f64::from(1 << 20)
}

/// Returns the median of acknowledged steps a second over the seconds without a fault: two spans of
/// a soak have different faults.
fn fault_free_rate(
    timeline: &Timeline,
    answers: &everyday::EverydayAnswers,
    span: std::ops::Range<usize>,
) -> f64 {
    let by_second = answers.by_second.iter().enumerate().take(span.end).skip(span.start);
    let fault_free = by_second.filter(|(second, _)| timeline.is_fault_free(*second as u64));
    let seconds = fault_free.map(|(_, count)| Duration::from_secs(*count)).collect();
    percentile(seconds, 50).as_secs_f64()
}

/// Returns true if the environment selects faults.
fn are_faults_selected() -> bool {
    std::env::var("CREDENZA_FAULTS").is_ok()
}

fn is_selected(fault: Fault) -> bool {
    let names = std::env::var("CREDENZA_FAULTS").unwrap_or_default();
    let mut names = names.split(',').filter(|name| !name.is_empty()).peekable();
    names.peek().is_none() || names.any(|name| fault.name().contains(name))
}

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
mod timeline;
mod victims;

use super::{SECOND, STEPS_MAX, percentile, waits_for_the_long_tests, writing};
use faults::{ALL, Fault};
use faulty::{Faulty, Ongoing};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use std::time::{Duration, Instant};
use systest::checkers::causal::judge;
use systest::checkers::check;
use systest::probes::Probes;
use systest::report::{BoundChecks, Figures, long, say, skipped, times};
use systest::rigs::{
    Cluster, Network, NodeClock, Options, Root, Scratch, System, experiment, missing,
};
use systest::workload::Load;
use systest::workload::everyday::{self, Everyday};
use systest::workload::registers::{RegisterPlan, RegisterWorkload, Turns};
use systest::workload::siblings::{SiblingCall, SiblingPlan, SiblingWorkload};
use timeline::Timeline;

/// Lease of a cluster with default settings: pauses are compared with what users see.
const LEASE: Duration = Duration::from_millis(600);
/// Length of the long form.
const LONG: Duration = Duration::from_secs(30 * 60);
/// Number of faults of a short form, and the time after which none is begun any more.
const SHORT_FAULTS: usize = 4;
const SHORT: Duration = Duration::from_secs(20);
/// Time between faults, so that late effects are not attributed to the next one.
const CALM: Duration = Duration::from_secs(2);
/// Longest pause of acknowledged writes while a majority is healthy: one fault, and two at once.
const PAUSE_MAX_S: f64 = 2.0;
const PAUSE_OF_TWO_MAX_S: f64 = 3.0;
/// Length of the spans whose rates are printed, seconds.
const SPAN_SECONDS: usize = 180;
/// Length of the two spans whose rates are compared. Rates of three minutes differ by a tenth in
/// one soak, because they have different faults.
const COMPARED_SECONDS: usize = 600;
/// The first of the two, after the warm-up.
const FIRST_SPAN: std::ops::Range<usize> = 120..120 + COMPARED_SECONDS;
/// Memory that a node may hold above the memory of its tables by the settings.
const MEMORY_SLACK_BYTES: u64 = 512 << 20;
const MEMORY_BYTES_MAX: u64 = 64 << 20;
/// Time until all nodes serve again after a fault, above which their logs are printed.
const SLOW_RECOVERY: Duration = Duration::from_secs(2);
/// Number of copies of each key of an available bucket.
const COPIES: usize = 3;

#[test]
fn three_nodes_keep_everyday_work_under_every_fault() {
    soak("soak of three nodes", 3);
}

#[test]
fn five_nodes_keep_everyday_work_under_every_fault() {
    let name = "soak of five nodes";
    if !waits_for_the_long_tests(name) {
        soak(name, 5);
    }
}

fn soak(name: &str, nodes: usize) {
    let tools = [System::Ext4.tools(), &["fsfreeze"]].concat();
    let without =
        missing(Root::Needed, &tools).or_else(Network::missing).or_else(NodeClock::missing);
    if let Some(why) = without {
        return skipped(name, &why);
    }
    let _permit = experiment();
    let seed = seed();
    say(&format!("{name}: CREDENZA_SEED={seed}"));
    let scratch = Scratch::new(&format!("cluster-soak-{nodes}"));
    let faulty = Faulty::start(&scratch, options(nodes), seed);
    let mut soak = Soak::begin(name, faulty, seed);
    let begun = Instant::now();
    let (end, most) = if long() { (long_time(), usize::MAX) } else { (SHORT, SHORT_FAULTS) };
    let mut deck = Vec::new();
    for turn in 0..most {
        if begun.elapsed() > end {
            break;
        }
        let first = soak.draw(&mut deck);
        // Two at once: one that stops nodes, and one that stops none.
        let second = (long() && turn % 2 == 1).then(|| soak.draw_beside(first)).flatten();
        soak.turn(&[Some(first), second].into_iter().flatten().collect::<Vec<_>>());
    }
    soak.end();
}

/// Returns the length of the long form: from the environment, or half an hour.
fn long_time() -> Duration {
    let given = std::env::var("CREDENZA_SOAK_SECONDS").ok().and_then(|text| text.parse().ok());
    given.map_or(LONG, Duration::from_secs)
}

/// Returns the seed: from the environment, or from the clock.
fn seed() -> u64 {
    let given = std::env::var("CREDENZA_SEED").ok().and_then(|text| text.parse().ok());
    given.unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(0, |since| since.subsec_nanos().into())
    })
}

fn options(nodes: usize) -> Options {
    let words = [
        ["--memory-bytes-max", "64MiB"],
        ["--segment-bytes", "4MiB"],
        ["--log-bytes-max", "128MiB"],
        ["--disk-reserve-bytes", "12MiB"],
        ["--anti-entropy-interval-ms", "300ms"],
    ];
    Options {
        disk: Some((System::Ext4, 512)),
        lease: LEASE,
        words: words.concat().into_iter().map(String::from).collect(),
        ..Options::of(nodes).behind_the_switch()
    }
}

/// A running soak.
struct Soak {
    figures: Figures,
    faulty: Faulty,
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
    fn begin(name: &str, faulty: Faulty, seed: u64) -> Soak {
        let figures = Figures::begin(name);
        let cluster = &faulty.cluster;
        cluster.must_serve();
        let nodes = cluster.clients();
        let patience = 2 * SECOND;
        let recorded = RegisterPlan {
            clients: 4,
            keys: 8,
            seed: seed % 0xffff,
            pause: Duration::from_millis(8),
            patience,
            pairs: 2,
            turns: Turns::On,
        };
        let plan = SiblingPlan {
            clients: 3,
            pause: Duration::from_millis(10),
            place: "available/soak".into(),
            returns: Some(SECOND),
            ..SiblingPlan::of(seed % 0xffff)
        };
        let (probes, recorder, ledger, everyday, available) = cluster.from_clients(|| {
            (
                Probes::start(&nodes),
                RegisterWorkload::start(&nodes, recorded),
                Load::roam(&nodes, &writing(1 + seed % 1000), patience),
                Everyday::start(&nodes, seed),
                SiblingWorkload::start(&nodes, &plan),
            )
        });
        let timeline = Timeline::default();
        let dice = StdRng::seed_from_u64(seed);
        std::thread::sleep(times(1, 30) as u32 * SECOND);
        let mut soak = Soak {
            figures,
            faulty,
            dice,
            plan,
            probes,
            recorder,
            ledger,
            everyday,
            available,
            timeline,
        };
        soak.note_memory();
        soak
    }

    /// Returns the next fault of the deck, which is shuffled anew when it is used up.
    fn draw(&mut self, deck: &mut Vec<Fault>) -> Fault {
        if deck.is_empty() {
            deck.extend(ALL.into_iter().filter(|fault| is_wanted(*fault)));
            deck.shuffle(&mut self.dice);
            assert!(!deck.is_empty(), "CREDENZA_FAULTS names no fault");
        }
        let quick = |fault: &Fault| long() || is_chosen() || fault.is_quick();
        let at = deck.iter().rposition(quick).unwrap_or(deck.len() - 1);
        deck.remove(at)
    }

    /// Draws a fault that stops no node, to run beside one that does. `None`: none fits.
    fn draw_beside(&mut self, first: Fault) -> Option<Fault> {
        let bearable: Vec<_> =
            ALL.into_iter().filter(|fault| fault.is_beside(first) && is_wanted(*fault)).collect();
        let at = self.dice.random_range(0..bearable.len().max(1));
        bearable.get(at).copied()
    }

    /// Runs some faults at once, from their beginning until all nodes serve again.
    fn turn(&mut self, faults: &[Fault]) {
        let from = self.probes.now();
        // Printed first, so that a turn that does not end is known, too.
        let names: Vec<_> = faults.iter().map(|fault| fault.name()).collect();
        say(&format!("    begins: {}", names.join(" + ")));
        let mut in_order = faults.to_vec();
        // A move is requested while there is a majority that can start it.
        in_order.sort_by_key(|fault| fault.takes_majority());
        let mut under_way: Vec<_> =
            in_order.iter().map(|fault| self.faulty.begin(*fault, &mut self.dice)).collect();
        self.faulty.hold(&under_way, &mut self.dice);
        let hurt = under_way.iter().flat_map(|one| one.hurt.clone()).collect();
        let majority = under_way.iter().all(|one| one.leaves_majority);
        // The end of a move is awaited last, when no fault delays it any more.
        under_way.sort_by_key(Ongoing::is_move);
        for one in under_way {
            self.faulty.end(one);
        }
        let mended = self.probes.now();
        self.faulty.must_serve_all();
        self.figures.faults += faults.len() as u64;
        let to = self.probes.now();
        if to - mended > SLOW_RECOVERY {
            // The nodes' logs are gone when pauses are checked, at the end.
            say(&format!(
                "    slow: {:?}\n{}",
                to - mended,
                self.faulty.cluster.last_log_lines(80)
            ));
        }
        std::thread::sleep(CALM);
        self.timeline.add(faults, (from, mended, to), hurt, majority);
        self.note_memory();
    }

    fn note_memory(&mut self) {
        let most = self.faulty.resident_bytes();
        self.timeline.memory.push((self.probes.now(), most));
    }

    /// Stops all clients and checks everything.
    fn end(self) {
        let Soak { mut figures, mut faulty, plan, timeline, .. } = self;
        faulty.come_home();
        let cluster = &faulty.cluster;
        cluster.must_settle();
        let probes = self.probes.stop();
        let everyday = self.everyday.stop();
        let ledger = self.ledger.stop();
        let history = cluster.from_clients(|| self.recorder.stop());
        let history = history.unwrap_or_else(|error| panic!("{error}\n{}", cluster.words()));
        let witnessed = self.available.stop();
        let (ok, fail, info) = history.counts();
        let (causal_ok, causal_fail, causal_info) = witnessed.counts();
        figures.ok = ok + ledger.ok + everyday.ok + causal_ok;
        figures.fail = fail + ledger.fail + everyday.fail + causal_fail;
        figures.info = info + ledger.info + everyday.info + causal_info;
        figures.also("probes", probes.count());
        timeline.print(&probes, cluster.size());
        for (node, address) in (1..).zip(cluster.clients()) {
            let verdict = cluster.from_clients(|| ledger.judge(address)).expect("it is readable");
            figures.lost += verdict.lost.len() as u64;
            if !verdict.lost.is_empty() || !verdict.strange.is_empty() {
                figures.also("unclean_node", node);
                figures.print();
            }
            verdict.must_be_clean();
        }
        let report = check(&history.calls, STEPS_MAX);
        figures.also("violations", usize::from(report.is_violated()));
        figures.also("everyday_wrong", everyday.wrong.len());
        timeline.figures(&mut figures);
        figures.print();
        assert_eq!(history.strange, Vec::<String>::new());
        assert_eq!(everyday.wrong, Vec::<String>::new());
        report.must_be_linearizable();
        cluster.must_be_level();
        judge_available(&mut faulty.cluster, &plan.place, &witnessed.calls);
        assert!(ok > 100 && ledger.ok > 100 && causal_ok > 50, "clients did almost nothing");
        assert!(everyday.ok > 100, "everyday clients did almost nothing: {everyday:?}");
        // Times are checked last: a broken bound must not hide a wrong result.
        let mut checks = BoundChecks::default();
        timeline.bounds(&mut checks, figures.name(), &probes, faulty.cluster.size());
        hostile::bounds(&mut checks, figures.name(), &faulty.hostile);
        bounds(&mut checks, figures.name(), &timeline, &everyday);
        checks.must_be_kept();
    }
}

/// Checks the available bucket's copies, as they are on the disks of stopped nodes.
fn judge_available(cluster: &mut Cluster, place: &str, calls: &[SiblingCall]) {
    cluster.must_reach_all();
    cluster.must_be_quiet();
    let copies = cluster.copies(COPIES);
    judge(calls, &copies.of(place)).must_be_clean();
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
    let most = memory.iter().copied().fold(0.0, f64::max);
    let limit = (MEMORY_BYTES_MAX + MEMORY_SLACK_BYTES) as f64;
    checks.hold(&format!("{name}: memory of a node, MiB"), mib(most), mib(limit));
    if !long() {
        return;
    }
    // A fault that was never drawn proves nothing.
    let never: Vec<_> = ALL.into_iter().filter(|one| timeline.count(*one) == 0).collect();
    assert!(is_chosen() || never.is_empty(), "never drawn: {never:?}");
    let end = everyday.by_second.len();
    let rates: Vec<_> = (0..end)
        .step_by(SPAN_SECONDS)
        .map(|from| format!("{:.0}", calm_rate(timeline, everyday, from..from + SPAN_SECONDS)))
        .collect();
    say(&format!("{name}: steps a calm second, by {SPAN_SECONDS} s: {}", rates.join(" ")));
    let what =
        format!("{name}: rate of {COMPARED_SECONDS} s from the third minute to that of the last");
    if end < FIRST_SPAN.end + COMPARED_SECONDS {
        say(&format!("{what}: not held, the soak is too short for it"));
    } else {
        let first = calm_rate(timeline, everyday, FIRST_SPAN);
        let last = calm_rate(timeline, everyday, end - COMPARED_SECONDS..end);
        assert!(first > 0.0, "no calm second in the first span: {FIRST_SPAN:?}");
        checks.hold(&what, first / last, 1.0 / 0.9);
    }
    let half = memory.len() / 2;
    let growth = memory[half..].iter().copied().fold(0.0, f64::max)
        / memory[..half].iter().copied().fold(1.0, f64::max);
    checks.hold(&format!("{name}: most memory, second half to first"), growth, 1.2);
}

fn mib(bytes: f64) -> f64 {
    bytes / f64::from(1 << 20)
}

/// Returns the median of acknowledged steps a second over the seconds without a fault: two spans of
/// a soak have different faults.
fn calm_rate(
    timeline: &Timeline,
    told: &everyday::EverydayAnswers,
    span: std::ops::Range<usize>,
) -> f64 {
    let all = told.by_second.iter().enumerate().take(span.end).skip(span.start);
    let calm = all.filter(|(second, _)| timeline.is_calm(*second as u64));
    let seconds = calm.map(|(_, count)| Duration::from_secs(*count)).collect();
    percentile(seconds, 50).as_secs_f64()
}

/// Returns true if the environment selects faults.
fn is_chosen() -> bool {
    std::env::var("CREDENZA_FAULTS").is_ok()
}

fn is_wanted(fault: Fault) -> bool {
    let words = std::env::var("CREDENZA_FAULTS").unwrap_or_default();
    let mut words = words.split(',').filter(|word| !word.is_empty()).peekable();
    words.peek().is_none() || words.any(|word| fault.name().contains(word))
}

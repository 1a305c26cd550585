//! F-17 and F-18: clocks that jump, and clocks that run at another speed than those of the others.

use super::{SECOND, Trial, is_left_to_long_form, plan};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use systest::client::{Resp, RespReply};
use systest::cluster::{Cluster, Options, wait_until};
use systest::environment::{Scratch, StopOnDrop, experiment};
use systest::fault_injection::{Network, NodeClock};
use systest::report::{Figures, skipped};

/// Errors of the wall clock, in seconds.
const JUMPS: [i64; 6] = [600, -600, 3_600, -3_600, 86_400, 0];

#[test]
fn wall_clock_jumps_cause_no_election_and_no_unanswered_call() {
    let name = "F-17 the time of day jumps";
    if is_left_to_long_form(name) {
        return;
    }
    if let Some(reason) = NodeClock::missing() {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-clocks");
    let mut cluster = Cluster::start(&scratch, Options::new(3));
    let clocks: Vec<_> = cluster
        .nodes()
        .map(|node| {
            let clock = NodeClock::new(scratch.join(&format!("clock{node}")));
            cluster.stop(node);
            cluster.setup_mut(node).environment = clock.environment();
            cluster.start_node(node);
            clock
        })
        .collect();
    cluster.must_converge();
    let mut trial = Trial::start(name, &cluster, plan(17));
    let master = cluster.master();
    let before = cluster.group_status(master, 1).expect("it answers").ballot;
    let true_time = wall_clock(&cluster, master);
    for jump in JUMPS {
        for node in [master, cluster.follower()] {
            trial.fault(&mut cluster, |cluster| {
                let started = wall_clock(cluster, node);
                clocks[node - 1].set_offset(jump);
                // The control: the process does see another time.
                wait_until("the jump", || {
                    let shift = wall_clock(cluster, node) - started;
                    if shift.abs() > 300 || jump == 0 { Ok(()) } else { Err(shift.to_string()) }
                });
                std::thread::sleep(2 * SECOND);
            });
        }
    }
    assert!((wall_clock(&cluster, master) - true_time).abs() < 300, "the last jump was back");
    let after = cluster.group_status(cluster.master(), 1).expect("it answers").ballot;
    trial.figures.add("master_changes", u32::from(before != after));
    let history = trial.end(&cluster);
    assert_eq!(before, after, "the master changed because of the time of day");
    assert_eq!(history.counts().2, 0, "calls without an answer");
}

/// Returns the wall-clock time of a node's process, in seconds.
fn wall_clock(cluster: &Cluster, node: usize) -> i64 {
    let mut redis = Resp::connect(cluster.client_address(node)).expect("it listens");
    match redis.call_line("TIME").expect("it answers") {
        RespReply::List(Some(elements)) => {
            let text = elements.first().and_then(RespReply::bytes).expect("seconds");
            std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).expect("a number")
        }
        other => panic!("TIME is answered {other:?}"),
    }
}

/// Speed of the master's clock, of the others' clocks, and number of rounds. The protocol tolerates
/// clocks whose speeds differ by one percent; larger differences are measured only, and the last
/// one is the positive control: there, stale reads must occur.
const SPEEDS: [(f64, f64, u32); 5] =
    [(1.0, 1.0, 2), (0.995, 1.005, 6), (0.95, 1.05, 4), (0.8, 1.2, 3), (0.4, 1.6, 3)];
/// Largest ratio of two clocks' speeds that the protocol tolerates.
const TOLERATED_RATIO: f64 = 1.0101;

#[test]
fn lease_reads_stay_fresh_under_one_percent_clock_drift() {
    let name = "F-18 clocks drift";
    if is_left_to_long_form(name) {
        return;
    }
    if let Some(reason) = NodeClock::missing().or_else(Network::missing) {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-drift");
    let mut figures = Figures::start(name);
    let mut cluster = Cluster::start(&scratch, Options::new(3).with_switch());
    let mut last_stale = 0;
    for (slow, fast, rounds) in SPEEDS {
        for node in cluster.nodes() {
            cluster.stop(node);
            let speed = if node == 1 { slow } else { fast };
            cluster.setup_mut(node).environment = NodeClock::environment_at_speed(speed);
            cluster.start_node(node);
        }
        let mut stale = 0;
        for _ in 0..rounds {
            let round = run_isolation_round(&mut cluster);
            figures.faults += 1;
            figures.ok += round.reads;
            stale += round.stale;
        }
        figures.add(&format!("stale_at_{slow}_to_{fast}"), stale);
        assert!(
            fast / slow > TOLERATED_RATIO || stale == 0,
            "{stale} stale reads at {slow} to {fast}"
        );
        last_stale = stale;
    }
    figures.print();
    assert!(
        last_stale > 0,
        "clocks that are wholly wrong did no harm: the experiment sees nothing"
    );
    for node in cluster.nodes() {
        cluster.stop(node);
        cluster.setup_mut(node).environment.clear();
        cluster.start_node(node);
    }
    cluster.must_converge();
    cluster.must_have_equal_rows();
}

/// Results of one round: the answers of a master that was cut off.
struct RoundResult {
    reads: u64,
    stale: u64,
}

/// Node 1 leads and is cut off from the others, which go on writing; a client reads at it
/// meanwhile. A read is stale if a later write had been acknowledged before the read was requested.
fn run_isolation_round(cluster: &mut Cluster) -> RoundResult {
    cluster.must_converge();
    cluster.must_serve();
    cluster.make_master(1);
    let (written, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let (isolated_address, other_addresses) =
        (cluster.client_address(1), [cluster.client_address(2), cluster.client_address(3)]);
    let mut round = RoundResult { reads: 0, stale: 0 };
    cluster.on_client_host(|| {
        // Each round begins with a new connection.
        let mut redis = Resp::connect(isolated_address).expect("it listens");
        assert_eq!(redis.call_line("SET drift 0").expect("it answers").error(), None);
        std::thread::scope(|threads| {
            threads.spawn(|| write_numbers(&other_addresses, &written, &stop));
            let reader = threads.spawn(|| read_numbers(isolated_address, &written, &stop));
            let stopping = StopOnDrop(&stop);
            std::thread::sleep(SECOND);
            cluster.isolate(1);
            std::thread::sleep(4 * cluster.lease());
            drop(stopping);
            round = reader.join().expect("the reader does not panic");
        });
    });
    cluster.heal();
    assert!(round.reads > 100, "almost nothing was read: {}", round.reads);
    assert!(written.load(Ordering::SeqCst) > 100, "almost nothing was written");
    round
}

/// Writes one number after the other; publishes the last acknowledged one.
fn write_numbers(nodes: &[std::net::SocketAddr], written: &AtomicU64, stop: &AtomicBool) {
    let (mut next, mut at) = (1, 0);
    while !stop.load(Ordering::SeqCst) {
        let connection = Resp::with_timeout(nodes[at % nodes.len()], SECOND);
        at += 1;
        let Ok(mut redis) = connection else { continue };
        while !stop.load(Ordering::SeqCst) {
            match redis.call_line(&format!("SET drift {next}")) {
                Ok(RespReply::Simple(_)) => written.store(next, Ordering::SeqCst),
                // A write of unknown outcome is repeated under a higher number.
                _ => break,
            }
            next += 1;
        }
        next += 1;
    }
}

fn read_numbers(node: std::net::SocketAddr, written: &AtomicU64, stop: &AtomicBool) -> RoundResult {
    let mut round = RoundResult { reads: 0, stale: 0 };
    while !stop.load(Ordering::SeqCst) {
        let Ok(mut redis) = Resp::with_timeout(node, SECOND) else { continue };
        while !stop.load(Ordering::SeqCst) {
            let acknowledged = written.load(Ordering::SeqCst);
            let Ok(RespReply::Bulk(Some(found))) = redis.call_line("GET drift") else { break };
            let text = String::from_utf8(found).expect("a number was written");
            let found: u64 = text.parse().expect("a number was written");
            round.reads += 1;
            round.stale += u64::from(found < acknowledged);
        }
        std::thread::sleep(SECOND / 50);
    }
    round
}

//! Histories of concurrent clients of one node that is killed repeatedly: one order of all calls
//! must explain every answer.

use super::small_setup;
use std::path::Path;
use std::time::Duration;
use systest::checkers::{LinearReport, check};
use systest::environment::{Scratch, experiment, path_str, run_ok};
use systest::report::{Figures, short_or_long};
use systest::server::Server;
use systest::workload::registers::{Failover, RegisterHistory, RegisterPlan, RegisterWorkload};

const STEPS_MAX: u64 = 2_000_000;

fn plan(seed: u64) -> RegisterPlan {
    let (pause, timeout) = (Duration::from_millis(1), Duration::from_secs(10));
    RegisterPlan { clients: 8, keys: 4, seed, pause, timeout, pairs: 1, failover: Failover::Stay }
}

/// Fault between two parts of a history.
#[derive(Clone, Copy)]
enum Fault<'a> {
    /// The process is killed and restarted.
    Kill,
    /// The process is killed and restarted on an older copy of its data, as if the store
    /// acknowledged before it wrote.
    Forget { copy: &'a Path },
}

/// Runs clients before and after each fault; returns their history.
fn run_history(scratch: &Scratch, seed: u64, kills: usize, fault: Fault) -> RegisterHistory {
    let data = scratch.join(&format!("data-{seed}"));
    let mut server = Server::must_start(&small_setup(&data));
    let recorder = RegisterWorkload::start(&[server.address], plan(seed));
    for _ in 0..kills {
        std::thread::sleep(Duration::from_millis(400));
        if let Fault::Forget { copy } = fault {
            // A copy of a directory in use may be torn: the node is stopped for a moment.
            server.kill();
            run_ok(&["cp", "-a", path_str(&data), path_str(copy)]);
            server = Server::must_start(&server.setup);
            recorder.set_address(0, server.address);
            std::thread::sleep(Duration::from_millis(400));
        }
        server.kill();
        if let Fault::Forget { copy } = fault {
            run_ok(&["rm", "-rf", path_str(&data)]);
            run_ok(&["mv", path_str(copy), path_str(&data)]);
        }
        server = Server::must_start(&server.setup);
        recorder.set_address(0, server.address);
    }
    std::thread::sleep(Duration::from_millis(400));
    let history = recorder.stop().expect("the node can be read");
    assert_eq!(history.unexpected, Vec::<String>::new());
    assert!(history.counts().0 > 100, "clients did almost nothing: {:?}", history.counts());
    history
}

fn check_history(history: &RegisterHistory, figures: &mut Figures) -> LinearReport {
    let report = check(&history.calls, STEPS_MAX);
    let (ok, refused, unknown) = history.counts();
    figures.ok += ok;
    figures.fail += refused;
    figures.info += unknown;
    figures.add("steps", report.steps);
    report
}

#[test]
fn history_of_clients_through_node_kills_is_linearizable() {
    let _permit = experiment();
    let scratch = Scratch::new("linear");
    let mut figures = Figures::start("linearizable through kill -9");
    for seed in 0..short_or_long(1, 20) as u64 {
        let kills = short_or_long(3, 10);
        let history = run_history(&scratch, seed, kills, Fault::Kill);
        figures.faults += kills as u64;
        check_history(&history, &mut figures).must_be_linearizable();
    }
    // Positive control: the checker must detect a node that lost data; if no client wrote at that
    // moment, it is tried again.
    let copy = scratch.join("copy");
    let is_detected = |seed| {
        let damaged_history = run_history(&scratch, seed, 1, Fault::Forget { copy: &copy });
        check(&damaged_history.calls, STEPS_MAX).is_violated()
    };
    assert!((77..82).any(is_detected), "the judge does not see a forgetful node");
    figures.add("control", "violated");
    figures.print();
}

//! Histories of concurrent clients of one node that is killed repeatedly: one order of all calls
//! must explain every answer.

use super::small;
use std::path::Path;
use std::time::Duration;
use systest::checkers::{LinearReport, check};
use systest::report::{Figures, times};
use systest::rigs::{Scratch, experiment, must, text};
use systest::server::Server;
use systest::workload::registers::{RegisterHistory, RegisterPlan, RegisterWorkload, Turns};

const STEPS_MAX: u64 = 2_000_000;

fn plan(seed: u64) -> RegisterPlan {
    let (pause, patience) = (Duration::from_millis(1), Duration::from_secs(10));
    RegisterPlan { clients: 8, keys: 4, seed, pause, patience, pairs: 1, turns: Turns::Back }
}

/// Fault between two parts of a history.
#[derive(Clone, Copy)]
enum Fault<'a> {
    /// The process is killed and restarted.
    Kill,
    /// The process is killed and restarted on an older copy of its data, as a store would be that
    /// acknowledges before it has written.
    Forget { copy: &'a Path },
}

/// Runs clients before and after each fault; returns their history.
fn story(scratch: &Scratch, seed: u64, kills: usize, fault: Fault) -> RegisterHistory {
    let data = scratch.join(&format!("data-{seed}"));
    let mut server = Server::must(&small(&data));
    let recorder = RegisterWorkload::start(&[server.address], plan(seed));
    for _ in 0..kills {
        std::thread::sleep(Duration::from_millis(400));
        if let Fault::Forget { copy } = fault {
            // A copy of a directory in use may be torn: the node is stopped for a moment.
            server.kill();
            must(&["cp", "-a", text(&data), text(copy)]);
            server = Server::must(&server.setup);
            recorder.moved(0, server.address);
            std::thread::sleep(Duration::from_millis(400));
        }
        server.kill();
        if let Fault::Forget { copy } = fault {
            must(&["rm", "-rf", text(&data)]);
            must(&["mv", text(copy), text(&data)]);
        }
        server = Server::must(&server.setup);
        recorder.moved(0, server.address);
    }
    std::thread::sleep(Duration::from_millis(400));
    let history = recorder.stop().expect("the node can be read");
    assert_eq!(history.strange, Vec::<String>::new());
    assert!(history.counts().0 > 100, "clients did almost nothing: {:?}", history.counts());
    history
}

fn judged(history: &RegisterHistory, figures: &mut Figures) -> LinearReport {
    let report = check(&history.calls, STEPS_MAX);
    let (ok, refused, unknown) = history.counts();
    figures.ok += ok;
    figures.fail += refused;
    figures.info += unknown;
    figures.also("steps", report.steps);
    report
}

#[test]
fn concurrent_clients_of_a_node_that_is_killed_see_one_order() {
    let _permit = experiment();
    let scratch = Scratch::new("linear");
    let mut figures = Figures::begin("linearizable through kill -9");
    for seed in 0..times(1, 20) as u64 {
        let kills = times(3, 10);
        let history = story(&scratch, seed, kills, Fault::Kill);
        figures.faults += kills as u64;
        judged(&history, &mut figures).must_be_linearizable();
    }
    // Positive control: the checker must notice a node that lost data; if no client wrote just
    // then, it is tried again.
    let copy = scratch.join("copy");
    let is_seen = |seed| {
        let forgetful = story(&scratch, seed, 1, Fault::Forget { copy: &copy });
        check(&forgetful.calls, STEPS_MAX).is_violated()
    };
    assert!((77..82).any(is_seen), "the judge does not see a forgetful node");
    figures.also("control", "violated");
    figures.print();
}

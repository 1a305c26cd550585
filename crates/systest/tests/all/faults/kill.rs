//! F-04: repeated SIGKILL under load, on the same data.

use super::{add_counts, judge, load_for_a_while, small_setup};
use systest::environment::{Scratch, experiment, path_str, run_ok};
use systest::report::{Figures, short_or_long};
use systest::server::Server;
use systest::workload::ledger::Ledger;

#[test]
fn repeated_kills_under_load_lose_no_acknowledged_write() {
    let _permit = experiment();
    let scratch = Scratch::new("f04");
    let setup = small_setup(&scratch.join("data"));
    let mut figures = Figures::start("F-04 kill -9 under load");
    let mut total = Ledger::default();
    let mut longest_start_ms = 0;
    let mut server = Server::must_start(&setup);
    for round in 0..short_or_long(8, 100) {
        let load = load_for_a_while(&server, round);
        server.kill();
        figures.faults += 1;
        let ledger = load.stop();
        assert!(ledger.ok > 20, "round {round}: clients wrote almost nothing: {ledger:?}");
        add_counts(&mut figures, &ledger);
        total.join(ledger);
        server = Server::must_start(&setup);
        longest_start_ms = longest_start_ms.max(server.ready_after.as_millis());
        judge(&mut figures, &total, &server);
    }
    figures.add("keys", total.keys());
    figures.add("slowest_start_ms", longest_start_ms);
    check_control(&mut figures, server, &scratch);
    figures.print();
}

/// Positive control of the checker: with an older copy of the data, as if the last round had been
/// lost, it must report losses.
fn check_control(figures: &mut Figures, mut server: Server, scratch: &Scratch) {
    server.kill();
    let copy = scratch.join("copy");
    run_ok(&["cp", "-a", path_str(&scratch.join("data")), path_str(&copy)]);
    let server = Server::must_start(&server.setup);
    let load = load_for_a_while(&server, 900);
    let ledger = load.stop();
    drop(server);
    let outdated = Server::must_start(&small_setup(&copy));
    let verdict = ledger.judge(outdated.address).expect("every key can be read");
    figures.add("control_lost", verdict.lost.len());
    assert!(!verdict.lost.is_empty(), "the judge does not see a forgotten round");
}

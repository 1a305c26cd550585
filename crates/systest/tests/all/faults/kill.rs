//! F-04: repeated SIGKILL under load, on the same data.

use super::{count, judge, load_for_a_while, small};
use systest::report::{Figures, times};
use systest::rigs::{Scratch, experiment, must, text};
use systest::server::Server;
use systest::workload::ledger::Ledger;

#[test]
fn killed_under_load_again_and_again_it_loses_nothing_acknowledged() {
    let _permit = experiment();
    let scratch = Scratch::new("f04");
    let setup = small(&scratch.join("data"));
    let mut figures = Figures::begin("F-04 kill -9 under load");
    let mut told = Ledger::default();
    let mut slowest = 0;
    let mut server = Server::must(&setup);
    for round in 0..times(8, 100) {
        let load = load_for_a_while(&server, round);
        server.kill();
        figures.faults += 1;
        let ledger = load.stop();
        assert!(ledger.ok > 20, "round {round}: clients wrote almost nothing: {ledger:?}");
        count(&mut figures, &ledger);
        told.join(ledger);
        server = Server::must(&setup);
        slowest = slowest.max(server.ready_after.as_millis());
        judge(&mut figures, &told, &server);
    }
    figures.also("keys", told.keys());
    figures.also("slowest_start_ms", slowest);
    control(&mut figures, server, &scratch);
    figures.print();
}

/// Positive control of the checker: with an older copy of the data, as if the last round had been
/// lost, it must report losses.
fn control(figures: &mut Figures, mut server: Server, scratch: &Scratch) {
    server.kill();
    let copy = scratch.join("copy");
    must(&["cp", "-a", text(&scratch.join("data")), text(&copy)]);
    let server = Server::must(&server.setup);
    let load = load_for_a_while(&server, 900);
    let ledger = load.stop();
    drop(server);
    let forgetful = Server::must(&small(&copy));
    let verdict = ledger.judge(forgetful.address).expect("every key can be read");
    figures.also("control_lost", verdict.lost.len());
    assert!(!verdict.lost.is_empty(), "the judge does not see a forgotten round");
}

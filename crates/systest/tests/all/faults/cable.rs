//! A node on one host and clients on another, with a link between them that loses, delays and is
//! cut: calls without an answer stay unknown, and one order explains the whole history.

use super::small;
use std::time::Duration;
use systest::checkers::check;
use systest::report::{Figures, skipped};
use systest::rigs::{Cable, Network, Scratch, experiment};
use systest::server::Server;
use systest::workload::registers::{RegisterPlan, RegisterWorkload, Turns};

const NODE: usize = 1;
const CLIENTS: usize = 2;

fn while_it_is(network: &Network, to_the_node: Cable, back: Cable, time: Duration) {
    network.link(CLIENTS, NODE, to_the_node);
    network.link(NODE, CLIENTS, back);
    std::thread::sleep(time);
    network.heal();
    std::thread::sleep(Duration::from_millis(500));
}

#[test]
fn clients_behind_a_bad_cable_see_one_order() {
    let name = "linearizable behind a bad cable";
    if let Some(why) = Network::missing() {
        return skipped(name, &why);
    }
    let _permit = experiment();
    let scratch = Scratch::new("cable");
    let network = Network::new(scratch.path(), 2, 1);
    let mut figures = Figures::begin(name);
    let mut setup =
        small(&scratch.join("data")).with(&["--insecure", "on", "--admin-listen", "127.0.0.1:0"]);
    setup.listen = format!("{}:7000", network.address(NODE));
    setup.wrapper = network.wrapper(NODE);
    let server = Server::must(&setup);
    let (pause, patience) = (Duration::from_millis(2), Duration::from_millis(300));
    let plan = RegisterPlan {
        clients: 6,
        keys: 3,
        seed: 5,
        pause,
        patience,
        pairs: 1,
        turns: Turns::Back,
    };
    // Threads that are started on a host stay there.
    let recorder = network.on(CLIENTS, || RegisterWorkload::start(&[server.address], plan));
    std::thread::sleep(Duration::from_millis(500));

    // Answers are lost: the requests are executed, and the clients can't know it.
    let good = Cable::default();
    while_it_is(&network, good, Cable::CUT, Duration::from_secs(1));
    // Requests are lost.
    while_it_is(&network, Cable::CUT, good, Duration::from_secs(1));
    while_it_is(&network, Cable::CUT, Cable::CUT, Duration::from_secs(1));
    // All packets are slow, some are lost, some duplicated, and none in order.
    let (delay, jitter) = (Duration::from_millis(10), Duration::from_millis(20));
    let bad = Cable { delay, jitter, loss: 50, twice: 100, ..Cable::default() };
    while_it_is(&network, bad, bad, Duration::from_secs(3));
    figures.faults = 4;

    let history = network.on(CLIENTS, || recorder.stop()).expect("the node can be read");
    assert_eq!(history.strange, Vec::<String>::new());
    (figures.ok, figures.fail, figures.info) = history.counts();
    assert!(figures.ok > 200, "clients did almost nothing: {:?}", history.counts());
    assert!(figures.info >= 6, "the cuts were not felt: {:?}", history.counts());
    let report = check(&history.calls, 2_000_000);
    figures.also("steps", report.steps);
    report.must_be_linearizable();
    figures.print();
}

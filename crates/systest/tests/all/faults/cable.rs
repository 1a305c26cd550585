//! A node on one host and clients on another, with a link between them that loses, delays and is
//! cut: calls without an answer stay unknown, and one order explains the whole history.

use super::small_setup;
use std::time::Duration;
use systest::checkers::check;
use systest::environment::{Scratch, experiment};
use systest::fault_injection::{Cable, Network};
use systest::report::{Figures, skipped};
use systest::server::Server;
use systest::workload::registers::{Failover, RegisterPlan, RegisterWorkload};

const NODE: usize = 1;
const CLIENTS: usize = 2;

fn run_with_links(network: &Network, to_node: Cable, to_clients: Cable, duration: Duration) {
    network.set_link(CLIENTS, NODE, to_node);
    network.set_link(NODE, CLIENTS, to_clients);
    std::thread::sleep(duration);
    network.heal();
    std::thread::sleep(Duration::from_millis(500));
}

#[test]
fn history_of_clients_behind_bad_link_is_linearizable() {
    let name = "linearizable behind a bad cable";
    if let Some(reason) = Network::missing() {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("cable");
    let network = Network::new(scratch.path(), 2, 1);
    let mut figures = Figures::start(name);
    let mut setup = small_setup(&scratch.join("data")).with_args(&[
        "--insecure",
        "on",
        "--admin-listen",
        "127.0.0.1:0",
    ]);
    setup.listen = format!("{}:7000", network.address(NODE));
    setup.wrapper = network.wrapper(NODE);
    let server = Server::must_start(&setup);
    let (pause, timeout) = (Duration::from_millis(2), Duration::from_millis(300));
    let plan = RegisterPlan {
        clients: 6,
        keys: 3,
        seed: 5,
        pause,
        timeout,
        pairs: 1,
        failover: Failover::Stay,
    };
    // Threads that are started on a host stay there.
    let recorder =
        network.run_on_host(CLIENTS, || RegisterWorkload::start(&[server.address], plan));
    std::thread::sleep(Duration::from_millis(500));

    // Answers are lost: the requests are executed, with an outcome unknown to the clients.
    let good_link = Cable::default();
    run_with_links(&network, good_link, Cable::CUT, Duration::from_secs(1));
    // Requests are lost.
    run_with_links(&network, Cable::CUT, good_link, Duration::from_secs(1));
    run_with_links(&network, Cable::CUT, Cable::CUT, Duration::from_secs(1));
    // All packets are slow, some are lost, some duplicated, and none in order.
    let (delay, jitter) = (Duration::from_millis(10), Duration::from_millis(20));
    let bad_link = Cable { delay, jitter, loss: 50, duplicate: 100, ..Cable::default() };
    run_with_links(&network, bad_link, bad_link, Duration::from_secs(3));
    figures.faults = 4;

    let history = network.run_on_host(CLIENTS, || recorder.stop()).expect("the node can be read");
    assert_eq!(history.unexpected, Vec::<String>::new());
    (figures.ok, figures.fail, figures.info) = history.counts();
    assert!(figures.ok > 200, "clients did almost nothing: {:?}", history.counts());
    assert!(figures.info >= 6, "the cuts were not felt: {:?}", history.counts());
    let report = check(&history.calls, 2_000_000);
    figures.add("steps", report.steps);
    report.must_be_linearizable();
    figures.print();
}

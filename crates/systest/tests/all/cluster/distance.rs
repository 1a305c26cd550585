//! Three distant nodes, with clients distant from all of them: the throughput that follows from the
//! number of round trips.

use super::{SECOND, waits_for_the_long_tests};
use std::time::Duration;
use systest::report::{Figures, skipped};
use systest::rigs::{Cable, Cluster, Network, Options, Scratch, experiment};

/// Time of each packet in transit between any two hosts.
const DELAY: Duration = Duration::from_millis(50);
const CLIENTS: [u32; 5] = [1, 4, 8, 64, 1_000];

/// Each client sends its next request when it has an answer. A put takes two round trips: one from
/// the client to the master, one from the master to the others. A read under a lease takes only the
/// first.
#[test]
fn far_apart_puts_take_two_round_trips_and_reads_one() {
    let name = "far apart";
    if waits_for_the_long_tests(name) {
        return;
    }
    if let Some(why) = Network::missing() {
        return skipped(name, &why);
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-distance");
    // Only the lease is set; all else has the product's defaults.
    let options = Options { words: Vec::new(), ..Options::of(3).behind_the_switch() };
    let cluster = Cluster::start(&scratch, options);
    for from in 1..=cluster.size() + 1 {
        for to in (1..=cluster.size() + 1).filter(|to| *to != from) {
            cluster.network().link(from, to, Cable::slow(DELAY));
        }
    }
    // Joining and elections happen at this distance, too.
    cluster.must_settle();
    cluster.must_serve();
    let round_trip = 2 * DELAY;
    for (word, operation, trips) in [("put", "put", 2), ("lease read", "get", 1)] {
        for clients in CLIENTS {
            let mut figures = Figures::begin(&format!("far apart, {word}, {clients} clients"));
            let settings = format!(
                "warm_up = \"4s\"\nduration = \"10s\"\nconcurrent = {clients}\n\
                 operations = [[\"{operation}\", 1]]\n\
                 key_generator = [\"fixed_width\", 20, \"key:\", [\"uniform_int\", 100000]]\n\
                 value_generator = [\"fixed_bin\", 100]\n"
            );
            let run = format!("{operation}{clients}");
            let report = cluster.bench(scratch.path(), &run, cluster.master(), &settings).report();
            let limit = f64::from(clients) / (round_trip * trips).as_secs_f64();
            let found = report["throughput"].as_f64().expect("a number");
            let latency = |name: &str| report["latency_us"][name].as_f64().expect("a number") / 1e3;
            figures.ok = report["ok"].as_u64().expect("a number");
            figures.fail = report["failed"].as_u64().expect("a number");
            figures.also("a_second", format!("{found:.1}"));
            figures.also("limit", limit);
            figures.also("percent_of_it", format!("{:.1}", found / limit * 100.0));
            figures.also("p50_ms", format!("{:.1}", latency("p50")));
            figures.also("p99_ms", format!("{:.1}", latency("p99")));
            figures.print();
            assert_eq!(figures.fail, 0, "operations failed: {report}");
            assert!(found <= limit * 1.01, "faster than light: {found} of {limit}");
            std::thread::sleep(SECOND);
        }
    }
    cluster.network().heal();
    cluster.must_settle();
    cluster.must_be_level();
}

//! Three distant nodes, with clients distant from all of them: the throughput that follows from the
//! number of round trips.

use super::{SECOND, is_left_to_long_form};
use std::time::Duration;
use systest::cluster::{Cluster, Options};
use systest::environment::{Scratch, experiment};
use systest::fault_injection::{Cable, Network};
use systest::report::{Figures, skipped};

/// Time of each packet in transit between any two hosts.
const DELAY: Duration = Duration::from_millis(50);
const CLIENTS: [u32; 5] = [1, 4, 8, 64, 1_000];

/// Each client sends its next request when it has an answer. A put takes two round trips: one from
/// the client to the master, one from the master to the others. A read under a lease takes only the
/// first.
#[test]
fn distant_puts_take_at_least_two_round_trips_and_lease_reads_one() {
    let name = "far apart";
    if is_left_to_long_form(name) {
        return;
    }
    if let Some(reason) = Network::missing() {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-distance");
    // Only the lease is set; all else has the product's defaults.
    let options = Options { args: Vec::new(), ..Options::new(3).with_switch() };
    let cluster = Cluster::start(&scratch, options);
    for from in 1..=cluster.size() + 1 {
        for to in (1..=cluster.size() + 1).filter(|to| *to != from) {
            cluster.network().set_link(from, to, Cable::slow(DELAY));
        }
    }
    // Joining and elections happen at this distance, too.
    cluster.must_converge();
    cluster.must_serve();
    let round_trip = 2 * DELAY;
    for (label, operation, trips) in [("put", "put", 2), ("lease read", "get", 1)] {
        for clients in CLIENTS {
            let mut figures = Figures::start(&format!("far apart, {label}, {clients} clients"));
            let settings = format!(
                "warm_up = \"4s\"\nduration = \"10s\"\nconcurrent = {clients}\n\
                 operations = [[\"{operation}\", 1]]\n\
                 key_generator = [\"fixed_width\", 20, \"key:\", [\"uniform_int\", 100000]]\n\
                 value_generator = [\"fixed_bin\", 100]\n"
            );
            let run = format!("{operation}{clients}");
            let report = cluster.bench(scratch.path(), &run, cluster.master(), &settings).report();
            let limit = f64::from(clients) / (round_trip * trips).as_secs_f64();
            let throughput = report["throughput"].as_f64().expect("a number");
            let latency = |name: &str| report["latency_us"][name].as_f64().expect("a number") / 1e3;
            figures.ok = report["ok"].as_u64().expect("a number");
            figures.fail = report["failed"].as_u64().expect("a number");
            figures.add("a_second", format!("{throughput:.1}"));
            figures.add("limit", limit);
            figures.add("percent_of_it", format!("{:.1}", throughput / limit * 100.0));
            figures.add("p50_ms", format!("{:.1}", latency("p50")));
            figures.add("p99_ms", format!("{:.1}", latency("p99")));
            figures.print();
            assert_eq!(figures.fail, 0, "operations failed: {report}");
            assert!(throughput <= limit * 1.01, "faster than light: {throughput} of {limit}");
            std::thread::sleep(SECOND);
        }
    }
    cluster.network().heal();
    cluster.must_converge();
    cluster.must_have_equal_rows();
}

//! A member that missed a million updates, and one whose disk is new, catch up while the cluster
//! accepts writes.

use super::{SECOND, is_left_to_long_form};
use serde_json::Value;
use std::time::{Duration, Instant};
use systest::cluster::{Cluster, Options};
use systest::environment::{Scratch, experiment};
use systest::report::Figures;

const MISSED_UPDATES: u64 = 1_000_000;
/// Length of the load before the member returns, and its total length.
const LOAD_BEFORE_RETURN: Duration = Duration::from_secs(1);
const MEASURED_SECONDS: u32 = 16;
const SNAPSHOTS_RECEIVED: &str = "credenza_snapshots_received_total";

/// Open-loop load at a fixed rate.
const STEADY_LOAD: &str = "mode = [\"rate\", 2000]\nconcurrent = 32\noperations = [[\"put\", 1]]\n\
                      key_generator = [\"fixed_width\", 20, \"key:\", [\"uniform_int\", 100000]]\n\
                      value_generator = [\"fixed_bin\", 100]\n";

#[test]
fn member_missing_a_million_updates_catches_up_under_write_load() {
    let name = "catching up";
    if is_left_to_long_form(name) {
        return;
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-catch-up");
    // Only the lease is set; all else has the product's defaults.
    let options = Options { args: Vec::new(), ..Options::new(3) };
    let mut cluster = Cluster::start(&scratch, options);
    let victim = if cluster.master() == 3 { 2 } else { 3 };
    let baseline = start_steady_load(&cluster, &scratch, "calm", 8).report();
    for (method, wiped) in [("by the log", false), ("with a new disk", true)] {
        let mut figures = Figures::start(&format!("catching up {method}"));
        cluster.kill(victim);
        figures.ok = write_missed_updates(&cluster, &scratch, method);
        assert!(figures.ok >= MISSED_UPDATES, "{} of {MISSED_UPDATES} were written", figures.ok);
        let load = start_steady_load(
            &cluster,
            &scratch,
            if wiped { "wiped" } else { "log" },
            MEASURED_SECONDS,
        );
        std::thread::sleep(LOAD_BEFORE_RETURN);
        let started = Instant::now();
        if wiped {
            cluster.replace(victim);
        } else {
            cluster.start_node(victim);
        }
        let ready_after = started.elapsed();
        cluster.must_catch_up(victim);
        let level_after = started.elapsed();
        cluster.must_converge();
        figures.add("process_ready_ms", ready_after.as_millis());
        figures.add("level_ms", level_after.as_millis());
        figures.add("a_voter_of_all_groups_ms", started.elapsed().as_millis());
        figures.add("snapshots_received", cluster.metric(victim, SNAPSHOTS_RECEIVED));
        let during = load.report();
        figures.add("p99_us_before", p99(&baseline));
        figures.add("p99_us_meanwhile", p99(&during));
        figures.fail = during["failed"].as_u64().expect("a number");
        figures.print();
        assert_eq!(figures.fail, 0, "operations failed: {during}");
        cluster.must_have_equal_rows();
    }
}

fn p99(report: &Value) -> u64 {
    report["latency_us"]["p99"].as_f64().expect("a number") as u64
}

fn start_steady_load(
    cluster: &Cluster,
    scratch: &Scratch,
    name: &str,
    seconds: u32,
) -> systest::cluster::Bench {
    let settings = format!("warm_up = \"1s\"\nduration = \"{seconds}s\"\n{STEADY_LOAD}");
    cluster.bench(scratch.path(), name, cluster.master(), &settings)
}

/// Writes a million keys as fast as possible; returns the number of acknowledged writes.
fn write_missed_updates(cluster: &Cluster, scratch: &Scratch, method: &str) -> u64 {
    let settings = format!(
        "duration = \"infinity\"\nconcurrent = 64\npipeline = 16\noperations = [[\"put\", 1]]\n\
         value_generator = [\"fixed_bin\", 100]\nkey_generator = \
         [\"fixed_width\", 20, \"key:\", [\"partitioned_sequential_int\", 1, {MISSED_UPDATES}]]\n"
    );
    let name = format!("missed-{}", method.replace(' ', "-"));
    let report = cluster.bench(scratch.path(), &name, cluster.master(), &settings).report();
    std::thread::sleep(SECOND);
    report["ok"].as_u64().expect("a number")
}

//! A member that missed a million updates, and one whose disk is new, catch up while the cluster
//! accepts writes.

use super::{SECOND, waits_for_the_long_tests};
use serde_json::Value;
use std::time::{Duration, Instant};
use systest::report::Figures;
use systest::rigs::{Cluster, Options, Scratch, experiment};

const MISSED: u64 = 1_000_000;
/// Length of the load before the member returns, and in all.
const BEFORE: Duration = Duration::from_secs(1);
const MEASURED_SECONDS: u32 = 16;
const RECEIVED: &str = "credenza_snapshots_received_total";

/// Open load at a fixed rate, whatever the cluster does.
const STEADY: &str = "mode = [\"rate\", 2000]\nconcurrent = 32\noperations = [[\"put\", 1]]\n\
                      key_generator = [\"fixed_width\", 20, \"key:\", [\"uniform_int\", 100000]]\n\
                      value_generator = [\"fixed_bin\", 100]\n";

#[test]
fn a_member_that_missed_a_million_updates_is_level_again_while_others_write() {
    let name = "catching up";
    if waits_for_the_long_tests(name) {
        return;
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-catch-up");
    // Only the lease is set; all else has the product's defaults.
    let options = Options { words: Vec::new(), ..Options::of(3) };
    let mut cluster = Cluster::start(&scratch, options);
    let victim = if cluster.master() == 3 { 2 } else { 3 };
    let calm = steady(&cluster, &scratch, "calm", 8).report();
    for (way, wiped) in [("by the log", false), ("with a new disk", true)] {
        let mut figures = Figures::begin(&format!("catching up {way}"));
        cluster.kill(victim);
        figures.ok = write_what_is_missed(&cluster, &scratch, way);
        assert!(figures.ok >= MISSED, "{} of {MISSED} were written", figures.ok);
        let load =
            steady(&cluster, &scratch, if wiped { "wiped" } else { "log" }, MEASURED_SECONDS);
        std::thread::sleep(BEFORE);
        let begun = Instant::now();
        if wiped {
            cluster.replace(victim);
        } else {
            cluster.begin(victim);
        }
        let serving = begun.elapsed();
        cluster.must_catch_up(victim);
        let near = begun.elapsed();
        cluster.must_settle();
        figures.also("process_ready_ms", serving.as_millis());
        figures.also("level_ms", near.as_millis());
        figures.also("a_voter_of_all_groups_ms", begun.elapsed().as_millis());
        figures.also("snapshots_received", cluster.metric(victim, RECEIVED));
        let meanwhile = load.report();
        figures.also("p99_us_before", p99(&calm));
        figures.also("p99_us_meanwhile", p99(&meanwhile));
        figures.fail = meanwhile["failed"].as_u64().expect("a number");
        figures.print();
        assert_eq!(figures.fail, 0, "operations failed: {meanwhile}");
        cluster.must_be_level();
    }
}

fn p99(report: &Value) -> u64 {
    report["latency_us"]["p99"].as_f64().expect("a number") as u64
}

fn steady(cluster: &Cluster, scratch: &Scratch, name: &str, seconds: u32) -> systest::rigs::Bench {
    let settings = format!("warm_up = \"1s\"\nduration = \"{seconds}s\"\n{STEADY}");
    cluster.bench(scratch.path(), name, cluster.master(), &settings)
}

/// Writes a million keys as fast as possible; returns the number of acknowledged writes.
fn write_what_is_missed(cluster: &Cluster, scratch: &Scratch, way: &str) -> u64 {
    let settings = format!(
        "duration = \"infinity\"\nconcurrent = 64\npipeline = 16\noperations = [[\"put\", 1]]\n\
         value_generator = [\"fixed_bin\", 100]\nkey_generator = \
         [\"fixed_width\", 20, \"key:\", [\"partitioned_sequential_int\", 1, {MISSED}]]\n"
    );
    let name = format!("missed-{}", way.replace(' ', "-"));
    let report = cluster.bench(scratch.path(), &name, cluster.master(), &settings).report();
    std::thread::sleep(SECOND);
    report["ok"].as_u64().expect("a number")
}

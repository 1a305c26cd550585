//! Latency at the other nodes when one of three dies: n=3, r=w=2.

use super::{COPIES, Trial, judge_all, options, span};
use std::time::Duration;
use systest::cluster::{Bench, Cluster, Options};
use systest::environment::{Scratch, experiment};
use systest::report::{Figures, is_long_form, skipped};
use systest::workload::siblings::SiblingPlan;

/// Length of the measured part of each load, after a warm-up of a second.
const MEASURED_SECONDS: u64 = 10;

#[test]
fn node_death_fails_no_request_at_the_other_nodes() {
    let name = "p99 under a node's death";
    if !is_long_form() {
        return skipped(name, "takes half a minute: CREDENZA_TEST_LONG=1");
    }
    let _permit = experiment();
    let scratch = Scratch::new("available-death");
    let mut cluster = Cluster::start(&scratch, options(3));
    cluster.init_ring();
    let mut trial = Trial::start(name, &cluster, SiblingPlan::new(58));
    let killed = 2;
    let mut spans = vec![("before", span(&trial, 10))];
    cluster.kill(killed);
    trial.figures.faults += 1;
    spans.push(("first_second", span(&trial, 1)));
    let (from, _) = spans[1].1;
    spans.push(("first_ten", (from, span(&trial, 9).1)));
    spans.push(("after", span(&trial, 10)));
    cluster.start_node(killed);
    cluster.must_suspect_none();
    spans.push(("back", span(&trial, 10)));
    let mut finished = trial.end(&cluster);
    for (phase, span) in spans {
        let is_other_node = |at: usize| at + 1 != killed;
        let times =
            [50, 99].map(|percent| finished.history.percentile(span, is_other_node, percent));
        let times = times.map(|time| time.as_micros()).map(|time| time.to_string());
        finished.figures.add(&format!("{phase}_p50_p99_us"), times.join("/"));
        let (answered, all) = finished.history.answer_counts(span, is_other_node);
        finished.figures.add(&format!("{phase}_answered"), format!("{answered}_of_{all}"));
        assert!(all > 50 && answered == all, "{phase}: {:?}", finished.history.refusals);
    }
    judge_all(&cluster.copies(COPIES), vec![finished]);
}

/// Latency under the death of a node, for many clients without pauses, which all use one node that
/// stays up.
#[test]
fn node_death_under_full_load_fails_no_request_at_a_live_node() {
    let name = "p99 under a node's death and full load";
    if !is_long_form() {
        return skipped(name, "takes two minutes: CREDENZA_TEST_LONG=1");
    }
    let _permit = experiment();
    let scratch = Scratch::new("available-death-load");
    // The product's defaults, except the lease.
    let options = Options { args: Vec::new(), ..Options::new(3) };
    let mut cluster = Cluster::start(&scratch, options);
    cluster.init_ring();
    for clients in [64, 256] {
        let mut figures = Figures::start(&format!("{name}, {clients} clients"));
        let load = |cluster: &Cluster, phase| start_full_load(cluster, &scratch, phase, clients);
        for (phase, killed) in [("before", None), ("dying", Some(2)), ("dead", None)] {
            let load = load(&cluster, phase);
            if let Some(node) = killed {
                std::thread::sleep(Duration::from_secs(2));
                cluster.kill(node);
                figures.faults += 1;
            }
            let report = load.report();
            let count = |field: &str| report[field].as_u64().expect("a number");
            figures.ok += count("ok");
            figures.fail += count("failed");
            let time =
                |percentile| report["latency_us"][percentile].as_f64().expect("a number") as u64;
            figures.add(&format!("{phase}_p50_p99_us"), format!("{}/{}", time("p50"), time("p99")));
            figures.add(&format!("{phase}_a_second"), count("ok") / MEASURED_SECONDS);
        }
        cluster.start_node(2);
        cluster.must_suspect_none();
        figures.print();
        assert_eq!(figures.fail, 0, "calls failed at a node that lives on");
    }
}

/// Starts half gets and half puts of an available bucket, by clients of the first node.
fn start_full_load(cluster: &Cluster, scratch: &Scratch, phase: &str, clients: u32) -> Bench {
    let settings = format!(
        "warm_up = \"1s\"\nduration = \"{MEASURED_SECONDS}s\"\nconcurrent = {clients}\n\
         resp_bucket = \"available/bench\"\noperations = [[\"get\", 1], [\"put\", 1]]\n\
         key_generator = [\"fixed_width\", 20, \"key:\", [\"uniform_int\", 100000]]\n\
         value_generator = [\"fixed_bin\", 100]\n"
    );
    cluster.bench(scratch.path(), &format!("{phase}-{clients}"), 1, &settings)
}

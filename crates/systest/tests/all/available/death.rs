//! Latency at the other nodes when one of three dies: n=3, r=w=2.

use super::{COPIES, Trial, judge_all, options, span};
use std::time::Duration;
use systest::report::{Figures, long, skipped};
use systest::rigs::{Bench, Cluster, Options, Scratch, experiment};
use systest::workload::siblings::SiblingPlan;

/// Length of the measured part of each load, after a warm-up of a second.
const MEASURED_SECONDS: u64 = 10;

#[test]
fn a_death_is_hardly_felt_at_the_other_nodes() {
    let name = "p99 under a node's death";
    if !long() {
        return skipped(name, "takes half a minute: CREDENZA_TEST_LONG=1");
    }
    let _permit = experiment();
    let scratch = Scratch::new("available-death");
    let mut cluster = Cluster::start(&scratch, options(3));
    cluster.share_ring();
    let mut trial = Trial::begin(name, &cluster, SiblingPlan::of(58));
    let dies = 2;
    let mut spans = vec![("before", span(&trial, 10))];
    cluster.kill(dies);
    trial.figures.faults += 1;
    spans.push(("first_second", span(&trial, 1)));
    let (from, _) = spans[1].1;
    spans.push(("first_ten", (from, span(&trial, 9).1)));
    spans.push(("after", span(&trial, 10)));
    cluster.begin(dies);
    cluster.must_reach_all();
    spans.push(("back", span(&trial, 10)));
    let mut done = trial.end(&cluster);
    for (word, span) in spans {
        let others = |at: usize| at + 1 != dies;
        let times = [50, 99].map(|percent| done.history.percentile(span, others, percent));
        let times = times.map(|time| time.as_micros()).map(|time| time.to_string());
        done.figures.also(&format!("{word}_p50_p99_us"), times.join("/"));
        let (answered, all) = done.history.answered(span, others);
        done.figures.also(&format!("{word}_answered"), format!("{answered}_of_{all}"));
        assert!(all > 50 && answered == all, "{word}: {:?}", done.history.refusals);
    }
    judge_all(&cluster.copies(COPIES), vec![done]);
}

/// Latency under the death of a node, for many clients without pauses, which all use one node that
/// stays up.
#[test]
fn a_death_under_full_load_fails_no_call_at_the_other_nodes() {
    let name = "p99 under a node's death and full load";
    if !long() {
        return skipped(name, "takes two minutes: CREDENZA_TEST_LONG=1");
    }
    let _permit = experiment();
    let scratch = Scratch::new("available-death-load");
    // The product's defaults, except the lease.
    let options = Options { words: Vec::new(), ..Options::of(3) };
    let mut cluster = Cluster::start(&scratch, options);
    cluster.share_ring();
    for clients in [64, 256] {
        let mut figures = Figures::begin(&format!("{name}, {clients} clients"));
        let load = |cluster: &Cluster, word| full(cluster, &scratch, word, clients);
        for (word, dies) in [("before", None), ("dying", Some(2)), ("dead", None)] {
            let load = load(&cluster, word);
            if let Some(node) = dies {
                std::thread::sleep(Duration::from_secs(2));
                cluster.kill(node);
                figures.faults += 1;
            }
            let report = load.report();
            let count = |field: &str| report[field].as_u64().expect("a number");
            figures.ok += count("ok");
            figures.fail += count("failed");
            let time = |which| report["latency_us"][which].as_f64().expect("a number") as u64;
            figures.also(&format!("{word}_p50_p99_us"), format!("{}/{}", time("p50"), time("p99")));
            figures.also(&format!("{word}_a_second"), count("ok") / MEASURED_SECONDS);
        }
        cluster.begin(2);
        cluster.must_reach_all();
        figures.print();
        assert_eq!(figures.fail, 0, "calls failed at a node that lives on");
    }
}

/// Starts half gets and half puts of an available bucket, by clients of the first node.
fn full(cluster: &Cluster, scratch: &Scratch, word: &str, clients: u32) -> Bench {
    let settings = format!(
        "warm_up = \"1s\"\nduration = \"{MEASURED_SECONDS}s\"\nconcurrent = {clients}\n\
         resp_bucket = \"available/bench\"\noperations = [[\"get\", 1], [\"put\", 1]]\n\
         key_generator = [\"fixed_width\", 20, \"key:\", [\"uniform_int\", 100000]]\n\
         value_generator = [\"fixed_bin\", 100]\n"
    );
    cluster.bench(scratch.path(), &format!("{word}-{clients}"), 1, &settings)
}

//! F-50, the disk: a node that answers, but whose syncs are slow, is avoided by the others.

use super::{COPIES, FinishedTrial, SECOND, Trial, judge_all, options, span};
use systest::cluster::{Cluster, Options};
use systest::environment::{Root, Scratch, experiment, missing};
use systest::fault_injection::{DiskGroup, FileSystem};
use systest::report::{check_bound, is_long_form, ratio, skipped};
use systest::workload::siblings::SiblingPlan;

/// Writes a second of the slow disk.
const SLOW_IOPS: u32 = 20;
/// Seconds until the node must be avoided, and seconds of the measurement after that.
const DETECTION_SECONDS: usize = 10;
const MEASURED_SECONDS: usize = 20;

#[test]
fn slow_disk_of_one_node_leaves_other_nodes_answering() {
    let name = "F-50 a slow disk under available buckets";
    if !is_long_form() {
        return skipped(name, "takes a minute: CREDENZA_TEST_LONG=1");
    }
    let missing_tool = missing(Root::Needed, FileSystem::Ext4.tools()).or_else(DiskGroup::missing);
    if let Some(reason) = missing_tool {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("available-slow-disk");
    let options = Options { disk: Some((FileSystem::Ext4, 512)), ..options(5) };
    let mut cluster = Cluster::start(&scratch, options);
    cluster.init_ring();
    let slow_node = 4;
    let group = DiskGroup::new("slow", &cluster.disk(slow_node).device());
    group.add_process(cluster.server(slow_node).pid());
    let finished = slow_down_disk(name, &cluster, slow_node, &group);
    judge_all(&cluster.copies(COPIES), vec![finished]);
}

fn slow_down_disk(
    name: &str,
    cluster: &Cluster,
    slow_node: usize,
    group: &DiskGroup,
) -> FinishedTrial {
    let mut trial = Trial::start(name, cluster, SiblingPlan::new(57));
    let mut spans = vec![("good", span(&trial, MEASURED_SECONDS))];
    group.limit_writes_per_second(SLOW_IOPS);
    trial.figures.faults += 1;
    let before = syncs(cluster, slow_node);
    spans.push(("at_first", span(&trial, DETECTION_SECONDS)));
    spans.push(("slow", span(&trial, MEASURED_SECONDS)));
    let syncs_per_second =
        (syncs(cluster, slow_node) - before) / (DETECTION_SECONDS + MEASURED_SECONDS) as u64;
    group.limit_writes_per_second(0);
    trial.figures.add("syncs_a_second", syncs_per_second);
    // The control: the disk was slow in fact.
    assert!(syncs_per_second <= 2 * u64::from(SLOW_IOPS), "{syncs_per_second} syncs a second");
    std::thread::sleep(5 * SECOND);
    spans.push(("again", span(&trial, MEASURED_SECONDS / 2)));
    let mut finished = trial.end(cluster);
    let (baseline, slow_span) = (spans[0].1, spans[2].1);
    for (phase, span) in spans {
        for (clients_of, all) in [("others", false), ("all", true)] {
            let at = |at: usize| all || at + 1 != slow_node;
            let times = [50, 99].map(|percent| finished.history.percentile(span, at, percent));
            let times = times.map(|time| time.as_micros()).map(|time| time.to_string());
            finished.figures.add(&format!("{phase}_{clients_of}_p50_p99_us"), times.join("/"));
        }
        let (answered, all) = finished.history.answer_counts(span, |at| at + 1 != slow_node);
        let refusals = &finished.history.refusals;
        assert!(
            all > 50 && answered * 100 >= all * 99,
            "{phase}: {answered} of {all}: {refusals:?}"
        );
    }
    let p99 = |span| finished.history.percentile(span, |at| at + 1 != slow_node, 99);
    let p99_ratio = ratio(p99(slow_span), p99(baseline));
    check_bound("F-50 slow disk: p99 of the others' clients, times", p99_ratio, 3.0);
    finished
}

fn syncs(cluster: &Cluster, node: usize) -> u64 {
    let status = cluster.status(node).expect("it answers");
    status["log"]["syncs"].as_u64().expect("a number")
}

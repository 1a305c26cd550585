//! F-51: a node's disk is lost; one command and an empty directory restore everything.

use super::{FinishedTrial, SECOND, Trial, judge_all, options, span};
use std::time::Duration;
use systest::cluster::Cluster;
use systest::environment::{Scratch, experiment};
use systest::report::{check_bound, ratio, short_or_long};
use systest::workload::siblings::{Bulk, SiblingPlan};

/// Bytes of one value of the ballast.
const VALUE_BYTES: usize = 16 * 1024;
/// Time limit for a copy.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(600);

#[test]
fn wiped_node_is_refilled_after_one_replace_command() {
    let _permit = experiment();
    let scratch = Scratch::new("available-wiped");
    let rate = short_or_long(4, 64) << 20;
    let mut options = options(3);
    options.args.extend(["--handoff-bytes-per-second".into(), rate.to_string()]);
    // The memory that an operator would configure for gigabytes of data.
    let memory = ["16MiB", "256MiB"][short_or_long(0, 1)];
    options.args.extend(["--memory-bytes-max", memory].map(String::from));
    let mut cluster = Cluster::start(&scratch, options);
    cluster.init_ring();
    let trial = wipe_node(&mut cluster, (short_or_long(6, 1_024) << 20, rate));
    judge_all(&cluster.copies(super::COPIES), vec![trial]);
}

/// One of three nodes loses all its data, and gets it back during writes.
fn wipe_node(cluster: &mut Cluster, (ballast_bytes, rate): (usize, usize)) -> FinishedTrial {
    let (bucket_path, name) = (SiblingPlan::new(51).bucket_path, "ballast".to_string());
    let ballast =
        Bulk { bucket_path, name, keys: 0..ballast_bytes / VALUE_BYTES, bytes: VALUE_BYTES };
    ballast.write(&cluster.client_addresses());
    let mut trial = Trial::start("F-51 a wiped disk", cluster, SiblingPlan::new(51));
    let victim = 3;
    let baseline = span(&trial, short_or_long(2, 10));
    cluster.kill(victim);
    trial.figures.faults += 1;
    std::thread::sleep(SECOND);
    let from = trial.workload.now();
    cluster.replace(victim);
    let transfer = cluster.watch_transfers((1, victim), TRANSFER_TIMEOUT, |_, _, _| {});
    let during_transfer = (from, trial.workload.now());
    let mut finished = trial.end(cluster);
    finished.history.join(ballast.history());
    let is_other_node = |at: usize| at + 1 != victim;
    for (phase, span) in [("before", baseline), ("meanwhile", during_transfer)] {
        for percent in [50, 99] {
            let time = finished.history.percentile(span, is_other_node, percent);
            finished.figures.add(&format!("{phase}_p{percent}_us"), time.as_micros());
        }
        let (answered, all) = finished.history.answer_counts(span, is_other_node);
        let refusals = &finished.history.refusals;
        assert!(all > 50 && answered == all, "{phase}: {answered} of {all} answered: {refusals:?}");
    }
    let p99 = |span| finished.history.percentile(span, is_other_node, 99);
    check_bound(
        "F-51 p99 of the others' clients, times",
        ratio(p99(during_transfer), p99(baseline)),
        2.0,
    );
    let seconds = transfer.duration.as_secs_f64();
    finished.figures.add("bytes", transfer.bytes);
    finished.figures.add("full_after_ms", transfer.duration.as_millis());
    let per_gib = seconds * f64::from(1 << 30) / transfer.bytes.max(1) as f64;
    finished.figures.add("seconds_a_gib", format!("{per_gib:.1}"));
    assert!(
        transfer.bytes as usize >= ballast_bytes,
        "{transfer:?}: {ballast_bytes} bytes had to come"
    );
    // Not faster than the limit allows: other work on the machine can only make it slower.
    let seconds_min = transfer.bytes as f64 / rate as f64;
    assert!(seconds > 0.8 * seconds_min, "{seconds} s, no less than {seconds_min} s are allowed");
    finished
}

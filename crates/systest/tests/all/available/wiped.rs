//! F-51: a node's disk is lost; one command and an empty directory restore everything.

use super::{Done, SECOND, Trial, judge_all, options, span};
use std::time::Duration;
use systest::report::{bound, ratio, times};
use systest::rigs::{Cluster, Scratch, experiment};
use systest::workload::siblings::{Bulk, SiblingPlan};

/// Bytes of one value of the ballast.
const VALUE: usize = 16 * 1024;
/// Time limit for a copy.
const WITHIN: Duration = Duration::from_secs(600);

#[test]
fn a_wiped_disk_is_filled_again_after_one_command() {
    let _permit = experiment();
    let scratch = Scratch::new("available-wiped");
    let rate = times(4, 64) << 20;
    let mut options = options(3);
    options.words.extend(["--handoff-bytes-per-second".into(), rate.to_string()]);
    // The memory that an operator would configure for gigabytes of data.
    let memory = ["16MiB", "256MiB"][times(0, 1)];
    options.words.extend(["--memory-bytes-max", memory].map(String::from));
    let mut cluster = Cluster::start(&scratch, options);
    cluster.share_ring();
    let done = wiped(&mut cluster, (times(6, 1_024) << 20, rate));
    judge_all(&cluster.copies(super::COPIES), vec![done]);
}

/// One of three nodes loses all its data, and gets it back during writes.
fn wiped(cluster: &mut Cluster, (weight, rate): (usize, usize)) -> Done {
    let (place, name) = (SiblingPlan::of(51).place, "ballast".to_string());
    let ballast = Bulk { place, name, keys: 0..weight / VALUE, bytes: VALUE };
    ballast.write(&cluster.clients());
    let mut trial = Trial::begin("F-51 a wiped disk", cluster, SiblingPlan::of(51));
    let wiped = 3;
    let good = span(&trial, times(2, 10));
    cluster.kill(wiped);
    trial.figures.faults += 1;
    std::thread::sleep(SECOND);
    let from = trial.clients.now();
    cluster.replace(wiped);
    let going = cluster.watch_transfers((1, wiped), WITHIN, |_, _, _| {});
    let meanwhile = (from, trial.clients.now());
    let mut done = trial.end(cluster);
    done.history.join(ballast.history());
    let others = |at: usize| at + 1 != wiped;
    for (word, span) in [("before", good), ("meanwhile", meanwhile)] {
        for percent in [50, 99] {
            let time = done.history.percentile(span, others, percent);
            done.figures.also(&format!("{word}_p{percent}_us"), time.as_micros());
        }
        let (answered, all) = done.history.answered(span, others);
        let words = &done.history.refusals;
        assert!(all > 50 && answered == all, "{word}: {answered} of {all} answered: {words:?}");
    }
    let p99 = |span| done.history.percentile(span, others, 99);
    bound("F-51 p99 of the others' clients, times", ratio(p99(meanwhile), p99(good)), 2.0);
    let seconds = going.took.as_secs_f64();
    done.figures.also("bytes", going.bytes);
    done.figures.also("full_after_ms", going.took.as_millis());
    let per_gib = seconds * f64::from(1 << 30) / going.bytes.max(1) as f64;
    done.figures.also("seconds_a_gib", format!("{per_gib:.1}"));
    assert!(going.bytes as usize >= weight, "{going:?}: {weight} bytes had to come");
    // Not faster than the limit allows: other work on the machine can only make it slower.
    let least = going.bytes as f64 / rate as f64;
    assert!(seconds > 0.8 * least, "{seconds} s, no less than {least} s are allowed");
    done
}

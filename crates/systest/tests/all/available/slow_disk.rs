//! F-50, the disk: a node that answers, but whose syncs are slow, is avoided by the others.

use super::{COPIES, Done, SECOND, Trial, judge_all, options, span};
use systest::report::{bound, long, ratio, skipped};
use systest::rigs::{Cluster, DiskGroup, Options, Root, Scratch, System, experiment, missing};
use systest::workload::siblings::SiblingPlan;

/// Writes a second of the slow disk.
const SLOW: u32 = 20;
/// Seconds until the node must be avoided, and seconds of the measurement after that.
const DETECTED: usize = 10;
const LOOK: usize = 20;

#[test]
fn a_slow_disk_is_routed_around() {
    let name = "F-50 a slow disk under available buckets";
    if !long() {
        return skipped(name, "takes a minute: CREDENZA_TEST_LONG=1");
    }
    let without = missing(Root::Needed, System::Ext4.tools()).or_else(DiskGroup::missing);
    if let Some(why) = without {
        return skipped(name, &why);
    }
    let _permit = experiment();
    let scratch = Scratch::new("available-slow-disk");
    let options = Options { disk: Some((System::Ext4, 512)), ..options(5) };
    let mut cluster = Cluster::start(&scratch, options);
    cluster.share_ring();
    let slow = 4;
    let group = DiskGroup::new("slow", &cluster.disk(slow).device());
    group.hold(cluster.server(slow).pid());
    let done = limps(name, &cluster, slow, &group);
    judge_all(&cluster.copies(COPIES), vec![done]);
}

fn limps(name: &str, cluster: &Cluster, slow: usize, group: &DiskGroup) -> Done {
    let mut trial = Trial::begin(name, cluster, SiblingPlan::of(57));
    let mut spans = vec![("good", span(&trial, LOOK))];
    group.writes_a_second(SLOW);
    trial.figures.faults += 1;
    let before = syncs(cluster, slow);
    spans.push(("at_first", span(&trial, DETECTED)));
    spans.push(("slow", span(&trial, LOOK)));
    let synced = (syncs(cluster, slow) - before) / (DETECTED + LOOK) as u64;
    group.writes_a_second(0);
    trial.figures.also("syncs_a_second", synced);
    // The control: the disk was slow in fact.
    assert!(synced <= 2 * u64::from(SLOW), "{synced} syncs a second");
    std::thread::sleep(5 * SECOND);
    spans.push(("again", span(&trial, LOOK / 2)));
    let mut done = trial.end(cluster);
    let (good, limping) = (spans[0].1, spans[2].1);
    for (word, span) in spans {
        for (whose, all) in [("others", false), ("all", true)] {
            let at = |at: usize| all || at + 1 != slow;
            let times = [50, 99].map(|percent| done.history.percentile(span, at, percent));
            let times = times.map(|time| time.as_micros()).map(|time| time.to_string());
            done.figures.also(&format!("{word}_{whose}_p50_p99_us"), times.join("/"));
        }
        let (answered, all) = done.history.answered(span, |at| at + 1 != slow);
        let words = &done.history.refusals;
        assert!(all > 50 && answered * 100 >= all * 99, "{word}: {answered} of {all}: {words:?}");
    }
    let p99 = |span| done.history.percentile(span, |at| at + 1 != slow, 99);
    let limped = ratio(p99(limping), p99(good));
    bound("F-50 slow disk: p99 of the others' clients, times", limped, 3.0);
    done
}

fn syncs(cluster: &Cluster, node: usize) -> u64 {
    let status = cluster.status(node).expect("it answers");
    status["log"]["syncs"].as_u64().expect("a number")
}

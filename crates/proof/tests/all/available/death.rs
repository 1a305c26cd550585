//! What clients of the others feel when one of three nodes dies: n=3, r=w=2.

use super::{COPIES, Trial, judge_all, options, span};
use proof::attentive::Plan;
use proof::report::{long, skipped};
use proof::rigs::{Cluster, Scratch, alone};

#[test]
fn a_death_is_hardly_felt_at_the_other_nodes() {
    let name = "p99 under a node's death";
    if !long() {
        return skipped(name, "takes half a minute: CREDENZA_TEST_LONG=1");
    }
    let _alone = alone();
    let scratch = Scratch::new("available-death");
    let mut cluster = Cluster::start(&scratch, options(3));
    cluster.share_ring();
    let mut trial = Trial::begin(name, &cluster, Plan::of(58));
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
        assert!(all > 50 && answered == all, "{word}: {:?}", done.history.words);
    }
    judge_all(&cluster.copies(COPIES), vec![done]);
}

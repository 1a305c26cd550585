//! F-50: a node that still answers, but late or rarely, is avoided as far as possible.

use super::{Done, SECOND, Trial, span};
use std::time::Duration;
use systest::report::{bound, ratio, times};
use systest::rigs::{Cable, Cluster};
use systest::workload::siblings::SiblingPlan;

/// Behaviours of the links of the impaired node.
const GRAY: [(&str, Cable); 2] = [
    (
        "late",
        Cable {
            delay: Duration::from_millis(250),
            jitter: Duration::ZERO,
            loss: 0,
            twice: 0,
            corrupt: 0,
            cut: false,
            kbit: 0,
        },
    ),
    (
        "lossy",
        Cable {
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            loss: 300,
            twice: 0,
            corrupt: 0,
            cut: false,
            kbit: 0,
        },
    ),
];

/// Impairs one node, in one way after the other; clients of the other nodes must hardly notice.
pub fn limps(cluster: &Cluster) -> Done {
    let mut trial = Trial::begin("F-50 a node that limps", cluster, SiblingPlan::of(50));
    let limps = 5;
    let mut spans = vec![("good", span(&trial, times(2, 10)))];
    for (word, link) in GRAY {
        for other in cluster.nodes().filter(|other| *other != limps) {
            cluster.network().both(limps, other, link);
        }
        trial.figures.faults += 1;
        std::thread::sleep(times(4, 10) as u32 * SECOND);
        spans.push((word, span(&trial, times(3, 20))));
        cluster.heal();
        cluster.must_reach_all();
    }
    let mut done = trial.end(cluster);
    let good = spans[0].1;
    for (word, span) in spans {
        // Only clients of the other nodes count: a client of the impaired node itself must wait for
        // it.
        let others = |at: usize| at + 1 != limps;
        for percent in [50, 99] {
            let time = done.history.percentile(span, others, percent);
            done.figures.also(&format!("{word}_p{percent}_ms"), time.as_millis());
        }
        let (answered, all) = done.history.answered(span, others);
        let words = &done.history.refusals;
        let enough = all > 50 && answered * 100 >= all * 95;
        assert!(enough, "{word}: {answered} of {all} answered: {words:?}");
        let p99 = |span| done.history.percentile(span, others, 99);
        let what = format!("F-50 {word}: p99 of the others' clients, times");
        bound(&what, ratio(p99(span), p99(good)), 3.0);
    }
    done
}

//! F-50: a node that still answers, but late or rarely, is avoided as far as possible.

use super::{FinishedTrial, SECOND, Trial, span};
use std::time::Duration;
use systest::cluster::Cluster;
use systest::fault_injection::Cable;
use systest::report::{check_bound, ratio, short_or_long};
use systest::workload::siblings::SiblingPlan;

/// Behaviours of the links of the impaired node.
const IMPAIRMENTS: [(&str, Cable); 2] = [
    (
        "late",
        Cable {
            delay: Duration::from_millis(250),
            jitter: Duration::ZERO,
            loss: 0,
            duplicate: 0,
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
            duplicate: 0,
            corrupt: 0,
            cut: false,
            kbit: 0,
        },
    ),
];

/// Impairs one node, in one way after the other; the latency at the other nodes is bounded.
pub fn impair_links(cluster: &Cluster) -> FinishedTrial {
    let mut trial = Trial::start("F-50 a node that limps", cluster, SiblingPlan::new(50));
    let impaired = 5;
    let mut spans = vec![("good", span(&trial, short_or_long(2, 10)))];
    for (impairment, link) in IMPAIRMENTS {
        for other in cluster.nodes().filter(|other| *other != impaired) {
            cluster.network().link_both_ways(impaired, other, link);
        }
        trial.figures.faults += 1;
        std::thread::sleep(short_or_long(4, 10) as u32 * SECOND);
        spans.push((impairment, span(&trial, short_or_long(3, 20))));
        cluster.heal();
        cluster.must_suspect_none();
    }
    let mut finished = trial.end(cluster);
    let baseline = spans[0].1;
    for (impairment, span) in spans {
        // Only clients of the other nodes count: a client of the impaired node itself must wait for
        // it.
        let is_other_node = |at: usize| at + 1 != impaired;
        for percent in [50, 99] {
            let time = finished.history.percentile(span, is_other_node, percent);
            finished.figures.add(&format!("{impairment}_p{percent}_ms"), time.as_millis());
        }
        let (answered, all) = finished.history.answer_counts(span, is_other_node);
        let refusals = &finished.history.refusals;
        let answered_enough = all > 50 && answered * 100 >= all * 95;
        assert!(answered_enough, "{impairment}: {answered} of {all} answered: {refusals:?}");
        let p99 = |span| finished.history.percentile(span, is_other_node, 99);
        let bound_name = format!("F-50 {impairment}: p99 of the others' clients, times");
        check_bound(&bound_name, ratio(p99(span), p99(baseline)), 3.0);
    }
    finished
}

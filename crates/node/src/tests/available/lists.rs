//! Lists of keys while the ring changes.

use super::bucket;
use super::load::{Load, rests};
use super::moving::{begin, evenly, join};
use crate::tests::test_cluster::wait;
use base::Reason;
use dynamo::list::ListedNames;
use std::collections::BTreeSet;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_planned_by_an_older_ring_is_refused_and_not_incomplete() {
    let mut cluster = evenly(4).await;
    let _load = Load::fill(&cluster, 100).await;
    let nobody = BTreeSet::new();
    let plan = |which| cluster.node(which).router.available.coverage(3, &nobody).expect("a ring");
    let plans = [0, 1].map(plan);
    let fifth = cluster.join().await;
    begin(&cluster, vec![join(fifth)]).await;
    wait("the rows at the fifth node", || rests(&cluster).then_some(())).await;
    for (which, plan) in plans.into_iter().enumerate() {
        let names = ListedNames::Keys { bucket: bucket(), after: None };
        let listed =
            cluster.node(which).router.available.walk_covered(plan, 3, &names, 10_000).await;
        let (_, error) = listed.expect_err("rows have gone elsewhere");
        assert_eq!(error.reason, Reason::Changed, "{}", error.text());
    }
}

//! Lists of keys while the ring changes.

use super::bucket;
use super::load::{Load, is_ring_settled};
use super::moving::{commit_changes, even_cluster, join};
use crate::tests::test_cluster::wait;
use base::Reason;
use dynamo::list::ListedNames;
use std::collections::BTreeSet;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listing_planned_on_an_older_ring_is_refused() {
    let mut cluster = even_cluster(4).await;
    let _load = Load::fill(&cluster, 100).await;
    let nobody = BTreeSet::new();
    let plan = |nth| cluster.node(nth).router.available.plan_coverage(3, &nobody).expect("a ring");
    let plans = [0, 1].map(plan);
    let fifth = cluster.join().await;
    commit_changes(&cluster, vec![join(fifth)]).await;
    wait("the rows at the fifth node", || is_ring_settled(&cluster).then_some(())).await;
    for (nth, plan) in plans.into_iter().enumerate() {
        let names = ListedNames::Keys { bucket: bucket(), after: None };
        let listed =
            cluster.node(nth).router.available.read_coverage(plan, 3, &names, 10_000).await;
        let (_, error) = listed.expect_err("rows have gone elsewhere");
        assert_eq!(error.reason, Reason::Changed, "{}", error.text());
    }
}

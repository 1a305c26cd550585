//! Lists of keys while the ring changes.

use super::bucket;
use super::load::{Load, is_ring_settled};
use super::moving::{commit_changes, even_cluster, join};
use crate::tests::test_cluster::wait;
use std::collections::BTreeSet;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn list_continues_by_a_new_ring_after_its_nodes_have_handed_over_their_rows() {
    let mut cluster = even_cluster(4).await;
    let load = Load::fill(&cluster, 100).await;
    let mut lists = Vec::new();
    for nth in 0..2 {
        let available = &cluster.node(nth).router.available;
        let mut list = available.stream_keys(&bucket(), None).expect("a ring");
        let (first, more) = list.next_page(7).await.expect("a page");
        assert!(first.len() == 7 && more);
        lists.push((list, first));
    }
    let fifth = cluster.join().await;
    commit_changes(&cluster, vec![join(fifth)]).await;
    wait("the rows at the fifth node", || is_ring_settled(&cluster).then_some(())).await;
    for (mut list, mut names) in lists {
        let (rest, more) = list.next_page(10_000).await.expect("by the new ring");
        names.extend(rest);
        assert!(!more);
        let all: BTreeSet<_> = names.iter().cloned().collect();
        assert_eq!((all.len(), all), (names.len(), load.living_keys()), "each once");
    }
}

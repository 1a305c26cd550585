//! Comparison on three nodes with real files: equal replicas give no report, different ones are
//! named.

use crate::tests::test_cluster::{GROUP, TestCluster, put};
use base::{BucketId, Reason, Version};
use bytes::Bytes;
use replica_state::comparison::{ComparisonReport, Difference};
use replica_state::layout::{self, StoredRow};
use replication::GroupComparison;
use std::collections::BTreeSet;
use store::RowChange;

const BUCKET: BucketId = BucketId(77);

fn tree_key(key: &str) -> Bytes {
    let mut tree_key = Vec::new();
    layout::row_key(GROUP, BUCKET, key.as_bytes(), &mut tree_key);
    tree_key.into()
}

fn row(value: &str) -> Bytes {
    let mut row = Vec::new();
    StoredRow::write_head(Version(1), None, &mut row);
    row.extend_from_slice(value.as_bytes());
    row.into()
}

/// Changes a row in one node's store, past all logs.
fn spoil(cluster: &TestCluster, nth: usize, change: RowChange) {
    let group = cluster.group(nth);
    group.shared.trees.apply(&mut std::iter::once(change)).expect("it goes");
}

/// One pass of the master's over these buckets.
async fn compare(cluster: &TestCluster, buckets: &[BucketId]) -> ComparisonReport {
    let nth = cluster.master().await;
    let group = cluster.group(nth);
    let node = cluster.nodes[nth].as_ref().expect("it runs");
    let live_buckets = || buckets.iter().copied().collect::<BTreeSet<_>>();
    let describe = |difference: &Difference| format!("{difference:?}");
    let peers = node.cluster.links.peers.get();
    let comparing = GroupComparison {
        group: &group,
        peers,
        rate: u64::MAX,
        live_buckets: &live_buckets,
        describe: &describe,
    };
    comparing.run().await.expect("it goes");
    assert_eq!(group.shared.comparisons.count(), 0, "no snapshot is left open at the master");
    group.shared.comparisons.report(GROUP).expect("it was noted")
}

async fn filled() -> TestCluster {
    let cluster = TestCluster::new(3, 3).await;
    for number in 0..60 {
        cluster.write(&format!("k{number:02}"), "v").await.expect("it goes");
    }
    let last = cluster.write("k", "the last").await.expect("it goes");
    for nth in 0..3 {
        cluster.applied(nth, last).await;
    }
    cluster
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn comparison_of_equal_replicas_reports_nothing_under_writes() {
    let cluster = filled().await;
    let master = cluster.group(cluster.master().await);
    let writing = tokio::spawn(async move {
        for number in 0..500 {
            put(&master, &format!("k{:02}", number % 70), &number.to_string()).await?;
        }
        Ok::<_, base::Error>(())
    });
    for pass in 1..=5 {
        let report = compare(&cluster, &[BUCKET]).await;
        assert_eq!(report.differences(), [], "pass {pass}");
        assert_eq!(report.passes, pass);
        assert!(report.rows >= 60, "{report:?}");
        let rows: Vec<_> = report.compared.values().collect();
        assert_eq!(rows, [&report.rows, &report.rows], "both others hold the same");
    }
    writing.await.expect("it ends").expect("all is written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn comparison_names_replica_with_altered_extra_or_missing_row() {
    let cluster = filled().await;
    let master = cluster.master().await;
    let (odd, even) = ((master + 1) % 3, (master + 2) % 3);
    spoil(&cluster, odd, RowChange::Put(tree_key("k17"), row("spoiled")));
    // Two more: one that only the spoiled replica has, one that it lacks.
    spoil(&cluster, odd, RowChange::Put(tree_key("k30x"), row("from nowhere")));
    spoil(&cluster, odd, RowChange::Remove(tree_key("k59")));
    let report = compare(&cluster, &[BUCKET]).await;
    let found = report.differences();
    let [first, ..] = &found[..] else { panic!("nothing was found: {report:?}") };
    assert_eq!(first.bucket(), Some(BUCKET));
    assert_eq!(first.keys(), (Bytes::from("k17"), Bytes::from("k18")));
    let limit = BTreeSet::from([cluster.ids[master], cluster.ids[even]]);
    assert_eq!(first.agreeing, [limit, BTreeSet::from([cluster.ids[odd]])]);
    // Made good, it is found the same again; one difference hides the others of its piece.
    let good = cluster.group(master).shared.trees.get(&tree_key("k17")).expect("a row");
    spoil(&cluster, odd, RowChange::Put(tree_key("k17"), good.expect("a row")));
    let keys = compare(&cluster, &[BUCKET]).await.differences()[0].keys();
    assert_eq!(keys, (Bytes::from("k30"), Bytes::from("k31")));
    spoil(&cluster, odd, RowChange::Remove(tree_key("k30x")));
    let keys = compare(&cluster, &[BUCKET]).await.differences()[0].keys();
    assert_eq!(keys, (Bytes::from("k59"), Bytes::new()), "up to the bucket's end");
    cluster.write("k59", "anew").await.expect("it goes");
    assert_eq!(compare(&cluster, &[BUCKET]).await.differences(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn comparison_names_master_whose_row_differs() {
    let cluster = filled().await;
    let master = cluster.master().await;
    spoil(&cluster, master, RowChange::Put(tree_key("k00"), row("spoiled")));
    let found = compare(&cluster, &[BUCKET]).await.differences();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].keys().0, "k00");
    assert_eq!(found[0].agreeing[1], BTreeSet::from([cluster.ids[master]]), "{found:?}");
    assert_eq!(found[0].agreeing[0].len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn comparison_skips_rows_of_unlisted_buckets() {
    let cluster = filled().await;
    let odd = (cluster.master().await + 1) % 3;
    spoil(&cluster, odd, RowChange::Put(tree_key("k17"), row("spoiled")));
    assert_eq!(compare(&cluster, &[]).await.differences(), []);
    assert_eq!(compare(&cluster, &[BUCKET]).await.differences().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn comparison_skips_stopped_replica_until_restart() {
    let mut cluster = filled().await;
    let master = cluster.master().await;
    let (away, here) = ((master + 1) % 3, (master + 2) % 3);
    cluster.stop(away).await;
    let report = compare(&cluster, &[BUCKET]).await;
    let who: Vec<_> = report.compared.keys().copied().collect();
    assert_eq!((who, report.differences()), (vec![cluster.ids[here]], vec![]));
    cluster.start(away).await;
    let index = cluster.write("k60", "v").await.expect("it goes");
    cluster.applied(away, index).await;
    let report = compare(&cluster, &[BUCKET]).await;
    assert_eq!(report.compared.len(), 2, "{report:?}");
    assert_eq!(report.differences(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verify_runs_only_at_master_and_appears_in_status() {
    let cluster = filled().await;
    let master = cluster.master().await;
    let node = |nth: usize| cluster.nodes[nth].as_ref().expect("it runs");
    let refused =
        node((master + 1) % 3).cluster.calls.audit.verify(GROUP).expect_err("not the master");
    assert_eq!(refused.reason, Reason::NotMaster);
    let pass = node(master).cluster.calls.audit.verify(GROUP).expect("it is master");
    let found = crate::tests::test_cluster::wait("the pass", || {
        let status = node(master).status();
        let group = status.groups.into_iter().find(|group| group.id == GROUP)?;
        group.comparison.filter(|found| found.passes >= pass)
    })
    .await;
    assert_eq!((found.error, found.differences), (None, vec![]));
    assert_eq!(found.replicas.len(), 2);
}

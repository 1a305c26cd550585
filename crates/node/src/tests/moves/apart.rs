//! Moves between groups that have no member in common: everything goes over the wire, and nodes
//! without a part in either find the way.

use super::load::Load;
use super::{all_rows, at_gate, begin, close_gate, fill, name, open_gate, rests, running};
use crate::tests::many::Cluster;
use base::{BucketName, BucketPlace, Call, DirectoryCall, GroupId};

/// Group 2 on `n0` alone, group 3 on `n1` alone, and `n2` with a part in neither; a bucket with
/// some rows in group 2.
async fn apart() -> (Cluster, BucketName) {
    let cluster = Cluster::new(3).await;
    for (group, member) in [(2, "n0"), (3, "n1")] {
        let created = cluster.create(None, &[member]).await;
        assert_eq!(created.group, GroupId(group));
        cluster.master(group).await;
    }
    let bucket = name("apart");
    let place = BucketPlace::Group(GroupId(2));
    let make = DirectoryCall::PlaceBucket { changes: Vec::new(), place };
    cluster.surely(bucket.clone(), Call::Directory(make)).await.expect("made");
    fill(&cluster, &bucket).await;
    (cluster, bucket)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bucket_moves_under_load_between_groups_without_common_member() {
    let (cluster, bucket) = apart().await;
    let load = Load::begin(&running(&cluster), &bucket, 2);
    for to in [3, 2, 3] {
        begin(&cluster, &bucket, to).await;
        rests(&cluster, &bucket, to).await;
    }
    assert!(load.end().await > 20);
    all_rows(&cluster, &bucket).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn move_between_disjoint_groups_survives_restart_at_each_step() {
    let (mut cluster, bucket) = apart().await;
    let mut to = 3;
    for step in super::STEPS {
        for nth in [0, 1] {
            close_gate(&cluster, step);
            begin(&cluster, &bucket, to).await;
            at_gate(&cluster, &bucket).await;
            cluster.stop(nth).await;
            cluster.start(nth).await;
            open_gate(&cluster);
            rests(&cluster, &bucket, to).await;
            all_rows(&cluster, &bucket).await;
            to = 5 - to;
        }
    }
}

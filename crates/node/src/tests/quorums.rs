//! Groups that agree by another number of voters than a majority.

use super::many::{Cluster, ask};
use super::test_cluster::wait;
use super::{bytes, reason, set};
use base::{BucketName, Call, ClusterCall, DirectoryCall, GroupId, Kind, Part, Reason};
use std::time::Duration;

const GROUP: u32 = 2;
/// Longest wait, on a busy machine, too.
const PATIENCE: Duration = Duration::from_secs(60);

fn quorum(group: u32, quorum: Option<u8>) -> DirectoryCall {
    DirectoryCall::Cluster(ClusterCall::SetQuorum { group: GroupId(group), quorum })
}

/// Waits until this quorum is in force at all running nodes.
async fn in_force(cluster: &Cluster, quorum: Option<u8>) {
    let agrees = |nth: usize| {
        let group = cluster.node(nth).router.locator.groups.get(GroupId(GROUP));
        group.is_none_or(|group| group.configuration().quorum() == quorum)
    };
    let up = || (0..cluster.nodes.len()).filter(|nth| cluster.nodes[*nth].is_some());
    wait("the quorum", || up().all(agrees).then_some(())).await;
}

/// Returns true if a node takes a write within this time.
async fn takes(cluster: &Cluster, nth: usize, bucket: &BucketName, within: Duration) -> bool {
    let put = async {
        loop {
            match ask(cluster.node(nth), bucket, Call::Update(set("k", "v"))).await {
                Err(error) if matches!(error.kind(), Kind::Unavailable | Kind::Unknown) => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                answer => return drop(answer.expect("it goes")),
            }
        }
    };
    tokio::time::timeout(within, put).await.is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quorum_of_two_of_five_needs_four_voters_to_elect_a_master() {
    let mut cluster = Cluster::new(5).await;
    let created = cluster.create(Some(5), &[]).await;
    let bucket = cluster.bucket("b", created.group).await;
    cluster.directory(quorum(GROUP, Some(2))).await;
    in_force(&cluster, Some(2)).await;
    let master = cluster.master(GROUP).await;
    // A new master asks the directory about its buckets before it serves them.
    assert!(takes(&cluster, master, &bucket, PATIENCE).await, "all are there");
    let others: Vec<_> = (0..5).filter(|nth| *nth != master).collect();
    for nth in &others[..3] {
        cluster.stop(*nth).await;
    }
    // Two are no majority of five: by any other group's rule nothing would be taken.
    assert!(takes(&cluster, master, &bucket, PATIENCE).await, "the master and one other");
    cluster.start(others[0]).await;
    cluster.stop(master).await;
    cluster.start(others[1]).await;
    let three = [others[0], others[1], others[3]];
    let leads = || three.iter().any(|nth| super::many::leads(&cluster.group(*nth, GROUP)));
    for nth in three {
        let few = takes(&cluster, nth, &bucket, Duration::from_millis(700)).await;
        assert!(!few && !leads(), "three of five may lack what two had");
    }
    cluster.start(others[2]).await;
    assert!(takes(&cluster, others[2], &bucket, PATIENCE).await, "four know all of it");
    assert_eq!(cluster.get(others[0], &bucket, "k").await, Some(bytes("v")));
    cluster.start(master).await;
    in_force(&cluster, Some(2)).await;
    cluster.directory(quorum(GROUP, None)).await;
    in_force(&cluster, None).await;
    assert!(takes(&cluster, master, &bucket, PATIENCE).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unfitting_quorum_is_refused_and_lapses_when_members_change() {
    let cluster = Cluster::new(5).await;
    let created = cluster.create(Some(5), &[]).await;
    let asked = async |group, save| {
        let call = Call::Directory(quorum(group, Some(save)));
        cluster.surely(BucketName::default(), call).await
    };
    assert_eq!(reason(asked(9, 2).await), Reason::NotFound);
    for save in [1, 5, 255] {
        let refused = asked(GROUP, save).await.expect_err("one of five may be away");
        assert_eq!(refused.reason, Reason::NotSupported);
        assert!(refused.text().contains("2 to 4"), "{refused}");
    }
    asked(GROUP, 4).await.expect("one may be away");
    in_force(&cluster, Some(4)).await;
    let members = ["n0", "n1", "n2"].map(|name| (name.to_string(), Part::Voter)).into();
    let call = ClusterCall::PlaceGroup { group: created.group, members };
    cluster.directory(DirectoryCall::Cluster(call)).await;
    in_force(&cluster, None).await;
    let refused = asked(GROUP, 3).await.expect_err("none could be away");
    assert!(refused.text().contains("2 to 2"), "{refused}");
}

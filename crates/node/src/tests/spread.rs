//! Masters of many groups spread over the nodes by themselves.

use super::many::{Cluster, leads};
use super::test_cluster::wait;
use crate::{Node, NodeSettings};
use base::{GroupId, Reason};

const GROUPS: std::ops::RangeInclusive<u32> = 1..=6;

async fn begin_anew(cluster: &mut Cluster, preferred: &[&str]) {
    for nth in 0..3 {
        cluster.stop(nth).await;
    }
    for nth in 0..3 {
        let preferred_masters = preferred.iter().map(|name| name.to_string()).collect();
        let settings = NodeSettings {
            preferred_masters,
            preferred_master_delay_ms: 300,
            ..cluster.settings(nth)
        };
        cluster.nodes[nth] = Some(Node::start(settings).await.expect("it starts"));
    }
}

/// Returns true if a node is master of a group. A node that has just started may not know the group
/// yet.
fn is_master(cluster: &Cluster, nth: usize, group: u32) -> bool {
    let group = cluster.node(nth).router.locator.groups.find(GroupId(group));
    group.is_ok_and(|group| leads(&group))
}

/// Number of groups of which each node is master, once every group has one.
fn led(cluster: &Cluster) -> Option<Vec<usize>> {
    let of = |nth| GROUPS.filter(|group| is_master(cluster, nth, *group)).count();
    let led: Vec<_> = (0..3).map(of).collect();
    (led.iter().sum::<usize>() == GROUPS.count()).then_some(led)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn masters_of_six_groups_spread_evenly_unless_preferred() {
    let mut cluster = Cluster::new(3).await;
    for _ in 2..=6 {
        cluster.create(Some(3), &[]).await;
    }
    begin_anew(&mut cluster, &["n0"]).await;
    wait("the preferred master", || led(&cluster).filter(|led| led[0] == 6)).await;
    let asked = cluster.node(1);
    asked.transfer(GroupId(3), "n2").await.expect("its master is asked to");
    let nobody = asked.transfer(GroupId(3), "nobody").await.expect_err("no such member");
    assert_eq!(nobody.reason, Reason::NotFound);
    wait("the one that was named", || is_master(&cluster, 2, 3).then_some(())).await;
    begin_anew(&mut cluster, &[]).await;
    wait("an even spread", || led(&cluster).filter(|led| *led == [2, 2, 2])).await;
    // A node that stops is replaced as master; when it comes back it gets its share again.
    cluster.stop(1).await;
    let followed = |group| [0, 2].iter().any(|nth| is_master(&cluster, *nth, group));
    wait("others", || GROUPS.into_iter().all(followed).then_some(())).await;
    let settings = NodeSettings { preferred_master_delay_ms: 300, ..cluster.settings(1) };
    cluster.nodes[1] = Some(Node::start(settings).await.expect("it starts"));
    wait("its share", || led(&cluster).filter(|led| *led == [2, 2, 2])).await;
}

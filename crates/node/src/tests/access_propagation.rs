//! Changes of access in clusters: they are answered once the connected members have applied them.

use super::access::{change, turn_on, user};
use super::many::Cluster;
use base::LogIndex;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answered_change_of_access_is_applied_at_every_connected_member() {
    let mut cluster = Cluster::new(3).await;
    turn_on(cluster.node(0)).await;
    for number in 0..30 {
        let name = format!("user{number}");
        let created = change(cluster.node(number % 3), user(&name, &["monitor"])).await;
        created.expect("created");
        for nth in 0..3 {
            let account = cluster.node(nth).user_account(&name);
            assert!(account.is_some(), "{name} is unknown at node {nth}");
        }
    }
    let master = cluster.master(0).await;
    cluster.stop((master + 1) % 3).await;
    change(cluster.node(master), user("late", &["monitor"])).await.expect("created");
    let other = cluster.node((master + 2) % 3);
    assert!(other.user_account("late").is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connected_member_that_lags_behind_a_change_is_named() {
    let cluster = Cluster::new(2).await;
    let router = &cluster.node(0).router;
    let applied = router.directory.group.applied.index();
    let (minute, moment) = (Duration::from_secs(60), Duration::from_millis(100));
    assert!(router.lagging_members(applied, minute).await.is_empty());
    let ahead = LogIndex(applied.0 + 1_000);
    assert_eq!(router.lagging_members(ahead, moment).await, ["n1"]);
}

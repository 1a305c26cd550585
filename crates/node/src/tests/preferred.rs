//! A master that is preferred leads whenever it can, and another while it can't.

use super::many::{Cluster, leads};
use super::test_cluster::wait;
use crate::{Node, NodeSettings};
use base::{BucketName, GroupId};
use std::time::Duration;

async fn start_with(cluster: &mut Cluster, nth: usize, settings: NodeSettings) {
    let settings = NodeSettings { preferred_master_delay_ms: 100, ..settings };
    cluster.nodes[nth] = Some(Node::start(settings).await.expect("it starts"));
}

async fn start(cluster: &mut Cluster, nth: usize) {
    let preferred_masters = vec!["n2".into(), "n1".into()];
    let settings = NodeSettings { preferred_masters, ..cluster.settings(nth) };
    start_with(cluster, nth, settings).await;
}

/// Returns a cluster of three stopped nodes.
async fn stopped() -> Cluster {
    let mut cluster = Cluster::new(3).await;
    for nth in 0..3 {
        cluster.stop(nth).await;
    }
    cluster
}

async fn leads_both(cluster: &Cluster, nth: usize) {
    let leads = |group| cluster.group(nth, group).leadership.is_master();
    wait("the preferred master", || (leads(0) && leads(1)).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_running_preferred_master_leads_every_group() {
    let mut cluster = stopped().await;
    for nth in 0..3 {
        start(&mut cluster, nth).await;
    }
    leads_both(&cluster, 2).await;
    cluster.stop(2).await;
    leads_both(&cluster, 1).await;
    start(&mut cluster, 2).await;
    leads_both(&cluster, 2).await;
}

/// Starts a node whose settings name the only node that may be master.
async fn start_forced(cluster: &mut Cluster, nth: usize) {
    let forced_master = Some("n1".into());
    let settings = NodeSettings { forced_master, ..cluster.settings(nth) };
    start_with(cluster, nth, settings).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn group_has_no_master_while_forced_master_is_away() {
    let mut cluster = stopped().await;
    for which in 0..3 {
        start_forced(&mut cluster, which).await;
    }
    leads_both(&cluster, 1).await;
    let refused = cluster.node(1).hand_over(GroupId(1), "n0").expect_err("nobody else may lead");
    assert!(refused.text().contains("forced_master"), "{refused}");
    cluster.stop(1).await;
    // Far longer than an election takes.
    for _ in 0..30 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        for (which, group) in [(0, 0), (0, 1), (2, 0), (2, 1)] {
            assert!(!leads(&cluster.group(which, group)), "n{which} leads group {group}");
        }
    }
    start_forced(&mut cluster, 1).await;
    leads_both(&cluster, 1).await;
    cluster.put(0, &BucketName::default(), "k", "v").await;
}

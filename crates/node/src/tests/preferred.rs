//! A master that is preferred leads whenever it can, and another while it can't.

use super::house::wait;
use super::many::Cluster;
use crate::{Node, NodeSettings};
use std::sync::atomic::Ordering;

async fn start(cluster: &mut Cluster, which: usize) {
    let preferred_masters = vec!["n2".into(), "n1".into()];
    let settings =
        NodeSettings { preferred_masters, prefer_pause_ms: 100, ..cluster.settings(which) };
    cluster.nodes[which] = Some(Node::start(settings).await.expect("it starts"));
}

async fn leads_both(cluster: &Cluster, which: usize) {
    let leads = |group| cluster.group(which, group).master.load(Ordering::Acquire);
    wait("the preferred master", || (leads(0) && leads(1)).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_of_the_preferred_that_runs_is_master_of_every_group() {
    let mut cluster = Cluster::new(3).await;
    for which in 0..3 {
        cluster.stop(which).await;
    }
    for which in 0..3 {
        start(&mut cluster, which).await;
    }
    leads_both(&cluster, 2).await;
    cluster.stop(2).await;
    leads_both(&cluster, 1).await;
    start(&mut cluster, 2).await;
    leads_both(&cluster, 2).await;
}

//! Warnings of a node: members and masters that it does not reach, members that break the
//! protocol, and a group that it can't lead any more.

use super::many::Cluster;
use super::test_cluster::wait;
use base::{Ballot, ConfigurationId, NodeId, Reason};
use bytes::Bytes;
use logic::consensus::{Body, Message};

/// Bits of a round below the configuration's number.
const ATTEMPT_BITS: u32 = 40;

/// The last round of a configuration.
fn last_round(configuration: ConfigurationId) -> u64 {
    ((u64::from(configuration.0) + 1) << ATTEMPT_BITS) - 1
}

fn prepare(configuration: ConfigurationId, round: u64, node: NodeId) -> Bytes {
    let body = Body::Prepare { released: Ballot::default() };
    let mut bytes = Vec::new();
    Message { configuration, ballot: Ballot { round, node }, body }.write(&mut bytes);
    bytes.into()
}

/// Returns the warnings about other nodes: the speed of this machine's disk must not matter.
fn of_others(warnings: Vec<String>) -> Vec<String> {
    let others = ["not reached", "no majority", "no master", "no connection"];
    let names = |warning: &String| others.iter().any(|word| warning.contains(word));
    warnings.into_iter().filter(names).collect()
}

async fn warned(cluster: &Cluster, nth: usize, words: &[&str]) -> String {
    wait("a warning", || {
        let warnings = cluster.node(nth).status().warnings;
        warnings.into_iter().find(|warning| words.iter().all(|word| warning.contains(word)))
    })
    .await
}

async fn quiet(cluster: &Cluster) {
    wait("the end of all warnings", || {
        let status = cluster.node(0).status();
        (of_others(status.warnings).is_empty() && status.ready).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_member_and_lost_majority_are_warned_until_recovery() {
    let mut cluster = Cluster::new(3).await;
    // Its groups may be electing a master when the last node has joined.
    quiet(&cluster).await;
    let id = cluster.node(2).cluster.links.node;
    cluster.stop(2).await;
    warned(&cluster, 0, &["n2", &id.to_string(), "not reached", "credenza cluster replace n2"])
        .await;
    cluster.stop(1).await;
    let said = warned(&cluster, 0, &["no majority for groups 0, 1: ", "n1", "n2"]).await;
    assert!(said.ends_with("; start them (see `credenza cluster status`)"), "{said}");
    let refused = cluster.node(0).readiness().expect_err("it is not ready");
    assert_eq!(refused.reason, Reason::NoQuorum);
    assert!(refused.text().starts_with("no majority for groups 0, 1: "), "{refused}");
    assert!(!cluster.node(0).status().ready);
    cluster.start(1).await;
    cluster.start(2).await;
    quiet(&cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replica_out_of_ballots_raises_warning_with_remedy() {
    let cluster = Cluster::new(2).await;
    let (group, other) = (cluster.group(0, 1), cluster.node(1).cluster.links.node);
    let id = group.configuration().id();
    // A message of a later configuration than its own is refused, and its sender named.
    group.on_message(other, prepare(id, last_round(id) + 1, other));
    warned(&cluster, 0, &["n1 sends messages for group 1 that violate the protocol"]).await;
    let lacks = ["can't be elected master of group 1 any more", "demote", "cluster recover"];
    let warnings = cluster.node(0).status().warnings;
    assert!(!warnings.iter().any(|warning| warning.contains(lacks[0])), "{warnings:?}");
    group.on_message(other, prepare(id, last_round(id), other));
    warned(&cluster, 0, &lacks).await;
}

//! Alarms of a node: members and masters that it does not reach, members that break the protocol,
//! and a group that it can't lead any more.

use super::many::Cluster;
use super::test_cluster::wait;
use base::{Alarm, AlarmCode, Ballot, ConfigurationId, NodeId, Reason};
use bytes::Bytes;
use logic::consensus::{Body, Message};
use runtime::Sample;

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

/// Waits for an alarm of this code whose text and remedy contain the words.
async fn raised(cluster: &Cluster, code: AlarmCode, words: &[&str]) -> Alarm {
    wait("an alarm", || {
        let alarms = cluster.node(0).status().alarms;
        alarms.into_iter().find(|alarm| {
            let said = format!("{}; {}", alarm.text, alarm.remedy);
            alarm.code == code && words.iter().all(|word| said.contains(word))
        })
    })
    .await
}

/// Waits for the end of all alarms about other nodes: the speed of this machine's disk must not
/// matter.
async fn cleared(cluster: &Cluster) {
    wait("the end of all alarms", || {
        let status = cluster.node(0).status();
        let is_of_others =
            |alarm: &Alarm| matches!(alarm.code, AlarmCode::MemberDown | AlarmCode::NoQuorum);
        (!status.alarms.iter().any(is_of_others) && status.ready).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_member_and_lost_majority_are_alarms_until_recovery() {
    let mut cluster = Cluster::new(3).await;
    // Its groups may be electing a master when the last node has joined.
    cleared(&cluster).await;
    let id = cluster.node(2).cluster.links.node.to_string();
    cluster.stop(2).await;
    let words = ["n2 is not reached", &id, "credenza cluster replace n2"];
    let down = raised(&cluster, AlarmCode::MemberDown, &words).await;
    assert_eq!(down.subject, "n2");
    let again = raised(&cluster, AlarmCode::MemberDown, &words).await;
    assert_eq!(again.since_ms, down.since_ms, "one alarm has one beginning");
    cluster.stop(1).await;
    let words = ["no majority for groups 0, 1: ", "n1", "n2", "start the members"];
    let lost = raised(&cluster, AlarmCode::NoQuorum, &words).await;
    assert_eq!(lost.subject, "groups 0, 1");
    let samples = cluster.node(0).samples();
    let label = |sample: &Sample| sample.labels.first().map(|(_, code)| code.clone());
    let shown = samples.iter().filter(|sample| sample.name == "credenza_alarm");
    assert!(shown.filter_map(label).any(|code| code == "no_quorum"));
    let refused = cluster.node(0).readiness().expect_err("it is not ready");
    assert_eq!(refused.reason, Reason::NoQuorum);
    assert!(refused.text().starts_with("no majority for groups 0, 1: "), "{refused}");
    assert!(!cluster.node(0).status().ready);
    cluster.start(1).await;
    cluster.start(2).await;
    cleared(&cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replica_out_of_ballots_is_an_alarm_with_remedy() {
    let cluster = Cluster::new(2).await;
    let (group, other) = (cluster.group(0, 1), cluster.node(1).cluster.links.node);
    let id = group.configuration().id();
    // A message of a later configuration than its own is refused, and its sender named.
    group.on_message(other, prepare(id, last_round(id) + 1, other));
    let words = ["n1 sends messages for group 1 that violate the protocol"];
    raised(&cluster, AlarmCode::MemberUnsound, &words).await;
    let alarms = cluster.node(0).status().alarms;
    assert!(!alarms.iter().any(|alarm| alarm.code == AlarmCode::BallotsUsed), "{alarms:?}");
    group.on_message(other, prepare(id, last_round(id), other));
    let lacks = ["can't be elected master of group 1 any more", "demote", "cluster recover"];
    raised(&cluster, AlarmCode::BallotsUsed, &lacks).await;
}

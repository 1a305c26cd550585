//! Permanent loss of a majority: a remaining member goes on with its data.

use super::many::{Cluster, leads};
use super::test_cluster::{put, wait};
use super::{bytes, reason};
use crate::cluster::recover::isolate;
use crate::{Node, SurvivingData};
use base::{BucketName, GroupId, Part, Reason};
use std::time::Duration;

fn default() -> BucketName {
    BucketName::default()
}

/// Makes the first node master of every group.
async fn first_leads(cluster: &Cluster, groups: u32) {
    for group in 0..groups {
        let master = cluster.master(group).await;
        if master != 0 {
            // On a busy machine it may not be heard of for a moment: then it is handed nothing.
            let started = || cluster.node(master).hand_over(GroupId(group), "n0").ok();
            wait("the first node's answer", started).await;
            wait("the hand-over", || leads(&cluster.group(0, group)).then_some(())).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn survivor_recovers_all_groups_and_lost_members_are_refused() {
    let mut cluster = Cluster::new(3).await;
    let created = cluster.create(Some(3), &[]).await;
    let name = cluster.bucket("b", created.group).await;
    for number in 0..20 {
        cluster.put(number % 3, &default(), &format!("k{number}"), "v").await;
        cluster.put(number % 3, &name, &format!("k{number}"), "v").await;
    }
    first_leads(&cluster, 3).await;
    let (before, lost) = (cluster.node(0).status().cluster, cluster.node(1).cluster.links.node);
    cluster.stop(1).await;
    cluster.stop(2).await;
    // Accepted here, and nowhere else: nobody was answered, and nobody can know.
    let group = cluster.group(0, 1);
    let doubt = tokio::spawn(async move { put(&group, "in doubt", "w").await });
    let group = cluster.group(0, 1);
    wait("the end of its office", || (!leads(&group)).then_some(())).await;
    let _ = doubt.await.expect("it ends");
    let last = group.state().replica.last();
    drop(group);
    cluster.stop(0).await;
    let settings = cluster.settings(0);
    let looking = settings.clone();
    let look = tokio::task::spawn_blocking(move || SurvivingData::inspect(&looking)).await;
    let remains = look.expect("it ends").expect("it is sound");
    assert_eq!((remains.cluster, remains.name.as_str()), (before, "n0"));
    let ids: Vec<_> = remains.groups.iter().map(|group| group.group.0).collect();
    assert_eq!((ids, remains.absent.len()), (vec![0, 1, 2], 0));
    let default_group = &remains.groups[1];
    assert_eq!((default_group.part, default_group.last), (Part::Voter, last));
    assert_eq!(default_group.voters.len(), 3);
    for _ in 0..2 {
        // Said twice, it is done once: a first attempt may have been cut short.
        let accepted = SurvivingData::recover(settings.clone()).await.expect("it goes");
        assert!(accepted.cluster != before && accepted.cluster.0 != 0);
    }
    cluster.start(0).await;
    for number in 0..20 {
        for bucket in [&default(), &name] {
            let found = cluster.get(0, bucket, &format!("k{number}")).await;
            assert_eq!(found, Some(bytes("v")));
        }
    }
    assert!(cluster.group(0, 1).applied.index() >= last, "what was accepted is decided");
    let members =
        |cluster: &Cluster| cluster.node(0).router.locator.catalog.cluster().members.len();
    assert_eq!(members(&cluster), 1);
    // One of the lost comes back: it speaks for another cluster, and nobody listens.
    cluster.start(1).await;
    let third = cluster.join().await;
    let fourth = cluster.join().await;
    cluster.put(third, &name, "after", "v").await;
    assert_eq!(cluster.get(fourth, &name, "k7").await, Some(bytes("v")));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(cluster.node(1).readiness().is_err());
    assert_eq!(members(&cluster), 3);
    assert!(!cluster.node(0).cluster.links.peers.get().expect("it takes peers").is_linked(lost));
    // And the survivor may go now.
    cluster.stop(1).await;
    cluster.stop(0).await;
    cluster.put(third, &default(), "later", "v").await;
    assert_eq!(cluster.get(fourth, &default(), "k19").await, Some(bytes("v")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn survivor_readds_no_member_still_listed_in_directory() {
    let mut cluster = Cluster::new(3).await;
    first_leads(&cluster, 2).await;
    for nth in 0..3 {
        cluster.stop(nth).await;
    }
    let (remains, sole) = isolate(cluster.settings(0)).await.expect("it goes");
    let node = Node::start(sole).await.expect("it starts");
    // The directory still says that there are three, and this is looked at four times a second.
    assert_eq!(node.router.locator.catalog.cluster().members.len(), 3);
    let groups: Vec<_> = node.router.locator.groups.all();
    let before: Vec<_> = groups.iter().map(|group| group.configuration()).collect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    for (group, before) in groups.iter().zip(before) {
        assert_eq!(before.members().len(), 1);
        assert_eq!(group.configuration(), before, "else it leaves its office for a moment");
        assert!(leads(group));
    }
    assert_eq!(remains.groups.len(), groups.len());
    node.stop().await.expect("it stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recovery_is_refused_for_a_witness_or_a_sole_node() {
    let mut cluster = Cluster::new(2).await;
    cluster.join_as(Part::Witness).await;
    for nth in 0..3 {
        cluster.stop(nth).await;
    }
    let refused = SurvivingData::recover(cluster.settings(2)).await;
    assert_eq!(reason(refused), Reason::NotSupported, "a witness holds no rows");
    cluster.start(2).await;
    cluster.stop(2).await;
    let place = super::Place::new();
    let sole = place.start().await;
    sole.stop().await.expect("it stops");
    let refused = SurvivingData::recover(place.settings()).await;
    assert_eq!(reason(refused), Reason::Changed, "it never had others");
    let again: Node = place.start().await;
    again.stop().await.expect("it stops");
}

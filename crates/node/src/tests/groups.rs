//! Groups are made while nodes serve, and outlive them.

use super::many::{Cluster, ask, leads};
use super::test_cluster::wait;
use super::{Place, bytes, reason, request, set};
use crate::{Flow, Node, NodeSettings, SubmitResult};
use base::{
    Body, BucketName, Call, ClusterCall, DirectoryCall, GroupId, Part, Read, ReadLevel, Reason,
    Request,
};
use std::process::Command;

fn copy(from: &Place, to: &Place) {
    let copied = Command::new("cp").arg("-a").arg(from.path()).arg(to.path()).status();
    assert!(copied.expect("cp runs").success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_node_groups_survive_stop_and_kill() {
    let mut cluster = Cluster::new(1).await;
    let own = cluster.node(0).cluster.links.node;
    let mut names = Vec::new();
    for number in 2..6 {
        let created = cluster.create(None, &[]).await;
        assert_eq!((created.group, created.replicas), (GroupId(number), 3));
        assert_eq!((created.founders, created.members), (vec![own], vec![(own, Part::Voter)]));
        names.push(cluster.bucket(&format!("b{number}"), created.group).await);
        cluster.master(number).await;
    }
    // What the page cache holds is what a killed process leaves: nothing was flushed yet.
    for name in &names {
        cluster.put(0, name, "k", name.full()).await;
    }
    let killed = Place::new();
    copy(&cluster.places[0], &killed);
    let rows = cluster.group(0, 4).applied.index();
    cluster.stop(0).await;
    cluster.start(0).await;
    assert_eq!(cluster.group(0, 4).applied.index(), rows);
    for name in &names {
        assert_eq!(cluster.get(0, name, "k").await, Some(bytes(name.full())));
        cluster.put(0, name, "later", "v").await;
    }
    cluster.stop(0).await;
    let settings = NodeSettings { data_dir: killed.path().to_path_buf(), ..cluster.settings(0) };
    cluster.nodes[0] = Some(Node::start(settings).await.expect("it starts"));
    for name in &names {
        assert_eq!(cluster.get(0, name, "k").await, Some(bytes(name.full())));
        assert_eq!(cluster.get(0, name, "later").await, None, "that was in another copy");
    }
    assert_eq!(cluster.create(None, &[]).await.group, GroupId(6), "a number is given once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_on_three_nodes_survive_rolling_and_full_restart() {
    let mut cluster = Cluster::new(3).await;
    let mut names = Vec::new();
    for number in 2..5 {
        let created = cluster.create(Some(3), &[]).await;
        assert_eq!((created.group.0, created.founders.len()), (number, 3));
        names.push(cluster.bucket(&format!("b{number}"), created.group).await);
    }
    for (which, name) in names.iter().enumerate() {
        cluster.put(which, name, "first", name.full()).await;
    }
    // One by one, while the others go on.
    for which in 0..3 {
        cluster.stop(which).await;
        for name in &names {
            let other = (which + 1) % 3;
            cluster.put(other, name, &format!("without {which}"), "v").await;
        }
        cluster.start(which).await;
        for name in &names {
            let (key, seen) = (format!("without {which}"), Some(bytes("v")));
            assert_eq!(cluster.get(which, name, &key).await, seen);
        }
    }
    // All at once.
    for which in 0..3 {
        cluster.stop(which).await;
    }
    for which in 0..3 {
        cluster.start(which).await;
    }
    for name in &names {
        for which in 0..3 {
            assert_eq!(cluster.get(which, name, "first").await, Some(bytes(name.full())));
            assert_eq!(cluster.get(which, name, "without 2").await, Some(bytes("v")));
        }
    }
    let groups = |which| cluster.node(which).status().groups.len();
    assert_eq!([groups(0), groups(1), groups(2)], [5; 3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_survive_kill_of_all_nodes_before_flush() {
    let mut cluster = Cluster::new(3).await;
    let created = cluster.create(None, &[]).await;
    let name = cluster.bucket("b", created.group).await;
    cluster.put(1, &name, "k", "v").await;
    let copies = [Place::new(), Place::new(), Place::new()];
    for (nth, killed) in copies.iter().enumerate() {
        copy(&cluster.places[nth], killed);
    }
    for nth in 0..3 {
        cluster.stop(nth).await;
    }
    for (nth, killed) in copies.iter().enumerate() {
        let data = killed.path().to_path_buf();
        let settings = NodeSettings { data_dir: data, ..cluster.settings(nth) };
        cluster.nodes[nth] = Some(Node::start(settings).await.expect("it starts"));
    }
    for nth in 0..3 {
        assert_eq!(cluster.get(nth, &name, "k").await, Some(bytes("v")));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn group_moves_to_placed_members_and_back() {
    let mut cluster = Cluster::new(3).await;
    let created = cluster.create(None, &["n0"]).await;
    assert_eq!((created.replicas, created.founders), (1, vec![cluster.node(0).cluster.links.node]));
    let name = cluster.bucket("b", GroupId(2)).await;
    cluster.put(0, &name, "k", "v").await;
    let place = |members: &[&str]| {
        let members = members.iter().map(|name| (name.to_string(), Part::Voter)).collect();
        DirectoryCall::Cluster(ClusterCall::PlaceGroup { group: GroupId(2), members })
    };
    cluster.directory(place(&["n1", "n2"])).await;
    let is_present = |cluster: &Cluster| {
        let group = cluster.node(1).router.locator.groups.get(GroupId(2))?;
        let nodes: Vec<_> = [1, 2].map(|nth| cluster.node(nth).cluster.links.node).into();
        let configuration = group.configuration();
        let members = configuration.members();
        let same = members.len() == 2 && members.iter().all(|one| nodes.contains(&one.node));
        same.then_some(())
    };
    wait("the move", || is_present(&cluster)).await;
    assert_eq!(cluster.get(1, &name, "k").await, Some(bytes("v")));
    // A node that has left a group still knows of it after a start.
    cluster.stop(0).await;
    cluster.start(0).await;
    assert!(!leads(&cluster.group(0, 2)));
    cluster.directory(place(&["n0"])).await;
    wait("the way back", || leads(&cluster.group(0, 2)).then_some(())).await;
    assert_eq!(cluster.get(0, &name, "k").await, Some(bytes("v")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_group_creation_is_refused_and_creates_nothing() {
    let cluster = Cluster::new(1).await;
    let call = |replicas, members: &[&str]| {
        let members = members.iter().map(|name| name.to_string()).collect();
        Call::Directory(DirectoryCall::Cluster(ClusterCall::CreateGroup { replicas, members }))
    };
    for (call, expected) in [
        (call(Some(2), &[]), Reason::Changed),
        (call(Some(0), &[]), Reason::Malformed),
        (call(Some(8), &[]), Reason::Malformed),
        (call(Some(2), &["n0"]), Reason::Malformed),
        (call(None, &["n0", "n0"]), Reason::Malformed),
        (call(None, &["n9"]), Reason::NotFound),
    ] {
        let refused = ask(cluster.node(0), &BucketName::default(), call.clone()).await;
        assert_eq!(reason(refused), expected, "{call:?}");
    }
    assert_eq!(cluster.node(0).status().groups.len(), 2, "nothing was made");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_start_is_refused_if_group_founders_are_unknown() {
    let mut cluster = Cluster::new(1).await;
    let created = cluster.create(None, &[]).await;
    let name = cluster.bucket("b", created.group).await;
    cluster.put(0, &name, "k", "v").await;
    cluster.stop(0).await;
    let list = cluster.places[0].path().join("MEMBERS");
    std::fs::remove_file(list).expect("it is there");
    let refused = Node::start(cluster.settings(0)).await.err().expect("it must not begin anew");
    assert_eq!(refused.reason, Reason::Corrupt);
    assert!(refused.text().contains("MEMBERS"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn created_group_is_flushed_collapsed_and_checkpointed() {
    let cluster = Cluster::new(1).await;
    let created = cluster.create(None, &[]).await;
    let name = cluster.bucket("b", created.group).await;
    for number in 0..100 {
        cluster.put(0, &name, &format!("k{number}"), "v").await;
    }
    let flusher = cluster.node(0).housekeeper.flusher.clone();
    let flushed = tokio::task::spawn_blocking(move || flusher.flush_and_collapse()).await;
    flushed.expect("it ends").expect("it goes");
    let group = cluster.group(0, 2);
    assert!(group.applied.flushed().0 >= 100);
    cluster.put(0, &name, "behind", "v").await;
    let twin = Place::new();
    cluster.node(0).checkpoint(twin.path().to_path_buf()).await.expect("copied");
    let settings = NodeSettings { data_dir: twin.path().to_path_buf(), ..twin.settings() };
    let settings = NodeSettings { peers: None, ..settings };
    let copied = Node::start(settings).await.expect("it starts");
    let call = Call::Read(Read::KeyCount, ReadLevel::Consistent);
    let counted = ask(&copied, &name, call).await.expect("it is there");
    assert_eq!(counted.body, Body::Count(101));
    copied.stop().await.expect("it stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_without_replica_forwards_requests_to_group_master() {
    let cluster = Cluster::new(3).await;
    cluster.create(None, &["n0"]).await;
    let name = cluster.bucket("b", GroupId(2)).await;
    let here = |which: usize| cluster.node(which).router.locator.groups.get(GroupId(2)).is_some();
    wait("the group", || here(0).then_some(())).await;
    assert_eq!([here(0), here(1), here(2)], [true, false, false]);
    for which in 0..3 {
        cluster.put(which, &name, &format!("k{which}"), "v").await;
        for reader in 0..3 {
            let seen = cluster.get(reader, &name, &format!("k{which}")).await;
            assert_eq!(seen, Some(bytes("v")));
        }
    }
    let dirty = Call::Read(Read::KeyCount, ReadLevel::Dirty);
    let counted = ask(cluster.node(2), &name, dirty.clone()).await.expect("passed on, too");
    assert_eq!(counted.body, Body::Count(3));
    let place = cluster.node(2).placement(&name).expect("its place is known");
    assert_eq!((place.master.as_deref(), place.members.len()), (Some("n0"), 1));
    let call = Call::Update(set("k", "v"));
    let redirected = Request { bucket: name.clone(), ..request(call) };
    let told = cluster.node(2).submit(&mut Flow::with_redirects(base::Principal::Node), redirected);
    let SubmitResult::Ready(Err(told)) = told else { panic!("it is told at once") };
    assert_eq!((told.reason, told.text()), (Reason::NotMaster, "n0".into()));
    // The group moves on: a client of n0 is sent to n1, and the node that has left answers from no
    // old rows.
    let members = vec![("n1".to_string(), Part::Voter)];
    let place = ClusterCall::PlaceGroup { group: GroupId(2), members };
    cluster.directory(DirectoryCall::Cluster(place)).await;
    wait("the move", || {
        cluster.node(1).router.locator.groups.get(GroupId(2)).filter(|one| leads(one))
    })
    .await;
    cluster.put(1, &name, "k3", "v").await;
    for reader in [2, 0] {
        assert_eq!(cluster.get(reader, &name, "k3").await, Some(bytes("v")));
    }
    wait("no part", || {
        let group = cluster.group(0, 2);
        (!replica_host::follows(&group)).then_some(())
    })
    .await;
    let counted = ask(cluster.node(0), &name, dirty).await.expect("passed on, too");
    assert_eq!(counted.body, Body::Count(4));
    assert_eq!(cluster.node(0).readiness(), Ok(()), "what it has left is none of its affairs");
    // A bucket that is cleared elsewhere is empty for every later read.
    let clear = Call::Directory(DirectoryCall::ClearBucket);
    ask(cluster.node(2), &name, clear).await.expect("its master knows of it");
    for reader in 0..3 {
        assert_eq!(cluster.get(reader, &name, "k3").await, None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removed_member_is_forgotten_though_directory_master_lacks_its_group() {
    let mut cluster = Cluster::new(3).await;
    let fourth = cluster.join().await;
    let created = cluster.create(None, &["n2", "n3"]).await;
    let name = cluster.bucket("b", created.group).await;
    cluster.put(fourth, &name, "k", "v").await;
    let master = cluster.master(0).await;
    if master > 1 {
        let node = cluster.node(master).clone();
        node.hand_over(GroupId(0), "n0").expect("it may lead");
        wait("the hand-over", || leads(&cluster.group(0, 0)).then_some(())).await;
    }
    let remove = ClusterCall::RemoveMember { name: "n3".into() };
    cluster.directory(DirectoryCall::Cluster(remove)).await;
    let remaining = || {
        let known = cluster.node(0).router.locator.catalog.cluster();
        let group = known.groups.iter().find(|group| group.group == created.group)?;
        let removed = known.members.iter().all(|member| member.name != "n3");
        (removed && group.voters() == 2).then_some(())
    };
    wait("word that it is out everywhere, and another in its place", remaining).await;
    assert_eq!(cluster.get(1, &name, "k").await, Some(bytes("v")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sole_voter_replacement_by_fresh_node_is_refused() {
    let cluster = Cluster::new(3).await;
    cluster.create(None, &["n1"]).await;
    let replace = |by: Option<&str>| {
        let (name, by) = ("n1".to_string(), by.map(String::from));
        Call::Directory(DirectoryCall::Cluster(ClusterCall::ReplaceMember { name, by }))
    };
    let refused = ask(cluster.node(0), &BucketName::default(), replace(None)).await;
    let refused = refused.expect_err("what it has is nowhere else");
    assert_eq!(refused.reason, Reason::Changed);
    assert!(refused.text().contains("credenza group members 2"), "{refused}");
    // Where it hands its part over itself, all is well.
    cluster.surely(BucketName::default(), replace(Some("n2"))).await.expect("it goes");
    wait("the group's move", || {
        let group = cluster.node(2).router.locator.groups.get(GroupId(2))?;
        leads(&group).then_some(())
    })
    .await;
}

fn drop_group(group: u32) -> Call {
    Call::Directory(DirectoryCall::Cluster(ClusterCall::DropGroup { group: GroupId(group) }))
}

/// Rows that a node's store holds of a group.
fn rows(cluster: &Cluster, nth: usize, group: u32) -> usize {
    let snapshot = cluster.node(nth).status.trees.snapshot();
    let rows = store::Chunk::read(&*snapshot, &group.to_be_bytes(), None, usize::MAX);
    rows.expect("it is sound").rows.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_group_ends_on_all_nodes_and_its_number_is_not_reused() {
    let mut cluster = Cluster::new(3).await;
    let created = cluster.create(Some(3), &[]).await;
    let name = cluster.bucket("b", created.group).await;
    cluster.put(0, &name, "k", "v").await;
    cluster.put(1, &BucketName::default(), "k", "v").await;
    let default = BucketName::default();
    let refused = cluster.surely(default.clone(), drop_group(2)).await.expect_err("it is in use");
    assert_eq!(refused.reason, Reason::Changed);
    assert!(
        refused.text().contains("b` is in group 2") && refused.text().contains("move"),
        "{refused}"
    );
    for (group, wanted) in
        [(0, Reason::NotSupported), (1, Reason::NotSupported), (9, Reason::NotFound)]
    {
        let refused = cluster.surely(default.clone(), drop_group(group)).await;
        assert_eq!(reason(refused), wanted, "{group}");
    }
    cluster.surely(name.clone(), Call::Directory(DirectoryCall::DropBucket)).await.expect("gone");
    // One is away when it ends, and hears of it when it is back.
    cluster.stop(2).await;
    cluster.surely(default.clone(), drop_group(2)).await.expect("nothing lives there");
    let ended = |cluster: &Cluster, nth: usize| {
        let here = cluster.node(nth).router.locator.groups.get(GroupId(2)).is_some();
        (!here && rows(cluster, nth, 2) == 0).then_some(())
    };
    for nth in [0, 1] {
        wait("the end", || ended(&cluster, nth)).await;
        let status = cluster.node(nth).status();
        assert!(status.groups.iter().all(|group| group.id != GroupId(2)));
        assert!(cluster.node(nth).cluster().groups.iter().all(|group| group.group.0 != 2));
    }
    cluster.start(2).await;
    wait("the end, later", || ended(&cluster, 2)).await;
    // The log still holds what it said: a start passes that by.
    for nth in 0..3 {
        cluster.stop(nth).await;
    }
    for nth in 0..3 {
        cluster.start(nth).await;
    }
    assert_eq!(cluster.get(2, &default, "k").await, Some(bytes("v")));
    assert_eq!(cluster.create(Some(3), &[]).await.group, GroupId(3), "a number is given once");
    let again = cluster.bucket("b", GroupId(3)).await;
    cluster.put(2, &again, "k", "w").await;
    assert_eq!(cluster.get(0, &again, "k").await, Some(bytes("w")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interrupted_group_drop_completes_at_next_start() {
    let mut cluster = Cluster::new(1).await;
    let created = cluster.create(None, &[]).await;
    let name = cluster.bucket("b", created.group).await;
    cluster.put(0, &name, "k", "v").await;
    let call = Call::Directory(DirectoryCall::DropBucket);
    cluster.surely(name, call).await.expect("gone");
    let before = Place::new();
    copy(&cluster.places[0], &before);
    cluster.surely(BucketName::default(), drop_group(2)).await.expect("nothing lives there");
    wait("the end", || {
        cluster.node(0).router.locator.groups.get(GroupId(2)).is_none().then_some(())
    })
    .await;
    cluster.stop(0).await;
    // The list says that it ended; log and store are those of a moment before.
    std::fs::copy(cluster.places[0].path().join("MEMBERS"), before.path().join("MEMBERS"))
        .expect("copied");
    let settings = NodeSettings { data_dir: before.path().to_path_buf(), ..cluster.settings(0) };
    cluster.nodes[0] = Some(Node::start(settings).await.expect("it starts"));
    assert!(cluster.node(0).router.locator.groups.get(GroupId(2)).is_none());
    assert_eq!(rows(&cluster, 0, 2), 0);
}

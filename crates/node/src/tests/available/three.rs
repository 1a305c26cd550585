//! Three nodes: concurrent writes are kept as siblings, and requests succeed while one node is
//! down.

use super::{assert_refused, bucket, fetch, get, keys, live_values, remove, store, values};
use crate::tests::many::{Cluster, ask};
use crate::tests::stopped::unended;
use crate::tests::test_cluster::wait;
use crate::tests::{bytes, set};
use base::{
    Body, BucketName, Call, ClusterCall, DirectoryCall, NodeId, Reason, RingCall, RingDescription,
};
use std::collections::BTreeMap;
use vnode_rows::layout::StoredValue;

async fn ring(cluster: &Cluster, call: RingCall) -> RingDescription {
    match cluster.directory(DirectoryCall::Ring(call)).await.body {
        Body::Ring(ring) => ring,
        other => panic!("a ring, not {other:?}"),
    }
}

/// Three nodes, each with its part of the ring, and connected.
pub(super) async fn three() -> Cluster {
    let cluster = Cluster::new(3).await;
    ring(&cluster, RingCall::Claim).await;
    wait_settled(&cluster).await;
    cluster
}

pub(super) async fn wait_settled(cluster: &Cluster) {
    let ids: Vec<NodeId> =
        cluster.nodes.iter().flatten().map(|node| node.cluster.links.node).collect();
    let ready = || {
        cluster.nodes.iter().flatten().all(|node| {
            let known = node.router.locator.catalog.available.ring();
            let complete = known.is_some_and(|ring| ring.layout().nodes().len() == 3);
            complete && ids.iter().all(|other| node.router.available.reaches(*other))
        })
    };
    wait("the ring and the links", || ready().then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ring_claim_is_even_and_refused_once_the_ring_holds_rows() {
    let mut cluster = three().await;
    let described = ring(&cluster, RingCall::Describe).await;
    let mut parts: BTreeMap<NodeId, usize> = BTreeMap::new();
    described.owners.iter().for_each(|owner| *parts.entry(*owner).or_default() += 1);
    assert_eq!((described.owners.len(), parts.len()), (64, 3));
    assert!(parts.values().all(|part| (21..=22).contains(part)), "{parts:?}");
    assert_eq!(ring(&cluster, RingCall::Claim).await, described, "asked again, nothing changes");
    store(cluster.node(0), "k", "v", None).await.expect("a write");
    cluster.join().await;
    let claim = Call::Directory(DirectoryCall::Ring(RingCall::Claim));
    let master = cluster.master(0).await;
    assert_refused(
        ask(cluster.node(master), &BucketName::default(), claim).await,
        Reason::NotSupported,
    );
    assert_eq!(live_values(cluster.node(1), "k").await, [bytes("v")], "and nothing is lost by it");
    store(cluster.node(2), "k", "w", None).await.expect("writes go on");
    // Nor does anyone leave with what it holds.
    let removed = ClusterCall::RemoveMember { name: "n1".into() };
    let removed = Call::Directory(DirectoryCall::Cluster(removed));
    let master = cluster.master(0).await;
    assert_refused(
        ask(cluster.node(master), &BucketName::default(), removed).await,
        Reason::NotSupported,
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_writes_become_siblings_at_every_node() {
    let cluster = three().await;
    let (one, two) = tokio::join!(
        store(cluster.node(0), "k", "1", None),
        store(cluster.node(1), "k", "2", None),
    );
    one.and(two).expect("both are taken");
    for which in 0..3 {
        assert_eq!(
            live_values(cluster.node(which), "k").await,
            [bytes("1"), bytes("2")],
            "{which}"
        );
        assert_refused(get(cluster.node(which), "k").await, Reason::Siblings);
    }
    let fetched = fetch(cluster.node(2), "k").await.expect("a read").context;
    store(cluster.node(2), "k", "merged", Some(&fetched)).await.expect("a write");
    for which in 0..3 {
        assert_eq!(live_values(cluster.node(which), "k").await, [bytes("merged")], "{which}");
        assert_eq!(get(cluster.node(which), "k").await, Ok(Some(bytes("merged"))));
    }
    remove(cluster.node(1), "k", None).await.expect("a delete");
    for which in 0..3 {
        assert_eq!(get(cluster.node(which), "k").await, Ok(None));
        // A list asks one replica of each key, and the last one may hear of the delete later.
        while keys(cluster.node(which), None, 10).await != (vec![], false) {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_down_fails_no_request_and_read_repair_restores_its_rows() {
    let mut cluster = three().await;
    let key = |number: usize| format!("k{number}");
    for number in 0..20 {
        store(cluster.node(0), &key(number), "old", None).await.expect("a write");
    }
    cluster.stop(2).await;
    for number in 0..20 {
        let node = cluster.node(number % 2);
        let seen = fetch(node, &key(number)).await.expect("a read");
        assert_eq!(values(&seen), [bytes("old")]);
        store(node, &key(number), "new", Some(&seen.context)).await.expect("a write");
    }
    for number in 20..40 {
        let update = Call::Update(set(&key(number), "new"));
        ask(cluster.node(1), &bucket(), update).await.expect("a set");
    }
    cluster.start(2).await;
    wait_settled(&cluster).await;
    for number in 0..40 {
        let seen = live_values(cluster.node(2), &key(number)).await;
        assert_eq!(seen, [bytes("new")], "{number}: the answer is the majority's");
    }
    // The reads repaired what the node had missed: it has everything itself.
    let repaired = || {
        (0..40).all(|number| {
            let node = cluster.node(2);
            let owners = node
                .router
                .available
                .key_owners(&bucket(), &bytes(&key(number)), 3)
                .expect("a ring");
            let row = node.router.available.vnode_store.read(&owners.key_ref).expect("it reads");
            row.is_some_and(|row| {
                let row = vnode_rows::layout::read_row(&row).expect("it reads");
                let value =
                    |value: &StoredValue| value.sibling(None).expect("it reads").content.value;
                row.values().all(|stored| value(stored) == "new")
            })
        })
    };
    wait("the repairs", || repaired().then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn siblings_and_contexts_survive_full_cluster_restart() {
    let mut cluster = three().await;
    let mut contexts = BTreeMap::new();
    for number in 0..30 {
        let node = cluster.node(number % 3);
        let key = format!("k{number}");
        store(node, &key, "1", None).await.expect("a write");
        store(node, &key, "2", None).await.expect("a write");
        contexts.insert(key.clone(), fetch(node, &key).await.expect("a read").context);
    }
    for nth in 0..3 {
        cluster.stop(nth).await;
    }
    for nth in 0..3 {
        cluster.start(nth).await;
    }
    wait_settled(&cluster).await;
    for (key, context) in contexts {
        assert_eq!(live_values(cluster.node(1), &key).await, [bytes("1"), bytes("2")], "{key}");
        store(cluster.node(0), &key, "3", Some(&context)).await.expect("a write");
        assert_eq!(
            live_values(cluster.node(2), &key).await,
            [bytes("3")],
            "a context outlives them"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_nodes_of_a_ring_leave_no_task_behind() {
    let mut cluster = three().await;
    store(cluster.node(0), "k", "v", None).await.expect("a write");
    for nth in 0..3 {
        let node = cluster.node(nth).clone();
        let loops = unended(&node);
        assert!(loops.contains(&"available: hinted handoff".to_string()), "{loops:?}");
        cluster.stop(nth).await;
        assert_eq!(unended(&node), Vec::<String>::new());
    }
}

//! Repair of available buckets: hints are handed back, and anti-entropy compares keys that are not
//! read.

use super::three::{three, wait_settled};
use super::{bucket, fetch, live_values, store};
use crate::Node;
use crate::tests::bytes;
use crate::tests::many::Cluster;
use crate::tests::test_cluster::wait;
use base::{Call, DirectoryCall, Millis, NodeId};
use logic::members::Event;
use logic::sync::Summary;
use std::collections::BTreeSet;
use std::ops::Bound;
use vnode_rows::layout::{hints_prefix, read_row};
use vnode_rows::slots::Slot;

/// Sets the number of copies of the tests' bucket, and waits until every node knows it.
async fn set_n_val(cluster: &Cluster, n: u8) {
    let changes = vec![("n_val".into(), n.to_string())];
    let alter = Call::Directory(DirectoryCall::AlterBucket(changes));
    cluster.surely(bucket(), alter).await.expect("altered");
    let known = || {
        cluster.nodes.iter().flatten().all(|node| {
            let found = node.router.locator.catalog.available.find(&bucket());
            found.is_some_and(|properties| properties.replication.n_val == n)
        })
    };
    wait("the number of copies", || known().then_some(())).await;
}

/// Returns the number of hints that a node stores.
pub(super) fn hints(node: &Node) -> usize {
    let snapshot = node.status.trees.snapshot();
    let in_one = |slot| {
        let front = hints_prefix(slot);
        let rows = snapshot.range(Bound::Included(front.clone().into()), Bound::Unbounded, false);
        rows.take_while(|row| row.as_ref().expect("it reads").0.starts_with(&front)).count()
    };
    Slot::all().map(in_one).sum()
}

/// Returns the owners of a key.
fn owners(node: &Node, key: &str, n: u8) -> Vec<NodeId> {
    node.router
        .available
        .key_owners(&bucket(), &bytes(key), n)
        .expect("a ring")
        .replicas
        .primaries
        .to_vec()
}

fn own_values(node: &Node, key: &str) -> Option<Vec<bytes::Bytes>> {
    let key_ref =
        node.router.available.key_owners(&bucket(), &bytes(key), 3).expect("a ring").key_ref;
    let row = node.router.available.vnode_store.read(&key_ref).expect("it reads")?;
    let row = read_row(&row).expect("it reads");
    let value = |value: &vnode_rows::layout::StoredValue| {
        value.sibling(None).expect("it reads").content.value
    };
    Some(row.values().map(value).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fallbacks_hand_hints_off_to_returned_owner_and_keep_no_row() {
    let mut cluster = three().await;
    set_n_val(&cluster, 2).await;
    let away = cluster.node(2).cluster.links.node;
    let key = |number: usize| format!("k{number}");
    cluster.stop(2).await;
    for number in 0..60 {
        store(cluster.node(number % 2), &key(number), "kept", None).await.expect("a write");
    }
    let missed: Vec<_> =
        (0..60).map(key).filter(|key| owners(cluster.node(0), key, 2).contains(&away)).collect();
    assert!(missed.len() > 20, "two thirds are the third node's: {}", missed.len());
    let retained = |cluster: &Cluster| hints(cluster.node(0)) + hints(cluster.node(1));
    wait("the hints", || (retained(&cluster) == missed.len()).then_some(())).await;

    // Hints are on disk like rows: a node that stores them may restart.
    cluster.stop(0).await;
    cluster.start(0).await;
    assert_eq!(retained(&cluster), missed.len());

    cluster.start(2).await;
    wait("all hints at home", || (retained(&cluster) == 0).then_some(())).await;
    for key in &missed {
        assert_eq!(own_values(cluster.node(2), key), Some(vec![bytes("kept")]), "{key}");
    }
    wait_settled(&cluster).await;
    for number in 0..60 {
        let owners = owners(cluster.node(0), &key(number), 2);
        for which in 0..3 {
            let has = own_values(cluster.node(which), &key(number)).is_some();
            let owns = owners.contains(&cluster.node(which).cluster.links.node);
            assert_eq!(has, owns, "key {number} at node {which}: owners have it, guests do not");
        }
        assert_eq!(live_values(cluster.node(number % 3), &key(number)).await, [bytes("kept")]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fallback_that_coordinates_again_after_handoff_reuses_no_dot() {
    let mut cluster = three().await;
    set_n_val(&cluster, 2).await;
    let away = cluster.node(2).cluster.links.node;
    let fallback = cluster.node(0).cluster.links.node;
    let fits = |key: &String| {
        let owners = owners(cluster.node(0), key, 2);
        owners.contains(&away) && !owners.contains(&fallback)
    };
    let key = (0..).map(|number| format!("g{number}")).find(fits).expect("there is one");
    cluster.stop(2).await;
    store(cluster.node(0), &key, "one", None).await.expect("a write");
    cluster.start(2).await;
    wait_settled(&cluster).await;
    wait("the hint at home", || (hints(cluster.node(0)) == 0).then_some(())).await;
    assert_eq!(own_values(cluster.node(0), &key), None);
    cluster.stop(2).await;
    store(cluster.node(0), &key, "two", None).await.expect("a write that has seen nothing");
    cluster.start(2).await;
    wait_settled(&cluster).await;
    wait("the hint at home", || (hints(cluster.node(0)) == 0).then_some(())).await;
    let fetched = fetch(cluster.node(1), &key).await.expect("a read");
    assert_eq!(super::values(&fetched), [bytes("one"), bytes("two")], "no dot was given twice");
}

/// Compares all copies of all partitions once. Returns the number of differing rows, and true if
/// each comparison took one request.
async fn compare_all(cluster: &Cluster) -> (u64, bool) {
    let (mut rows, mut quiet) = (0, true);
    for nth in 0..3 {
        let node = cluster.node(nth);
        for (copies, other) in node.router.available.comparison_pairs(&BTreeSet::from([2, 3])) {
            let compared =
                node.router.available.compare_copies(copies, other).await.expect("compared");
            assert!(compared.is_complete);
            rows += compared.rows;
            quiet &= compared == Summary { is_complete: true, questions: 1, rows: 0 };
        }
    }
    (rows, quiet)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missed_or_lost_row_returns_by_anti_entropy_without_reads() {
    let mut cluster = three().await;
    let key = |number: usize| format!("k{number}");
    for number in 0..50 {
        store(cluster.node(number % 3), &key(number), "old", None).await.expect("a write");
    }
    cluster.stop(2).await;
    for number in 40..90 {
        let node = cluster.node(number % 2);
        let context = fetch(node, &key(number)).await.expect("a read").context;
        store(node, &key(number), "new", Some(&context)).await.expect("a write");
    }
    cluster.start(2).await;
    wait_settled(&cluster).await;
    // A row that was lost without a trace, as by truncated damage.
    let lost = cluster.node(1);
    let key_ref =
        lost.router.available.key_owners(&bucket(), &bytes("k7"), 3).expect("a ring").key_ref;
    let removed = key_ref.row_key();
    let ticket = {
        let mut state = lost.router.available.vnode_store.admit().expect("it takes changes");
        lost.router.available.vnode_store.change(&mut state, [(removed, None)], true)
    };
    lost.router.available.vnode_store.wait_stored(ticket).await.expect("it is gone");
    // A client that changed nothing does not wait for the next change of another (seed 354).
    let nothing = lost.router.available.vnode_store.change(
        &mut lost.router.available.vnode_store.admit().expect("it takes changes"),
        [],
        true,
    );
    let applied = lost.router.available.vnode_store.wait_stored(nothing);
    let applied = tokio::time::timeout(std::time::Duration::from_secs(10), applied).await;
    applied.expect("nobody writes").expect("it is in the store");
    assert_eq!(own_values(lost, "k7"), None);

    compare_all(&cluster).await;
    for number in 0..90 {
        let value = if number < 40 { "old" } else { "new" };
        for which in 0..3 {
            let has = own_values(cluster.node(which), &key(number));
            assert_eq!(has, Some(vec![bytes(value)]), "key {number} at node {which}");
        }
    }
    // The restored row spreads to all owners; then no difference remains.
    compare_all(&cluster).await;
    assert_eq!(compare_all(&cluster).await, (0, true), "equal copies ask once each");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn anti_entropy_of_bucket_with_other_n_val_finds_no_difference() {
    let cluster = three().await;
    set_n_val(&cluster, 2).await;
    for number in 0..40 {
        store(cluster.node(number % 3), &format!("k{number}"), "v", None).await.expect("a write");
    }
    compare_all(&cluster).await;
    assert_eq!(compare_all(&cluster).await, (0, true), "the third node lacks nothing");
}

/// Reports three requests without an answer, as coordinators do.
fn report_timeouts(speaker: &Node, node: NodeId) {
    for _ in 0..3 {
        let now = Millis(runtime::world::milliseconds());
        let after = Millis(1_000);
        speaker.router.available.failure_detector.on_event(Event::Unanswered { node, after, now });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn suspected_owner_gets_hints_until_its_probes_are_answered() {
    let cluster = three().await;
    set_n_val(&cluster, 2).await;
    let (writer, suspect) = (cluster.node(0), cluster.node(2).cluster.links.node);
    let owned = |key: &String| owners(writer, key, 2).contains(&suspect);
    let keys: Vec<_> = (0..30).map(|number| format!("k{number}")).filter(owned).collect();
    // It is heard once the node knows its members.
    let started = || {
        report_timeouts(writer, suspect);
        writer.router.available.failure_detector.is_suspected(suspect)
    };
    wait("the doubt", || started().then_some(())).await;
    assert!(!writer.router.available.reaches(suspect), "there is a link, and yet it is spared");
    for key in &keys {
        store(cluster.node(0), key, "v", None).await.expect("a write");
    }
    wait("the trust", || writer.router.available.reaches(suspect).then_some(())).await;
    let all_home = || {
        let has = |key: &String| own_values(cluster.node(2), key) == Some(vec![bytes("v")]);
        keys.iter().all(has) && (0..2).all(|nth| hints(cluster.node(nth)) == 0)
    };
    wait("all at home", || all_home().then_some(())).await;
}

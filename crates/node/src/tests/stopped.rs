//! Release of resources by a stopped node: its files, which the next run may use, and its memory.

use super::Place;
use super::test_cluster::{TestCluster, wait};
use crate::Node;
use crate::shutdown::TASKS_WAIT;
use base::{BucketName, Call, ConfigurationId, DirectoryCall, GroupId, Reason};
use logic::consensus::Configuration;
use replica_state::layout::{self, Mark};
use replica_state::snapshot::StagedSnapshot;
use runtime::Watch;
use std::any::Any;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use store::{DataDir, MemoryTrees, RowChange, StoreError, Trees};

/// Makes a thread hold something until the returned sender is dropped.
fn held(hold: impl FnOnce(&dyn Fn()) + Send + 'static) -> Sender<()> {
    let (held, has_it) = channel();
    let (lets_go, until) = channel::<()>();
    std::thread::spawn(move || {
        hold(&|| {
            held.send(()).expect("somebody waits");
            let _ = until.recv(); // It is dropped.
        });
    });
    has_it.recv().expect("it gets it");
    lets_go
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stop_waits_for_file_tasks_and_keeps_directory_locked() {
    let place = Place::new();
    let node = place.start().await;
    let file_tasks = node.housekeeper.file_tasks.clone();
    let works = held(move |hold| {
        let _task = file_tasks.begin().expect("it does not stop yet");
        hold();
    });
    let stopping = node.clone();
    let mut stop = tokio::spawn(async move { stopping.stop().await });
    let early = tokio::time::timeout(Duration::from_millis(500), &mut stop).await;
    assert!(early.is_err(), "somebody is at work on its files");
    assert!(matches!(DataDir::open(place.path()), Err(StoreError::Locked { .. })));
    let more = node.housekeeper.file_tasks.begin().err().expect("nothing more is begun");
    assert_eq!(more.reason, Reason::ShuttingDown);
    drop(works);
    stop.await.expect("no panic").expect("it stops");
    DataDir::open(place.path()).expect("it is free");
}

async fn directory(node: &Node, call: DirectoryCall) {
    let bucket = BucketName::parse("gone").expect("a name");
    let request = super::request(Call::Directory(call));
    node.handle(&base::Principal::Node, base::Request { bucket, ..request })
        .await
        .expect("it is done");
}

/// Prevents flushes until the returned sender is dropped.
pub(super) fn nobody_flushes(node: &Node) -> Sender<()> {
    let flusher = node.housekeeper.flusher.clone();
    held(move |hold| {
        let _one = flusher.exclude();
        hold();
    })
}

/// Prevents flushes, and waits until the reclaim of a dropped bucket's space is blocked by that.
pub(super) async fn a_dropped_bucket_waits_for_a_flush(node: &Node) -> Sender<()> {
    directory(node, DirectoryCall::CreateBucket(Vec::new())).await;
    let flushes = nobody_flushes(node);
    directory(node, DirectoryCall::DropBucket).await;
    // Others are at work for moments; who waits for the flush is all the time.
    let mut times = 0;
    wait("someone at work", || {
        times = if node.housekeeper.file_tasks.has_running() { times + 1 } else { 0 };
        (times > 40).then_some(())
    })
    .await;
    flushes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reclaim_of_dropped_bucket_counts_as_file_task() {
    let place = Place::new();
    let node = place.start().await;
    let flushes = a_dropped_bucket_waits_for_a_flush(&node).await;
    drop(flushes);
    node.stop().await.expect("it stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn staged_snapshot_is_discarded_before_node_stop_ends() {
    let place = Place::new();
    let node = place.start().await;
    // Of a group that is not here, so that its installation would do no harm.
    let (away, from) = (GroupId(77), MemoryTrees::new(1 << 20));
    let (mut key, mark) = (Vec::new(), Mark { applied: 1, time: 0, next_version: 1 });
    layout::mark_key(away, &mut key);
    from.apply(&mut [RowChange::Put(key.into(), mark.write())].into_iter()).expect("memory");
    let (to, first) = (
        node.status.trees.clone(),
        Configuration::single_member(ConfigurationId(0), node.cluster.links.node),
    );
    let staged =
        StagedSnapshot::copy_of(&from, (to, &node.housekeeper.file_tasks), away, first.ok())
            .expect("newer");
    node.router.locator.groups.find(GroupId(1)).expect("here").state().snapshot.stage(staged);
    node.stop().await.expect("it stops");
    assert!(!node.housekeeper.file_tasks.has_running());
    DataDir::open(place.path()).expect("it is free");
}

/// A failed node is dropped without a stop, and its threads may still be writing.
#[test]
fn directory_stays_locked_while_threads_of_dropped_node_may_write() {
    let place = Place::new();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let node = runtime.block_on(place.start());
    let housekeeper = node.housekeeper.clone();
    drop(node);
    runtime.shutdown_timeout(Duration::from_secs(1));
    let opened = DataDir::open(place.path());
    assert!(matches!(opened, Err(StoreError::Locked { .. })), "two would write it");
    drop(housekeeper);
}

/// Tasks of a node that have not ended.
pub(super) fn unended(node: &Node) -> Vec<String> {
    node.lifecycle.tasks.all.running_names()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_sole_node_leaves_no_task_behind() {
    let place = Place::new();
    let node = place.start().await;
    super::update(&node, super::set("key", "value")).await.expect("written");
    assert!(unended(&node).contains(&"groups: group 1".to_string()), "{:?}", unended(&node));
    node.stop().await.expect("it stops");
    assert_eq!(unended(&node), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_stopped_one_by_one_leave_no_task_behind() {
    let mut cluster = TestCluster::new(3, 3).await;
    cluster.write("key", "value").await.expect("written");
    for nth in 0..3 {
        let node = cluster.nodes[nth].clone().expect("it runs");
        assert!(unended(&node).iter().any(|task| task.starts_with("peers: peer")));
        cluster.stop(nth).await;
        assert_eq!(unended(&node), Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hanging_task_is_named_and_does_not_block_the_stop() {
    let place = Place::new();
    let node = place.start().await;
    node.lifecycle.tasks.loops.spawn("hangs", Watch::Unbounded("it hangs"), std::future::pending());
    let began = std::time::Instant::now();
    let stopped = tokio::time::timeout(Duration::from_secs(60), node.stop()).await;
    stopped.expect("it waits no longer than it must").expect("it stops");
    assert!(began.elapsed() >= TASKS_WAIT, "it was waited for");
    assert_eq!(unended(&node), ["loops: hangs"]);
    DataDir::open(place.path()).expect("it is free all the same");
}

/// All that a node is made of.
fn parts(node: &Node) -> [Arc<dyn Any>; 9] {
    let Node { router, cluster, moves, housekeeper, checkpointer, status, lifecycle, .. } = node;
    [
        router.clone(),
        cluster.clone(),
        moves.clone(),
        housekeeper.clone(),
        checkpointer.clone(),
        status.clone(),
        lifecycle.clone(),
        cluster.data.clone(),
        housekeeper.flusher.clone(),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_nodes_release_all_their_parts() {
    let mut cluster = TestCluster::new(2, 2).await;
    cluster.write("key", "value").await.expect("written");
    let nodes = || cluster.nodes.iter().flatten();
    let groups = nodes().flat_map(|node| node.router.locator.groups.all());
    let groups: Vec<_> = groups.map(|group| Arc::downgrade(&group)).collect();
    let parts: Vec<_> = nodes().flat_map(parts).map(|part| Arc::downgrade(&part)).collect();
    assert!(groups.len() >= 4 && groups.iter().all(|group| group.strong_count() > 0));
    cluster.stop(0).await;
    cluster.stop(1).await;
    // Their threads wake now and then, and see it.
    wait("the end of the nodes", || {
        let removed = parts.iter().all(|part| part.strong_count() == 0);
        (removed && groups.iter().all(|group| group.strong_count() == 0)).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_node_ends_its_threads_and_unlocks_its_directory() {
    let place = Place::new();
    let node = place.start().await;
    super::update(&node, super::set("k", "1")).await.expect("it is taken");
    let threads = Arc::downgrade(&node.housekeeper);
    drop(node);
    wait("the end of what held the node", || (threads.strong_count() == 0).then_some(())).await;
    let again = place.start().await;
    assert_eq!(super::get(&again, "k").await.as_deref(), Some(&b"1"[..]));
    again.stop().await.expect("it stops");
}

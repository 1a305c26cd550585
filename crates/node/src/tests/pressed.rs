//! Full store without flushes: which calls may wait for a flush, and which must not.
//!
//! Promises: no flush can run, because the test holds the lock that a flush takes.

use super::available::store_call;
use super::buckets::space_is_back;
use super::stopped::{a_dropped_bucket_waits_for_a_flush, nobody_flushes};
use super::test_cluster::wait;
use super::{Place, request, set};
use crate::{Flow, Node, NodeSettings, SubmitResult};
use base::{Alarm, AlarmCode, Body, BucketName, Call, DirectoryCall, GroupId, LogIndex, Reason};
use replica_host::dropped_bucket::DroppedBucket;
use std::time::Duration;

/// Memory so small that few values fill it.
const MEMORY_BYTES: u64 = 16 << 20;
const VALUE_BYTES: usize = 300_000;
/// Number of updates that wait once it is full.
const WAITING: usize = 4;

async fn start(place: &Place) -> Node {
    let settings = NodeSettings { memory_bytes_max: MEMORY_BYTES, ..place.settings() };
    Node::start(settings).await.expect("it starts")
}

/// Writes until the store takes no more; gives the last write, which waits.
async fn fill(node: &Node, bucket: &BucketName, call: impl Fn(usize) -> Call) -> Flow {
    let (mut flow, mut waiting) = (Flow::of(base::Principal::Node), 0);
    for n in 0.. {
        if node.status.trees.pressure().must_wait() {
            waiting += 1;
        }
        if waiting > WAITING {
            break;
        }
        let request = base::Request { bucket: bucket.clone(), ..request(call(n)) };
        match node.submit(&mut flow, request) {
            SubmitResult::Ready(Err(error)) => assert_eq!(error.reason, Reason::Overloaded),
            SubmitResult::Ready(Ok(_)) => panic!("a write waits for the log"),
            SubmitResult::Pending(..) => {}
            SubmitResult::Later(answer) | SubmitResult::Independent(_, answer) => {
                drop(tokio::spawn(answer))
            }
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    flow
}

/// A thread that flushes and frees space must not wait for updates that wait for a flush: a master
/// with two buckets dropped under load served nothing any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn space_reclaim_does_not_wait_for_updates_behind_a_flush() {
    let place = Place::new();
    let node = start(&place).await;
    let flushes = a_dropped_bucket_waits_for_a_flush(&node).await;
    let value = "v".repeat(VALUE_BYTES);
    let write = |n: usize| Call::Update(set(&n.to_string(), &value));
    let flow = fill(&node, &BucketName::default(), write).await;
    let last = flow.last.expect("some wait");
    let group = node.router.locator.groups.find(GroupId::DEFAULT).expect("it is there");
    assert!(group.applied.index() < last.index, "the store is full");

    let (bucket, of) = node.router.directory.dropped_buckets().expect("readable")[0];
    let housekeeper = node.housekeeper.clone();
    let now = runtime::world::milliseconds();
    let asked = tokio::task::spawn_blocking(move || {
        let mut dropped = DroppedBucket::new(now, of, LogIndex(0), 600);
        housekeeper.reclaim(bucket, &mut dropped, now)
    });
    let given = tokio::time::timeout(Duration::from_secs(10), asked).await;
    let given = given.expect("it waits for what waits for a flush").expect("no panic");
    assert_eq!(given, Ok(false), "not before those updates are applied");

    drop(flushes);
    node.wait_decided(last).await.expect("it is decided");
    assert!(space_is_back(&node).await, "it was given up for good");
    node.stop().await.expect("it stops");
}

/// The directory is applied whatever other groups write: every request needs it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bucket_is_created_while_the_store_waits_for_a_flush() {
    let place = Place::new();
    let node = start(&place).await;
    let flushes = nobody_flushes(&node);
    let value = "v".repeat(VALUE_BYTES);
    let write = |n: usize| Call::Update(set(&n.to_string(), &value));
    fill(&node, &BucketName::default(), write).await;
    assert!(node.status.trees.pressure().must_wait(), "the store is full");
    let created = on_second_bucket(&node, DirectoryCall::CreateBucket(Vec::new()));
    let created = tokio::time::timeout(Duration::from_secs(8), created).await;
    assert_eq!(created, Ok(Ok(Body::Done)), "it waits for a flush");
    drop(flushes);
    node.stop().await.expect("it stops");
}

/// Executes a call on the bucket `default/second`.
async fn on_second_bucket(node: &Node, call: DirectoryCall) -> base::Result<Body> {
    let bucket = BucketName::new("default", "second").expect("a name");
    let request = base::Request { bucket, ..request(Call::Directory(call)) };
    let submitted = node.submit(&mut Flow::of(base::Principal::Node), request);
    node.router.wait_reply(submitted).await.map(|reply| reply.body)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_reports_writes_that_wait_and_for_how_long_they_waited() {
    let place = Place::new();
    let node = start(&place).await;
    let flushes = nobody_flushes(&node);
    let value = "v".repeat(VALUE_BYTES);
    let write = |n: usize| Call::Update(set(&n.to_string(), &value));
    let flow = fill(&node, &BucketName::default(), write).await;
    let status = node.status();
    let waits = |alarm: &Alarm| alarm.code == AlarmCode::WritesWait;
    assert!(status.alarms.iter().any(waits), "{:?}", status.alarms);
    assert_eq!(status.store.write_slowdown_permille, 1_000);
    drop(flushes);
    node.wait_decided(flow.last.expect("some wait")).await.expect("it is decided");
    let store = wait("the end of the slow-down", || {
        Some(node.status().store).filter(|store| store.write_slowdown_permille == 0)
    });
    assert!(store.await.writes_waited_ms > 0, "what they waited is not counted");
    assert!(!node.status().alarms.iter().any(waits));
    node.stop().await.expect("it stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stop_completes_available_writes_without_a_flush() {
    let place = Place::new();
    let node = start(&place).await;
    let bucket = BucketName::new(BucketName::AVAILABLE, "b").expect("a name");
    let flushes = nobody_flushes(&node);
    let value = "v".repeat(VALUE_BYTES);
    let write = |n: usize| Call::Available(store_call(&n.to_string(), &value, None));
    fill(&node, &bucket, write).await;
    wait("a write that waits", || node.router.available.vnode_store.log_needed_from()).await;
    let stopping = node.clone();
    let stopped = tokio::spawn(async move { stopping.stop().await });
    let home = tokio::time::timeout(
        Duration::from_secs(10),
        node.router.available.vnode_store.wait_stopped(),
    )
    .await;
    assert_eq!(home, Ok(true), "what was begun waits for a flush that never comes");
    drop(flushes);
    stopped.await.expect("no panic").expect("it stops");
}

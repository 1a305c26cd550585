//! Buckets and their types.

use super::many::update_rows;
use super::{Place, bytes, reason, set};
use crate::Node;
use crate::startup::found_cluster;
use base::request::{Expiry, OnMissing};
use base::{
    Body, BucketName, BucketPlace, Call, ClusterCall, DirectoryCall, GroupId, Properties, Read,
    ReadLevel, Reason, Reply, Request, Result, Update,
};
use bytes::Bytes;
use metadata::rows::{CLUSTER, bucket_key};
use replication::bucket::Bucket;
use replication::seals::BOOKKEEPING_BUCKET;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

fn named(name: &str, call: Call) -> Request {
    Request { bucket: BucketName::parse(name).expect("a name"), call, retry: None }
}

async fn ask(node: &Node, name: &str, call: DirectoryCall) -> Result<Reply> {
    node.handle(&base::Principal::Node, named(name, Call::Directory(call))).await
}

fn changes(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect()
}

async fn count(node: &Node, name: &str) -> Result<Body> {
    let read = Call::Read(Read::KeyCount, ReadLevel::Consistent);
    Ok(node.handle(&base::Principal::Node, named(name, read)).await?.body)
}

#[tokio::test]
async fn bucket_is_created_described_altered_cleared_and_dropped() {
    let place = Place::new();
    let mut node = place.start().await;
    assert_eq!(reason(count(&node, "b").await), Reason::NoSuchBucket);
    let small = changes(&[("value_bytes_max", "3")]);
    ask(&node, "b", DirectoryCall::CreateBucket(small)).await.expect("made");
    let again = ask(&node, "b", DirectoryCall::CreateBucket(vec![])).await;
    assert_eq!(reason(again), Reason::AlreadyExists);
    let put = |value| named("b", Call::Update(set("k", value)));
    node.handle(&base::Principal::Node, put("123")).await.expect("fits");
    assert_eq!(reason(node.handle(&base::Principal::Node, put("1234")).await), Reason::TooLarge);
    let wider = changes(&[("value_bytes_max", "4")]);
    ask(&node, "b", DirectoryCall::AlterBucket(wider)).await.expect("altered");
    node.handle(&base::Principal::Node, put("1234")).await.expect("fits now");
    node.stop().await.expect("it stops");
    node = place.start().await;
    let Body::Buckets(found) =
        ask(&node, "b", DirectoryCall::DescribeBucket).await.expect("described").body
    else {
        panic!("a description")
    };
    assert_eq!(found[0].properties.value_bytes_max, 4);
    assert_eq!(count(&node, "b").await, Ok(Body::Count(1)));
    ask(&node, "b", DirectoryCall::ClearBucket).await.expect("cleared");
    assert_eq!(count(&node, "b").await, Ok(Body::Count(0)));
    node.handle(&base::Principal::Node, put("new")).await.expect("goes on");
    ask(&node, "b", DirectoryCall::DropBucket).await.expect("dropped");
    assert_eq!(reason(count(&node, "b").await), Reason::NoSuchBucket);
    ask(&node, "b", DirectoryCall::CreateBucket(vec![])).await.expect("made again");
    assert_eq!(count(&node, "b").await, Ok(Body::Count(0)), "nothing of the old one is left");
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn founding_that_was_interrupted_goes_on_at_the_next_start() {
    let place = Place::new();
    let mut node = place.start().await;
    for key in [Bytes::from_static(CLUSTER), bucket_key(&BucketName::default())] {
        let delete = Update::Delete { key, missing: OnMissing::Fail };
        update_rows(&node.router.directory.group, &delete).await;
    }
    assert_eq!(reason(count(&node, "default").await), Reason::NoSuchBucket);
    node.stop().await.expect("it stops");
    node = place.start().await;
    assert_eq!(count(&node, "default").await, Ok(Body::Count(0)));
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn founding_waits_while_the_mastership_is_lost() {
    let place = Place::new();
    let node = place.start().await;
    let leadership = &node.router.directory.group.leadership;
    leadership.set_master_for_test(false);
    let mut founding = pin!(found_cluster(&node));
    let waited = tokio::time::timeout(Duration::from_millis(50), &mut founding).await;
    assert!(waited.is_err(), "without a master nothing is founded, and nothing fails");
    leadership.set_master_for_test(true);
    founding.await.expect("it is founded already");
    node.stop().await.expect("it stops");
}

/// A client that goes away no longer holds up other changes, but its own change goes on.
#[tokio::test]
async fn group_with_an_undecided_bucket_is_not_dropped_nor_used_while_its_drop_is_undecided() {
    let place = Place::new();
    let node = place.start().await;
    let directory = &node.router.directory;
    let name = |name: &str| BucketName::parse(name).expect("a name");
    let create = ClusterCall::CreateGroup { replicas: Some(1), members: vec![] };
    let drop_group =
        |group| DirectoryCall::Cluster(ClusterCall::DropGroup { group: GroupId(group) });
    let place_in = |group| DirectoryCall::PlaceBucket {
        changes: vec![],
        place: BucketPlace::Group(GroupId(group)),
    };
    let give_up = async |call| {
        let name = name("b");
        let mut undecided = pin!(directory.execute(&name, call));
        poll_fn(|context| Poll::Ready(undecided.as_mut().poll(context).is_pending())).await
    };
    // A change that still waited for another one, of the node itself, has proposed nothing.
    let (mut placed, mut dropped) = (Ok(()), Ok(()));
    for attempt in 0..20 {
        let mut groups = Vec::new();
        for _ in 0..2 {
            match ask(&node, "b", DirectoryCall::Cluster(create.clone())).await.expect("made").body
            {
                Body::Group(made) => groups.push(made.group.0),
                other => panic!("a group is made, not {other:?}"),
            }
        }
        if placed.is_ok() {
            assert!(give_up(place_in(groups[0])).await, "it waits for its entry");
            placed = directory.execute(&name("b"), drop_group(groups[0])).await.map(drop);
        }
        if dropped.is_ok() {
            assert!(give_up(drop_group(groups[1])).await, "it waits for its entry");
            let bucket = name(&format!("c{attempt}"));
            dropped = directory.execute(&bucket, place_in(groups[1])).await.map(drop);
        }
        if placed.is_err() && dropped.is_err() {
            break;
        }
    }
    assert_eq!(placed.expect_err("the bucket is undecided").reason, Reason::Changed);
    assert_eq!(dropped.expect_err("the drop is undecided").reason, Reason::NotFound);
    node.stop().await.expect("it stops");
}

/// A member that is down keeps the directory from forgetting drops, which may fill many pages.
#[tokio::test]
async fn dropped_buckets_are_found_beyond_the_first_page() {
    let place = Place::new();
    let node = place.start().await;
    let directory = &node.router.directory;
    let group = &node.router.locator.groups.find(GroupId(1)).expect("it is there");
    // Without a master the space of none is freed.
    group.leadership.set_master_for_test(false);
    let rows = Bucket::new(BOOKKEEPING_BUCKET, GroupId::DIRECTORY, Properties::default());
    let numbers = || 1_000_000..1_001_001_u32;
    let mut last = None;
    for number in numbers() {
        let key = [&b"d/"[..], &number.to_be_bytes()].concat().into();
        let value = Bytes::copy_from_slice(&1_u32.to_le_bytes());
        let row = Update::Set { key, value, expiry: Expiry::Never };
        last = directory.group.submit(&rows, &row, None).expect("room").0;
    }
    node.wait_decided(last.expect("a ticket")).await.expect("decided");
    let dropped = directory.dropped_buckets().expect("readable");
    assert!(numbers().eq(dropped.iter().map(|(bucket, _)| bucket.0)), "{}", dropped.len());
    group.leadership.set_master_for_test(true);
    group.driver.wake();
    assert!(space_is_back(&node).await, "it was given up for good");
    node.stop().await.expect("it stops");
}

/// The rows of the former number are removed one by one, so a read that found the bucket before
/// must not be answered from what is left of them.
#[tokio::test]
async fn read_that_found_a_bucket_before_its_clear_or_drop_is_refused() {
    let place = Place::new();
    let node = place.start().await;
    ask(&node, "b", DirectoryCall::CreateBucket(vec![])).await.expect("made");
    let name = BucketName::parse("b").expect("a name");
    for change in [DirectoryCall::ClearBucket, DirectoryCall::DropBucket] {
        let (bucket, group) = node.router.locator.bucket(&name).expect("it is there");
        assert_eq!(group.check_seal(&bucket), Ok(()));
        ask(&node, "b", change).await.expect("changed");
        assert_eq!(reason(group.check_seal(&bucket)), Reason::Moved);
    }
    node.stop().await.expect("it stops");
}

/// Waits until the directory remembers no dropped bucket any more.
pub(super) async fn space_is_back(node: &Node) -> bool {
    for _ in 0..12_000 {
        if node.router.directory.dropped_buckets().expect("readable").is_empty() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    false
}

#[tokio::test]
async fn dropped_bucket_space_is_reclaimed_once_a_master_exists() {
    let place = Place::new();
    let node = place.start().await;
    ask(&node, "b", DirectoryCall::CreateBucket(vec![])).await.expect("made");
    node.handle(&base::Principal::Node, named("b", Call::Update(set("k", "v"))))
        .await
        .expect("set");
    let group = &node.router.locator.groups.find(base::GroupId(1)).expect("it is there");
    // An update is under way, and this node is master no more.
    {
        let mut state = group.state();
        let state = &mut *state;
        state.queue.begin(&state.replica);
        state.queue.add(false, false);
        group.leadership.set_master_for_test(false);
    }
    ask(&node, "b", DirectoryCall::DropBucket).await.expect("dropped");
    node.housekeeper.pacer.maintenance.raise();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(
        node.router.directory.dropped_buckets().expect("readable").len(),
        1,
        "not without a master"
    );
    group.leadership.set_master_for_test(true);
    group.driver.wake();
    assert!(space_is_back(&node).await, "it was given up for good");
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn bucket_inherits_properties_of_its_type() {
    let place = Place::new();
    let node = place.start().await;
    let create = |changes| DirectoryCall::CreateBucket(changes);
    assert_eq!(reason(ask(&node, "logs/a", create(vec![])).await), Reason::NoSuchType);
    let template = changes(&[("ttl_ms", "5000"), ("sync", "interval")]);
    ask(&node, "logs/x", DirectoryCall::CreateType(template)).await.expect("a type");
    ask(&node, "logs/a", create(changes(&[("ttl_ms", "7")]))).await.expect("a bucket");
    let Body::Buckets(found) =
        ask(&node, "logs/a", DirectoryCall::DescribeBucket).await.expect("described").body
    else {
        panic!("a description")
    };
    assert_eq!(found[0].properties.ttl_ms, 7);
    assert_eq!(found[0].properties.sync, base::SyncPolicy::Interval);
    assert_eq!(node.status().interval_buckets, ["logs/a"]);
    assert_eq!(reason(ask(&node, "logs/x", DirectoryCall::DropType).await), Reason::Changed);
    ask(&node, "logs/a", DirectoryCall::DropBucket).await.expect("dropped");
    ask(&node, "logs/x", DirectoryCall::DropType).await.expect("dropped");
    let Body::Types(types) = ask(&node, "x", DirectoryCall::ListTypes).await.expect("types").body
    else {
        panic!("types")
    };
    let names: Vec<_> = types.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["available", "default"]);
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn buckets_are_listed_in_pages_and_bad_properties_are_refused() {
    let place = Place::new();
    let node = place.start().await;
    for name in ["b", "a", "c"] {
        ask(&node, name, DirectoryCall::CreateBucket(vec![])).await.expect("made");
    }
    let list = |after: Option<&str>| DirectoryCall::ListBuckets {
        after: after.map(|name| BucketName::parse(name).expect("a name")),
        rows_max: 2,
    };
    let names = |body: Body| match body {
        Body::Buckets(found) => found.iter().map(|b| b.name.full().to_string()).collect::<Vec<_>>(),
        other => panic!("buckets, not {other:?}"),
    };
    let first = ask(&node, "x", list(None)).await.expect("a page").body;
    assert_eq!(names(first), ["default/a", "default/b"]);
    let second = ask(&node, "x", list(Some("b"))).await.expect("a page").body;
    assert_eq!(names(second), ["default/c", "default/default"]);
    let bad =
        ask(&node, "d", DirectoryCall::CreateBucket(changes(&[("consistency", "maybe")]))).await;
    assert_eq!(reason(bad), Reason::Malformed);
    let later = changes(&[("consistency", "available")]);
    let later = ask(&node, "d", DirectoryCall::CreateBucket(later)).await;
    assert_eq!(reason(later), Reason::NotSupported);
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn key_or_value_one_byte_over_its_limit_is_refused() {
    let place = Place::new();
    let node = place.start().await;
    let put = |key: usize, value: usize| {
        let update = set(&"k".repeat(key), &"v".repeat(value));
        super::update(&node, update)
    };
    use base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
    put(KEY_BYTES_MAX - 1, 1).await.expect("fits");
    put(KEY_BYTES_MAX, VALUE_BYTES_MAX).await.expect("fits");
    assert_eq!(reason(put(KEY_BYTES_MAX + 1, 1).await), Reason::TooLarge);
    assert_eq!(reason(put(1, VALUE_BYTES_MAX + 1).await), Reason::TooLarge);
    let key = "k".repeat(KEY_BYTES_MAX);
    let retained = super::get(&node, &key).await.map(|value| value.len());
    assert_eq!(retained, Some(VALUE_BYTES_MAX));
    assert_eq!(super::get(&node, "").await, None);
    put(0, 0).await.expect("the empty key is a key");
    assert_eq!(super::get(&node, "").await, Some(bytes("")));
    node.stop().await.expect("it stops");
}

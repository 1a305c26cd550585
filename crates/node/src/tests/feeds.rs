//! Feeds of consistent buckets: pages, waits and refusals, on real nodes.

use super::index_upkeep::{directory, fill, name};
use super::many::{Cluster, ask};
use super::test_cluster::wait;
use super::{Place, reason, set};
use crate::Node;
use base::feed::{FeedEventKind, FeedOrigin, FeedQuery};
use base::reply::IndexRecord;
use base::request::OnMissing;
use base::{
    Body, BucketName, Call, DirectoryCall, FeedPage, Kind, Read, ReadLevel, Reason, Reply, Result,
    Update,
};
use bytes::Bytes;
use std::time::Duration;

pub(super) fn feed(mode: &str) -> Vec<(String, String)> {
    vec![("feed".into(), mode.into())]
}

pub(super) async fn page_at(
    node: &Node,
    bucket: &BucketName,
    query: FeedQuery,
) -> Result<FeedPage> {
    let call = Call::Read(Read::Feed(Box::new(query)), ReadLevel::Consistent);
    let Reply { body, .. } = ask(node, bucket, call).await?;
    match body {
        Body::FeedPage(page) => Ok(*page),
        other => panic!("a query of a feed is answered with a page, not {other:?}"),
    }
}

async fn page(node: &Node, from: FeedOrigin) -> Result<FeedPage> {
    page_at(node, &name(), FeedQuery { from, values: true, ..FeedQuery::default() }).await
}

/// Waits until the feed is ready, and returns the first page.
async fn ready(node: &Node) -> FeedPage {
    for _ in 0..3_000 {
        match page(node, FeedOrigin::Start).await {
            Ok(page) => return page,
            Err(error) => assert_eq!(error.reason, Reason::FeedBuilding, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the feed is never ready");
}

fn told(page: &FeedPage) -> Vec<String> {
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    let events = page.events.iter();
    events
        .map(|event| match (event.kind, &event.record) {
            (FeedEventKind::Put, Some(IndexRecord::Row(row))) => {
                format!("{}={}", text(&event.key), text(&row.value))
            }
            (FeedEventKind::Put, _) => text(&event.key),
            (FeedEventKind::Delete, _) => format!("-{}", text(&event.key)),
        })
        .collect()
}

async fn write(node: &Node, update: Update) {
    ask(node, &name(), Call::Update(update)).await.expect("it goes");
}

fn delete(key: &str) -> Update {
    Update::Delete { key: super::bytes(key), missing: OnMissing::Fail }
}

#[tokio::test]
async fn feed_is_turned_on_read_to_its_level_and_turned_off() {
    let place = Place::new();
    let node = place.start().await;
    directory(&node, DirectoryCall::CreateBucket(vec![])).await;
    fill(&node, 3, |number| format!("v{number}")).await;
    assert_eq!(reason(page(&node, FeedOrigin::Start).await), Reason::FeedOff);
    directory(&node, DirectoryCall::AlterBucket(feed("keys"))).await;
    let first = ready(&node).await;
    assert_eq!(told(&first), ["0000=v0", "0001=v1", "0002=v2"]);
    assert!(first.level && !first.restart);
    write(&node, set("0001", "new")).await;
    write(&node, delete("0002")).await;
    let from = FeedOrigin::Token(first.next);
    let query = FeedQuery { from: from.clone(), events_max: Some(1), ..FeedQuery::default() };
    let short = page_at(&node, &name(), query).await.expect("it is ready");
    assert_eq!((told(&short), short.level), (vec!["0001".to_string()], false));
    let rest = page(&node, FeedOrigin::Token(short.next)).await.expect("it is ready");
    assert_eq!((told(&rest), rest.level), (vec!["-0002".to_string()], true));
    let now = page(&node, FeedOrigin::Now).await.expect("it is ready");
    assert!(now.events.is_empty() && now.level);
    // A cleared bucket has another feed: its readers begin again.
    directory(&node, DirectoryCall::ClearBucket).await;
    ready(&node).await;
    let again = page(&node, from.clone()).await.expect("it is ready");
    assert!(again.restart && again.events.is_empty() && again.level);
    directory(&node, DirectoryCall::AlterBucket(feed("off"))).await;
    assert_eq!(reason(page(&node, from).await), Reason::FeedOff);
    let group = node.router.locator.groups.find(base::GroupId(1)).expect("it is here");
    wait("the end of the feed", || group.feeds.buckets().is_empty().then_some(())).await;
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn tokens_of_other_buckets_and_empty_pages_are_refused() {
    let place = Place::new();
    let node = place.start().await;
    directory(&node, DirectoryCall::CreateBucket(feed("values"))).await;
    let other = BucketName::parse("other").expect("a name");
    let make = Call::Directory(DirectoryCall::CreateBucket(feed("keys")));
    ask(&node, &other, make).await.expect("it goes");
    let token = FeedOrigin::Token(ready(&node).await.next);
    wait("the other feed", || {
        let (bucket, group) = node.router.locator.bucket(&other).expect("it is there");
        group.feeds.find(bucket.id).map(|_| ())
    })
    .await;
    let of_other = FeedQuery { from: token, ..FeedQuery::default() };
    assert_eq!(reason(page_at(&node, &other, of_other).await), Reason::MalformedToken);
    let nothing = FeedQuery { events_max: Some(0), ..FeedQuery::default() };
    assert_eq!(reason(page_at(&node, &name(), nothing).await), Reason::Malformed);
    let step = Update::Read(Read::Feed(Box::default()));
    let refused = ask(&node, &name(), Call::Update(step)).await;
    assert_eq!(refused.expect_err("it is asked for alone").kind(), Kind::Invalid);
    node.stop().await.expect("it stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_that_waits_is_answered_with_the_event_at_any_node() {
    let cluster = Cluster::new(3).await;
    let make = Call::Directory(DirectoryCall::CreateBucket(feed("values")));
    cluster.surely(name(), make).await.expect("made");
    let master = cluster.master(1).await;
    ready(cluster.node(master)).await;
    for nth in 0..3 {
        let node = cluster.node(nth).clone();
        let now = page(&node, FeedOrigin::Now).await.expect("it is ready");
        let from = FeedOrigin::Token(now.next.clone());
        let query = FeedQuery { from, values: true, wait_ms: 60_000, ..FeedQuery::default() };
        let key = format!("k{nth}");
        let bucket = name();
        let waiting = tokio::spawn(async move {
            // A node gives up after a while: a reader asks again.
            let mut query = query;
            loop {
                let page = page_at(&node, &bucket, query.clone()).await.expect("it is ready");
                if !page.events.is_empty() {
                    return page;
                }
                assert!(page.level, "nothing came");
                query.from = FeedOrigin::Token(page.next);
            }
        });
        cluster.put((nth + 1) % 3, &name(), &key, "v").await;
        let page = waiting.await.expect("it ends");
        assert_eq!((told(&page), page.level), (vec![format!("{key}=v")], true));
    }
    // Nothing comes: the answer is empty, and in time.
    let from = FeedOrigin::Now;
    let query = FeedQuery { from, wait_ms: 1, ..FeedQuery::default() };
    let empty = page_at(cluster.node(0), &name(), query).await.expect("it is ready");
    assert!(empty.events.is_empty() && empty.level);
}

#[tokio::test]
async fn feed_survives_a_restart_of_its_node() {
    let place = Place::new();
    let node = place.start().await;
    directory(&node, DirectoryCall::CreateBucket(feed("keys"))).await;
    write(&node, set("a", "1")).await;
    let before = ready(&node).await;
    write(&node, set("b", "2")).await;
    node.stop().await.expect("it stops");
    let node = place.start().await;
    write(&node, set("c", "3")).await;
    let page = page(&node, FeedOrigin::Token(before.next)).await.expect("it is ready");
    assert_eq!((told(&page), page.restart), (vec!["b=2".to_string(), "c=3".to_string()], false));
    assert_eq!(told(&ready(&node).await), ["a=1", "b=2", "c=3"]);
    node.stop().await.expect("it stops");
}

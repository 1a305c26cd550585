//! Feeds of available buckets: who waits at a node is woken by what other nodes do.

use super::three::three;
use super::{bucket, store};
use crate::Node;
use crate::tests::feeds::{feed, page_at};
use crate::tests::test_cluster::wait;
use base::feed::{FeedOrigin, FeedQuery};
use base::{Call, DirectoryCall, FeedMode, FeedPage, Kind};
use std::time::Duration;

/// Reads a page, again and again while the feed is built.
async fn page(node: &Node, query: FeedQuery) -> FeedPage {
    loop {
        match page_at(node, &bucket(), query.clone()).await {
            Ok(page) => return page,
            Err(error) => assert_eq!(error.kind(), Kind::Unavailable, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_that_waits_is_woken_by_writes_at_other_nodes() {
    let cluster = three().await;
    let alter = Call::Directory(DirectoryCall::AlterBucket(feed("keys")));
    cluster.surely(bucket(), alter).await.expect("altered");
    let is_known = || {
        cluster.nodes.iter().flatten().all(|node| {
            let found = node.router.locator.catalog.available.find(&bucket());
            found.is_some_and(|properties| properties.feed == FeedMode::Keys)
        })
    };
    wait("the feed", || is_known().then_some(())).await;
    for nth in 0..3 {
        let (node, other) = (cluster.node(nth), cluster.node((nth + 1) % 3));
        let now = page(node, FeedQuery { from: FeedOrigin::Now, ..FeedQuery::default() }).await;
        let mut from = now.next;
        let signals = &node.router.available.feed_signals;
        let mut watch = signals.watch(&bucket()).expect("there is space");
        let key = format!("k{nth}");
        store(other, &key, "v", None).await.expect("stored");
        loop {
            watch.changed().await;
            let origin = FeedOrigin::Token(from);
            let found = page(node, FeedQuery { from: origin, ..FeedQuery::default() }).await;
            if let Some(event) = found.events.first() {
                assert_eq!(event.key, key);
                break;
            }
            from = found.next;
        }
        let nothing = FeedQuery { from: FeedOrigin::Now, wait_ms: 1, ..FeedQuery::default() };
        let empty = page(node, nothing).await;
        assert!(empty.events.is_empty() && empty.level, "nothing comes: it is answered in time");
    }
}

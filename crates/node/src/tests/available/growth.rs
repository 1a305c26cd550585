//! Lists of keys where much has lived and died: rows that were deleted or have expired are removed
//! once every owner knows.

use super::{bucket, keys, remove, store};
use crate::tests::Place;
use crate::tests::bytes;
use crate::tests::many::ask;
use crate::{Node, NodeSettings};
use base::request::Expiry;
use base::{Call, Update};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Many more rows than the reaper asks about in a turn.
const ROWS: usize = 4_000;
const LEFT: usize = 20;
const CLIENTS: usize = 64;
/// A list looks into each of 1,024 parts of the keys, and meets the next one's first row.
const PLACES: u64 = 1_100;
const PATIENCE: Duration = Duration::from_secs(90);

fn key(number: usize) -> String {
    format!("{number:06}")
}

/// Rows that the store had for range reads, living ones of its own and not those of clients.
fn found(node: &Node) -> u64 {
    node.status.trees.statistics().rows_returned
}

/// Waits until a list of all finds hardly more rows than it gives: no tombstone is left.
async fn lists_what_is_left_cheaply(node: &Node) {
    let until = Instant::now() + PATIENCE;
    loop {
        let before = found(node);
        let (listed, _) = keys(node, None, 10_000).await;
        let rows = found(node) - before;
        assert_eq!(listed.len(), LEFT);
        if rows <= 2 * LEFT as u64 + PLACES {
            return;
        }
        assert!(Instant::now() < until, "{rows} rows are found for {LEFT}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Many clients, each with its part of these rows.
async fn all<F: Future<Output = ()> + Send + 'static>(
    node: &Arc<Node>,
    rows: Range<usize>,
    one: impl Fn(Arc<Node>, String) -> F + Copy + Send + 'static,
) {
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let (node, mine) = (node.clone(), rows.clone().skip(client).step_by(CLIENTS));
        clients.spawn(async move {
            for number in mine {
                one(node.clone(), key(number)).await;
            }
        });
    }
    clients.join_all().await;
}

async fn stop(node: Arc<Node>) {
    Arc::into_inner(node).expect("no client is left").stop().await.expect("it stops");
}

#[tokio::test]
async fn rows_that_are_gone_are_in_nobodys_way_for_long() {
    let place = Place::new();
    let settings = || NodeSettings { reap_after_ms: 1_000, ..place.settings() };
    let mut node = Arc::new(Node::start(settings()).await.expect("it starts"));
    all(&node, 0..ROWS, |node, key| async move {
        store(&node, &key, "v", None).await.expect("a write");
    })
    .await;
    all(&node, LEFT..ROWS, |node, key| async move {
        remove(&node, &key, None).await.expect("a delete");
    })
    .await;
    lists_what_is_left_cheaply(&node).await;
    all(&node, LEFT..ROWS, |node, key| async move {
        let expiry = Expiry::After(200);
        let update = Update::Set { key: bytes(&key), value: bytes("v"), expiry };
        ask(&node, &bucket(), Call::Update(update)).await.expect("a write");
    })
    .await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    stop(node).await;
    node = Arc::new(Node::start(settings()).await.expect("it starts again"));
    lists_what_is_left_cheaply(&node).await;
    stop(node).await;
}

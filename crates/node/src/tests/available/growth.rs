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

/// Many more rows than the reaper handles in one turn.
const ROWS: usize = 4_000;
const LEFT: usize = 20;
const CLIENTS: usize = 64;
/// A listing seeks in each of 1,024 parts of the key space, and meets the first row of the next
/// one.
const PLACES: u64 = 1_100;
/// Longest wait for the reaper, which has a loop of its own here. The crate `dynamo` tests the same
/// turn by turn (`reaped_rows.rs`).
const PATIENCE: Duration = Duration::from_secs(90);

fn key(number: usize) -> String {
    format!("{number:06}")
}

/// Returns the rows that range reads walked over at this node, and the live ones of them.
fn counts(node: &Node) -> (u64, u64) {
    let trees = node.status.trees.statistics();
    (trees.rows_walked, trees.rows_returned)
}

/// Waits until a listing finds hardly more rows than it returns (no tombstone remains), and walks
/// over hardly more than it finds. A slot has too few rows for the store to jump over those that
/// were reaped: a flush and a merge remove them, once listings have walked over 25,000.
async fn wait_reaped(node: &Node) {
    let until = Instant::now() + PATIENCE;
    loop {
        let before = counts(node);
        let (listed, _) = keys(node, None, 10_000).await;
        let after = counts(node);
        let (walked, returned) = (after.0 - before.0, after.1 - before.1);
        assert_eq!(listed.len(), LEFT);
        if returned <= 2 * LEFT as u64 + PLACES && walked <= 2 * returned + 500 {
            return;
        }
        let counts = format!("{walked} rows are walked, {returned} are found");
        assert!(Instant::now() < until, "{counts} for {LEFT}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Runs `one` for each of these rows, with many clients.
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
async fn listing_cost_ignores_deleted_and_expired_rows_after_reaping() {
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
    wait_reaped(&node).await;
    all(&node, LEFT..ROWS, |node, key| async move {
        let expiry = Expiry::After(200);
        let update = Update::Set { key: bytes(&key), value: bytes("v"), expiry };
        ask(&node, &bucket(), Call::Update(update)).await.expect("a write");
    })
    .await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    stop(node).await;
    node = Arc::new(Node::start(settings()).await.expect("it starts again"));
    wait_reaped(&node).await;
    stop(node).await;
}

//! Threads that merge the store's tables: they end with the node, and the node ends with the store.

use super::stopped::unended;
use super::{Place, set, update};
use crate::NodeSettings;
use base::{AlarmCode, Reason};
use std::time::Duration;
use store::{RowChange, Trees};

const MERGERS: [&str; 2] = ["loops: merger", "loops: small merger"];

/// Writes runs of rows, as many as are merged at once, with the same keys.
fn write_runs(trees: &dyn Trees, rows: u32) {
    for run in 0..8_u32 {
        let row = |n: u32| RowChange::Put(format!("\u{7f} {n}").into(), run.to_string().into());
        trees.apply(&mut (0..rows).map(row)).expect("applied");
        trees.rotate().expect("sealed");
        trees.flush().expect("flushed");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_merge_threads_end_at_stop_and_give_up_a_long_merge() {
    const ROWS: u32 = 100_000;
    let place = Place::new();
    let node = place.start().await;
    update(&node, set("key", "value")).await.expect("written");
    for merger in MERGERS {
        assert!(unended(&node).iter().any(|name| name == merger), "{:?}", unended(&node));
    }
    let trees = node.status.trees.clone();
    tokio::task::spawn_blocking(move || write_runs(&*trees, ROWS)).await.expect("no panic");
    let began = std::time::Instant::now();
    node.stop().await.expect("it stops");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!(unended(&node), Vec::<String>::new());
}

/// A store that failed answers no write, but an idle node has none: the mergers notice it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_without_writes_fails_once_a_merge_fails() {
    let place = Place::new();
    let settings = NodeSettings { lease_ms: 1_000, ..place.settings() };
    let node = crate::Node::start(settings).await.expect("it starts");
    update(&node, set("key", "value")).await.expect("written");
    let trees = node.status.trees.clone();
    let tables = place.path().join("store/tables");
    let away = place.path().join("store/tables-away");
    // Merges may be at work already: some of them meets a folder that is gone.
    tokio::task::spawn_blocking(move || {
        for n in 0_u32.. {
            let row = RowChange::Put("\u{7f} row".into(), n.to_string().into());
            if n == 7 {
                std::fs::rename(&tables, &away).expect("renamed");
            }
            let applied = trees.apply(&mut [row].into_iter()).map(drop);
            let flushed = applied.and_then(|()| trees.rotate()).and_then(|_| trees.flush());
            if flushed.is_err() {
                return;
            }
        }
    })
    .await
    .expect("no panic");
    let failed = tokio::time::timeout(Duration::from_secs(20), node.wait_failed()).await;
    let error = failed.expect("the node goes on without its store");
    assert!(matches!(error.reason, Reason::StoreFailed | Reason::Corrupt), "{error}");
    assert!(node.status().alarms.iter().any(|alarm| alarm.code == AlarmCode::NodeFailed));
    let _ = node.stop().await; // It reports the failure again.
}

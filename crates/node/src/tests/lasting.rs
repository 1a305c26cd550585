//! Durability: acknowledged writes survive the node.

use super::{Place, bytes, get, reason, set, update};
use crate::{Node, NodeSettings};
use base::Reason;
use std::path::Path;
use std::process::Command;

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp runs");
    assert!(copied.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_process_kill() {
    let place = Place::new();
    let node = place.start().await;
    let copies = Place::new();
    std::fs::create_dir_all(copies.path()).expect("a place for copies");
    for round in 0..5 {
        for number in 0..200 {
            let key = format!("{round}-{number}");
            update(&node, set(&key, &key)).await.expect("a set");
        }
        // What the page cache holds is what a killed process leaves.
        copy(place.path(), &copies.path().join(round.to_string()));
    }
    for round in 0..5 {
        let data = copies.path().join(round.to_string());
        let remaining =
            Node::start(NodeSettings { data_dir: data, ..place.settings() }).await.expect("starts");
        assert_eq!(remaining.status().incarnation, 2, "another life than the one that was killed");
        for earlier in 0..=round {
            for number in [0, 1, 100, 199] {
                let key = format!("{earlier}-{number}");
                assert_eq!(get(&remaining, &key).await, Some(bytes(&key)), "{key} after {round}");
            }
        }
        remaining.stop().await.expect("it stops");
    }
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn second_process_is_refused_and_stopped_node_rejects_requests() {
    let place = Place::new();
    let node = place.start().await;
    assert_eq!(reason(Node::start(place.settings()).await.map(|_| ())), Reason::InUse);
    update(&node, set("k", "v")).await.expect("a set");
    node.stop().await.expect("it stops");
    assert_eq!(reason(update(&node, set("k", "w")).await), Reason::ShuttingDown);
    let again = place.start().await;
    assert_eq!(get(&again, "k").await, Some(bytes("v")));
    again.stop().await.expect("it stops");
}

#[tokio::test]
async fn checkpoint_holds_exactly_earlier_writes_and_starts() {
    let (place, target) = (Place::new(), Place::new());
    let node = place.start().await;
    for number in 0..100 {
        update(&node, set(&format!("{number}"), "before")).await.expect("a set");
    }
    node.checkpoint(target.path().to_path_buf()).await.expect("a checkpoint");
    update(&node, set("50", "after")).await.expect("a set");
    assert_eq!(reason(node.checkpoint(target.path().to_path_buf()).await), Reason::AlreadyExists);
    node.stop().await.expect("it stops");
    let copy = target.start().await;
    for number in 0..100 {
        assert_eq!(get(&copy, &number.to_string()).await, Some(bytes("before")));
    }
    update(&copy, set("new", "life")).await.expect("it goes on");
    copy.stop().await.expect("it stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_collapses_to_its_limit_without_losing_rows() {
    let place = Place::new();
    let settings = NodeSettings { log_bytes_max: 8 << 20, ..place.settings() };
    let node = Node::start(settings.clone()).await.expect("it starts");
    let value = "x".repeat(100_000);
    for number in 0..300 {
        update(&node, set(&format!("{}", number % 40), &value)).await.expect("a set");
    }
    let mut log = u64::MAX;
    for _ in 0..100 {
        log = node.status().log.bytes;
        if log <= settings.log_bytes_max {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert!(log <= settings.log_bytes_max, "30 MB were written, {log} are kept");
    node.stop().await.expect("it stops");
    let again = Node::start(settings).await.expect("it starts");
    for number in 0..40 {
        assert_eq!(get(&again, &number.to_string()).await.map(|v| v.len()), Some(100_000));
    }
    again.stop().await.expect("it stops");
}

//! Stop of a node while a snapshot is received: the stop waits for tasks that write its files.

use super::test_node::{GROUP, ONE, TWO, TestLink, TestNode, value, wait_until};
use crate::snapshot::{RowIngest, receive};
use base::Reason;
use runtime::file_tasks::FileTasks;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use store::{Ingest, MemoryTrees, StoreError, TreeRow};

/// Ingest whose `put` blocks until the sender of `may_continue` is dropped.
struct SlowIngest {
    begins: Sender<()>,
    may_continue: Receiver<()>,
    removed: Arc<AtomicBool>,
}

impl Ingest for SlowIngest {
    fn put(&mut self, _: Vec<TreeRow>) -> Result<(), StoreError> {
        self.begins.send(()).expect("somebody waits");
        let _ = self.may_continue.recv(); // Returns when the other end is dropped.
        Ok(())
    }

    fn complete(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn switch(&mut self) -> Result<bool, StoreError> {
        Ok(false)
    }
}

impl Drop for SlowIngest {
    fn drop(&mut self) {
        self.removed.store(true, SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aborted_snapshot_write_finishes_before_the_node_stops() {
    let (file_tasks, removed) = (Arc::<FileTasks>::default(), Arc::<AtomicBool>::default());
    let ((begins, started), (release, may_continue)) = (channel(), channel());
    let ingest = Box::new(SlowIngest { begins, may_continue, removed: removed.clone() });
    let ingest = RowIngest { ingest, _task: file_tasks.begin().unwrap() };
    let fetching = tokio::spawn(receive::ingest_rows(ingest, Vec::new(), false));
    started.recv().unwrap();
    // As at the end of the group's driver.
    fetching.abort();
    assert!(fetching.await.is_err_and(|error| error.is_cancelled()));
    file_tasks.close();
    assert!(file_tasks.has_running() && !removed.load(SeqCst), "it is still written");
    drop(release);
    wait_until("nobody is at work", || !file_tasks.has_running()).await;
    assert!(removed.load(SeqCst), "its files went before");
}

#[tokio::test]
async fn stopping_node_aborts_snapshot_fetch_and_starts_no_new_one() {
    let link = Arc::<TestLink>::default();
    let node = |id| TestNode::new(&link, id, MemoryTrees::new(1 << 20));
    let (one, two) = (node(ONE), Arc::new(node(TWO)));
    one.apply(90, (0..2_000).map(|number| (number, Some(value(number, 1, 2_500)))));
    link.fate(|number, part| if number < 3 { vec![part] } else { vec![] });
    let receiver = two.clone();
    let fetching = tokio::spawn(async move {
        receiver.snapshots.fetch(&receiver.peers, GROUP, ONE).await.map(drop)
    });
    wait_until("rows came", || two.snapshots.progress().iter().any(|one| one.rows > 0)).await;
    assert!(two.file_tasks.has_running(), "a stop waits for it");
    two.file_tasks.close();
    fetching.abort();
    assert!(fetching.await.is_err_and(|error| error.is_cancelled()));
    wait_until("nobody is at work", || !two.file_tasks.has_running()).await;
    let refused = two.snapshots.fetch(&two.peers, GROUP, ONE).await.err().unwrap();
    assert_eq!(refused.reason, Reason::ShuttingDown);
}

//! Stop of a node while a snapshot comes: the stop waits for tasks that write its files.

use super::test_node::{GROUP, ONE, TWO, TestLink, TestNode, until, value};
use crate::snapshot::{Installing, receive};
use base::Reason;
use runtime::file_tasks::FileTasks;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use store::{Ingest, MemoryTrees, StoreError, TreeRow};

/// Takes long to write a part.
struct Slow {
    begins: Sender<()>,
    goes_on: Receiver<()>,
    gone: Arc<AtomicBool>,
}

impl Ingest for Slow {
    fn put(&mut self, _: Vec<TreeRow>) -> Result<(), StoreError> {
        self.begins.send(()).expect("somebody waits");
        let _ = self.goes_on.recv(); // The other end is dropped.
        Ok(())
    }

    fn complete(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn switch(&mut self) -> Result<bool, StoreError> {
        Ok(false)
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.gone.store(true, SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_is_written_to_its_end_before_the_node_has_stopped() {
    let (file_tasks, gone) = (Arc::<FileTasks>::default(), Arc::<AtomicBool>::default());
    let ((begins, has_begun), (lets_go, goes_on)) = (channel(), channel());
    let install = Box::new(Slow { begins, goes_on, gone: gone.clone() });
    let installing = Installing { install, _task: file_tasks.begin().unwrap() };
    let fetching = tokio::spawn(receive::put(installing, Vec::new(), false));
    has_begun.recv().unwrap();
    // As the end of the group's driver does it.
    fetching.abort();
    assert!(fetching.await.is_err_and(|error| error.is_cancelled()));
    file_tasks.close();
    assert!(file_tasks.any() && !gone.load(SeqCst), "it is still written");
    drop(lets_go);
    until("nobody is at work", || !file_tasks.any()).await;
    assert!(gone.load(SeqCst), "its files went before");
}

#[tokio::test]
async fn a_snapshot_on_its_way_is_given_up_by_a_node_that_stops_and_none_is_begun() {
    let cable = Arc::<TestLink>::default();
    let home = |id| TestNode::at(&cable, id, MemoryTrees::new(1 << 20));
    let (one, two) = (home(ONE), Arc::new(home(TWO)));
    one.apply(90, (0..2_000).map(|number| (number, Some(value(number, 1, 2_500)))));
    cable.fate(|number, part| if number < 3 { vec![part] } else { vec![] });
    let other = two.clone();
    let fetching =
        tokio::spawn(
            async move { other.snapshots.fetch(&other.peers, GROUP, ONE).await.map(drop) },
        );
    until("rows came", || two.snapshots.progress().iter().any(|one| one.rows > 0)).await;
    assert!(two.file_tasks.any(), "a stop waits for it");
    two.file_tasks.close();
    fetching.abort();
    assert!(fetching.await.is_err_and(|error| error.is_cancelled()));
    until("nobody is at work", || !two.file_tasks.any()).await;
    let refused = two.snapshots.fetch(&two.peers, GROUP, ONE).await.err().unwrap();
    assert_eq!(refused.reason, Reason::ShuttingDown);
}

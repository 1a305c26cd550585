//! Durability of rows that are merged again: they survive a loss of power after the answer.

use crate::replay::VnodeReplay;
use crate::vnode_ops::{KeyRef, SeenVersions, Write, WriteCondition, WriteContent, WritePolicy};
use crate::vnode_store::VnodeStore;
use base::{BucketName, Content, Error, NodeId, Properties};
use bytes::Bytes;
use runtime::CancellationToken;
use runtime::log_writer::{AppendCompletion, AppendSink, LogWriter, LogWriterHandle};
use runtime::metrics::Metrics;
use runtime::write_pacer::WritePacer;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use store::{Honesty, Log, LogSettings, MemoryDisk, MemoryTrees, SpareWorker, Trees};
use vnode_rows::batch::Mark;
use vnode_rows::layout::{Row, StoredValue, row_key};

/// Interval of syncs without a request: longer than any test.
const NEVER: Duration = Duration::from_secs(1 << 30);
const SETTINGS: LogSettings =
    LogSettings { segment_bytes: 16 << 10, log_id: 1, spare_worker: SpareWorker::Inline };

struct Completions(Arc<VnodeStore>);

impl AppendSink for Completions {
    fn on_completions(&self, done: &[AppendCompletion]) {
        self.0.on_completions(done);
    }

    fn on_log_failure(&self, error: Error) {
        self.0.fail(error);
    }
}

/// Vnodes of one node, with a disk that can lose power.
struct Vnodes {
    store: Arc<VnodeStore>,
    disk: MemoryDisk,
    writer: Mutex<LogWriter>,
    metrics: Arc<Metrics>,
}

impl Vnodes {
    fn start(node: u64) -> Vnodes {
        let disk = MemoryDisk::new(Honesty::Honest);
        let (log, _) = Log::open(Arc::new(disk.clone()), SETTINGS).expect("an empty disk");
        let (handle, metrics) = (LogWriterHandle::new(), Arc::new(Metrics::default()));
        let callbacks = (Box::new(|_: &BucketName| Some(1_u8)) as _, Box::new(|| true) as _);
        let trees = Arc::new(MemoryTrees::new(1 << 20));
        let store = Arc::new(VnodeStore::new(
            NodeId(node),
            (1, Mark::default()),
            trees.clone(),
            handle.clone(),
            Arc::new(WritePacer::new(trees)),
            callbacks,
        ));
        let writer = Mutex::new(LogWriter::new(log, handle, metrics.clone(), NEVER));
        tokio::spawn({
            let store = store.clone();
            async move { store.run(CancellationToken::new()).await }
        });
        Vnodes { store, disk, writer, metrics }
    }

    /// Lets the log writer and the store finish all that was submitted.
    async fn run(&self) {
        let sink = Completions(self.store.clone());
        for _ in 0..100 {
            // The guard ends with the statement, not across the wait.
            self.writer.lock().expect("one thread").step(&sink).expect("a disk without faults");
            tokio::task::yield_now().await;
        }
    }

    /// Lets the store submit what has gathered, while the log writer rests.
    async fn submit(&self) {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    /// Waits until the batch of a ticket is applied.
    async fn wait_stored(&self, ticket: u64) {
        tokio::join!(self.run(), async {
            self.store.wait_stored(ticket).await.expect("no faults")
        });
    }

    fn syncs(&self) -> u64 {
        self.metrics.syncs.load(Ordering::Relaxed)
    }

    /// Returns true if a row survives a loss of power that keeps only synced bytes.
    fn survives(&self, key_ref: &KeyRef) -> bool {
        let left = self.disk.crash(&mut |_| 0);
        let (log, records) = Log::open(Arc::new(left), SETTINGS).expect("a log after a crash");
        let trees = MemoryTrees::new(1 << 20);
        let mut replay = VnodeReplay::new(&trees).expect("memory");
        for record in records.map(|record| record.expect("whole").1) {
            replay.replay(&record, &trees, true).expect("in order");
        }
        drop(log);
        trees.get(&key_ref.row_key()).expect("memory").is_some()
    }
}

fn key_ref(key: &'static str) -> KeyRef {
    let bucket = BucketName::new(BucketName::AVAILABLE, "b").expect("a name");
    let key_ref = KeyRef::new(bucket.clone(), Bytes::from_static(key.as_bytes()));
    assert_eq!(key_ref.row_key(), row_key(&bucket, &key_ref.key));
    key_ref
}

fn policy(sync: bool) -> WritePolicy {
    WritePolicy { sync, ..WritePolicy::from_properties(&Properties::available()) }
}

/// Writes a key at a node; returns the row.
async fn write(at: &Vnodes, key_ref: &KeyRef) -> Row {
    let content = Content::plain(Bytes::from_static(b"v"));
    let content = WriteContent::Value(StoredValue::new(Some(&content), 1));
    let write = Write { content, seen: SeenVersions::Nothing, condition: WriteCondition::Always };
    let written = at.store.write(key_ref, write, policy(true), None).expect("it is taken");
    at.wait_stored(written.ticket).await;
    written.row
}

#[tokio::test]
async fn unsynced_row_is_synced_before_its_hint_is_acknowledged() {
    let (fallback, owner) = (Vnodes::start(1), Vnodes::start(2));
    let key_ref = key_ref("k");
    let row = write(&fallback, &key_ref).await;
    // A read repair, in a bucket that accepts the risk.
    let ticket = owner.store.merge(&key_ref, row.clone(), policy(false), None).expect("taken");
    owner.wait_stored(ticket).await;
    assert!(!owner.survives(&key_ref), "nobody asked for a sync yet");
    // A hint, whose sender removes its own row after the answer.
    let ticket = owner.store.merge(&key_ref, row.clone(), policy(true), None).expect("taken");
    owner.wait_stored(ticket).await;
    assert!(owner.survives(&key_ref), "an acknowledged row is gone");
    // Known to be synced: another merge of the same row costs no sync.
    let syncs = owner.syncs();
    for sync in [true, false] {
        let ticket = owner.store.merge(&key_ref, row.clone(), policy(sync), None).expect("taken");
        owner.wait_stored(ticket).await;
    }
    assert_eq!(owner.syncs(), syncs);
}

#[tokio::test]
async fn merges_of_identical_unsynced_rows_share_one_sync() {
    let (fallback, owner) = (Vnodes::start(1), Vnodes::start(2));
    let keys = [key_ref("a"), key_ref("b"), key_ref("c")];
    let mut rows = Vec::new();
    for key_ref in &keys {
        rows.push(write(&fallback, key_ref).await);
    }
    let merge = |index: usize, sync| {
        owner.store.merge(&keys[index], rows[index].clone(), policy(sync), None).expect("taken")
    };
    let first = merge(0, false);
    // The first is submitted to the log, the second gathers after it.
    owner.submit().await;
    let second = merge(1, false);
    assert_ne!(first, second);
    let tickets = [merge(0, true), merge(1, true)];
    assert_eq!(
        tickets, [second; 2],
        "the batch that gathers is synced, and with it what is before"
    );
    let third = merge(2, true);
    owner.wait_stored(third).await;
    assert_eq!(owner.syncs(), 1);
    assert!(keys.iter().all(|key_ref| owner.survives(key_ref)));
}

#[tokio::test]
async fn sync_for_anti_entropy_makes_unsynced_rows_durable() {
    let (fallback, owner) = (Vnodes::start(1), Vnodes::start(2));
    let key_ref = key_ref("k");
    let row = write(&fallback, &key_ref).await;
    let ticket = owner.store.merge(&key_ref, row, policy(false), None).expect("taken");
    owner.wait_stored(ticket).await;
    let synced = async { owner.store.wait_synced().await.expect("no faults") };
    tokio::join!(owner.run(), synced);
    assert!(owner.survives(&key_ref), "the other node may have dropped its copy");
    let syncs = owner.syncs();
    tokio::join!(owner.run(), async { owner.store.wait_synced().await.expect("no faults") });
    assert_eq!(owner.syncs(), syncs, "nothing was written since");
}

#[tokio::test]
async fn changes_of_tasks_that_run_in_one_turn_share_one_record() {
    let (fallback, owner) = (Vnodes::start(1), Vnodes::start(2));
    let keys = ["a", "b", "c", "d"].map(key_ref);
    let (store, mut rows) = (&owner.store, Vec::new());
    for key_ref in &keys {
        rows.push(write(&fallback, key_ref).await);
    }
    let (tickets, merged) = (Arc::new(Mutex::new(Vec::new())), keys.clone().into_iter().zip(rows));
    for (key_ref, row) in merged {
        let (store, tickets) = (store.clone(), tickets.clone());
        tokio::spawn(async move {
            let ticket = store.merge(&key_ref, row, policy(true), None).expect("taken");
            tickets.lock().expect("nobody panics").push(ticket);
        });
    }
    owner.submit().await;
    let tickets = tickets.lock().expect("nobody panics").clone();
    assert_eq!(tickets, [1; 4]);
    owner.wait_stored(1).await;
    assert_eq!(owner.syncs(), 1);
    // The turn is over: a later change is in the next record.
    let later = store.merge(&key_ref("e"), Row::empty(), policy(true), None).expect("taken");
    assert_eq!(later, 2);
    assert!(keys.iter().all(|key_ref| owner.survives(key_ref)));
}

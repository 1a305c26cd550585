//! Durability of rows that are merged again: a loss of power after the answer does not take them.

use crate::batch::Mark;
use crate::layout::{Row, Stored, row_key};
use crate::replay::Replaying;
use crate::vnode_ops::{KeyRef, SeenVersions, Write, WriteCondition, WriteContent, WritePolicy};
use crate::vnode_store::VnodeStore;
use base::{BucketName, Content, Error, NodeId, Properties};
use bytes::Bytes;
use runtime::CancellationToken;
use runtime::log_writer::{AppendSink, LogWriter, LogWriterHandle, LoggedRecord};
use runtime::metrics::Metrics;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use store::{Ahead, Honesty, Log, LogSettings, MemoryDisk, MemoryTrees, Trees};

/// Interval of syncs that no record asks for: longer than any test.
const NEVER: Duration = Duration::from_secs(1 << 30);
const SETTINGS: LogSettings = LogSettings { segment_bytes: 16 << 10, id: 1, ahead: Ahead::Inline };

struct Completions(Arc<VnodeStore>);

impl AppendSink for Completions {
    fn done(&self, done: &[LoggedRecord]) {
        self.0.done(done);
    }

    fn failed(&self, error: Error) {
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
        let around = (Box::new(|_: &BucketName| Some(1_u8)) as _, Box::new(|| true) as _);
        let store = Arc::new(VnodeStore::new(
            NodeId(node),
            (1, Mark::default()),
            Arc::new(MemoryTrees::new(1 << 20)),
            handle.clone(),
            Arc::default(),
            around,
        ));
        let writer = Mutex::new(LogWriter::new(log, handle, metrics.clone(), NEVER));
        tokio::spawn({
            let store = store.clone();
            async move { store.drive(CancellationToken::new()).await }
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

    /// Waits until the batch of a ticket is in the store.
    async fn settled(&self, ticket: u64) {
        tokio::join!(self.run(), async { self.store.settled(ticket).await.expect("no faults") });
    }

    fn syncs(&self) -> u64 {
        self.metrics.syncs.load(Ordering::Relaxed)
    }

    /// Returns true if a row is there after a loss of power that keeps nothing but what is synced.
    fn survives(&self, key_ref: &KeyRef) -> bool {
        let left = self.disk.crash(&mut |_| 0);
        let (log, records) = Log::open(Arc::new(left), SETTINGS).expect("a log after a crash");
        let trees = MemoryTrees::new(1 << 20);
        let mut replaying = Replaying::new(&trees).expect("memory");
        for record in records.map(|record| record.expect("whole").1) {
            replaying.show(&record, &trees, true).expect("in order");
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
    WritePolicy { sync, ..WritePolicy::of(&Properties::available()) }
}

/// Writes a key at a node; returns the row.
async fn written(at: &Vnodes, key_ref: &KeyRef) -> Row {
    let content = Content::plain(Bytes::from_static(b"v"));
    let what = WriteContent::Value(Stored::new(Some(&content), 1));
    let write = Write { what, seen: SeenVersions::Nothing, only: WriteCondition::Always };
    let written = at.store.write(key_ref, write, policy(true), None).expect("it is taken");
    at.settled(written.ticket).await;
    written.row
}

#[tokio::test]
async fn row_that_came_unsynced_is_synced_before_a_hint_with_it_is_acknowledged() {
    let (fallback, owner) = (Vnodes::start(1), Vnodes::start(2));
    let key_ref = key_ref("k");
    let row = written(&fallback, &key_ref).await;
    // By read repair, in a bucket that accepts the risk.
    let ticket = owner.store.merge(&key_ref, row.clone(), policy(false), None).expect("taken");
    owner.settled(ticket).await;
    assert!(!owner.survives(&key_ref), "nobody asked for a sync yet");
    // By the hint, whose sender removes its own row by the answer.
    let ticket = owner.store.merge(&key_ref, row.clone(), policy(true), None).expect("taken");
    owner.settled(ticket).await;
    assert!(owner.survives(&key_ref), "an acknowledged row is gone");
    // Known to be synced, it costs nothing to bring it again, whoever asks.
    let syncs = owner.syncs();
    for sync in [true, false] {
        let ticket = owner.store.merge(&key_ref, row.clone(), policy(sync), None).expect("taken");
        owner.settled(ticket).await;
    }
    assert_eq!(owner.syncs(), syncs);
}

#[tokio::test]
async fn identical_rows_that_wait_share_one_sync_with_those_that_are_on_their_way() {
    let (fallback, owner) = (Vnodes::start(1), Vnodes::start(2));
    let keys = [key_ref("a"), key_ref("b"), key_ref("c")];
    let mut rows = Vec::new();
    for key_ref in &keys {
        rows.push(written(&fallback, key_ref).await);
    }
    let merge = |which: usize, sync| {
        owner.store.merge(&keys[which], rows[which].clone(), policy(sync), None).expect("taken")
    };
    // The first is handed to the log, the second gathers behind it.
    let (first, second) = (merge(0, false), merge(1, false));
    assert_ne!(first, second);
    let again = [merge(0, true), merge(1, true)];
    assert_eq!(again, [second; 2], "the batch that gathers is synced, and with it what is before");
    let third = merge(2, true);
    owner.settled(third).await;
    assert_eq!(owner.syncs(), 1);
    assert!(keys.iter().all(|key_ref| owner.survives(key_ref)));
}

#[tokio::test]
async fn what_a_comparison_relies_on_is_synced() {
    let (fallback, owner) = (Vnodes::start(1), Vnodes::start(2));
    let key_ref = key_ref("k");
    let row = written(&fallback, &key_ref).await;
    let ticket = owner.store.merge(&key_ref, row, policy(false), None).expect("taken");
    owner.settled(ticket).await;
    let synced = async { owner.store.synced().await.expect("no faults") };
    tokio::join!(owner.run(), synced);
    assert!(owner.survives(&key_ref), "the other node may have dropped its copy");
    let syncs = owner.syncs();
    tokio::join!(owner.run(), async { owner.store.synced().await.expect("no faults") });
    assert_eq!(owner.syncs(), syncs, "nothing was written since");
}

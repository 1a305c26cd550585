//! Node of its own with a real log, which a test reads back record by record.

use super::test_node::TestNode;
use crate::replay::VnodeReplay;
use crate::vnode_ops::{
    EvaluatedWrite, KeyRef, SeenVersions, Write, WriteCondition, WriteContent, WritePolicy,
};
use crate::vnode_store::VnodeStore;
use base::{Actor, BucketName, Error, NodeId, Properties, Result};
use logic::causal::Dot;
use runtime::log_writer::{AppendCompletion, AppendSink, LogWriter, LogWriterHandle};
use runtime::metrics::Metrics;
use runtime::write_pacer::WritePacer;
use std::future::Future;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use store::{
    Honesty, Log, LogSettings, LsmTrees, MemoryDisk, MemoryTrees, OwnedRecord, SpareWorker,
    TreeSettings, Trees,
};
use vnode_rows::batch::Mark;
use vnode_rows::layout::{Row, StoredValue};

/// Interval of syncs without a request: longer than any test.
const NEVER: Duration = Duration::from_secs(1 << 30);
/// Memory of trees in files.
const TREE_MEMORY_BYTES: u64 = 64 << 20;
const SETTINGS: LogSettings =
    LogSettings { segment_bytes: 16 << 20, log_id: 1, spare_worker: SpareWorker::Inline };

struct StoreSink(Arc<VnodeStore>);

impl AppendSink for StoreSink {
    fn on_completions(&self, done: &[AppendCompletion]) {
        self.0.on_completions(done);
    }

    fn on_log_failure(&self, error: Error) {
        self.0.fail(error);
    }
}

/// The only node of its cluster, with its log.
pub(super) struct LoggedNode {
    pub(super) node: TestNode,
    disk: MemoryDisk,
    writer: Mutex<LogWriter>,
}

impl LoggedNode {
    /// Starts a node without rows.
    pub(super) fn start() -> LoggedNode {
        let disk = MemoryDisk::new(Honesty::Honest);
        LoggedNode::start_on(disk, Arc::new(MemoryTrees::new(1 << 20)), (1, Mark::default()))
    }

    /// Starts a node without rows, with trees in files in an empty folder.
    pub(super) fn start_on_files(folder: &Path) -> LoggedNode {
        let settings =
            TreeSettings { memory_bytes_max: TREE_MEMORY_BYTES, ..TreeSettings::new(folder) };
        let trees = Arc::new(LsmTrees::open(settings).expect("an empty folder"));
        LoggedNode::start_on(MemoryDisk::new(Honesty::Honest), trees, (1, Mark::default()))
    }

    fn start_on(disk: MemoryDisk, trees: Arc<dyn Trees>, begin: (u64, Mark)) -> LoggedNode {
        let (log, records) = Log::open(Arc::new(disk.clone()), SETTINGS).expect("a sound log");
        records.for_each(|record| drop(record.expect("whole")));
        let handle = LogWriterHandle::new();
        let callbacks = (Box::new(|_: &BucketName| Some(3_u8)) as _, Box::new(|| true) as _);
        let pacer = Arc::new(WritePacer::new(trees.clone()));
        let store = VnodeStore::new(NodeId(1), begin, trees, handle.clone(), pacer, callbacks);
        let writer = Mutex::new(LogWriter::new(log, handle, Arc::new(Metrics::default()), NEVER));
        LoggedNode { node: TestNode::start_on(1, Arc::new(store)), disk, writer }
    }

    /// Ends without a stop, and starts again from the whole log, on empty trees.
    pub(super) fn restart(self, incarnation: u64) -> LoggedNode {
        let disk = self.disk.crash(&mut |n| n - 1);
        self.restart_on(disk, incarnation)
    }

    /// Loses power with everything that is not synced, and starts again.
    pub(super) fn lose_power(self, incarnation: u64) -> LoggedNode {
        let disk = self.disk.crash(&mut |_| 0);
        self.restart_on(disk, incarnation)
    }

    fn restart_on(self, disk: MemoryDisk, incarnation: u64) -> LoggedNode {
        let trees = Arc::new(MemoryTrees::new(1 << 20));
        let mut replay = VnodeReplay::new(&*trees).expect("memory");
        for record in records_on(&disk) {
            replay.replay(&record, &*trees, true).expect("in order");
        }
        let mark = replay.finish().expect("nothing is missing");
        drop(self);
        LoggedNode::start_on(disk, trees, (incarnation, mark))
    }

    pub(super) fn store(&self) -> &Arc<VnodeStore> {
        &self.node.available.vnode_store
    }

    pub(super) fn trees(&self) -> &dyn Trees {
        &*self.node.available.trees
    }

    /// Lets the log writer and the store finish all that was submitted.
    pub(super) async fn run(&self) {
        let sink = StoreSink(self.store().clone());
        for _ in 0..4 {
            self.node.run_tasks().await;
            // The guard ends with the statement, not across the wait.
            self.writer.lock().expect("one thread").step(&sink).expect("a disk without faults");
        }
        self.node.run_tasks().await;
    }

    /// Awaits something that needs the log.
    pub(super) async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = self.run() => {}
            }
        }
    }

    /// Returns all records of the log.
    pub(super) fn records(&self) -> Vec<OwnedRecord> {
        records_on(&self.disk)
    }

    /// Calls `check` with the trees after each record of the log, as a crash may leave them.
    pub(super) fn check_each_crash(&self, mut check: impl FnMut(&dyn Trees)) {
        let trees = MemoryTrees::new(1 << 20);
        let mut replay = VnodeReplay::new(&trees).expect("memory");
        for record in self.records() {
            replay.replay(&record, &trees, true).expect("in order");
            check(&trees);
        }
    }
}

fn records_on(disk: &MemoryDisk) -> Vec<OwnedRecord> {
    let left = disk.crash(&mut |n| n - 1);
    let (_log, records) = Log::open(Arc::new(left), SETTINGS).expect("a sound log");
    records.map(|record| record.expect("whole").1).collect()
}

/// Runs a test on a runtime of its own: a property has one for each of its cases.
pub(super) fn block_on<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime");
    runtime.block_on(test)
}

/// Rules of the bucket of all tests.
pub(super) fn policy() -> WritePolicy {
    WritePolicy::from_properties(&Properties::available())
}

/// Writes a value or, without one, a tombstone.
pub(super) fn write(
    store: &VnodeStore,
    key_ref: &KeyRef,
    value: StoredValue,
    seen: SeenVersions,
) -> Result<EvaluatedWrite> {
    let content = WriteContent::Value(value);
    let write = Write { content, seen, condition: WriteCondition::Always };
    store.write(key_ref, write, policy(), None)
}

/// Returns a row of another node with one value, its `count`th write.
pub(super) fn remote_row(node: u64, count: u64, value: StoredValue) -> Row {
    let mut row = Row::empty();
    let id = Actor { node: NodeId(node), vnode: 7, incarnation: 1 };
    row.event(Dot { id, count }, value);
    row
}

//! Processes of whole nodes: the product's node on an in-memory disk and trees, which outlive it,
//! with its network endpoint and its log writer.

use super::transport::Port;
use crate::assembly::{RecoveredParts, assemble};
use crate::cluster::OwnIncarnations;
use crate::dispatch::Dispatcher;
use crate::flow::Flow;
use crate::startup::LogCompletions;
use crate::{Node, NodeSettings};
use base::{ClusterDescription, GroupId, NodeId, Reply, Request, Result};
use bytes::Bytes;
use replica_host::recovery::{RepairedEntries, ReplayContext, replay};
use runtime::log_writer::{AppendSink, LogWriter, record};
use runtime::world;
use sim::{Chance, Scheduler};
use std::ops::Bound;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use store::{
    Disk, Honesty, Log, LogSettings, MemoryDisk, MemoryTrees, RowChange, SpareWorker, Trees,
};

/// Minimum and maximum time of a write to disk, in microseconds.
pub(super) type WriteTime = (u64, u64);
pub(super) const QUICK: WriteTime = (100, 3_000);
pub(super) const SLOW: WriteTime = (5_000, 300_000);

/// Sync interval that never ends: a record that need not be synced is synced only with others.
pub(super) const NEVER: Duration = Duration::from_secs(1 << 30);

/// Contents of a node's disk.
pub(super) struct Storage {
    pub disk: MemoryDisk,
    pub trees: Arc<MemoryTrees>,
    /// Number of incarnations that were started.
    pub incarnation: u64,
}

impl Storage {
    /// Returns an empty disk, and trees whose memory is full at `active_bytes_max` bytes.
    pub(super) fn new(active_bytes_max: u64) -> Storage {
        let trees = Arc::new(MemoryTrees::new(active_bytes_max));
        sim::watch("a store", &trees);
        Storage { disk: MemoryDisk::new(Honesty::Honest), trees, incarnation: 0 }
    }

    /// Adds rows before the first incarnation.
    pub(super) fn plant(&self, rows: impl IntoIterator<Item = (Bytes, Bytes)>) {
        let mut rows = rows.into_iter().map(|(key, row)| RowChange::Put(key, row));
        self.trees.apply(&mut rows).expect("memory");
        self.make_durable();
    }

    /// Makes the applied rows durable.
    pub(super) fn make_durable(&self) {
        self.trees.rotate().expect("memory");
        self.trees.flush().expect("memory");
    }

    /// Returns a copy, as a backup makes it.
    pub(super) fn copy(&self, active_bytes_max: u64) -> Storage {
        let copy = Storage::new(active_bytes_max);
        let snapshot = self.trees.snapshot();
        let rows = snapshot.range(Bound::Unbounded, Bound::Unbounded, false);
        copy.plant(rows.map(|row| row.expect("memory")));
        Storage { disk: self.disk.copy(Honesty::Honest), incarnation: self.incarnation, ..copy }
    }

    /// Starts an incarnation from these contents, with the groups for which `wanted` returns true.
    pub(super) fn assemble(
        &mut self,
        id: NodeId,
        context: &ReplayContext,
        known: ClusterDescription,
        settings: NodeSettings,
        expected: fn(GroupId) -> bool,
    ) -> (Node, Log) {
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let log_settings =
            LogSettings { segment_bytes: 16 << 10, log_id: 1, spare_worker: SpareWorker::Inline };
        let (log, records) = Log::open(disk, log_settings).expect("a log that a crash left opens");
        let trees: Arc<dyn Trees> = self.trees.clone();
        let (mut groups, vnodes) =
            replay(&log, records, &*trees, context, &RepairedEntries::default())
                .expect("it is replayed");
        groups.retain(|group| expected(group.id));
        self.incarnation += 1;
        let parts = RecoveredParts {
            started_ms: world::milliseconds(),
            node: id,
            data: None,
            incarnations: OwnIncarnations { incarnation: self.incarnation, known: Vec::new() },
            description: known,
            trees,
            reader: log.reader(),
            groups,
            is_witness: false,
            vnodes,
        };
        let node = assemble(settings, parts).expect("it begins");
        sim::watch("a node", &node.router);
        sim::watch("the life of a node", &node.lifecycle);
        node.router.locator.groups.all().iter().for_each(|group| sim::watch("a group", group));
        node.housekeeper.disk.log_writer.publish(&log);
        (node, log)
    }

    /// Loses power: unsynced writes may survive or not; unflushed rows are lost.
    pub(super) fn lose_power(&mut self, scheduler: &Scheduler) {
        let disk = &self.disk;
        let remaining = scheduler.draw(|chance| disk.crash(&mut |choices| chance.index(choices)));
        self.disk = remaining;
        self.trees.crash().expect("memory");
    }
}

/// Process of a node: state that is lost in a crash.
pub(super) struct Process {
    pub node: Node,
    pub writer: Arc<Mutex<LogWriter>>,
}

impl Process {
    /// Connects a node to the network.
    pub(super) fn connect(node: &Node, port: &Port, process: u64) {
        let incarnation = (node.cluster.links.node, node.cluster.incarnations.incarnation);
        let peers = port.connect(incarnation, process, Arc::new(Dispatcher::new(node)));
        let _ = node.cluster.links.peers.set(peers);
    }

    /// Starts a node's log writer. `interval`: longest time until a record that need not be synced
    /// is synced; `None`: it is never synced alone.
    pub(super) fn begin(
        (node, log): (Node, Log),
        nth: usize,
        takes: &Arc<Mutex<WriteTime>>,
        interval: Option<Duration>,
    ) -> Process {
        let (log_writer, metrics) =
            (node.housekeeper.disk.log_writer.clone(), node.router.metrics.clone());
        let writer = Arc::new(Mutex::new(LogWriter::new(log, log_writer, metrics, NEVER)));
        let writes = write(node.clone(), writer.clone(), takes.clone(), interval);
        Scheduler::current().spawn(Some(nth), writes);
        Process { node, writer }
    }

    /// Disconnects the node, and ends its tasks.
    pub(super) fn disconnect(&self, port: &Port, scheduler: &Scheduler) {
        port.network.stop_node(port.which);
        scheduler.kill(port.which);
    }

    /// Crashes the node during a write, as a loss of power does.
    pub(super) fn crash(self, port: &Port, scheduler: &Scheduler, storage: &mut Storage) {
        self.disconnect(port, scheduler);
        let mut writer = self.writer.lock().expect("one thread");
        scheduler.draw(|chance| cut_short(&mut writer, chance, |_| false));
        drop(writer);
        storage.lose_power(scheduler);
    }
}

/// Calls a node. `None`: no answer came in time; the call may still take effect.
pub(super) async fn ask(
    node: Node,
    nth: usize,
    request: Request,
    timeout_ms: u64,
) -> Option<Result<Reply>> {
    let (sender, answer) = tokio::sync::oneshot::channel();
    Scheduler::current().spawn(Some(nth), async move {
        let submitted = node.router.submit(&mut Flow::of(base::Principal::Node), request);
        let _ = sender.send(node.router.wait_reply(submitted).await);
    });
    world::timeout(Duration::from_millis(timeout_ms), answer).await?.ok()
}

/// Ends a log writer in the middle of its work: some of the unwritten records are in the log,
/// perhaps synced.
pub(super) fn cut_short(
    writer: &mut LogWriter,
    chance: &mut Chance,
    synced: impl FnOnce(&mut Chance) -> bool,
) {
    for job in writer.take_unwritten() {
        if chance.draw_bool(300) || writer.log_mut().append(&record(&job)).is_err() {
            break;
        }
    }
    if chance.draw_bool(500) {
        let _ = writer.log_mut().commit(synced(chance)); // The process ends in any case.
    }
}

/// Simulates the disk: takes waiting records, writes them, and reports completions.
async fn write(
    node: Node,
    writer: Arc<Mutex<LogWriter>>,
    takes: Arc<Mutex<WriteTime>>,
    interval: Option<Duration>,
) {
    let post: Arc<dyn AppendSink> = Arc::new(LogCompletions::of(&node));
    let log_writer = &node.housekeeper.disk.log_writer;
    loop {
        match interval {
            None => log_writer.work_submitted.notified().await,
            Some(interval) => {
                if world::timeout(interval, log_writer.work_submitted.notified()).await.is_none() {
                    let mut writer = writer.lock().expect("one thread");
                    writer.log_mut().commit(true).expect("a disk without faults");
                }
            }
        }
        while log_writer.has_work() {
            step(&writer, &post);
            let (low, high) = *takes.lock().expect("one thread");
            let scheduler = Scheduler::current();
            let asleep = scheduler.sleep_us(scheduler.draw(|chance| chance.between(low, high)));
            drop(scheduler);
            asleep.await;
            while step(&writer, &post) {}
        }
    }
}

/// Takes the log writer's next step. Returns true if its round goes on.
fn step(writer: &Mutex<LogWriter>, post: &Arc<dyn AppendSink>) -> bool {
    let mut writer = writer.lock().expect("one thread");
    writer.step(&**post).expect("a disk without faults");
    !writer.is_between_rounds()
}

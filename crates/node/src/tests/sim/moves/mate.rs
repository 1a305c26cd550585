//! One node: its disk and its store outlive its lives.

use super::super::chance::Chance;
use super::super::links::{self, End, Hub, Wire};
use super::super::remains;
use super::super::stage::{Stage, here};
use crate::assembly::{Parts, assemble};
use crate::cluster::OwnIncarnations;
use crate::dispatch::Dispatcher;
use crate::recovery::{RepairedEntries, replay, terms};
use crate::startup::LogCompletions;
use crate::{Node, NodeSettings, transfer};
use base::{ClusterDescription, NodeId};
use bytes::Bytes;
use runtime::log_writer::{AppendSink, LogWriter, record};
use runtime::world;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use store::{Ahead, Disk, Honesty, Log, LogSettings, MemoryDisk, MemoryTrees, RowChange, Trees};
use transport::{Network, Peers};

/// Length of the lease, milliseconds.
pub(super) const LEASE_MS: u64 = 600;

/// How long a disk takes to write, microseconds: at least, and at most.
pub(super) type Takes = (u64, u64);
pub(super) const QUICK: Takes = (100, 3_000);
pub(super) const SLOW: Takes = (5_000, 300_000);

/// What need not be synced is not, unless something else is, or the history says so.
const NEVER: Duration = Duration::from_secs(1 << 30);

pub(super) struct Mate {
    which: usize,
    pub node: NodeId,
    disk: MemoryDisk,
    pub trees: Arc<MemoryTrees>,
    /// How many lives it has begun.
    begun: u64,
    life: Option<Life>,
    pub disk_takes: Arc<Mutex<Takes>>,
}

/// What dies with the node.
struct Life {
    node: Node,
    desk: Arc<Mutex<LogWriter>>,
}

impl Mate {
    /// A node that has these rows and has never lived.
    pub(super) fn new(which: usize, rows: &[(Bytes, Bytes)]) -> Mate {
        // Whoever applies would wait if it were full before the next flush.
        let trees = Arc::new(MemoryTrees::new(256 << 20));
        remains::watch("a store", &trees);
        let mut rows = rows.iter().cloned().map(|(key, row)| RowChange::Put(key, row));
        trees.apply(&mut rows).expect("memory");
        let node = NodeId(which as u64 + 1);
        let disk = MemoryDisk::new(Honesty::Honest);
        let disk_takes = Arc::new(Mutex::new(QUICK));
        let mate = Mate { which, node, disk, trees, begun: 0, life: None, disk_takes };
        mate.flush();
        mate
    }

    pub(super) fn running(&self) -> Option<&Node> {
        self.life.as_ref().map(|life| &life.node)
    }

    /// Makes the store durable as far as it is applied.
    pub(super) fn flush(&self) {
        self.trees.rotate().expect("memory");
        self.trees.flush().expect("memory");
    }

    /// Begins a life, from what the disk and the store hold.
    pub(super) fn start(&mut self, hub: &Hub, known: &ClusterDescription, process: u64) {
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let settings = LogSettings { segment_bytes: 16 << 10, id: 1, ahead: Ahead::Inline };
        let (log, records) = Log::open(disk, settings).expect("a log that a crash left opens");
        let trees: Arc<dyn Trees> = self.trees.clone();
        let mut terms = terms(self.node, LEASE_MS, None).expect("terms");
        for placement in &known.groups {
            terms.add(placement).expect("founders");
        }
        let (groups, vnodes) = replay(&log, records, &*trees, &terms, &RepairedEntries::default())
            .expect("it is replayed");
        self.begun += 1;
        let parts = Parts {
            began_ms: world::milliseconds(),
            node: self.node,
            data: None,
            incarnations: OwnIncarnations { incarnation: self.begun, known: Vec::new() },
            known: known.clone(),
            trees,
            reader: log.reader(),
            groups,
            witness: false,
            vnodes,
        };
        let name = format!("n{}", self.node.0);
        let settings = NodeSettings { name, lease_ms: LEASE_MS, ..NodeSettings::default() };
        let node = assemble(settings, parts).expect("it begins");
        remains::watch("a node", &node.router);
        remains::watch("the life of a node", &node.lifecycle);
        node.router.locator.groups.all().iter().for_each(|group| remains::watch("a group", group));
        node.housekeeper.disk.log_writer.publish(&log);
        let wire = Wire { which: self.which, hub: hub.clone() };
        let mut mailroom = None;
        let over = |sink| {
            mailroom = Some(sink);
            Arc::new(wire) as Arc<dyn Network>
        };
        let peers = Peers::over(over, Arc::new(Dispatcher::new(&node)), process << 32);
        let _ = node.cluster.links.peers.set(peers);
        let sink = mailroom.expect("the network is made with its sink");
        let end = End { node: self.node, incarnation: self.begun, process, sink };
        links::at(hub).begins(self.which, end);
        node.router
            .locator
            .groups
            .all()
            .into_iter()
            .for_each(|group| crate::group_lifecycle::drive(&node.lifecycle, group));
        let loops = &node.lifecycle.tasks.loops;
        loops.spawn("moves", transfer::reconcile(node.moves.clone()));
        let (log_writer, metrics) =
            (node.housekeeper.disk.log_writer.clone(), node.router.metrics.clone());
        let writer = LogWriter::new(log, log_writer, metrics, NEVER);
        let desk = Arc::new(Mutex::new(writer));
        let writes = write(node.clone(), desk.clone(), self.disk_takes.clone());
        here().begin(Some(self.which), writes);
        self.life = Some(Life { node, desk });
    }

    /// The power goes: what was being written is there in part, what was not synced perhaps.
    pub(super) fn crash(&mut self, stage: &Stage, hub: &Hub) {
        let Some(life) = self.life.take() else { return };
        links::ends(hub, self.which);
        stage.kill(self.which);
        let mut writer = life.desk.lock().expect("one thread");
        for job in writer.take_unwritten() {
            let cut = stage.dice(|dice| dice.often(300));
            if cut || writer.log_mut().append(&record(&job)).is_err() {
                break;
            }
        }
        if stage.dice(|dice| dice.often(500)) {
            let _ = writer.log_mut().commit(false); // It is cut short in any case.
        }
        drop(writer);
        let disk = &self.disk;
        let choose = |dice: &mut Chance| {
            disk.crash(&mut |choices| Chance::below(dice, choices as u64) as usize)
        };
        self.disk = stage.dice(choose);
        self.trees.crash().expect("memory");
    }
}

/// The disk: takes what is given, writes it, and says so.
async fn write(node: Node, desk: Arc<Mutex<LogWriter>>, takes: Arc<Mutex<Takes>>) {
    let post: Arc<dyn AppendSink> = Arc::new(LogCompletions::of(&node));
    loop {
        node.housekeeper.disk.log_writer.given.notified().await;
        loop {
            if !node.housekeeper.disk.log_writer.has_work() {
                break;
            }
            step(&desk, &post);
            let (low, high) = *takes.lock().expect("one thread");
            let asleep = here().rest(here().dice(|dice| dice.between(low, high)));
            asleep.await;
            while step(&desk, &post) {}
        }
    }
}

/// The log writer's next step; whether its round goes on.
fn step(desk: &Mutex<LogWriter>, post: &Arc<dyn AppendSink>) -> bool {
    let mut writer = desk.lock().expect("one thread");
    writer.step(&**post).expect("a disk without faults");
    !writer.rests()
}

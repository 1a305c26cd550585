//! One node: its disk and its store outlive its lives, and sometimes they do not.

use super::super::chance::Chance;
use super::super::remains;
use super::directory::{COPIES, DIRECTORY as MASTER};
use super::stage::{Stage, here};
use super::wire::{self, End, Hub, Wire};
use crate::assembly::{Parts, assemble};
use crate::cluster::OwnIncarnations;
use crate::dispatch::Dispatcher;
use crate::recovery::{RepairedEntries, replay, terms};
use crate::startup::{LogCompletions, start_vnode_loops};
use crate::{Node, NodeSettings};
use base::{
    ClusterDescription, ClusterId, GroupId, MemberDescription, Membership, NodeId, Properties,
};
use logic::ring::Ring;
use runtime::log_writer::{AppendSink, LogWriter, record};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use store::{Ahead, Disk, Honesty, Log, LogSettings, MemoryDisk, MemoryTrees, RowChange, Trees};
use transport::Peers;

/// The cluster's id.
pub(super) const CLUSTER: ClusterId = ClusterId(77);
/// More than twice as long as a client waits.
const REAP_AFTER_MS: u64 = 2_500;
/// What is written is synced so soon, whoever asks for it.
const INTERVAL: Duration = Duration::from_secs(1);
/// What has gone over to other nodes is kept so long: longer than a client waits.
const GRACE_MS: u64 = 2_000;

/// What need not be synced is not, unless something else is, or the history says so.
const NEVER: Duration = Duration::from_secs(1 << 30);

pub(super) struct Mate {
    pub which: usize,
    pub node: NodeId,
    pub place: Place,
    pub life: Option<Life>,
    pub slow_disk: Arc<Mutex<bool>>,
    /// How many of the directory's last decisions it forgets at most when it falls.
    forgets_max: usize,
}

/// What a node has on disk.
pub(super) struct Place {
    disk: MemoryDisk,
    trees: Arc<MemoryTrees>,
    /// How many lives it has begun.
    begun: u64,
    /// Up to which place it has heard of the directory's decisions, and what it would know after a
    /// fall at least.
    pub heard: usize,
    kept: usize,
}

/// What dies with the node.
pub(super) struct Life {
    pub node: Node,
    desk: Arc<Mutex<LogWriter>>,
}

/// What all nodes are told.
#[derive(Clone)]
pub(super) struct Told {
    /// How many were decided before.
    pub changes: u64,
    pub ring: Ring,
    pub nodes: Vec<NodeId>,
    pub types: BTreeMap<String, Arc<Properties>>,
}

impl Place {
    pub(super) fn new() -> Place {
        let trees = Arc::new(MemoryTrees::new(1 << 20));
        remains::watch("a store", &trees);
        Place { disk: MemoryDisk::new(Honesty::Honest), trees, begun: 0, heard: 0, kept: 0 }
    }

    /// The place of a node that has just become a member.
    pub(super) fn of_new(heard: usize) -> Place {
        Place { heard, kept: heard, ..Place::new() }
    }

    /// Rows that are there before the first life.
    pub(super) fn plant(&self, rows: impl IntoIterator<Item = (bytes::Bytes, bytes::Bytes)>) {
        let mut rows = rows.into_iter().map(|(key, row)| RowChange::Put(key, row));
        self.trees.apply(&mut rows).expect("memory");
        make_durable(&self.trees);
    }

    /// A copy as a backup makes it.
    pub(super) fn copy(&self) -> Place {
        let (disk, begun) = (self.disk.copy(Honesty::Honest), self.begun);
        let trees = Arc::new(MemoryTrees::new(1 << 20));
        remains::watch("a copy of a store", &trees);
        let snapshot = self.trees.snapshot();
        let rows = snapshot.range(Bound::Unbounded, Bound::Unbounded, false);
        let rows = rows.map(|row| row.expect("memory"));
        trees.apply(&mut rows.map(|(key, row)| RowChange::Put(key, row))).expect("memory");
        drop(snapshot);
        make_durable(&trees);
        Place { disk, trees, begun, heard: self.heard, kept: self.kept }
    }
}

fn make_durable(trees: &MemoryTrees) {
    trees.rotate().expect("memory");
    trees.flush().expect("memory");
}

fn settings() -> LogSettings {
    LogSettings { segment_bytes: 16 << 10, id: 1, ahead: Ahead::Inline }
}

impl Mate {
    pub(super) fn new(which: usize, forgets_max: usize) -> Mate {
        let (node, place) = (NodeId(which as u64 + 1), Place::new());
        Mate { which, node, place, life: None, slow_disk: Arc::default(), forgets_max }
    }

    pub(super) fn running(&self) -> Option<&Node> {
        self.life.as_ref().map(|life| &life.node)
    }

    /// Begins a life, from what the disk and the store hold.
    pub(super) fn start(&mut self, hub: &Hub, told: &Told, process: u64) {
        let disk: Arc<dyn Disk> = Arc::new(self.place.disk.clone());
        let (log, records) = Log::open(disk, settings()).expect("a log that a crash left opens");
        let trees: Arc<dyn Trees> = self.place.trees.clone();
        let terms = terms(self.node, 600, None).expect("terms");
        let (mut groups, vnodes) =
            replay(&log, records, &*trees, &terms, &RepairedEntries::default())
                .expect("it is replayed");
        groups.retain(|group| group.id == GroupId::DIRECTORY);
        self.place.begun += 1;
        let parts = Parts {
            began_ms: runtime::world::milliseconds(),
            node: self.node,
            data: None,
            incarnations: OwnIncarnations { incarnation: self.place.begun, known: Vec::new() },
            known: told.known(),
            trees,
            reader: log.reader(),
            groups,
            witness: false,
            vnodes,
        };
        let settings = NodeSettings {
            name: format!("n{}", self.which),
            reap_after_ms: REAP_AFTER_MS,
            ring_grace_ms: GRACE_MS,
            ..NodeSettings::default()
        };
        let node = assemble(settings, parts).expect("it begins");
        remains::watch("a node", &node.router);
        remains::watch("the life of a node", &node.lifecycle);
        node.router.locator.groups.all().iter().for_each(|group| remains::watch("a group", group));
        node.housekeeper.disk.log_writer.publish(&log);
        node.router.directory.group.leadership.follows(MASTER);
        // As `Directory::new` draws it from its rows, which are elsewhere here.
        node.router.locator.catalog.fill(Vec::new(), told.known());
        node.router.locator.catalog.available.fill(
            told.types.clone(),
            BTreeMap::new(),
            Some(told.ring.clone()),
        );
        let wire = Wire { which: self.which, hub: hub.clone() };
        let mut mailroom = None;
        let over = |sink| {
            mailroom = Some(sink);
            Arc::new(wire) as Arc<dyn transport::Network>
        };
        let peers = Peers::over(over, Arc::new(Dispatcher::new(&node)), process << 32);
        let _ = node.cluster.links.peers.set(peers);
        let sink = mailroom.expect("the network is made with its sink");
        let incarnation = self.place.begun;
        wire::at(hub).begins(self.which, End { node: self.node, incarnation, process, sink });
        start_vnode_loops(&node.router.available, &node.lifecycle);
        let (log_writer, metrics) =
            (node.housekeeper.disk.log_writer.clone(), node.router.metrics.clone());
        let writer = LogWriter::new(log, log_writer, metrics, NEVER);
        let desk = Arc::new(Mutex::new(writer));
        let writes = write(node.clone(), desk.clone(), self.slow_disk.clone());
        here().begin(Some(self.which), writes);
        self.life = Some(Life { node, desk });
    }

    /// A node that lives hears what was decided in this place of the directory.
    pub(super) fn hear(&mut self, at: usize, told: &Told) {
        if let Some(node) = self.running() {
            node.router.locator.catalog.fill(Vec::new(), told.known());
            node.router.locator.catalog.available.set_ring(Some(told.ring.clone()));
            self.place.heard = at;
            self.place.kept = self.place.kept.max(at.saturating_sub(self.forgets_max));
        }
    }

    /// The power goes: what was being written is there in part, what was not synced perhaps.
    pub(super) fn crash(&mut self, stage: &Stage, hub: &Hub) {
        let Some(life) = self.life.take() else { return };
        wire::ends(hub, self.which);
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
        let disk = &self.place.disk;
        let after = stage
            .dice(|dice| disk.crash(&mut |choices| Chance::below(dice, choices as u64) as usize));
        self.place.disk = after;
        let Place { heard, kept, .. } = &mut self.place;
        *heard = stage.dice(|dice| dice.between(*kept as u64, *heard as u64)) as usize;
        self.place.trees.crash().expect("memory");
    }

    /// The life has ended in good order.
    pub(super) fn leave(&mut self, stage: &Stage, hub: &Hub) {
        if self.life.take().is_some() {
            wire::ends(hub, self.which);
            stage.kill(self.which);
            make_durable(&self.place.trees);
            self.place.kept = self.place.heard;
        }
    }

    /// Makes the store durable as far as it is applied, and the log shorter.
    pub(super) fn flush(&mut self) {
        let Some(life) = &self.life else { return };
        let mut writer = life.desk.lock().expect("one thread");
        if !writer.rests() {
            return;
        }
        let end = writer.log().end();
        let keep_from =
            life.node.router.available.vnode_store.log_needed_from().unwrap_or(end).min(end);
        make_durable(&self.place.trees);
        writer.log_mut().collapse(keep_from).expect("a disk without faults");
        life.node.housekeeper.disk.log_writer.publish(writer.log());
    }

    /// Takes everything from the store that a bad disk could take without a word.
    pub(super) fn lose(&mut self, keys: &[bytes::Bytes]) {
        let Some(life) = &self.life else { return };
        let Ok(mut state) = life.node.router.available.vnode_store.admit() else { return };
        let changes = keys.iter().map(|key| (key.clone(), None));
        life.node.router.available.vnode_store.change(
            &mut state,
            changes.collect::<Vec<_>>(),
            true,
        );
    }
}

/// Ends a life in good order; the mate is dead when it resolves. `false`: it did not come to that.
pub(super) async fn end_well(node: Node) -> bool {
    node.lifecycle.tasks.end_loops();
    let ended =
        runtime::world::timeout(Duration::from_secs(5), node.router.available.vnode_store.ends());
    ended.await == Some(true) && node.router.available.vnode_store.end_well().is_ok()
}

impl Told {
    /// For which numbers of copies there are buckets: the types', and the built-in one's.
    pub(super) fn numbers(&self) -> Vec<usize> {
        let named = self.types.values().map(|it| usize::from(it.replication.n_val));
        let all: BTreeSet<_> = named.chain([COPIES]).collect();
        all.into_iter().collect()
    }

    fn known(&self) -> ClusterDescription {
        let member = |node: &NodeId| MemberDescription {
            node: *node,
            name: format!("n{}", node.0),
            peer: "simulated".into(),
            client: String::new(),
            incarnation: 0,
            membership: Membership::Member,
        };
        let mut members: Vec<_> = self.nodes.iter().map(member).collect();
        members.sort_by_key(|member| member.node);
        let (cluster, changes) = (CLUSTER, self.changes);
        ClusterDescription { cluster, changes, members, ..ClusterDescription::default() }
    }
}

/// The disk: takes what is given, writes it, and says so.
async fn write(node: Node, desk: Arc<Mutex<LogWriter>>, slow: Arc<Mutex<bool>>) {
    let post: Arc<dyn AppendSink> = Arc::new(LogCompletions::of(&node));
    loop {
        if runtime::world::timeout(INTERVAL, node.housekeeper.disk.log_writer.given.notified())
            .await
            .is_none()
        {
            let mut writer = desk.lock().expect("one thread");
            writer.log_mut().commit(true).expect("a disk without faults");
        }
        loop {
            if !node.housekeeper.disk.log_writer.has_work() {
                break;
            }
            step(&desk, &post);
            let (low, high) =
                if *slow.lock().expect("one thread") { (5_000, 300_000) } else { (100, 3_000) };
            let takes = here().dice(|dice| dice.between(low, high));
            let asleep = here().rest(takes);
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

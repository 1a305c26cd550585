//! Simulated node: its disk and its trees outlive its processes, unless the disk is lost.

use super::super::process::{Process, QUICK, Storage, WriteTime};
use super::super::transport::Port;
use super::directory::{COPIES, DIRECTORY as MASTER};
use super::indexed::{DeclaredIndex, DeclaredIndexes};
use crate::startup::start_vnode_loops;
use crate::vnode_index_keeper::{self, VnodeIndexKeeper};
use crate::{Node, NodeSettings};
use base::{
    BucketName, ClusterDescription, ClusterId, FeatureLevel, FeedMode, GroupId, MemberDescription,
    Membership, NodeId, Properties,
};
use logic::ring::Ring;
use replica_host::recovery::context;
use runtime::Watch;
use sim::Scheduler;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Id of the cluster.
pub(super) const CLUSTER: ClusterId = ClusterId(77);
/// Size of the store's memory, in bytes.
const MEMORY_BYTES: u64 = 1 << 20;
/// Age after which tombstones are reaped, in milliseconds: more than twice a client's timeout.
const REAP_AFTER_MS: u64 = 2_500;
/// Longest time until a record is synced, whatever durability its writer requested.
const INTERVAL: Duration = Duration::from_secs(1);
/// Time for which transferred partitions are kept, in milliseconds: longer than a client's timeout.
const GRACE_MS: u64 = 2_000;

/// Watch over loops: no simulation looks at their beats.
const WATCH: Watch = Watch::Unbounded("no watchdog runs");

pub(super) struct RingNode {
    pub id: NodeId,
    port: Port,
    pub place: Place,
    pub process: Option<Process>,
    pub write_time: Arc<Mutex<WriteTime>>,
    /// Largest number of the directory's latest decisions that the node forgets in a crash.
    forgets_max: usize,
    /// True if the node tends the declared indexes.
    pub tends_indexes: bool,
    /// Pause between two rounds of anti-entropy, in milliseconds. `None`: the usual one.
    pub anti_entropy_ms: Option<u64>,
}

/// Contents of a node's disk.
pub(super) struct Place {
    pub storage: Storage,
    /// Position of the latest decision of the directory that it has heard; `kept`: of the latest
    /// that it knows even after a crash.
    pub delivered: usize,
    kept: usize,
}

/// Decision of the directory: the state that all nodes learn.
#[derive(Clone)]
pub(super) struct Decision {
    /// Number of earlier decisions.
    pub changes: u64,
    pub ring: Ring,
    pub nodes: Vec<NodeId>,
    pub types: BTreeMap<String, Arc<Properties>>,
    pub indexes: DeclaredIndexes,
}

impl Place {
    /// Returns the disk of a node that has just become a member.
    pub(super) fn new(heard: usize) -> Place {
        Place { storage: Storage::new(MEMORY_BYTES), delivered: heard, kept: heard }
    }

    /// Returns a copy of the disk, as a backup makes it.
    pub(super) fn copy(&self) -> Place {
        Place { storage: self.storage.copy(MEMORY_BYTES), ..*self }
    }
}

impl RingNode {
    pub(super) fn new(port: Port, forgets_max: usize) -> RingNode {
        let (id, place) = (NodeId(port.which as u64 + 1), Place::new(0));
        let disk_takes = Arc::new(Mutex::new(QUICK));
        RingNode {
            id,
            port,
            place,
            process: None,
            write_time: disk_takes,
            forgets_max,
            tends_indexes: false,
            anti_entropy_ms: None,
        }
    }

    pub(super) fn running(&self) -> Option<&Node> {
        self.process.as_ref().map(|process| &process.node)
    }

    /// Starts an incarnation from the contents of disk and trees.
    pub(super) fn start(&mut self, decision: &Decision, process: u64) {
        let context = context(self.id, 600, None).expect("terms");
        let usual = NodeSettings::default();
        let settings = NodeSettings {
            name: format!("n{}", self.port.which),
            reap_after_ms: REAP_AFTER_MS,
            ring_grace_ms: GRACE_MS,
            anti_entropy_interval_ms: self
                .anti_entropy_ms
                .unwrap_or(usual.anti_entropy_interval_ms),
            ..usual
        };
        let known = decision.known();
        let is_directory = |group| group == GroupId::DIRECTORY;
        let storage = &mut self.place.storage;
        let (node, log) =
            storage.assemble(self.id, &context, known.clone(), settings, is_directory);
        node.router.directory.group.leadership.set_master(MASTER);
        // `Directory::new` reads the catalog from its rows, which are elsewhere here.
        node.router.locator.catalog.fill(Vec::new(), known);
        node.router.locator.catalog.available.replace_all(
            decision.types.clone(),
            decision.buckets_with_feeds(),
            Some(decision.ring.clone()),
        );
        decision.fill_indexes(&node);
        Process::connect(&node, &self.port, process);
        start_vnode_loops(&node.router.available, &node.lifecycle);
        if self.tends_indexes {
            let keeper = VnodeIndexKeeper::new(node.router.clone());
            let run = vnode_index_keeper::run(keeper);
            node.lifecycle.tasks.loops.spawn("indexes of vnodes", WATCH, run);
        }
        let (nth, interval) = (self.port.which, Some(INTERVAL));
        self.process = Some(Process::begin((node, log), nth, &self.write_time, interval));
    }

    /// Delivers the directory's decision at this position to a running node.
    pub(super) fn deliver(&mut self, at: usize, decision: &Decision) {
        if let Some(node) = self.running() {
            node.router.locator.catalog.fill(Vec::new(), decision.known());
            node.router.locator.catalog.available.set_ring(Some(decision.ring.clone()));
            decision.fill_indexes(node);
            self.place.delivered = at;
            self.place.kept = self.place.kept.max(at.saturating_sub(self.forgets_max));
        }
    }

    /// Crashes the node: part of the write in progress is on disk, and unsynced records may be.
    pub(super) fn crash(&mut self, scheduler: &Scheduler) {
        let Some(process) = self.process.take() else { return };
        process.crash(&self.port, scheduler, &mut self.place.storage);
        let Place { delivered: heard, kept, .. } = &mut self.place;
        *heard = scheduler.draw(|chance| chance.between(*kept as u64, *heard as u64)) as usize;
    }

    /// Ends an incarnation that has stopped gracefully.
    pub(super) fn leave(&mut self, scheduler: &Scheduler) {
        if let Some(process) = self.process.take() {
            process.disconnect(&self.port, scheduler);
            self.place.storage.make_durable();
            self.place.kept = self.place.delivered;
        }
    }

    /// Makes the applied rows durable, and truncates the log.
    pub(super) fn flush(&mut self) {
        let Some(process) = &self.process else { return };
        let mut writer = process.writer.lock().expect("one thread");
        if !writer.is_between_rounds() {
            return;
        }
        let end = writer.log().end();
        let keep_from =
            process.node.router.available.vnode_store.log_needed_from().unwrap_or(end).min(end);
        self.place.storage.make_durable();
        writer.log_mut().collapse(keep_from).expect("a disk without faults");
        process.node.housekeeper.disk.log_writer.publish(writer.log());
    }

    /// Removes these rows from the trees without a trace, as a bad disk may.
    pub(super) fn lose(&mut self, keys: &[bytes::Bytes]) {
        let Some(process) = &self.process else { return };
        let Ok(mut state) = process.node.router.available.vnode_store.admit() else { return };
        let changes = keys.iter().map(|key| (key.clone(), None));
        process.node.router.available.vnode_store.change(
            &mut state,
            changes.collect::<Vec<_>>(),
            true,
        );
    }
}

/// Stops a node gracefully. Returns true if that succeeded in time.
pub(super) async fn end_well(node: Node) -> bool {
    node.lifecycle.tasks.end_loops();
    let ended = runtime::world::timeout(
        Duration::from_secs(5),
        node.router.available.vnode_store.wait_stopped(),
    );
    ended.await == Some(true) && node.router.available.vnode_store.record_clean_shutdown().is_ok()
}

impl Decision {
    /// Returns the numbers of copies that buckets may have: those of the types and the built-in
    /// one.
    pub(super) fn numbers(&self) -> Vec<usize> {
        let named = self.types.values().map(|it| usize::from(it.replication.n_val));
        let all: BTreeSet<_> = named.chain([COPIES]).collect();
        all.into_iter().collect()
    }

    /// Returns the buckets of types with feeds, as if those were their own: nodes begin such feeds
    /// before they find a row.
    fn buckets_with_feeds(&self) -> BTreeMap<BucketName, Arc<Properties>> {
        let with_feeds = self.types.iter().filter(|(_, it)| it.feed != FeedMode::Off);
        let bucket = |kind: &String| BucketName::new(kind, "b").expect("a name");
        with_feeds.map(|(kind, properties)| (bucket(kind), properties.clone())).collect()
    }

    /// Fills a node's copy of the declared indexes.
    fn fill_indexes(&self, node: &Node) {
        let DeclaredIndexes { given, all } = &self.indexes;
        let index = |index: &DeclaredIndex| {
            (index.bucket.clone(), index.definition.clone(), index.is_ready)
        };
        node.router.locator.catalog.indexes.fill(given + 1, all.values().map(index).collect());
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
        let (cluster, changes, level) = (CLUSTER, self.changes, FeatureLevel::HIGHEST);
        ClusterDescription { cluster, changes, level, members, ..ClusterDescription::default() }
    }
}

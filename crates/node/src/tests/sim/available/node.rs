//! One node: its disk and its store outlive its processes, and sometimes they do not.

use super::super::process::{Process, QUICK, Storage, WriteTime};
use super::super::transport::Port;
use super::directory::{COPIES, DIRECTORY as MASTER};
use crate::recovery::terms;
use crate::startup::start_vnode_loops;
use crate::{Node, NodeSettings};
use base::{
    ClusterDescription, ClusterId, GroupId, MemberDescription, Membership, NodeId, Properties,
};
use logic::ring::Ring;
use sim::Scheduler;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The cluster's id.
pub(super) const CLUSTER: ClusterId = ClusterId(77);
/// A store takes so much into memory, bytes.
const MEMORY_BYTES: u64 = 1 << 20;
/// More than twice as long as a client waits.
const REAP_AFTER_MS: u64 = 2_500;
/// What is written is synced so soon, whoever asks for it.
const INTERVAL: Duration = Duration::from_secs(1);
/// What has gone over to other nodes is kept so long: longer than a client waits.
const GRACE_MS: u64 = 2_000;

pub(super) struct SimNode {
    pub id: NodeId,
    port: Port,
    pub place: Place,
    pub process: Option<Process>,
    pub disk_takes: Arc<Mutex<WriteTime>>,
    /// How many of the directory's last decisions it forgets at most when it falls.
    forgets_max: usize,
}

/// What a node has on disk.
pub(super) struct Place {
    pub storage: Storage,
    /// Up to which place it has heard of the directory's decisions, and what it would know after a
    /// fall at least.
    pub heard: usize,
    kept: usize,
}

/// What the directory holds, and all nodes are told.
#[derive(Clone)]
pub(super) struct Decision {
    /// How many were decided before.
    pub changes: u64,
    pub ring: Ring,
    pub nodes: Vec<NodeId>,
    pub types: BTreeMap<String, Arc<Properties>>,
}

impl Place {
    /// The place of a node that has just become a member.
    pub(super) fn new(heard: usize) -> Place {
        Place { storage: Storage::new(MEMORY_BYTES), heard, kept: heard }
    }

    /// A copy as a backup makes it.
    pub(super) fn copy(&self) -> Place {
        Place { storage: self.storage.copy(MEMORY_BYTES), ..*self }
    }
}

impl SimNode {
    pub(super) fn new(port: Port, forgets_max: usize) -> SimNode {
        let (id, place) = (NodeId(port.which as u64 + 1), Place::new(0));
        let disk_takes = Arc::new(Mutex::new(QUICK));
        SimNode { id, port, place, process: None, disk_takes, forgets_max }
    }

    pub(super) fn running(&self) -> Option<&Node> {
        self.process.as_ref().map(|process| &process.node)
    }

    /// Begins a life, from what the disk and the store hold.
    pub(super) fn start(&mut self, decision: &Decision, process: u64) {
        let terms = terms(self.id, 600, None).expect("terms");
        let settings = NodeSettings {
            name: format!("n{}", self.port.which),
            reap_after_ms: REAP_AFTER_MS,
            ring_grace_ms: GRACE_MS,
            ..NodeSettings::default()
        };
        let known = decision.known();
        let is_directory = |group| group == GroupId::DIRECTORY;
        let storage = &mut self.place.storage;
        let (node, log) = storage.assemble(self.id, &terms, known.clone(), settings, is_directory);
        node.router.directory.group.leadership.follows(MASTER);
        // As `Directory::new` draws it from its rows, which are elsewhere here.
        node.router.locator.catalog.fill(Vec::new(), known);
        node.router.locator.catalog.available.fill(
            decision.types.clone(),
            BTreeMap::new(),
            Some(decision.ring.clone()),
        );
        Process::connect(&node, &self.port, process);
        start_vnode_loops(&node.router.available, &node.lifecycle);
        let (which, interval) = (self.port.which, Some(INTERVAL));
        self.process = Some(Process::begin((node, log), which, &self.disk_takes, interval));
    }

    /// A node that lives hears what was decided in this place of the directory.
    pub(super) fn hear(&mut self, at: usize, decision: &Decision) {
        if let Some(node) = self.running() {
            node.router.locator.catalog.fill(Vec::new(), decision.known());
            node.router.locator.catalog.available.set_ring(Some(decision.ring.clone()));
            self.place.heard = at;
            self.place.kept = self.place.kept.max(at.saturating_sub(self.forgets_max));
        }
    }

    /// The power goes: what was being written is there in part, what was not synced perhaps.
    pub(super) fn crash(&mut self, scheduler: &Scheduler) {
        let Some(process) = self.process.take() else { return };
        process.crash(&self.port, scheduler, &mut self.place.storage);
        let Place { heard, kept, .. } = &mut self.place;
        *heard = scheduler.draw(|chance| chance.between(*kept as u64, *heard as u64)) as usize;
    }

    /// The life has ended in good order.
    pub(super) fn leave(&mut self, scheduler: &Scheduler) {
        if let Some(process) = self.process.take() {
            process.leaves(&self.port, scheduler);
            self.place.storage.make_durable();
            self.place.kept = self.place.heard;
        }
    }

    /// Makes the store durable as far as it is applied, and the log shorter.
    pub(super) fn flush(&mut self) {
        let Some(process) = &self.process else { return };
        let mut writer = process.writer.lock().expect("one thread");
        if !writer.rests() {
            return;
        }
        let end = writer.log().end();
        let keep_from =
            process.node.router.available.vnode_store.log_needed_from().unwrap_or(end).min(end);
        self.place.storage.make_durable();
        writer.log_mut().collapse(keep_from).expect("a disk without faults");
        process.node.housekeeper.disk.log_writer.publish(writer.log());
    }

    /// Takes everything from the store that a bad disk could take without a word.
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

/// Ends a life in good order; the node is dead when it resolves. `false`: it did not come to that.
pub(super) async fn end_well(node: Node) -> bool {
    node.lifecycle.tasks.end_loops();
    let ended =
        runtime::world::timeout(Duration::from_secs(5), node.router.available.vnode_store.ends());
    ended.await == Some(true) && node.router.available.vnode_store.end_well().is_ok()
}

impl Decision {
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

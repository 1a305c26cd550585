//! Simulated node: its disk and its trees outlive its processes.

use super::super::process::{Process, QUICK, Storage, WriteTime};
use super::super::transport::Port;
use crate::count_keeper::{self, CountKeeper};
use crate::index_keeper::{self, IndexKeeper};
use crate::startup::feed_keeper;
use crate::{Node, NodeSettings};
use base::{ClusterDescription, NodeId};
use bytes::Bytes;
use replica_host::group_lifecycle;
use replica_host::recovery::context;
use runtime::Watch;
use sim::Scheduler;
use std::sync::{Arc, Mutex};

/// Length of the lease, in milliseconds.
pub(super) const LEASE_MS: u64 = 600;

/// Watch over loops: no simulation looks at their beats.
const WATCH: Watch = Watch::Unbounded("no watchdog runs");

pub(super) struct MoveNode {
    pub id: NodeId,
    port: Port,
    pub storage: Storage,
    process: Option<Process>,
    pub write_time: Arc<Mutex<WriteTime>>,
}

impl MoveNode {
    /// Returns a node with these rows that has never run.
    pub(super) fn new(port: Port, rows: &[(Bytes, Bytes)]) -> MoveNode {
        // Applying would block if the memory were full before the next flush.
        let storage = Storage::new(256 << 20);
        storage.plant(rows.iter().cloned());
        let id = NodeId(port.which as u64 + 1);
        MoveNode { id, port, storage, process: None, write_time: Arc::new(Mutex::new(QUICK)) }
    }

    pub(super) fn running(&self) -> Option<&Node> {
        self.process.as_ref().map(|process| &process.node)
    }

    /// Starts an incarnation from the contents of disk and trees.
    pub(super) fn start(&mut self, known: &ClusterDescription, process: u64) {
        let mut context = context(self.id, LEASE_MS, None).expect("terms");
        for placement in &known.groups {
            context.add(placement).expect("founders");
        }
        let name = format!("n{}", self.id.0);
        let settings = NodeSettings { name, lease_ms: LEASE_MS, ..NodeSettings::default() };
        let (node, log) =
            self.storage.assemble(self.id, &context, known.clone(), settings, |_| true);
        Process::connect(&node, &self.port, process);
        for group in node.router.locator.groups.all() {
            group_lifecycle::drive(&node.lifecycle, group);
        }
        let loops = &node.lifecycle.tasks.loops;
        loops.spawn("moves", WATCH, bucket_moves::reconcile(node.moves.clone()));
        loops.spawn("counts", WATCH, count_keeper::run(CountKeeper::new(node.router.clone())));
        let process = Process::begin((node, log), self.port.which, &self.write_time, None);
        self.process = Some(process);
    }

    /// Begins to tend the declared indexes of the groups that the node leads.
    pub(super) fn tend_indexes(&self) {
        let Some(node) = self.running() else { return };
        let keeper = IndexKeeper::new(node.router.clone());
        node.lifecycle.tasks.loops.spawn("indexes", WATCH, index_keeper::run(keeper));
    }

    /// Begins to tend the feeds of the groups that the node leads.
    pub(super) fn tend_feeds(&self) {
        let Some(node) = self.running() else { return };
        let keeper = feed_keeper(&node.router);
        node.lifecycle.tasks.loops.spawn("feeds", WATCH, keeper.run());
    }

    /// Crashes the node: part of the write in progress is on disk, and unsynced records may be.
    pub(super) fn crash(&mut self, scheduler: &Scheduler) {
        if let Some(process) = self.process.take() {
            process.crash(&self.port, scheduler, &mut self.storage);
        }
    }
}

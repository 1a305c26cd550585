//! Handoff of partitions when the ring changes under load: copies go to the new owners, and former
//! owners remove theirs.
//!
//! A new owner fetches a copy (`receive.rs`) from nodes that have one (`send.rs`), then compares it
//! with theirs, and reports to the directory. Meanwhile the old owners answer, and every write also
//! goes to the new ones. A partition moves to its new owners once the last of them has its copy. A
//! former owner makes sure that the new owners have every row, and removes its own (`cleanup.rs`).
//! Nodes learn of the changes at different times: a node that is asked by an older ring refuses, or
//! forwards the write (`epoch_check.rs`). Leftover rows that the ring does not name are found and
//! removed, too (`orphan_sweep.rs`).
//!
//! Promises: a partition moves only after its new owner has the rows of enough old owners that
//! every acknowledged write is among them; no node removes a row that an owner lacks; transfers are
//! bounded in memory and in bytes a second; after an interruption they continue.
//! Never: receives and removes at the same time on one node, so that no arriving row is removed.
//! Read next: `receive.rs`, `cleanup.rs`, then `epoch_check.rs`, and `docs/inside/ring.md`.

pub mod cleanup;
pub mod epoch_check;
pub mod orphan_sweep;
pub mod progress;
pub mod receive;
pub mod send;

pub(super) use epoch_check::ExtraReceivers;
pub use progress::HandoffTracker;

use crate::Available;
use base::error::shutting_down;
use base::{Error, NodeId, Partition, Reason, Result, RingCall};
use cleanup::Cleanup;
use logic::ring::Ring;
use runtime::mutants::Mutant;
use runtime::world;
use runtime::world::{sleep, sleep_or_cancelled, until_next};
use std::sync::Arc;
use std::time::Duration;
use vnode_rows::hash_trees::TreeId;
use vnode_rows::slots::SlotSpan;

/// Pause between checks for work while the ring changes.
const PAUSE: Duration = Duration::from_millis(200);
/// Period of the checks otherwise.
const PERIOD_IDLE: Duration = Duration::from_millis(500);
/// Pause before a retry if other nodes do not have the new ring yet.
const RETRY_SOON: Duration = Duration::from_millis(50);
/// Pause before a retry after another error.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Performs this node's part of ring changes until the node stops.
pub async fn run(available: Arc<Available>) {
    let stop = available.tasks.cancellation_token().clone();
    let mut cleanup = Cleanup::default();
    while !stop.is_cancelled() {
        let pause = match available.run_step(&mut cleanup).await {
            Ok(TurnOutcome::Idle) if available.changes_ring() => PAUSE,
            Ok(TurnOutcome::Idle) => until_next(PERIOD_IDLE),
            Ok(TurnOutcome::Progress) => Duration::ZERO,
            // Other nodes receive the new ring in a moment.
            Err(error) if error.reason == Reason::Changed => RETRY_SOON,
            Err(error) => {
                available.handoff_tracker.set_waits_for(error.text());
                tracing::debug!(target: "node", %error, "the transfer of partitions waits");
                RETRY_PAUSE
            }
        };
        sleep_or_cancelled(&stop, pause).await;
    }
}

/// Outcome of a step: no work, or progress.
enum TurnOutcome {
    Idle,
    Progress,
}

impl Available {
    fn changes_ring(&self) -> bool {
        self.schema.ring().is_some_and(|ring| ring.pending().is_some())
    }

    /// Runs one step: removes the rows of a partition that this node no longer owns, or receives
    /// one.
    async fn run_step(self: &Arc<Available>, cleanup: &mut Cleanup) -> Result<TurnOutcome> {
        let Some(ring) = self.schema.ring() else { return Ok(TurnOutcome::Idle) };
        let epochs = (ring.epoch(), self.schema.copies_epoch());
        if cleanup.sweep().is_due(epochs, self.settings.ring_grace_ms)
            && self.vnode_store.pending_hints().is_empty()
        {
            cleanup.add_orphans(self.orphaned_partitions(&ring).await?);
            cleanup.sweep().mark_done(epochs);
        }
        let mut failed = None;
        if let Some(partition) = cleanup.next(&ring, self.node, self.settings.ring_grace_ms) {
            match self.remove_partition(&ring, partition, cleanup).await {
                Ok(()) => return Ok(TurnOutcome::Progress),
                // A failed removal must not delay a partition that this node is to receive.
                Err(error) => failed = Some(error),
            }
        }
        let Some(since) = ring.pending().map(|pending| pending.start_epoch()) else {
            self.handoff_tracker.set_idle();
            return failed.map_or(Ok(TurnOutcome::Idle), Err);
        };
        for partition in (0..ring.partitions()).map(Partition) {
            let copies = self.n_vals_to_receive(&ring, partition);
            if copies.is_empty() {
                continue;
            }
            match self.receive_all(&ring, (partition, since), &copies).await {
                Ok(()) => return Ok(TurnOutcome::Progress),
                // The owners of another partition may be reachable.
                Err(error) => failed = Some(error),
            }
            if self.tasks.is_cancelled() || self.has_ring_changed(&ring) {
                break;
            }
        }
        failed.map_or(Ok(TurnOutcome::Idle), Err)
    }

    /// Removes the rows of a partition, and reports it to the directory if the ring lists the
    /// partition as a leftover.
    async fn remove_partition(
        self: &Arc<Available>,
        ring: &Ring,
        partition: Partition,
        cleanup: &mut Cleanup,
    ) -> Result<()> {
        let cleared = self.clear(ring, partition, cleanup).await;
        // Scheduled for any result, so that other partitions have their turn before a retry.
        cleanup.schedule_retry(partition, &cleared);
        if !cleared? {
            return Ok(());
        }
        cleanup.mark_done(partition);
        let (node, partitions) = (self.node, ring.partitions());
        if ring.leftover_partitions(node).any(|leftover| leftover == partition) {
            self.report_to_directory(RingCall::Cleared { partition, partitions, node }).await?;
            cleanup.schedule_recheck(partition);
            let partition = partition.0;
            tracing::info!(
                target: "node", partition, "removed rows of partitions that other nodes own"
            );
        }
        Ok(())
    }

    /// Returns the numbers of copies for which this node must still receive a partition.
    fn n_vals_to_receive(&self, ring: &Ring, partition: Partition) -> Vec<u8> {
        let is_reported = ring.pending().is_none_or(|it| it.has_received(partition, self.node));
        let n_vals = self.schema.n_vals().into_iter().filter(|_| !is_reported);
        let is_receiver = |n: &u8| ring.receivers(partition, usize::from(*n)).contains(&self.node);
        n_vals.filter(is_receiver).collect()
    }

    async fn receive_all(
        self: &Arc<Available>,
        ring: &Ring,
        (partition, since): (Partition, u64),
        copies: &[u8],
    ) -> Result<()> {
        let remaining = || (0..ring.partitions()).map(Partition);
        let remaining =
            remaining().filter(|it| !self.n_vals_to_receive(ring, *it).is_empty()).count();
        self.handoff_tracker.begin_partition(since, remaining as u64);
        self.estimate_incoming_size(ring, partition).await;
        let copies_epoch = self.schema.copies_epoch();
        for n in copies.iter().filter(|_| !Mutant::ReportUnreceivedPartition.is_active()) {
            let tree_id: TreeId = (SlotSpan::new(ring, partition), *n);
            self.receive(ring, tree_id, since).await?;
        }
        if self.schema.copies_epoch() != copies_epoch {
            return Err(Error::new(Reason::Changed, "a bucket has another number of copies"));
        }
        let node = self.node;
        self.report_to_directory(RingCall::Received { since, partition, node }).await?;
        // One report is enough: this node's ring shows the effect in a moment.
        let is_applied = || {
            let ring = self.schema.ring();
            ring.is_none_or(|ring| self.n_vals_to_receive(&ring, partition).is_empty())
        };
        let deadline_ms = world::milliseconds() + RETRY_PAUSE.as_millis() as u64;
        while !is_applied() && world::milliseconds() < deadline_ms && !self.tasks.is_cancelled() {
            sleep(Duration::from_millis(5)).await;
        }
        tracing::info!(target: "node", partition = partition.0, "received a partition");
        Ok(())
    }

    /// Fetches an estimate of a copy's size from an owner, once.
    async fn estimate_incoming_size(self: &Arc<Available>, ring: &Ring, partition: Partition) {
        let owners = ring.owners(partition, ring.n());
        let source = owners.into_iter().find(|node| self.reaches(*node));
        if let Some(node) = source.filter(|_| !self.handoff_tracker.has_copy_size())
            && let Ok(estimate) = self.size_estimate_of(node).await
        {
            self.handoff_tracker.set_copy_size(estimate);
        }
    }

    /// Returns true if the ring has changed since the step began.
    fn has_ring_changed(&self, ring: &Ring) -> bool {
        self.schema.ring().is_none_or(|now| now.epoch() != ring.epoch())
    }

    async fn report_to_directory(self: &Arc<Available>, call: RingCall) -> Result<()> {
        match self.directory.get() {
            Some(directory) => directory.ring_call(call).await,
            None => Err(shutting_down()),
        }
    }

    /// Returns the names of nodes, separated by commas, for operators.
    pub fn node_names(&self, nodes: &[NodeId]) -> String {
        let names: Vec<_> = nodes.iter().map(|node| self.members.name_of(*node)).collect();
        names.join(", ")
    }
}

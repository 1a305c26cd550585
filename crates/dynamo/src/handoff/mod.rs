//! Handoff of partitions when the ring changes while it is used: copies go to the new owners, and
//! former owners remove theirs.
//!
//! A new owner fetches a copy (`receive.rs`) from nodes that have one (`send.rs`), then compares it
//! with theirs, and reports to the directory. Meanwhile the old owners answer, and every write also
//! goes to the new ones. When the last copy of a partition has come, it goes over. A former owner
//! makes sure that the new owners have every row, and removes its own (`cleanup.rs`). Nodes learn
//! of the changes at different times: a node that was asked by an older ring says so, or passes the
//! write on (`epoch_check.rs`). Leftover rows that the ring does not name are found and removed,
//! too (`orphan_sweep.rs`).
//!
//! Promises: a partition goes over after its new owner has the rows of enough old owners that every
//! acknowledged write is among them; no node removes a row that an owner lacks; transfers are
//! bounded in memory and in bytes a second; after an interruption they continue.
//! Never: does two things at once on one node, so that no row is removed that is just arriving.
//! Read next: `receive.rs`, `cleanup.rs`, then `epoch_check.rs`, and `docs/inside/ring.md`.

pub mod cleanup;
pub mod epoch_check;
pub mod orphan_sweep;
pub mod progress;
pub mod receive;
pub mod send;

pub(super) use epoch_check::ExtraReceivers;
pub use progress::HandoffTracker;

use super::hash_trees::TreeId;
use super::slots::SlotSpan;
use crate::Available;
use base::error::shutting_down;
use base::{NodeId, Partition, Reason, Result, RingCall};
use cleanup::Cleanup;
use logic::ring::Ring;
use runtime::mutants::Mutant;
use runtime::world;
use runtime::world::{rest, sleep};
use std::sync::Arc;
use std::time::Duration;

/// Pause between checks whether the ring needs an action of this node.
const PAUSE: Duration = Duration::from_millis(200);
/// Pause before a retry if other nodes have not learned of a change yet.
const SOON: Duration = Duration::from_millis(50);
/// Pause before a retry of an action that failed.
const AGAIN: Duration = Duration::from_secs(1);

/// Does this node's part in changes of the ring, until it stops.
pub async fn run(available: Arc<Available>) {
    let stop = available.tasks.stop().clone();
    let mut clearing = Cleanup::default();
    while !stop.is_cancelled() {
        let pause = match available.move_on(&mut clearing).await {
            Ok(TurnOutcome::Nothing) => PAUSE,
            Ok(TurnOutcome::On) => Duration::ZERO,
            // Others hear of the ring's change in a moment.
            Err(error) if error.reason == Reason::Changed => SOON,
            Err(error) => {
                available.moving.waits(error.text());
                tracing::debug!(target: "node", %error, "what moves with the ring waits");
                AGAIN
            }
        };
        rest(&stop, pause).await;
    }
}

/// Outcome of a turn: work was done, or there was none.
enum TurnOutcome {
    Nothing,
    On,
}

impl Available {
    /// Runs one step: removes rows of a partition that this node does not own any more, or receives
    /// one.
    async fn move_on(self: &Arc<Available>, clearing: &mut Cleanup) -> Result<TurnOutcome> {
        let Some(ring) = self.schema.ring() else { return Ok(TurnOutcome::Nothing) };
        let epoch = ring.epoch();
        if clearing.sweep().is_due(epoch, self.settings.ring_grace_ms)
            && self.vnode_store.kept().is_empty()
        {
            clearing.found(self.strays(&ring).await?);
            clearing.sweep().is_done(epoch);
        }
        let mut failed = None;
        if let Some(partition) = clearing.next(&ring, self.node, self.settings.ring_grace_ms) {
            match self.let_go_of(&ring, partition, clearing).await {
                Ok(()) => return Ok(TurnOutcome::On),
                // A partition that this node is to receive does not wait for the other nodes.
                Err(error) => failed = Some(error),
            }
        }
        let Some(since) = ring.pending().map(|pending| pending.since()) else {
            self.moving.rests();
            return failed.map_or(Ok(TurnOutcome::Nothing), Err);
        };
        for partition in (0..ring.partitions()).map(Partition) {
            let copies = self.copies_to_receive(&ring, partition);
            if copies.is_empty() {
                continue;
            }
            match self.receive_all(&ring, (partition, since), &copies).await {
                Ok(()) => return Ok(TurnOutcome::On),
                // Another one may have what it needs.
                Err(error) => failed = Some(error),
            }
            if self.tasks.is_cancelled() || self.changed_since(&ring) {
                break;
            }
        }
        failed.map_or(Ok(TurnOutcome::Nothing), Err)
    }

    /// Removes the rows of a partition, and reports to the directory if it waits for that.
    async fn let_go_of(
        self: &Arc<Available>,
        ring: &Ring,
        partition: Partition,
        clearing: &mut Cleanup,
    ) -> Result<()> {
        let cleared = self.clear(ring, partition, clearing).await;
        // Whatever the result, other partitions have their turn before a retry.
        clearing.later(partition, &cleared);
        if !cleared? {
            return Ok(());
        }
        clearing.is_done(partition);
        let (node, of) = (self.node, ring.partitions());
        if ring.left_at(node).any(|left| left == partition) {
            self.tell_directory(RingCall::Cleared { partition, of, node }).await?;
            clearing.again(partition);
            let partition = partition.0;
            tracing::info!(target: "node", partition, "let go of what is kept elsewhere");
        }
        Ok(())
    }

    /// For which numbers of copies this node is still to receive a partition.
    fn copies_to_receive(&self, ring: &Ring, partition: Partition) -> Vec<u8> {
        let told = ring.pending().is_none_or(|it| it.has_received(partition, self.node));
        let numbers = self.schema.numbers().into_iter().filter(|_| !told);
        let mine = |n: &u8| ring.receivers(partition, usize::from(*n)).contains(&self.node);
        numbers.filter(mine).collect()
    }

    async fn receive_all(
        self: &Arc<Available>,
        ring: &Ring,
        (partition, since): (Partition, u64),
        copies: &[u8],
    ) -> Result<()> {
        let left = || (0..ring.partitions()).map(Partition);
        let left = left().filter(|it| !self.copies_to_receive(ring, *it).is_empty()).count();
        self.moving.begins(since, left as u64);
        self.weigh_what_comes(ring, partition).await;
        for n in copies.iter().filter(|_| !Mutant::ReceivesNothing.is_active()) {
            let which: TreeId = (SlotSpan::new(ring, partition), *n);
            self.receive(ring, which, since).await?;
        }
        let node = self.node;
        self.tell_directory(RingCall::Received { since, partition, node }).await?;
        // One report is enough: this node's ring shows the effect in a moment.
        let heard = || {
            let ring = self.schema.ring();
            ring.is_none_or(|ring| self.copies_to_receive(&ring, partition).is_empty())
        };
        let until = world::milliseconds() + AGAIN.as_millis() as u64;
        while !heard() && world::milliseconds() < until && !self.tasks.is_cancelled() {
            sleep(Duration::from_millis(5)).await;
        }
        tracing::info!(target: "node", partition = partition.0, "received a partition");
        Ok(())
    }

    /// Finds out, once, about how much is to come.
    async fn weigh_what_comes(self: &Arc<Available>, ring: &Ring, partition: Partition) {
        let owners = ring.owners(partition, ring.n());
        let asked = owners.into_iter().find(|node| self.reaches(*node));
        if let Some(node) = asked.filter(|_| !self.moving.is_weighed())
            && let Ok(weight) = self.weight_of(node).await
        {
            self.moving.weigh(weight);
        }
    }

    /// Returns true if the ring that this began with is not the ring any more.
    fn changed_since(&self, ring: &Ring) -> bool {
        self.schema.ring().is_none_or(|now| now.epoch() != ring.epoch())
    }

    async fn tell_directory(self: &Arc<Available>, call: RingCall) -> Result<()> {
        match self.directory.get() {
            Some(directory) => directory.ring_call(call).await,
            None => Err(shutting_down()),
        }
    }

    /// Names of nodes as an operator reads them, separated by commas.
    pub fn names(&self, nodes: &[NodeId]) -> String {
        let names: Vec<_> = nodes.iter().map(|node| self.members.name_of(*node)).collect();
        names.join(", ")
    }
}

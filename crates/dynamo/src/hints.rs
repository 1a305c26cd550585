//! Hinted handoff: rows stored for a node that was down are sent to it when it is reachable again.
//!
//! A fallback that stores a row in place of an owner stores a *hint* with it, in the same batch.
//! Once the owner can be reached it is sent the row. The hint is removed only after the owner has
//! answered that the row is on its disk. Then the row is removed, too, if this node is no owner and
//! no other hint needs it.
//!
//! Promises: a hint is removed only after an acknowledgement of the node that it names (whose
//! greeting proved its identity) or, if that node left the ring, of all current owners. A row that
//! was written meanwhile keeps its hint, and so does one whose owners have changed.
//! Never: counts this node's own copy as a delivery.

use super::key_owners::RingTarget;
use super::message::VnodeQuestion;
use super::pending_hints::StoredHints;
use super::row_change::RowTransition;
use super::vnode_ops::{KeyRef, WritePolicy};
use super::vnode_store::{VnodeStore, VnodeStoreState};
use crate::Available;
use base::limits::FORWARD_MS_MAX;
use base::{NodeId, Result};
use bytes::Bytes;
use logic::ring::Ring;
use runtime::join_set::JoinSet;
use runtime::log_writer::store_error;
use runtime::mutants::Mutant;
use runtime::round::progress;
use runtime::world;
use runtime::world::next_or_cancelled;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use store::Snapshot;
use vnode_rows::hash_trees::rows_after;
use vnode_rows::layout::{hints_prefix, node_hints_prefix, read_hint_key};
use vnode_rows::slots::Slot;

/// Period of the checks for reachable nodes with hints.
const PERIOD: Duration = Duration::from_millis(500);
/// Maximum number of hints in delivery at a time.
const SENDS_MAX: usize = 64;
/// Number of hints in a page.
const PAGE_HINTS: usize = 1_024;

/// A hint that can be delivered.
struct HintDelivery {
    key_ref: KeyRef,
    /// Node that the hint names.
    primary: NodeId,
    /// Nodes that must have the row before the hint is removed, by the ring of this epoch.
    targets: Vec<NodeId>,
    epoch: u64,
}

/// Cursor of a page: after a hint of a slot, or at the slot's first.
type HintCursor = (Slot, Option<Bytes>);

/// Delivers hints until the node stops.
pub async fn run(available: Arc<Available>) {
    let stop = available.tasks.cancellation_token().clone();
    while !stop.is_cancelled() {
        if let Err(error) = available.deliver_hints().await {
            tracing::warn!(target: "node", %error, "hints could not be delivered yet");
        }
        next_or_cancelled(&stop, PERIOD).await;
    }
}

impl Available {
    /// Delivers the hints of all reachable nodes once. Hints of other nodes are not even read: a
    /// node may be down for long, and have many.
    async fn deliver_hints(self: &Arc<Available>) -> Result<()> {
        let Some(ring) = self.schema.ring() else { return Ok(()) };
        if self.vnode_store.has_no_hints() {
            return Ok(());
        }
        let available = self.clone();
        let nodes = self.read_blocking(move || available.vnode_store.hinted_nodes()).await?;
        let has_left = |node: &NodeId| !ring.layout().nodes().contains_key(node);
        for primary in nodes.into_iter().filter(|node| has_left(node) || self.reaches(*node)) {
            // The node is removed from the set before its hints are read: a hint added meanwhile
            // adds it again.
            let has_unapplied = self.vnode_store.begin_delivery(primary);
            let delivered = self.deliver_hints_to(&ring, primary).await;
            if has_unapplied || delivered.as_ref().map_or(true, |(_, remain)| *remain) {
                self.vnode_store.mark_hinted(primary);
            }
            let (sent, _) = delivered?;
            if sent > 0 {
                let other = self.members.name_of(primary);
                tracing::info!(target: "node", other, sent, "hints went home");
            }
        }
        Ok(())
    }

    /// Delivers all hints of one node. Returns the number delivered, and true if any remain.
    async fn deliver_hints_to(
        self: &Arc<Available>,
        ring: &Arc<Ring>,
        primary: NodeId,
    ) -> Result<(usize, bool)> {
        let (mut sent, mut remain) = (0, false);
        let mut next = Some((Slot(0), None));
        while let Some(from) = next {
            let (available, ring) = (self.clone(), ring.clone());
            let (page, next_cursor) =
                self.read_blocking(move || available.read_hints_page(&ring, primary, from)).await?;
            let (delivered, remaining) = self.deliver_page(page).await;
            sent += delivered;
            remain |= remaining;
            if self.tasks.is_cancelled() {
                return Ok((sent, true));
            }
            next = next_cursor;
        }
        Ok((sent, remain))
    }

    /// Delivers a page of hints. Returns the number delivered, and true if any remain.
    async fn deliver_page(self: &Arc<Available>, page: Vec<HintDelivery>) -> (usize, bool) {
        let count = page.len();
        let (mut tasks, mut waiting, mut sent) = (JoinSet::new(), 0, 0);
        for delivery in page {
            progress();
            if waiting == SENDS_MAX {
                sent += usize::from(tasks.next().await);
                waiting -= 1;
            }
            if self.tasks.is_cancelled() {
                break;
            }
            let available = self.clone();
            tasks.push(async move {
                let delivered = available.deliver(&delivery).await;
                delivered
                    .inspect_err(|error| {
                        tracing::debug!(
                            target: "node", %error, "a hint could not be delivered yet"
                        );
                    })
                    .unwrap_or(false)
            });
            waiting += 1;
        }
        for _ in 0..waiting {
            progress();
            sent += usize::from(tasks.next().await);
        }
        (sent, sent < count)
    }

    /// Reads a page of a node's hints, and the cursor of the next page.
    fn read_hints_page(
        &self,
        ring: &Ring,
        primary: NodeId,
        (first, mut after): HintCursor,
    ) -> Result<(Vec<HintDelivery>, Option<HintCursor>)> {
        let snapshot = self.trees.snapshot();
        let mut page = Vec::new();
        for slot in Slot::all().skip(first.0 as usize) {
            let prefix = node_hints_prefix(slot, primary);
            for hint in rows_after(&*snapshot, &prefix, after.take().as_deref()) {
                let (tree_key, _) = hint?;
                let Some((_, bucket, key)) = read_hint_key(&tree_key) else { continue };
                let key_ref = KeyRef { slot, bucket, key };
                let Some(targets) = self.delivery_targets(ring, primary, &key_ref) else {
                    continue;
                };
                page.push(HintDelivery { key_ref, primary, targets, epoch: ring.epoch() });
                if page.len() == PAGE_HINTS {
                    let tail = tree_key.slice(prefix.len()..);
                    return Ok((page, Some((slot, Some(tail)))));
                }
            }
        }
        Ok((page, None))
    }

    /// Returns the nodes that must have a row before its hint is removed: the node that it names
    /// or, if that node no longer owns the key, all other owners.
    fn delivery_targets(
        &self,
        ring: &Ring,
        primary: NodeId,
        key_ref: &KeyRef,
    ) -> Option<Vec<NodeId>> {
        let copies = (self.vnode_store.copies)(&key_ref.bucket)?;
        let partition = key_ref.partition(ring);
        let mut owners = ring.owners(partition, usize::from(copies));
        let receives = || ring.receivers(partition, usize::from(copies)).contains(&primary);
        if owners.contains(&primary) || receives() {
            owners = vec![primary];
        }
        owners.retain(|node| *node != self.node);
        Some(owners)
    }

    /// Delivers one hint. Returns true if the hint was removed.
    async fn deliver(self: &Arc<Available>, delivery: &HintDelivery) -> Result<bool> {
        let HintDelivery { key_ref, targets, epoch, .. } = delivery;
        let sent_row = self.vnode_store.read(key_ref)?;
        if let Some(row) = &sent_row
            && let Some(properties) = self.schema.find(&key_ref.bucket)
        {
            // Synced at its owner, even in a bucket that does not require it: no other node sends
            // the row again.
            let policy = WritePolicy { sync: true, ..WritePolicy::from_properties(&properties) };
            let within = Duration::from_millis(FORWARD_MS_MAX);
            for node in targets.iter().filter(|_| !Mutant::DeleteHintBeforeAck.is_active()) {
                let (key_ref, row) = (key_ref.clone(), row.clone());
                let question = VnodeQuestion::Store { key_ref, policy, hint: None, row };
                let chosen = RingTarget { node: *node, epoch: *epoch };
                self.ask_ring_target(chosen, question.write(), within).await?;
            }
        }
        let Some(released) = self.release(delivery, sent_row.as_ref())? else { return Ok(false) };
        self.vnode_store.wait_stored(released).await?;
        Ok(true)
    }

    /// Removes the hint, unless the row or its owners have changed. Removes the row, too, if this
    /// node does not need it. Returns the ticket. `None`: the hint stays.
    fn release(&self, delivery: &HintDelivery, sent_row: Option<&Bytes>) -> Result<Option<u64>> {
        let HintDelivery { key_ref, primary, epoch, .. } = delivery;
        // The node that stored it may no longer keep the key.
        if self.is_stale(*epoch, key_ref) && !Mutant::DeleteHintDespiteOtherOwners.is_active() {
            return Ok(None);
        }
        let row = key_ref.row_key();
        let mut guard = self.vnode_store.admit()?;
        let state = &mut *guard;
        let (_, newest) = self.vnode_store.newest(state, &row)?;
        // Changed since it was sent: the next round sends the new row.
        if newest.as_ref() != sent_row {
            return Ok(None);
        }
        let mut changes = vec![(key_ref.hint_key(*primary), None)];
        if self.vnode_store.newest(state, &changes[0].0)?.1.is_some() {
            state.pending_hints.remove(*primary);
        }
        if newest.is_some() && self.is_fallback_copy(state, delivery)? {
            let transition = RowTransition::of_bytes(row, newest.as_ref(), None);
            self.vnode_store.change_row(state, transition, &mut changes);
        }
        Ok(Some(self.vnode_store.log_changes(state, changes, false)))
    }

    /// Returns true if this node keeps a row only for the hint's node, and not as an owner.
    fn is_fallback_copy(&self, state: &VnodeStoreState, delivery: &HintDelivery) -> Result<bool> {
        let HintDelivery { key_ref, primary, .. } = delivery;
        let Some(ring) = self.schema.ring() else { return Ok(false) };
        let Some(copies) = (self.vnode_store.copies)(&key_ref.bucket) else { return Ok(false) };
        let (partition, copies) = (key_ref.partition(&ring), usize::from(copies));
        // New owners get the partition row by row; former owners remove it later.
        let forgets = Mutant::DropHintsAsFutureOwner.is_active();
        if ring.owners(partition, copies).contains(&self.node)
            || !forgets && ring.receivers(partition, copies).contains(&self.node)
            || !forgets && ring.leftovers(partition).any(|node| node == self.node)
        {
            return Ok(false);
        }
        // A hint for another node still needs the row.
        for node in ring.layout().nodes().keys().filter(|node| *node != primary) {
            if self.vnode_store.newest(state, &key_ref.hint_key(*node))?.1.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl VnodeStore {
    /// Returns the stored hints, by node.
    pub fn pending_hints(&self) -> BTreeMap<NodeId, StoredHints> {
        self.state().pending_hints.all()
    }

    /// Returns the numbers of hints stored and delivered in this incarnation.
    pub(super) fn hint_totals(&self) -> (u64, u64) {
        let state = self.state();
        (state.pending_hints.stored, state.pending_hints.delivered)
    }

    /// Returns true if the store is known to have no hints.
    fn has_no_hints(&self) -> bool {
        self.state().hinted_nodes.as_ref().is_some_and(BTreeSet::is_empty)
    }

    /// Returns the nodes for which hints may be stored. Reads the store once after a start; from
    /// then on every new hint adds its node.
    fn hinted_nodes(&self) -> Result<BTreeSet<NodeId>> {
        let known = self.state().hinted_nodes.clone();
        // After an error the next call reads the store again: a part of the nodes is not enough.
        let read = || self.read_hinted_nodes().inspect_err(|_| self.state().hinted_nodes = None);
        known.map_or_else(read, Ok)
    }

    fn read_hinted_nodes(&self) -> Result<BTreeSet<NodeId>> {
        let (snapshot, mut counts) = {
            let mut state = self.state();
            let unapplied = state.unapplied.iter().filter_map(|(key, _)| read_hint_key(key));
            // Under one lock with the snapshot: each hint is in it, unapplied, or added from here
            // on.
            state.hinted_nodes = Some(unapplied.map(|(primary, ..)| primary).collect());
            state.pending_hints.clear();
            let snapshot = self.trees.snapshot();
            let unapplied = self.unapplied_hints(&state, &*snapshot)?;
            (snapshot, unapplied)
        };
        for slot in Slot::all() {
            for hint in rows_after(&*snapshot, &hints_prefix(slot), None) {
                if let Some((primary, ..)) = read_hint_key(&hint?.0) {
                    *counts.entry(primary).or_default() += 1;
                }
            }
        }
        let mut state = self.state();
        for (node, rows) in &counts {
            state.pending_hints.add_existing(*node, (*rows).max(0) as u64, world::milliseconds());
        }
        let nodes = state.hinted_nodes.get_or_insert_default();
        nodes.extend(counts.into_keys());
        Ok(nodes.clone())
    }

    /// Returns the difference between each node's number of hints and that in a snapshot: changes
    /// that are logged and not applied yet.
    fn unapplied_hints(
        &self,
        state: &VnodeStoreState,
        snapshot: &dyn Snapshot,
    ) -> Result<BTreeMap<NodeId, i64>> {
        let mut unapplied = BTreeMap::new();
        for (key, newest) in state.unapplied.iter() {
            let Some((primary, ..)) = read_hint_key(key) else { continue };
            let in_snapshot = snapshot.get(key).map_err(store_error)?.is_some();
            *unapplied.entry(primary).or_default() +=
                i64::from(newest.is_some()) - i64::from(in_snapshot);
        }
        Ok(unapplied)
    }

    /// Removes a node from the set of hinted nodes before its hints are read. Returns true if a
    /// hint of it is not applied to the store yet.
    fn begin_delivery(&self, primary: NodeId) -> bool {
        let mut state = self.state();
        state.hinted_nodes.get_or_insert_default().remove(&primary);
        let mut unapplied = state.unapplied.iter().filter_map(|(key, _)| read_hint_key(key));
        unapplied.any(|(node, ..)| node == primary)
    }

    /// Records that hints of this node remain.
    fn mark_hinted(&self, primary: NodeId) {
        self.state().hinted_nodes.get_or_insert_default().insert(primary);
    }
}

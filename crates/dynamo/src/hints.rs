//! Hinted handoff: rows kept for a node that was down are sent to it when it is back.
//!
//! A fallback that stores a row in place of an owner keeps a *hint* with it, in the same batch.
//! Once the owner can be reached it is sent the row. The hint is removed when the owner has
//! answered that the row is on its disk, and not before. Then the row is removed, too, if this node
//! is no owner and no other hint needs it.
//!
//! Promises: a hint is removed only after an acknowledgement of the node that it names (whose
//! greeting proved its identity) or, if that node left the ring, of all that own the key now. A row
//! that was written again meanwhile keeps its hint, and so does one whose owners have changed.
//! Never: sends a row to itself and counts that as handed back.

use super::hash_trees::rows_behind;
use super::join_set::JoinSet;
use super::key_owners::RingTarget;
use super::layout::{hints_of_prefix, hints_prefix, read_hint_key};
use super::message::VnodeQuestion;
use super::pending_hints::StoredHints;
use super::slots::Slot;
use super::vnode_ops::{KeyRef, WritePolicy};
use super::vnode_store::{VnodeStore, VnodeStoreState};
use crate::Available;
use base::limits::FORWARD_MS_MAX;
use base::{NodeId, Result};
use bytes::Bytes;
use logic::ring::Ring;
use runtime::log_writer::store_error;
use runtime::mutants::Mutant;
use runtime::world;
use runtime::world::rest;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use store::Snapshot;

/// Pause between checks for nodes that are back.
const PAUSE: Duration = Duration::from_millis(500);
/// Number of hints that are sent at a time.
const SENDING: usize = 64;
/// Number of hints that are read at a time.
const PAGE: usize = 1_024;

/// A hint that can go home.
struct HintDelivery {
    key_ref: KeyRef,
    /// Node that the hint names.
    primary: NodeId,
    /// Nodes that must have the row before the hint is removed, by the ring of this epoch.
    homes: Vec<NodeId>,
    epoch: u64,
}

/// Cursor of a page: behind a hint of a slot, or at the slot's first.
type HintCursor = (Slot, Option<Bytes>);

/// Hands hints back until the node stops.
pub async fn run(available: Arc<Available>) {
    let stop = available.tasks.stop().clone();
    while !stop.is_cancelled() {
        if let Err(error) = available.hand_back().await {
            tracing::warn!(target: "node", %error, "hints stay for now");
        }
        rest(&stop, PAUSE).await;
    }
}

impl Available {
    /// Hands hints back, once, to the nodes that can be reached. Hints of other nodes are not even
    /// read: a node may be away for long, and have many.
    async fn hand_back(self: &Arc<Available>) -> Result<()> {
        let Some(ring) = self.schema.ring() else { return Ok(()) };
        let available = self.clone();
        let named = self.unhurried(move || available.vnode_store.hinted_nodes()).await?;
        let gone = |node: &NodeId| !ring.layout().nodes().contains_key(node);
        for primary in named.into_iter().filter(|node| gone(node) || self.reaches(*node)) {
            // The name goes before the hints are read: one that is added meanwhile names it again.
            let kept = self.vnode_store.begin_handing_back(primary);
            let handed = self.hand_back_to(&ring, primary).await;
            if kept || handed.as_ref().map_or(true, |(_, left)| *left) {
                self.vnode_store.names_again(primary);
            }
            let (sent, _) = handed?;
            if sent > 0 {
                let other = self.members.name_of(primary);
                tracing::info!(target: "node", other, sent, "hints went home");
            }
        }
        Ok(())
    }

    /// Sends all that is kept for one node; how many went home, and whether any are left.
    async fn hand_back_to(
        self: &Arc<Available>,
        ring: &Arc<Ring>,
        primary: NodeId,
    ) -> Result<(usize, bool)> {
        let (mut sent, mut left) = (0, false);
        let mut next = Some((Slot(0), None));
        while let Some(from) = next {
            let (available, ring) = (self.clone(), ring.clone());
            let (page, behind) =
                self.unhurried(move || available.homeward(&ring, primary, from)).await?;
            let (went, stays) = self.hand_page(page).await;
            sent += went;
            left |= stays;
            if self.tasks.is_cancelled() {
                return Ok((sent, true));
            }
            next = behind;
        }
        Ok((sent, left))
    }

    /// Sends these; how many went home, and whether any stay.
    async fn hand_page(self: &Arc<Available>, page: Vec<HintDelivery>) -> (usize, bool) {
        let all = page.len();
        let (mut tasks, mut waiting, mut sent) = (JoinSet::new(), 0, 0);
        for one in page {
            if waiting == SENDING {
                sent += usize::from(tasks.next().await);
                waiting -= 1;
            }
            if self.tasks.is_cancelled() {
                break;
            }
            let available = self.clone();
            tasks.push(async move {
                let home = available.hand_one(&one).await;
                home.inspect_err(|error| {
                    tracing::debug!(target: "node", %error, "a hint stays for now");
                })
                .unwrap_or(false)
            });
            waiting += 1;
        }
        for _ in 0..waiting {
            sent += usize::from(tasks.next().await);
        }
        (sent, sent < all)
    }

    /// Reads a page of a node's hints, and the cursor of the next page.
    fn homeward(
        &self,
        ring: &Ring,
        primary: NodeId,
        (first, mut after): HintCursor,
    ) -> Result<(Vec<HintDelivery>, Option<HintCursor>)> {
        let snapshot = self.trees.snapshot();
        let mut page = Vec::new();
        for slot in Slot::all().skip(first.0 as usize) {
            let front = hints_of_prefix(slot, primary);
            for hint in rows_behind(&*snapshot, &front, after.take().as_deref()) {
                let (whole, _) = hint?;
                let Some((_, bucket, key)) = read_hint_key(&whole) else { continue };
                let key_ref = KeyRef { slot, bucket, key };
                let Some(homes) = self.homes(ring, primary, &key_ref) else { continue };
                page.push(HintDelivery { key_ref, primary, homes, epoch: ring.epoch() });
                if page.len() == PAGE {
                    let behind = whole.slice(front.len()..);
                    return Ok((page, Some((slot, Some(behind)))));
                }
            }
        }
        Ok((page, None))
    }

    /// Returns the nodes that must have a row before its hint is removed: the node that it names
    /// or, if that does not own the key any more, all other owners.
    fn homes(&self, ring: &Ring, primary: NodeId, key_ref: &KeyRef) -> Option<Vec<NodeId>> {
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

    /// Sends one row home; whether its hint has gone.
    async fn hand_one(self: &Arc<Available>, one: &HintDelivery) -> Result<bool> {
        let HintDelivery { key_ref, homes, epoch, .. } = one;
        let sent = self.vnode_store.read(key_ref)?;
        if let Some(row) = &sent
            && let Some(properties) = self.schema.find(&key_ref.bucket)
        {
            // The row must not be lost at its owner, whatever risk the bucket accepts: no other
            // node sends it again.
            let policy = WritePolicy { sync: true, ..WritePolicy::of(&properties) };
            let within = Duration::from_millis(FORWARD_MS_MAX);
            for home in homes.iter().filter(|_| !Mutant::HintGoesFirst.is_active()) {
                let (key_ref, row) = (key_ref.clone(), row.clone());
                let question = VnodeQuestion::Store { key_ref, policy, hint: None, row };
                let chosen = RingTarget { node: *home, epoch: *epoch };
                self.ask_chosen(chosen, question.write(), within).await?;
            }
        }
        let Some(released) = self.release(one, sent.as_ref())? else { return Ok(false) };
        self.vnode_store.settled(released).await?;
        Ok(true)
    }

    /// Removes the hint, unless the row has changed or other nodes are to have it. Removes the row,
    /// too, if this node does not need it. Returns the ticket.
    fn release(&self, one: &HintDelivery, sent: Option<&Bytes>) -> Result<Option<u64>> {
        let HintDelivery { key_ref, primary, epoch, .. } = one;
        // The node that took it may not keep the key any more.
        if self.is_stale(*epoch, key_ref) && !Mutant::HintGoesAnywhere.is_active() {
            return Ok(None);
        }
        let row = key_ref.row_key();
        let mut guard = self.vnode_store.admit()?;
        let state = &mut *guard;
        let (_, newest) = self.vnode_store.newest(state, &row)?;
        // Written again since it was sent: the next round sends the new row.
        if newest.as_ref() != sent {
            return Ok(None);
        }
        let mut changes = vec![(key_ref.hint_key(*primary), None)];
        if self.vnode_store.newest(state, &changes[0].0)?.1.is_some() {
            state.waiting.went_home(*primary);
        }
        if newest.is_some() && self.is_only_a_guest(state, one)? {
            changes.push((row, None));
        }
        Ok(Some(self.vnode_store.change(state, changes, false)))
    }

    /// Returns true if this node keeps a row only for the hint's node, and not as its own.
    fn is_only_a_guest(&self, state: &VnodeStoreState, one: &HintDelivery) -> Result<bool> {
        let HintDelivery { key_ref, primary, .. } = one;
        let Some(ring) = self.schema.ring() else { return Ok(false) };
        let Some(copies) = (self.vnode_store.copies)(&key_ref.bucket) else { return Ok(false) };
        let (partition, copies) = (key_ref.partition(&ring), usize::from(copies));
        // New owners get the partition row by row; former owners remove it later.
        let forgets = Mutant::GuestsForget.is_active();
        if ring.owners(partition, copies).contains(&self.node)
            || !forgets && ring.receivers(partition, copies).contains(&self.node)
            || !forgets && ring.leftovers(partition).any(|node| node == self.node)
        {
            return Ok(false);
        }
        // Another node's hint needs the row still.
        for node in ring.layout().nodes().keys().filter(|node| *node != primary) {
            if self.vnode_store.newest(state, &key_ref.hint_key(*node))?.1.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl VnodeStore {
    /// Returns the hints that are kept, by node.
    pub fn kept(&self) -> BTreeMap<NodeId, StoredHints> {
        self.state().waiting.all()
    }

    /// Returns the number of rows ever kept for other nodes, and the number of them handed back.
    pub(super) fn hints_ever(&self) -> (u64, u64) {
        let state = self.state();
        (state.waiting.total, state.waiting.home)
    }

    /// Returns the nodes for which hints may be kept. Reads the store once after a start; from then
    /// on every new hint is noted.
    fn hinted_nodes(&self) -> Result<BTreeSet<NodeId>> {
        let (snapshot, mut found) = {
            let mut state = self.state();
            if let Some(hinted) = &state.hinted {
                return Ok(hinted.clone());
            }
            let unseen = state.overlay.keys().filter_map(read_hint_key);
            // Under one lock with the snapshot: each hint is in it, in the overlay, or noted from
            // here on.
            state.hinted = Some(unseen.map(|(primary, ..)| primary).collect());
            state.waiting.forget();
            let snapshot = self.trees.snapshot();
            let unseen = self.unseen_hints(&state, &*snapshot)?;
            (snapshot, unseen)
        };
        for slot in Slot::all() {
            for hint in rows_behind(&*snapshot, &hints_prefix(slot), None) {
                if let Some((primary, ..)) = read_hint_key(&hint?.0) {
                    *found.entry(primary).or_default() += 1;
                }
            }
        }
        let mut state = self.state();
        for (node, rows) in &found {
            state.waiting.found(*node, (*rows).max(0) as u64, world::milliseconds());
        }
        let hinted = state.hinted.get_or_insert_default();
        hinted.extend(found.into_keys());
        Ok(hinted.clone())
    }

    /// Returns by how many the hints for each node differ from a snapshot: those that are logged
    /// and not in the store yet.
    fn unseen_hints(
        &self,
        state: &VnodeStoreState,
        snapshot: &dyn Snapshot,
    ) -> Result<BTreeMap<NodeId, i64>> {
        let mut unseen = BTreeMap::new();
        for (key, (_, newest)) in &state.overlay {
            let Some((primary, ..)) = read_hint_key(key) else { continue };
            let shown = snapshot.get(key).map_err(store_error)?.is_some();
            *unseen.entry(primary).or_default() += i64::from(newest.is_some()) - i64::from(shown);
        }
        Ok(unseen)
    }

    /// Begins to read a node's hints from the store. Returns true if there is a hint that is not in
    /// the store yet.
    fn begin_handing_back(&self, primary: NodeId) -> bool {
        let mut state = self.state();
        state.hinted.get_or_insert_default().remove(&primary);
        let mut unseen = state.overlay.keys().filter_map(read_hint_key);
        unseen.any(|(named, ..)| named == primary)
    }

    /// Notes that hints of this node remain.
    fn names_again(&self, primary: NodeId) {
        self.state().hinted.get_or_insert_default().insert(primary);
    }
}

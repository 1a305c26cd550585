//! Ring epochs of requests: nodes learn of a ring change at different times, and no write is lost.
//!
//! Every question names the ring by which its sender chose the receiver. A node with a newer ring,
//! in which that partition changed, refuses reads and lists of keys that it no longer keeps; the
//! sender fetches its ring, and asks again. Such a node forwards a write to the current and next
//! owners of the key. When its write is done, a coordinator checks for a newer ring once more. As
//! long as a former owner still has rows of a partition, it is sent every write: it may not have
//! the new ring, and neither may its readers. So a reader by an old or a new ring finds an
//! acknowledged write, or a hint exists that will deliver it. A write with `pw` needs more than
//! hints: `pw` of the present owners and `pw` of the next must have it.

use crate::Available;
use crate::key_owners::{KeyOwners, RingTarget};
use crate::message::VnodeQuestion;
use crate::owners_table::{OwnersTable, PartitionOwners};
use crate::timing::LATE_MS;
use crate::vnode_ops::{KeyRef, WritePolicy};
use base::{Error, NodeId, Reason, Result, Share, Shortfall};
use bytes::Bytes;
use logic::ring::Ring;
use runtime::join_set::JoinSet;
use runtime::mutants::Mutant;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use vnode_rows::slots::SlotSpan;

/// Nodes that are sent a write in addition to the key's owners: next owners, by this ring or one
/// learned before the write is answered, and former owners.
pub struct ExtraReceivers {
    node: NodeId,
    epoch: u64,
    initial: Vec<NodeId>,
    /// Former owners, which need not store it: one that refuses it also refuses reads.
    former: Vec<NodeId>,
    /// Nodes that were asked, including the owners.
    asked: BTreeSet<NodeId>,
    /// Nodes whose answers are outstanding.
    outstanding: BTreeSet<NodeId>,
    /// Nodes that have stored it.
    stored: BTreeSet<NodeId>,
}

impl ExtraReceivers {
    /// Creates the set for a write to these owners, which are asked in any case.
    pub fn new(node: NodeId, owners: &KeyOwners) -> ExtraReceivers {
        let asked = owners.replicas.primaries.iter().copied().collect();
        let (epoch, owners) = (owners.epoch, &owners.owners);
        let initial = [&owners.receivers[..], &owners.former_owners].concat();
        let former = owners.former_owners.clone();
        let (outstanding, stored) = (BTreeSet::new(), BTreeSet::new());
        ExtraReceivers { node, epoch, initial, former, asked, outstanding, stored }
    }

    /// Returns the nodes to ask first.
    pub fn initial(&mut self) -> Vec<NodeId> {
        let initial = std::mem::take(&mut self.initial);
        self.ask(initial)
    }

    /// Returns true if a node must store the write, if necessary by a hint.
    pub fn requires_copy(&self, node: NodeId) -> bool {
        !self.former.contains(&node)
    }

    /// Returns further nodes to ask, by the current ring.
    pub fn new_receivers(&mut self, available: &Available, key_ref: &KeyRef) -> Vec<NodeId> {
        if available.schema.change_epoch_at(key_ref.slot) <= self.epoch {
            return Vec::new();
        }
        let Some(table) = available.schema.owners() else { return Vec::new() };
        let keepers = available.owners_in(&table, key_ref).keepers();
        self.ask(keepers)
    }

    fn ask(&mut self, nodes: Vec<NodeId>) -> Vec<NodeId> {
        let is_new = |node: &NodeId| *node != self.node && !self.asked.contains(node);
        let nodes: Vec<_> = nodes.into_iter().filter(is_new).collect();
        self.asked.extend(nodes.iter().copied());
        self.outstanding.extend(nodes.iter().copied());
        nodes
    }

    /// Records an answer. Returns true if it was awaited in addition to the owners'.
    pub fn on_answer(&mut self, by: NodeId, stored: bool) -> bool {
        if stored {
            self.stored.insert(by);
        }
        self.outstanding.remove(&by)
    }

    /// Returns the shortfall against `pw`: among the key's current owners, or among its next
    /// owners. `None`: both have enough.
    pub fn pw_shortfall(
        &self,
        pw: u8,
        available: &Available,
        key_ref: &KeyRef,
    ) -> Option<Shortfall> {
        if pw == 0 || Mutant::CountCurrentOwnersOnly.is_active() {
            return None;
        }
        let ring = available.schema.ring()?;
        let partition = key_ref.partition(&ring);
        let n = usize::from(available.copies_at(&ring, key_ref));
        // Both, since the partition may move right after the answer.
        let sets = [ring.owners(partition, n), ring.future_owners(partition, n)];
        sets.iter().find_map(|set| {
            let got = set.iter().filter(|node| self.stored.contains(node)).count() as u8;
            let needed = pw.min(set.len() as u8);
            (got < needed).then_some(Shortfall { share: Share::Pw, got, needed })
        })
    }

    /// Returns true if all have answered.
    pub fn is_done(&self) -> bool {
        self.outstanding.is_empty()
    }

    /// Stops waiting for the selected nodes. Returns those of them that have not answered.
    pub fn give_up(&mut self, select: impl Fn(NodeId) -> bool) -> Vec<NodeId> {
        let given_up: Vec<_> =
            self.outstanding.iter().copied().filter(|node| select(*node)).collect();
        self.outstanding.retain(|node| !given_up.contains(node));
        given_up
    }
}

impl Available {
    /// Returns the owners of a key by the ring of this table.
    fn owners_in(&self, table: &OwnersTable, key_ref: &KeyRef) -> Arc<PartitionOwners> {
        let copies = self.copies_at(table.ring(), key_ref);
        table.owners(key_ref.partition(table.ring()), copies)
    }

    fn copies_at(&self, ring: &Ring, key_ref: &KeyRef) -> u8 {
        (self.vnode_store.copies)(&key_ref.bucket).unwrap_or(ring.n() as u8)
    }

    /// Returns true if the owners of a key have changed since the ring of this epoch.
    pub fn is_stale(&self, epoch: u64, key_ref: &KeyRef) -> bool {
        epoch < self.schema.change_epoch_at(key_ref.slot)
    }

    /// Refuses a read by a ring older than the last change of the key's owners: its sender would
    /// count this node's answer with those of former owners. The sender then fetches this node's
    /// ring, and asks again ([`Available::fetch_ring`]).
    pub fn check_read_epoch(&self, epoch: u64, key_ref: &KeyRef) -> Result<()> {
        if self.is_stale(epoch, key_ref) { Err(partition_moved()) } else { Ok(()) }
    }

    /// Sends a request to a current or next owner. The request names the ring by which the node was
    /// chosen, even if this node has a newer one by now. If the node refuses because the partition
    /// has moved, this node fetches its ring.
    pub async fn ask_ring_target(
        &self,
        RingTarget { node, epoch }: RingTarget,
        question: Bytes,
        within: Duration,
    ) -> Result<Bytes> {
        let sender_epoch = match Mutant::SendNewestRingEpoch.is_active() {
            true => self.schema.ring_epoch(),
            false => epoch,
        };
        let answer = self.ask_vnode_of(sender_epoch, node, question, within).await;
        if answer.as_ref().is_err_and(|error| error.reason == Reason::Changed) {
            self.fetch_ring(node, epoch, within).await;
        }
        answer
    }

    /// Fetches the ring of a node that refused a request. Returns true if it is newer than the one
    /// of this epoch.
    pub async fn fetch_ring(&self, from: NodeId, epoch: u64, within: Duration) -> bool {
        if !self.has_newer_ring(epoch)
            && let Ok(bytes) = self.ask_vnode(from, VnodeQuestion::Ring.write(), within).await
            && let Ok(ring) = Ring::decode(&bytes)
        {
            self.schema.adopt(ring);
        }
        self.has_newer_ring(epoch)
    }

    /// Returns true if this node has a newer ring than the one of this epoch.
    pub fn has_newer_ring(&self, epoch: u64) -> bool {
        self.schema.ring_epoch() > epoch
    }

    /// Refuses a write for a key that this node does not keep, unless its sender has a newer ring.
    pub fn check_write_epoch(&self, epoch: u64, key_ref: &KeyRef) -> Result<()> {
        let Some(table) = self.schema.owners() else { return Ok(()) };
        let owners = self.owners_in(&table, key_ref);
        // By a newer ring this node may be an owner already.
        let is_admitted = owners.is_keeper(self.node) || epoch > table.ring().epoch();
        if is_admitted { Ok(()) } else { Err(partition_moved()) }
    }

    /// Refuses a list of partitions if this node no longer keeps one of them (with `n` copies) and
    /// the sender's ring is older than that change.
    pub fn check_list_epoch(&self, epoch: u64, spans: &[SlotSpan], n: usize) -> Result<()> {
        let Some(ring) = self.schema.ring() else { return Ok(()) };
        let is_lost = |span: &SlotSpan| {
            let owns = |partition| ring.owners(partition, n).contains(&self.node);
            epoch < self.schema.change_epoch_in(span.slots()) && !span.in_ring(&ring).all(owns)
        };
        if spans.iter().any(is_lost) { Err(partition_moved()) } else { Ok(()) }
    }

    /// Refuses a read of partitions at several replicas by a ring older than the last change of
    /// their owners; see [`Available::check_read_epoch`].
    pub fn check_spans_epoch(&self, epoch: u64, spans: &[SlotSpan]) -> Result<()> {
        let is_stale = |span: &SlotSpan| epoch < self.schema.change_epoch_in(span.slots());
        if spans.iter().any(is_stale) { Err(partition_moved()) } else { Ok(()) }
    }

    /// Refuses a comparison or transfer if the sender's ring is newer: this node would still store
    /// and return rows by the older one. Also refuses if the two rings differ in their number of
    /// partitions.
    pub fn check_same_ring(&self, epoch: u64, span: SlotSpan) -> Result<()> {
        let ring = self.schema.ring();
        if ring.is_some_and(|ring| ring.epoch() >= epoch && ring.partitions() == span.partitions) {
            return Ok(());
        }
        let text = "the nodes have different epochs of the ring: try again in a moment";
        Err(Error::new(Reason::Changed, text))
    }

    /// Forwards a write that was sent by an older ring to all current and next owners. A node that
    /// does not store it at once gets it by a hint. Returns true if all stored it.
    pub async fn forward_write(
        self: &Arc<Available>,
        epoch: u64,
        key_ref: KeyRef,
        policy: WritePolicy,
        row: Bytes,
    ) -> bool {
        // Checked after the write: a node that compares with this one from now on finds the row.
        if !self.is_stale(epoch, &key_ref) {
            return true;
        }
        let Some(table) = self.schema.owners() else { return true };
        let mut keepers = self.owners_in(&table, &key_ref).keepers();
        keepers.retain(|node| *node != self.node);
        let epoch = table.ring().epoch();
        let (mut tasks, mut waiting) = (JoinSet::new(), 0);
        for node in keepers {
            let (available, key_ref, row) = (self.clone(), key_ref.clone(), row.clone());
            let question = VnodeQuestion::Store { key_ref, policy, hint: None, row }.write();
            let within = Duration::from_millis(LATE_MS);
            let chosen = RingTarget { node, epoch };
            tasks.push(async move {
                let stored = available.reaches(node)
                    && available.ask_ring_target(chosen, question, within).await.is_ok();
                (node, stored)
            });
            waiting += 1;
        }
        let mut all_stored = true;
        for _ in 0..waiting {
            let (node, stored) = tasks.next().await;
            all_stored &= stored;
            if !stored && let Err(error) = self.vnode_store.add_hint(&key_ref, node) {
                tracing::debug!(target: "node", %error, "a write is left to anti-entropy");
            }
        }
        all_stored
    }
}

fn partition_moved() -> Error {
    let text = "the partition has moved to other nodes: try again";
    Error::new(Reason::Changed, text)
}

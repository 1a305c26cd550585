//! Ring epochs of requests: nodes learn of a ring change at different times, and no write is lost
//! by it.
//!
//! Every question names the ring by which its sender chose the receiver. A node that knows a newer
//! ring, in which that partition changed, answers neither a read nor a list of keys that it no
//! longer keeps; the sender fetches its ring, and asks again. Such a node passes a write on to the
//! nodes that keep the key now or will. A coordinator checks once more, when its write is done,
//! which nodes the ring names. As long as a former owner still has rows of a partition, it is sent
//! every write: it may not have learned of the change, and neither may its readers. So a reader by
//! an old or a new ring finds an acknowledged write, or a hint exists that will bring it there. A
//! write with `pw` needs more than hints: `pw` of the present owners and `pw` of the next must have
//! it.

use crate::Available;
use crate::join_set::JoinSet;
use crate::key_owners::{KeyOwners, RingTarget};
use crate::message::VnodeQuestion;
use crate::slots::SlotSpan;
use crate::timing::LATE_MS;
use crate::vnode_ops::{KeyRef, WritePolicy};
use base::{Error, NodeId, Reason, Result, Share, Shortfall};
use bytes::Bytes;
use logic::ring::Ring;
use runtime::mutants::Mutant;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Nodes that are sent a write in addition to the key's owners: those that will keep the key, by
/// this ring or one learned before the write is answered, and its former owners.
pub struct ExtraReceivers {
    me: NodeId,
    epoch: u64,
    first: Vec<NodeId>,
    /// Former owners, which need not have it: one that refuses it knows that readers must not ask
    /// it.
    former: Vec<NodeId>,
    /// Nodes that were asked, or are owners and asked anyway.
    asked: BTreeSet<NodeId>,
    /// Nodes whose answers are outstanding.
    owed: BTreeSet<NodeId>,
    /// Nodes that have it.
    stored: BTreeSet<NodeId>,
}

impl ExtraReceivers {
    /// Begins with the owners, which are asked anyway.
    pub fn new(me: NodeId, owners: &KeyOwners) -> ExtraReceivers {
        let asked = owners.replicas.primaries.iter().copied().collect();
        let first = owners.receivers.iter().chain(&owners.former).copied().collect();
        let (former, epoch) = (owners.former.clone(), owners.epoch);
        let (owed, stored) = (BTreeSet::new(), BTreeSet::new());
        ExtraReceivers { me, epoch, first, former, asked, owed, stored }
    }

    /// Returns the nodes to ask from the start.
    pub fn first(&mut self) -> Vec<NodeId> {
        let first = std::mem::take(&mut self.first);
        self.ask(first)
    }

    /// Returns true if a node has to have it, sooner or later.
    pub fn must_have(&self, node: NodeId) -> bool {
        !self.former.contains(&node)
    }

    /// Returns further nodes to ask, by the ring that is known now.
    pub fn missed(&mut self, available: &Available, key_ref: &KeyRef) -> Vec<NodeId> {
        if available.schema.changed_at(key_ref.slot) <= self.epoch {
            return Vec::new();
        }
        let Some(ring) = available.schema.ring() else { return Vec::new() };
        let keepers = available.keepers(&ring, key_ref);
        self.ask(keepers)
    }

    fn ask(&mut self, nodes: Vec<NodeId>) -> Vec<NodeId> {
        let fresh = |node: &NodeId| *node != self.me && !self.asked.contains(node);
        let nodes: Vec<_> = nodes.into_iter().filter(fresh).collect();
        self.asked.extend(nodes.iter().copied());
        self.owed.extend(nodes.iter().copied());
        nodes
    }

    /// Records an answer. Returns true if it was awaited in addition to the owners'.
    pub fn answered(&mut self, by: NodeId, stored: bool) -> bool {
        if stored {
            self.stored.insert(by);
        }
        self.owed.remove(&by)
    }

    /// Returns the shortfall against `pw`: among the key's owners by the present ring, or among
    /// those that will own it once it has gone over. `None`: both have enough.
    pub fn short_of(&self, pw: u8, available: &Available, key_ref: &KeyRef) -> Option<Shortfall> {
        if pw == 0 || Mutant::CountsOwnersOfNow.is_active() {
            return None;
        }
        let ring = available.schema.ring()?;
        let (partition, n) = (key_ref.partition(&ring), available.copies_at(&ring, key_ref));
        // Both, since the partition may go over the moment after the answer.
        let sets = [ring.owners(partition, n), ring.successors(partition, n)];
        sets.iter().find_map(|set| {
            let got = set.iter().filter(|node| self.stored.contains(node)).count() as u8;
            let needed = pw.min(set.len() as u8);
            (got < needed).then_some(Shortfall { share: Share::Pw, got, needed })
        })
    }

    /// Returns true if all have answered.
    pub fn is_done(&self) -> bool {
        self.owed.is_empty()
    }

    /// These are waited for no longer; those of them that have not answered.
    pub fn give_up(&mut self, whom: impl Fn(NodeId) -> bool) -> Vec<NodeId> {
        let given_up: Vec<_> = self.owed.iter().copied().filter(|node| whom(*node)).collect();
        self.owed.retain(|node| !given_up.contains(node));
        given_up
    }
}

impl Available {
    /// Returns the nodes that keep a key, or will keep it soon.
    fn keepers(&self, ring: &Ring, key_ref: &KeyRef) -> Vec<NodeId> {
        let (partition, n) = (key_ref.partition(ring), self.copies_at(ring, key_ref));
        let mut keepers = ring.owners(partition, n);
        keepers.extend(ring.receivers(partition, n));
        keepers
    }

    fn copies_at(&self, ring: &Ring, key_ref: &KeyRef) -> usize {
        (self.vnode_store.copies)(&key_ref.bucket).map_or(ring.n(), usize::from)
    }

    /// Returns true if a sender that chose by a ring of this epoch may not know the nodes that keep
    /// a key.
    pub fn is_stale(&self, epoch: u64, key_ref: &KeyRef) -> bool {
        epoch < self.schema.changed_at(key_ref.slot)
    }

    /// Refuses a request whose sender may not know the nodes that keep the key: it would count this
    /// node's answer with those of former owners. The sender then fetches this node's ring, and
    /// asks again ([`Available::learn_ring`]).
    pub fn keeps_still(&self, epoch: u64, key_ref: &KeyRef) -> Result<()> {
        if self.is_stale(epoch, key_ref) { Err(gone_over()) } else { Ok(()) }
    }

    /// Sends a request to a node that keeps the key, or will. The request names the ring by which
    /// the node was chosen, whatever this node has learned since. If the node keeps the key no
    /// more, it refuses, and this node learns its ring.
    pub async fn ask_chosen(
        &self,
        RingTarget { node, epoch }: RingTarget,
        question: Bytes,
        within: Duration,
    ) -> Result<Bytes> {
        let said = match Mutant::SaysTheNewest.is_active() {
            true => self.schema.ring().map_or(0, |ring| ring.epoch()),
            false => epoch,
        };
        let answer = self.ask_vnode_of(said, node, question, within).await;
        if answer.as_ref().is_err_and(|error| error.reason == Reason::Changed) {
            self.learn_ring(node, epoch, within).await;
        }
        answer
    }

    /// Fetches the ring of a node that refused a request. Returns true if it is newer than the one
    /// of this epoch.
    pub async fn learn_ring(&self, from: NodeId, epoch: u64, within: Duration) -> bool {
        if !self.knows_newer(epoch)
            && let Ok(bytes) = self.ask_vnode(from, VnodeQuestion::Ring.write(), within).await
            && let Ok(ring) = Ring::decode(&bytes)
        {
            self.schema.learn(ring);
        }
        self.knows_newer(epoch)
    }

    /// Returns true if this node knows a newer ring than the one of this epoch.
    pub fn knows_newer(&self, epoch: u64) -> bool {
        self.schema.ring().is_some_and(|ring| ring.epoch() > epoch)
    }

    /// Refuses a write that is not this node's to keep, unless its sender knows more of the ring.
    pub fn takes_still(&self, epoch: u64, key_ref: &KeyRef) -> Result<()> {
        let Some(ring) = self.schema.ring() else { return Ok(()) };
        let keeps = self.keepers(&ring, key_ref).contains(&self.node);
        // A sender that knows more may name an owner that does not know yet that it is one.
        if keeps || epoch > ring.epoch() { Ok(()) } else { Err(gone_over()) }
    }

    /// Refuses a list of partitions, as those see them that keep so many copies, to a sender that
    /// does not know that this node does not keep one of them any more.
    pub fn covers_still(&self, epoch: u64, spans: &[SlotSpan], n: usize) -> Result<()> {
        let Some(ring) = self.schema.ring() else { return Ok(()) };
        let gone = |span: &SlotSpan| {
            let owns = |partition| ring.owners(partition, n).contains(&self.node);
            epoch < self.schema.changed_in(span.slots()) && !span.in_ring(&ring).all(owns)
        };
        if spans.iter().any(gone) { Err(gone_over()) } else { Ok(()) }
    }

    /// Refuses a sender that knows more of the ring than this node: what this node takes and gives
    /// now, it takes and gives as if the ring were the older one. Nor can two nodes compare a
    /// partition that is not the same to both.
    pub fn knows_as_much(&self, epoch: u64, span: SlotSpan) -> Result<()> {
        let ring = self.schema.ring();
        if ring.is_some_and(|ring| ring.epoch() >= epoch && ring.partitions() == span.of) {
            return Ok(());
        }
        let text = "the nodes know different rings: try again in a moment";
        Err(Error::new(Reason::Changed, text))
    }

    /// Passes a write, which a sender brought here by an older ring, on to all nodes that keep the
    /// key now or will. A node that does not take it at once gets it by a hint. Returns true if all
    /// took it.
    pub async fn hand_on(
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
        let Some(ring) = self.schema.ring() else { return true };
        let mut keepers = self.keepers(&ring, &key_ref);
        keepers.retain(|node| *node != self.node);
        let (mut tasks, mut waiting) = (JoinSet::new(), 0);
        for node in keepers {
            let (available, key_ref, row) = (self.clone(), key_ref.clone(), row.clone());
            let question = VnodeQuestion::Store { key_ref, policy, hint: None, row }.write();
            let within = Duration::from_millis(LATE_MS);
            let chosen = RingTarget { node, epoch: ring.epoch() };
            tasks.push(async move {
                let taken = available.reaches(node)
                    && available.ask_chosen(chosen, question, within).await.is_ok();
                (node, taken)
            });
            waiting += 1;
        }
        let mut all = true;
        for _ in 0..waiting {
            let (node, taken) = tasks.next().await;
            all &= taken;
            if !taken && let Err(error) = self.vnode_store.remember(&key_ref, node) {
                tracing::debug!(target: "node", %error, "a write is left to comparison");
            }
        }
        all
    }
}

fn gone_over() -> Error {
    let text = "the partition has gone over to other nodes: ask again by the ring as it is now";
    Error::new(Reason::Changed, text)
}

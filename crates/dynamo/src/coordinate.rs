//! Coordinator of one request for one key: executes the effects of `logic::quorum`, and feeds it
//! the replicas' answers.
//!
//! The client is answered as soon as enough replicas have answered. The rest (the last replicas of
//! a write, the repairs of a read) continues in the background until it is done or times out.

use super::handoff::ExtraReceivers;
use super::held::{HeldRow, held};
use super::join_set::JoinSet;
use super::key_owners::{KeyOwners, RingTarget};
use super::layout::Row;
use super::message::{self, VnodeQuestion};
use super::put::PutDriver;
use super::reply;
use super::timing::{LATE_MS, TO_THE_END, asked_for, until};
use super::vnode_ops::{EvaluatedWrite, KeyRef, Write, WritePolicy};
use crate::Available;
use base::codec::Malformed;
use base::error::{corrupt, shutting_down};
use base::{Error, GroupId, NodeId, Reason, Result};
use bytes::Bytes;
use logic::quorum::{
    Fetch, FetchEffect, FetchEvent, FetchNeeds, Fetched, Replicas, Store, StoreNeeds, Stored,
};
use runtime::metrics::Metrics;
use runtime::world;
use runtime::world::sleep;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Questions about vnodes concern no group.
pub(super) const NO_GROUP: GroupId = GroupId(0);

impl Available {
    /// Writes here, and brings it to all replicas.
    pub(super) async fn store(
        self: &Arc<Available>,
        owners: KeyOwners,
        write: Write,
        (policy, needs): (WritePolicy, StoreNeeds),
        within: Duration,
    ) -> Result<EvaluatedWrite> {
        self.look_at_fence();
        let hint = self.stands_in_for(&owners.replicas);
        let beside = ExtraReceivers::new(self.node, &owners);
        let KeyOwners { key_ref, replicas, epoch, .. } = owners;
        // Here first: the dot is this vnode's, and the others merge the row that names it.
        let written = self.vnode_store.write(&key_ref, write, policy, hint)?;
        let (sender, receiver) = oneshot::channel();
        let errand = PutDriver {
            available: self.clone(),
            key_ref,
            policy,
            ticket: written.ticket,
            row: written.bytes.clone(),
            epoch,
            pw: needs.pw,
        };
        self.tasks.spawn_short(errand.run((Store::new(needs, replicas), beside), sender, within));
        came_of(receiver.await).map(|()| written)
    }

    /// Returns the owner for which this node keeps the row. `None`: it is an owner itself.
    fn stands_in_for(&self, replicas: &Replicas) -> Option<NodeId> {
        let Replicas { primaries, down, .. } = replicas;
        if primaries.contains(&self.node) {
            return None;
        }
        primaries.iter().find(|node| down.contains(node)).or(primaries.first()).copied()
    }

    /// Reads a row from its replicas and merges their answers. `None`: they have no row.
    pub(super) async fn fetch(
        self: &Arc<Available>,
        owners: KeyOwners,
        (policy, needs): (WritePolicy, FetchNeeds),
        within: Duration,
    ) -> Result<Option<Row>> {
        let (sender, receiver) = oneshot::channel();
        let KeyOwners { key_ref, replicas, epoch, .. } = owners;
        let errand = GetDriver { available: self.clone(), key_ref, policy, epoch };
        self.tasks.spawn_short(errand.run(Fetch::new(needs, replicas), sender, within));
        match receiver.await {
            Ok(Fetched::Found(held)) => {
                let row = policy.settle(held.0);
                self.saw_siblings(&row);
                Ok(Some(row))
            }
            Ok(Fetched::Nothing) => Ok(None),
            Ok(Fetched::TooFew(short) | Fetched::OutOfTime(short)) => Err(short.unanswered(
                "fewer replicas answered than were asked for: start the nodes that are down, or \
                 ask for less",
            )),
            // The driver gave up because the ring has changed: the caller asks again by the new
            // one.
            Err(_) if self.knows_newer(epoch) => Err(outdated()),
            Err(_) => Err(shutting_down()),
        }
    }

    /// Asks a node about vnodes, chosen by the ring as it is now.
    pub(super) async fn ask_vnode(
        &self,
        node: NodeId,
        question: Bytes,
        within: Duration,
    ) -> Result<Bytes> {
        let epoch = self.schema.ring().map_or(0, |ring| ring.epoch());
        self.ask_vnode_of(epoch, node, question, within).await
    }

    /// Asks a vnode of another node, which was chosen by the ring of this epoch.
    pub(super) async fn ask_vnode_of(
        &self,
        epoch: u64,
        node: NodeId,
        question: Bytes,
        within: Duration,
    ) -> Result<Bytes> {
        let question = message::enclose(epoch, &question);
        let alone = || Error::new(Reason::NoQuorum, "this node has no peers");
        let peers = self.peers.get().ok_or_else(alone)?;
        let bytes = peers.ask(node, NO_GROUP, question, within).await?;
        reply::answer(&bytes).unwrap_or_else(|Malformed(field)| {
            let text = format!("node {:016x} answered what can't be read ({field})", node.0);
            Err(Error::new(Reason::InDoubt, text))
        })
    }
}

/// Returns the outcome of a write that is logged here. An error means that the task ended with the
/// node. It never means that nothing was done, because the client would then have another node
/// write it again.
fn came_of(stored: std::result::Result<Stored, oneshot::error::RecvError>) -> Result<()> {
    match stored {
        Ok(Stored::Enough) => Ok(()),
        Ok(Stored::TooFew(short) | Stored::OutOfTime(short)) => Err(short.unstored(
            "fewer replicas took the write than were asked for; it is kept where it is and may \
             spread: read before you write again",
        )),
        Err(_) => {
            let text = "the node is stopping: the write is logged there and may spread; read \
                        before you write again";
            Err(Error::new(Reason::DeadlinePassed, text))
        }
    }
}

/// Task that drives a read.
struct GetDriver {
    available: Arc<Available>,
    key_ref: KeyRef,
    policy: WritePolicy,
    /// Epoch of the ring by which the replicas were chosen.
    epoch: u64,
}

type FetchAnswer = (NodeId, Result<Option<HeldRow>>);

impl GetDriver {
    async fn run(
        self,
        mut machine: Fetch<HeldRow>,
        caller: oneshot::Sender<Fetched<HeldRow>>,
        within: Duration,
    ) {
        let began = world::milliseconds();
        let deadline = began + within.as_millis() as u64;
        let mut late = Some(began + LATE_MS);
        let (mut tasks, mut effects) = (JoinSet::new(), Vec::new());
        let (mut caller, mut waiting) = (Some(caller), BTreeSet::new());
        machine.step(FetchEvent::Begun, &mut effects);
        loop {
            for effect in std::mem::take(&mut effects) {
                match effect {
                    FetchEffect::Ask { node, .. } => {
                        waiting.insert(node);
                        self.ask(node, deadline, &mut tasks);
                    }
                    FetchEffect::Done(fetched) => {
                        let _ = caller.take().map(|caller| caller.send(fetched));
                    }
                    FetchEffect::Repair { node, versions } => {
                        self.repair(node, versions, (deadline, within));
                    }
                    FetchEffect::Finished => return tasks.finish(TO_THE_END).await,
                }
            }
            tokio::select! {
                biased;
                (by, answer) = tasks.next() => {
                    waiting.remove(&by);
                    // By the older ring, answers of former owners would be counted. After the
                    // answer nothing is counted any more.
                    if caller.is_some() && self.is_outdated(by, &answer, deadline).await {
                        return; // Who waits asks again.
                    }
                    let event = match answer {
                        Ok(versions) => FetchEvent::Answered { by, versions },
                        Err(_) => FetchEvent::Failed { by },
                    };
                    machine.step(event, &mut effects);
                }
                () = sleep(until(late.unwrap_or(deadline).min(deadline))) => {
                    if late.take().is_none_or(|late| late >= deadline) {
                        machine.step(FetchEvent::OutOfTime, &mut effects);
                    } else {
                        for by in waiting.clone() {
                            machine.step(FetchEvent::Late { by }, &mut effects);
                        }
                    }
                }
            }
        }
    }

    /// Returns true if a node refused because it knows another ring, and this node knows it now
    /// too.
    async fn is_outdated(
        &self,
        by: NodeId,
        answer: &Result<Option<HeldRow>>,
        deadline: u64,
    ) -> bool {
        let refused = answer.as_ref().is_err_and(|error| error.reason == Reason::Changed);
        refused && self.available.learn_ring(by, self.epoch, until(deadline)).await
    }

    fn ask(&self, node: NodeId, deadline: u64, tasks: &mut JoinSet<FetchAnswer>) {
        let available = self.available.clone();
        if node == available.node {
            let key_ref = self.key_ref.clone();
            tasks.push(async move {
                let held = available.vnode_store.read(&key_ref).and_then(|row| held(row.as_ref()));
                (node, held)
            });
            return;
        }
        let question = VnodeQuestion::Fetch(self.key_ref.clone()).write();
        let epoch = self.epoch;
        tasks.push(async move {
            let within = asked_for(until(deadline));
            let asking = available.ask_vnode_of(epoch, node, question, within);
            let answer = available.witnessed(node, asking).await;
            let held = answer.and_then(|bytes| match bytes.first() {
                Some(1) => held(Some(&bytes.slice(1..))),
                Some(0) => Ok(None),
                _ => Err(corrupt(Malformed("yes or no"))),
            });
            (node, held)
        });
    }

    fn repair(&self, node: NodeId, versions: HeldRow, (deadline, within): (u64, Duration)) {
        // A read from long ago, by a node that stalled meanwhile, may hold what a tombstone deleted
        // that is itself gone by now.
        if world::milliseconds() > deadline + LATE_MS {
            return;
        }
        Metrics::count(&self.available.metrics.available.read_repairs);
        let (available, key_ref, policy) =
            (self.available.clone(), self.key_ref.clone(), self.policy);
        if node == available.node {
            // The partition may have gone over since the read began.
            let taken = available.takes_still(self.epoch, &key_ref);
            let taken = taken
                .and_then(|()| available.vnode_store.merge(&key_ref, versions.0, policy, None));
            if let Err(error) = taken {
                tracing::debug!(target: "node", %error, "a row is not repaired");
            }
            return;
        }
        let row = super::layout::write_row(&versions.0);
        let question = VnodeQuestion::Store { key_ref, policy, hint: None, row }.write();
        let chosen = RingTarget { node, epoch: self.epoch };
        self.available.tasks.spawn_short(async move {
            let _ = available.ask_chosen(chosen, question, within).await;
        });
    }
}

/// Returns the error of a read by an outdated ring, of which this node has learned meanwhile.
fn outdated() -> Error {
    Error::new(Reason::Changed, "the ring has changed: ask again by the one that is known now")
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Kind;

    #[tokio::test]
    async fn a_logged_write_whose_errand_broke_off_may_have_happened() {
        let (sender, receiver) = oneshot::channel();
        drop(sender);
        let told = came_of(receiver.await).expect_err("nobody knows how far it came");
        assert_eq!(told.kind(), Kind::Unknown, "{told}");
    }
}

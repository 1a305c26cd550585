//! Coordinator of one request for one key: executes the effects of `logic::quorum`, and feeds it
//! the replicas' answers.
//!
//! The client is answered as soon as enough replicas have answered. The rest (the last replicas of
//! a write, the repairs of a read) continues in the background until it is done or times out.

use super::handoff::ExtraReceivers;
use super::join_set::JoinSet;
use super::key_owners::{KeyOwners, RingTarget};
use super::layout::Row;
use super::message::{self, VnodeQuestion};
use super::put::PutDriver;
use super::replica_row::ReplicaRow;
use super::reply;
use super::timing::{DRAIN_TIME_MAX, LATE_MS, call_timeout, time_until};
use super::vnode_ops::{EvaluatedWrite, KeyRef, Write, WritePolicy};
use crate::Available;
use base::codec::Malformed;
use base::error::{corrupt, shutting_down};
use base::{Error, GroupId, NodeId, Reason, Result};
use bytes::Bytes;
use logic::quorum::{
    Fetch, FetchEffect, FetchEvent, FetchNeeds, FetchOutcome, Replicas, Store, StoreNeeds,
    StoreOutcome,
};
use runtime::metrics::Metrics;
use runtime::world;
use runtime::world::sleep;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Group id of messages about vnodes, which belong to no group.
pub(super) const NO_GROUP: GroupId = GroupId(0);

impl Available {
    /// Writes locally, and starts the task that sends the write to all replicas.
    pub(super) async fn store(
        self: &Arc<Available>,
        owners: KeyOwners,
        write: Write,
        (policy, needs): (WritePolicy, StoreNeeds),
        within: Duration,
    ) -> Result<EvaluatedWrite> {
        self.lift_stale_fence();
        let hint = self.fallback_for(&owners.replicas);
        let extra = ExtraReceivers::new(self.node, &owners);
        let KeyOwners {
            key_ref,
            replicas,
            epoch,
            ..
        } = owners;
        // Locally first: the dot is this vnode's, and the other replicas merge the row with it.
        let written = self.vnode_store.write(&key_ref, write, policy, hint)?;
        let (sender, receiver) = oneshot::channel();
        let driver = PutDriver {
            available: self.clone(),
            key_ref,
            policy,
            ticket: written.ticket,
            row: written.bytes.clone(),
            epoch,
            pw: needs.pw,
        };
        self.tasks
            .spawn_short(driver.run((Store::new(needs, replicas), extra), sender, within));
        write_outcome(receiver.await).map(|()| written)
    }

    /// Returns the owner for which this node is the fallback. `None`: it is an owner itself.
    fn fallback_for(&self, replicas: &Replicas) -> Option<NodeId> {
        let primaries = &replicas.primaries;
        if primaries.contains(&self.node) {
            return None;
        }
        let down = primaries.iter().find(|node| replicas.is_down(**node));
        down.or(primaries.first()).copied()
    }

    /// Reads a row from its replicas and merges their answers. `None`: they have no row.
    pub(super) async fn fetch(
        self: &Arc<Available>,
        owners: KeyOwners,
        (policy, needs): (WritePolicy, FetchNeeds),
        within: Duration,
    ) -> Result<Option<Row>> {
        let (sender, receiver) = oneshot::channel();
        let KeyOwners {
            key_ref,
            replicas,
            epoch,
            ..
        } = owners;
        let driver = GetDriver {
            available: self.clone(),
            key_ref,
            policy,
            epoch,
        };
        self.tasks
            .spawn_short(driver.run(Fetch::new(needs, replicas), sender, within));
        match receiver.await {
            Ok(FetchOutcome::Found(found)) => {
                let row = policy.resolve(found.into_row());
                self.count_siblings(&row);
                Ok(Some(row))
            }
            Ok(FetchOutcome::NotFound) => Ok(None),
            Ok(FetchOutcome::TooFew(short) | FetchOutcome::TimedOut(short)) => Err(short.read_error(
                "fewer replicas answered than the read requires: start the nodes that are down, or \
                 lower the quorum",
            )),
            // The driver gave up because the ring has changed: the caller retries with the new one.
            Err(_) if self.has_newer_ring(epoch) => Err(ring_changed()),
            Err(_) => Err(shutting_down()),
        }
    }

    /// Sends a question to a node that was chosen by the current ring.
    pub(super) async fn ask_vnode(
        &self,
        node: NodeId,
        question: Bytes,
        within: Duration,
    ) -> Result<Bytes> {
        let epoch = self.schema.ring_epoch();
        self.ask_vnode_of(epoch, node, question, within).await
    }

    /// Sends a question to a node that was chosen by the ring of this epoch.
    pub(super) async fn ask_vnode_of(
        &self,
        epoch: u64,
        node: NodeId,
        question: Bytes,
        within: Duration,
    ) -> Result<Bytes> {
        let question = message::write_enveloped(epoch, &question);
        let no_peers = || Error::new(Reason::NoQuorum, "this node has no peers");
        let peers = self.peers.get().ok_or_else(no_peers)?;
        let bytes = peers.call(node, NO_GROUP, question, within).await?;
        reply::read(&bytes).unwrap_or_else(|Malformed(field)| {
            let text = format!(
                "the answer of node {:016x} can't be decoded ({field})",
                node.0
            );
            Err(Error::new(Reason::InDoubt, text))
        })
    }
}

/// Returns the outcome of a write that is logged here. A receive error means that the task ended
/// with the node. It must not become an error that claims that nothing was done: the client would
/// have another node write it again.
fn write_outcome(
    stored: std::result::Result<StoreOutcome, oneshot::error::RecvError>,
) -> Result<()> {
    match stored {
        Ok(StoreOutcome::Enough) => Ok(()),
        Ok(StoreOutcome::TooFew(short) | StoreOutcome::TimedOut(short)) => Err(short.write_error(
            "fewer replicas accepted the write than required; those that did keep it, and it may \
             spread: read before you write again",
        )),
        Err(_) => {
            let text = "the node is stopping: the write is in its log and may spread; read before \
                        you write again";
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

type FetchAnswer = (NodeId, Result<Option<Bytes>>);

impl GetDriver {
    async fn run(
        self,
        mut quorum: Fetch<ReplicaRow>,
        caller: oneshot::Sender<FetchOutcome<ReplicaRow>>,
        within: Duration,
    ) {
        let began = world::milliseconds();
        let deadline = began + within.as_millis() as u64;
        let mut late_at = Some(began + LATE_MS);
        let (mut tasks, mut effects) = (JoinSet::new(), Vec::new());
        let (mut caller, mut waiting) = (Some(caller), BTreeSet::new());
        let mut known = Vec::new();
        quorum.step(FetchEvent::Started, &mut effects);
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
                    FetchEffect::Finished => return tasks.finish(DRAIN_TIME_MAX).await,
                }
            }
            tokio::select! {
                biased;
                (by, answer) = tasks.next() => {
                    waiting.remove(&by);
                    // With the older ring, answers of former owners would be counted. After the
                    // client is answered nothing is counted any more.
                    if caller.is_some() && self.is_outdated(by, &answer, deadline).await {
                        return; // The caller retries.
                    }
                    let read = |row| {
                        let row = ReplicaRow::read(row, &known)?;
                        known.push(row.clone());
                        Ok(row)
                    };
                    let event = match answer.and_then(|row| row.map(read).transpose()) {
                        Ok(versions) => FetchEvent::Answered { by, versions },
                        Err(_) => {
                            quorum.mark_down(|node| !self.available.reaches(node));
                            FetchEvent::Failed { by }
                        }
                    };
                    quorum.step(event, &mut effects);
                }
                () = sleep(time_until(late_at.unwrap_or(deadline).min(deadline))) => {
                    if late_at.take().is_none_or(|late_at| late_at >= deadline) {
                        quorum.step(FetchEvent::TimedOut, &mut effects);
                    } else {
                        quorum.mark_down(|node| !self.available.reaches(node));
                        for by in waiting.clone() {
                            quorum.step(FetchEvent::Late { by }, &mut effects);
                        }
                    }
                }
            }
        }
    }

    /// Returns true if a node refused because of its newer ring, and this node has that ring now.
    async fn is_outdated(&self, by: NodeId, answer: &Result<Option<Bytes>>, deadline: u64) -> bool {
        let refused = answer
            .as_ref()
            .is_err_and(|error| error.reason == Reason::Changed);
        refused
            && self
                .available
                .fetch_ring(by, self.epoch, time_until(deadline))
                .await
    }

    fn ask(&self, node: NodeId, deadline: u64, tasks: &mut JoinSet<FetchAnswer>) {
        let available = self.available.clone();
        if node == available.node {
            let key_ref = self.key_ref.clone();
            tasks.push(async move { (node, available.vnode_store.read(&key_ref)) });
            return;
        }
        let question = VnodeQuestion::Fetch(self.key_ref.clone()).write();
        let epoch = self.epoch;
        tasks.push(async move {
            let within = call_timeout(time_until(deadline));
            let request = available.ask_vnode_of(epoch, node, question, within);
            let answer = available.observe_request(node, request).await;
            let versions = answer.and_then(|bytes| match bytes.first() {
                Some(1) => Ok(Some(bytes.slice(1..))),
                Some(0) => Ok(None),
                _ => Err(corrupt(Malformed("yes or no"))),
            });
            (node, versions)
        });
    }

    fn repair(&self, node: NodeId, versions: ReplicaRow, (deadline, within): (u64, Duration)) {
        // Not after a stall of this node: an old read may hold a value whose tombstone was reaped
        // since.
        if world::milliseconds() > deadline + LATE_MS {
            return;
        }
        Metrics::count(&self.available.metrics.available.read_repairs);
        let (available, key_ref, policy) =
            (self.available.clone(), self.key_ref.clone(), self.policy);
        if node == available.node {
            // The partition may have moved since the read began.
            let merged = available.check_write_epoch(self.epoch, &key_ref);
            let merged = merged.and_then(|()| {
                available
                    .vnode_store
                    .merge(&key_ref, versions.into_row(), policy, None)
            });
            if let Err(error) = merged {
                tracing::debug!(target: "node", %error, "read repair of a row failed");
            }
            return;
        }
        let row = versions.bytes().clone();
        let question = VnodeQuestion::Store {
            key_ref,
            policy,
            hint: None,
            row,
        }
        .write();
        let chosen = RingTarget {
            node,
            epoch: self.epoch,
        };
        self.available.tasks.spawn_short(async move {
            let _ = available.ask_ring_target(chosen, question, within).await;
        });
    }
}

/// Returns the error of a read by an outdated ring.
fn ring_changed() -> Error {
    Error::new(Reason::Changed, "the ring has changed: try again")
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Kind;

    #[tokio::test]
    async fn logged_write_with_aborted_task_has_unknown_outcome() {
        let (sender, receiver) = oneshot::channel();
        drop(sender);
        let told = write_outcome(receiver.await).expect_err("nobody knows how far it came");
        assert_eq!(told.kind(), Kind::Unknown, "{told}");
    }
}

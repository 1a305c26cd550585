//! Write driver: sends a write to all owners of the key, and to its next owners.
//!
//! While the ring changes, each write also goes to the next owners (`logic::ring::Ring::receivers`)
//! and to the former ones. They do not count towards the quorum, but the client is answered only
//! after they have answered or are late. A next owner that did not store the write gets it later,
//! by a hint.

use super::handoff::ExtraReceivers;
use super::join_set::JoinSet;
use super::message::VnodeQuestion;
use super::reply;
use super::timing::{DRAIN_TIME_MAX, LATE_MS, call_timeout, time_until};
use super::vnode_ops::{KeyRef, WritePolicy};
use crate::Available;
use base::{NodeId, Reason};
use bytes::Bytes;
use logic::quorum::{Store, StoreEffect, StoreEvent, StoreOutcome};
use runtime::world;
use runtime::world::sleep;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Maximum wait for next and former owners, in milliseconds. Suspected nodes are given up earlier.
const EXTRA_MS_MAX: u64 = 3_000;

/// Driver of a write.
pub(super) struct PutDriver {
    pub available: Arc<Available>,
    pub key_ref: KeyRef,
    pub policy: WritePolicy,
    /// Ticket of the local write: reached once it is in the store.
    pub ticket: u64,
    pub row: Bytes,
    /// Epoch of the ring by which the replicas were chosen.
    pub epoch: u64,
    /// Number of primaries that must store it (`pw`).
    pub pw: u8,
}

impl PutDriver {
    /// Runs the write to its end. The order of the steps is essential:
    /// - Next owners are asked at once, although only owners count towards the quorum: a partition
    ///   that moves while the write runs must not lack it.
    /// - Until the client is answered, each turn checks for a newer ring, which may name nodes that
    ///   have not been sent the write.
    /// - A failure does not wait for extra receivers, since it promises nothing about the replicas.
    /// - After the answer the loop continues: the remaining nodes get the row, or a hint is stored
    ///   for them.
    /// - A next owner that fails or is slow gets a hint: it must not delay clients, and only
    ///   anti-entropy would send it the row otherwise.
    /// - Fallbacks are asked in addition to late owners, whose answers still count.
    pub(super) async fn run(
        self,
        (mut quorum, mut extra): (Store, ExtraReceivers),
        caller: oneshot::Sender<StoreOutcome>,
        within: Duration,
    ) {
        let began = world::milliseconds();
        let deadline = began + within.as_millis() as u64;
        let mut late_at = Some(began + LATE_MS);
        let mut extra_end = Some(began + EXTRA_MS_MAX);
        let (mut tasks, mut effects) = (JoinSet::new(), Vec::new());
        let (mut caller, mut pending) = (Some(caller), BTreeSet::new());
        let (mut answer, mut finished) = (None, false);
        quorum.step(StoreEvent::Started, &mut effects);
        self.ask_extra(extra.initial(), &mut extra, deadline, &mut tasks);
        loop {
            for effect in std::mem::take(&mut effects) {
                match effect {
                    StoreEffect::Ask { node, fallback_for } => {
                        pending.insert(node);
                        self.ask(node, fallback_for, deadline, &mut tasks);
                    }
                    StoreEffect::Done(stored) => answer = Some(stored),
                    StoreEffect::Finished => finished = true,
                }
            }
            let awaits_extra = answer == Some(StoreOutcome::Enough);
            if awaits_extra {
                self.ask_new_receivers(&mut extra, deadline, &mut tasks);
            }
            if (extra.is_done() || !awaits_extra)
                && let Some(stored) = answer.take()
            {
                let stored = self.check_pw(stored, &extra);
                let _ = caller.take().map(|caller| caller.send(stored));
            }
            if finished && extra.is_done() {
                return tasks.finish(DRAIN_TIME_MAX).await;
            }
            tokio::select! {
                biased;
                (by, stored) = tasks.next() => {
                    if extra.on_answer(by, stored) {
                        if !stored {
                            self.add_hint(by, &extra);
                        }
                        continue;
                    }
                    pending.remove(&by);
                    if !stored {
                        quorum.mark_down(|node| !self.available.reaches(node));
                    }
                    let event =
                        if stored { StoreEvent::Stored { by } } else { StoreEvent::Failed { by } };
                    quorum.step(event, &mut effects);
                }
                () = sleep(time_until(late_at.or(extra_end).unwrap_or(deadline).min(deadline))) => {
                    if world::milliseconds() >= deadline {
                        quorum.step(StoreEvent::TimedOut, &mut effects);
                        self.give_up(&mut extra, |_| true);
                    } else if late_at.take().is_some() {
                        quorum.mark_down(|node| !self.available.reaches(node));
                        for by in pending.clone() {
                            quorum.step(StoreEvent::Late { by }, &mut effects);
                        }
                        self.give_up(&mut extra, |node| !self.available.reaches(node));
                    } else {
                        extra_end = None;
                        self.give_up(&mut extra, |_| true);
                    }
                }
            }
        }
    }

    /// Returns the outcome of a write after the check of `pw` at present and next owners.
    fn check_pw(&self, stored: StoreOutcome, extra: &ExtraReceivers) -> StoreOutcome {
        let shortfall = || extra.pw_shortfall(self.pw, &self.available, &self.key_ref);
        if stored == StoreOutcome::Enough {
            shortfall().map_or(stored, StoreOutcome::TooFew)
        } else {
            stored
        }
    }

    /// Sends the write to receivers that only a newer ring names.
    fn ask_new_receivers(
        &self,
        extra: &mut ExtraReceivers,
        deadline: u64,
        tasks: &mut JoinSet<(NodeId, bool)>,
    ) {
        let receivers = extra.new_receivers(&self.available, &self.key_ref);
        self.ask_extra(receivers, extra, deadline, tasks);
    }

    /// Stops waiting for the selected extra receivers, and adds hints for those that need one.
    fn give_up(&self, extra: &mut ExtraReceivers, select: impl Fn(NodeId) -> bool) {
        for node in extra.give_up(select) {
            self.add_hint(node, extra);
        }
    }

    /// Sends the write to extra receivers. Adds a hint for a node that can't be reached.
    fn ask_extra(
        &self,
        nodes: Vec<NodeId>,
        extra: &mut ExtraReceivers,
        deadline: u64,
        tasks: &mut JoinSet<(NodeId, bool)>,
    ) {
        for node in nodes {
            if self.available.reaches(node) {
                self.ask(node, None, deadline, tasks);
            } else {
                extra.on_answer(node, false);
                self.add_hint(node, extra);
            }
        }
    }

    fn add_hint(&self, node: NodeId, extra: &ExtraReceivers) {
        if extra.requires_copy(node)
            && let Err(error) = self.available.vnode_store.add_hint(&self.key_ref, node)
        {
            tracing::debug!(target: "node", %error, "a write is left to anti-entropy");
        }
    }

    fn ask(
        &self,
        node: NodeId,
        hint: Option<NodeId>,
        deadline: u64,
        tasks: &mut JoinSet<(NodeId, bool)>,
    ) {
        let (available, ticket) = (self.available.clone(), self.ticket);
        if node == available.node {
            // Already written locally: only the batch is awaited.
            tasks.push(async move {
                (
                    node,
                    available.vnode_store.wait_stored(ticket).await.is_ok(),
                )
            });
            return;
        }
        // A write past its deadline is not sent, as with read repairs.
        if world::milliseconds() > deadline {
            tasks.push(async move { (node, false) });
            return;
        }
        let (key_ref, policy, row) = (self.key_ref.clone(), self.policy, self.row.clone());
        let question = VnodeQuestion::Store {
            key_ref,
            policy,
            hint,
            row,
        }
        .write();
        let epoch = self.epoch;
        tasks.push(async move {
            let within = call_timeout(time_until(deadline));
            let request = available.ask_vnode_of(epoch, node, question, within);
            let began = world::milliseconds();
            let stored = available.observe_request(node, request).await;
            match &stored {
                Ok(bytes) => {
                    available
                        .snitch
                        .record(node, world::milliseconds().saturating_sub(began));
                    if reply::is_incomplete(bytes) {
                        available
                            .fetch_ring(node, epoch, time_until(deadline))
                            .await;
                    }
                }
                // By that node's newer ring the write also goes to other nodes.
                Err(error) if error.reason == Reason::Changed => {
                    available
                        .fetch_ring(node, epoch, time_until(deadline))
                        .await;
                }
                Err(_) => {}
            }
            (node, stored.is_ok())
        });
    }
}

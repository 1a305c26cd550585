//! Write driver: sends a write to all nodes that keep the key, and to those that soon will.
//!
//! While the ring changes, each write also goes to the next owners (`logic::ring::Ring::receivers`)
//! and to the former ones. They do not count towards the quorum, but the client is answered only
//! after they have answered or are late. A next owner that did not take the write gets it later, by
//! a hint.

use super::handoff::ExtraReceivers;
use super::join_set::JoinSet;
use super::message::VnodeQuestion;
use super::reply;
use super::timing::{LATE_MS, TO_THE_END, asked_for, until};
use super::vnode_ops::{KeyRef, WritePolicy};
use crate::Available;
use base::{NodeId, Reason};
use bytes::Bytes;
use logic::quorum::{Store, StoreEffect, StoreEvent, Stored};
use runtime::world;
use runtime::world::sleep;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Maximum wait for next and former owners, in milliseconds, unless they are doubted before.
const PATIENCE_MS: u64 = 3_000;

/// Driver of a write.
pub(super) struct PutDriver {
    pub available: Arc<Available>,
    pub key_ref: KeyRef,
    pub policy: WritePolicy,
    /// Reached when it is firm here.
    pub ticket: u64,
    pub row: Bytes,
    /// Epoch of the ring by which the replicas were chosen.
    pub epoch: u64,
    /// Number of owners that must have it.
    pub pw: u8,
}

impl PutDriver {
    /// Runs the write to its end. The order of the steps matters:
    /// - Next owners are asked at once, though owners alone count towards the quorum: a partition
    ///   that goes over while the write runs must not lack it.
    /// - Until the answer each turn looks for a ring learned since: it names nodes that nobody sent
    ///   the write to.
    /// - A failure waits for nobody, since it promises nothing about who has the row.
    /// - After the answer the loop goes on: the rest get the row, or a hint in their place.
    /// - A next owner that fails or is slow gets a hint: it must not hold clients up, and nothing
    ///   but a comparison would bring it the row otherwise.
    /// - Fallbacks are asked beside late owners, whose answers still count.
    pub(super) async fn run(
        self,
        (mut machine, mut beside): (Store, ExtraReceivers),
        caller: oneshot::Sender<Stored>,
        within: Duration,
    ) {
        let began = world::milliseconds();
        let deadline = began + within.as_millis() as u64;
        let mut late = Some(began + LATE_MS);
        let mut patience = Some(began + PATIENCE_MS);
        let (mut tasks, mut effects) = (JoinSet::new(), Vec::new());
        let (mut caller, mut waiting) = (Some(caller), BTreeSet::new());
        let (mut answer, mut finished) = (None, false);
        machine.step(StoreEvent::Begun, &mut effects);
        self.ask_beside(beside.first(), &mut beside, deadline, &mut tasks);
        loop {
            for effect in std::mem::take(&mut effects) {
                match effect {
                    StoreEffect::Ask { node, instead_of } => {
                        waiting.insert(node);
                        self.ask(node, instead_of, deadline, &mut tasks);
                    }
                    StoreEffect::Done(stored) => answer = Some(stored),
                    StoreEffect::Finished => finished = true,
                }
            }
            let patient = answer == Some(Stored::Enough);
            if patient {
                self.ask_missed(&mut beside, deadline, &mut tasks);
            }
            if (beside.is_done() || !patient)
                && let Some(stored) = answer.take()
            {
                let stored = self.counted(stored, &beside);
                let _ = caller.take().map(|caller| caller.send(stored));
            }
            if finished && beside.is_done() {
                return tasks.finish(TO_THE_END).await;
            }
            tokio::select! {
                biased;
                (by, stored) = tasks.next() => {
                    if beside.answered(by, stored) {
                        if !stored {
                            self.remember(by, &beside);
                        }
                        continue;
                    }
                    waiting.remove(&by);
                    let event =
                        if stored { StoreEvent::Stored { by } } else { StoreEvent::Failed { by } };
                    machine.step(event, &mut effects);
                }
                () = sleep(until(late.or(patience).unwrap_or(deadline).min(deadline))) => {
                    if world::milliseconds() >= deadline {
                        machine.step(StoreEvent::OutOfTime, &mut effects);
                        self.give_up(&mut beside, |_| true);
                    } else if late.take().is_some() {
                        for by in waiting.clone() {
                            machine.step(StoreEvent::Late { by }, &mut effects);
                        }
                        self.give_up(&mut beside, |node| !self.available.reaches(node));
                    } else {
                        patience = None;
                        self.give_up(&mut beside, |_| true);
                    }
                }
            }
        }
    }

    /// Returns the outcome of a write, with the key's next owners counted.
    fn counted(&self, stored: Stored, beside: &ExtraReceivers) -> Stored {
        let short = || beside.short_of(self.pw, &self.available, &self.key_ref);
        if stored == Stored::Enough { short().map_or(stored, Stored::TooFew) } else { stored }
    }

    /// Sends it to the nodes that will keep the key by a ring that was learned since.
    fn ask_missed(
        &self,
        beside: &mut ExtraReceivers,
        deadline: u64,
        tasks: &mut JoinSet<(NodeId, bool)>,
    ) {
        let since = beside.missed(&self.available, &self.key_ref);
        self.ask_beside(since, beside, deadline, tasks);
    }

    /// Stops waiting for these additional nodes.
    fn give_up(&self, beside: &mut ExtraReceivers, whom: impl Fn(NodeId) -> bool) {
        for node in beside.give_up(whom) {
            self.remember(node, beside);
        }
    }

    /// Sends the write to next owners. Keeps a hint for a node that can't be reached.
    fn ask_beside(
        &self,
        nodes: Vec<NodeId>,
        beside: &mut ExtraReceivers,
        deadline: u64,
        tasks: &mut JoinSet<(NodeId, bool)>,
    ) {
        for node in nodes {
            if self.available.reaches(node) {
                self.ask(node, None, deadline, tasks);
            } else {
                beside.answered(node, false);
                self.remember(node, beside);
            }
        }
    }

    fn remember(&self, node: NodeId, beside: &ExtraReceivers) {
        if beside.must_have(node)
            && let Err(error) = self.available.vnode_store.remember(&self.key_ref, node)
        {
            tracing::debug!(target: "node", %error, "a write is left to comparison");
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
            // Written here before this began: only the disk is awaited.
            tasks.push(async move { (node, available.vnode_store.settled(ticket).await.is_ok()) });
            return;
        }
        // As with repairs: an old write is not sent.
        if world::milliseconds() > deadline {
            tasks.push(async move { (node, false) });
            return;
        }
        let (key_ref, policy, row) = (self.key_ref.clone(), self.policy, self.row.clone());
        let question = VnodeQuestion::Store { key_ref, policy, hint, row }.write();
        let epoch = self.epoch;
        tasks.push(async move {
            let within = asked_for(until(deadline));
            let asking = available.ask_vnode_of(epoch, node, question, within);
            let began = world::milliseconds();
            let stored = available.witnessed(node, asking).await;
            match &stored {
                Ok(bytes) => {
                    available.snitch.took(node, world::milliseconds().saturating_sub(began));
                    if reply::is_elsewhere_too(bytes) {
                        available.learn_ring(node, epoch, until(deadline)).await;
                    }
                }
                // By the ring that the node knows the write also goes to other nodes.
                Err(error) if error.reason == Reason::Changed => {
                    available.learn_ring(node, epoch, until(deadline)).await;
                }
                Err(_) => {}
            }
            (node, stored.is_ok())
        });
    }
}

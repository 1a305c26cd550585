//! Calls of a put: the questions to owners, fallbacks and extra receivers, and the hints for those
//! that do not store the write.

use super::handoff::ExtraReceivers;
use super::message::VnodeQuestion;
use super::operation::wake;
use super::put::{NodeResult, PutOperation, PutState};
use super::timing::{call_timeout, time_until};
use crate::Available;
use base::{NodeId, Result};
use bytes::Bytes;
use logic::quorum::StoreOutcome;
use runtime::world;
use std::sync::Arc;

impl PutOperation {
    /// Returns the outcome of a write after the check of `pw` at present and next owners.
    pub(super) fn check_pw(
        &self,
        available: &Available,
        stored: StoreOutcome,
        extra: &ExtraReceivers,
    ) -> StoreOutcome {
        if stored != StoreOutcome::Enough {
            return stored;
        }
        let shortfall = extra.pw_shortfall(self.pw, available, &self.key_ref);
        shortfall.map_or(stored, StoreOutcome::TooFew)
    }

    /// Sends the write to extra receivers. Returns the results that are known at once: a node that
    /// can't be reached does not store it.
    pub(super) fn ask_extra(
        self: &Arc<PutOperation>,
        available: &Arc<Available>,
        state: &mut PutState,
        nodes: Vec<NodeId>,
    ) -> Vec<NodeResult> {
        let mut results = Vec::new();
        for node in nodes {
            if available.reaches(node) {
                results.extend(self.ask(available, state, (node, None)));
            } else {
                results.push((node, false));
            }
        }
        results
    }

    /// Stops waiting for the selected extra receivers, and adds hints for those that need one.
    pub(super) fn give_up(
        &self,
        available: &Available,
        state: &mut PutState,
        select: impl Fn(NodeId) -> bool,
    ) {
        for node in state.extra.give_up(select) {
            self.add_hint(available, node, &state.extra);
        }
    }

    pub(super) fn add_hint(&self, available: &Available, node: NodeId, extra: &ExtraReceivers) {
        if extra.requires_copy(node)
            && let Err(error) = available.vnode_store.add_hint(&self.key_ref, node)
        {
            tracing::debug!(target: "node", %error, "a write is left to anti-entropy");
        }
    }

    /// Sends the write to a node, with a hint if it is a fallback. Returns the result if it is
    /// known at once.
    pub(super) fn ask(
        self: &Arc<PutOperation>,
        available: &Arc<Available>,
        state: &mut PutState,
        (node, hint): (NodeId, Option<NodeId>),
    ) -> Option<NodeResult> {
        if node == available.node {
            // Already written locally: only the batch is awaited.
            let operation = self.clone();
            let on_stored = move |result: Result<()>| operation.on_stored_locally(result.is_ok());
            let known = available.vnode_store.call_later_when_stored(self.ticket, on_stored);
            state.awaits_local = known.is_none();
            return known.map(|result| (node, result.is_ok()));
        }
        // A write past its deadline is not sent, as with read repairs.
        if world::milliseconds() > self.deadline_ms {
            return Some((node, false));
        }
        let question = match (hint, &state.question) {
            (None, Some(question)) => question.clone(),
            (hint, _) => self.question(hint),
        };
        if hint.is_none() {
            state.question = Some(question.clone());
        }
        let within = call_timeout(time_until(self.deadline_ms));
        let sent = state.calls.start(available, node, question, within, self.clone());
        sent.is_err().then_some((node, false))
    }

    fn question(&self, hint: Option<NodeId>) -> Bytes {
        let (key_ref, policy, row) = (self.key_ref.clone(), self.policy, self.row.clone());
        VnodeQuestion::Store { key_ref, policy, hint, row }.write_enveloped(self.epoch)
    }

    /// Fetches the ring of a node, by which the write also goes to other nodes, in a task. Only
    /// then does the node's answer count.
    pub(super) fn fetch_ring(
        self: &Arc<PutOperation>,
        available: &Arc<Available>,
        state: &mut PutState,
        (node, stored): NodeResult,
    ) {
        state.fetched_rings.push(node);
        let (operation, available) = (self.clone(), available.clone());
        let tasks = available.tasks.clone();
        tasks.spawn_short(async move {
            let within = time_until(operation.deadline_ms);
            available.fetch_ring(node, operation.epoch, within).await;
            let mut state = operation.state();
            state.fetched_rings.retain(|other| *other != node);
            if state.ended {
                return;
            }
            let waker = operation.advance(&available, &mut state, vec![(node, stored)]);
            drop(state);
            wake(waker);
        });
    }
}

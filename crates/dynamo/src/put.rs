//! Put: a write that this node coordinates, on its way to all owners of the key, and to its next
//! owners; driven by `logic::quorum`.
//!
//! The client is answered as soon as enough replicas have stored the write. The rest continues in
//! the background: the remaining nodes get the row, or a hint is stored for them.
//!
//! While the ring changes, each write also goes to the next owners (`logic::ring::Ring::receivers`)
//! and to the former ones. They do not count towards the quorum, but the client is answered only
//! after they have answered or are late. A next owner that did not store the write gets it later,
//! by a hint.

use super::handoff::ExtraReceivers;
use super::key_owners::KeyOwners;
use super::operation::{ClientSlot, wake};
use super::operation_timers::{TimedOperation, TimerKey};
use super::outstanding_calls::OutstandingCalls;
use super::reply;
use super::timing::{DRAIN_MS_MAX, LATE_MS};
use super::vnode_call::read_answer;
use super::vnode_ops::{EvaluatedWrite, KeyRef, Write, WritePolicy};
use crate::Available;
use base::{Error, NodeId, Reason, Result};
use bytes::Bytes;
use logic::quorum::{Replicas, Store, StoreEffect, StoreEvent, StoreNeeds, StoreOutcome};
use runtime::world;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use transport::{AnswerHandler, CallError};

/// Maximum wait for next and former owners, in milliseconds. Suspected nodes are given up earlier.
const EXTRA_MS_MAX: u64 = 3_000;

/// Put of one key.
pub(super) struct PutOperation {
    available: Weak<Available>,
    pub(super) key_ref: KeyRef,
    pub(super) policy: WritePolicy,
    /// Ticket of the local write: reached once it is in the store.
    pub(super) ticket: u64,
    pub(super) row: Bytes,
    /// Epoch of the ring by which the replicas were chosen.
    pub(super) epoch: u64,
    /// Number of primaries that must store it (`pw`).
    pub(super) pw: u8,
    pub(super) deadline_ms: u64,
    state: Mutex<PutState>,
}

/// State behind the operation's lock.
pub(super) struct PutState {
    quorum: Store,
    pub(super) extra: ExtraReceivers,
    client: ClientSlot<Result<StoreOutcome>>,
    /// Outcome of the quorum that waits for extra receivers.
    outcome: Option<StoreOutcome>,
    pub(super) calls: OutstandingCalls,
    /// True while the local batch is not applied.
    pub(super) awaits_local: bool,
    /// Nodes that have answered, and whose answer counts once their ring is fetched.
    pub(super) fetched_rings: Vec<NodeId>,
    /// The question to owners, which is the same for all of them.
    pub(super) question: Option<Bytes>,
    /// Time at which fallbacks are asked in addition. `None`: they were.
    late_ms: Option<u64>,
    /// Time at which extra receivers are given up. `None`: they were.
    extra_end_ms: Option<u64>,
    finished: bool,
    /// Time at which outstanding calls are given up. `None`: they count.
    drain_end_ms: Option<u64>,
    timer: Option<TimerKey>,
    pub(super) ended: bool,
}

/// Result of one node: true if it has stored the write.
pub(super) type NodeResult = (NodeId, bool);

/// Future of a put; the put goes on if it is dropped.
pub(super) struct PutReply(Arc<PutOperation>);

impl Future for PutReply {
    type Output = Result<()>;

    fn poll(self: Pin<&mut PutReply>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let polled = self.0.state().client.poll(context);
        polled.map(|outcome| match outcome? {
            StoreOutcome::Enough => Ok(()),
            StoreOutcome::TooFew(short) | StoreOutcome::TimedOut(short) => Err(short.write_error(
                "fewer replicas accepted the write than required; those that did keep it, and it \
                 may spread: read before you write again",
            )),
        })
    }
}

impl Available {
    /// Writes locally, and begins to send the write to all replicas.
    pub(super) fn start_put(
        self: &Arc<Available>,
        owners: KeyOwners,
        write: Write,
        (policy, needs): (WritePolicy, StoreNeeds),
        within: Duration,
    ) -> Result<(EvaluatedWrite, PutReply)> {
        self.lift_stale_fence();
        let hint = self.fallback_for(&owners.replicas);
        let extra = ExtraReceivers::new(self.node, &owners);
        let KeyOwners { key_ref, replicas, epoch, .. } = owners;
        // Locally first: the dot is this vnode's, and the other replicas merge the row with it.
        let written = self.vnode_store.write(&key_ref, write, policy, hint)?;
        let began_ms = world::milliseconds();
        let state = PutState {
            calls: OutstandingCalls::with_capacity(replicas.primaries.len()),
            quorum: Store::new(needs, replicas),
            extra,
            client: ClientSlot::new(),
            outcome: None,
            awaits_local: false,
            fetched_rings: Vec::new(),
            question: None,
            late_ms: Some(began_ms + LATE_MS),
            extra_end_ms: Some(began_ms + EXTRA_MS_MAX),
            finished: false,
            drain_end_ms: None,
            timer: None,
            ended: false,
        };
        let operation = Arc::new(PutOperation {
            available: Arc::downgrade(self),
            key_ref,
            policy,
            ticket: written.ticket,
            row: written.bytes.clone(),
            epoch,
            pw: needs.pw,
            deadline_ms: began_ms + within.as_millis() as u64,
            state: Mutex::new(state),
        });
        operation.begin(self);
        Ok((written, PutReply(operation)))
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
}

impl PutOperation {
    pub(super) fn state(&self) -> MutexGuard<'_, PutState> {
        self.state.lock().expect("no one panics while holding it")
    }

    /// Asks next owners, which do not count towards the quorum, and all owners: a partition that
    /// moves while the write runs must not lack it.
    fn begin(self: &Arc<PutOperation>, available: &Arc<Available>) {
        let mut state = self.state();
        let due_ms = self.next_due_ms(&state);
        match available.operation_timers.schedule(due_ms, self.clone()) {
            Ok(timer) => state.timer = Some(timer),
            Err(_) => {
                let _ = state.client.answer(Err(stopping()));
                state.ended = true;
                return;
            }
        }
        let initial = state.extra.initial();
        let mut results = self.ask_extra(available, &mut state, initial);
        results.extend(self.step(available, &mut state, StoreEvent::Started));
        let waker = self.advance(available, &mut state, results);
        drop(state);
        wake(waker);
    }

    /// Feeds an event to the quorum, and carries out the effects. Returns the results that are
    /// known at once.
    fn step(
        self: &Arc<PutOperation>,
        available: &Arc<Available>,
        state: &mut PutState,
        event: StoreEvent,
    ) -> Vec<NodeResult> {
        let (mut effects, mut results) = (Vec::new(), Vec::new());
        if matches!(event, StoreEvent::Failed { .. } | StoreEvent::Late { .. }) {
            state.quorum.mark_down(|node| !available.reaches(node));
        }
        state.quorum.step(event, &mut effects);
        for effect in effects {
            match effect {
                StoreEffect::Ask { node, fallback_for } => {
                    results.extend(self.ask(available, state, (node, fallback_for)));
                }
                StoreEffect::Done(stored) => state.outcome = Some(stored),
                StoreEffect::Finished => state.finished = true,
            }
        }
        results
    }

    /// Handles results, and what follows from them. Returns the waker of the client if it is
    /// answered. The order of the steps is essential:
    /// - Until the client is answered, each turn checks for a newer ring, which may name nodes that
    ///   have not been sent the write.
    /// - A failure does not wait for extra receivers, since it promises nothing about the replicas.
    /// - A next owner that fails or is slow gets a hint: it must not delay clients, and only
    ///   anti-entropy would send it the row otherwise.
    /// - Fallbacks are asked in addition to late owners, whose answers still count.
    pub(super) fn advance(
        self: &Arc<PutOperation>,
        available: &Arc<Available>,
        state: &mut PutState,
        mut results: Vec<NodeResult>,
    ) -> Option<Waker> {
        let mut waker = None;
        loop {
            while let Some((by, stored)) = results.pop() {
                if state.extra.on_answer(by, stored) {
                    if !stored {
                        self.add_hint(available, by, &state.extra);
                    }
                    continue;
                }
                let event =
                    if stored { StoreEvent::Stored { by } } else { StoreEvent::Failed { by } };
                results.extend(self.step(available, state, event));
            }
            let awaits_extra = state.outcome == Some(StoreOutcome::Enough);
            if awaits_extra {
                let receivers = state.extra.new_receivers(available, &self.key_ref);
                results = self.ask_extra(available, state, receivers);
            }
            if results.is_empty() {
                if (state.extra.is_done() || !awaits_extra)
                    && let Some(stored) = state.outcome.take()
                {
                    let stored = self.check_pw(available, stored, &state.extra);
                    waker = state.client.answer(Ok(stored));
                }
                break;
            }
        }
        if state.finished && state.extra.is_done() && state.drain_end_ms.is_none() {
            state.drain_end_ms = Some(world::milliseconds() + DRAIN_MS_MAX);
        }
        if state.drain_end_ms.is_some() && state.calls.is_empty() {
            self.end(available, state);
        }
        waker
    }

    pub(super) fn on_stored_locally(self: Arc<PutOperation>, stored: bool) {
        let Some(available) = self.available.upgrade() else { return };
        let mut state = self.state();
        state.awaits_local = false;
        if state.ended {
            return;
        }
        let waker = self.advance(&available, &mut state, vec![(available.node, stored)]);
        drop(state);
        wake(waker);
    }

    /// Returns the time at which the operation must be called next, in milliseconds.
    fn next_due_ms(&self, state: &PutState) -> u64 {
        let own_ms = match state.drain_end_ms {
            Some(drain_end_ms) => drain_end_ms,
            None => {
                let next_ms = state.late_ms.or(state.extra_end_ms).unwrap_or(self.deadline_ms);
                next_ms.min(self.deadline_ms)
            }
        };
        state.calls.next_due_ms().map_or(own_ms, |due_ms| due_ms.min(own_ms))
    }

    fn end(&self, available: &Available, state: &mut PutState) {
        state.ended = true;
        state.calls.cancel_all(available);
        if let Some(timer) = state.timer.take() {
            available.operation_timers.remove(timer);
        }
    }

    /// Tells the quorum that the nodes which have not answered are late, or that the time is up.
    fn on_own_time(
        self: &Arc<PutOperation>,
        available: &Arc<Available>,
        state: &mut PutState,
        now_ms: u64,
    ) -> Vec<NodeResult> {
        let mut results = Vec::new();
        if now_ms >= self.deadline_ms {
            results = self.step(available, state, StoreEvent::TimedOut);
            self.give_up(available, state, |_| true);
        } else if state.late_ms.take_if(|late_ms| now_ms >= *late_ms).is_some() {
            let mut late = state.calls.nodes();
            late.extend(&state.fetched_rings);
            late.extend(state.awaits_local.then_some(available.node));
            for by in late {
                results.extend(self.step(available, state, StoreEvent::Late { by }));
            }
            self.give_up(available, state, |node| !available.reaches(node));
        } else if state.extra_end_ms.take_if(|end_ms| now_ms >= *end_ms).is_some() {
            self.give_up(available, state, |_| true);
        }
        results
    }
}

impl AnswerHandler for PutOperation {
    fn on_answer(
        self: Arc<PutOperation>,
        from: NodeId,
        answer: std::result::Result<Bytes, CallError>,
    ) {
        let Some(available) = self.available.upgrade() else { return };
        let answer = read_answer(from, answer);
        let mut state = self.state();
        if state.ended {
            return;
        }
        let Some(took_ms) = state.calls.finish(&available, from, &answer) else { return };
        let has_newer_ring = match &answer {
            Ok(bytes) => {
                available.snitch.record(from, took_ms);
                reply::is_incomplete(bytes)
            }
            Err(error) => error.reason == Reason::Changed,
        };
        let result = (from, answer.is_ok());
        let waker = if has_newer_ring {
            self.fetch_ring(&available, &mut state, result);
            None
        } else {
            self.advance(&available, &mut state, vec![result])
        };
        drop(state);
        wake(waker);
    }
}

impl TimedOperation for PutOperation {
    fn on_time(self: Arc<PutOperation>, available: &Arc<Available>) {
        let mut state = self.state();
        state.timer = None;
        if state.ended {
            return;
        }
        let expired = state.calls.on_time(available);
        let mut results: Vec<_> = expired.into_iter().map(|(node, _)| (node, false)).collect();
        let now_ms = world::milliseconds();
        if state.drain_end_ms.is_some_and(|end_ms| now_ms >= end_ms) {
            self.end(available, &mut state);
            return;
        }
        if state.drain_end_ms.is_none() {
            results.extend(self.on_own_time(available, &mut state, now_ms));
        }
        let mut waker = self.advance(available, &mut state, results);
        if !state.ended {
            let due_ms = self.next_due_ms(&state).max(now_ms + 1);
            match available.operation_timers.schedule(due_ms, self.clone()) {
                Ok(timer) => state.timer = Some(timer),
                Err(_) => {
                    waker = state.client.answer(Err(stopping())).or(waker);
                    self.end(available, &mut state);
                }
            }
        }
        drop(state);
        wake(waker);
    }
}

/// Returns the error of a write that is logged here when the node stops. It must not claim that
/// nothing was done: the client would have another node write it again.
fn stopping() -> Error {
    let text = "the node is stopping: the write is in its log and may spread; read before you \
                write again";
    Error::new(Reason::DeadlinePassed, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Kind;

    #[test]
    fn logged_write_of_a_stopping_node_has_unknown_outcome() {
        assert_eq!(stopping().kind(), Kind::Unknown);
    }
}

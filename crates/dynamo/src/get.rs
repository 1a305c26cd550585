//! Get: reads a key from its replicas, merges their rows, and repairs stale ones; driven by
//! `logic::quorum`.
//!
//! The client is answered as soon as enough replicas have answered. The rest, the last answers and
//! the repairs, continues in the background until it is done or times out.

use super::key_owners::KeyOwners;
use super::message::VnodeQuestion;
use super::operation::{ClientSlot, wake};
use super::operation_timers::{TimedOperation, TimerKey};
use super::outstanding_calls::OutstandingCalls;
use super::replica_row::ReplicaRow;
use super::timing::{DRAIN_MS_MAX, LATE_MS, call_timeout, time_until};
use super::vnode_call::read_answer;
use super::vnode_ops::{KeyRef, WritePolicy};
use crate::Available;
use base::codec::Malformed;
use base::error::corrupt;
use base::{Error, NodeId, Reason, Result};
use bytes::Bytes;
use logic::quorum::{Fetch, FetchEffect, FetchEvent, FetchNeeds, FetchOutcome};
use runtime::world;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use transport::{AnswerHandler, CallError};
use vnode_rows::layout::Row;

/// Pause between checks of an operation whose answers wait for a newer ring, in milliseconds.
const RING_PAUSE_MS: u64 = 10;

/// Outcome of a get, before the bucket's rules are applied.
pub(super) type Fetched = Result<FetchOutcome<ReplicaRow>>;

/// Answer of one replica: its row, or none.
type ReplicaAnswer = Result<Option<Bytes>>;

/// Get of one key.
pub(super) struct GetOperation {
    available: Weak<Available>,
    pub(super) key_ref: KeyRef,
    pub(super) policy: WritePolicy,
    /// Epoch of the ring by which the replicas were chosen.
    pub(super) epoch: u64,
    pub(super) within: Duration,
    pub(super) deadline_ms: u64,
    state: Mutex<GetState>,
}

/// State behind the operation's lock.
struct GetState {
    quorum: Fetch<ReplicaRow>,
    client: ClientSlot<Fetched>,
    calls: OutstandingCalls,
    /// Rows that replicas have answered, each once.
    known_rows: Vec<ReplicaRow>,
    /// Time at which fallbacks are asked in addition. `None`: they were.
    late_ms: Option<u64>,
    /// Answers that wait until the ring of a node that refused is fetched. `None`: no ring is being
    /// fetched.
    held_answers: Option<Vec<(NodeId, ReplicaAnswer)>>,
    /// Time at which outstanding calls are given up. `None`: the quorum still counts them.
    drain_end_ms: Option<u64>,
    timer: Option<TimerKey>,
    ended: bool,
}

/// Future of a get; the get goes on if it is dropped.
pub(super) enum GetReply {
    /// The row is known. `None`: there is none.
    Ready(Option<ReplicaRow>),
    /// The answer of an operation.
    Waiting(Arc<GetOperation>),
}

impl Future for GetReply {
    type Output = Fetched;

    fn poll(self: Pin<&mut GetReply>, context: &mut Context<'_>) -> Poll<Fetched> {
        match self.get_mut() {
            GetReply::Ready(row) => {
                Poll::Ready(Ok(row.take().map_or(FetchOutcome::NotFound, FetchOutcome::Found)))
            }
            GetReply::Waiting(operation) => operation.state().client.poll(context),
        }
    }
}

impl Available {
    /// Returns the row that a get has found, without what its bucket does not show. `None`: its
    /// replicas have no row. Errors: `Changed` if the ring has changed; then this node has the new
    /// one.
    pub(super) fn fetched_row(&self, policy: WritePolicy, fetched: Fetched) -> Result<Option<Row>> {
        match fetched? {
            FetchOutcome::Found(found) => {
                let row = policy.resolve(found.into_row());
                self.count_siblings(&row);
                Ok(Some(row))
            }
            FetchOutcome::NotFound => Ok(None),
            FetchOutcome::TooFew(short) | FetchOutcome::TimedOut(short) => Err(short.read_error(
                "fewer replicas answered than the read requires: start the nodes that are down, or \
                 lower the quorum",
            )),
        }
    }

    /// Begins to read a row from its replicas and to merge their answers.
    pub(super) fn start_get(
        self: &Arc<Available>,
        owners: KeyOwners,
        (policy, needs): (WritePolicy, FetchNeeds),
        within: Duration,
    ) -> Result<GetReply> {
        let KeyOwners { key_ref, replicas, epoch, .. } = owners;
        // This node alone has the key: its row is the answer. A row that can't be read is left to
        // the operation.
        if replicas.primaries[..] == [self.node]
            && needs.node_confirms <= 1
            && let Ok(row) = self.vnode_store.read(&key_ref)
            && let Ok(row) = row.map(|row| ReplicaRow::read(row, &[])).transpose()
        {
            return Ok(GetReply::Ready(row));
        }
        let began_ms = world::milliseconds();
        let deadline_ms = began_ms + within.as_millis() as u64;
        let state = GetState {
            calls: OutstandingCalls::with_capacity(replicas.primaries.len()),
            quorum: Fetch::new(needs, replicas),
            client: ClientSlot::new(),
            known_rows: Vec::new(),
            late_ms: Some(began_ms + LATE_MS),
            held_answers: None,
            drain_end_ms: None,
            timer: None,
            ended: false,
        };
        let (available, state) = (Arc::downgrade(self), Mutex::new(state));
        let operation =
            GetOperation { available, key_ref, policy, epoch, within, deadline_ms, state };
        let operation = Arc::new(operation);
        operation.begin(self)?;
        Ok(GetReply::Waiting(operation))
    }
}

impl GetOperation {
    fn state(&self) -> MutexGuard<'_, GetState> {
        self.state.lock().expect("no one panics while holding it")
    }

    /// Asks the replicas. Errors: the node stops.
    fn begin(self: &Arc<GetOperation>, available: &Arc<Available>) -> Result<()> {
        let mut state = self.state();
        let due_ms = self.next_due_ms(&state);
        state.timer = Some(available.operation_timers.schedule(due_ms, self.clone())?);
        let waker = self.step(available, &mut state, FetchEvent::Started);
        self.end_if_done(available, &mut state);
        drop(state);
        wake(waker);
        Ok(())
    }

    /// Feeds an event to the quorum, and carries out the effects. Returns the waker of the client
    /// if it is answered.
    fn step(
        self: &Arc<GetOperation>,
        available: &Arc<Available>,
        state: &mut GetState,
        event: FetchEvent<ReplicaRow>,
    ) -> Option<Waker> {
        let (mut effects, mut events, mut waker) = (Vec::new(), vec![event], None);
        while let Some(event) = events.pop() {
            if matches!(event, FetchEvent::Failed { .. } | FetchEvent::Late { .. }) {
                state.quorum.mark_down(|node| !available.reaches(node));
            }
            state.quorum.step(event, &mut effects);
            for effect in effects.drain(..) {
                match effect {
                    FetchEffect::Ask { node, .. } => {
                        if let Some(answer) = self.ask(available, state, node) {
                            events.push(state.answer_event(node, answer));
                        }
                    }
                    FetchEffect::Done(fetched) => waker = state.client.answer(Ok(fetched)),
                    FetchEffect::Repair { node, versions } => {
                        self.repair(available, node, versions);
                    }
                    FetchEffect::Finished => {
                        state.drain_end_ms = Some(world::milliseconds() + DRAIN_MS_MAX);
                    }
                }
            }
        }
        waker
    }

    /// Asks a replica. Returns its answer if that is known at once.
    fn ask(
        self: &Arc<GetOperation>,
        available: &Available,
        state: &mut GetState,
        node: NodeId,
    ) -> Option<ReplicaAnswer> {
        if node == available.node {
            return Some(available.vnode_store.read(&self.key_ref));
        }
        let question = VnodeQuestion::Fetch(self.key_ref.clone()).write_enveloped(self.epoch);
        let within = call_timeout(time_until(self.deadline_ms));
        state.calls.start(available, node, question, within, self.clone()).err().map(Err)
    }

    /// Handles the outcome of a call to a replica. Returns the waker of the client if it is
    /// answered.
    fn on_outcome(
        self: &Arc<GetOperation>,
        available: &Arc<Available>,
        state: &mut GetState,
        node: NodeId,
        answer: ReplicaAnswer,
    ) -> Option<Waker> {
        if let Some(held) = &mut state.held_answers {
            held.push((node, answer));
            return None;
        }
        // With the older ring, answers of former owners would be counted. After the client is
        // answered nothing is counted any more.
        let is_refused = answer.as_ref().is_err_and(|error| error.reason == Reason::Changed);
        if is_refused && state.client.is_awaited() {
            state.held_answers = Some(vec![(node, answer)]);
            self.fetch_ring(available, node);
            return None;
        }
        let event = state.answer_event(node, answer);
        self.step(available, state, event)
    }

    /// Fetches the ring of a node that refused because it has a newer one, in a task.
    fn fetch_ring(self: &Arc<GetOperation>, available: &Arc<Available>, from: NodeId) {
        let (operation, available) = (self.clone(), available.clone());
        let tasks = available.tasks.clone();
        tasks.spawn_short(async move {
            let within = time_until(operation.deadline_ms);
            let is_newer = available.fetch_ring(from, operation.epoch, within).await;
            let mut state = operation.state();
            if state.ended {
                return;
            }
            let held = state.held_answers.take().unwrap_or_default();
            let mut waker = None;
            if is_newer {
                // The caller retries with the new ring.
                waker = state.client.answer(Err(ring_changed()));
                operation.end(&available, &mut state);
            } else {
                for (node, answer) in held {
                    let event = state.answer_event(node, answer);
                    waker = operation.step(&available, &mut state, event).or(waker);
                }
                operation.end_if_done(&available, &mut state);
            }
            drop(state);
            wake(waker);
        });
    }

    /// Returns the time at which the operation must be called next, in milliseconds.
    fn next_due_ms(&self, state: &GetState) -> u64 {
        let own_ms = match state.drain_end_ms {
            Some(drain_end_ms) => drain_end_ms,
            None => state.late_ms.unwrap_or(self.deadline_ms).min(self.deadline_ms),
        };
        state.calls.next_due_ms().map_or(own_ms, |due_ms| due_ms.min(own_ms))
    }

    /// Ends the operation if the quorum is finished and no call is outstanding.
    fn end_if_done(&self, available: &Available, state: &mut GetState) {
        if state.drain_end_ms.is_some() && state.calls.is_empty() {
            self.end(available, state);
        }
    }

    fn end(&self, available: &Available, state: &mut GetState) {
        state.ended = true;
        state.calls.cancel_all(available);
        if let Some(timer) = state.timer.take() {
            available.operation_timers.remove(timer);
        }
    }
}

impl AnswerHandler for GetOperation {
    fn on_answer(
        self: Arc<GetOperation>,
        from: NodeId,
        answer: std::result::Result<Bytes, CallError>,
    ) {
        let Some(available) = self.available.upgrade() else { return };
        let answer = read_answer(from, answer);
        let mut state = self.state();
        if state.ended || state.calls.finish(&available, from, &answer).is_none() {
            return;
        }
        let answer = answer.and_then(|bytes| match bytes.first() {
            Some(1) => Ok(Some(bytes.slice(1..))),
            Some(0) => Ok(None),
            _ => Err(corrupt(Malformed("yes or no"))),
        });
        let waker = self.on_outcome(&available, &mut state, from, answer);
        self.end_if_done(&available, &mut state);
        drop(state);
        wake(waker);
    }
}

impl TimedOperation for GetOperation {
    fn on_time(self: Arc<GetOperation>, available: &Arc<Available>) {
        let mut state = self.state();
        state.timer = None;
        if state.ended {
            return;
        }
        let mut waker = None;
        for (node, error) in state.calls.on_time(available) {
            waker = self.on_outcome(available, &mut state, node, Err(error)).or(waker);
        }
        let now_ms = world::milliseconds();
        if state.drain_end_ms.is_some_and(|end_ms| now_ms >= end_ms) {
            self.end(available, &mut state);
        } else if state.drain_end_ms.is_none() && state.held_answers.is_none() {
            if now_ms >= self.deadline_ms {
                let event = FetchEvent::TimedOut;
                waker = self.step(available, &mut state, event).or(waker);
            } else if state.late_ms.take_if(|late_ms| now_ms >= *late_ms).is_some() {
                for by in state.calls.nodes() {
                    let event = FetchEvent::Late { by };
                    waker = self.step(available, &mut state, event).or(waker);
                }
            }
        }
        self.end_if_done(available, &mut state);
        if !state.ended {
            let pause_ms = if state.held_answers.is_some() { RING_PAUSE_MS } else { 1 };
            let due_ms = self.next_due_ms(&state).max(now_ms + pause_ms);
            match available.operation_timers.schedule(due_ms, self.clone()) {
                Ok(timer) => state.timer = Some(timer),
                Err(error) => {
                    waker = state.client.answer(Err(error)).or(waker);
                    self.end(available, &mut state);
                }
            }
        }
        drop(state);
        wake(waker);
    }
}

impl GetState {
    /// Returns the event of a replica's answer. A row that can't be decoded counts as a failure.
    fn answer_event(&mut self, by: NodeId, answer: ReplicaAnswer) -> FetchEvent<ReplicaRow> {
        let Ok(row) = answer else { return FetchEvent::Failed { by } };
        let row = row.map(|row| ReplicaRow::read(row, &self.known_rows)).transpose();
        match row {
            Ok(versions) => {
                self.known_rows.extend(versions.clone());
                FetchEvent::Answered { by, versions }
            }
            Err(_) => FetchEvent::Failed { by },
        }
    }
}

/// Returns the error of a read by an outdated ring.
fn ring_changed() -> Error {
    Error::new(Reason::Changed, "the ring has changed: try again")
}

//! Carries out what consensus decides for one group: closes values, has them logged and sent,
//! applies them, wakes who waits.
//!
//! One turn does everything that can be done without waiting; between turns the task sleeps until a
//! record is written, a message or an update arrives, or time is up. When a value is closed says
//! `pace.rs`.
//!
//! What the replica wants is noted in the very step that wants it (`step`), under the group's lock:
//! an index may mean another value one step later. It is carried out behind the lock, in order.

use super::batch::Batch;
use super::catch_up::Fetches;
use super::evaluate::{Swept, expire_due};
use super::group::{Group, GroupState};
use super::leadership::not_master;
use super::records::{self, LogHead};
use base::{Error, LogIndex, Millis, Reason, Result};
use bytes::Bytes;
use logic::consensus::{Configuration, Effect, Event, Refusal, RefusedCall, Role, ValueHandle};
use runtime::metrics::Metrics;
use runtime::mutants::{Flaw, flawed};
use runtime::submit::Ticket;
use runtime::world;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::watch;

/// Hints looked at in one value that collects what expired.
const EXPIRED_PER_VALUE: usize = 1_000;
/// Expired rows are collected at most this often: a row may be seen this much longer.
const EXPIRY_PAUSE_MS: u64 = 10;
/// So far ahead of group time the sweep looks for the next expiry, milliseconds: what touches
/// deleted there is walked over under the group's lock, so it is little at a time.
const LOOK_AHEAD_MS_MIN: u64 = 1_000;
/// The same where nothing was found for long, milliseconds.
const LOOK_AHEAD_MS_MAX: u64 = 64_000;

impl Group {
    /// Drives the group until `stop` says so or it fails.
    pub async fn drive(self: Arc<Group>, mut stop: watch::Receiver<bool>) -> Result<()> {
        self.begin();
        let mut fetches = Fetches::default();
        loop {
            if self.driver.is_dropped() {
                let text = format!("group {} was dropped", self.id);
                self.fail(Error::new(Reason::Moved, text));
                return Ok(());
            }
            let sleep = match self.turn(*stop.borrow()) {
                Ok(sleep) => sleep,
                Err(error) => {
                    self.fail(error.clone());
                    return Err(error);
                }
            };
            if *stop.borrow() && self.has_retired() {
                self.driver.stop();
                return Ok(());
            }
            self.fetch_wanted(&mut fetches);
            tokio::select! {
                biased;
                Some(ended) = fetches.tasks.join_next() => {
                    self.fetched(ended).inspect_err(|error| self.fail(error.clone()))?;
                }
                () = self.driver.woken() => {}
                () = world::sleep(sleep) => {}
                _ = stop.changed() => self.retire(),
            }
        }
    }

    fn has_retired(&self) -> bool {
        let mut state = self.state();
        state.ended = state.retiring
            && state.replica.role() == Role::Follower
            && self.applied.index() >= state.decided;
        let ended = state.ended;
        if ended {
            state.statement.copy = None;
            let arrived = std::mem::take(&mut state.arrived);
            drop(state);
            drop(arrived); // Its files go, before the node has ended.
        }
        ended
    }

    /// Begins this life of the replica.
    pub fn begin(&self) {
        let mut guard = self.state();
        let state = &mut *guard;
        let now = Millis(world::milliseconds());
        self.step(state, Event::Started { now }, &[]);
        self.look_at_collapse(state);
    }

    /// Nothing new is taken here, and mastership is given back once all that was taken is decided.
    /// From then on this replica votes and follows, and leads no more.
    pub fn retire(&self) {
        let mut guard = self.state();
        let state = &mut *guard;
        self.master.store(false, Ordering::Release);
        state.close();
        state.retiring = true;
        self.driver.wake();
    }

    /// No more answers from this group, for this reason.
    pub fn fail(&self, error: Error) {
        let given_up = {
            let mut state = self.state();
            self.master.store(false, Ordering::Release);
            self.lease_until.store(0, Ordering::Release);
            state.failed.get_or_insert(error.clone());
            state.reads.clear();
            (state.statement.copy.take(), std::mem::take(&mut state.arrived))
        };
        drop(given_up);
        self.standing.send_modify(|standing| {
            (standing.role, standing.master) = (Some(Role::Follower), None);
            standing.since_ms = world::milliseconds();
        });
        let unknown = Error::new(
            Reason::InDoubt,
            format!("the node failed before this was known to be written: {}", error.text()),
        );
        self.applied.fail(unknown);
        self.driver.stop();
    }

    /// Everything that can be done now. Gives how long there is nothing to do.
    pub fn turn(&self, stopping: bool) -> Result<Duration> {
        let written = self.driver.take_written();
        let came = self.driver.inbox().take();
        let mut guard = self.state();
        let state = &mut *guard;
        let now = Millis(world::milliseconds());
        self.go_on_sending(state, now);
        self.tick(state, now);
        for done in written {
            self.written(state, done);
        }
        for message in came {
            self.receive(state, message, now);
        }
        self.look_at_collapse(state);
        self.collect_expired(state)?;
        self.propose(state, now);
        self.give_up_late(state);
        self.publish_lease(state);
        self.plan_tick(state);
        let sleep = state.sleep(now);
        let copy = state.statement.copy.take();
        let asked = std::mem::take(&mut state.statement.asked) || copy.is_some();
        let head = asked.then(|| LogHead::of(&state.replica));
        let mut jobs = std::mem::take(&mut state.jobs);
        state.statement.wrote |= !jobs.is_empty();
        let letters = std::mem::take(&mut state.letters);
        let mut rests = std::mem::take(&mut state.rests);
        let decided = state.decided;
        if let Some(error) = state.failed.clone() {
            return Err(error);
        }
        jobs.extend(head.iter().flat_map(|head| head.records(self.id, copy.is_some())));
        // Under the lock, and before they are handed over: whoever truncates the log sees them
        // here, or read where it ends before they were written.
        state.values.in_flight.hand_over(self.shared.keeper.end(), &jobs);
        drop(guard);
        self.shared.keeper.write(jobs);
        drop(copy); // Who asked for it hears that the keeper has it.
        self.post(letters, (&mut rests, decided))?;
        let wait = self.apply_decided(stopping)?;
        self.install_snapshot()?;
        let wait = if self.let_go()? { Some(Duration::ZERO) } else { wait };
        let mut guard = self.state();
        self.take_office(&mut guard)?;
        let sleep = rests.sleep().map_or(sleep, |rest| sleep.min(rest));
        guard.rests = rests;
        let more = !guard.letters.is_empty() || !guard.jobs.is_empty();
        Ok(if more { Duration::ZERO } else { sleep.min(wait.unwrap_or(sleep)) })
    }

    /// What the last turn did not send, and what is to be sent now. Before anything that arrived:
    /// an answer makes the replica send what follows the last that it believes was sent.
    fn go_on_sending(&self, state: &mut GroupState, now: Millis) {
        for (to, after) in std::mem::take(&mut state.rests.unsent) {
            self.step(state, Event::Unsent { to, after }, &[]);
        }
        let rate = self.shared.limits.catch_up_bytes_per_second;
        for (to, after) in state.rests.ended(rate, state.decided, now.0) {
            self.step(state, Event::Unsent { to, after }, &[]);
            self.step(state, Event::Room { to }, &[]);
        }
        for to in state.rests.retried(now.0) {
            self.step(state, Event::Room { to }, &[]);
        }
    }

    /// One event, and what the replica wants because of it. `came`: the values that a message
    /// brought.
    pub(super) fn step(&self, state: &mut GroupState, event: Event, came: &[(LogIndex, Bytes)]) {
        let mut effects = std::mem::take(&mut state.effects);
        state.replica.step(event, &mut effects);
        // Only where a step ends counts: a replica that moves on to its next configuration follows
        // nobody on the way there.
        let role = |effect: &Effect| matches!(effect, Effect::Role { .. });
        let last_role = effects.iter().rposition(role);
        for (place, effect) in effects.drain(..).enumerate() {
            if !role(&effect) || Some(place) == last_role {
                self.note(state, effect, came);
            }
        }
        state.effects = effects;
    }

    fn note(&self, state: &mut GroupState, effect: Effect, came: &[(LogIndex, Bytes)]) {
        match effect {
            Effect::SavePromise { ballot } => {
                state.jobs.push(records::promise(self.id, ballot, state.replica.tear()));
            }
            Effect::Adopt { ballot, from, upto } => {
                state.values.adopt(ballot, from, upto);
                state.jobs.push(records::adopt(self.id, ballot, from, upto));
            }
            Effect::SaveDecided { upto } => state.jobs.push(records::decided(self.id, upto, false)),
            Effect::Stage { index, ballot } => {
                let (payload, _) = state.payload(index, came);
                state.values.stage(ballot, index, payload.clone());
                state.jobs.push(records::stage(self.id, ballot, index, payload));
            }
            Effect::Save { index, ballot, decided } => {
                let (payload, sync) = state.payload(index, came);
                Metrics::count(&self.shared.metrics.log_entries);
                state.values.accept(index, payload.clone(), sync);
                state.jobs.push(records::accept(self.id, ballot, index, decided, payload, sync));
            }
            Effect::Decided { upto } => self.note_decided(state, upto),
            Effect::Role { role, master, .. } => self.role_changed(state, role, master),
            Effect::Send { to, message } => state.write_letters(to, message),
            Effect::ReadAt { token, index } => {
                if let Some(reader) = state.reads.remove(&token) {
                    let _ = reader.send(Ok(index)); // It may have given up.
                }
            }
            Effect::Refused { asked, reason } => self.note_refusal(state, asked, reason),
            Effect::MayLack { behind } => self.may_lack(state, behind),
            Effect::FetchSnapshot { from } => state.wants_snapshot = Some(from),
            Effect::Configured { configuration, base } => {
                let group = self.id.0;
                state.rests.flights.keep(state.replica.configuration());
                tracing::info!(target: "consensus", group, %base, "configuration {configuration}");
                self.reconfigured(state);
            }
            Effect::Ended => self.dismissed(),
        }
    }

    fn note_refusal(&self, state: &mut GroupState, asked: RefusedCall, reason: Refusal) {
        match asked {
            RefusedCall::Read(token) => {
                if let Some(reader) = state.reads.remove(&token) {
                    let _ = reader.send(Err(not_now(reason)));
                }
            }
            RefusedCall::HandOver(_) => state.refused = Some(reason),
            // It stays in the queue, and is proposed when there is room.
            RefusedCall::Propose => {}
        }
    }

    /// What the log let go of can't be sent any more.
    fn look_at_collapse(&self, state: &mut GroupState) {
        let start = self.shared.keeper.begin();
        if start > state.log_start {
            state.log_start = start;
            state.values.collapse(start, self.applied.index());
        }
        // Memory may have had longer what the log let go of.
        let upto = self.floor(state);
        if upto > state.replica.floor() {
            self.step(state, Event::Collapsed { upto }, &[]);
        }
    }

    fn collect_expired(&self, state: &mut GroupState) -> Result<()> {
        let now = state.clock.now();
        let idle = state.next_expiry > now || !self.master.load(Ordering::Acquire);
        if idle || state.failed.is_some() {
            return Ok(());
        }
        let (fresh, _) = state.begin(self.id);
        let from = std::mem::take(&mut state.swept);
        let ahead = state.look_ahead_ms.max(LOOK_AHEAD_MS_MIN);
        let mut view = state.view(self);
        let Swept { looked, upto, next } = expire_due(&mut view, from, EXPIRED_PER_VALUE, ahead)?;
        state.swept = upto;
        if looked > 0 {
            self.shared.metrics.expired.fetch_add(looked as u64, Ordering::Relaxed);
            self.take(state, fresh, false);
        }
        state.next_expiry = match next {
            Some(expires) => expires.max(now + EXPIRY_PAUSE_MS),
            None => now.saturating_add(ahead),
        };
        // A group in which nothing expires is looked at ever more seldom.
        let idle = looked == 0 && next.is_none();
        state.look_ahead_ms = if idle { (ahead * 2).min(LOOK_AHEAD_MS_MAX) } else { 0 };
        Ok(())
    }

    fn propose(&self, state: &mut GroupState, now: Millis) {
        let in_flight = state.pending.iter().take(state.proposed);
        let undecided = in_flight
            .filter(|batch| batch.index > state.replica.decided())
            .map(|batch| batch.updates)
            .sum();
        let open = state.open.as_ref().map_or(0, |open| open.updates);
        if state.pace.is_due(open, undecided, now.0) {
            state.close();
        }
        self.propose_closed(state);
        let leads = state.replica.role() == Role::Master;
        if state.retiring && (!leads || state.proposed == state.pending.len()) {
            self.step(state, Event::Retire, &[]);
        }
    }

    /// Proposes closed values in order; those that consensus refuses for now wait for the next
    /// turn.
    fn propose_closed(&self, state: &mut GroupState) {
        while let Some(batch) = state.pending.get(state.proposed) {
            if !state.office.held || state.replica.role() != Role::Master {
                return;
            }
            let before = state.replica.next();
            assert_eq!(batch.index, before, "values are proposed in order");
            let bytes = u32::try_from(batch.value_bytes()).expect("a value is below 4 GiB");
            let value = ValueHandle { bytes, updates: batch.updates };
            let (sign, expiry) = (batch.sign.clone(), batch.earliest_expiry);
            let event = match sign {
                Some(configuration) => Event::Reconfigure { configuration, value },
                None => Event::Propose { value },
            };
            self.step(state, event, &[]);
            if state.replica.next() == before {
                return;
            }
            state.next_expiry = state.next_expiry.min(expiry);
            state.proposed += 1;
            state.rests.added += u64::from(bytes);
        }
    }

    /// Puts a stop-sign behind everything taken so far.
    pub(super) fn lay_out_sign(&self, state: &mut GroupState, next: Configuration) -> Ticket {
        state.close();
        let (index, time) = (state.next_index(), state.clock.now());
        state.pending.push_back(Batch::sign(index, time, state.next_version, next));
        self.driver.wake();
        Ticket { group: self.id, index, term: self.applied.term() }
    }
}

impl GroupState {
    /// The bytes of a value that is to be logged, and whether it must be synced: it came with the
    /// message, or it is the one being proposed.
    fn payload(&mut self, index: LogIndex, came: &[(LogIndex, Bytes)]) -> (Bytes, bool) {
        if let Some((_, payload)) = came.iter().find(|(at, _)| *at == index) {
            return (payload.clone(), !flawed(Flaw::AcceptedUnsynced));
        }
        // Where others count on this log, an accepted value must not be forgotten: a voter that
        // loses one may help to decide another in its place.
        let shared = !self.is_alone() && !flawed(Flaw::AcceptedUnsynced);
        let own = self.pending.get_mut(self.proposed).filter(|own| own.index == index);
        let own = own.expect("a value is logged when it comes or when it is proposed");
        (own.close(), own.sync || shared)
    }
}

/// A read was refused; nothing happened.
fn not_now(refusal: Refusal) -> Error {
    match refusal {
        Refusal::NotMaster { master } => not_master(master),
        _ => Error::new(refusal.reason(), "too many reads wait for a majority: retry later"),
    }
}

/// Reading back what was written showed damage.
pub(super) fn damaged_log(error: Error) -> Error {
    Error::new(error.reason, format!("reading the log back: {}", error.text()))
}

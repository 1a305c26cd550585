//! Carries out what consensus decides for one group: closes values, has them logged, applies them,
//! wakes who waits.
//!
//! One turn does everything that can be done without waiting; between turns the task sleeps until a
//! record is written, an update arrives, or something expires. A value is closed as soon as the one
//! before is on disk: how many updates share a sync follows from how long a sync takes, and from
//! nothing else.

use super::batch::read_value;
use super::evaluate::expire_due;
use super::group::{Group, State};
use super::layout::{self, Mark};
use super::records::{self, Head};
use super::view::damaged;
use crate::keeper::{Job, store_error};
use crate::metrics::Metrics;
use crate::world;
use base::{Error, GroupId, LogIndex, Millis, Reason, Result};
use bytes::Bytes;
use logic::consensus::{Effect, Event, Role, ValueHandle};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::time::Duration;
use store::{Change, Kind, Trees};
use tokio::sync::watch;

/// Hints looked at in one value that collects what expired.
const EXPIRED_PER_VALUE: usize = 1_000;
/// Expired rows are collected at most this often: a row may be seen this much longer.
const EXPIRY_PAUSE_MS: u64 = 10;
/// A closed value may be proposed while another is on its way to the disk, if it is at least this
/// part as full.
const OVERLAP_PART: u32 = 2;
/// Nothing is applied for this long when the store can't be flushed as fast as it is filled.
const FULL_PAUSE: Duration = Duration::from_millis(2);

impl Group {
    /// Drives the group until `stop` says so or it fails.
    pub(crate) async fn drive(self: Arc<Group>, mut stop: watch::Receiver<bool>) -> Result<()> {
        self.begin();
        loop {
            // Not while the housekeeper waits for this very loop to copy something.
            let asked = || self.state().copy_asked.is_some();
            while self.trees.pressure().must_wait() && !*stop.borrow() && !asked() {
                self.bell.ring();
                tokio::time::sleep(FULL_PAUSE).await;
            }
            let sleep = match self.turn() {
                Ok(sleep) => sleep,
                Err(error) => {
                    self.fail(error.clone());
                    return Err(error);
                }
            };
            if *stop.borrow() && self.has_retired() {
                return Ok(());
            }
            tokio::select! {
                biased;
                () = self.wake.notified() => {}
                () = tokio::time::sleep(sleep) => {}
                _ = stop.changed() => self.retire(),
            }
        }
    }

    fn has_retired(&self) -> bool {
        let mut state = self.state();
        state.ended = state.replica.role() == Role::Follower;
        if state.ended {
            state.copy_asked = None;
        }
        state.ended
    }

    fn begin(&self) {
        let mut guard = self.state();
        let state = &mut *guard;
        let now = Millis(world::milliseconds());
        state.replica.step(Event::Started { now }, &mut state.effects);
    }

    fn retire(&self) {
        let mut guard = self.state();
        let state = &mut *guard;
        self.master.store(false, Ordering::Release);
        state.close();
        state.retiring = true;
        self.wake.notify_one();
    }

    /// No more answers from this group, for this reason.
    pub(crate) fn fail(&self, error: Error) {
        self.master.store(false, Ordering::Release);
        let asked = {
            let mut state = self.state();
            state.failed.get_or_insert(error.clone());
            state.copy_asked.take()
        };
        drop(asked);
        self.role.send_replace(Role::Follower);
        let unknown = Error::new(
            Reason::NoLongerMaster,
            format!("the node failed before this was known to be written: {}", error.text()),
        );
        self.applied.fail(unknown);
    }

    /// Everything that can be done now. Gives how long there is nothing to do.
    fn turn(&self) -> Result<Duration> {
        let done = std::mem::take(&mut *self.mailbox.lock().expect("no one panics holding it"));
        let mut guard = self.state();
        let state = &mut *guard;
        for done in done {
            state.written(done);
        }
        self.collect_expired(state)?;
        state.propose();
        let sleep = state.sleep();
        let copy = state.copy_asked.take().map(|done| (done, Head::of(&state.replica)));
        let effects = std::mem::take(&mut state.effects);
        drop(guard);
        let mut jobs = Vec::new();
        for effect in &effects {
            self.carry_out(*effect, &mut jobs)?;
        }
        self.write_head(copy, &mut jobs);
        self.keeper.write(jobs);
        let mut state = self.state();
        let more = !state.effects.is_empty();
        if state.effects.capacity() == 0 {
            state.effects = effects;
            state.effects.clear();
        }
        Ok(if more { Duration::ZERO } else { sleep })
    }

    fn carry_out(&self, effect: Effect, jobs: &mut Vec<Job>) -> Result<()> {
        match effect {
            Effect::SavePromise { ballot } => jobs.push(records::promise(self.id, ballot)),
            Effect::Adopt { ballot, from, upto } => {
                jobs.push(records::adopt(self.id, ballot, from, upto));
            }
            Effect::SaveDecided { upto } => jobs.push(records::decided(self.id, upto, false)),
            Effect::Stage { index, ballot } => {
                let (payload, _) = self.payload(index);
                jobs.push(records::stage(self.id, ballot, index, payload));
            }
            Effect::Save { index, ballot, decided, .. } => {
                let (payload, sync) = self.payload(index);
                Metrics::count(&self.metrics.values);
                jobs.push(records::accept(self.id, ballot, index, decided, payload, sync));
            }
            Effect::Decided { upto } => self.apply(upto)?,
            Effect::Role { role, .. } => self.become_role(role)?,
            Effect::Silent { reason } => {
                let detail = "this node's log is damaged: it neither votes nor leads";
                return Err(Error::new(reason.reason(), detail));
            }
            // Refusals are answered where it was asked; a sole voter talks to nobody.
            Effect::ReadAt { .. } | Effect::Refused { .. } | Effect::Send { .. } => {}
            Effect::FetchSnapshot { .. } | Effect::Configured { .. } | Effect::Ended => {}
        }
        Ok(())
    }

    /// The bytes of a value that is to be logged, and whether its buckets want it synced. Only
    /// values at hand are logged: a sole voter has laid them all out itself.
    fn payload(&self, index: LogIndex) -> (Bytes, bool) {
        let mut state = self.state();
        let batch = state.pending.iter_mut().find(|batch| batch.index == index);
        let batch = batch.expect("a value stays at hand until it is applied");
        (batch.close(), batch.sync)
    }

    /// Writes again, behind everything this turn writes, what lives only in the log: collapsing may
    /// then drop it.
    fn write_head(&self, copy: Option<(SyncSender<()>, Head)>, jobs: &mut Vec<Job>) {
        let Some((_handed, head)) = copy else { return };
        jobs.extend(head.records(self.id));
    }

    fn become_role(&self, role: Role) -> Result<()> {
        if role == Role::Master {
            let mut guard = self.state();
            let state = &mut *guard;
            state.clock = super::group::Clock::from(state.mark.time);
            state.next_version = state.mark.next_version.max(1);
            state.sessions = self.count_sessions()?;
            state.next_expiry = 0;
            self.wake.notify_one();
        }
        tracing::debug!(target: "consensus", group = self.id.0, ?role, "role");
        self.master.store(role == Role::Master, Ordering::Release);
        self.role.send_replace(role);
        Ok(())
    }

    /// Resolves when this node is master of the group, or the group has failed.
    pub(crate) async fn becomes_master(&self) -> Result<()> {
        let mut role = self.role.subscribe();
        let became = role.wait_for(|role| *role == Role::Master).await;
        became.map(|_| ()).map_err(|_| Error::new(Reason::GoingDown, "the node is stopping"))
    }

    /// Resolves when this node has given mastership back.
    pub(crate) async fn retires(&self) {
        // The sender lives as long as the group, so the wait ends with the role.
        let _ = self.role.subscribe().wait_for(|role| *role == Role::Follower).await;
    }

    /// Makes the decided values' effects visible, then lets go of them.
    fn apply(&self, upto: LogIndex) -> Result<()> {
        let payloads: Vec<(LogIndex, Bytes)> = {
            let mut state = self.state();
            let behind = state.inherited.split_off(&upto.next());
            let inherited = std::mem::replace(&mut state.inherited, behind);
            let decided = state.pending.iter_mut().filter(|batch| batch.index <= upto);
            let decided = decided.map(|batch| (batch.index, batch.close()));
            inherited.into_iter().chain(decided).collect()
        };
        let (group, values) = (self.id.0, payloads.len());
        tracing::debug!(target: "consensus", group, upto = upto.0, values, "decided");
        for (index, payload) in payloads {
            let mark = apply_value(self.id, &*self.trees, index, &payload)?;
            self.time.store(mark.time, Ordering::Release);
            self.state().mark = mark;
        }
        if self.trees.pressure().rotate_is_due() {
            self.bell.ring();
        }
        self.applied.advance(upto);
        let mut state = self.state();
        while state.pending.front().is_some_and(|batch| batch.index <= upto) {
            state.pending.pop_front();
            state.proposed = state.proposed.saturating_sub(1);
        }
        Ok(())
    }

    fn collect_expired(&self, state: &mut State) -> Result<()> {
        let now = state.clock.now();
        let idle = state.next_expiry > now || !self.master.load(Ordering::Acquire);
        if idle || state.failed.is_some() {
            return Ok(());
        }
        let (fresh, _) = state.begin(self.id);
        let mut view = state.view(self);
        let looked = expire_due(&mut view, EXPIRED_PER_VALUE)?;
        let next = view.next_hint()?;
        if looked > 0 {
            self.metrics.expired.fetch_add(looked as u64, Ordering::Relaxed);
            self.take(state, fresh, false);
        }
        state.next_expiry = match next {
            Some(expires) => expires.max(now + EXPIRY_PAUSE_MS),
            None => u64::MAX,
        };
        Ok(())
    }

    fn count_sessions(&self) -> Result<u64> {
        let mut low = Vec::new();
        layout::space_key(self.id, layout::Space::Session, &mut low);
        let high = base::range::prefix_end(&low).expect("a space is not all 0xFF");
        let snapshot = self.trees.snapshot();
        let bounds =
            (std::ops::Bound::Included(low.into()), std::ops::Bound::Excluded(high.into()));
        let mut count = 0;
        for session in snapshot.range(bounds.0, bounds.1, false) {
            session.map_err(store_error)?;
            count += 1;
        }
        Ok(count)
    }
}

/// Applies one value to the store: its effects and the applied mark, visible together.
pub(crate) fn apply_value(
    group: GroupId,
    trees: &dyn Trees,
    index: LogIndex,
    payload: &Bytes,
) -> Result<Mark> {
    let (head, changes) = read_value(payload).map_err(damaged)?;
    let next_version = head.first_version + u64::from(head.updates);
    let mark = Mark { applied: index.0, time: head.time, next_version };
    let mut key = Vec::new();
    layout::mark_key(group, &mut key);
    let mut malformed = None;
    let effects = changes.map_while(|change| change.map_err(|error| malformed = Some(error)).ok());
    let mut all = effects.chain(std::iter::once(Change::Put(key.into(), mark.write())));
    trees.apply(&mut all).map_err(store_error)?;
    drop(all);
    match malformed {
        Some(error) => Err(damaged(error)),
        None => Ok(mark),
    }
}

impl State {
    fn written(&mut self, done: crate::keeper::Done) {
        let event = match done.kind {
            Kind::Promise => Event::PromiseSaved { ballot: done.ballot },
            Kind::Accept | Kind::Truncate => {
                if let Some(batch) = self.pending.iter_mut().find(|batch| batch.index == done.index)
                {
                    batch.start = Some(done.start);
                }
                Event::Saved { ballot: done.ballot, upto: done.index }
            }
            _ => return,
        };
        self.replica.step(event, &mut self.effects);
    }

    fn propose(&mut self) {
        let in_flight = self.pending.iter().take(self.proposed);
        let undecided: u32 = in_flight
            .filter(|batch| batch.index > self.replica.decided())
            .map(|batch| batch.updates)
            .sum();
        let open = self.open.as_ref().map_or(0, |open| open.updates);
        if undecided == 0 || open >= undecided.div_ceil(OVERLAP_PART) {
            self.close();
        }
        self.propose_closed();
        if self.retiring && self.proposed == self.pending.len() {
            self.replica.step(Event::Retire, &mut self.effects);
        }
    }

    /// Proposes closed values in order; those that consensus refuses for now wait for the next
    /// turn.
    fn propose_closed(&mut self) {
        while let Some(batch) = self.pending.get(self.proposed) {
            if self.replica.role() != Role::Master {
                return;
            }
            assert_eq!(batch.index, self.replica.next(), "values are proposed in order");
            let bytes = u32::try_from(batch.len()).expect("values are limited long before 4 GiB");
            let value = ValueHandle { bytes, updates: batch.updates };
            let before = self.replica.next();
            self.replica.step(Event::Propose { value }, &mut self.effects);
            if self.replica.next() == before {
                return;
            }
            self.next_expiry = self.next_expiry.min(batch.earliest_expiry);
            self.proposed += 1;
        }
    }

    fn sleep(&self) -> Duration {
        let idle = Duration::from_secs(1);
        match self.next_expiry {
            u64::MAX => idle,
            at => Duration::from_millis(at.saturating_sub(self.clock.now())).min(idle),
        }
    }
}

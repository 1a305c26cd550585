//! Driver of a group: carries out what consensus decides. It closes entries, has them logged and
//! sent, applies them, and wakes the waiters.
//!
//! One turn does everything that can be done without waiting; between turns the task sleeps until a
//! record is written, a message or an update arrives, or time is up. When an entry is closed says
//! `batching.rs`.
//!
//! Effects of the replica are noted under the group's lock, in the very step that wants them
//! (`effects.rs`). They are carried out behind the lock, in order.

use super::catch_up::Fetches;
use super::group::Group;
use super::state::GroupState;
use super::turn_output::TurnWork;
use base::limits::DECIDED_MS_MAX;
use base::{Error, Millis, NodeId, Reason, Result};
use logic::consensus::{Event, Role, ValueHandle};
use runtime::mutants::Mutant;
use runtime::{CancellationToken, world};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Group {
    /// Drives the group until `stop` is cancelled or it fails.
    pub async fn drive(self: Arc<Group>, stop: CancellationToken) -> Result<()> {
        self.begin();
        let mut retires = false;
        let mut fetches = Fetches::default();
        loop {
            // Before the turn, which might apply another entry: the rows are removed after this.
            if self.driver.is_dropped() {
                let text = format!("group {} was dropped", self.id);
                self.fail(Error::new(Reason::Moved, text));
                return Ok(());
            }
            let sleep = match self.turn(stop.is_cancelled()) {
                Ok(sleep) => sleep,
                Err(error) => {
                    self.fail(error.clone());
                    return Err(error);
                }
            };
            if stop.is_cancelled() && self.has_retired() {
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
                () = stop.cancelled(), if !retires => {
                    retires = true;
                    self.retire();
                }
            }
        }
    }

    fn has_retired(&self) -> bool {
        let mut guard = self.state();
        let state = &mut *guard;
        // Applied, too: clients that wait for a decided entry get their answers before the group
        // ends.
        let rests = state.replica.role() == Role::Follower
            && self.applied.index() >= state.progress.decided;
        let ended = state.life.end_if(rests);
        if ended {
            state.output.statement.copy = None;
            let arrived = state.snapshot.discard();
            drop(guard);
            drop(arrived); // Its files go, before the node has ended.
        }
        ended
    }

    /// Begins this run of the replica.
    pub fn begin(&self) {
        let mut guard = self.state();
        let state = &mut *guard;
        let now = Millis(world::milliseconds());
        self.step(state, Event::Started { now }, &[]);
        self.look_at_collapse(state);
    }

    /// Takes no new updates, and gives mastership up once all taken updates are decided. From then
    /// on this replica votes and follows, and never leads.
    pub fn retire(&self) {
        let mut state = self.state();
        self.leadership.retire();
        state.queue.close();
        state.life.retire();
        self.driver.wake();
    }

    /// Ends the group with an error, which every later call returns.
    pub fn fail(&self, error: Error) {
        let given_up = {
            let mut state = self.state();
            // Before the error is known to anyone: no read may be answered from rows that end here.
            self.leadership.stop();
            state.life.fail(&error);
            state.reads.clear();
            (state.output.statement.copy.take(), state.snapshot.discard())
        };
        drop(given_up);
        self.leadership.forget_master();
        let unknown = Error::new(
            Reason::InDoubt,
            format!("the node failed before this was known to be written: {}", error.text()),
        );
        self.applied.fail(unknown);
        self.driver.stop();
    }

    /// Does everything that can be done now. Returns the time for which there is nothing to do.
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
        self.leadership.publish_lease(&state.mastership, &state.replica);
        state.ticks.plan(&state.replica, self.shared.limits.lease_ms);
        let sleep = state.sleep(now);
        let TurnWork { jobs, messages, copy } = state.output.take(self.id, &state.replica);
        let mut flow_control = std::mem::take(&mut state.output.flow_control);
        let decided = state.progress.decided;
        // A group that failed in this turn hands over neither records nor messages.
        state.life.check()?;
        // Under the lock, and before they are handed over: the thread that truncates the log sees
        // them here, or has read the log's end before they were written.
        state.entries.in_flight.hand_over(self.shared.log_writer.end(), &jobs);
        drop(guard);
        self.shared.log_writer.write(jobs);
        drop(copy); // Who asked for it hears that the keeper has it.
        // Before entries are applied, which takes longer: the followers save meanwhile.
        self.post(messages, (&mut flow_control, decided))?;
        let wait = self.apply_decided(stopping)?;
        self.install_snapshot()?;
        let wait = if self.let_go()? { Some(Duration::ZERO) } else { wait };
        let mut guard = self.state();
        let state = &mut *guard;
        // After `apply_decided`: evaluated on rows that lack an inherited entry, an update would
        // see a past state.
        if self.leadership.become_master(state, &self.applied, &*self.shared.trees, &self.seals)? {
            self.driver.wake();
        }
        let sleep = flow_control.sleep().map_or(sleep, |rest| sleep.min(rest));
        state.output.return_flow_control(flow_control, state.replica.configuration());
        let more = !state.output.is_empty();
        Ok(if more { Duration::ZERO } else { sleep.min(wait.unwrap_or(sleep)) })
    }

    /// Sends what the last turn did not send, and what is due now. Runs before anything that
    /// arrived: an answer makes the replica send what follows the last message that it believes was
    /// sent.
    fn go_on_sending(&self, state: &mut GroupState, now: Millis) {
        for (to, after) in std::mem::take(&mut state.output.flow_control.unsent) {
            self.step(state, Event::Unsent { to, after }, &[]);
        }
        let rate = self.shared.limits.catch_up_bytes_per_second;
        for (to, after) in state.output.flow_control.ended(rate, state.progress.decided, now.0) {
            self.step(state, Event::Unsent { to, after }, &[]);
            self.step(state, Event::Room { to }, &[]);
        }
        for to in state.output.flow_control.retried(now.0) {
            self.step(state, Event::Room { to }, &[]);
        }
    }

    /// Tells the replica the time, if other members exist.
    fn tick(&self, state: &mut GroupState, now: Millis) {
        let members = state.replica.configuration().members();
        let alone = matches!(members, [only] if only.node == self.shared.node);
        // A sole voter grants its own lease whenever it is asked, and nobody waits for heartbeats.
        if alone && state.replica.role() == Role::Master {
            state.ticks.stop();
        } else if state.ticks.are_due(now) {
            self.yield_to_forced(state);
            self.look_at_disk(state);
            self.step(state, Event::Tick { now }, &[]);
            state.ticks.ticked(now);
        }
    }

    /// Tells the replica whether another member alone is to be master. Runs before the tick,
    /// because a replica stands for election only when it is told the time.
    fn yield_to_forced(&self, state: &mut GroupState) {
        let forced = NodeId(self.shared.forced_master.load(Ordering::Acquire));
        let yields = forced != self.shared.node && state.replica.configuration().leads(forced);
        if yields != state.replica.yields() {
            self.step(state, Event::Yield { yields }, &[]);
        }
    }

    /// Tells the replica whether the disk under the log hangs, before the tick, for the same
    /// reason. A node that alone may be master has no substitute.
    fn look_at_disk(&self, state: &mut GroupState) {
        let forced = NodeId(self.shared.forced_master.load(Ordering::Acquire));
        let alone = forced == self.shared.node;
        let hangs = self.shared.log_writer.hangs(self.shared.limits.lease_ms) && !alone;
        let hangs = hangs && !Mutant::HangsInOffice.is_active();
        if hangs != state.replica.hangs() {
            self.step(state, Event::Disk { hangs }, &[]);
        }
    }

    /// Notes what the log has dropped: it can't be sent to followers any more.
    fn look_at_collapse(&self, state: &mut GroupState) {
        let start = self.shared.log_writer.begin();
        if start > state.entries.log_start() {
            state.entries.collapse(start, self.applied.index());
        }
        // Memory may have kept longer what the log has dropped.
        let upto = self.floor(state);
        if upto > state.replica.floor() {
            self.step(state, Event::Collapsed { upto }, &[]);
        }
    }

    fn collect_expired(&self, state: &mut GroupState) -> Result<()> {
        let now = state.queue.clock.now();
        let idle = !state.master.sweep.is_due(now) || !self.leadership.is_master();
        if idle || state.life.failed().is_some() {
            return Ok(());
        }
        let (fresh, _) = state.queue.begin(&state.replica);
        let mut overlay = state.queue.overlay(&*self.shared.trees);
        let looked = state.master.sweep.run(&mut overlay, now)?;
        if looked > 0 {
            self.shared.metrics.expired.fetch_add(looked as u64, Ordering::Relaxed);
            self.take(state, fresh, false);
        }
        Ok(())
    }

    fn propose(&self, state: &mut GroupState, now: Millis) {
        state.queue.close_if_due(state.replica.decided(), now);
        self.propose_closed(state);
        let leads = state.replica.role() == Role::Master;
        if state.life.is_retiring() && (!leads || state.queue.is_proposed()) {
            self.step(state, Event::Retire, &[]);
        }
    }

    /// Proposes closed entries in order. Those that consensus refuses for now wait for the next
    /// turn.
    fn propose_closed(&self, state: &mut GroupState) {
        while let Some(batch) = state.queue.next_proposal() {
            // To be elected is not enough: until `become_master` these may be entries of an ended
            // epoch.
            if !state.mastership.held || state.replica.role() != Role::Master {
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
            state.master.sweep.expires(expiry);
            state.queue.mark_proposed();
            state.output.flow_control.added += u64::from(bytes);
        }
    }

    /// Gives up waiting for entries older than [`DECIDED_MS_MAX`]. If the disk of a sole node is
    /// full or hangs, nothing else would end the wait.
    fn give_up_late(&self, state: &GroupState) {
        let begun = state.queue.clock.now().saturating_sub(DECIDED_MS_MAX);
        if let Some(last) = state.queue.last_before(begun) {
            self.applied.give_up(last);
        }
    }
}

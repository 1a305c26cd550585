//! Driver of a group: carries out what consensus decides. It closes entries, has them logged and
//! sent, applies them, and wakes the waiters.
//!
//! One turn does everything that can be done without waiting; between turns the task sleeps until a
//! record is written, a message or an update arrives, or time is up. `batching.rs` decides when an
//! entry is closed.
//!
//! Effects of the replica are recorded under the group's lock, in the step that returns them
//! (`effects.rs`). They are carried out after the lock is released, in order.

use super::catch_up::{Fetches, RunningInstall};
use super::group::Group;
use super::state::GroupState;
use super::turn_output::TurnWork;
use base::limits::DECIDED_MS_MAX;
use base::{Error, Millis, NodeId, Reason, Result};
use logic::consensus::{EntrySize, Event, Role};
use runtime::mutants::Mutant;
use runtime::{CancellationToken, round, world};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Group {
    /// Drives the group until `stop` is cancelled or it fails.
    pub async fn drive(self: Arc<Group>, stop: CancellationToken) -> Result<()> {
        self.begin();
        let mut is_retiring = false;
        let (mut fetches, mut install) = (Fetches::default(), RunningInstall::default());
        loop {
            // Before the turn, which might apply another entry, and not while an installation may
            // still exchange the rows: they are removed after this.
            if self.driver.is_dropped() && !install.is_running() {
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
            if stop.is_cancelled() && self.try_end() {
                self.driver.stop();
                return Ok(());
            }
            self.fetch_snapshot(&mut fetches);
            self.run_install(&mut install);
            tokio::select! {
                biased;
                Some(result) = fetches.tasks.join_next() => {
                    self.on_fetch_ended(result).inspect_err(|error| self.fail(error.clone()))?;
                }
                ended = install.wait_for_end() => {
                    let outcome = ended.inspect_err(|error| self.fail(error.clone()))?;
                    self.on_install_ended(outcome);
                }
                () = self.driver.wait_for_wake() => {}
                () = round::rest(world::sleep(sleep)) => {}
                () = stop.cancelled(), if !is_retiring => {
                    is_retiring = true;
                    self.retire();
                }
            }
        }
    }

    fn try_end(&self) -> bool {
        let mut guard = self.state();
        let state = &mut *guard;
        // Applied, too: clients that wait for a decided entry get their answers before the group
        // ends. An installation ends before, because it writes the store's files.
        let is_idle = state.replica.role() == Role::Follower
            && self.applied.index() >= state.progress.decided
            && !state.snapshot.is_installing();
        let ended = state.lifecycle.end_if_idle(is_idle);
        if ended {
            state.output.head_request.head_copied = None;
            let discarded = state.snapshot.discard();
            drop(guard);
            drop(discarded); // Removes its files before the node has ended.
        }
        ended
    }

    /// Begins this run of the replica.
    pub fn begin(&self) {
        let mut guard = self.state();
        let state = &mut *guard;
        let now = Millis(world::milliseconds());
        self.step(state, Event::Started { now }, &[]);
        self.note_collapse(state);
    }

    /// Refuses new updates, and gives mastership up once all accepted updates are decided. From
    /// then on this replica votes and follows, and never leads.
    pub fn retire(&self) {
        let mut state = self.state();
        self.leadership.retire();
        state.queue.close();
        state.lifecycle.retire();
        self.driver.wake();
    }

    /// Ends the group with an error, which every later call returns.
    pub fn fail(&self, error: Error) {
        let discarded = {
            let mut state = self.state();
            // Before the error is visible to callers: no read may be answered from rows that no
            // longer change.
            self.leadership.stop();
            state.lifecycle.fail(&error);
            state.reads.clear();
            (state.output.head_request.head_copied.take(), state.snapshot.discard())
        };
        drop(discarded);
        self.large.close();
        self.leadership.forget_master();
        let unknown = Error::new(
            Reason::InDoubt,
            format!("the node failed before the update was known to be written: {}", error.text()),
        );
        self.applied.fail(unknown);
        self.driver.stop();
    }

    /// Does everything that can be done now. Returns the time for which there is nothing to do.
    pub fn turn(&self, stopping: bool) -> Result<Duration> {
        let written = self.driver.take_written();
        let (received, unlinked) = self.driver.inbox().take();
        let mut guard = self.state();
        let state = &mut *guard;
        let now = Millis(world::milliseconds());
        state.times.begin_turn(now.0);
        self.resume_sending(state, now);
        self.tick(state, now);
        for record in written {
            self.on_written(state, record);
        }
        for message in received {
            self.receive(state, message, now);
        }
        self.end_links(state, &unlinked, now);
        self.note_collapse(state);
        self.collect_expired(state)?;
        self.propose(state, now);
        self.give_up_overdue(state);
        self.leadership.publish_lease(&state.mastership, &state.replica);
        state.ticks.plan(&state.replica, self.shared.limits.lease_ms);
        let sleep = state.sleep();
        let TurnWork { appends, messages, head_copied } =
            state.output.take(self.id, &state.replica);
        let mut flow_control = std::mem::take(&mut state.output.flow_control);
        let decided = state.progress.decided;
        // A group that failed in this turn hands over neither records nor messages.
        state.lifecycle.check()?;
        // Under the lock, and before they are handed over: the thread that truncates the log sees
        // them here, or has read the log's end before they were written.
        state.entries.in_flight.record_appends(self.shared.log_writer.end(), &appends);
        // It neither begins nor ends within a turn.
        let is_installing =
            state.snapshot.is_installing() && !Mutant::ApplyDuringInstall.is_active();
        drop(guard);
        self.shared.log_writer.write(appends);
        drop(head_copied); // Notifies the waiter: the log writer has the head.
        // Before entries are applied, which takes longer: the followers save meanwhile.
        self.post(messages, (&mut flow_control, decided))?;
        // An installation owns the rows until its end is handled, which wakes the driver
        // (`installation.rs`): an entry applied behind its switch would take the applied mark back.
        let wait = if is_installing { None } else { self.apply_and_drop(stopping)? };
        let mut guard = self.state();
        let state = &mut *guard;
        // After `apply_decided`: evaluated on rows that lack an inherited entry, an update would
        // see a past state. Nor during an installation: the rows may be of a later index than the
        // applied one, and what a master loads from them must not be.
        let trees = &*self.shared.trees;
        if !is_installing
            && self.leadership.become_master(state, &self.applied, trees, &self.seals)?
        {
            self.driver.wake();
        }
        let sleep = flow_control.sleep().map_or(sleep, |pause| sleep.min(pause));
        state.output.return_flow_control(flow_control, state.replica.configuration());
        let has_output = !state.output.is_empty();
        Ok(if has_output { Duration::ZERO } else { sleep.min(wait.unwrap_or(sleep)) })
    }

    /// Applies decided entries, and drops those that a witness no longer needs. Returns the pause
    /// before the next turn. `None`: nothing is left to do.
    fn apply_and_drop(&self, stopping: bool) -> Result<Option<Duration>> {
        let wait = self.apply_decided(stopping)?;
        Ok(if self.drop_saved_entries()? { Some(Duration::ZERO) } else { wait })
    }

    /// Resumes transfers that the last turn deferred, and those whose pause is over. Runs before
    /// received messages are processed: an acknowledgement makes the replica send the entries
    /// behind the last message that counts as sent.
    fn resume_sending(&self, state: &mut GroupState, now: Millis) {
        for (to, after) in std::mem::take(&mut state.output.flow_control.unsent) {
            self.step(state, Event::Unsent { to, after }, &[]);
        }
        let rate = self.shared.limits.catch_up_bytes_per_second;
        for (to, after) in state.output.flow_control.end_pauses(rate, state.progress.decided, now.0)
        {
            self.step(state, Event::Unsent { to, after }, &[]);
            self.step(state, Event::LaneSpace { to }, &[]);
        }
        for to in state.output.flow_control.take_due_retries(now.0) {
            self.step(state, Event::LaneSpace { to }, &[]);
        }
    }

    /// Gives the replica a tick, if other members exist.
    fn tick(&self, state: &mut GroupState, now: Millis) {
        let members = state.replica.configuration().members();
        let is_sole_member = matches!(members, [member] if member.node == self.shared.node);
        // A sole voter grants its own lease on request, and no follower waits for heartbeats.
        if is_sole_member && state.replica.role() == Role::Master {
            state.ticks.stop();
        } else if state.ticks.are_due(now) {
            self.yield_to_forced(state);
            self.check_disk(state);
            let at = state.ticks.time(now, self.shared.limits.lease_ms);
            self.step(state, Event::Tick { now: at }, &[]);
            state.ticks.ticked(now);
        }
    }

    /// Reports to the replica which connections with other members ended.
    fn end_links(&self, state: &mut GroupState, unlinked: &[NodeId], now: Millis) {
        if unlinked.is_empty() {
            return;
        }
        self.yield_to_forced(state);
        self.check_disk(state);
        for node in unlinked {
            self.step(state, Event::LinkEnded { node: *node, now }, &[]);
        }
    }

    /// Reports to the replica whether another member is the forced master. Runs before every event
    /// with which a replica at rest may begin an election.
    fn yield_to_forced(&self, state: &mut GroupState) {
        let forced = NodeId(self.shared.forced_master.load(Ordering::Acquire));
        let prefers_other =
            forced != self.shared.node && state.replica.configuration().may_lead(forced);
        if prefers_other != state.replica.is_yielding() {
            self.step(state, Event::Yield { prefers_other }, &[]);
        }
    }

    /// Reports to the replica whether the log's disk hangs, before the tick for the same reason. A
    /// forced master never reports it: no other node may replace it.
    fn check_disk(&self, state: &mut GroupState) {
        let forced = NodeId(self.shared.forced_master.load(Ordering::Acquire));
        let is_forced_master = forced == self.shared.node;
        let disk_hangs =
            self.shared.log_writer.is_hung(self.shared.limits.lease_ms) && !is_forced_master;
        let disk_hangs = disk_hangs && !Mutant::StayMasterWithHungDisk.is_active();
        if disk_hangs != state.replica.disk_hangs() {
            self.step(state, Event::Disk { disk_hangs }, &[]);
        }
    }

    /// Notes entries that the log has dropped: they can't be sent to followers any more.
    fn note_collapse(&self, state: &mut GroupState) {
        let start = self.shared.log_writer.start_position();
        if start > state.entries.log_start() {
            state.entries.collapse(start, self.applied.index());
        }
        // Memory may have retained entries that the log has dropped.
        let floor = self.floor(state);
        if floor > state.replica.floor() {
            self.step(state, Event::LogTruncated { last: floor }, &[]);
        }
    }

    fn collect_expired(&self, state: &mut GroupState) -> Result<()> {
        let now = state.queue.clock.now();
        let is_idle = !state.master.sweep.is_due(now) || !self.leadership.is_master();
        if is_idle || state.lifecycle.failed().is_some() {
            return Ok(());
        }
        let (is_first, _) = state.queue.begin(&state.replica);
        let mut overlay = state.queue.overlay(&*self.shared.trees);
        let (checked, sessions) = state.master.sweep.run(&mut overlay, now)?;
        sessions.into_iter().for_each(|user| state.master.sessions.remove(user));
        if checked > 0 {
            self.shared.metrics.expired.fetch_add(checked as u64, Ordering::Relaxed);
            self.add_update(state, is_first, false);
        }
        Ok(())
    }

    fn propose(&self, state: &mut GroupState, now: Millis) {
        state.queue.close_if_due(state.replica.decided(), now);
        self.propose_closed(state);
        let is_master = state.replica.role() == Role::Master;
        if state.lifecycle.is_retiring() && (!is_master || state.queue.is_proposed()) {
            self.step(state, Event::Retire, &[]);
        }
    }

    /// Proposes closed entries in order. Entries that consensus refuses wait for the next turn.
    fn propose_closed(&self, state: &mut GroupState) {
        while let Some(entry) = state.queue.next_proposal() {
            // An election is not enough: until `become_master` these may be entries of an ended
            // epoch.
            if !state.mastership.is_held || state.replica.role() != Role::Master {
                return;
            }
            let next_index = state.replica.next();
            assert_eq!(entry.index, next_index, "values are proposed in order");
            let bytes = u32::try_from(entry.payload_bytes()).expect("a value is below 4 GiB");
            let size = EntrySize { bytes, updates: entry.updates };
            let (sign, expiry, begun_ms) = (entry.sign.clone(), entry.earliest_expiry, entry.time);
            let event = match sign {
                Some(configuration) => Event::Reconfigure { configuration, size },
                None => Event::Propose { size },
            };
            self.step(state, event, &[]);
            if state.replica.next() == next_index {
                return;
            }
            state.master.sweep.note_expiry(expiry);
            state.queue.mark_proposed();
            let batch_ms = state.queue.clock.now().saturating_sub(begun_ms);
            state.times.on_proposed(next_index, batch_ms);
            state.output.flow_control.added += u64::from(bytes);
        }
    }

    /// Gives up waiting for entries older than [`DECIDED_MS_MAX`]. If the disk of a sole node is
    /// full or hangs, nothing else would end the wait.
    fn give_up_overdue(&self, state: &GroupState) {
        let begun_before = state.queue.clock.now().saturating_sub(DECIDED_MS_MAX);
        if let Some(last) = state.queue.last_before(begun_before) {
            self.applied.give_up(last);
        }
    }
}

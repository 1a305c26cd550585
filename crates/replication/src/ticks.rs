//! When a group's replica is told the time.
//!
//! While something is under way that is often, since what is lost is only said again when its time
//! has passed. A replica at rest says until when: a group without work costs its heartbeats and
//! nothing else, however many groups a node has.

use super::group::{Group, GroupState};
use base::limits::DECIDED_MS_MAX;
use base::{Millis, NodeId};
use logic::consensus::{Event, Role};
use runtime::mutants::{Flaw, flawed};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How many ticks there are in the length of a lease, while something is under way.
const TICKS_PER_LEASE: u64 = 16;
/// Ticks of groups at rest fall on multiples of this part of a lease: then what the groups of a
/// node have to say to another goes in few frames.
const GRID_PER_LEASE: u64 = 48;
/// Longest sleep of a group that needs no ticks.
const IDLE: Duration = Duration::from_secs(1);

impl Group {
    /// Tells the replica the time, if there is anyone to be heard of.
    pub(super) fn tick(&self, state: &mut GroupState, now: Millis) {
        let members = state.replica.configuration().members();
        let alone = matches!(members, [only] if only.node == self.shared.node);
        if alone && state.replica.role() == Role::Master {
            state.ticks.next = u64::MAX;
        } else if now.0 >= state.ticks.next || state.ticks.next == u64::MAX {
            self.yield_to_forced(state);
            self.look_at_disk(state);
            self.step(state, Event::Tick { now }, &[]);
            state.ticks.last = now.0;
            state.ticks.next = now.0 + 1;
        }
    }

    /// Another member alone is to be master, or may be again: told before the time is, since a
    /// replica stands only when it hears that.
    fn yield_to_forced(&self, state: &mut GroupState) {
        let forced = NodeId(self.shared.forced_master.load(Ordering::Acquire));
        let yields = forced != self.shared.node && state.replica.configuration().leads(forced);
        if yields != state.replica.yields() {
            self.step(state, Event::Yield { yields }, &[]);
        }
    }

    /// The disk under the log hangs, or answers again: told before the time is, for the same
    /// reason. Where this node alone is to be master nobody could take its place.
    fn look_at_disk(&self, state: &mut GroupState) {
        let forced = NodeId(self.shared.forced_master.load(Ordering::Acquire));
        let alone = forced == self.shared.node;
        let hangs = self.shared.keeper.hangs(self.shared.limits.lease_ms) && !alone;
        let hangs = hangs && !flawed(Flaw::HangsInOffice);
        if hangs != state.replica.hangs() {
            self.step(state, Event::Disk { hangs }, &[]);
        }
    }

    /// Nobody waits for a value longer than [`DECIDED_MS_MAX`]: where the disk of a sole node is
    /// full or hangs, nothing else would end the wait.
    pub(super) fn give_up_late(&self, state: &GroupState) {
        let begun = state.clock.now().saturating_sub(DECIDED_MS_MAX);
        let late = state.pending.partition_point(|batch| batch.time < begun);
        if let Some(last) = late.checked_sub(1).and_then(|last| state.pending.get(last)) {
            self.applied.give_up(last.index);
        }
    }

    /// When the replica is told the time next. One that rests until something is due is left alone
    /// so long: a group without work costs its heartbeats and nothing else.
    pub(super) fn plan_tick(&self, state: &mut GroupState) {
        if state.ticks.next == u64::MAX {
            return;
        }
        let usual = state.ticks.last + (self.shared.limits.lease_ms / TICKS_PER_LEASE).max(1);
        let rests = state.replica.rests_until();
        #[cfg(debug_assertions)]
        rests.into_iter().for_each(|until| assert_rest(&state.replica, until));
        let grid = (self.shared.limits.lease_ms / GRID_PER_LEASE).max(1);
        let at = |until: Millis| until.0.max(usual).next_multiple_of(grid);
        state.ticks.next = rests.map_or(usual, at);
    }
}

impl GroupState {
    /// How long there is nothing to do, if nothing comes.
    pub(super) fn sleep(&self, now: Millis) -> Duration {
        let tick = match self.ticks.next {
            u64::MAX => IDLE,
            at => Duration::from_millis(at.saturating_sub(now.0)).min(IDLE),
        };
        let tick = self.pace.pause().map_or(tick, |pause| tick.min(Duration::from_millis(pause)));
        match self.next_expiry {
            _ if !self.office.held => tick,
            u64::MAX => tick,
            at => Duration::from_millis(at.saturating_sub(self.clock.now())).min(tick),
        }
    }
}

/// A replica that rests does nothing when it is told the time before it said so.
#[cfg(debug_assertions)]
fn assert_rest(replica: &logic::consensus::Replica, until: Millis) {
    let (mut twin, mut effects) = (replica.clone(), Vec::new());
    twin.step(Event::Tick { now: Millis(until.0.saturating_sub(1)) }, &mut effects);
    assert!(effects.is_empty(), "it does not rest: {effects:?}");
}

//! Effects of consensus: what a step of a group's replica wants is noted in its state at once.
//!
//! An index may mean another entry one step later, so the entries that a record or a message
//! carries are picked here, under the group's lock. The driver carries the rest out behind it, in
//! order.

use super::group::Group;
use super::mastership::not_master;
use super::records;
use super::state::GroupState;
use base::{Error, LogIndex};
use bytes::Bytes;
use logic::consensus::{Effect, Event, Refusal, RefusedCall};
use runtime::metrics::Metrics;

impl Group {
    /// Gives the replica one event, and notes its effects. `came`: the entries that a message
    /// brought.
    pub(super) fn step(&self, state: &mut GroupState, event: Event, came: &[(LogIndex, Bytes)]) {
        let mut effects = std::mem::take(&mut state.output.effects);
        state.replica.step(event, &mut effects);
        // Only the end of a step counts: a replica that moves on to its next configuration follows
        // nobody on the way.
        let role = |effect: &Effect| matches!(effect, Effect::Role { .. });
        let last_role = effects.iter().rposition(role);
        for (place, effect) in effects.drain(..).enumerate() {
            if !role(&effect) || Some(place) == last_role {
                self.note(state, effect, came);
            }
        }
        state.output.effects = effects;
    }

    fn note(&self, state: &mut GroupState, effect: Effect, came: &[(LogIndex, Bytes)]) {
        match effect {
            Effect::SavePromise { ballot } => {
                state.output.log(records::promise(self.id, ballot, state.replica.tear()));
            }
            Effect::Adopt { ballot, from, upto } => {
                state.entries.adopt(ballot, from, upto);
                state.output.log(records::adopt(self.id, ballot, from, upto));
            }
            Effect::SaveDecided { upto } => {
                state.output.log(records::decided(self.id, upto, false));
            }
            Effect::Stage { index, ballot } => {
                let (payload, _) = state.payload(index, came);
                state.entries.stage(ballot, index, payload.clone());
                state.output.log(records::stage(self.id, ballot, index, payload));
            }
            Effect::Save { index, ballot, decided } => {
                let (payload, sync) = state.payload(index, came);
                Metrics::count(&self.shared.metrics.log_entries);
                state.entries.accept(index, payload.clone(), sync);
                state.output.log(records::accept(self.id, ballot, index, decided, payload, sync));
            }
            Effect::Decided { upto } => state.decided(upto, &self.applied),
            Effect::Role { role, master, .. } => {
                self.leadership.role_changed(state, &self.applied, role, master);
            }
            Effect::Send { to, message } => {
                state.output.send(to, message, &state.entries, &state.replica);
            }
            Effect::ReadAt { token, index } => state.reads.answer(token, Ok(index)),
            Effect::Refused { asked: RefusedCall::Read(token), reason } => {
                state.reads.answer(token, Err(not_now(reason)));
            }
            Effect::Refused { asked: RefusedCall::HandOver(_), reason } => {
                state.mastership.refused = Some(reason);
            }
            // The entry stays in the queue, and is proposed when there is space.
            Effect::Refused { asked: RefusedCall::Propose, .. } => {}
            Effect::MayLack { behind } => self.may_lack(state, behind),
            Effect::FetchSnapshot { from } => state.snapshot.wanted = Some(from),
            Effect::Configured { configuration, base } => {
                let group = self.id.0;
                tracing::info!(target: "consensus", group, %base, "configuration {configuration}");
                self.leadership.reconfigured(&state.replica);
            }
            Effect::Ended => self.leadership.dismiss(),
        }
    }
}

/// Converts the refusal of a read, which was not executed.
fn not_now(refusal: Refusal) -> Error {
    match refusal {
        Refusal::NotMaster { master } => not_master(master),
        _ => Error::new(refusal.reason(), "too many reads wait for a majority: retry later"),
    }
}

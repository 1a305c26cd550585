//! Effects of consensus: each effect of a step is recorded in the group's state at once.
//!
//! An index may mean another entry one step later, so the entries of a record or a message are
//! chosen here, under the group's lock. The driver writes and sends them after the lock is
//! released, in order.

use super::group::Group;
use super::mastership::not_master_error;
use super::records;
use super::state::GroupState;
use base::{Error, LogIndex};
use bytes::Bytes;
use logic::consensus::{Effect, Event, Refusal, RefusedCall};
use runtime::metrics::Metrics;

impl Group {
    /// Passes one event to the replica, and records its effects. `received`: the entries of a
    /// received message.
    pub(super) fn step(
        &self,
        state: &mut GroupState,
        event: Event,
        received: &[(LogIndex, Bytes)],
    ) {
        let mut effects = std::mem::take(&mut state.output.effects);
        state.replica.step(event, &mut effects);
        // Only the last role of a step counts: a replica that moves on to its next configuration
        // has no master in between.
        let is_role = |effect: &Effect| matches!(effect, Effect::Role { .. });
        let last_role = effects.iter().rposition(is_role);
        for (position, effect) in effects.drain(..).enumerate() {
            if !is_role(&effect) || Some(position) == last_role {
                self.record_effect(state, effect, received);
            }
        }
        state.output.effects = effects;
    }

    fn record_effect(
        &self,
        state: &mut GroupState,
        effect: Effect,
        received: &[(LogIndex, Bytes)],
    ) {
        match effect {
            Effect::SavePromise { ballot } => {
                state.output.log(records::promise(self.id, ballot, state.replica.tear()));
            }
            Effect::Adopt { ballot, from, last } => {
                state.entries.adopt(ballot, from, last);
                state.output.log(records::adopt(self.id, ballot, from, last));
            }
            Effect::SaveDecided { last } => {
                state.output.log(records::decided(self.id, last, false));
            }
            Effect::Stage { index, ballot } => {
                let (payload, _) = state.payload(index, received);
                state.entries.stage(ballot, index, payload.clone());
                state.output.log(records::stage(self.id, ballot, index, payload));
            }
            Effect::Save { index, ballot, decided } => {
                let (payload, sync) = state.payload(index, received);
                Metrics::count(&self.shared.metrics.log_entries);
                state.entries.accept(index, payload.clone(), sync);
                state.output.log(records::accept(self.id, ballot, index, decided, payload, sync));
            }
            Effect::Decided { last } => state.decided(last, &self.applied),
            Effect::Role { role, master, .. } => {
                self.leadership.on_role_changed(state, &self.applied, role, master);
            }
            Effect::Send { to, message } => {
                state.output.send(to, message, &state.entries, &state.replica);
            }
            Effect::ReadAt { token, index } => state.reads.answer(token, Ok(index)),
            Effect::Refused { call: RefusedCall::Read(token), reason } => {
                state.reads.answer(token, Err(read_refusal(reason)));
            }
            Effect::Refused { call: RefusedCall::HandOver(_), reason } => {
                state.mastership.refusal = Some(reason);
            }
            // The entry stays in the queue, and is proposed when there is space.
            Effect::Refused { call: RefusedCall::Propose, .. } => {}
            Effect::PossibleLoss { after } => self.report_possible_loss(state, after),
            Effect::FetchSnapshot { from } => state.snapshot.fetch_source = Some(from),
            Effect::Configured { configuration, base } => {
                let group = self.id.0;
                tracing::info!(target: "consensus", group, %base, "configuration {configuration}");
                self.leadership.on_reconfigured(&state.replica);
            }
            Effect::Ended => self.leadership.dismiss(),
        }
    }
}

/// Converts the refusal of a read, which was not executed.
fn read_refusal(refusal: Refusal) -> Error {
    match refusal {
        Refusal::NotMaster { master } => not_master_error(master),
        _ => Error::new(refusal.reason(), "too many reads wait for a majority: retry later"),
    }
}

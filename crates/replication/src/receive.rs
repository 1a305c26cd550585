//! Events for consensus from outside the driver: messages of other members, and written records.

use super::group::Group;
use super::inbox::{InboxMessage, read};
use super::state::GroupState;
use base::codec::Malformed;
use base::{Millis, NodeId};
use bytes::Bytes;
use logic::consensus::{Body, Event};
use replica_state::entry::read_stop_sign;
use runtime::log_writer::AppendCompletion;
use store::RecordKind;

/// Maximum bytes of accepted entries that wait to be applied. Further entries are dropped: the
/// master sends them again later, and memory stays bounded. A group with little memory accepts
/// fewer.
const UNAPPLIED_BYTES_MAX: usize = 64 << 20;

impl Group {
    /// Handles a message of another member: decodes it and adds it to the inbox.
    pub fn on_message(&self, from: NodeId, payload: Bytes) {
        let (group, bytes) = (self.id.0, payload.len());
        let (message, entries) = match read(payload) {
            Ok(read) => read,
            Err(Malformed(field)) => {
                tracing::warn!(target: "consensus", group, %from, "a malformed message: {field}");
                return;
            }
        };
        let mut inbox = self.driver.inbox();
        if !message.is_sound() {
            if let Some(left_out) = inbox.on_unsound_message(from) {
                tracing::warn!(
                    target: "consensus", group, %from, left_out,
                    "a member sends a message that violates the protocol: {message:?}"
                );
            }
            return;
        }
        let is_accepted = inbox.push(InboxMessage { from, message, entries, bytes });
        drop(inbox);
        if !is_accepted {
            tracing::debug!(target: "consensus", group, %from, bytes, "a full inbox");
        }
        self.driver.wake();
    }

    /// Handles the end of the connection with another node. Must follow its last message.
    pub fn on_link_ended(&self, node: NodeId) {
        self.driver.inbox().end_link(node);
        self.driver.wake();
    }

    /// Passes a message to consensus.
    pub(super) fn receive(&self, state: &mut GroupState, received: InboxMessage, now: Millis) {
        let InboxMessage { from, message, entries, .. } = received;
        let overflows =
            || self.witness_log().is_some_and(|witness_log| witness_log.is_overflowing());
        let bytes_max = UNAPPLIED_BYTES_MAX.min(state.queue.bytes_max());
        let full = state.entries.unapplied_bytes() > bytes_max || overflows();
        // A full node does not answer the query for entries that it has, or the master would send
        // the others again, only for them to be dropped.
        let is_query = matches!(message.body, Body::Sent { .. });
        if full && (is_query || !entries.is_empty()) {
            return;
        }
        let mut signs = Vec::new();
        for (index, entry) in &entries {
            match read_stop_sign(entry) {
                Ok(Some(sign)) => signs.push((*index, sign)),
                Ok(None) => {}
                Err(Malformed(field)) => {
                    let group = self.id.0;
                    tracing::warn!(
                        target: "consensus", group, %from, "a malformed stop-sign: {field}"
                    );
                    return;
                }
            }
        }
        self.step(state, Event::Received { from, message, signs, now }, &entries);
    }

    /// Processes a record that is as durable as it required.
    pub(super) fn on_written(&self, state: &mut GroupState, record: AppendCompletion) {
        state.snapshot.note_written(&record);
        // Under the same lock as `positions.record`: maintenance always finds the record in one of
        // the two, and retains the log from there on.
        state.entries.in_flight.mark_processed(&record);
        let AppendCompletion { kind, ballot, index, decided, start, .. } = record;
        state.entries.positions.record(kind, ballot, index, decided, start);
        if kind == RecordKind::Accept
            && let Some((turn, has_waiters)) = state.queue.take_turn(index)
        {
            self.large.end(turn, has_waiters);
        }
        if kind == RecordKind::Accept {
            state.times.on_saved(index);
        }
        let event = match kind {
            RecordKind::Promise => Event::PromiseSaved { ballot },
            RecordKind::Accept | RecordKind::Truncate => Event::Saved { ballot, last: index },
            // Staged entries count once the adoption is written; the others change nothing in
            // consensus.
            _ => return,
        };
        self.step(state, event, &[]);
    }
}

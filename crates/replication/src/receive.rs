//! Events for consensus from outside the driver: messages of other members, and written records.

use super::entry::read_stop_sign;
use super::group::Group;
use super::inbox::{InboxMessage, read};
use super::state::GroupState;
use base::codec::Malformed;
use base::{Millis, NodeId};
use bytes::Bytes;
use logic::consensus::{Body, Event};
use runtime::log_writer::LoggedRecord;
use store::RecordKind;

/// While accepted entries of this many bytes wait to be applied, more are not taken: the master
/// sends them again later, and memory stays bounded. A group with little memory takes fewer.
const UNAPPLIED_BYTES_MAX: usize = 64 << 20;

impl Group {
    /// A message of another member arrived.
    pub fn arrived(&self, from: NodeId, payload: Bytes) {
        let (group, bytes) = (self.id.0, payload.len());
        let (message, entries) = match read(payload) {
            Ok(read) => read,
            Err(Malformed(field)) => {
                tracing::warn!(target: "consensus", group, %from, "a bad message: {field}");
                return;
            }
        };
        let mut inbox = self.driver.inbox();
        if !message.is_sound() {
            if let Some(left_out) = inbox.complain(from) {
                tracing::warn!(
                    target: "consensus", group, %from, left_out,
                    "a member says what none can say: {message:?}"
                );
            }
            return;
        }
        let taken = inbox.push(InboxMessage { from, message, entries, bytes });
        drop(inbox);
        if !taken {
            tracing::debug!(target: "consensus", group, %from, bytes, "a full inbox");
        }
        self.driver.wake();
    }

    /// Gives a message to consensus.
    pub(super) fn receive(&self, state: &mut GroupState, came: InboxMessage, now: Millis) {
        let InboxMessage { from, message, entries, .. } = came;
        let overflows = || self.witness_log().is_some_and(|witness_log| witness_log.overflows());
        let bytes_max = UNAPPLIED_BYTES_MAX.min(state.queue.bytes_max());
        let full = state.entries.waiting_bytes() > bytes_max || overflows();
        // A full node does not answer which entries are here, or they would be sent again and
        // dropped again.
        let asked = matches!(message.body, Body::Sent { .. });
        if full && (asked || !entries.is_empty()) {
            return;
        }
        let mut signs = Vec::new();
        for (index, entry) in &entries {
            match read_stop_sign(entry) {
                Ok(Some(sign)) => signs.push((*index, sign)),
                Ok(None) => {}
                Err(Malformed(field)) => {
                    let group = self.id.0;
                    tracing::warn!(target: "consensus", group, %from, "a bad stop-sign: {field}");
                    return;
                }
            }
        }
        self.step(state, Event::Received { from, message, signs, now }, &entries);
    }

    /// Processes a record that is as durable as it required.
    pub(super) fn written(&self, state: &mut GroupState, done: LoggedRecord) {
        state.snapshot.note_written(&done);
        // Under the same lock as `positions.record`: maintenance always finds the record in one of
        // the two, and keeps the log from there on.
        state.entries.in_flight.processed(&done);
        let LoggedRecord { kind, ballot, index, decided, start, .. } = done;
        state.entries.positions.record(kind, ballot, index, decided, start);
        let event = match kind {
            RecordKind::Promise => Event::PromiseSaved { ballot },
            RecordKind::Accept | RecordKind::Truncate => Event::Saved { ballot, upto: index },
            // Staged entries count once the adoption is written; the others change nothing in
            // consensus.
            _ => return,
        };
        self.step(state, event, &[]);
    }
}

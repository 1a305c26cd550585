//! Output of a group's driver: records for the log writer and messages for other members.
//!
//! It is recorded under the group's lock, in the step of consensus that returns it: an index may
//! mean another entry one step later. The driver takes it at the end of its turn and hands it over
//! after the lock is released: the records first, since a message may depend on them.

use super::entries::Entries;
use super::flow_control::FlowControl;
use super::outgoing_message::{MessageEntries, OutgoingMessage, with_range};
use super::records::{LogHead, LogHeadRequest};
use base::limits::VALUE_BATCH_BYTES;
use base::{GroupId, LogIndex, NodeId};
use logic::consensus::{Configuration, Effect, Message, Replica};
use runtime::log_writer::Append;
use std::sync::mpsc::SyncSender;

/// See the head of this file.
pub struct TurnOutput {
    /// Buffer for the effects of one step.
    pub(super) effects: Vec<Effect>,
    /// Records of this turn.
    appends: Vec<Append>,
    /// Messages to other members.
    messages: Vec<OutgoingMessage>,
    /// Entries to be sent in a later turn.
    pub(super) flow_control: FlowControl,
    /// Repeated record of the state that exists only in the log, with its due time.
    pub head_request: LogHeadRequest,
}

/// Work that one turn hands over.
pub(super) struct TurnWork {
    pub appends: Vec<Append>,
    pub messages: Vec<OutgoingMessage>,
    /// Sender that is dropped when the log writer has the records, which notifies the waiter for
    /// the log's head.
    pub head_copied: Option<SyncSender<()>>,
}

impl TurnOutput {
    /// Creates the output of a new run: the log's head is due.
    pub(super) fn new() -> TurnOutput {
        TurnOutput {
            effects: Vec::new(),
            appends: Vec::new(),
            messages: Vec::new(),
            flow_control: FlowControl::default(),
            head_request: LogHeadRequest::due(),
        }
    }

    /// Queues a record for the log.
    pub(super) fn log(&mut self, record: Append) {
        self.appends.push(record);
    }

    /// Queues a message: in several parts if its entries are many, or not all in memory.
    pub(super) fn send(
        &mut self,
        to: NodeId,
        message: Message,
        entries: &Entries,
        replica: &Replica,
    ) {
        let Some((after, last)) = message.body.entry_range() else {
            let (entries, acknowledged) = (MessageEntries::None, LogIndex(0));
            self.messages.push(OutgoingMessage { to, message, entries, acknowledged });
            return;
        };
        let acknowledged = replica.acknowledged(to);
        let mut after = after;
        while after < last {
            let (mut payloads, mut bytes, mut end) = (Vec::new(), 0, after);
            while end < last && bytes < VALUE_BATCH_BYTES {
                let Some((payload, _)) = entries.get(end.next()) else { break };
                bytes += payload.len();
                payloads.push(payload);
                end = end.next();
            }
            let entries = if payloads.is_empty() {
                while end < last && entries.get(end.next()).is_none() {
                    end = end.next();
                }
                MessageEntries::InLog
            } else {
                MessageEntries::InMemory(payloads)
            };
            let body = with_range(message.body, after, end);
            self.messages.push(OutgoingMessage {
                to,
                message: Message { body, ..message },
                entries,
                acknowledged,
            });
            after = end;
        }
    }

    /// Removes and returns the work to hand over, followed by the log's head if it is requested.
    pub(super) fn take(&mut self, group: GroupId, replica: &Replica) -> TurnWork {
        let head_copied = self.head_request.head_copied.take();
        let is_requested =
            std::mem::take(&mut self.head_request.is_requested) || head_copied.is_some();
        let mut appends = std::mem::take(&mut self.appends);
        self.head_request.has_new_records |= !appends.is_empty();
        if is_requested {
            appends.extend(LogHead::from_replica(replica).records(group, head_copied.is_some()));
        }
        TurnWork { appends, messages: std::mem::take(&mut self.messages), head_copied }
    }

    /// Puts back the flow control that a turn used outside the lock. Drops the windows of nodes
    /// that are no members any more: a stop-sign or an installed snapshot may have removed some.
    pub(super) fn return_flow_control(&mut self, used: FlowControl, members: &Configuration) {
        self.flow_control = used;
        self.flow_control.windows.retain_members(members);
    }

    /// Returns true if there is no work to hand over.
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.appends.is_empty()
    }
}

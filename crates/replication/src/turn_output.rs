//! Output of a group's driver: records for the log writer and messages for other members.
//!
//! It is noted under the group's lock, in the very step of consensus that wants it: an index may
//! mean another entry one step later. The driver takes it at the end of its turn and hands it over
//! behind the lock: the records first, since a message may count on them.

use super::entries::Entries;
use super::flow_control::FlowControl;
use super::outgoing_message::{MessageEntries, OutgoingMessage, stretch};
use super::records::{LogHead, Statement};
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
    jobs: Vec<Append>,
    /// Messages to other members.
    messages: Vec<OutgoingMessage>,
    /// Entries to be sent in a later turn.
    pub(super) flow_control: FlowControl,
    /// Repeated record of the state that exists only in the log, with its due time.
    pub statement: Statement,
}

/// Work that one turn hands over.
pub(super) struct TurnWork {
    pub jobs: Vec<Append>,
    pub messages: Vec<OutgoingMessage>,
    /// Sender that is dropped when the log writer has the records. It tells the waiter for the
    /// log's head.
    pub copy: Option<SyncSender<()>>,
}

impl TurnOutput {
    /// Creates the output of a new run: the log's head is due.
    pub(super) fn new() -> TurnOutput {
        TurnOutput {
            effects: Vec::new(),
            jobs: Vec::new(),
            messages: Vec::new(),
            flow_control: FlowControl::default(),
            statement: Statement::due(),
        }
    }

    /// Queues a record for the log.
    pub(super) fn log(&mut self, job: Append) {
        self.jobs.push(job);
    }

    /// Cuts a message into parts: several, where its entries are many or not all in memory.
    pub(super) fn send(
        &mut self,
        to: NodeId,
        message: Message,
        entries: &Entries,
        replica: &Replica,
    ) {
        let Some((after, upto)) = message.body.values() else {
            let (entries, done) = (MessageEntries::None, LogIndex(0));
            self.messages.push(OutgoingMessage { to, message, entries, done });
            return;
        };
        let done = replica.acknowledged(to);
        let mut after = after;
        while after < upto {
            let (mut here, mut bytes, mut end) = (Vec::new(), 0, after);
            while end < upto && bytes < VALUE_BATCH_BYTES {
                let Some((payload, _)) = entries.get(end.next()) else { break };
                bytes += payload.len();
                here.push(payload);
                end = end.next();
            }
            let entries = if here.is_empty() {
                while end < upto && entries.get(end.next()).is_none() {
                    end = end.next();
                }
                MessageEntries::InLog
            } else {
                MessageEntries::Here(here)
            };
            let body = stretch(message.body, after, end);
            self.messages.push(OutgoingMessage {
                to,
                message: Message { body, ..message },
                entries,
                done,
            });
            after = end;
        }
    }

    /// Takes the work to hand over now, with the log's head behind it if that is requested.
    pub(super) fn take(&mut self, group: GroupId, replica: &Replica) -> TurnWork {
        let copy = self.statement.copy.take();
        let asked = std::mem::take(&mut self.statement.asked) || copy.is_some();
        let mut jobs = std::mem::take(&mut self.jobs);
        self.statement.wrote |= !jobs.is_empty();
        if asked {
            jobs.extend(LogHead::of(replica).records(group, copy.is_some()));
        }
        TurnWork { jobs, messages: std::mem::take(&mut self.messages), copy }
    }

    /// Puts back the flow control that a turn used outside the lock. Drops the windows of nodes
    /// that are no members any more: a snapshot that the turn installed may have removed some.
    pub(super) fn return_flow_control(&mut self, used: FlowControl, members: &Configuration) {
        self.flow_control = used;
        self.flow_control.windows.keep(members);
    }

    /// Returns true if there is no work to hand over.
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.jobs.is_empty()
    }
}

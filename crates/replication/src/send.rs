//! Consensus' messages on their way out: which lane, and with which entries.
//!
//! ```text
//! message = consensus message (see logic) | entry ...
//! entry   = length u32 | payload
//! ```
//! Entries are picked when the message is made, under the group's lock: later another may stand
//! under the same index. Only those that have left memory are read back from the log afterwards;
//! they are applied, so nothing else will ever stand there.

use super::flow_control::{CHUNK_BYTES, FlowControl};
use super::group::Group;
use super::outgoing_message::{MessageEntries, OutgoingMessage, stretch};
use base::codec::Writer;
use base::{Error, LogIndex, NodeId, Reason, Result};
use bytes::Bytes;
use logic::consensus::{Body, Message};
use runtime::log_writer::store_error;
use runtime::mutants::Mutant;
use runtime::world;
use store::{ReadError, RecordKind};
use transport::{Lane, Message as Letterhead, Peers, Sending};

/// Slot of heartbeats: a newer one replaces one that waits.
const HEARTBEAT_SLOT: u32 = 0;

impl Group {
    /// Sends the messages of this turn. Entries for which there is no space are noted for the next
    /// turn. A message without a connection is lost, which consensus tolerates.
    pub(super) fn post(
        &self,
        messages: Vec<OutgoingMessage>,
        (flow_control, decided): (&mut FlowControl, LogIndex),
    ) -> Result<()> {
        let Some(peers) = self.shared.peers.get() else { return Ok(()) };
        for OutgoingMessage { to, message, entries, done } in messages {
            let Some((after, upto)) = message.body.values() else {
                self.send(peers, to, message, &[]);
                continue;
            };
            // What follows a lost entry would only be refused.
            let lost = flow_control.unsent.iter().any(|(node, _)| *node == to) || !peers.linked(to);
            // Requested entries are awaited: by a new master, or part by part by a member that is
            // behind the end of its configuration.
            let asked_for = !matches!(message.body, Body::Accept { .. });
            if lost || !asked_for && flow_control.holds_back(to, after) {
                continue;
            }
            let now = world::milliseconds();
            if !asked_for && !flow_control.windows.has_room(to, after, done) {
                flow_control.full(to, after, now);
                continue;
            }
            let full = match entries {
                MessageEntries::Here(entries) => {
                    let full = self.send(peers, to, message, &entries) == Sending::Full;
                    if !asked_for && !full {
                        flow_control.windows.sent(to, upto, entries.iter().map(Bytes::len).sum());
                    }
                    full
                }
                MessageEntries::InLog | MessageEntries::None => {
                    if !asked_for && flow_control.holds(to, after) {
                        continue;
                    }
                    let (end, bytes) = self.send_from_log(peers, to, message, after, upto)?;
                    if !asked_for && end > after {
                        flow_control.sent(to, bytes, decided, now);
                        flow_control.windows.sent(to, end, bytes);
                        if end < upto {
                            flow_control.holds(to, end);
                        }
                    }
                    end == after
                }
            };
            // The asking member requests the rest.
            if full && !asked_for {
                flow_control.full(to, after, now);
            }
        }
        Ok(())
    }

    fn send(&self, peers: &Peers, to: NodeId, message: Message, entries: &[Bytes]) -> Sending {
        let mut head = Vec::with_capacity(64);
        message.write(&mut head);
        let body = match entries {
            [] => Bytes::new(),
            [one] => {
                head.put_u32(one.len() as u32);
                one.clone()
            }
            many => {
                let bytes = many.iter().map(|entry| entry.len() + 4).sum();
                let mut body = Vec::with_capacity(bytes);
                many.iter().for_each(|entry| body.put_string(entry));
                Bytes::from(body)
            }
        };
        let lane = if message.body.ordered() { Lane::Data } else { Lane::Control };
        let letter = Letterhead::new(lane, self.id, body).with_head(&head);
        peers.send(
            to,
            match message.body {
                Body::Heartbeat { .. } => letter.replacing(HEARTBEAT_SLOT),
                _ => letter,
            },
        )
    }

    /// Sends a first part of entries that have left memory. Reading takes long, so the rest is sent
    /// in later turns, between which clients are answered. Returns the last index sent, and the
    /// number of bytes. 0 bytes: the queue is full, or the entries can't be read yet.
    fn send_from_log(
        &self,
        peers: &Peers,
        to: NodeId,
        message: Message,
        after: LogIndex,
        upto: LogIndex,
    ) -> Result<(LogIndex, usize)> {
        let entries = self.read_back(after, upto)?.unwrap_or_default();
        let end = LogIndex(after.0 + entries.len() as u64);
        let message = Message { body: stretch(message.body, after, end), ..message };
        if entries.is_empty() || self.send(peers, to, message, &entries) == Sending::Full {
            return Ok((after, 0));
        }
        Ok((end, entries.iter().map(Bytes::len).sum()))
    }

    /// The entry under an index that this member knows to be decided.
    pub fn decided_value(&self, index: LogIndex) -> Result<Bytes> {
        let here = {
            let state = self.state();
            let decided = index <= state.replica.decided() || Mutant::GivesUndecided.is_active();
            if index == LogIndex(0) || !decided {
                let text = "this member does not know that it was decided: ask another";
                return Err(Error::new(Reason::StaleReplica, text));
            }
            state.entries.get(index).map(|(payload, _)| payload)
        };
        let found = match here {
            Some(entry) => Some(entry),
            None => self.read_back(LogIndex(index.0 - 1), index)?.unwrap_or_default().pop(),
        };
        found.ok_or_else(|| {
            let text = "the log of this member does not reach back so far: ask another";
            Error::new(Reason::StaleReplica, text)
        })
    }

    /// Reads entries behind `after` back from the log, as many as fit one message. Empty if they
    /// are collapsed or not written yet. `None`: the process has no descriptor left to read with; a
    /// later turn reads them.
    pub(super) fn read_back(&self, after: LogIndex, upto: LogIndex) -> Result<Option<Vec<Bytes>>> {
        let kept = self.kept_values(after, upto)?;
        if !kept.is_empty() {
            return Ok(Some(kept));
        }
        let (position, upto) = {
            let state = self.state();
            let runs = &state.entries.positions;
            let Some(position) = runs.find(after.next()) else { return Ok(Some(Vec::new())) };
            // After the end of the run, the first record of an index may be one that was replaced.
            let end = runs.end(after.next());
            (position, if Mutant::RunsWithoutEnd.is_active() { upto } else { upto.min(end) })
        };
        let (mut entries, mut bytes, mut wanted) = (Vec::new(), 0, after.next());
        for record in self.shared.reader.read_from(position) {
            let record = match record {
                Ok((_, record)) => record,
                Err(ReadError::NoDescriptors) if entries.is_empty() => return Ok(None),
                Err(ReadError::Collapsed { .. } | ReadError::NoDescriptors) => break,
                Err(ReadError::Store(error)) => return Err(damaged_log(store_error(error))),
            };
            let entry = matches!(record.kind, RecordKind::Accept | RecordKind::Stage);
            if !entry || record.owner.group != self.id.0 || record.index != wanted.0 {
                continue;
            }
            bytes += record.payload.len();
            entries.push(record.payload);
            if wanted == upto || bytes >= CHUNK_BYTES {
                break;
            }
            wanted = wanted.next();
        }
        Ok(Some(entries))
    }
}

/// Converts an error of reading back: the log is damaged.
fn damaged_log(error: Error) -> Error {
    Error::new(error.reason, format!("reading the log back: {}", error.text()))
}

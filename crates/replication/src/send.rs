//! Outgoing messages of consensus: their lanes and entries.
//!
//! ```text
//! message = consensus message (see logic) | entry ...
//! entry   = length u32 | payload
//! ```
//! Entries are chosen when the message is created, under the group's lock: later another entry may
//! have the same index. Only those that have left memory are read back from the log afterwards:
//! they are applied, so no other entry takes their index.

use super::flow_control::{CHUNK_BYTES, FlowControl};
use super::group::Group;
use super::outgoing_message::{MessageEntries, OutgoingMessage, with_range};
use base::codec::Writer;
use base::{Error, LogIndex, NodeId, Reason, Result};
use bytes::Bytes;
use logic::consensus::{Body, Message};
use runtime::log_writer::store_error;
use runtime::mutants::Mutant;
use runtime::world;
use store::{ReadError, RecordKind};
use transport::{Lane, Message as PeerMessage, Peers, SendOutcome};

/// Slot of heartbeats: a newer one replaces one that is still queued.
const HEARTBEAT_SLOT: u32 = 0;

impl Group {
    /// Sends the messages of this turn. Entries for which there is no space are deferred to the
    /// next turn. A message without a connection is lost, which consensus tolerates.
    pub(super) fn post(
        &self,
        messages: Vec<OutgoingMessage>,
        (flow_control, decided): (&mut FlowControl, LogIndex),
    ) -> Result<()> {
        let Some(peers) = self.shared.peers.get() else { return Ok(()) };
        for OutgoingMessage { to, message, entries, acknowledged } in messages {
            let Some((after, last)) = message.body.entry_range() else {
                self.send(peers, to, message, &[]);
                continue;
            };
            // Entries behind a lost one would only be refused.
            let lost =
                flow_control.unsent.iter().any(|(node, _)| *node == to) || !peers.is_linked(to);
            // Requested entries are never delayed: a new master waits for them, or, part by part, a
            // member that is behind the end of its configuration.
            let is_requested = !matches!(message.body, Body::Accept { .. });
            if lost || !is_requested && flow_control.defer_if_backlogged(to, after) {
                continue;
            }
            let now = world::milliseconds();
            if !is_requested && !flow_control.windows.has_room(to, after, acknowledged) {
                flow_control.note_full(to, after, now);
                continue;
            }
            let full = match entries {
                MessageEntries::InMemory(entries) => {
                    let full = self.send(peers, to, message, &entries) == SendOutcome::Full;
                    if !is_requested && !full {
                        flow_control.windows.note_sent(
                            to,
                            last,
                            entries.iter().map(Bytes::len).sum(),
                        );
                    }
                    full
                }
                MessageEntries::InLog | MessageEntries::None => {
                    if !is_requested && flow_control.defer_if_paused(to, after) {
                        continue;
                    }
                    let (sent, bytes) = self.send_from_log(peers, to, message, after, last)?;
                    if !is_requested && sent > after {
                        flow_control.note_sent(to, bytes, decided, now);
                        flow_control.windows.note_sent(to, sent, bytes);
                        if sent < last {
                            flow_control.defer_if_paused(to, sent);
                        }
                    }
                    sent == after
                }
            };
            // A member that requested entries requests the rest itself.
            if full && !is_requested {
                flow_control.note_full(to, after, now);
            }
        }
        Ok(())
    }

    fn send(&self, peers: &Peers, to: NodeId, message: Message, entries: &[Bytes]) -> SendOutcome {
        let mut head = Vec::with_capacity(64);
        message.write(&mut head);
        let body = match entries {
            [] => Bytes::new(),
            [entry] => {
                head.put_u32(entry.len() as u32);
                entry.clone()
            }
            entries => {
                let bytes = entries.iter().map(|entry| entry.len() + 4).sum();
                let mut body = Vec::with_capacity(bytes);
                entries.iter().for_each(|entry| body.put_string(entry));
                Bytes::from(body)
            }
        };
        let lane = if message.body.is_ordered() { Lane::Data } else { Lane::Control };
        let outgoing = PeerMessage::new(lane, self.id, body).with_head(&head);
        peers.send(
            to,
            match message.body {
                Body::Heartbeat { .. } => outgoing.with_slot(HEARTBEAT_SLOT),
                _ => outgoing,
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
        last: LogIndex,
    ) -> Result<(LogIndex, usize)> {
        let entries = self.read_back(after, last)?.unwrap_or_default();
        let sent = LogIndex(after.0 + entries.len() as u64);
        let message = Message { body: with_range(message.body, after, sent), ..message };
        if entries.is_empty() || self.send(peers, to, message, &entries) == SendOutcome::Full {
            return Ok((after, 0));
        }
        Ok((sent, entries.iter().map(Bytes::len).sum()))
    }

    /// Returns the entry at an index, if it is decided here.
    pub fn decided_entry(&self, index: LogIndex) -> Result<Bytes> {
        let cached = {
            let state = self.state();
            let decided =
                index <= state.replica.decided() || Mutant::SendUndecidedEntries.is_active();
            if index == LogIndex(0) || !decided {
                let text = "this member does not know that the entry was decided: ask another \
                            member";
                return Err(Error::new(Reason::StaleReplica, text));
            }
            state.entries.get(index).map(|(payload, _)| payload)
        };
        let found = match cached {
            Some(entry) => Some(entry),
            None => self.read_back(LogIndex(index.0 - 1), index)?.unwrap_or_default().pop(),
        };
        found.ok_or_else(|| {
            let text = "the log of this member does not have the entry any more: ask another \
                        member";
            Error::new(Reason::StaleReplica, text)
        })
    }

    /// Reads entries behind `after` back from the log, as many as fit one message. Empty if they
    /// are collapsed or not written yet. `None`: the process has no descriptor left to read with; a
    /// later turn reads them.
    pub(super) fn read_back(&self, after: LogIndex, last: LogIndex) -> Result<Option<Vec<Bytes>>> {
        let stored = self.witness_entries(after, last)?;
        if !stored.is_empty() {
            return Ok(Some(stored));
        }
        let (position, last) = {
            let state = self.state();
            let found = state.entries.log_range(after.next());
            // Behind the end of the run, the first record of an index may be a replaced entry.
            let Some((position, end)) = found else { return Ok(Some(Vec::new())) };
            (position, if Mutant::ReadPastRunEnd.is_active() { last } else { last.min(end) })
        };
        let (mut entries, mut bytes, mut next) = (Vec::new(), 0, after.next());
        for record in self.shared.reader.read_from(position) {
            let record = match record {
                Ok((_, record)) => record,
                Err(ReadError::NoDescriptors) if entries.is_empty() => return Ok(None),
                Err(ReadError::Collapsed { .. } | ReadError::NoDescriptors) => break,
                Err(ReadError::Store(error)) => return Err(damaged_log(store_error(error))),
            };
            let is_entry = matches!(record.kind, RecordKind::Accept | RecordKind::Stage);
            if !is_entry || record.owner.group != self.id.0 || record.index != next.0 {
                continue;
            }
            bytes += record.payload.len();
            entries.push(record.payload);
            if next == last || bytes >= CHUNK_BYTES {
                break;
            }
            next = next.next();
        }
        Ok(Some(entries))
    }
}

/// Converts an error of reading back: the log is damaged.
fn damaged_log(error: Error) -> Error {
    Error::new(error.reason, format!("reading the log back: {}", error.text()))
}

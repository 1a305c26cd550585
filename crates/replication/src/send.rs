//! Consensus' messages on their way out: which lane, and with which values.
//!
//! ```text
//! message = consensus message (see logic) | value ...
//! value   = length u32 | payload
//! ```
//! Values are picked when the message is made, under the group's lock: later another may stand
//! under the same index. Only those that have left memory are read back from the log afterwards;
//! they are applied, so nothing else will ever stand there.

use super::group::Group;
use super::letter::{Carried, OutgoingMessage, stretch};
use super::rests::{PART_BYTES, Rests};
use base::codec::Writer;
use base::{Error, LogIndex, NodeId, Reason, Result};
use bytes::Bytes;
use logic::consensus::{Body, Message};
use runtime::log_writer::store_error;
use runtime::mutants::{Flaw, flawed};
use runtime::world;
use store::{ReadError, RecordKind};
use transport::{Lane, Message as Letterhead, Peers, Sending};

/// Waiting heartbeats are worth nothing once a newer one waits.
const HEARTBEAT_SLOT: u32 = 0;

impl Group {
    /// Sends what this turn brought forth. Values that found no room are noted for the next turn;
    /// what had no connection to go by is lost, which consensus is made for.
    pub(super) fn post(
        &self,
        letters: Vec<OutgoingMessage>,
        (rests, decided): (&mut Rests, LogIndex),
    ) -> Result<()> {
        let Some(peers) = self.shared.peers.get() else { return Ok(()) };
        for OutgoingMessage { to, message, values, done } in letters {
            let Some((after, upto)) = message.body.values() else {
                self.send(peers, to, message, &[]);
                continue;
            };
            // What follows a lost value would only be refused.
            let lost = rests.unsent.iter().any(|(node, _)| *node == to) || !peers.linked(to);
            // What was asked for is waited for: by a new master, or part by part by a member that
            // is behind the end of its configuration.
            let asked_for = !matches!(message.body, Body::Accept { .. });
            if lost || !asked_for && rests.holds_back(to, after) {
                continue;
            }
            let now = world::milliseconds();
            if !asked_for && !rests.flights.has_room(to, after, done) {
                rests.full(to, after, now);
                continue;
            }
            let full = match values {
                Carried::Here(values) => {
                    let full = self.send(peers, to, message, &values) == Sending::Full;
                    if !asked_for && !full {
                        rests.flights.sent(to, upto, values.iter().map(Bytes::len).sum());
                    }
                    full
                }
                Carried::InLog | Carried::None => {
                    if !asked_for && rests.holds(to, after) {
                        continue;
                    }
                    let (end, bytes) = self.send_from_log(peers, to, message, after, upto)?;
                    if !asked_for && end > after {
                        rests.sent(to, bytes, decided, now);
                        rests.flights.sent(to, end, bytes);
                        if end < upto {
                            rests.holds(to, end);
                        }
                    }
                    end == after
                }
            };
            // Whoever asked asks for the rest.
            if full && !asked_for {
                rests.full(to, after, now);
            }
        }
        Ok(())
    }

    fn send(&self, peers: &Peers, to: NodeId, message: Message, values: &[Bytes]) -> Sending {
        let mut head = Vec::with_capacity(64);
        message.write(&mut head);
        let body = match values {
            [] => Bytes::new(),
            [one] => {
                head.put_u32(one.len() as u32);
                one.clone()
            }
            many => {
                let bytes = many.iter().map(|value| value.len() + 4).sum();
                let mut body = Vec::with_capacity(bytes);
                many.iter().for_each(|value| body.put_string(value));
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

    /// Sends a first part of values that have left memory: reading takes long, so the rest comes
    /// in later turns, between which clients are answered. Gives up to where it was sent, and how
    /// many bytes: none, where there was no room, or it is not written yet.
    fn send_from_log(
        &self,
        peers: &Peers,
        to: NodeId,
        message: Message,
        after: LogIndex,
        upto: LogIndex,
    ) -> Result<(LogIndex, usize)> {
        let values = self.read_back(after, upto)?;
        let end = LogIndex(after.0 + values.len() as u64);
        let message = Message { body: stretch(message.body, after, end), ..message };
        if values.is_empty() || self.send(peers, to, message, &values) == Sending::Full {
            return Ok((after, 0));
        }
        Ok((end, values.iter().map(Bytes::len).sum()))
    }

    /// The value under an index that this member knows to be decided.
    pub fn decided_value(&self, index: LogIndex) -> Result<Bytes> {
        let here = {
            let state = self.state();
            let decided = index <= state.replica.decided() || flawed(Flaw::GivesUndecided);
            if index == LogIndex(0) || !decided {
                let text = "this member does not know that it was decided: ask another";
                return Err(Error::new(Reason::StaleReplica, text));
            }
            state.values.get(index).map(|(payload, _)| payload)
        };
        let found = match here {
            Some(value) => Some(value),
            None => self.read_back(LogIndex(index.0 - 1), index)?.into_iter().next(),
        };
        found.ok_or_else(|| {
            let text = "the log of this member does not reach back so far: ask another";
            Error::new(Reason::StaleReplica, text)
        })
    }

    /// Reads values behind `after` back from the log, as many as go into one message; none, if they
    /// are collapsed or not written yet, or the process has no descriptor left to read with: who
    /// lacks them is sent them when it has.
    pub(super) fn read_back(&self, after: LogIndex, upto: LogIndex) -> Result<Vec<Bytes>> {
        let kept = self.kept_values(after, upto)?;
        if !kept.is_empty() {
            return Ok(kept);
        }
        let (position, upto) = {
            let state = self.state();
            let runs = &state.values.runs;
            let Some(position) = runs.find(after.next()) else { return Ok(Vec::new()) };
            let end = runs.end(after.next());
            (position, if flawed(Flaw::RunsWithoutEnd) { upto } else { upto.min(end) })
        };
        let (mut values, mut bytes, mut wanted) = (Vec::new(), 0, after.next());
        for record in self.shared.reader.read_from(position) {
            let record = match record {
                Ok((_, record)) => record,
                Err(ReadError::Collapsed { .. } | ReadError::NoDescriptors) => break,
                Err(ReadError::Store(error)) => return Err(damaged_log(store_error(error))),
            };
            let value = matches!(record.kind, RecordKind::Accept | RecordKind::Stage);
            if !value || record.owner.group != self.id.0 || record.index != wanted.0 {
                continue;
            }
            bytes += record.payload.len();
            values.push(record.payload);
            if wanted == upto || bytes >= PART_BYTES {
                break;
            }
            wanted = wanted.next();
        }
        Ok(values)
    }
}

/// Reading back what was written showed damage.
fn damaged_log(error: Error) -> Error {
    Error::new(error.reason, format!("reading the log back: {}", error.text()))
}

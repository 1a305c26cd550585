//! Codec of messages and configurations.
//!
//! A message is its configuration (4 bytes), its ballot (round 8, node 8), the number of its body
//! (1), then the body's fields in the order of their declaration: numbers take 8 bytes, ballots 16,
//! a boolean one. A lease is a boolean, and the highest bit of the time before it: 1 for half a
//! lease. The entries it names follow and are the carrier's. A configuration is its id (4),
//! its number of members combined with its quorum (4), then each one's node (8) and role (1).
//!
//! A reader trusts nothing: unknown bodies and roles, ranges that run backwards, and invalid
//! configurations are [`Malformed`].

use super::configuration::{Configuration, MEMBERS_MAX, Member};
use super::lease::LeaseTerm;
use super::message::{Body, LogSummary, Message, ProbeReply};
use super::tear::Tear;
use base::cluster::{pack_quorum, unpack_quorum};
use base::codec::{Malformed, Reader, Writer};
use base::{Ballot, ConfigurationId, LogIndex, Millis, NodeId, Part};

/// Bit of a heartbeat's time that requests half a lease. A follower of a former version grants a
/// whole lease, which is longer, and returns the time with its bit, so the answer reads as granted.
/// A master of a former version never sets it, and gets the whole lease that it relies on.
const HALF_LEASE: u64 = 1 << 63;

impl Message {
    /// Appends the message.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.put_u32(self.configuration.0);
        put_ballot(self.ballot, out);
        out.put_u8(body_number(&self.body));
        match self.body {
            Body::Probe { round } => out.put_u64(round),
            Body::Probed { round, reply } => {
                out.put_u64(round);
                out.put_u8(reply.must_abstain.into());
                out.put_u8(reply.is_candidate.into());
                put_log(reply.log, out);
            }
            Body::Prepare { released: ballot } | Body::Refused { promised: ballot } => {
                put_ballot(ballot, out);
            }
            Body::Promise { log } => put_log(log, out),
            Body::TornPromise { log, tear } => {
                put_log(log, out);
                out.put_u64(tear.0);
            }
            Body::LogEnd { tear, last } => {
                out.put_u64(tear.0);
                put_indexes(&[last], out);
            }
            Body::Heartbeat { beat, sent, lease, decided, saved_by_all } => {
                out.put_u64(beat);
                put_lease(sent, lease, out);
                out.put_u64(decided.0);
                if saved_by_all.0 > 0 {
                    out.put_u64(saved_by_all.0);
                }
            }
            Body::Granted { beat, sent, lease, .. } => {
                out.put_u64(beat);
                put_lease(sent, lease, out);
            }
            Body::Fetch { after: index }
            | Body::Accepted { last: index }
            | Body::Staged { last: index }
            | Body::Sent { last: index }
            | Body::Gap { last: index }
            | Body::Decide { last: index }
            | Body::Straggling { decided: index } => put_indexes(&[index], out),
            Body::Fetched { after: from, last } | Body::Adopt { from, last } => {
                put_indexes(&[from, last], out);
            }
            Body::Accept { after, last, decided: third }
            | Body::Learn { after, last, end: third } => {
                put_indexes(&[after, last, third], out);
            }
            Body::Behind | Body::HandOver | Body::Outdated | Body::Ended => {}
        }
    }

    /// Reads a message; what follows it stays in the reader.
    pub fn read(reader: &mut Reader<'_>) -> Result<Message, Malformed> {
        let configuration = ConfigurationId(reader.u32("configuration")?);
        let ballot = take_ballot(reader)?;
        let number = reader.u8("kind of message")?;
        let body = take_body(number, reader)?;
        if body.entry_range().is_some_and(|(after, last)| after >= last) {
            return Err(Malformed("a stretch of values"));
        }
        Ok(Message { configuration, ballot, body })
    }
}

/// Returns the number of the body; a number is never reused.
fn body_number(body: &Body) -> u8 {
    match body {
        Body::Probe { .. } => 0,
        Body::Probed { .. } => 1,
        Body::Prepare { .. } => 2,
        Body::Promise { .. } => 3,
        Body::Refused { .. } => 4,
        Body::Fetch { .. } => 5,
        Body::Fetched { .. } => 6,
        Body::Behind => 7,
        Body::Adopt { .. } => 8,
        Body::Accept { .. } => 9,
        Body::Accepted { .. } => 10,
        Body::Staged { .. } => 11,
        Body::Gap { .. } => 12,
        Body::Decide { .. } => 13,
        // Messages that only witnesses send and receive have numbers of their own.
        Body::Heartbeat { saved_by_all: LogIndex(1..), .. } => 21,
        Body::Heartbeat { .. } => 14,
        Body::Granted { is_full: true, .. } => 22,
        Body::Granted { .. } => 15,
        Body::HandOver => 16,
        Body::Outdated => 17,
        Body::Straggling { .. } => 18,
        Body::Learn { .. } => 19,
        Body::Ended => 20,
        // An older version skips these: a torn log does not count in elections there.
        Body::TornPromise { .. } => 23,
        Body::LogEnd { .. } => 24,
        // It only reports entries that were lost on their way; the next entry reveals them, too.
        Body::Sent { .. } => 25,
    }
}

fn take_body(number: u8, from: &mut Reader<'_>) -> Result<Body, Malformed> {
    Ok(match number {
        0 => Body::Probe { round: from.u64("round")? },
        1 => {
            let round = from.u64("round")?;
            let (must_abstain, is_candidate) = (take_bool(from)?, take_bool(from)?);
            Body::Probed {
                round,
                reply: ProbeReply { must_abstain, is_candidate, log: take_log(from)? },
            }
        }
        2 => Body::Prepare { released: take_ballot(from)? },
        3 => Body::Promise { log: take_log(from)? },
        4 => Body::Refused { promised: take_ballot(from)? },
        5 => Body::Fetch { after: take_index(from)? },
        6 => Body::Fetched { after: take_index(from)?, last: take_index(from)? },
        7 => Body::Behind,
        8 => Body::Adopt { from: take_index(from)?, last: take_index(from)? },
        9 => {
            let (after, last) = (take_index(from)?, take_index(from)?);
            Body::Accept { after, last, decided: take_index(from)? }
        }
        10 => Body::Accepted { last: take_index(from)? },
        11 => Body::Staged { last: take_index(from)? },
        12 => Body::Gap { last: take_index(from)? },
        13 => Body::Decide { last: take_index(from)? },
        14 | 21 => {
            let beat = from.u64("beat")?;
            let ((sent, lease), decided) = (take_lease(from)?, take_index(from)?);
            let saved_by_all = if number == 21 { take_index(from)? } else { LogIndex(0) };
            if number == 21 && saved_by_all == LogIndex(0) {
                return Err(Malformed("what is kept"));
            }
            Body::Heartbeat { beat, sent, lease, decided, saved_by_all }
        }
        15 | 22 => {
            let (beat, (sent, lease)) = (from.u64("beat")?, take_lease(from)?);
            Body::Granted { beat, sent, lease, is_full: number == 22 }
        }
        16 => Body::HandOver,
        17 => Body::Outdated,
        18 => Body::Straggling { decided: take_index(from)? },
        19 => {
            let (after, last) = (take_index(from)?, take_index(from)?);
            Body::Learn { after, last, end: take_index(from)? }
        }
        20 => Body::Ended,
        23 => Body::TornPromise { log: take_log(from)?, tear: Tear(from.u64("tear")?) },
        24 => Body::LogEnd { tear: Tear(from.u64("tear")?), last: take_index(from)? },
        25 => Body::Sent { last: take_index(from)? },
        _ => return Err(Malformed("kind of message")),
    })
}

impl Configuration {
    /// Appends the configuration: the content of a stop-sign.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.put_u32(self.id().0);
        out.put_u32(pack_quorum(self.members().len() as u32, self.quorum()));
        for member in self.members() {
            out.put_u64(member.node.0);
            out.put_u8(match member.part {
                Part::Voter => 0,
                Part::Witness => 1,
                Part::Learner => 2,
            });
        }
    }

    /// Reads a configuration; what follows it stays in the reader.
    pub fn read(reader: &mut Reader<'_>) -> Result<Configuration, Malformed> {
        let id = ConfigurationId(reader.u32("configuration")?);
        let (count, quorum) = unpack_quorum(reader.u32("number of members")?);
        if count as usize > MEMBERS_MAX {
            return Err(Malformed("number of members"));
        }
        let mut members = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let node = NodeId(reader.u64("member")?);
            let part = match reader.u8("part")? {
                0 => Part::Voter,
                1 => Part::Witness,
                2 => Part::Learner,
                _ => return Err(Malformed("part")),
            };
            members.push(Member { node, part });
        }
        Configuration::new(id, members)
            .and_then(|configuration| configuration.with_quorum(quorum))
            .map_err(|_| Malformed("a set of members"))
    }
}

/// Appends the time of a heartbeat and the lease that it requests, or that an answer grants.
fn put_lease(sent: Millis, lease: Option<LeaseTerm>, out: &mut Vec<u8>) {
    let half = if lease == Some(LeaseTerm::Half) { HALF_LEASE } else { 0 };
    out.put_u64(sent.0 | half);
    out.put_u8(lease.is_some().into());
}

fn put_ballot(ballot: Ballot, out: &mut Vec<u8>) {
    out.put_u64(ballot.round);
    out.put_u64(ballot.node.0);
}

fn put_indexes(indexes: &[LogIndex], out: &mut Vec<u8>) {
    indexes.iter().for_each(|index| out.put_u64(index.0));
}

fn put_log(log: LogSummary, out: &mut Vec<u8>) {
    put_ballot(log.ballot, out);
    put_indexes(&[log.last, log.decided], out);
}

fn take_lease(from: &mut Reader<'_>) -> Result<(Millis, Option<LeaseTerm>), Malformed> {
    let (sent, is_leased) = (from.u64("sent")?, take_bool(from)?);
    let lease = match (is_leased, sent & HALF_LEASE != 0) {
        (true, true) => Some(LeaseTerm::Half),
        (true, false) => Some(LeaseTerm::Whole),
        (false, false) => None,
        (false, true) => return Err(Malformed("half of no lease")),
    };
    Ok((Millis(sent & !HALF_LEASE), lease))
}

fn take_ballot(from: &mut Reader<'_>) -> Result<Ballot, Malformed> {
    Ok(Ballot { round: from.u64("round")?, node: NodeId(from.u64("node")?) })
}

fn take_index(from: &mut Reader<'_>) -> Result<LogIndex, Malformed> {
    from.u64("index").map(LogIndex)
}

fn take_log(from: &mut Reader<'_>) -> Result<LogSummary, Malformed> {
    let ballot = take_ballot(from)?;
    Ok(LogSummary { ballot, last: take_index(from)?, decided: take_index(from)? })
}

fn take_bool(from: &mut Reader<'_>) -> Result<bool, Malformed> {
    match from.u8("yes or no")? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed("yes or no")),
    }
}

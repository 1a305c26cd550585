//! Consensus: `Replica::step` with any message from any node, in any order, between events of a
//! sound host, crashes and restarts.
//!
//! A member that sends anything may stop its group, and the group's protocol trusts it not to. What
//! it can't do: end this replica, change what this replica has decided, make its host carry out
//! what is impossible, or leave something on its disk with which it can't start again. A node that
//! is no member can't write to its disk at all.

use super::replica_host::{Host, MEMBERS, configuration};
use crate::input::InputReader;
use base::{Ballot, ConfigurationId, LogIndex, Millis, NodeId};
use logic::consensus::{
    Body, EntrySize, Event, LeaseTerm, LogSummary, Message, ProbeReply, ReadToken, Tear,
};

/// Most events of one input.
const EVENTS_MAX: usize = 256;
/// Most entries that one message brings.
const ENTRIES_MAX: u64 = 64;

/// Passes the events of an input to a replica.
pub fn run(input: &[u8]) {
    let mut input = InputReader::new(input);
    let mut host = Host::new(input.below(4));
    for _ in 0..EVENTS_MAX {
        if input.is_empty() {
            break;
        }
        host.now.0 += u64::from(input.u8() % 64) * 8;
        event(&mut host, &mut input);
    }
    // Whatever was said: the next start succeeds.
    host.crash(0);
}

fn event(host: &mut Host, input: &mut InputReader<'_>) {
    let now = host.now;
    match input.below(24) {
        0 | 1 => host.step(Event::Tick { now }),
        2 => host.step(Event::Propose { size: EntrySize { bytes: 10, updates: 1 } }),
        3..=5 => host.save(input.below(8)),
        6 => host.step(Event::Read { token: ReadToken(input.u8().into()), now }),
        7 => host.step(Event::HandOver { to: node(input), now }),
        8 => {
            let next = host.replica.configuration().id().0.wrapping_add(u32::from(input.u8() % 3));
            let size = EntrySize { bytes: 10, updates: 0 };
            host.reconfigure(configuration(next), size);
        }
        9 => host.crash(input.below(8)),
        10 => host.flush(),
        11 => host.report_unsent(input.below(4)),
        12 => host.step(Event::LaneSpace { to: node(input) }),
        13 => match input.u8() {
            choice if choice < 0xC0 => host.step(Event::Disk { disk_hangs: choice & 1 == 1 }),
            _ => host.step(Event::LinkEnded { node: node(input), now }),
        },
        14 => host.step(Event::Yield { prefers_other: input.bool() }),
        15 if input.u8() == 0 => host.step(Event::Retire),
        15..=18 => answer(host, input),
        _ => receive(host, input),
    }
}

/// Returns a node: a member, sometimes a stranger, never the replica's own.
fn node(input: &mut InputReader<'_>) -> NodeId {
    NodeId(2 + input.u8() as u64 % MEMBERS)
}

/// Answers one of the last messages as a sound member does, so that histories get as far as an
/// office of a master.
fn answer(host: &mut Host, input: &mut InputReader<'_>) {
    let Some((from, sent)) = host.last_sent(input.below(6)) else { return };
    let log = LogSummary { ballot: Ballot::default(), last: LogIndex(0), decided: LogIndex(0) };
    let body = match sent.body {
        Body::Probe { round } => {
            let reply = ProbeReply { must_abstain: false, is_candidate: false, log };
            Body::Probed { round, reply }
        }
        Body::Prepare { .. } => Body::Promise { log },
        Body::Fetch { after } => Body::Fetched { after, last: host.replica.last().next() },
        Body::Adopt { last, .. } | Body::Accept { last, .. } | Body::Sent { last } => {
            if input.bool() { Body::Accepted { last } } else { Body::Staged { last } }
        }
        Body::Heartbeat { beat, sent, lease, .. } => {
            Body::Granted { beat, sent, lease, is_full: false }
        }
        Body::Promise { log } => Body::Adopt { from: log.last, last: log.last },
        Body::Accepted { last } if input.bool() => Body::Decide { last },
        Body::Accepted { last: after } => {
            let last = LogIndex(after.0 + 1 + u64::from(input.u8()) % ENTRIES_MAX);
            Body::Accept { after, last, decided: after }
        }
        Body::Straggling { decided: after } => {
            let last = LogIndex(after.0 + 1 + u64::from(input.u8()) % ENTRIES_MAX);
            Body::Learn { after, last, end: last }
        }
        _ => return,
    };
    let message = Message { body, ..sent };
    if message.is_sound() {
        host.receive(from, message, Vec::new());
    }
}

fn receive(host: &mut Host, input: &mut InputReader<'_>) {
    let from = node(input);
    let current = host.replica.configuration().id();
    let configuration = match input.below(12) {
        0 => ConfigurationId(input.u32()),
        1 => ConfigurationId(current.0.wrapping_add(1)),
        2 => ConfigurationId(current.0.wrapping_sub(1)),
        _ => current,
    };
    let message = Message { configuration, ballot: ballot(host, input), body: body(host, input) };
    // What a carrier hands on: the message and as many entries as it names.
    let entries =
        message.body.entry_range().map_or(0, |(after, last)| last.0.wrapping_sub(after.0));
    if entries > ENTRIES_MAX && message.is_sound() {
        return;
    }
    let signs = match message.body.entry_range() {
        Some((after, last)) if after < last && input.below(8) == 0 => {
            let index = LogIndex(after.0 + 1 + u64::from(input.u8()) % (last.0 - after.0));
            let next = current.0.wrapping_add(u32::from(input.u8() % 3));
            vec![(index, super::replica_host::configuration(next))]
        }
        _ => Vec::new(),
    };
    let is_stranger = host.replica.configuration().part(from).is_none();
    // The last master of an earlier configuration may hand over.
    let is_former = matches!(message.body, Body::HandOver);
    let is_current = message.configuration == current;
    let records = host.records();
    host.receive(from, message, signs);
    if is_stranger && is_current && !is_former {
        assert_eq!(host.records(), records, "a stranger has written: {message:?}");
    }
}

/// Returns a number near a meaningful one, or any.
fn number(host: &Host, input: &mut InputReader<'_>) -> u64 {
    let (last, decided) = (host.replica.last().0, host.replica.decided().0);
    let near = [0, last, decided, 64, 1 << 40, 2 << 40, host.now.0, u64::MAX / 2, u64::MAX];
    match input.below(16) {
        0 => input.u64(),
        choice => near[choice % near.len()].wrapping_add(u64::from(input.u8() % 5)).wrapping_sub(2),
    }
}

fn index(host: &Host, input: &mut InputReader<'_>) -> LogIndex {
    LogIndex(number(host, input))
}

fn ballot(host: &Host, input: &mut InputReader<'_>) -> Ballot {
    let promised = host.replica.promised();
    let node = NodeId(1 + input.u8() as u64 % (MEMBERS + 1));
    match input.below(8) {
        0 | 1 => promised,
        2 | 3 => Ballot { round: promised.round.wrapping_add(1), node },
        4 => Ballot { node, ..promised },
        5 => Ballot { round: (2 << 40) - 1 - u64::from(input.u8() % 2), node },
        6 => Ballot { round: (1 << 40) + u64::from(input.u8()), node },
        _ => Ballot { round: number(host, input), node },
    }
}

fn log(host: &Host, input: &mut InputReader<'_>) -> LogSummary {
    LogSummary {
        ballot: ballot(host, input),
        last: index(host, input),
        decided: index(host, input),
    }
}

fn lease(is_leased: bool, is_whole: bool) -> Option<LeaseTerm> {
    is_leased.then_some(if is_whole { LeaseTerm::Whole } else { LeaseTerm::Half })
}

fn body(host: &Host, input: &mut InputReader<'_>) -> Body {
    let kind = input.below(26);
    let (yes, no) = (input.bool(), input.bool());
    let after = index(host, input);
    let last = match input.below(4) {
        0 => index(host, input),
        _ => LogIndex(after.0.wrapping_add(1 + u64::from(input.u8()) % ENTRIES_MAX)),
    };
    let tear = Tear(7 + u64::from(input.u8() % 2));
    match kind {
        0 => Body::Probe { round: number(host, input) },
        1 => {
            let log = log(host, input);
            let reply = ProbeReply { must_abstain: yes, is_candidate: no, log };
            Body::Probed { round: number(host, input), reply }
        }
        2 => Body::Prepare { released: ballot(host, input) },
        3 => Body::Promise { log: log(host, input) },
        4 => Body::TornPromise { log: log(host, input), tear },
        5 => Body::Refused { promised: ballot(host, input) },
        6 => Body::Fetch { after },
        7 => Body::Fetched { after, last },
        8 => Body::Behind,
        9 => Body::Adopt { from: after, last },
        10..=12 => Body::Accept { after, last, decided: index(host, input) },
        13 => Body::Accepted { last },
        14 => Body::Staged { last },
        15 => Body::Gap { last },
        16 => Body::Decide { last },
        17 | 18 => Body::Heartbeat {
            beat: number(host, input),
            sent: Millis(number(host, input)),
            lease: lease(yes, no),
            decided: after,
            saved_by_all: last,
        },
        19 => {
            let (beat, sent) = (number(host, input), Millis(number(host, input)));
            Body::Granted { beat, sent, lease: lease(yes, no), is_full: no }
        }
        20 => Body::LogEnd { tear, last },
        21 => [Body::HandOver, Body::Outdated, Body::Ended][input.below(3)],
        22 => Body::Straggling { decided: after },
        23 => Body::Sent { last },
        _ => Body::Learn { after, last, end: index(host, input) },
    }
}

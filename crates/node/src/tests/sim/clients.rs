//! Clients of the simulation: each has at most one call open.

use super::judge::Judge;
use super::node::{GroupsProcess, SimNode, group_id};
use base::request::Expiry;
use base::{Body, BucketId, Error, LogIndex, Properties, Read, Reason, Result, Update};
use bytes::Bytes;
use replication::bucket::Bucket;
use replication::group::Group;
use replication::{point_reads, read};
use runtime::submit::Ticket;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Timeout of a client, in microseconds.
const TIMEOUT_US: u64 = 2_000_000;

pub(super) struct Client {
    pub idle_until: u64,
    pub call: Option<Pending>,
}

/// Open call at one process of one node.
pub(super) struct Pending {
    pub node: usize,
    pub group: usize,
    pub process: u64,
    key: Bytes,
    began: u64,
    kind: Kind,
}

enum Kind {
    Write {
        value: Bytes,
        ticket: Ticket,
    },
    /// Test-and-set that changes nothing, with the value that it returned.
    Probed {
        value: Option<Bytes>,
        ticket: Ticket,
    },
    /// Read under the lease; at this time the thread reads and checks the lease again.
    Leased {
        check_at: u64,
    },
    /// Read without a lease, which asks a majority for the read index.
    ReadIndex(Pin<Box<dyn Future<Output = Result<LogIndex>>>>),
    /// Read that waits until this index is applied.
    WaitApplied(LogIndex),
}

/// Outcome of a call, for the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ClientCallOutcome {
    Wrote,
    Read,
    InDoubt,
    Refused,
}

pub(super) fn bucket(group: usize) -> Bucket {
    Bucket::new(BucketId(9), group_id(group), Properties::default())
}

/// Returns true for half of all keys and values: these go by a run of one request.
fn goes_as_run(bytes: &Bytes) -> bool {
    base::codec::checksum(bytes, 0).is_multiple_of(2)
}

fn read_value(process: &GroupsProcess, group: usize, key: &Bytes) -> Option<Bytes> {
    if goes_as_run(key) {
        let mut found = None;
        point_reads::get_each(process.group(group), &bucket(group), &[key], &mut |value| {
            found = value.expect("a read").map(|value| value.share());
            true
        });
        return found;
    }
    let read = Read::Get(key.clone());
    match read::read(process.group(group), &bucket(group), &read).expect("a read").body {
        Body::Row(row) => row.map(|row| row.value),
        other => panic!("a get is answered with a row, not {other:?}"),
    }
}

/// Starts a write. `None`: it was refused at once and had no effect.
pub(super) fn write(
    (place, group): (usize, usize),
    process: &GroupsProcess,
    key: Bytes,
    value: Bytes,
    now: u64,
    judge: &mut Judge,
) -> Option<Pending> {
    let Ok(ticket) = submit_set(process.group(group), &bucket(group), &key, &value) else {
        judge.refused(key, value);
        return None;
    };
    let kind = Kind::Write { value, ticket };
    Some(Pending { node: place, group, process: process.number, key, began: now, kind })
}

fn submit_set(group: &Group, bucket: &Bucket, key: &Bytes, value: &Bytes) -> Result<Ticket> {
    if goes_as_run(value) {
        let mut ticket = None;
        group.submit_sets(bucket, &[(key, value)], &mut |accepted| ticket = Some(accepted))?;
        return Ok(ticket.expect("the first set is accepted or refused"));
    }
    let (key, value) = (key.clone(), value.clone());
    let update = Update::Set { key, value, expiry: Expiry::Default };
    let (ticket, _, outcome) = group.submit(bucket, &update, None)?;
    outcome.expect("a set is never refused by what it finds");
    Ok(ticket.expect("a set is a value"))
}

/// Starts a test-and-set that will change nothing. `None`: it was refused at once, or answered at
/// once.
pub(super) fn probe(
    (place, group): (usize, usize),
    process: &GroupsProcess,
    key: Bytes,
    now: u64,
    judge: &mut Judge,
) -> Option<Pending> {
    let expected = Some(Bytes::from_static(b"never written"));
    let update = Update::TestAndSet { key: key.clone(), expected, wanted: None };
    let (ticket, _, outcome) = process.group(group).submit(&bucket(group), &update, None).ok()?;
    let value = match outcome.expect("a test-and-set is never refused by what it finds") {
        base::Outcome::Old(value) => value,
        other => panic!("a test-and-set tells what was there, not {other:?}"),
    };
    match ticket {
        Some(ticket) => {
            let kind = Kind::Probed { value, ticket };
            Some(Pending { node: place, group, process: process.number, key, began: now, kind })
        }
        None => {
            judge.answered(key, value, now, now);
            None
        }
    }
}

/// Starts a read. `pause`: time for which the node's thread may pause before it checks its lease
/// again.
pub(super) fn read(
    (place, group): (usize, usize),
    process: &GroupsProcess,
    key: Bytes,
    now: u64,
    pause: u64,
) -> Pending {
    let kind = if process.group(group).leadership.can_read() {
        Kind::Leased { check_at: now + pause }
    } else {
        let group = Arc::clone(process.group(group));
        Kind::ReadIndex(Box::pin(async move { group.read_index().await }))
    };
    Pending { node: place, group, process: process.number, key, began: now, kind }
}

fn poll<T>(future: Pin<&mut (impl Future<Output = T> + ?Sized)>) -> Option<T> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}

impl Client {
    /// Continues the open call, if possible. Returns its outcome once it is over.
    pub fn advance(
        &mut self,
        nodes: &[SimNode],
        now: u64,
        judges: &mut [Judge],
    ) -> Option<ClientCallOutcome> {
        let pending = self.call.as_mut()?;
        let judge = &mut judges[pending.group];
        let node = &nodes[pending.node];
        let process = node.process.as_ref().filter(|process| process.number == pending.process);
        let in_time = now < pending.began + TIMEOUT_US;
        let outcome = match process {
            Some(process) if in_time && now >= node.clock.paused_until => {
                node.clock.enter(now);
                pending.advance(process, now, judge)
            }
            Some(_) if in_time => None,
            // The process is gone, or too slow: the outcome of a write is unknown.
            _ if matches!(pending.kind, Kind::Write { .. }) => Some(ClientCallOutcome::InDoubt),
            _ => Some(ClientCallOutcome::Refused),
        };
        if outcome.is_some() {
            self.call = None;
        }
        outcome
    }
}

impl Pending {
    fn advance(
        &mut self,
        process: &GroupsProcess,
        now: u64,
        judge: &mut Judge,
    ) -> Option<ClientCallOutcome> {
        let group = process.group(self.group);
        match &mut self.kind {
            Kind::Write { value, ticket } => {
                let applied = poll(pin!(group.wait_applied(*ticket)).as_mut())?;
                match applied {
                    Ok(()) => {
                        judge.answered(self.key.clone(), Some(value.clone()), self.began, now);
                        Some(ClientCallOutcome::Wrote)
                    }
                    Err(error) if nothing_happened(&error) => {
                        judge.refused(self.key.clone(), value.clone());
                        Some(ClientCallOutcome::Refused)
                    }
                    Err(_) => Some(ClientCallOutcome::InDoubt),
                }
            }
            Kind::Probed { value, ticket } => {
                match poll(pin!(group.wait_applied(*ticket)).as_mut())? {
                    Ok(()) => {
                        judge.answered(self.key.clone(), value.take(), self.began, now);
                        Some(ClientCallOutcome::Read)
                    }
                    Err(_) => Some(ClientCallOutcome::Refused),
                }
            }
            Kind::Leased { check_at: at } if now < *at => None,
            Kind::Leased { .. } => {
                let value = read_value(process, self.group, &self.key);
                if !group.leadership.can_read() {
                    return Some(ClientCallOutcome::Refused);
                }
                judge.answered(self.key.clone(), value, self.began, now);
                Some(ClientCallOutcome::Read)
            }
            Kind::ReadIndex(read_index_call) => match poll(read_index_call.as_mut())? {
                Ok(index) => {
                    self.kind = Kind::WaitApplied(index);
                    self.advance(process, now, judge)
                }
                Err(_) => Some(ClientCallOutcome::Refused),
            },
            Kind::WaitApplied(index) if group.applied.index() < *index => None,
            Kind::WaitApplied(_) => {
                judge.answered(
                    self.key.clone(),
                    read_value(process, self.group, &self.key),
                    self.began,
                    now,
                );
                Some(ClientCallOutcome::Read)
            }
        }
    }
}

fn nothing_happened(error: &Error) -> bool {
    error.reason == Reason::NotMaster
}

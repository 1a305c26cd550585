//! Master side of forwarding: evaluates requests that other nodes pass on.

use super::message::{self, BYTES_MAX};
use crate::answers::Answers;
use crate::flow::{Caller, Flow};
use crate::route::Router;
use base::limits::MASTER_WAIT_MS_MAX;
use base::wire::{answer_bytes, may_change, write_answer_to};
use base::{
    Body, Call, Error, GroupId, LogIndex, Outcome, Principal, Read, ReadLevel, Reason, Reply,
    Request, Result,
};
use bytes::Bytes;
use replication::seals::bucket_moved_error;
use runtime::metrics::Metrics;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;
use transport::{IncomingCall, incoming};

/// Length from which an answer counts against the memory for answers.
const LARGE_BYTES: usize = 64 * 1024;
/// Longest request that may be answered by the task that received it, and longest value in such an
/// answer: it has other messages to deliver.
const AT_ONCE_BYTES_MAX: usize = 4 * 1024;

/// Accepts a forwarded request, or declines it. A get of a row in memory is answered at once; any
/// other request is evaluated in a task of its own.
pub(crate) fn on_forwarded_request(router: &Arc<Router>, call: IncomingCall) {
    let Some(peers) = router.locator.links.peers.get() else { return };
    if let Some(answer) = answer_from_memory(router, &call) {
        match router.incoming.admit_or_decline(peers, &call) {
            Some(permit) => incoming::reply(permit, peers, call, answer),
            None => Metrics::count(&router.metrics.forwarded_rejected),
        }
        return;
    }
    let owner = router.clone();
    let handle = move |group, payload: Bytes| async move {
        let (directory, principal, request) = message::read(&payload)?;
        let call = request.call.clone();
        let answer = match principal_of(&owner, principal) {
            Ok(principal) => evaluate(&owner, group, directory, (principal, request)).await,
            Err(error) => Err(error),
        };
        Ok(encode_answer(&owner.answers, (&payload[..], &call), answer))
    };
    if !router.incoming.serve(peers, call, "a forwarded request", handle) {
        Metrics::count(&router.metrics.forwarded_rejected);
    }
}

/// Returns the answer to a consistent get that this node can give without waiting for anything.
fn answer_from_memory(router: &Arc<Router>, call: &IncomingCall) -> Option<Bytes> {
    let payload = &call.payload;
    if payload.len() > AT_ONCE_BYTES_MAX || message::is_for_version(payload) {
        return None;
    }
    let (directory, principal, request) = message::read(payload).ok()?;
    let Call::Read(Read::Get(key), ReadLevel::Consistent) = &request.call else { return None };
    if router.directory.group.applied.index() < directory {
        return None;
    }
    // What is refused takes the usual way, and is refused there.
    let principal = principal_of(router, principal).ok()?;
    let mut flow = Flow::forwarded(Caller::of(principal));
    router.access.admit(&mut flow, &request).ok()?;
    let answer = router.get_in_memory(&request.bucket, call.group, key)?;
    if answer_bytes(&answer) > AT_ONCE_BYTES_MAX {
        return None;
    }
    router.diagnostics.hot_keys.count(&request);
    Metrics::count(&router.metrics.forwarded_in);
    Some(encode_answer(&router.answers, (payload, &request.call), answer))
}

/// Encodes the answer to a call. A large one counts against the memory for answers until it is
/// sent. Without memory for it, an update is answered as applied, another change as in doubt, and a
/// read is refused.
fn encode_answer(
    answers: &Answers,
    (payload, call): (&[u8], &Call),
    answer: Result<Reply>,
) -> Bytes {
    let bytes = answer_bytes(&answer);
    let permit = match bytes {
        ..=LARGE_BYTES => Ok(None),
        _ => answers.try_reserve(bytes.min(BYTES_MAX)),
    };
    let (answer, permit) = match (permit, answer) {
        (Ok(permit), answer) => (answer, permit),
        (Err(_), Ok(Reply { index, version, body: Body::Updated(_) })) => {
            let body = Body::Updated(Outcome::AppliedAt(index));
            (Ok(Reply { index, version, body }), None)
        }
        // `Overloaded` would claim that nothing was done.
        (Err(_), _) if may_change(call) => (Err(in_doubt_error()), None),
        (Err(error), _) => (Err(error), None),
    };
    let mut bytes = Vec::new();
    message::put_version(payload, &answer, &mut bytes);
    write_answer_to(call, &answer, BYTES_MAX - bytes.len(), &mut bytes);
    match permit {
        None => bytes.into(),
        Some(permit) => Bytes::from_owner(CountedBytes { bytes, _permit: permit }),
    }
}

fn in_doubt_error() -> Error {
    Error::new(
        Reason::InDoubt,
        "the request was applied, but there is no memory for the answer: read to see the result",
    )
}

/// Bytes that hold their memory permit until they are dropped.
struct CountedBytes {
    bytes: Vec<u8>,
    _permit: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Returns the principal of a forwarded request. While access is off, nodes name none, and the
/// sender has decided.
fn principal_of(router: &Router, principal: Option<Principal>) -> Result<Principal> {
    match principal {
        Some(principal) => Ok(principal),
        None if !router.access.is_on() => Ok(Principal::Node),
        None => Err(Error::new(
            Reason::StaleReplica,
            "the node that passed this request on does not know yet that access is on: nothing was \
             done; try again",
        )),
    }
}

async fn evaluate(
    router: &Arc<Router>,
    group: GroupId,
    directory: LogIndex,
    (principal, request): (Principal, Request),
) -> Result<Reply> {
    Metrics::count(&router.metrics.forwarded_in);
    wait_directory_applied(router, group, directory, &request.call).await?;
    // This node's directory is not behind: the sender's group of the bucket is outdated.
    let bucket = router.locator.catalog.find(&request.bucket);
    let has_bucket = !matches!(request.call, Call::Directory(_));
    if has_bucket && bucket.is_some_and(|bucket| bucket.group != group) {
        return Err(bucket_moved_error());
    }
    router.answer_locally(principal, request).await
}

/// Waits until this node has applied the sender's directory, which may name a bucket, or a dropped
/// one, that differs here. A node whose disk hangs, or that is cut off, might never apply it; since
/// nothing was done, the successor of a former master is named to the sender. The wait ends while
/// the sender still waits, so that it learns the cause and may try another node.
///
/// Errors: `NotMaster` once another node is known to be the group's master, `NoQuorum` after
/// `MASTER_WAIT_MS_MAX`.
async fn wait_directory_applied(
    router: &Arc<Router>,
    group: GroupId,
    directory: LogIndex,
    call: &Call,
) -> Result<()> {
    let applied = router.wait_directory_applied(directory, MASTER_WAIT_MS_MAX);
    let is_replica_read = matches!(call, Call::Read(_, ReadLevel::Dirty | ReadLevel::AtLeast(_)));
    match router.locator.groups.get(group).filter(|_| !is_replica_read) {
        Some(group) => tokio::select! {
            biased;
            applied = applied => applied,
            () = group.leadership.wait_for_other_master() => {
                Err(router.locator.links.master_of(&group))
            }
        },
        None => applied.await,
    }
}

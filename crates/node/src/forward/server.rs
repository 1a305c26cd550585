//! Master side of forwarding: evaluates requests that other nodes pass on.

use super::message::{self, BYTES_MAX};
use crate::answers::Answers;
use crate::route::Router;
use base::wire::{answer_bytes, changes, write_answer_to};
use base::{
    Body, Call, Error, GroupId, LogIndex, Outcome, ReadLevel, Reason, Reply, Request, Result,
};
use bytes::Bytes;
use replication::seals::sealed;
use runtime::metrics::Metrics;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;
use transport::IncomingCall;

/// Answers beyond this count against the memory for answers.
const LARGE_BYTES: usize = 64 * 1024;
/// Takes a request that another node passes on, or declines it. Hands over and returns.
pub(crate) fn answer(router: &Arc<Router>, asked: IncomingCall) {
    let Some(peers) = router.locator.links.peers.get() else { return };
    let owner = router.clone();
    let attend = move |group, payload: Bytes| async move {
        let (directory, request) = message::read(&payload)?;
        let call = request.call.clone();
        let answer = evaluate(&owner, group, directory, request).await;
        Ok(written(&owner.answers, (&payload[..], &call), answer))
    };
    if !router.incoming.serve(peers, asked, "a request passed on", attend) {
        Metrics::count(&router.metrics.forwarded_rejected);
    }
}

/// Encodes the answer to a call. A large one counts against the memory for answers until it is
/// sent. Without memory for it, an update is answered as applied, another change as in doubt, and a
/// read is refused.
fn written(answers: &Answers, (letter, call): (&[u8], &Call), answer: Result<Reply>) -> Bytes {
    let bytes = answer_bytes(&answer);
    let room = match bytes {
        ..=LARGE_BYTES => Ok(None),
        _ => answers.room_now(bytes.min(BYTES_MAX)),
    };
    let (answer, room) = match (room, answer) {
        (Ok(room), answer) => (answer, room),
        (Err(_), Ok(Reply { index, version, body: Body::Updated(_) })) => {
            let body = Body::Updated(Outcome::AppliedAt(index));
            (Ok(Reply { index, version, body }), None)
        }
        // `overloaded` would say that nothing was done.
        (Err(_), _) if changes(call) => (Err(unanswered()), None),
        (Err(error), _) => (Err(error), None),
    };
    let mut bytes = Vec::new();
    message::put_version(letter, &answer, &mut bytes);
    write_answer_to(call, &answer, BYTES_MAX - bytes.len(), &mut bytes);
    match room {
        None => bytes.into(),
        Some(room) => Bytes::from_owner(Counted { bytes, _room: room }),
    }
}

fn unanswered() -> Error {
    Error::new(Reason::InDoubt, "done, and no memory is left for the answer: read it back")
}

/// Bytes that hold their memory permit until they are dropped.
struct Counted {
    bytes: Vec<u8>,
    _room: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

async fn evaluate(
    router: &Arc<Router>,
    group: GroupId,
    directory: LogIndex,
    request: Request,
) -> Result<Reply> {
    Metrics::count(&router.metrics.forwarded_in);
    directory_reaches(router, group, directory, &request.call).await?;
    // This node's directory is not behind: the sender knew an earlier group of the bucket.
    let bucket = router.locator.catalog.find(&request.bucket);
    let lives = !matches!(request.call, Call::Directory(_));
    if lives && bucket.is_some_and(|bucket| bucket.group != group) {
        return Err(sealed());
    }
    router.here(request).await
}

/// Waits until this node has applied the sender's directory: it may name a bucket, or its end, that
/// is unknown here. A former master whose disk hangs would apply it much later or never; nothing
/// was done with the request, so its successor is named to the sender.
///
/// Errors: `NotMaster` once another node is known to be the group's master.
async fn directory_reaches(
    router: &Arc<Router>,
    group: GroupId,
    directory: LogIndex,
    call: &Call,
) -> Result<()> {
    let reached = router.directory_reaches(directory);
    let replica_answers = matches!(call, Call::Read(_, ReadLevel::Dirty | ReadLevel::AtLeast(_)));
    match router.locator.groups.get(group).filter(|_| !replica_answers) {
        Some(group) => tokio::select! {
            biased;
            reached = reached => reached,
            () = group.leadership.led_elsewhere() => Err(router.locator.links.master_of(&group)),
        },
        None => reached.await,
    }
}

//! The master's side: requests that other nodes pass on, evaluated as if they were asked here.

use super::letter::{self, BYTES_MAX};
use crate::Inner;
use crate::answers::Answers;
use crate::consistent::seals::sealed;
use crate::metrics::Metrics;
use crate::peers::{Asked, Peers, Sending};
use crate::world::{self, sleep, timeout};
use base::codec::Malformed;
use base::limits::{FORWARD_MS_MAX, FORWARDED_BYTES_MAX, FORWARDED_MAX};
use base::wire::{answer_bytes, changes, write_answer_to};
use base::{Body, Call, Error, GroupId, LogIndex, Outcome, Reason, Reply, Request, Result};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// In which bytes of requests are counted.
const UNIT_BYTES: usize = 1024;
/// Answers beyond this count against the memory for answers.
const LARGE_BYTES: usize = 64 * 1024;
/// Between two attempts to send an answer through a full lane.
const PAUSE: Duration = Duration::from_millis(5);

/// Room for foreign requests in progress.
pub(crate) struct Desk {
    seats: Arc<Semaphore>,
    units: Arc<Semaphore>,
}

impl Default for Desk {
    fn default() -> Desk {
        Desk {
            seats: Arc::new(Semaphore::new(FORWARDED_MAX)),
            units: Arc::new(Semaphore::new(FORWARDED_BYTES_MAX / UNIT_BYTES)),
        }
    }
}

/// Held while a request is in progress.
pub(crate) struct Seat {
    _seat: OwnedSemaphorePermit,
    _units: OwnedSemaphorePermit,
}

impl Desk {
    pub(crate) fn sit(&self, bytes: usize) -> Option<Seat> {
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES)).ok()?;
        Some(Seat {
            _seat: self.seats.clone().try_acquire_owned().ok()?,
            _units: self.units.clone().try_acquire_many_owned(units).ok()?,
        })
    }
}

impl Desk {
    /// Resolves when nothing is in progress; from then on nothing is taken.
    pub(crate) async fn rests(&self) {
        let all = u32::try_from(FORWARDED_MAX).expect("a few thousand");
        if let Ok(seats) = self.seats.acquire_many(all).await {
            seats.forget();
        }
    }
}

/// A seat for a question; none: there is no room, and it is declined.
pub(crate) fn seat(inner: &Inner, peers: &Peers, asked: &Asked) -> Option<Seat> {
    let seat = inner.desk.sit(asked.payload.len());
    if seat.is_none() {
        peers.decline(asked);
    }
    seat
}

/// Answers at once. Where the lane is full the answer waits, and keeps the seat.
pub(crate) fn reply(seat: Seat, peers: &Peers, asked: Asked, answer: Bytes) {
    if let Ok(Sending::Full) = peers.answer(&asked, answer.clone()) {
        let peers = peers.clone();
        world::spawn(async move {
            let within = asked.within.min(Duration::from_millis(FORWARD_MS_MAX));
            let _ = timeout(within, send(&peers, &asked, &answer)).await;
            drop(seat);
        });
    }
}

/// Another node's question can't be read: it is declined.
pub(crate) fn malformed(peers: &Peers, asked: &Asked, what: &str, field: &str) {
    let from = format_args!("{:016x}", asked.from.0);
    tracing::warn!(target: "node", %from, "{what} is malformed: {field}");
    peers.decline(asked);
}

/// Answers what another node asks, or declines it: where there is no seat (`false`), or where it is
/// malformed. `what` it is called in the log. Hands over and returns.
pub(crate) fn serve<A>(
    inner: &Arc<Inner>,
    peers: &Peers,
    asked: Asked,
    what: &'static str,
    answer: impl FnOnce(Arc<Inner>, GroupId, Bytes) -> A + Send + 'static,
) -> bool
where
    A: Future<Output = std::result::Result<Bytes, Malformed>> + Send,
{
    let Some(seat) = seat(inner, peers, &asked) else { return false };
    let (inner, peers) = (inner.clone(), peers.clone());
    world::spawn(async move {
        // Behind this time nobody reads the answer.
        let within = asked.within.min(Duration::from_millis(FORWARD_MS_MAX));
        let served = async {
            match answer(inner, asked.group, asked.payload.clone()).await {
                Ok(answer) => send(&peers, &asked, &answer).await,
                Err(Malformed(field)) => malformed(&peers, &asked, what, field),
            }
        };
        let _ = timeout(within, served).await;
        drop(seat);
    });
    true
}

/// Takes a request that another node passes on, or declines it. Hands over and returns.
pub(crate) fn answer(inner: &Arc<Inner>, asked: Asked) {
    let Some(peers) = inner.peers.get() else { return };
    let attend = |inner: Arc<Inner>, group, payload: Bytes| async move {
        let (directory, request) = letter::read(&payload)?;
        let call = request.call.clone();
        let answer = evaluate(&inner, group, directory, request).await;
        Ok(written(&inner.answers, (&payload[..], &call), answer))
    };
    if !serve(inner, peers, asked, "a request passed on", attend) {
        Metrics::count(&inner.metrics.passed_here_declined);
    }
}

/// The bytes of the answer to a letter that asks this call. A large one counts against the memory
/// for answers until it is sent; without room, an update is told to be applied, another change may
/// have happened, and a read is refused.
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
    letter::put_version(letter, &answer, &mut bytes);
    write_answer_to(call, &answer, BYTES_MAX - bytes.len(), &mut bytes);
    match room {
        None => bytes.into(),
        Some(room) => Bytes::from_owner(Counted { bytes, _room: room }),
    }
}

fn unanswered() -> Error {
    Error::new(Reason::NoLongerMaster, "done, and no memory is left for the answer: read it back")
}

/// Bytes that hold their room as long as anybody holds them.
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
    inner: &Arc<Inner>,
    group: GroupId,
    directory: LogIndex,
    request: Request,
) -> Result<Reply> {
    Metrics::count(&inner.metrics.passed_here);
    inner.directory_reaches(directory).await?;
    // This node's directory is not behind: who asked looked for the bucket where it lived before.
    let bucket = inner.catalog.find(&request.bucket);
    let lives = !matches!(request.call, Call::Directory(_));
    if lives && bucket.is_some_and(|bucket| bucket.group != group) {
        return Err(sealed());
    }
    inner.here(request).await
}

/// Sends the answer. While the lane is full the seat is kept, so that no more comes in than goes
/// out.
async fn send(peers: &Peers, asked: &Asked, answer: &Bytes) {
    // Without a link the one who asked is told so by its own side.
    while let Ok(Sending::Full) = peers.answer(asked, answer.clone()) {
        sleep(PAUSE).await;
    }
}

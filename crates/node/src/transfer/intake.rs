//! Intake: the target side of a bucket's move. The target's master takes the parts, in the group's
//! own order.
//!
//! A row of the group's own (`i`, see `replication/seals.rs`) stands for each intake. A part that
//! was taken before, or comes when the intake is closed, changes nothing: a call that was given up
//! may arrive at any time, also when clients write to the bucket already.
//!
//! ```text
//! intake = form u8 (1) | closed u8 | ahead i64 | last part u64
//! ```
//! `ahead` is how far this group's time was ahead of the other's when the intake began, or a little
//! more: a point of time there, with `ahead` added, is one here. Nothing expires here before it
//! would have there; and an intake closes only when all that had expired there has expired here, so
//! that nothing comes back that a client saw gone.

use super::BucketMoves;
use super::message::{Item, MoveAnswer, MoveQuestion};
use base::codec::{Malformed, Reader};
use base::error::corrupt;
use base::limits::SESSION_WINDOW;
use base::{BucketId, Error, GroupId, Reason, Result};
use bytes::Bytes;
use replication::group::Group;
use replication::layout::{StoredRow, StoredSession};
use replication::outcome;
use replication::overlay::Overlay;
use replication::seals::{OWN, intake_key};
use std::sync::Arc;
use transport::{IncomingCall, Peers};

const FORM: u8 = 1;

/// Progress of an intake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BucketIntake {
    pub closed: bool,
    pub ahead: i64,
    pub part: u64,
}

impl BucketIntake {
    pub(super) fn write(self) -> Vec<u8> {
        let mut bytes = vec![FORM, u8::from(self.closed)];
        bytes.extend_from_slice(&self.ahead.to_le_bytes());
        bytes.extend_from_slice(&self.part.to_le_bytes());
        bytes
    }

    pub(super) fn read(bytes: &[u8]) -> std::result::Result<BucketIntake, Malformed> {
        let mut reader = Reader::new(bytes);
        if reader.u8("intake")? != FORM {
            return Err(Malformed("intake"));
        }
        let closed = reader.u8("intake")? != 0;
        let ahead = reader.u64("intake")?.cast_signed();
        Ok(BucketIntake { closed, ahead, part: reader.u64("intake")? })
    }

    fn of(overlay: &mut Overlay, bucket: BucketId) -> Result<Option<BucketIntake>> {
        let row = overlay.row(OWN, &intake_key(bucket))?;
        row.map(|row| BucketIntake::read(&row.value).map_err(corrupt)).transpose()
    }

    fn put(self, overlay: &mut Overlay, bucket: BucketId) -> Result<()> {
        overlay.put(OWN, &intake_key(bucket), None, &[&self.write()])
    }

    /// A point of the other group's time as one of this group's.
    fn here(self, time: u64) -> u64 {
        time.saturating_add_signed(self.ahead)
    }
}

/// Answers another node's question about a move. Hands over and returns.
pub(crate) fn asked(moves: &Arc<BucketMoves>, peers: &Peers, asked: IncomingCall) {
    let owner = moves.clone();
    let attend = move |group, payload: Bytes| async move {
        let question = MoveQuestion::read(&payload)?;
        Ok(answer(&owner, group, question).await.write())
    };
    moves.incoming.serve(peers, asked, "a question about a move", attend);
}

/// Answers a question, this node's own too.
pub(super) async fn answer(
    moves: &Arc<BucketMoves>,
    group: GroupId,
    question: MoveQuestion,
) -> MoveAnswer {
    let Some(group) = moves.groups.get(group) else {
        return MoveAnswer::NotMaster { master: None };
    };
    if !group.leadership.is_master() {
        let master = group.leadership.standing().borrow().master;
        return MoveAnswer::NotMaster {
            master: master.filter(|master| *master != moves.links.node),
        };
    }
    if let MoveQuestion::Progress { bucket } = question {
        return MoveAnswer::Progress(moves.transfers.get(bucket));
    }
    // After `Progress`, which takes no space.
    if moves.space.is_full() {
        let text = "the disk of the node the bucket moves to is nearly full";
        return MoveAnswer::Refused(Error::new(Reason::OutOfSpace, text));
    }
    match take(&group, &question).await {
        Ok(answer) => answer,
        Err(error) => MoveAnswer::Refused(error),
    }
}

async fn take(group: &Arc<Group>, question: &MoveQuestion) -> Result<MoveAnswer> {
    let (version, mut sessions) = match question {
        MoveQuestion::Close { version, .. } => (*version, 0),
        _ => (0, 0),
    };
    let evaluate = |overlay: &mut Overlay| match question {
        MoveQuestion::Begin { bucket, time } => begin(overlay, *bucket, *time),
        MoveQuestion::Take { bucket, part, items } => part_of(overlay, *bucket, *part, items),
        MoveQuestion::Close { bucket, time, .. } => close(overlay, *bucket, *time),
        MoveQuestion::Progress { .. } => unreachable!("answered before"),
    };
    let counted = |overlay: &mut Overlay| {
        let (answer, fresh) = evaluate(overlay)?;
        sessions = fresh;
        Ok(answer)
    };
    let (ticket, answer) = group.write_own(version, counted, |_| {})?;
    group.state().master.sessions += sessions;
    if let Some(ticket) = ticket {
        group.settled(ticket).await?;
    }
    Ok(answer)
}

fn begin(overlay: &mut Overlay, bucket: BucketId, time: u64) -> Result<(MoveAnswer, u64)> {
    if BucketIntake::of(overlay, bucket)?.is_some() {
        let text = "rows of this bucket came before: take another number";
        return Err(Error::new(Reason::AlreadyExists, text));
    }
    let now = overlay.open.time;
    let ahead = now.cast_signed().wrapping_sub(time.cast_signed());
    BucketIntake { closed: false, ahead, part: 0 }.put(overlay, bucket)?;
    Ok((MoveAnswer::Done { time: now }, 0))
}

fn known(overlay: &mut Overlay, bucket: BucketId) -> Result<BucketIntake> {
    BucketIntake::of(overlay, bucket)?.ok_or_else(|| {
        Error::new(Reason::Changed, "nothing of this bucket is expected here (any more)")
    })
}

fn part_of(
    overlay: &mut Overlay,
    bucket: BucketId,
    part: u64,
    items: &[Item],
) -> Result<(MoveAnswer, u64)> {
    let done = MoveAnswer::Done { time: overlay.open.time };
    let intake = known(overlay, bucket)?;
    if part <= intake.part {
        return Ok((done, 0)); // It was taken before.
    }
    if intake.closed || part != intake.part + 1 {
        let text = "a part of a bucket came out of its turn";
        return Err(Error::new(Reason::Changed, text));
    }
    let mut sessions = 0;
    for item in items {
        sessions += u64::from(put(overlay, bucket, intake, item)?);
    }
    BucketIntake { part, ..intake }.put(overlay, bucket)?;
    Ok((done, sessions))
}

/// Applies an item. Returns true if it was a session that was not known here.
fn put(overlay: &mut Overlay, bucket: BucketId, intake: BucketIntake, item: &Item) -> Result<bool> {
    match item {
        Item::Row { key, row } => {
            let row = StoredRow::read(row).map_err(corrupt)?;
            let expires = row.expires.map(|expires| intake.here(expires));
            overlay.put_as(bucket, key, &StoredRow { expires, ..row });
        }
        Item::Gone { key } => {
            let expires = overlay.expires_at(bucket, key)?;
            overlay.remove(bucket, key, expires);
        }
        Item::Session { session, stored } => {
            let known = overlay.session(*session)?;
            // A session known here may have gone on with other buckets: nothing of it goes back.
            let last = known.map_or(0, |known| known.highest);
            let here = StoredSession {
                used: intake.here(stored.used).max(known.map_or(0, |known| known.used)),
                highest: last.max(stored.highest),
                bucket: known.and_then(|known| known.bucket).or(stored.bucket),
            };
            overlay.put_session(*session, here);
            overlay.slide_window(*session, last, here.highest)?;
            if known.is_none() {
                overlay.put_session_expiry(*session, here.expires());
            }
            return Ok(known.is_none());
        }
        Item::Outcome { session, number, outcome } => {
            let known = overlay.session(*session)?;
            let forgotten = |highest: u64| number.saturating_add(SESSION_WINDOW) <= highest;
            // Below the window nothing would remove it again.
            if known.is_some_and(|known| !forgotten(known.highest)) {
                let outcome = outcome::moved(outcome, overlay.open.index);
                overlay.put_outcome(*session, *number, &outcome);
            }
        }
    }
    Ok(false)
}

fn close(overlay: &mut Overlay, bucket: BucketId, time: u64) -> Result<(MoveAnswer, u64)> {
    let (intake, now) = (known(overlay, bucket)?, overlay.open.time);
    let due = intake.here(time);
    if intake.closed {
        return Ok((MoveAnswer::Done { time: now }, 0));
    }
    // Else what has expired there would be read here once more.
    if now < due {
        return Ok((MoveAnswer::Early { ms: due - now }, 0));
    }
    BucketIntake { closed: true, ..intake }.put(overlay, bucket)?;
    Ok((MoveAnswer::Done { time: now }, 0))
}

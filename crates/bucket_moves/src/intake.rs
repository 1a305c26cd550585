//! Intake: the target side of a bucket's move. The target's master takes the parts, in the group's
//! own order.
//!
//! A row of the group's own (`i`, see `replication/seals.rs`) stands for each intake. A part that
//! was taken before, or comes when the intake is closed, changes nothing: a call that was given up
//! may arrive at any time, also when clients write to the bucket already.
//!
//! ```text
//! intake = form u8 (1) | closed u8 | time offset i64 | last part u64
//! ```
//! `time_offset_ms` is how far this group's time was ahead of the other's when the intake began, or
//! a little more: a point of time there, with `time_offset_ms` added, is one here. Nothing expires
//! here before it would have there; and an intake closes only when all that had expired there has
//! expired here, so that nothing comes back that a client saw gone.

use crate::BucketMoves;
use crate::message::{Item, MoveReply, MoveRequest};
use base::codec::{Malformed, Reader};
use base::error::corrupt;
use base::limits::SESSION_WINDOW;
use base::{BucketId, Error, GroupId, Reason, Result, UserDigest};
use bytes::Bytes;
use change_feed::{FeedRecord, SentFeed};
use replica_state::layout::{StoredRow, StoredSession};
use replica_state::replicated_index::ReplicatedIndex;
use replication::group::Group;
use replication::outcome;
use replication::overlay::Overlay;
use replication::seals::{BOOKKEEPING_BUCKET, intake_key};
use runtime::submit::Ticket;
use std::cell::Cell;
use std::sync::Arc;
use transport::{IncomingCall, Peers};

const ROW_VERSION: u8 = 1;

/// Progress of an intake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BucketIntake {
    pub closed: bool,
    pub time_offset_ms: i64,
    pub part: u64,
}

impl BucketIntake {
    pub(crate) fn write(self) -> Vec<u8> {
        let mut bytes = vec![ROW_VERSION, u8::from(self.closed)];
        bytes.extend_from_slice(&self.time_offset_ms.to_le_bytes());
        bytes.extend_from_slice(&self.part.to_le_bytes());
        bytes
    }

    pub(crate) fn read(bytes: &[u8]) -> std::result::Result<BucketIntake, Malformed> {
        let mut reader = Reader::new(bytes);
        if reader.u8("intake")? != ROW_VERSION {
            return Err(Malformed("intake"));
        }
        let closed = reader.u8("intake")? != 0;
        let time_offset_ms = reader.u64("intake")?.cast_signed();
        Ok(BucketIntake { closed, time_offset_ms, part: reader.u64("intake")? })
    }

    fn load(overlay: &mut Overlay, bucket: BucketId) -> Result<Option<BucketIntake>> {
        let row = overlay.row(BOOKKEEPING_BUCKET, &intake_key(bucket))?;
        row.map(|row| BucketIntake::read(&row.value).map_err(corrupt)).transpose()
    }

    fn store(self, overlay: &mut Overlay, bucket: BucketId) -> Result<()> {
        overlay.put(BOOKKEEPING_BUCKET, &intake_key(bucket), None, &[&self.write()])
    }

    /// Converts a time of the source group into one of this group.
    fn to_local_time(self, time: u64) -> u64 {
        time.saturating_add_signed(self.time_offset_ms)
    }
}

/// Handles another node's request about a move in a task of its own.
pub fn on_call(moves: &Arc<BucketMoves>, peers: &Peers, call: IncomingCall) {
    let owner = moves.clone();
    let handle = move |group, payload: Bytes| async move {
        let request = MoveRequest::read(&payload)?;
        Ok(answer(&owner, group, request).await.write())
    };
    moves.incoming.serve(peers, call, "a request about a bucket move", handle);
}

/// Answers a request, including this node's own.
pub(crate) async fn answer(
    moves: &Arc<BucketMoves>,
    group: GroupId,
    request: MoveRequest,
) -> MoveReply {
    let Some(group) = moves.groups.get(group) else {
        return MoveReply::NotMaster { master: None };
    };
    if !group.leadership.is_master() {
        let master = group.leadership.subscribe().borrow().master;
        return MoveReply::NotMaster {
            master: master.filter(|master| *master != moves.links.node),
        };
    }
    if let MoveRequest::Progress { bucket } = request {
        return MoveReply::Progress(moves.transfers.get(bucket));
    }
    // After `Progress`, which needs no space.
    if moves.space.is_full() {
        let text = "the disk of the target node is nearly full";
        return MoveReply::Refused(Error::new(Reason::OutOfSpace, text));
    }
    match apply_request(&group, &request).await {
        Ok(answer) => answer,
        Err(error) => MoveReply::Refused(error),
    }
}

async fn apply_request(group: &Group, request: &MoveRequest) -> Result<MoveReply> {
    let (ticket, answer) = write_request(group, request)?;
    if let Some(ticket) = ticket {
        group.wait_applied(ticket).await?;
    }
    Ok(answer)
}

/// Writes the rows of a request into the open entry, and counts the sessions among them.
fn write_request(group: &Group, request: &MoveRequest) -> Result<(Option<Ticket>, MoveReply)> {
    let version = match request {
        MoveRequest::Close { version, .. } => *version,
        _ => 0,
    };
    // Counted under the lock that they are written under: nobody may close one before.
    let opened = Cell::new(Vec::new());
    let evaluate = |overlay: &mut Overlay| match request {
        MoveRequest::Begin { bucket, time, indexes, feed } => {
            begin(overlay, *bucket, *time, (indexes, feed.as_ref()))
        }
        MoveRequest::Part { bucket, part, items } => apply_part(overlay, *bucket, *part, items),
        MoveRequest::Close { bucket, time, indexes, feed, .. } => {
            close(overlay, *bucket, *time, (indexes, feed.as_deref()))
        }
        MoveRequest::Progress { .. } => unreachable!("answered before"),
    };
    let write = |overlay: &mut Overlay| {
        let (answer, sessions) = evaluate(overlay)?;
        opened.set(sessions);
        Ok(answer)
    };
    group.write_bookkeeping(version, write, |master| master.sessions.add_all(opened.take()))
}

/// Answer to a request, and the sessions that it opened: the user of each, if it has one.
type Evaluation = (MoveReply, Vec<Option<UserDigest>>);

fn begin(
    overlay: &mut Overlay,
    bucket: BucketId,
    time: u64,
    (indexes, feed): (&[ReplicatedIndex], Option<&FeedRecord>),
) -> Result<Evaluation> {
    if BucketIntake::load(overlay, bucket)?.is_some() {
        let text = "the target already has rows with this bucket number: use another number";
        return Err(Error::new(Reason::AlreadyExists, text));
    }
    let now = overlay.open.time;
    let time_offset_ms = now.cast_signed().wrapping_sub(time.cast_signed());
    BucketIntake { closed: false, time_offset_ms, part: 0 }.store(overlay, bucket)?;
    overlay.receive_indexes(bucket, indexes)?;
    if let Some(feed) = feed {
        overlay.receive_feed(bucket, feed)?;
    }
    Ok((MoveReply::Done { time: now }, Vec::new()))
}

fn require_intake(overlay: &mut Overlay, bucket: BucketId) -> Result<BucketIntake> {
    BucketIntake::load(overlay, bucket)?.ok_or_else(|| {
        Error::new(Reason::Changed, "this group is not the target of a move of this bucket")
    })
}

fn apply_part(
    overlay: &mut Overlay,
    bucket: BucketId,
    part: u64,
    items: &[Item],
) -> Result<Evaluation> {
    let done = MoveReply::Done { time: overlay.open.time };
    let intake = require_intake(overlay, bucket)?;
    if part <= intake.part {
        return Ok((done, Vec::new())); // It was applied before.
    }
    if intake.closed || part != intake.part + 1 {
        let text = "a part of the bucket arrived out of order";
        return Err(Error::new(Reason::Changed, text));
    }
    let mut sessions = Vec::new();
    for item in items {
        sessions.extend(apply_item(overlay, bucket, intake, item)?.map(|opened| opened.user));
    }
    BucketIntake { part, ..intake }.store(overlay, bucket)?;
    Ok((done, sessions))
}

/// Applies an item. Returns the session that it was, if that was not known here.
fn apply_item(
    overlay: &mut Overlay,
    bucket: BucketId,
    intake: BucketIntake,
    item: &Item,
) -> Result<Option<StoredSession>> {
    match item {
        Item::Row { key, row } => {
            let row = StoredRow::read(row).map_err(corrupt)?;
            let expires = row.expires.map(|expires| intake.to_local_time(expires));
            overlay.put_versioned(bucket, key, &StoredRow { expires, ..row })?;
        }
        Item::Removed { key } => {
            let expires = overlay.expires_at(bucket, key)?;
            overlay.remove(bucket, key, expires)?;
        }
        Item::FeedEntry(sent) => {
            overlay.receive_feed_entry(bucket, sent, |time| intake.to_local_time(time))?;
        }
        Item::Session { session, stored } => {
            let existing = overlay.session(*session)?;
            // A session known here may have continued with other buckets: none of its fields may go
            // back.
            let last = existing.map_or(0, |existing| existing.highest);
            let merged = StoredSession {
                used: intake
                    .to_local_time(stored.used)
                    .max(existing.map_or(0, |existing| existing.used)),
                highest: last.max(stored.highest),
                bucket: existing.and_then(|existing| existing.bucket).or(stored.bucket),
                user: existing.and_then(|existing| existing.user).or(stored.user),
            };
            overlay.put_session(*session, merged);
            overlay.slide_window(*session, last, merged.highest)?;
            if existing.is_none() {
                overlay.put_session_expiry(*session, merged.expires());
            }
            return Ok(existing.is_none().then_some(merged));
        }
        Item::Outcome { session, number, outcome } => {
            let existing = overlay.session(*session)?;
            let is_outside_window = |highest: u64| number.saturating_add(SESSION_WINDOW) <= highest;
            // Below the window nothing would ever remove the outcome.
            if existing.is_some_and(|existing| !is_outside_window(existing.highest)) {
                let outcome = outcome::rebase(outcome, overlay.open.index);
                overlay.put_outcome(*session, *number, &outcome);
            }
        }
    }
    Ok(None)
}

fn close(
    overlay: &mut Overlay,
    bucket: BucketId,
    time: u64,
    (indexes, feed): (&[ReplicatedIndex], Option<&SentFeed>),
) -> Result<Evaluation> {
    let (intake, now) = (require_intake(overlay, bucket)?, overlay.open.time);
    let local_time = intake.to_local_time(time);
    if intake.closed {
        return Ok((MoveReply::Done { time: now }, Vec::new()));
    }
    // Rows that have expired at the source would otherwise be readable here again.
    if now < local_time {
        return Ok((MoveReply::RetryLater { ms: local_time - now }, Vec::new()));
    }
    BucketIntake { closed: true, ..intake }.store(overlay, bucket)?;
    overlay.complete_indexes(bucket, indexes)?;
    overlay.complete_feed(bucket, feed)?;
    Ok((MoveReply::Done { time: now }, Vec::new()))
}

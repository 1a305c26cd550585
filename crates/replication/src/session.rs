//! Sessions: a client opens one through the log and numbers its requests; a repeated request
//! applies once.
//!
//! Each session remembers a window of [`limits::SESSION_WINDOW`] numbers. The first attempt's
//! outcome is stored in the same entry as its effects, so that both exist or neither; a digest of
//! its update is stored with it.
//!
//! Promises: no client can guess the id of a session; a session works only in the bucket in which
//! it was opened; an outcome answers only the update that caused it.
//! Rows of earlier versions hold no bucket and no digest. Sessions and outcomes in them work as
//! they did there: in every bucket of the group, for every update under the number.

use super::evaluate::evaluate;
use super::group::Group;
use super::layout::StoredSession;
use super::outcome::{self, KeptOutcome};
use super::overlay::Overlay;
use crate::bucket::Bucket;
use base::error::corrupt;
use base::{
    Error, Kind, LogIndex, Outcome, Reason, Result, RetryId, SessionId, Update, UpdateDigest,
    limits,
};
use runtime::mutants::Mutant;
use runtime::submit::Ticket;
use runtime::world;

/// One attempt at an update in a session.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    retry: RetryId,
    digest: UpdateDigest,
}

impl Attempt {
    /// An attempt at this update. Hashes all of it: not to be made under the group's lock.
    pub fn new(retry: RetryId, update: &Update) -> Attempt {
        Attempt { retry, digest: update.digest() }
    }
}

/// Outcome of an update with a retry id.
pub enum Retried {
    /// Result of this attempt, which is the first.
    Now(Result<Outcome>),
    /// Result of an earlier attempt, applied at this index.
    Before(LogIndex, Result<Outcome>),
}

/// Opens a session of a bucket. Its id is drawn here, once, and stands in the log with the row.
fn open(overlay: &mut Overlay, bucket: &Bucket) -> Result<SessionId> {
    let session = loop {
        let drawn = SessionId(world::chance());
        if overlay.session(drawn)?.is_none() {
            break drawn;
        }
    };
    let stored = StoredSession { used: overlay.open.time, highest: 0, bucket: Some(bucket.digest) };
    overlay.put_session(session, stored);
    overlay.put_session_expiry(session, stored.expires());
    Ok(session)
}

/// Refuses a session that was opened in another bucket.
fn check_bucket(session: SessionId, stored: &StoredSession, bucket: &Bucket) -> Result<()> {
    if stored.bucket.is_none_or(|opened_in| opened_in == bucket.digest) {
        return Ok(());
    }
    Err(Error::new(
        Reason::SessionExpired,
        format!(
            "session {session} was opened in another bucket, and nothing was done: use it there, \
             and open one in this bucket"
        ),
    ))
}

/// The session, if it has not expired and was opened in this bucket.
fn usable(overlay: &mut Overlay, bucket: &Bucket, session: SessionId) -> Result<StoredSession> {
    let now = overlay.open.time;
    let Some(stored) = overlay.session(session)?.filter(|stored| stored.expires() > now) else {
        return Err(Error::new(
            Reason::SessionExpired,
            format!(
                "session {session} has expired or was never opened: open a new one, and read \
                 before you repeat an update whose outcome you do not know"
            ),
        ));
    };
    check_bucket(session, &stored, bucket)?;
    Ok(stored)
}

/// Evaluates an update unless an earlier attempt did.
pub fn once(
    overlay: &mut Overlay,
    bucket: &Bucket,
    update: &Update,
    attempt: Attempt,
) -> Result<Retried> {
    let Attempt { retry: RetryId { session, number }, digest } = attempt;
    let stored = usable(overlay, bucket, session)?;
    let before = stored.highest;
    let kept = overlay.outcome(session, number)?;
    if let Some(kept) = kept.filter(|_| !Mutant::RetriesApplyAgain.is_active()) {
        let kept = KeptOutcome::read(&kept).map_err(corrupt)?;
        if kept.digest.is_some_and(|applied| applied != digest) {
            return Err(Error::new(
                Reason::RetryMismatch,
                format!(
                    "request {number} of session {session} was another update, and nothing was \
                     done: send a retry as it was sent first, and each new update under a number \
                     of its own"
                ),
            ));
        }
        return Ok(Retried::Before(kept.index, kept.outcome));
    }
    if number.saturating_add(limits::SESSION_WINDOW) <= before {
        return Err(Error::new(
            Reason::RequestExpired,
            format!(
                "request {number} is more than {} behind the session's highest, {before}: \
                     its outcome is forgotten",
                limits::SESSION_WINDOW
            ),
        ));
    }
    let result = evaluate(overlay, bucket, update);
    let definite = match &result {
        Ok(_) => true,
        Err(error) => error.kind() == Kind::Conflict,
    };
    // Another error did nothing, and a retry may do better. Kept is what each retry must get again.
    if definite {
        let (used, highest) = (overlay.open.time, before.max(number));
        overlay.put_session(session, StoredSession { used, highest, ..stored });
        let kept = outcome::write(overlay.open.index, &result, Some(digest));
        overlay.put_outcome(session, number, &kept);
        overlay.slide_window(session, before, highest)?;
    }
    Ok(Retried::Now(result))
}

impl Group {
    /// Opens a session of this bucket.
    pub fn open_session(&self, bucket: &Bucket) -> Result<(Ticket, SessionId)> {
        let mut guard = self.serving(bucket)?;
        let state = &mut *guard;
        state.master.check_sessions()?;
        let (before, _) = state.queue.begin(&state.replica);
        let session = open(&mut state.queue.overlay(&*self.shared.trees), bucket)?;
        state.master.sessions += 1;
        let ticket = self.take(state, before, true);
        Ok((ticket, session))
    }

    /// Closes a session of this bucket; one that is not open is closed already.
    pub fn close_session(&self, bucket: &Bucket, session: SessionId) -> Result<Option<Ticket>> {
        let mut guard = self.serving(bucket)?;
        let state = &mut *guard;
        let (before, begun) = state.queue.begin(&state.replica);
        let mut overlay = state.queue.overlay(&*self.shared.trees);
        if let Some(stored) = overlay.session(session)? {
            check_bucket(session, &stored, bucket)?;
            overlay.remove_session(session, stored.highest)?;
            state.master.sessions = state.master.sessions.saturating_sub(1);
        }
        if state.queue.changed(begun) {
            self.take(state, before, true);
        }
        Ok(state.queue.ticket(&self.applied))
    }
}

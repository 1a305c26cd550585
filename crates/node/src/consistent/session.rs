//! Sessions: a client opens one through the log and numbers its requests; a repeated request
//! applies once.
//!
//! A window of [`limits::SESSION_WINDOW`] numbers is remembered per session. The first attempt's
//! outcome is kept in the same value as its effects, so that both are there or neither.

use super::evaluate::evaluate;
use super::group::Group;
use super::outcome;
use super::view::{View, damaged};
use crate::catalog::Bucket;
use crate::flaws::{Flaw, flawed};
use crate::submit::Ticket;
use base::{Error, Kind, LogIndex, Outcome, Reason, Result, RetryId, SessionId, Update, limits};

/// What became of an update with a retry id.
pub(crate) enum Retried {
    /// This attempt is the first.
    Now(Result<Outcome>),
    /// An earlier attempt was, in this index.
    Before(LogIndex, Result<Outcome>),
}

/// Sessions of later groups carry the group's number above these bits, so that a session that moves
/// with its bucket meets no other of its number. Group 1 opened sessions before there were others.
const GROUP_BITS: u32 = 48;

/// Opens a session; its number is the version the present update has, never given twice in this
/// group, and the group.
fn open(view: &mut View) -> SessionId {
    let group = u64::from(view.group.0.saturating_sub(1));
    let session = SessionId((group << GROUP_BITS) | view.version().0);
    let now = view.open.time;
    view.put_session(session, now, 0);
    view.put_session_expiry(session, now.saturating_add(limits::SESSION_TTL_MS));
    session
}

/// Evaluates an update unless an earlier attempt did.
pub(crate) fn once(
    view: &mut View,
    bucket: &Bucket,
    update: &Update,
    retry: RetryId,
) -> Result<Retried> {
    let RetryId { session, number } = retry;
    let now = view.open.time;
    let live = view
        .session(session)?
        .filter(|(used, _)| used.saturating_add(limits::SESSION_TTL_MS) > now);
    let Some((_, before)) = live else {
        return Err(Error::new(
            Reason::SessionExpired,
            format!(
                "session {session} has expired or was never opened: open a new one, and read \
                     before you repeat an update whose outcome you do not know"
            ),
        ));
    };
    let kept = view.outcome(session, number)?;
    if let Some(kept) = kept.filter(|_| !flawed(Flaw::RetriesApplyAgain)) {
        let (index, result) = outcome::read(&kept).map_err(damaged)?;
        return Ok(Retried::Before(index, result));
    }
    if number.saturating_add(limits::SESSION_WINDOW) <= before {
        return Err(Error::new(
            Reason::OutsideWindow,
            format!(
                "request {number} is more than {} behind the session's highest, {before}: \
                     its outcome is forgotten",
                limits::SESSION_WINDOW
            ),
        ));
    }
    let result = evaluate(view, bucket, update);
    let definite = match &result {
        Ok(_) => true,
        Err(error) => error.kind() == Kind::Conflict,
    };
    if definite {
        let index = view.open.index;
        let highest = before.max(number);
        view.put_session(session, now, highest);
        view.put_outcome(session, number, &outcome::write(index, &result));
        view.slide_window(session, before, highest)?;
    }
    Ok(Retried::Now(result))
}

impl Group {
    /// Opens a session.
    pub(crate) fn open_session(&self, bucket: &Bucket) -> Result<(Ticket, SessionId)> {
        let mut guard = self.serving(bucket)?;
        let state = &mut *guard;
        if state.sessions >= limits::SESSIONS_MAX as u64 {
            return Err(Error::new(
                Reason::TooMany,
                format!("{} sessions are open (sessions_max): close some", limits::SESSIONS_MAX),
            ));
        }
        let (before, _) = state.begin(self.id);
        let session = open(&mut state.view(self));
        state.sessions += 1;
        let ticket = self.take(state, before, true);
        Ok((ticket, session))
    }

    /// Closes a session; one that is not open is closed already.
    pub(crate) fn close_session(
        &self,
        bucket: &Bucket,
        session: SessionId,
    ) -> Result<Option<Ticket>> {
        let mut guard = self.serving(bucket)?;
        let state = &mut *guard;
        let (before, begun) = state.begin(self.id);
        let mut view = state.view(self);
        if let Some((_, highest)) = view.session(session)? {
            view.remove_session(session, highest)?;
            state.sessions = state.sessions.saturating_sub(1);
        }
        if state.changed(begun) {
            self.take(state, before, true);
        }
        Ok(state.ticket(self))
    }
}

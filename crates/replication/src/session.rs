//! Sessions: a client opens one through the log and numbers its requests; a repeated request
//! applies once.
//!
//! Each session remembers a window of [`limits::SESSION_WINDOW`] numbers. The first attempt's
//! outcome is stored in the same entry as its effects, so that both exist or neither; a digest of
//! its update is stored with it.
//!
//! Promises: no client can guess the id of a session; a session works only in the bucket in which
//! it was opened, and of a user's session nobody else learns that there is one; an outcome answers
//! only the update that caused it.
//! Rows of earlier versions hold no bucket, no user and no digest. Their sessions and outcomes work
//! as in those versions: in every bucket of the group, of every user, for every update under the
//! number.

use super::evaluate::evaluate;
use super::group::Group;
use super::outcome::{self, StoredOutcome};
use super::overlay::Overlay;
use super::session_counts::SessionOwner;
use crate::bucket::Bucket;
use base::error::corrupt;
use base::{
    Error, Kind, LogIndex, Outcome, Reason, Result, RetryId, SessionId, Update, UpdateDigest,
    UserDigest, limits,
};
use replica_state::layout::StoredSession;
use runtime::mutants::Mutant;
use runtime::submit::Ticket;
use runtime::world;

/// Use of a session by an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionUse {
    /// Session, and number of the request in it.
    pub retry: RetryId,
    /// User whose session it must be, if it is one's. `None`: it may be anybody's.
    pub user: Option<UserDigest>,
}

/// One attempt at an update in a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    session: SessionUse,
    digest: UpdateDigest,
}

impl Attempt {
    /// Creates an attempt at this update. Hashes the whole update: never called under the group's
    /// lock.
    pub(super) fn new(session: SessionUse, update: &Update) -> Attempt {
        Attempt { session, digest: update.digest() }
    }
}

/// Outcome of an update with a retry id.
pub(super) enum RetryResult {
    /// Result of this attempt, the first one.
    Evaluated(Result<Outcome>),
    /// Result of an earlier attempt, applied at this index.
    Stored(LogIndex, Result<Outcome>),
}

/// Creates a session of a bucket and a user. Its random id is chosen here, once, and logged with
/// the row.
fn create_session(
    overlay: &mut Overlay,
    bucket: &Bucket,
    user: Option<UserDigest>,
) -> Result<SessionId> {
    let session = loop {
        let candidate = SessionId(world::random_u64());
        if overlay.session(candidate)?.is_none() {
            break candidate;
        }
    };
    let (used, bucket) = (overlay.open.time, Some(bucket.digest));
    let stored = StoredSession { used, highest: 0, bucket, user };
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
            "session {session} was opened in another bucket; nothing was done: open a session in \
             this bucket"
        ),
    ))
}

/// Returns true if a user may use a session. `None`: anybody's.
fn is_open_to(stored: &StoredSession, user: Option<UserDigest>) -> bool {
    stored.user.is_none_or(|owner| user.is_none_or(|user| user == owner))
}

/// Returns the session. An error if it has expired, or was opened in another bucket. One that is
/// another user's is refused like one that never was: nobody learns that it exists.
fn live_session(
    overlay: &mut Overlay,
    bucket: &Bucket,
    session: SessionId,
    user: Option<UserDigest>,
) -> Result<StoredSession> {
    let now = overlay.open.time;
    let found = overlay.session(session)?;
    let is_live = |stored: &StoredSession| stored.expires() > now && is_open_to(stored, user);
    let Some(stored) = found.filter(is_live) else {
        // It stays expired under another master only if the entry records the time.
        overlay.saw_expired |=
            found.is_some_and(|stored| is_open_to(&stored, user) && stored.expires() <= now);
        return Err(Error::new(
            Reason::SessionExpired,
            format!(
                "session {session} has expired or was never opened: open a new one, and read \
                 before you repeat an update whose outcome is unknown"
            ),
        ));
    };
    check_bucket(session, &stored, bucket)?;
    Ok(stored)
}

/// Evaluates an update, or returns the stored result of an earlier attempt.
pub(super) fn evaluate_once(
    overlay: &mut Overlay,
    bucket: &Bucket,
    update: &Update,
    attempt: Attempt,
) -> Result<RetryResult> {
    let Attempt { session: SessionUse { retry, user }, digest } = attempt;
    let RetryId { session, number } = retry;
    let stored = live_session(overlay, bucket, session, user)?;
    let before = stored.highest;
    let earlier = overlay.outcome(session, number)?;
    if let Some(earlier) = earlier.filter(|_| !Mutant::ForgetSessionOutcomes.is_active()) {
        let earlier = StoredOutcome::read(&earlier).map_err(corrupt)?;
        if earlier.digest.is_some_and(|applied| applied != digest) {
            return Err(Error::new(
                Reason::RetryMismatch,
                format!(
                    "request {number} of session {session} was another update; nothing was done: \
                     send a retry unchanged, and each new update with a new number"
                ),
            ));
        }
        return Ok(RetryResult::Stored(earlier.index, earlier.outcome));
    }
    if number.saturating_add(limits::SESSION_WINDOW) <= before {
        return Err(Error::new(
            Reason::RequestExpired,
            format!(
                "request {number} is more than {} below the session's highest number, {before}: \
                 its outcome is no longer stored",
                limits::SESSION_WINDOW
            ),
        ));
    }
    let savepoint = overlay.savepoint();
    let result = evaluate(overlay, bucket, update);
    let is_final = match &result {
        Ok(_) => true,
        Err(error) => error.kind() == Kind::Conflict,
    };
    // After any other error nothing was done, and a retry may succeed. A final result is stored:
    // every retry must get the same.
    if is_final {
        let (used, highest) = (overlay.open.time, before.max(number));
        overlay.put_session(session, StoredSession { used, highest, ..stored });
        let encoded = outcome::write(overlay.open.index, &result, Some(digest));
        overlay.put_outcome(session, number, &encoded);
        // An attempt that fails leaves no effect in the entry, which other updates share.
        overlay.slide_window(session, before, highest).inspect_err(|_| overlay.undo(savepoint))?;
    }
    Ok(RetryResult::Evaluated(result))
}

impl Group {
    /// Opens a session of this bucket. `owner`: the user whose it is; `None`: anybody's.
    pub fn open_session(
        &self,
        bucket: &Bucket,
        owner: Option<SessionOwner>,
    ) -> Result<(Ticket, SessionId)> {
        let mut guard = self.lock_for_update(bucket)?;
        let state = &mut *guard;
        state.master.sessions.check_room(owner)?;
        let user = owner.map(|owner| owner.user);
        let (is_first, _) = state.queue.begin(&state.replica);
        let session = create_session(&mut state.queue.overlay(&*self.shared.trees), bucket, user)?;
        state.master.sessions.add(user);
        let ticket = self.add_update(state, is_first, true);
        Ok((ticket, session))
    }

    /// Closes a session of this bucket, for a user (`None`: whose ever it is). Does nothing if the
    /// session is not open, or another user's.
    pub fn close_session(
        &self,
        bucket: &Bucket,
        session: SessionId,
        user: Option<UserDigest>,
    ) -> Result<Option<Ticket>> {
        let mut guard = self.lock_for_update(bucket)?;
        let state = &mut *guard;
        let (is_first, begun_bytes) = state.queue.begin(&state.replica);
        let mut overlay = state.queue.overlay(&*self.shared.trees);
        let stored = overlay.session(session)?.filter(|stored| is_open_to(stored, user));
        if let Some(stored) = stored {
            check_bucket(session, &stored, bucket)?;
            overlay.remove_session(session, stored.highest)?;
            state.master.sessions.remove(stored.user);
        }
        // That it is not open rests on what was read, as every answer does.
        if state.queue.changed(begun_bytes) || self.needs_entry(state) {
            self.add_update(state, is_first, true);
        }
        Ok(state.queue.ticket(&self.applied))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use crate::counts::BucketCounts;
    use crate::group_indexes::GroupIndexes;
    use crate::overlay::StoreSource;
    use crate::recent_removals::RecentRemovals;
    use base::request::Expiry;
    use base::{BucketId, GroupId, Key, Properties, Value};
    use bytes::Bytes;
    use replica_state::pending_entry::{EntryBuffers, PendingEntry};
    use std::collections::VecDeque;
    use std::ops::Bound;
    use store::{Snapshot, StoreError, TreeRow};

    type Rows<'a> = Box<dyn Iterator<Item = std::result::Result<TreeRow, StoreError>> + Send + 'a>;

    /// Empty store of which no range can be read.
    struct UnreadableRanges;

    impl Snapshot for UnreadableRanges {
        fn get(&self, _: &[u8]) -> std::result::Result<Option<Bytes>, StoreError> {
            Ok(None)
        }

        fn range(&self, _: Bound<Bytes>, _: Bound<Bytes>, _: bool) -> Rows<'_> {
            Box::new(std::iter::once(Err(StoreError::Closed)))
        }
    }

    /// Runs `act` on the overlay of an entry that is being filled at group time `time`, over a
    /// store without rows.
    fn with_overlay(time: u64, act: impl FnOnce(&mut Overlay, &Bucket)) {
        let bucket = Bucket::new(BucketId(4), GroupId(1), Properties::default());
        let mut open = PendingEntry::new(LogIndex(1), time, 1, 0, EntryBuffers::default());
        let mut overlay = Overlay {
            group: GroupId(1),
            store: StoreSource::Snapshot(&UnreadableRanges),
            pending: &mut VecDeque::new(),
            open: &mut open,
            budget: Budget::unbounded(),
            saw_expired: false,
            counts: &mut BucketCounts::default(),
            indexes: &mut GroupIndexes::default(),
            removals: &mut RecentRemovals::default(),
            scratch: &mut Vec::new(),
        };
        act(&mut overlay, &bucket);
    }

    /// Returns an attempt of a user at a write of one key, and the write.
    fn attempt(session: SessionId, number: u64, user: Option<UserDigest>) -> (Update, Attempt) {
        let (key, value) = (Key::from("k"), Value::from("v"));
        let update = Update::Set { key, value, expiry: Expiry::Default };
        let retry = RetryId { session, number };
        let attempt = Attempt::new(SessionUse { retry, user }, &update);
        (update, attempt)
    }

    #[test]
    fn attempt_that_fails_behind_its_update_leaves_no_effect() {
        let session = SessionId(9);
        with_overlay(5, |overlay, bucket| {
            overlay.put_session(
                session,
                StoredSession { used: 5, highest: 1, bucket: None, user: None },
            );
            let before = overlay.open.payload_bytes();
            // Outcomes leave the window: they have to be read.
            let (update, attempt) = attempt(session, 2 * limits::SESSION_WINDOW, None);
            assert!(evaluate_once(overlay, bucket, &update, attempt).is_err());
            assert_eq!(overlay.open.payload_bytes(), before);
            assert_eq!(overlay.row(bucket.id, b"k"), Ok(None));
            let stored = overlay.session(session).expect("it is in the entry").expect("it is open");
            assert_eq!(stored.highest, 1);
        });
    }

    #[test]
    fn refusal_of_an_expired_session_records_the_time_and_of_an_unknown_one_does_not() {
        let (session, ada, eve) = (SessionId(9), UserDigest(1), UserDigest(2));
        let stored = StoredSession { used: 5, highest: 1, bucket: None, user: None };
        // Another user's session is to all as one that never was.
        for (is_stored, user, records_time) in [
            (true, None, true),
            (true, Some(ada), true),
            (true, Some(eve), false),
            (false, None, false),
        ] {
            with_overlay(stored.expires(), |overlay, bucket| {
                if is_stored {
                    let bucket = Some(bucket.digest);
                    let stored = StoredSession { bucket, user: Some(ada), ..stored };
                    overlay.put_session(session, stored);
                }
                let (update, attempt) = attempt(session, 2, user);
                let refused = evaluate_once(overlay, bucket, &update, attempt).err();
                assert_eq!(refused.map(|error| error.reason), Some(Reason::SessionExpired));
                assert_eq!(overlay.saw_expired, records_time);
            });
        }
    }
}

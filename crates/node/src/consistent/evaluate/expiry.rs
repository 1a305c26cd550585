//! Time to live: rows carry a point of group time; hints in an index of their own say when to look.

use crate::catalog::Bucket;
use crate::consistent::layout::{self, SESSION_BUCKET};
use crate::consistent::view::View;
use base::request::{ExpireWhen, Expiry};
use base::{Key, Outcome, Properties, Result, SessionId, limits};

/// The point of group time at which a row written now expires. `before` is that of the row it
/// replaces.
pub(super) fn point(
    expiry: Expiry,
    before: Option<u64>,
    properties: &Properties,
    now: u64,
) -> Option<u64> {
    match expiry {
        Expiry::Default => default_point(properties, now),
        Expiry::Keep => before,
        Expiry::Never => None,
        Expiry::After(ms) => Some(now.saturating_add(ms)),
    }
}

pub(super) fn default_point(properties: &Properties, now: u64) -> Option<u64> {
    (properties.ttl_ms > 0).then(|| now.saturating_add(properties.ttl_ms))
}

pub(super) fn expire(
    view: &mut View,
    bucket: &Bucket,
    key: &Key,
    expiry: Expiry,
    when: ExpireWhen,
) -> Result<Outcome> {
    let Some(row) = view.row(bucket.id, key)? else { return Ok(Outcome::Applied(false)) };
    let wanted = point(expiry, row.expires, &bucket.properties, view.open.time);
    let never = u64::MAX;
    let (new, old) = (wanted.unwrap_or(never), row.expires.unwrap_or(never));
    let holds = match when {
        ExpireWhen::Always => true,
        ExpireWhen::HasNone => row.expires.is_none(),
        ExpireWhen::HasOne => row.expires.is_some(),
        ExpireWhen::Later => new > old,
        ExpireWhen::Sooner => new < old,
    };
    // Removing an expiry that is not there changes nothing, and says so.
    if !holds || (expiry == Expiry::Never && row.expires.is_none()) {
        return Ok(Outcome::Applied(false));
    }
    if expiry == Expiry::After(0) {
        view.remove(bucket.id, key);
    } else if wanted != row.expires {
        view.put(bucket.id, key, wanted, &[&row.value]);
    }
    Ok(Outcome::Applied(true))
}

/// Collects what expired by the open value's time: at most `max` hints are looked at. Gives how
/// many were, so that the caller knows whether to come back at once.
pub(crate) fn expire_due(view: &mut View, max: usize) -> Result<usize> {
    let now = view.open.time;
    let due = view.due(now, max)?;
    for hint in &due {
        let Some((expires, bucket, name)) = layout::read_expiry_key(hint) else { continue };
        if bucket == SESSION_BUCKET {
            expire_session(view, now, &name)?;
        } else if view.expires_at(bucket, &name)? == Some(expires) {
            view.remove(bucket, &name);
        }
        view.remove_hint(hint);
    }
    Ok(due.len())
}

fn expire_session(view: &mut View, now: u64, name: &[u8]) -> Result<()> {
    let Ok(name) = <[u8; 8]>::try_from(name) else { return Ok(()) };
    let session = SessionId(u64::from_be_bytes(name));
    let Some((used, _)) = view.session(session)? else { return Ok(()) };
    let expires = used.saturating_add(limits::SESSION_TTL_MS);
    if expires > now {
        view.put_session_expiry(session, expires);
        return Ok(());
    }
    view.remove_session(session)
}

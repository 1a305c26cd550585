//! Time to live: rows carry a point of group time; hints in an index of their own say when to look.

use crate::bucket::Bucket;
use crate::layout::{self, SESSION_BUCKET};
use crate::overlay::Overlay;
use base::request::{ExpireWhen, Expiry};
use base::{Key, Outcome, Properties, Result, SessionId};
use bytes::Bytes;
use runtime::mutants::Mutant;

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
    overlay: &mut Overlay,
    bucket: &Bucket,
    key: &Key,
    expiry: Expiry,
    when: ExpireWhen,
) -> Result<Outcome> {
    let Some(row) = overlay.row(bucket.id, key)? else { return Ok(Outcome::Applied(false)) };
    let wanted = point(expiry, row.expires, &bucket.properties, overlay.open.time);
    let never = u64::MAX;
    let (new, old) = (wanted.unwrap_or(never), row.expires.unwrap_or(never));
    let holds = match when {
        ExpireWhen::Always => true,
        ExpireWhen::HasNone => row.expires.is_none(),
        ExpireWhen::HasOne => row.expires.is_some(),
        ExpireWhen::Later => new > old,
        ExpireWhen::Sooner => new < old,
        ExpireWhen::HasLater => row.expires.is_some() && new < old,
    };
    // Removing an expiry that is not there changes nothing, and says so.
    if !holds || (expiry == Expiry::Never && row.expires.is_none()) {
        return Ok(Outcome::Applied(false));
    }
    if expiry == Expiry::After(0) {
        overlay.remove(bucket.id, key, row.expires);
    } else if wanted != row.expires {
        if wanted.is_none() {
            overlay.forget_hint(bucket.id, key, row.expires);
        }
        overlay.put(bucket.id, key, wanted, &[&row.value])?;
    }
    Ok(Outcome::Applied(true))
}

/// Outcome of a sweep.
pub struct Swept {
    /// Number of hints looked at.
    pub looked: usize,
    /// Key at which the next sweep continues.
    pub upto: Bytes,
    /// Group time at which the next hint is due, in milliseconds. `None`: none is due soon.
    pub next: Option<u64>,
}

/// Removes rows that have expired by the open entry's time. Looks at `max` hints at most, from the
/// end of the last sweep (empty `from`: as stored). The end of this sweep is written with the
/// removals, so that the next sweep continues there, after a restart or on another master.
/// `ahead_ms`: distance for which to look for the next hint.
pub fn expire_due(overlay: &mut Overlay, from: Bytes, max: usize, ahead_ms: u64) -> Result<Swept> {
    let now = overlay.open.time;
    let forgets = Mutant::SweepsFromTheStart.is_active();
    let from = if from.is_empty() || forgets { overlay.swept()? } else { from };
    let (due, upto) = overlay.due(&from, max)?;
    for hint in &due {
        let Some((_, bucket, name)) = layout::read_expiry_key(hint) else { continue };
        if bucket == SESSION_BUCKET {
            expire_session(overlay, now, &name)?;
        } else if overlay.expires_at(bucket, &name)?.is_some_and(|expires| expires <= now) {
            overlay.remove_row(bucket, &name);
        }
        overlay.remove_hint(hint);
    }
    if !due.is_empty() {
        overlay.put_swept(&upto);
    }
    let next = overlay.next_hint(&upto, ahead_ms)?;
    Ok(Swept { looked: due.len(), upto, next })
}

fn expire_session(overlay: &mut Overlay, now: u64, name: &[u8]) -> Result<()> {
    let Ok(name) = <[u8; 8]>::try_from(name) else { return Ok(()) };
    let session = SessionId(u64::from_be_bytes(name));
    let Some(stored) = overlay.session(session)? else { return Ok(()) };
    if stored.expires() > now {
        overlay.put_session_expiry(session, stored.expires());
        return Ok(());
    }
    overlay.remove_session(session, stored.highest)
}

//! Time to live: rows carry the group time of their expiry; hints in an index are due at that time.

use crate::bucket::Bucket;
use crate::overlay::Overlay;
use crate::row_change::{NewValue, RowBefore};
use base::limits::EVALUATION_ROWS_MAX;
use base::request::{ExpireWhen, Expiry};
use base::{Key, Outcome, Properties, Result, SessionId, UserDigest};
use bytes::Bytes;
use replica_state::layout::{self, SESSION_BUCKET, StoredSession};
use runtime::mutants::Mutant;

/// Returns the group time at which a row written now expires. `old_expiry`: expiry of the row that
/// it replaces. `None`: never.
pub(super) fn expiry_time(
    expiry: Expiry,
    old_expiry: Option<u64>,
    properties: &Properties,
    now: u64,
) -> Option<u64> {
    match expiry {
        Expiry::Default => default_expiry_time(properties, now),
        Expiry::Keep => old_expiry,
        Expiry::Never => None,
        Expiry::After(ms) => Some(now.saturating_add(ms)),
    }
}

pub(super) fn default_expiry_time(properties: &Properties, now: u64) -> Option<u64> {
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
    let new_expiry = expiry_time(expiry, row.expires, &bucket.properties, overlay.open.time);
    let never = u64::MAX;
    let (new, old) = (new_expiry.unwrap_or(never), row.expires.unwrap_or(never));
    let is_met = match when {
        ExpireWhen::Always => true,
        ExpireWhen::HasNone => row.expires.is_none(),
        ExpireWhen::HasOne => row.expires.is_some(),
        ExpireWhen::Later => new > old,
        ExpireWhen::Sooner => new < old,
        ExpireWhen::HasLater => row.expires.is_some() && new < old,
    };
    // Removing an absent expiry changes nothing, and the outcome reports it.
    if !is_met || (expiry == Expiry::Never && row.expires.is_none()) {
        return Ok(Outcome::Applied(false));
    }
    if expiry == Expiry::After(0) {
        overlay.remove_read(bucket.id, key, &row)?;
    } else if new_expiry != row.expires {
        if new_expiry.is_none() {
            overlay.forget_hint(bucket.id, key, row.expires);
        }
        let parts = [&row.value[..]];
        let value = NewValue::tagged_as(Some(&row), &parts);
        overlay.write_row(bucket.id, key, RowBefore::Read(&row), new_expiry, value)?;
    }
    Ok(Outcome::Applied(true))
}

/// Bytes of effects at which a sweep ends: the rows that it removes may have many index entries.
const SWEEP_BYTES: usize = 4 << 20;
/// Rows, counted as a [`Budget`](crate::budget::Budget) does, at which a sweep ends: large ones, of
/// which each index reads the value.
const SWEEP_ROWS: usize = EVALUATION_ROWS_MAX;

/// Outcome of a sweep.
pub struct SweepResult {
    /// Number of hints checked.
    pub checked: usize,
    /// Sessions removed: the user of each, if it has one.
    pub sessions: Vec<Option<UserDigest>>,
    /// Key at which the next sweep continues.
    pub position: Bytes,
    /// Group time at which the next hint is due, in milliseconds. `None`: none is due soon.
    pub next: Option<u64>,
}

/// Removes rows that have expired by the open entry's time. Checks `max` hints at most, from the
/// end of the last sweep (empty `from`: the stored position). The end of this sweep is written with
/// the removals, so that the next sweep continues there, after a restart or on another master.
/// `ahead_ms`: distance in which to look for the next hint.
pub fn expire_due(
    overlay: &mut Overlay,
    from: Bytes,
    max: usize,
    ahead_ms: u64,
) -> Result<SweepResult> {
    let now = overlay.open.time;
    let ignores_position = Mutant::RestartExpirySweep.is_active();
    let from = if from.is_empty() || ignores_position { overlay.sweep_position()? } else { from };
    let (due, mut position) = overlay.due_hints(&from, max)?;
    let (mut sessions, mut checked) = (Vec::new(), 0);
    let (begun_bytes, begun_rows) = (overlay.open.payload_bytes(), overlay.budget.rows());
    for hint in &due {
        let is_full = overlay.open.payload_bytes() - begun_bytes >= SWEEP_BYTES
            || overlay.budget.rows() - begun_rows >= SWEEP_ROWS;
        if is_full {
            position = hint.clone();
            break;
        }
        checked += 1;
        let Some((_, bucket, name)) = layout::read_expiry_key(hint) else { continue };
        if bucket == SESSION_BUCKET {
            sessions.extend(expire_session(overlay, now, &name)?.map(|removed| removed.user));
        } else if let Some(row) =
            overlay.stored_row(bucket, &name)?.filter(|row| row.is_expired(now))
        {
            match Mutant::SweepUncounted.is_active() {
                true => overlay.open.remove(overlay.scratch),
                false => overlay.remove_expired(bucket, &name, &row)?,
            }
        }
        overlay.remove_hint(hint);
    }
    if !due.is_empty() {
        overlay.put_sweep_position(&position);
    }
    let next = overlay.next_hint(&position, ahead_ms)?;
    Ok(SweepResult { checked, sessions, position, next })
}

/// Removes a session that has expired, and returns it. `None`: it is in use, or there is none.
fn expire_session(overlay: &mut Overlay, now: u64, name: &[u8]) -> Result<Option<StoredSession>> {
    let Ok(name) = <[u8; 8]>::try_from(name) else { return Ok(None) };
    let session = SessionId(u64::from_be_bytes(name));
    let Some(stored) = overlay.session(session)? else { return Ok(None) };
    if stored.expires() > now {
        overlay.put_session_expiry(session, stored.expires());
        return Ok(None);
    }
    overlay.remove_session(session, stored.highest)?;
    Ok(Some(stored))
}

//! Updates of rows: set, delete, compare, append, rename, and the assertions.

use super::expiry::expiry_time;
use crate::bucket::Bucket;
use crate::overlay::Overlay;
use crate::row_change::{NewValue, RowBefore};
use base::request::{Expiry, OnMissing, TaggedSet, When};
use base::{Absence, Error, Key, Outcome, Range, Reason, Result, Value, Version, limits};
use replica_state::layout::StoredRow;

pub(super) fn set(
    overlay: &mut Overlay,
    bucket: &Bucket,
    key: &[u8],
    value: &[u8],
    expiry: Expiry,
) -> Result<Outcome> {
    let old = match expiry {
        Expiry::Keep => overlay.row(bucket.id, key)?,
        _ => None,
    };
    write(overlay, bucket, key, expiry, old.as_ref(), NewValue::plain(&[value]))?;
    Ok(Outcome::Done)
}

/// Writes a row, or deletes it if the new expiry is now. `old`: the row that is replaced. `None`:
/// it was not read, or is absent.
fn write(
    overlay: &mut Overlay,
    bucket: &Bucket,
    key: &[u8],
    expiry: Expiry,
    old: Option<&StoredRow>,
    value: NewValue<'_>,
) -> Result<()> {
    if expiry == Expiry::After(0) {
        return match overlay.stored_row(bucket.id, key)? {
            Some(row) => overlay.remove_read(bucket.id, key, &row),
            None => overlay.remove(bucket.id, key, None),
        };
    }
    let old_expiry = old.and_then(|row| row.expires);
    let expires = expiry_time(expiry, old_expiry, &bucket.properties, overlay.open.time);
    overlay.write_row(bucket.id, key, old.into(), expires, value)
}

pub(super) fn set_if(
    overlay: &mut Overlay,
    bucket: &Bucket,
    key: &Key,
    value: &Value,
    expiry: Expiry,
    when: When,
) -> Result<Outcome> {
    let old = overlay.row(bucket.id, key)?;
    let written = is_met(when, old.as_ref());
    if written {
        write(overlay, bucket, key, expiry, old.as_ref(), NewValue::plain(&[value]))?;
    }
    Ok(Outcome::Swapped { written, old: old.map(|row| row.value) })
}

fn is_met(when: When, old: Option<&StoredRow>) -> bool {
    match when {
        When::Always => true,
        When::Absent => old.is_none(),
        When::Present => old.is_some(),
        When::Unchanged(version) => old.is_some_and(|row| row.version == version),
    }
}

pub(super) fn set_tagged(
    overlay: &mut Overlay,
    bucket: &Bucket,
    set: &TaggedSet,
) -> Result<Outcome> {
    let TaggedSet { key, value, expiry, when, tags } = set;
    let old = overlay.row(bucket.id, key)?;
    let is_met = is_met(*when, old.as_ref());
    if is_met {
        let tags = Some(tags).filter(|tags| !tags.is_empty());
        let value = NewValue { parts: &[value], tags };
        write(overlay, bucket, key, *expiry, old.as_ref(), value)?;
    }
    Ok(Outcome::Applied(is_met))
}

pub(super) fn delete(
    overlay: &mut Overlay,
    bucket: &Bucket,
    key: &Key,
    missing: OnMissing,
) -> Result<Outcome> {
    match overlay.row(bucket.id, key)? {
        Some(row) => overlay.remove_read(bucket.id, key, &row)?,
        None if missing == OnMissing::Fail => return Err(Error::key(Reason::NotFound, key)),
        None => return Ok(Outcome::Existed(false)),
    }
    Ok(Outcome::Existed(true))
}

fn put_or_remove(
    overlay: &mut Overlay,
    bucket: &Bucket,
    key: &Key,
    wanted: Option<&Value>,
    old: Option<&StoredRow>,
) -> Result<()> {
    match wanted {
        Some(value) => write(overlay, bucket, key, Expiry::Default, old, NewValue::plain(&[value])),
        None => old.map_or(Ok(()), |old| overlay.remove_read(bucket.id, key, old)),
    }
}

pub(super) fn test_and_set(
    overlay: &mut Overlay,
    bucket: &Bucket,
    key: &Key,
    expected: Option<&Value>,
    wanted: Option<&Value>,
) -> Result<Outcome> {
    let old = overlay.row(bucket.id, key)?;
    if old.as_ref().map(|row| &row.value) == expected {
        put_or_remove(overlay, bucket, key, wanted, old.as_ref())?;
    }
    Ok(Outcome::Old(old.map(|row| row.value)))
}

pub(super) fn replace(
    overlay: &mut Overlay,
    bucket: &Bucket,
    key: &Key,
    wanted: Option<&Value>,
) -> Result<Outcome> {
    let old = overlay.row(bucket.id, key)?;
    put_or_remove(overlay, bucket, key, wanted, old.as_ref())?;
    Ok(Outcome::Old(old.map(|row| row.value)))
}

pub(super) fn confirm(
    overlay: &mut Overlay,
    bucket: &Bucket,
    key: &Key,
    value: &Value,
) -> Result<Outcome> {
    let old = overlay.row(bucket.id, key)?;
    if old.as_ref().is_none_or(|row| row.value != *value) {
        let parts = [&value[..]];
        let new = NewValue::plain(&parts);
        write(overlay, bucket, key, Expiry::Default, old.as_ref(), new)?;
    }
    Ok(Outcome::Done)
}

fn check_assertion(holds: bool, key: &Key) -> Result<Outcome> {
    if holds { Ok(Outcome::Done) } else { Err(Error::key(Reason::AssertionFailed, key)) }
}

pub(super) fn assert(
    overlay: &mut Overlay,
    bucket: &Bucket,
    key: &Key,
    expected: Option<&Value>,
) -> Result<Outcome> {
    let value = overlay.row(bucket.id, key)?.map(|row| row.value);
    check_assertion(value.as_ref() == expected, key)
}

pub(super) fn assert_exists(overlay: &mut Overlay, bucket: &Bucket, key: &Key) -> Result<Outcome> {
    let exists = overlay.row(bucket.id, key)?.is_some();
    check_assertion(exists, key)
}

pub(super) fn assert_version(
    overlay: &mut Overlay,
    bucket: &Bucket,
    key: &Key,
    version: Option<Version>,
) -> Result<Outcome> {
    let found = overlay.row(bucket.id, key)?.map(|row| row.version);
    if found == version { Ok(Outcome::Done) } else { Err(Error::key(Reason::Changed, key)) }
}

/// Asserts that nobody has written a key since it was absent.
pub(super) fn assert_absent_since(
    overlay: &mut Overlay,
    bucket: &Bucket,
    key: &Key,
    absence: Absence,
) -> Result<Outcome> {
    let Absence { group, bucket: former, since } = absence;
    // Versions of different groups can't be compared.
    let mut holds = group == overlay.group && overlay.is_absent_since(bucket.id, key, since)?;
    if holds && former != bucket.id {
        // The bucket was cleared meanwhile, or dropped and created again. Its former rows stay
        // until their space is freed, of which the table of removals knows.
        holds = overlay.is_absent_since(former, key, since)?;
    }
    if holds { Ok(Outcome::Done) } else { Err(Error::key(Reason::Changed, key)) }
}

/// Asserts that the keys under a prefix are exactly these. They are compared as a set, and one key
/// more than listed is enough to fail.
pub(super) fn assert_range(
    overlay: &mut Overlay,
    bucket: &Bucket,
    prefix: &Key,
    keys: &[Key],
) -> Result<Outcome> {
    let mut expected: Vec<&Key> = keys.iter().collect();
    expected.sort_unstable();
    expected.dedup();
    let mut found = Vec::new();
    overlay.rows(bucket.id, &Range::prefix(prefix.clone()), |key, _| {
        found.push(key);
        Ok(found.len() <= expected.len())
    })?;
    if found.iter().eq(expected.iter().copied()) {
        return Ok(Outcome::Done);
    }
    let list = |keys: &mut dyn Iterator<Item = &Key>| {
        keys.take(10).map(|key| base::codec::printable(key)).collect::<Vec<_>>().join(", ")
    };
    let expected = list(&mut expected.into_iter());
    let found = list(&mut found.iter());
    Err(Error::new(
        Reason::AssertionFailed,
        format!("the keys with the prefix are [{found}], not [{expected}]"),
    ))
}

pub(super) fn delete_prefix(
    overlay: &mut Overlay,
    bucket: &Bucket,
    prefix: &Key,
) -> Result<Outcome> {
    let mut found = Vec::new();
    let mut bytes = 0;
    let walked = overlay.rows(bucket.id, &Range::prefix(prefix.clone()), |key, row| {
        bytes += key.len() + limits::ROW_OVERHEAD_BYTES;
        if bytes > limits::UPDATE_BYTES_MAX {
            return Err(too_much_to_delete());
        }
        found.push((key, (row.version, row.expires), row.value.len()));
        Ok(true)
    });
    walked.and_then(|()| overlay.budget.check()).map_err(|error| match error.reason {
        Reason::TooLarge => too_much_to_delete(),
        _ => error,
    })?;
    for (key, row, value_bytes) in &found {
        overlay.note_value(bucket.id, key, *value_bytes);
        overlay.remove_seen(bucket.id, key, *row).map_err(|error| match error.reason {
            Reason::TooLarge => too_much_to_delete(),
            _ => error,
        })?;
    }
    Ok(Outcome::Count(found.len() as u64))
}

fn too_much_to_delete() -> Error {
    Error::new(
        Reason::TooLarge,
        format!(
            "nothing was deleted: the prefix has more keys than one request deletes atomically, at \
             most {} rows and {} bytes of keys (evaluation_rows_max, update_bytes_max); `credenza \
             bucket empty-prefix` and POST /v1/buckets/TYPE/BUCKET/empty_prefix delete any number \
             of keys, in batches",
            limits::EVALUATION_ROWS_MAX,
            limits::UPDATE_BYTES_MAX
        ),
    )
}

fn check_value_size(bucket: &Bucket, bytes: usize) -> Result<()> {
    if bytes <= bucket.properties.value_bytes_max {
        return Ok(());
    }
    let max = bucket.properties.value_bytes_max;
    Err(Error::new(
        Reason::TooLarge,
        format!("the value would have {bytes} bytes, at most {max} are allowed (value_bytes_max)"),
    ))
}

pub(super) fn append(
    overlay: &mut Overlay,
    bucket: &Bucket,
    key: &Key,
    value: &Value,
) -> Result<Outcome> {
    let old = overlay.row(bucket.id, key)?;
    let expiry = if old.is_some() { Expiry::Keep } else { Expiry::Default };
    let old_value = old.as_ref().map(|row| row.value.clone()).unwrap_or_default();
    let length = old_value.len() + value.len();
    check_value_size(bucket, length)?;
    let parts = [&old_value[..], value];
    let new = NewValue::tagged_as(old.as_ref(), &parts);
    write(overlay, bucket, key, expiry, old.as_ref(), new)?;
    Ok(Outcome::Length(length as u64))
}

pub(super) fn set_range(
    overlay: &mut Overlay,
    bucket: &Bucket,
    key: &Key,
    offset: usize,
    value: &Value,
) -> Result<Outcome> {
    let old = overlay.row(bucket.id, key)?;
    let expiry = if old.is_some() { Expiry::Keep } else { Expiry::Default };
    let old_value = old.as_ref().map(|row| row.value.clone()).unwrap_or_default();
    if value.is_empty() {
        return Ok(Outcome::Length(old_value.len() as u64));
    }
    let end = offset.saturating_add(value.len());
    let length = end.max(old_value.len());
    check_value_size(bucket, length)?;
    let mut changed = old_value.to_vec();
    changed.resize(length, 0);
    changed[offset..end].copy_from_slice(value);
    let parts = [&changed[..]];
    let new = NewValue::tagged_as(old.as_ref(), &parts);
    write(overlay, bucket, key, expiry, old.as_ref(), new)?;
    Ok(Outcome::Length(length as u64))
}

pub(super) fn rename(
    overlay: &mut Overlay,
    bucket: &Bucket,
    from: &Key,
    to: &Key,
    when: When,
) -> Result<Outcome> {
    let Some(row) = overlay.row(bucket.id, from)? else {
        return Err(Error::key(Reason::NotFound, from));
    };
    if when == When::Absent && overlay.row(bucket.id, to)?.is_some() {
        return Ok(Outcome::Applied(false));
    }
    let mut before = RowBefore::Read(&row);
    if from != to {
        // First: the new row has the same terms in the bucket's unique indexes.
        overlay.remove_read(bucket.id, from, &row)?;
        before = RowBefore::Unread;
    }
    let parts = [&row.value[..]];
    let value = NewValue::tagged_as(Some(&row), &parts);
    overlay.write_row(bucket.id, to, before, row.expires, value)?;
    Ok(Outcome::Applied(true))
}

pub(super) fn copy(
    overlay: &mut Overlay,
    bucket: &Bucket,
    from: &Key,
    to: &Key,
    when: When,
) -> Result<Outcome> {
    let Some(row) = overlay.row(bucket.id, from)? else { return Ok(Outcome::Applied(false)) };
    if when == When::Absent && overlay.row(bucket.id, to)?.is_some() {
        return Ok(Outcome::Applied(false));
    }
    let parts = [&row.value[..]];
    let value = NewValue::tagged_as(Some(&row), &parts);
    overlay.write_row(bucket.id, to, RowBefore::Unread, row.expires, value)?;
    Ok(Outcome::Applied(true))
}

//! Counters stored as decimal text, as in Redis.

use crate::bucket::Bucket;
use crate::overlay::Overlay;
use crate::row_change::NewValue;
use base::codec::{decimal, decimal_bytes};
use base::{Error, Key, Outcome, Reason, Result, Value};
use replica_state::layout::StoredRow;

/// Writes a number. The row keeps its expiry and its tags; a new row gets the bucket's default.
fn write(
    overlay: &mut Overlay,
    bucket: &Bucket,
    key: &Key,
    old: Option<&StoredRow>,
    text: &Value,
) -> Result<()> {
    let expires = match old {
        Some(row) => row.expires,
        None => super::expiry::default_expiry_time(&bucket.properties, overlay.open.time),
    };
    let parts = [&text[..]];
    let value = NewValue::tagged_as(old, &parts);
    overlay.write_row(bucket.id, key, old.into(), expires, value)
}

pub(super) fn add(
    overlay: &mut Overlay,
    bucket: &Bucket,
    key: &Key,
    delta: i64,
) -> Result<Outcome> {
    let old = overlay.row(bucket.id, key)?;
    let number = match &old {
        Some(row) => decimal(&row.value).ok_or_else(not_an_integer)?,
        None => 0,
    };
    let sum = number
        .checked_add(delta)
        .ok_or_else(|| Error::new(Reason::NotANumber, "increment or decrement would overflow"))?;
    write(overlay, bucket, key, old.as_ref(), &decimal_bytes(sum))?;
    Ok(Outcome::Number(sum))
}

fn not_an_integer() -> Error {
    Error::new(Reason::NotANumber, "value is not an integer or out of range")
}

pub(super) fn add_float(
    overlay: &mut Overlay,
    bucket: &Bucket,
    key: &Key,
    delta: f64,
) -> Result<Outcome> {
    let old = overlay.row(bucket.id, key)?;
    let number = match &old {
        Some(row) => std::str::from_utf8(&row.value)
            .ok()
            .and_then(|text| text.parse::<f64>().ok())
            .filter(|number| number.is_finite())
            .ok_or_else(|| Error::new(Reason::NotANumber, "value is not a valid float"))?,
        None => 0.0,
    };
    let sum = number + delta;
    if !sum.is_finite() {
        let detail = "increment would produce NaN or Infinity";
        return Err(Error::new(Reason::NotANumber, detail));
    }
    // The shortest text that reads back as the same number, never with an exponent.
    let text = Value::from(format!("{sum}"));
    write(overlay, bucket, key, old.as_ref(), &text)?;
    Ok(Outcome::Text(text))
}

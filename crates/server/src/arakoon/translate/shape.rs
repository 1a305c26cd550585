//! Encoding of the body of a command's answer. Pure.

use super::ClusterQuery;
use crate::arakoon::errors::{ArakoonRefusal, OK};
use crate::arakoon::values::Wire;
use base::{Body, Outcome, Value};

/// Layout of a command's answer, with the values that its encoding needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArakoonShape {
    /// Only the return code.
    Nothing,
    /// A flag: true if the key exists.
    Exists,
    /// A value. An absent key is answered with `Not_found`.
    Value,
    /// Values, in the order of the request's keys.
    Values,
    /// Optional values, in the order of the request's keys: absent where the key does not exist.
    MaybeValues,
    /// The old value, absent if the key did not exist.
    Old,
    /// A 32-bit count.
    Count,
    /// A 64-bit count.
    LongCount,
    /// The keys of a page, in reverse order.
    Keys,
    /// The entries of a page, in reverse order.
    Entries,
    /// A refusal that is sent only after the node has confirmed that it may serve the request.
    Refused(ArakoonRefusal),
    /// Bytes known beforehand, sent only after the node has confirmed that it may serve the
    /// request.
    Fixed(Vec<u8>),
    /// Answer of a [`ClusterQuery`], sent only after the node has confirmed that it may serve the
    /// request.
    View(ClusterQuery),
}

impl ArakoonShape {
    /// Encodes the answer. Returns its size as Arakoon's statistics count it (bytes of a value,
    /// number of rows or keys). On an error `out` is unchanged.
    pub fn encode(&self, body: &Body, out: &mut Vec<u8>) -> Result<u64, ArakoonRefusal> {
        let begin = out.len();
        out.int(OK);
        let size = self.encode_body(body, out);
        if size.is_err() {
            out.truncate(begin);
        }
        size
    }

    fn encode_body(&self, body: &Body, out: &mut Vec<u8>) -> Result<u64, ArakoonRefusal> {
        match (self, body) {
            (ArakoonShape::Nothing, _) => Ok(0),
            (ArakoonShape::Exists, Body::Count(count)) => {
                out.flag(*count > 0);
                Ok(0)
            }
            (ArakoonShape::Value, Body::Row(None)) => Err(ArakoonRefusal::not_found()),
            (ArakoonShape::Value, Body::Row(Some(row))) => {
                out.text(&row.value);
                Ok(row.value.len() as u64)
            }
            (ArakoonShape::Values | ArakoonShape::MaybeValues, Body::Rows(rows)) => {
                out.count(rows.len());
                for row in rows {
                    let value = row.as_ref().map(|row| &row.value[..]);
                    match self {
                        ArakoonShape::Values => out.text(value.unwrap_or_default()),
                        _ => out.option(value),
                    }
                }
                Ok(rows.len() as u64)
            }
            (ArakoonShape::Old, Body::Updated(Outcome::Old(old))) => {
                out.option(old.as_ref().map(|old: &Value| &old[..]));
                Ok(0)
            }
            (ArakoonShape::Count, Body::Updated(Outcome::Count(count))) => {
                out.int(i32::try_from(*count).unwrap_or(i32::MAX));
                Ok(*count)
            }
            (ArakoonShape::LongCount, Body::Count(count) | Body::Size { keys: count, .. }) => {
                out.long(i64::try_from(*count).unwrap_or(i64::MAX));
                Ok(*count)
            }
            (ArakoonShape::Keys | ArakoonShape::Entries, Body::Page(page)) => {
                out.count(page.entries.len());
                for entry in page.entries.iter().rev() {
                    out.text(&entry.key);
                    if *self == ArakoonShape::Entries {
                        out.text(entry.row.as_ref().map_or(&[][..], |row| &row.value));
                    }
                }
                Ok(page.entries.len() as u64)
            }
            (ArakoonShape::Refused(refusal), _) => Err(refusal.clone()),
            (ArakoonShape::Fixed(bytes), _) => {
                out.extend_from_slice(bytes);
                Ok(0)
            }
            _ => Err(mismatch(self)),
        }
    }
}

/// Returns the error for a reply that does not fit the command. Only a defect of the server can
/// cause it.
fn mismatch(shape: &ArakoonShape) -> ArakoonRefusal {
    ArakoonRefusal::unknown_failure(format!(
        "{shape:?}: the node's answer does not match the request"
    ))
}

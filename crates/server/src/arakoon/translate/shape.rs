//! Answers to bytes: which body a command's answer has. Pure.

use super::ClusterQuery;
use crate::arakoon::errors::{ArakoonRefusal, OK};
use crate::arakoon::words::Wire;
use base::{Body, Outcome, Value};

/// How an answer is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArakoonShape {
    /// Nothing behind the return code.
    Nothing,
    /// Whether the one key was there.
    Exists,
    /// A value; none is `Not_found`.
    Value,
    /// Values in the order in which they were asked for.
    Values,
    /// The same, none where the key is absent.
    MaybeValues,
    /// The old value, or none.
    Old,
    /// A 32-bit count.
    Count,
    /// A 64-bit count.
    LongCount,
    /// The keys of a page, last one first.
    Keys,
    /// Its entries, last one first.
    Entries,
    /// A refusal, once the node has said that this is the place to ask.
    Refused(ArakoonRefusal),
    /// Bytes known before, once the node has said so.
    Said(Vec<u8>),
    /// What only the node's view of its cluster can answer, likewise.
    View(ClusterQuery),
}

impl ArakoonShape {
    /// Says a body; how large it was in the sense of Arakoon's statistics.
    pub fn speak(&self, body: &Body, out: &mut Vec<u8>) -> Result<u64, ArakoonRefusal> {
        let begin = out.len();
        out.int(OK);
        let size = self.body(body, out);
        if size.is_err() {
            out.truncate(begin);
        }
        size
    }

    fn body(&self, body: &Body, out: &mut Vec<u8>) -> Result<u64, ArakoonRefusal> {
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
                        _ => out.maybe(value),
                    }
                }
                Ok(rows.len() as u64)
            }
            (ArakoonShape::Old, Body::Updated(Outcome::Old(old))) => {
                out.maybe(old.as_ref().map(|old: &Value| &old[..]));
                Ok(0)
            }
            (ArakoonShape::Count, Body::Updated(Outcome::Count(count))) => {
                out.int(i32::try_from(*count).unwrap_or(i32::MAX));
                Ok(*count)
            }
            (ArakoonShape::LongCount, Body::Count(count)) => {
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
            (ArakoonShape::Said(bytes), _) => {
                out.extend_from_slice(bytes);
                Ok(0)
            }
            _ => Err(mismatch(self)),
        }
    }
}

/// The node answered another question: our own mistake, told and survived.
fn mismatch(shape: &ArakoonShape) -> ArakoonRefusal {
    ArakoonRefusal::complaint(format!("{shape:?}: the node's answer does not fit the question"))
}

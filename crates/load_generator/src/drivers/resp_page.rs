//! Pages of Credenza's indexes, as replies of `CREDENZA.INDEX RANGE` hold them.

use super::resp_reply::{bulk_of, elements};
use super::{QueryPage, QueryRow};
use std::borrow::Cow;

/// Parses a whole reply: the continuation or nil, then the rows. `None`: it has another form, or a
/// record has several values.
pub fn parse_query_page(reply: &[u8], wants_documents: bool) -> Option<QueryPage<'_>> {
    let parts = elements(reply)?;
    let [after, rows] = parts[..] else { return None };
    let frames = elements(rows)?;
    let frames_per_row = if wants_documents { 3 } else { 1 };
    if !frames.len().is_multiple_of(frames_per_row) {
        return None;
    }
    let rows = frames.chunks(frames_per_row).map(row_of).collect::<Option<Vec<_>>>()?;
    Some(QueryPage { rows, after: bulk_of(after).map(Cow::Borrowed) })
}

/// Parses the frames of a row: its key, or its key, its term and its record.
fn row_of<'a>(frames: &[&'a [u8]]) -> Option<QueryRow<'a>> {
    let (key, document) = match *frames {
        [key] => (key, None),
        [key, _, record] => (key, Some(Cow::Borrowed(value_of(record)?))),
        _ => return None,
    };
    Some(QueryRow { key: Cow::Borrowed(bulk_of(key)?), document })
}

/// Returns the value of a record: of a consistent bucket the value itself, of an available one the
/// context and a list of one value.
fn value_of(record: &[u8]) -> Option<&[u8]> {
    if let Some(value) = bulk_of(record) {
        return Some(value);
    }
    let parts = elements(record)?;
    let [_, values] = parts[..] else { return None };
    let values = elements(values)?;
    let [value] = values[..] else { return None };
    bulk_of(value)
}

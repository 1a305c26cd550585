//! Question for a page of an index of one node, and its answer.
//!
//! ```text
//! query  = field, length u32 | terms (indexes/term_range.rs) | after u8 | [position]
//!          | flags u8 | rows u32
//! answer = 0 (absent)   or   1 (building) | slots read u32 | slots u32
//!          or   2 (page) | rows u32 | rows | end
//! row    = term, length u32; empty: as in the row before | key, length u32
//!          | has record u8 | [record, length u32]
//! end    = 0: no more rows   or   1 | position
//! position = term, length u32 | key, length u32
//! ```
//! Flags: 1 descending, 2 with records. A node leaves a record out that is too large for a page.

use base::Key;
use base::codec::{Malformed, Reader, Writer};
use base::limits::{KEY_BYTES_MAX, PEER_CALL_BYTES_MAX};
use base::range::Direction;
use bytes::Bytes;
use indexes::limits::{INDEX_FIELD_BYTES_MAX, TERM_BOUND_BYTES_MAX};
use indexes::{IndexField, Term, TermRange};
use logic::coverage::{PageEnd, StreamPage};

const DESCENDING: u8 = 1;
const RECORDS: u8 = 2;

/// Place of an entry in the order of its field.
pub type EntryPosition = (Term, Key);

/// Page of the entries of a field: positions, each with the encoded row of the record. `None`: rows
/// were not asked for, or this one is too large for a page.
pub type IndexPage = StreamPage<EntryPosition, Option<Bytes>>;

/// Content of the rows of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexContent {
    /// Terms and keys.
    Entries,
    /// Terms, keys, and the rows of the records with all siblings.
    Records,
}

/// Query of a field of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexQuery {
    /// The field.
    pub field: IndexField,
    /// Terms that are asked for.
    pub terms: TermRange,
    /// Last entry of the page before.
    pub after: Option<EntryPosition>,
    /// Direction in which pages follow each other.
    pub direction: Direction,
    /// Content of the rows.
    pub content: IndexContent,
    /// Maximum number of rows of the page.
    pub rows_max: usize,
}

/// Answer to a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexAnswer {
    /// The index is not in force on this node.
    Absent,
    /// The index is being built: its build has read this many slots, of all of them.
    Building(u32, u32),
    /// A page.
    Page(IndexPage),
}

impl IndexQuery {
    /// Encodes the query.
    pub fn put(&self, out: &mut Vec<u8>) {
        let IndexQuery { field, terms, after, direction, content, rows_max } = self;
        let mut bytes = Vec::new();
        field.put(&mut bytes);
        out.put_string(&bytes);
        terms.put(out);
        out.put_u8(after.is_some().into());
        if let Some(position) = after {
            put_position(position, out);
        }
        let descending = if *direction == Direction::Descending { DESCENDING } else { 0 };
        let records = if *content == IndexContent::Records { RECORDS } else { 0 };
        out.put_u8(descending | records);
        out.put_u32(u32::try_from(*rows_max).unwrap_or(u32::MAX));
    }

    /// Decodes a query. Its key is a slice of `source`.
    pub fn take(source: &Bytes, from: &mut Reader<'_>) -> Result<IndexQuery, Malformed> {
        // Before its name a field has a mark, and behind it a zero byte.
        let field = from.string(INDEX_FIELD_BYTES_MAX + 2, "the field of a query")?;
        let (field, []) = IndexField::take(field)? else {
            return Err(Malformed("the field of a query"));
        };
        let terms = TermRange::take(from)?;
        let after = match from.u8("the start of a page")? {
            0 => None,
            1 => Some(take_position(source, from)?),
            _ => return Err(Malformed("the start of a page")),
        };
        let flags = from.u8("the flags of a query")?;
        if flags & !(DESCENDING | RECORDS) != 0 {
            return Err(Malformed("the flags of a query"));
        }
        let direction = match flags & DESCENDING {
            0 => Direction::Ascending,
            _ => Direction::Descending,
        };
        let content = match flags & RECORDS {
            0 => IndexContent::Entries,
            _ => IndexContent::Records,
        };
        let rows_max = from.u32("the rows of a query")? as usize;
        Ok(IndexQuery { field, terms, after, direction, content, rows_max })
    }
}

impl IndexAnswer {
    /// Encodes the answer.
    pub fn write(&self, out: &mut Vec<u8>) {
        let page = match self {
            IndexAnswer::Absent => return out.put_u8(0),
            IndexAnswer::Building(done, slots) => {
                out.put_u8(1);
                out.put_u32(*done);
                out.put_u32(*slots);
                return;
            }
            IndexAnswer::Page(page) => page,
        };
        out.put_u8(2);
        out.put_u32(page.rows.len() as u32);
        let mut before: Option<&Term> = None;
        for ((term, key), row) in &page.rows {
            let is_new = before != Some(term);
            out.put_string(if is_new { term.as_bytes() } else { &[] });
            before = Some(term);
            out.put_string(key);
            out.put_u8(row.is_some().into());
            if let Some(row) = row {
                out.put_string(row);
            }
        }
        match &page.end {
            PageEnd::Complete => out.put_u8(0),
            PageEnd::Through(position) => {
                out.put_u8(1);
                put_position(position, out);
            }
        }
    }

    /// Decodes an answer that fills these bytes. Its keys and rows are slices of them.
    pub fn read(bytes: &Bytes) -> Result<IndexAnswer, Malformed> {
        let mut from = Reader::new(bytes);
        let answer = match from.u8("the kind of an index's answer")? {
            0 => IndexAnswer::Absent,
            1 => IndexAnswer::Building(from.u32("slots")?, from.u32("slots")?),
            2 => IndexAnswer::Page(take_page(bytes, &mut from)?),
            _ => return Err(Malformed("the kind of an index's answer")),
        };
        from.end("the end of an index's answer")?;
        Ok(answer)
    }
}

fn take_page(source: &Bytes, from: &mut Reader<'_>) -> Result<IndexPage, Malformed> {
    let count = from.u32("the rows of a page")? as usize;
    if count > from.rest().len() / 9 {
        return Err(Malformed("the rows of a page"));
    }
    let mut rows: Vec<(EntryPosition, Option<Bytes>)> = Vec::with_capacity(count);
    for _ in 0..count {
        let bytes = from.string(TERM_BOUND_BYTES_MAX, "the term of a row")?;
        let before = rows.last().map(|((term, _), _)| term);
        let term = match (bytes, before) {
            ([], Some(before)) => before.clone(),
            (bytes, before) => Term::decode(bytes).ok().filter(|term| Some(term) != before).ok_or(
                // One page has one form.
                Malformed("the term of a row"),
            )?,
        };
        let key = source.slice_ref(from.string(KEY_BYTES_MAX, "the key of a row")?);
        let row = match from.u8("the record of a row")? {
            0 => None,
            1 => {
                let row = from.string(PEER_CALL_BYTES_MAX, "the record of a row")?;
                Some(source.slice_ref(row))
            }
            _ => return Err(Malformed("the record of a row")),
        };
        rows.push(((term, key), row));
    }
    let end = match from.u8("the end of a page")? {
        0 => PageEnd::Complete,
        1 => PageEnd::Through(take_position(source, from)?),
        _ => return Err(Malformed("the end of a page")),
    };
    Ok(IndexPage { rows, end })
}

fn put_position((term, key): &EntryPosition, out: &mut Vec<u8>) {
    out.put_string(term.as_bytes());
    out.put_string(key);
}

fn take_position(source: &Bytes, from: &mut Reader<'_>) -> Result<EntryPosition, Malformed> {
    let term = Term::decode(from.string(TERM_BOUND_BYTES_MAX, "the term of a position")?)?;
    let key = from.string(KEY_BYTES_MAX, "the key of a position")?;
    Ok((term, source.slice_ref(key)))
}

#[cfg(test)]
mod tests;

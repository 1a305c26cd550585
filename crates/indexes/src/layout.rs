//! Keys of index rows, behind what the store's owner puts in front of them.
//!
//! | space | key |
//! |---|---|
//! | consistent bucket | field, term, key |
//! | consistent bucket, unique index | field, term |
//! | available bucket | length of its name (2, big-endian), name, field, term, key |
//!
//! Fields and terms tell their own end, so the rows of a field stand in the order of (term, key).

use crate::entry::IndexEntry;
use crate::field::IndexField;
use crate::term::Term;
use crate::term_range::TermRange;
use base::codec::Malformed;
use base::limits::KEY_BYTES_MAX;
use base::range::{Direction, prefix_end};
use base::{BucketName, Key};
use bytes::Bytes;

/// Space of the rows of one bucket.
#[derive(Clone, Copy, Debug)]
pub enum EntrySpace<'a> {
    /// Rows of a consistent bucket, for indexes that are not unique.
    Consistent,
    /// Rows of a consistent bucket's unique indexes: one for each term.
    Unique,
    /// Rows of an available bucket.
    Available(&'a BucketName),
}

/// Span of keys: from the lower bound, up to and without the upper one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySpan {
    /// First key inside.
    pub low: Vec<u8>,
    /// First key behind.
    pub high: Vec<u8>,
}

impl KeySpan {
    /// Returns the span of all keys that begin with this field.
    fn of(front: Vec<u8>) -> KeySpan {
        let high = prefix_end(&front).expect("a field begins with 1 or 2");
        KeySpan { low: front, high }
    }

    /// Returns true if no key lies inside.
    pub fn is_empty(&self) -> bool {
        self.low >= self.high
    }

    /// Returns true if the key lies inside.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.low.as_slice() <= key && key < self.high.as_slice()
    }
}

/// Rows that a query asks for.
#[derive(Clone, Copy, Debug)]
pub struct EntryQuery<'a> {
    /// Field of the entries.
    pub field: &'a IndexField,
    /// Terms of the entries.
    pub terms: &'a TermRange,
    /// Last row of the page before, whether it still exists or not.
    pub after: Option<(&'a Term, &'a [u8])>,
    /// Direction in which the pages follow each other.
    pub direction: Direction,
}

impl EntrySpace<'_> {
    /// Returns the front of all keys of the space.
    pub fn front(self) -> Vec<u8> {
        match self {
            EntrySpace::Consistent | EntrySpace::Unique => Vec::new(),
            EntrySpace::Available(bucket) => {
                let name = bucket.full().as_bytes();
                let length = u16::try_from(name.len()).expect("bucket names are short");
                [&length.to_be_bytes(), name].concat()
            }
        }
    }

    /// Returns the key of an entry's row; a unique index has no key of a record in it.
    pub fn key(self, entry: &IndexEntry, key: &[u8]) -> Vec<u8> {
        self.row_key(&entry.field, &entry.term, key)
    }

    fn row_key(self, field: &IndexField, term: &Term, key: &[u8]) -> Vec<u8> {
        let mut out = self.front();
        field.put(&mut out);
        out.extend_from_slice(term.as_bytes());
        if !matches!(self, EntrySpace::Unique) {
            out.extend_from_slice(key);
        }
        out
    }

    /// Returns the span of all rows of a field.
    pub fn field_span(self, field: &IndexField) -> KeySpan {
        let mut front = self.front();
        field.put(&mut front);
        KeySpan::of(front)
    }

    /// Returns the span of the rows that a query still asks for. In a unique index the next page
    /// begins behind the last term, whatever key has it now.
    pub fn span(self, query: &EntryQuery<'_>) -> KeySpan {
        let mut front = self.front();
        query.field.put(&mut front);
        let mut span = KeySpan {
            low: [&front, query.terms.low()].concat(),
            high: [&front, query.terms.high()].concat(),
        };
        let after = query.after.map(|(term, key)| self.row_key(query.field, term, key));
        match (after, query.direction) {
            (Some(mut after), Direction::Ascending) => {
                // The first key behind another one is this one and a zero byte.
                after.push(0);
                span.low = span.low.max(after);
            }
            (Some(after), Direction::Descending) => span.high = span.high.min(after),
            (None, _) => {}
        }
        span
    }
}

/// Decodes the key of a consistent bucket's row: the entry, and the record's key.
pub fn decode_consistent(bytes: &[u8]) -> Result<(IndexEntry, Key), Malformed> {
    let (entry, key) = take_entry(bytes)?;
    if key.len() > KEY_BYTES_MAX {
        return Err(Malformed("the key of an index entry"));
    }
    Ok((entry, Bytes::copy_from_slice(key)))
}

/// Decodes the key of a unique index's row.
pub fn decode_unique(bytes: &[u8]) -> Result<IndexEntry, Malformed> {
    match take_entry(bytes)? {
        (entry, []) => Ok(entry),
        _ => Err(Malformed("the end of a unique index entry")),
    }
}

/// Decodes the key of an available bucket's row: the bucket, the entry, and the record's key.
pub fn decode_available(bytes: &[u8]) -> Result<(BucketName, IndexEntry, Key), Malformed> {
    const FIELD: Malformed = Malformed("the bucket of an index entry");
    let (length, rest) = bytes.split_first_chunk().ok_or(FIELD)?;
    let (name, rest) = rest.split_at_checked(u16::from_be_bytes(*length).into()).ok_or(FIELD)?;
    let name = std::str::from_utf8(name).ok().and_then(|name| BucketName::from_full(name).ok());
    let (entry, key) = decode_consistent(rest)?;
    Ok((name.ok_or(FIELD)?, entry, key))
}

fn take_entry(bytes: &[u8]) -> Result<(IndexEntry, &[u8]), Malformed> {
    let (field, rest) = IndexField::take(bytes)?;
    let (term, rest) = Term::take(rest)?;
    // A tag's name says the kind of its terms; the kinds of declared ones lie behind those of tags.
    let is_fitting = match field.tag_kind() {
        Some(kind) => term.kind() == kind,
        None => term.kind() > crate::term::TermKind::TagBytes,
    };
    if is_fitting {
        Ok((IndexEntry { field, term }, rest))
    } else {
        Err(Malformed("a term's kind"))
    }
}

//! Fields of index entries: tags by name, declared indexes by number.

use crate::limits::INDEX_FIELD_BYTES_MAX;
use crate::term::TermKind;
use base::codec::Malformed;
use base::{Error, Reason, Result};
use bytes::Bytes;
use std::fmt;

const TAG: u8 = 1;
const DECLARED: u8 = 2;

/// Number of a declared index: each definition of a bucket gets a new one, so entries of a former
/// definition are never taken for those of a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IndexNumber(pub u32);

impl fmt::Display for IndexNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Field of an index entry. Fields order as their bytes do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IndexField {
    /// A tag: its name, as [`IndexField::tag`] returns it.
    Tag(Bytes),
    /// A declared index.
    Declared(IndexNumber),
}

impl IndexField {
    /// Returns the field of a tag; the name is folded to lower case. Errors: `malformed` if it ends
    /// neither in `_bin` nor in `_int`, or has a zero byte; `too_large` above
    /// [`INDEX_FIELD_BYTES_MAX`].
    pub fn tag(name: &[u8]) -> Result<IndexField> {
        IndexField::tag_and_kind(name).map(|(field, _)| field)
    }

    /// Returns the field of a tag, and the kind of its terms. Errors: those of [`Self::tag`].
    pub fn tag_and_kind(name: &[u8]) -> Result<(IndexField, TermKind)> {
        if name.len() > INDEX_FIELD_BYTES_MAX {
            let text =
                format!("the name of an index field has at most {INDEX_FIELD_BYTES_MAX} bytes");
            return Err(Error::new(Reason::TooLarge, text));
        }
        let name = name.to_ascii_lowercase();
        match tag_kind(&name).filter(|_| !name.contains(&0)) {
            Some(kind) => Ok((IndexField::Tag(name.into()), kind)),
            None => {
                let text =
                    "the name of an index field ends in `_bin` or `_int`, without zero bytes";
                Err(Error::new(Reason::Malformed, text))
            }
        }
    }

    /// Returns the kind of a tag's terms. `None`: the field is a declared index, and its definition
    /// says it.
    pub fn tag_kind(&self) -> Option<TermKind> {
        match self {
            IndexField::Tag(name) => tag_kind(name),
            IndexField::Declared(_) => None,
        }
    }

    /// Appends the field: `1 | name | 00`, or `2 | number` with a big-endian number.
    pub fn put(&self, out: &mut Vec<u8>) {
        match self {
            IndexField::Tag(name) => {
                out.push(TAG);
                out.extend_from_slice(name);
                out.push(0);
            }
            IndexField::Declared(number) => {
                out.push(DECLARED);
                out.extend_from_slice(&number.0.to_be_bytes());
            }
        }
    }

    /// Decodes the field at the beginning of these bytes, and returns the bytes behind it.
    pub fn take(bytes: &[u8]) -> std::result::Result<(IndexField, &[u8]), Malformed> {
        const FIELD: Malformed = Malformed("the field of an index entry");
        match bytes.split_first() {
            Some((&TAG, rest)) => {
                let end = rest.iter().position(|byte| *byte == 0).ok_or(FIELD)?;
                let (name, rest) = (&rest[..end], &rest[end + 1..]);
                match IndexField::tag(name) {
                    Ok(IndexField::Tag(folded)) if folded == name => {
                        Ok((IndexField::Tag(folded), rest))
                    }
                    _ => Err(FIELD),
                }
            }
            Some((&DECLARED, rest)) => {
                let (number, rest) = rest.split_first_chunk().ok_or(FIELD)?;
                Ok((IndexField::Declared(IndexNumber(u32::from_be_bytes(*number))), rest))
            }
            _ => Err(FIELD),
        }
    }
}

fn tag_kind(name: &[u8]) -> Option<TermKind> {
    if name.ends_with(b"_int") {
        Some(TermKind::TagInteger)
    } else if name.ends_with(b"_bin") {
        Some(TermKind::TagBytes)
    } else {
        None
    }
}

//! Ranges of terms: what a query asks of one field.

use crate::escape;
use crate::limits::{CUT_FRONT_BYTES, INDEX_TERM_BYTES_MAX, TERM_BOUND_BYTES_MAX};
use crate::term::{Term, TermKind};
use base::codec::{Malformed, Reader, Writer};
use base::range::prefix_end;
use base::{Error, Reason, Result};
use std::ops::Bound;

/// Range of terms of one kind, as bytes: from the lower bound, up to and without the upper one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TermRange {
    kind: TermKind,
    low: Vec<u8>,
    high: Vec<u8>,
}

impl TermRange {
    /// Returns the range of all terms of a kind.
    pub fn all(kind: TermKind) -> TermRange {
        TermRange { kind, low: vec![kind.code()], high: end_of(&[kind.code()]) }
    }

    /// Returns the range of one term.
    pub fn equality(term: &Term) -> TermRange {
        let low = term.as_bytes().to_vec();
        TermRange { kind: term.kind(), high: end_of(&low), low }
    }

    /// Returns the range between two bounds; it is empty if they cross. Errors: `malformed` if a
    /// bound is of another kind.
    pub fn between(kind: TermKind, low: Bound<&Term>, high: Bound<&Term>) -> Result<TermRange> {
        for bound in [low, high] {
            if let Bound::Included(term) | Bound::Excluded(term) = bound
                && term.kind() != kind
            {
                let text = "the bounds of an index query are of the field's own type";
                return Err(Error::new(Reason::Malformed, text));
            }
        }
        let mut range = TermRange::all(kind);
        // No term's bytes begin another's, so the end of the bytes that begin with a term comes
        // behind all keys of this term and before all other terms.
        match low {
            Bound::Included(term) => range.low = term.as_bytes().to_vec(),
            Bound::Excluded(term) => range.low = end_of(term.as_bytes()),
            Bound::Unbounded => {}
        }
        match high {
            Bound::Included(term) => range.high = end_of(term.as_bytes()),
            Bound::Excluded(term) => range.high = term.as_bytes().to_vec(),
            Bound::Unbounded => {}
        }
        Ok(range)
    }

    /// Returns the range of the strings that begin with `prefix`. Errors: `not_supported` for
    /// numbers and truth values; `too_large` if the index does not hold so many bytes of a string.
    pub fn prefix(kind: TermKind, prefix: &[u8]) -> Result<TermRange> {
        let bytes_max = match kind {
            TermKind::TagBytes => INDEX_TERM_BYTES_MAX,
            TermKind::String | TermKind::Bytes => CUT_FRONT_BYTES,
            TermKind::TagInteger | TermKind::Int | TermKind::Float | TermKind::Bool => {
                let text = "only an index of strings or bytes is queried by prefix: use a range";
                return Err(Error::new(Reason::NotSupported, text));
            }
        };
        if prefix.len() > bytes_max {
            let text = format!("the prefix of a query of this index has at most {bytes_max} bytes");
            return Err(Error::new(Reason::TooLarge, text));
        }
        let mut low = vec![kind.code()];
        escape::put_front(prefix, &mut low);
        Ok(TermRange { kind, high: end_of(&low), low })
    }

    /// Appends the range: its kind (1 byte), and both bounds, each with a length of 4.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.put_u8(self.kind.code());
        out.put_string(&self.low);
        out.put_string(&self.high);
    }

    /// Decodes a range. Its bounds may be any bytes of its kind: a row that can't be read is not
    /// between them.
    pub fn take(from: &mut Reader<'_>) -> std::result::Result<TermRange, Malformed> {
        const RANGE: Malformed = Malformed("the terms of a query");
        let code = from.u8("the kind of a query's terms")?;
        let kind = TermKind::ALL.into_iter().find(|kind| kind.code() == code).ok_or(RANGE)?;
        let low = from.string(TERM_BOUND_BYTES_MAX, "the terms of a query")?.to_vec();
        let high = from.string(TERM_BOUND_BYTES_MAX, "the terms of a query")?.to_vec();
        let all = TermRange::all(kind);
        let is_inside = |bound: &Vec<u8>| all.low <= *bound && *bound <= all.high;
        if is_inside(&low) && is_inside(&high) {
            Ok(TermRange { kind, low, high })
        } else {
            Err(RANGE)
        }
    }

    /// Returns the kind of the range's terms.
    pub fn kind(&self) -> TermKind {
        self.kind
    }

    /// Returns the lower bound: the first bytes inside.
    pub fn low(&self) -> &[u8] {
        &self.low
    }

    /// Returns the upper bound: the first bytes behind.
    pub fn high(&self) -> &[u8] {
        &self.high
    }

    /// Returns true if no term lies in the range.
    pub fn is_empty(&self) -> bool {
        self.low >= self.high
    }

    /// Returns true if the term lies in the range.
    pub fn contains(&self, term: &Term) -> bool {
        self.low.as_slice() <= term.as_bytes() && term.as_bytes() < self.high.as_slice()
    }
}

fn end_of(front: &[u8]) -> Vec<u8> {
    prefix_end(front).expect("a term begins with its kind, which is below 0xFF")
}

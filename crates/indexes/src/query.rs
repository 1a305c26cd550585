//! Queries of one field: the terms that a request selects, and where its next page begins.
//!
//! Groups and vnodes both read requests by these functions, so every node understands a
//! continuation that another returned.

use crate::continuation::{Continuation, QueryDigest};
use crate::field::IndexField;
use crate::term::{Term, TermKind};
use crate::term_filter::TermFilter;
use crate::term_range::TermRange;
use base::index::{IndexQuery, TermSelection};
use base::range::Direction;
use base::{BucketName, Key, Result};
use std::ops::Bound;

/// Query of one field, its terms read by their kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldQuery {
    /// Field of the entries.
    pub field: IndexField,
    /// Terms that are asked for.
    pub terms: TermRange,
    /// Order of the rows.
    pub direction: Direction,
    /// Last row of the page before.
    pub after: Option<(Term, Key)>,
    /// Filter of the terms. `None`: all are asked for.
    pub filter: Option<TermFilter>,
    digest: QueryDigest,
}

impl FieldQuery {
    /// Reads a request for a field of this bucket. `kind`: kind of the field's terms. Errors: those
    /// of [`Term::parse`], [`TermRange::prefix`], [`Continuation::decode`] and [`TermFilter::new`].
    /// A continuation of an index that was dropped and created again belongs to another query.
    pub fn new(
        bucket: &BucketName,
        field: IndexField,
        kind: TermKind,
        query: &IndexQuery,
    ) -> Result<FieldQuery> {
        let terms = selected_terms(&query.terms, kind)?;
        let digest = digest(bucket, &field, &terms, query);
        let after = match &query.after {
            Some(text) => {
                let Continuation { term, key, .. } = Continuation::decode(text, digest)?;
                Some((term, key))
            }
            None => None,
        };
        let filter = query.regex.as_ref().map(|regex| TermFilter::new(kind, regex)).transpose()?;
        let direction = query.direction;
        Ok(FieldQuery { field, terms, direction, after, filter, digest })
    }

    /// Returns true if the query asks for a term of its range.
    pub fn selects(&self, term: &Term) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.matches(term))
    }

    /// Returns the continuation behind the last row of a page.
    pub fn continuation(&self, term: Term, key: Key) -> Continuation {
        Continuation { query: self.digest, term, key }
    }
}

fn selected_terms(selection: &TermSelection, kind: TermKind) -> Result<TermRange> {
    let bound = |bound: &base::Bound| {
        Ok(match bound {
            base::Bound::Open => Bound::Unbounded,
            base::Bound::Included(text) => Bound::Included(Term::parse(kind, text)?),
            base::Bound::Excluded(text) => Bound::Excluded(Term::parse(kind, text)?),
        })
    };
    match selection {
        TermSelection::Equal(text) => Ok(TermRange::equality(&Term::parse(kind, text)?)),
        TermSelection::Between(low, high) => {
            let (low, high) = (bound(low)?, bound(high)?);
            TermRange::between(kind, low.as_ref(), high.as_ref())
        }
        TermSelection::Prefix(text) => TermRange::prefix(kind, text),
    }
}

fn digest(
    bucket: &BucketName,
    field: &IndexField,
    terms: &TermRange,
    query: &IndexQuery,
) -> QueryDigest {
    let mut field_bytes = Vec::new();
    field.put(&mut field_bytes);
    let direction = match query.direction {
        Direction::Ascending => b"+",
        Direction::Descending => b"-",
    };
    let regex = query.regex.as_ref().map(|regex| regex.as_bytes());
    // No expression is another query than an empty one.
    let filters: &[&[u8]] = match &regex {
        None => &[],
        Some(regex) => &[regex],
    };
    let bucket = bucket.full().as_bytes();
    let parts: &[&[u8]] = &[bucket, &field_bytes, terms.low(), terms.high(), direction];
    QueryDigest::of(&[parts, filters].concat())
}

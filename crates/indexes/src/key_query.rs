//! Queries of all keys of a bucket in order (`$key`, `$bucket`): the keys that a request selects,
//! and where its next page begins. The rows themselves tell the keys, so no entry is kept of them.

use crate::continuation::{Continuation, QueryDigest};
use crate::term::Term;
use base::index::{BUCKET_FIELD, IndexContent, IndexQuery, KEY_FIELD, TermSelection};
use base::range::{Bound, Direction, Range, RowContent, prefix_end};
use base::{BucketName, Error, IndexPage, IndexRow, Key, Page, Reason, Result};

/// Number of bytes by which [`KeyQuery::start`] approaches a lower bound.
const APPROACH_BYTES: usize = 16;

/// Query of the keys of a bucket, lowest key first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyQuery {
    low: Bound,
    high: Bound,
    /// Last key of the page before.
    after: Option<Key>,
    /// True if each row has its key as its term.
    has_terms: bool,
    digest: QueryDigest,
}

impl KeyQuery {
    /// Returns true if an index of this name stands for the keys of a bucket.
    pub fn is_about(index: &[u8]) -> bool {
        index == KEY_FIELD || index == BUCKET_FIELD
    }

    /// Reads a request. `$bucket` selects all keys, whatever the request's terms. Errors:
    /// `not_supported` for records, the descending order and regular expressions; those of
    /// [`Continuation::decode`].
    pub fn new(bucket: &BucketName, query: &IndexQuery) -> Result<KeyQuery> {
        check_offered(query)?;
        let is_key = query.index == KEY_FIELD;
        let (low, high) = if is_key { bounds(&query.terms) } else { (Bound::Open, Bound::Open) };
        let digest = digest(bucket, &query.index, [&low, &high]);
        let after = query.after.as_ref().map(|text| Continuation::decode(text, digest));
        let after = after.transpose()?.map(|continuation| continuation.key);
        let has_terms = is_key && query.want == IndexContent::Terms;
        Ok(KeyQuery { low, high, after, has_terms, digest })
    }

    /// Returns the key behind which a read in order begins. `None`: at the first key. Few keys
    /// that the query does not select lie between both: a key has no last one before it.
    pub fn start(&self) -> Option<Key> {
        match (&self.after, &self.low) {
            (Some(after), _) | (None, Bound::Excluded(after)) => Some(after.clone()),
            (None, Bound::Open) => None,
            (None, Bound::Included(low)) => {
                let (last, front) = low.split_last()?;
                let mut start = front.to_vec();
                if let Some(before) = last.checked_sub(1) {
                    start.push(before);
                    start.extend([u8::MAX; APPROACH_BYTES]);
                }
                Some(start.into())
            }
        }
    }

    /// Returns the keys that are still asked for, for a store of them in order.
    pub fn range(&self) -> Range {
        let after = self.after.clone().map(Bound::Excluded);
        let low = after.unwrap_or_else(|| self.low.clone());
        Range { low, high: self.high.clone(), want: RowContent::Keys, ..Range::default() }
    }

    /// Returns the page of an index with the keys of a page of [`Self::range`].
    pub fn page(&self, page: Page) -> Result<IndexPage> {
        let last = page.entries.last().map(|entry| entry.key.clone()).filter(|_| page.more);
        let after = last.map(|last| self.continuation(last)).transpose()?;
        let after = after.map(|continuation| continuation.encode().into());
        let rows = page.entries.into_iter().map(|entry| self.row(entry.key)).collect();
        Ok(IndexPage { rows, after, is_partial: false })
    }

    /// Returns true if the query selects a key.
    pub fn selects(&self, key: &Key) -> bool {
        let follows = match &self.low {
            Bound::Open => true,
            Bound::Included(low) => low <= key,
            Bound::Excluded(low) => low < key,
        };
        follows && !self.is_exceeded_by(key)
    }

    /// Returns true if the query selects no key behind this one.
    pub fn ends_at(&self, key: &Key) -> bool {
        self.is_exceeded_by(key) || matches!(&self.high, Bound::Included(high) if high == key)
    }

    fn is_exceeded_by(&self, key: &Key) -> bool {
        match &self.high {
            Bound::Open => false,
            Bound::Included(high) => key > high,
            Bound::Excluded(high) => key >= high,
        }
    }

    /// Returns true if the query selects one key at most.
    pub fn is_of_one_key(&self) -> bool {
        matches!(&self.low, Bound::Included(low) if self.high == Bound::Included(low.clone()))
    }

    /// Returns the row of a key.
    pub fn row(&self, key: Key) -> IndexRow {
        IndexRow { term: self.has_terms.then(|| key.clone()), key, record: None }
    }

    /// Returns the continuation behind a key.
    pub fn continuation(&self, key: Key) -> Result<Continuation> {
        // The key alone tells the place.
        Ok(Continuation { query: self.digest, term: Term::tag_bytes(b"")?, key })
    }
}

fn check_offered(query: &IndexQuery) -> Result<()> {
    let text = if query.want == IndexContent::Records {
        "a query of `$key` or `$bucket` returns no records: ask for keys, and read them"
    } else if query.direction == Direction::Descending {
        "a query of `$key` or `$bucket` returns the lowest key first: ask for that order"
    } else if query.regex.is_some() {
        "a query takes no regular expression: ask for a prefix or a range, and filter the page"
    } else {
        return Ok(());
    };
    Err(Error::new(Reason::NotSupported, text))
}

fn bounds(selection: &TermSelection) -> (Bound, Bound) {
    match selection {
        TermSelection::Equal(key) => (Bound::Included(key.clone()), Bound::Included(key.clone())),
        TermSelection::Between(low, high) => (low.clone(), high.clone()),
        TermSelection::Prefix(prefix) => {
            let end = prefix_end(prefix).map(|end| Bound::Excluded(end.into()));
            (Bound::Included(prefix.clone()), end.unwrap_or(Bound::Open))
        }
    }
}

fn digest(bucket: &BucketName, field: &[u8], [low, high]: [&Bound; 2]) -> QueryDigest {
    let ((low_kind, low), (high_kind, high)) = (bound_parts(low), bound_parts(high));
    QueryDigest::of(&[bucket.full().as_bytes(), field, low_kind, low, high_kind, high])
}

fn bound_parts(bound: &Bound) -> (&'static [u8], &[u8]) {
    match bound {
        Bound::Open => (b"*", b""),
        Bound::Included(key) => (b"[", key),
        Bound::Excluded(key) => (b"(", key),
    }
}

//! Requests about JSON documents, and pages of their index: what an experiment with indexes asks of
//! servers that have one.

use std::borrow::Cow;

/// One request about documents.
#[derive(Clone, Copy, Debug)]
pub enum DocumentCall<'a> {
    /// Reads a page of the driver's index, in the order of terms, then of keys.
    Query(IntegerRange<'a>),
    /// Writes new documents, each by itself, in one request: keys and documents.
    Bulk(&'a [(Vec<u8>, Vec<u8>)]),
}

/// Range of an index whose terms are integers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IntegerRange<'a> {
    /// Lowest term. `None`: the range begins with the first one.
    pub low: Option<u32>,
    /// Term that ends the range and is not in it. `None`: the range ends with the last one.
    pub high: Option<u32>,
    /// Largest number of rows.
    pub rows_max: usize,
    /// True if each row has its document; otherwise it has its key alone.
    pub wants_documents: bool,
    /// Continuation of the page before. `None`: this is the first page.
    pub after: Option<&'a [u8]>,
}

/// Page of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryPage<'a> {
    /// Rows in the order of terms, then of keys.
    pub rows: Vec<QueryRow<'a>>,
    /// Continuation for the next page. `None`: this is the last one.
    pub after: Option<Cow<'a, [u8]>>,
}

/// Row of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryRow<'a> {
    /// Key of the document.
    pub key: Cow<'a, [u8]>,
    /// The document. `None`: the query wants keys alone.
    pub document: Option<Cow<'a, [u8]>>,
}

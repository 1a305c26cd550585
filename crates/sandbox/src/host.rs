//! The database as a function sees it.

use crate::error::HostError;
use bytes::Bytes;

/// Permission of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallMode {
    /// It only reads: a verb that writes ends the call.
    Read,
    /// It reads and writes.
    Write,
}

/// Verbs of a function on the bucket that its caller named.
///
/// A host is a view of a transaction, where later reads see earlier writes, or a snapshot, where
/// no write arrives: calls of the mode [`CallMode::Read`] end at one. An error ends the call, and
/// the caller of the engine undoes what the call has written.
pub trait FunctionHost {
    /// Returns the value of a key.
    fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, HostError>;

    /// Returns true if the key has a value.
    fn exists(&mut self, key: &[u8]) -> Result<bool, HostError>;

    /// Writes a value, which expires after so many milliseconds of the group's time. `None`: never.
    fn set(&mut self, key: &[u8], value: &[u8], expiry_ms: Option<u64>) -> Result<(), HostError>;

    /// Removes a key, and returns true if it had a value.
    fn delete(&mut self, key: &[u8]) -> Result<bool, HostError>;

    /// Adds to a counter, which is 0 where the key has no value, and returns the sum.
    fn add(&mut self, key: &[u8], delta: i64) -> Result<i64, HostError>;

    /// Appends to a value, and returns its length.
    fn append(&mut self, key: &[u8], suffix: &[u8]) -> Result<u64, HostError>;

    /// Returns the first rows of a range, in its order.
    fn range(&mut self, span: &RowSpan<'_>) -> Result<RowPage, HostError>;

    /// Returns the first entries of an index: the key of each row, and its term as the value.
    fn index(&mut self, query: &IndexSpan<'_>) -> Result<RowPage, HostError>;

    /// Returns the group's time in milliseconds. It is the same in the whole call.
    fn group_time_ms(&mut self) -> Result<u64, HostError>;

    /// Returns the request that this call is, if the caller named it: retries have the same name.
    fn request(&mut self) -> Result<Option<RequestName>, HostError>;

    /// Notes a line that the function writes for its operator.
    fn log(&mut self, line: &str);
}

/// Range of keys, or of terms of an index, and the part of it that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowSpan<'a> {
    /// Lower bound.
    pub low: &'a [u8],
    /// True if rows at the lower bound are in the range.
    pub includes_low: bool,
    /// Upper bound. `None`: to the end.
    pub high: Option<&'a [u8]>,
    /// True if rows at the upper bound are in the range.
    pub includes_high: bool,
    /// True if the last row comes first.
    pub is_reverse: bool,
    /// True if values are wanted, too.
    pub wants_values: bool,
    /// The row behind which the page begins, in the order of the range.
    pub after: Option<&'a PageRow>,
    /// Most rows of the page.
    pub rows_max: usize,
    /// Bytes behind which the page ends; its last row may reach beyond them.
    pub bytes_max: usize,
}

/// Range of terms of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexSpan<'a> {
    /// Name of the index.
    pub index: &'a str,
    /// Range of terms, as the clients' protocols write them.
    pub span: RowSpan<'a>,
}

/// A row of a range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageRow {
    /// Key.
    pub key: Bytes,
    /// Value, or the term of an index. Empty where only keys are wanted.
    pub value: Bytes,
}

/// Rows of a range in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowPage {
    /// The rows.
    pub rows: Vec<PageRow>,
    /// True if the range may have rows behind them.
    pub has_more: bool,
}

/// Name of a request, equal in all its retries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestName {
    /// Name of the session.
    pub session: Bytes,
    /// Number of the request in the session.
    pub number: u64,
}

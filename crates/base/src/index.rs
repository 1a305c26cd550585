//! Secondary indexes as nodes and clients exchange them: definitions, states, calls and queries.
//!
//! Names, paths and terms are texts as clients write them: the crate `indexes` interprets them. So
//! a front-end need not know a definition to ask for a range of its terms.

use crate::error::too_large;
use crate::limits::{
    INDEX_CONTINUATION_BYTES_MAX, INDEX_NAME_BYTES_MAX, INDEX_REGEX_BYTES_MAX, KEY_BYTES_MAX,
};
use crate::quorum::Quorum;
use crate::range::{Bound, Direction};
use crate::{BucketId, BucketName, Error, NodeId, Reason, Result};
use bytes::Bytes;
use std::fmt;

/// Field of every bucket whose terms are the keys.
pub const KEY_FIELD: &[u8] = b"$key";
/// Field of every bucket that all keys have; its term counts for nothing.
pub const BUCKET_FIELD: &[u8] = b"$bucket";

/// Definition of a declared index, as a client writes it. The directory checks it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexSpec {
    /// Name of the index within its bucket.
    pub name: String,
    /// JSONPath to the indexed nodes of a value.
    pub path: String,
    /// Type of the indexed nodes: `int`, `float`, `string`, `bytes` or `bool`.
    pub value_type: String,
    /// Format of the values: `json` or `msgpack`.
    pub format: String,
    /// True if no two keys may have the same term.
    pub is_unique: bool,
    /// True if a value without a term is refused.
    pub is_strict: bool,
}

/// State of a declared index, as far as the directory knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexState {
    /// Entries of older records are being added; queries are refused.
    Building(BuildProgress),
    /// Queries are answered.
    Ready,
    /// Building it failed, for this reason. It stays failed until it is dropped.
    Failed(String),
    /// Its entries are being removed. It answers no query.
    Dropping,
}

impl IndexState {
    /// Returns the name of the state at every front-end.
    pub fn name(&self) -> &'static str {
        match self {
            IndexState::Building(_) => "building",
            IndexState::Ready => "ready",
            IndexState::Failed(_) => "failed",
            IndexState::Dropping => "dropping",
        }
    }
}

/// Progress of building an index or a feed, in records: an estimate, except that all are done at
/// the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BuildProgress {
    /// Number of records that are there.
    pub done: u64,
    /// Number of records.
    pub total: u64,
}

impl fmt::Display for BuildProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.done, self.total)
    }
}

impl BuildProgress {
    /// Returns the sum of the progress in two places.
    pub fn plus(self, other: BuildProgress) -> BuildProgress {
        BuildProgress {
            done: self.done.saturating_add(other.done),
            total: self.total.saturating_add(other.total),
        }
    }

    /// Returns the error `index_building`.
    pub fn error(self, bucket: &BucketName, index: &str) -> Error {
        let text = format!(
            "{self} records are in the index `{index}` of `{bucket}`, which is being built: wait, \
             then ask again"
        );
        Error::new(Reason::IndexBuilding, text)
    }

    /// Parses the progress at the beginning of an error's detail. `None` for errors of other
    /// reasons.
    pub fn from_error(error: &Error) -> Option<BuildProgress> {
        let is_building = matches!(error.reason, Reason::IndexBuilding | Reason::FeedBuilding);
        let text = std::str::from_utf8(&error.detail).ok()?;
        let (done, rest) = text.split_once('/').filter(|_| is_building)?;
        let (total, _) = rest.split_once(' ')?;
        Some(BuildProgress { done: done.parse().ok()?, total: total.parse().ok()? })
    }
}

/// Description of a declared index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexDescription {
    /// Number of the index. No other index ever has it.
    pub number: u32,
    /// Definition of the index, its path in canonical form.
    pub spec: IndexSpec,
    /// State of the index.
    pub state: IndexState,
}

/// Call to the directory about the declared indexes of the request's bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexCall {
    /// Creates an index, which is then built. Idempotent for the same definition. `Body::Indexes`
    /// with its description.
    Create(IndexSpec),
    /// Drops an index. Idempotent while it is being dropped. `Body::Done`.
    Drop {
        /// Name of the index.
        name: String,
    },
    /// Describes an index: `Body::Indexes` with one element.
    Describe {
        /// Name of the index.
        name: String,
    },
    /// Lists the indexes of the bucket in the order of their names: `Body::Indexes`.
    List,
    /// Reports the state of an index; nodes send it, not clients. `Body::Done`, also if the index
    /// is gone.
    Report(IndexReport),
}

/// Report about an index to the directory. A repeated report changes nothing more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexReport {
    /// Number of the index.
    pub number: u32,
    /// Place that the report is about.
    pub place: ReportPlace,
    /// State of the index there.
    pub state: ReportedState,
}

/// Place that holds entries of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportPlace {
    /// Consistent bucket, by its number in its group, or by the number that it has in the group to
    /// which it moves. The group's master reports.
    Bucket(BucketId),
    /// Node with vnodes, which reports for all rows that it holds of an available bucket.
    Node(NodeId),
}

/// State of an index in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReportedState {
    /// Entries of older records are being added.
    Building(BuildProgress),
    /// Complete: every record has its entries, and writes maintain them. Number of records.
    Complete(u64),
    /// Building it failed, for this reason.
    Failed(String),
    /// Removed: out of force there, with no entry left.
    Removed,
}

/// Query of an index for a page of its rows, in the order of (term, key).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexQuery {
    /// Name of a declared index or of a tag's field, [`KEY_FIELD`] or [`BUCKET_FIELD`].
    pub index: Bytes,
    /// Terms that are asked for.
    pub terms: TermSelection,
    /// Order of the rows.
    pub direction: Direction,
    /// Continuation of the page before.
    pub after: Option<Bytes>,
    /// Most rows. `None`: [`crate::limits::PAGE_ROWS_DEFAULT`].
    pub rows_max: Option<usize>,
    /// Content of each row.
    pub want: IndexContent,
    /// Regular expression that terms of a `_bin` tag or a string must match.
    pub regex: Option<String>,
    /// Number of owners of each partition that must answer, in an available bucket. `None`: a
    /// quorum.
    pub r: Option<Quorum>,
    /// True if an answer of an available bucket may lack partitions: it says so then.
    pub allows_partial: bool,
    /// Timeout in milliseconds, in an available bucket.
    pub timeout_ms: Option<u64>,
}

/// Selection of terms by their texts: integers and numbers in decimal, `true` and `false`, strings
/// and bytes as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TermSelection {
    /// One term.
    Equal(Bytes),
    /// Terms between two bounds, lower bound first.
    Between(Bound, Bound),
    /// Terms that begin so.
    Prefix(Bytes),
}

impl Default for TermSelection {
    /// Selects all terms.
    fn default() -> TermSelection {
        TermSelection::Between(Bound::Open, Bound::Open)
    }
}

impl TermSelection {
    fn texts(&self) -> impl Iterator<Item = &Bytes> {
        let texts = match self {
            TermSelection::Equal(text) | TermSelection::Prefix(text) => [Some(text), None],
            TermSelection::Between(low, high) => [bound_text(low), bound_text(high)],
        };
        texts.into_iter().flatten()
    }
}

fn bound_text(bound: &Bound) -> Option<&Bytes> {
    match bound {
        Bound::Open => None,
        Bound::Included(text) | Bound::Excluded(text) => Some(text),
    }
}

/// Content of the rows of an index query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexContent {
    /// Keys alone. A key stands once for each of its terms.
    #[default]
    Keys,
    /// Keys with their terms.
    Terms,
    /// Keys with their terms and records.
    Records,
}

impl IndexContent {
    /// All of them.
    pub const ALL: [IndexContent; 3] =
        [IndexContent::Keys, IndexContent::Terms, IndexContent::Records];

    /// Returns the name of the content at every front-end.
    pub fn name(self) -> &'static str {
        ["keys", "terms", "records"][self as usize]
    }

    /// Parses that name. Errors: `malformed`.
    pub fn parse(name: &str) -> Result<IndexContent> {
        IndexContent::ALL.into_iter().find(|each| each.name() == name).ok_or_else(|| {
            let text = "`want` of an index query is `keys`, `terms` or `records`";
            Error::new(Reason::Malformed, text)
        })
    }
}

impl IndexQuery {
    /// Checks the query against the limits of every bucket, before it is sent to another node.
    /// Types of terms are checked where the definition is known. Errors: `malformed`, `too_large`.
    pub fn check(&self) -> Result<()> {
        if self.index.is_empty() {
            let text = "an index query names an index, a field, `$key` or `$bucket`";
            return Err(Error::new(Reason::Malformed, text));
        }
        if self.rows_max == Some(0) {
            let text = "a page of an index query has at least one row";
            return Err(Error::new(Reason::Malformed, text));
        }
        let name_limit = ("index_name_bytes_max", INDEX_NAME_BYTES_MAX);
        check_bytes("bytes in the name of an index", self.index.len(), name_limit)?;
        for text in self.terms.texts() {
            let limit = ("key_bytes_max", KEY_BYTES_MAX);
            check_bytes("bytes in a term of an index query", text.len(), limit)?;
        }
        if let Some(after) = &self.after {
            let limit = ("index_continuation_bytes_max", INDEX_CONTINUATION_BYTES_MAX);
            check_bytes("bytes in a continuation", after.len(), limit)?;
        }
        if let Some(regex) = &self.regex {
            let limit = ("index_regex_bytes_max", INDEX_REGEX_BYTES_MAX);
            check_bytes("bytes in the regular expression of a query", regex.len(), limit)?;
        }
        Ok(())
    }
}

fn check_bytes(what: &str, bytes: usize, (name, most): (&str, usize)) -> Result<()> {
    if bytes <= most { Ok(()) } else { Err(too_large(what, bytes, name, most)) }
}

/// Returns the refusal of a request for an index that does not exist.
pub fn no_such_index(bucket: &BucketName, index: &str) -> Error {
    let text =
        format!("no index `{index}` in `{bucket}`: create it first, or list those there are");
    Error::new(Reason::NoSuchIndex, text)
}

/// Returns the refusal of a query of an index that could not be built.
pub fn index_failed(bucket: &BucketName, index: &str, cause: &str) -> Error {
    let text = format!(
        "the index `{index}` of `{bucket}` could not be built ({cause}): mend the records, drop \
         the index and create it again"
    );
    Error::new(Reason::IndexFailed, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query() -> IndexQuery {
        IndexQuery { index: Bytes::from_static(b"by-name"), ..IndexQuery::default() }
    }

    fn reason(query: IndexQuery) -> std::result::Result<(), Reason> {
        query.check().map_err(|error| error.reason)
    }

    #[test]
    fn index_query_limits_are_exact() {
        let text = |length| Bytes::from(vec![b'x'; length]);
        let equal = |length| TermSelection::Equal(text(length));
        let between = |low, high| {
            TermSelection::Between(Bound::Included(text(low)), Bound::Excluded(text(high)))
        };
        let most = KEY_BYTES_MAX;
        assert_eq!(reason(query()), Ok(()), "all terms");
        for (terms, fits) in [
            (equal(most), true),
            (equal(most + 1), false),
            (TermSelection::Prefix(text(most)), true),
            (TermSelection::Prefix(text(most + 1)), false),
            (between(most, most), true),
            (between(most + 1, 0), false),
            (between(0, most + 1), false),
        ] {
            let found = reason(IndexQuery { terms, ..query() });
            assert_eq!(found, if fits { Ok(()) } else { Err(Reason::TooLarge) });
        }
        for more in [0, 1] {
            let queries = [
                IndexQuery { index: text(INDEX_NAME_BYTES_MAX + more), ..query() },
                IndexQuery { after: Some(text(INDEX_CONTINUATION_BYTES_MAX + more)), ..query() },
                IndexQuery { regex: Some("x".repeat(INDEX_REGEX_BYTES_MAX + more)), ..query() },
            ];
            for query in queries {
                assert_eq!(reason(query).is_ok(), more == 0);
            }
        }
        assert_eq!(reason(IndexQuery::default()), Err(Reason::Malformed), "it names no index");
        assert_eq!(reason(IndexQuery { rows_max: Some(0), ..query() }), Err(Reason::Malformed));
    }

    #[test]
    fn build_progress_round_trips_through_error_detail() {
        let bucket = BucketName::default();
        for (done, total) in [(0, 0), (7, 9), (u64::MAX, u64::MAX)] {
            let progress = BuildProgress { done, total };
            let error = progress.error(&bucket, "by-name");
            assert_eq!(BuildProgress::from_error(&error), Some(progress), "{error}");
            assert!(error.text().contains("`by-name` of `default/default`"), "{error}");
        }
        for (reason, text) in [
            (Reason::NoSuchIndex, "7/9 records"),
            (Reason::IndexBuilding, "7 of 9 records"),
            (Reason::IndexBuilding, "-7/9 records"),
        ] {
            assert_eq!(BuildProgress::from_error(&Error::new(reason, text)), None, "{text}");
        }
        let most = BuildProgress { done: u64::MAX, total: u64::MAX };
        assert_eq!(most.plus(BuildProgress { done: 1, total: 1 }), most, "it never wraps");
    }

    #[test]
    fn names_of_contents_and_states_are_told_apart() {
        for each in IndexContent::ALL {
            assert_eq!(IndexContent::parse(each.name()), Ok(each));
        }
        assert!(IndexContent::parse("values").is_err());
        let building = IndexState::Building(BuildProgress::default());
        let states =
            [building, IndexState::Ready, IndexState::Failed("x".into()), IndexState::Dropping];
        let mut names = states.map(|state| state.name());
        names.sort_unstable();
        assert_eq!(names, ["building", "dropping", "failed", "ready"]);
    }
}

//! Query parameters: their names, their meaning, and their parsing.

use super::errors::malformed;
use super::json::steps::parse_expiry_name;
use super::ranges::{self, Bounds};
use crate::contexts;
use crate::http::Head;
use crate::http::percent::{PlusMeaning, decode};
use base::feed::FeedOrigin;
use base::index::IndexContent;
use base::limits::TTL_MS_MAX;
use base::request::{Expiry, SequenceMode};
use base::{BucketName, Context, Error, LogIndex, Quorum, ReadLevel};
use bytes::Bytes;

/// Query parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Parameter {
    Consistency,
    Ttl,
    Mode,
    Prefix,
    From,
    To,
    FromExclusive,
    ToInclusive,
    Reverse,
    Limit,
    After,
    Want,
    Equals,
    TermPrefix,
    TermFrom,
    TermTo,
    AfterRow,
    WantOfRow,
    R,
    Partial,
    Timeout,
    AfterBucket,
    LimitBuckets,
    Context,
    Confirm,
    FeedFrom,
    FeedLimit,
    Values,
    Wait,
}

impl Parameter {
    /// Returns its name in a query.
    pub fn name(self) -> &'static str {
        match self {
            Parameter::Consistency => "consistency",
            Parameter::Ttl => "ttl_ms",
            Parameter::Mode => "mode",
            Parameter::Prefix | Parameter::TermPrefix => "prefix",
            Parameter::From | Parameter::TermFrom | Parameter::FeedFrom => "from",
            Parameter::To | Parameter::TermTo => "to",
            Parameter::Equals => "equals",
            Parameter::FromExclusive => "from_exclusive",
            Parameter::ToInclusive => "to_inclusive",
            Parameter::Reverse => "reverse",
            Parameter::Limit | Parameter::LimitBuckets | Parameter::FeedLimit => "limit",
            Parameter::After | Parameter::AfterBucket | Parameter::AfterRow => "after",
            Parameter::Want | Parameter::WantOfRow => "want",
            Parameter::R => "r",
            Parameter::Partial => "partial",
            Parameter::Timeout => "timeout_ms",
            Parameter::Context => "context",
            Parameter::Confirm => "confirm",
            Parameter::Values => "values",
            Parameter::Wait => "wait_ms",
        }
    }
}

/// Most buckets in one page.
pub const BUCKETS_PER_PAGE_MAX: usize = 1_000;

/// Parsed query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Read level.
    pub read_level: ReadLevel,
    /// Expiry of the row that is written.
    pub expiry: Expiry,
    /// Atomicity and durability of a chunk of records. `None`: the route's default.
    pub mode: Option<SequenceMode>,
    /// Range of rows, keys or terms.
    pub bounds: Bounds,
    /// Term that a query of an index asks for.
    pub equals: Option<Bytes>,
    /// Content of the rows of a query of an index.
    pub content: IndexContent,
    /// Number of owners of each partition that must answer, in an available bucket. `None`: as many
    /// as the read level says.
    pub r: Option<Quorum>,
    /// True if an answer of an available bucket may lack partitions.
    pub allows_partial: bool,
    /// Timeout in milliseconds, in an available bucket. `None`: the default.
    pub timeout_ms: Option<u64>,
    /// Last bucket of the previous page.
    pub after_bucket: Option<BucketName>,
    /// Context of the values that the client has read.
    pub context: Option<Context>,
    /// Name of what the request destroys, or epoch of the plan that it commits.
    pub confirm: Option<Bytes>,
    /// Place in a feed, and how it is read.
    pub feed: FeedParameters,
}

/// Parameters of a read of a feed, and its headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedParameters {
    /// Place at which the first page begins.
    pub from: FeedOrigin,
    /// True if events have the records.
    pub values: bool,
    /// Time to wait for an event in milliseconds.
    pub wait_ms: u64,
    /// True if a stream is one of server-sent events.
    pub as_events: bool,
}

impl FeedParameters {
    /// Takes the headers of a client of server-sent events: one that connects again goes on where
    /// it was, whatever its URL says.
    pub fn read_headers(&mut self, head: &Head<'_>) {
        self.as_events = head.last_event.is_some();
        if let Some(token) = head.last_event.filter(|id| !id.is_empty()) {
            self.from = FeedOrigin::parse(token);
        }
    }
}

impl Query {
    /// Parses a query. It may have only these parameters, each at most once.
    pub fn parse(text: &str, allowed: &'static [Parameter]) -> Result<Query, Error> {
        let mut query = Query::default();
        let mut seen = 0u32;
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let found = allowed.iter().find(|parameter| parameter.name() == name);
            let Some(&parameter) = found else {
                let names: Vec<_> = allowed.iter().map(|parameter| parameter.name()).collect();
                return Err(match names.is_empty() {
                    true => malformed("this route takes no query parameters"),
                    false => malformed(format!(
                        "unknown query parameter; this route takes {}",
                        names.join(", ")
                    )),
                });
            };
            let bit = 1 << parameter as u32;
            if seen & bit != 0 {
                return Err(malformed(format!("the query parameter `{name}` is repeated")));
            }
            seen |= bit;
            let value = decode(value, PlusMeaning::Blank)
                .ok_or_else(|| malformed(format!("`{name}` is not correctly percent-encoded")))?;
            query.set(parameter, value)?;
        }
        Ok(query)
    }

    fn set(&mut self, parameter: Parameter, value: Bytes) -> Result<(), Error> {
        let bounds = &mut self.bounds;
        match parameter {
            Parameter::Consistency => self.read_level = read_level(text(parameter, &value)?)?,
            Parameter::Ttl => self.expiry = expiry(text(parameter, &value)?)?,
            Parameter::Mode => self.mode = Some(mode(text(parameter, &value)?)?),
            Parameter::Prefix | Parameter::TermPrefix => bounds.prefix = Some(value),
            Parameter::From | Parameter::TermFrom => bounds.from = Some(value),
            Parameter::To | Parameter::TermTo => bounds.to = Some(value),
            Parameter::Equals => self.equals = Some(value),
            Parameter::FromExclusive => bounds.from_exclusive = flag(parameter, &value)?,
            Parameter::ToInclusive => bounds.to_inclusive = flag(parameter, &value)?,
            Parameter::Reverse => bounds.reverse = flag(parameter, &value)?,
            Parameter::Limit | Parameter::FeedLimit => {
                bounds.limit = Some(count(parameter, &value)?);
            }
            Parameter::After | Parameter::AfterRow => bounds.after = Some(value),
            Parameter::WantOfRow => self.content = IndexContent::parse(text(parameter, &value)?)?,
            Parameter::Want => bounds.want = ranges::parse_want(text(parameter, &value)?)?,
            Parameter::R => self.r = Some(quorum(parameter, &value)?),
            Parameter::Partial => self.allows_partial = flag(parameter, &value)?,
            Parameter::Timeout => self.timeout_ms = Some(number(parameter, &value)?),
            Parameter::AfterBucket => {
                self.after_bucket = Some(BucketName::parse(text(parameter, &value)?)?);
            }
            Parameter::LimitBuckets => {
                let limit = count(parameter, &value)?;
                if limit == 0 || limit > BUCKETS_PER_PAGE_MAX {
                    return Err(malformed(format!("`limit` must be 1 to {BUCKETS_PER_PAGE_MAX}")));
                }
                bounds.limit = Some(limit);
            }
            Parameter::Context => {
                let context = contexts::read(&value);
                let wrong = || malformed("`context` is not a context that this API returned");
                self.context = Some(context.ok_or_else(wrong)?);
            }
            Parameter::Confirm => self.confirm = Some(value),
            Parameter::FeedFrom => self.feed.from = FeedOrigin::parse(&value),
            Parameter::Values => self.feed.values = flag(parameter, &value)?,
            Parameter::Wait => self.feed.wait_ms = number(parameter, &value)?,
        }
        Ok(())
    }
}

fn text(parameter: Parameter, value: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(value)
        .map_err(|_| malformed(format!("`{}` is not UTF-8", parameter.name())))
}

fn flag(parameter: Parameter, value: &[u8]) -> Result<bool, Error> {
    match value {
        b"true" => Ok(true),
        b"false" => Ok(false),
        _ => Err(malformed(format!("`{}` must be true or false", parameter.name()))),
    }
}

fn number(parameter: Parameter, value: &[u8]) -> Result<u64, Error> {
    crate::http::head::parse_number(value).ok_or_else(|| no_number(parameter))
}

fn count(parameter: Parameter, value: &[u8]) -> Result<usize, Error> {
    usize::try_from(number(parameter, value)?).map_err(|_| no_number(parameter))
}

fn no_number(parameter: Parameter) -> Error {
    malformed(format!("`{}` is not a number", parameter.name()))
}

fn quorum(parameter: Parameter, value: &[u8]) -> Result<Quorum, Error> {
    Quorum::parse(text(parameter, value)?).ok_or_else(|| {
        malformed(format!("`{}` must be one, quorum, all or a number", parameter.name()))
    })
}

/// Parses `consistent`, `dirty` or `at_least:N`.
pub fn read_level(text: &str) -> Result<ReadLevel, Error> {
    match text {
        "consistent" => return Ok(ReadLevel::Consistent),
        "dirty" => return Ok(ReadLevel::Dirty),
        _ => {}
    }
    let index =
        text.strip_prefix("at_least:").and_then(|n| crate::http::head::parse_number(n.as_bytes()));
    index
        .map(|index| ReadLevel::AtLeast(LogIndex(index)))
        .ok_or_else(|| malformed("`consistency` must be consistent, dirty or at_least:INDEX"))
}

fn expiry(text: &str) -> Result<Expiry, Error> {
    if let Some(expiry) = parse_expiry_name(text) {
        return Ok(expiry);
    }
    let ms = crate::http::head::parse_number(text.as_bytes()).filter(|&ms| ms <= TTL_MS_MAX);
    ms.map(Expiry::After).ok_or_else(|| {
        malformed("`ttl_ms` must be milliseconds up to 2^53, or keep, never or default")
    })
}

fn mode(text: &str) -> Result<SequenceMode, Error> {
    match text {
        "synced" => Ok(SequenceMode::Synced),
        "batch" => Ok(SequenceMode::Batch),
        _ => Err(malformed("`mode` must be synced or batch")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &[Parameter] = &[
        Parameter::Prefix,
        Parameter::Limit,
        Parameter::Reverse,
        Parameter::Consistency,
        Parameter::Ttl,
        Parameter::Mode,
    ];

    #[test]
    fn unknown_repeated_or_malformed_query_parameter_is_refused() {
        let query =
            Query::parse("prefix=a%ffb+c&limit=7&reverse=true&consistency=at_least%3A9", ALL)
                .expect("a good query");
        assert_eq!(query.bounds.prefix.as_deref(), Some(&b"a\xffb c"[..]));
        assert_eq!((query.bounds.limit, query.bounds.reverse), (Some(7), true));
        assert_eq!(query.read_level, ReadLevel::AtLeast(LogIndex(9)));
        for bad in [
            "colour=red",
            "limit=1&limit=2",
            "limit=-1",
            "limit=1e3",
            "limit=",
            "limit=99999999999999999999",
            "reverse=yes",
            "reverse",
            "prefix=%",
            "consistency=at_least:",
            "consistency=at_least:-1",
            "consistency=fresh",
            "ttl_ms=9007199254740993",
            "ttl_ms=soon",
            "ttl_ms=%ff",
            "mode=each_alone",
            "mode=",
        ] {
            assert!(Query::parse(bad, ALL).is_err(), "{bad}");
        }
        assert!(Query::parse("prefix=a", &[]).is_err());
        assert_eq!(
            Query::parse("ttl_ms=9007199254740992", ALL).map(|q| q.expiry),
            Ok(Expiry::After(1 << 53))
        );
    }
}

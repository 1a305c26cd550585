//! Feeds of changes as nodes and clients exchange them: the property, queries and pages.
//!
//! A feed returns what changed in a bucket, in the order of the changes of each key. A reader holds
//! a token, a text that says how far it has read, and asks for the next page with it: a node keeps
//! nothing for readers. The crate `change_feed` interprets tokens.

use crate::index::BuildProgress;
use crate::limits::FEED_TOKEN_BYTES_MAX;
use crate::{BucketName, Error, Reason, Result};
use bytes::Bytes;

pub use crate::reply::{FeedEvent, FeedEventKind, FeedPage};

/// Place at which a page of a feed begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FeedOrigin {
    /// The oldest event. All keys of the bucket come before `level`, each at its latest.
    #[default]
    Start,
    /// Behind everything that was decided before the request: the page has no event.
    Now,
    /// Behind the page that returned this token.
    Token(Bytes),
}

impl FeedOrigin {
    /// Parses the text of a client: `start`, `now` or a token.
    pub fn parse(text: &[u8]) -> FeedOrigin {
        match text {
            b"start" => FeedOrigin::Start,
            b"now" => FeedOrigin::Now,
            token => FeedOrigin::Token(Bytes::copy_from_slice(token)),
        }
    }
}

/// Query for a page of a feed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedQuery {
    /// Place at which the page begins.
    pub from: FeedOrigin,
    /// Most events. `None`: [`crate::limits::PAGE_ROWS_DEFAULT`]. A page also ends with the event
    /// that reaches [`crate::limits::FEED_PAGE_BYTES_MAX`].
    pub events_max: Option<usize>,
    /// True if events have the records.
    pub values: bool,
    /// Time to wait for an event if there is none, in milliseconds. The answer may come earlier
    /// without one: a node waits for [`crate::limits::FEED_WAIT_MS_MAX`] at most.
    pub wait_ms: u64,
}

impl FeedQuery {
    /// Checks the query against the limits of every bucket. Errors: `malformed`,
    /// `malformed_token`.
    pub fn check(&self) -> Result<()> {
        if self.events_max == Some(0) {
            let text = "a page of a feed has at least one event: ask for one or more";
            return Err(Error::new(Reason::Malformed, text));
        }
        match &self.from {
            FeedOrigin::Token(token) if token.len() > FEED_TOKEN_BYTES_MAX => {
                Err(malformed_token())
            }
            _ => Ok(()),
        }
    }
}

/// Returns the refusal of a query of a bucket without a feed.
pub fn feed_off(bucket: &BucketName) -> Error {
    let text = format!("`{bucket}` has no feed: set its property `feed` to `keys` or `values`");
    Error::new(Reason::FeedOff, text)
}

/// Returns the refusal of a query of a feed that has not all records of the bucket yet.
pub fn feed_building(bucket: &BucketName, progress: BuildProgress) -> Error {
    let text = format!(
        "{progress} records are in the feed of `{bucket}`, which is being built: wait, then ask \
         again"
    );
    Error::new(Reason::FeedBuilding, text)
}

/// Returns the refusal of a token that no page of the bucket's feed returned.
pub fn malformed_token() -> Error {
    let text = "the token is not one that the feed of this bucket returned, or was changed: begin \
                again from `start` or `now`";
    Error::new(Reason::MalformedToken, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feed_query_limits_are_exact() {
        let reason = |query: FeedQuery| query.check().map_err(|error| error.reason);
        assert_eq!(reason(FeedQuery::default()), Ok(()));
        let nothing = FeedQuery { events_max: Some(0), ..FeedQuery::default() };
        assert_eq!(reason(nothing), Err(Reason::Malformed));
        for (more, expected) in [(0, Ok(())), (1, Err(Reason::MalformedToken))] {
            let token = Bytes::from(vec![b'x'; FEED_TOKEN_BYTES_MAX + more]);
            let from = FeedOrigin::Token(token);
            assert_eq!(reason(FeedQuery { from, ..FeedQuery::default() }), expected);
        }
    }

    #[test]
    fn names_of_modes_and_origins_are_parsed() {
        for mode in crate::FeedMode::ALL {
            assert_eq!(crate::FeedMode::parse(mode.name()), Some(mode));
        }
        assert_eq!(crate::FeedMode::parse("on"), None);
        assert_eq!(FeedOrigin::parse(b"start"), FeedOrigin::Start);
        assert_eq!(FeedOrigin::parse(b"now"), FeedOrigin::Now);
        let token = FeedOrigin::Token(Bytes::from_static(b"AQ"));
        assert_eq!(FeedOrigin::parse(b"AQ"), token);
    }

    #[test]
    fn refusals_name_the_bucket_and_the_progress() {
        let bucket = BucketName::default();
        let progress = BuildProgress { done: 7, total: 9 };
        let building = feed_building(&bucket, progress);
        assert_eq!(BuildProgress::from_error(&building), Some(progress));
        for error in [building, feed_off(&bucket)] {
            assert!(error.text().contains("`default/default`"), "{error}");
        }
    }
}

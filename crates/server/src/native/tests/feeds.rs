//! Tests of the routes of feeds: their parameters, their headers, their plans.

use super::planned;
use crate::feed_reader::PAGE_WAIT_MS_MAX;
use crate::native::feed::FeedForm;
use crate::native::translate::NativePlan;
use base::feed::FeedOrigin;
use base::limits::{FEED_TOKEN_BYTES_MAX, PAGE_ROWS_MAX};
use base::{Call, Error, FeedQuery, Read, ReadLevel, Reason};
use bytes::Bytes;

fn feed(request: &str) -> Result<(FeedQuery, FeedForm, ReadLevel), Error> {
    let request = format!("GET /v1/buckets/a/b/{request}");
    if let Err(refusal) = super::target(&request) {
        return Err(refusal.error);
    }
    match planned(&request, "")? {
        NativePlan::Feed(request, form) => match request.call {
            Call::Read(Read::Feed(query), level) => Ok((*query, form, level)),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn token(text: &'static str) -> FeedOrigin {
    FeedOrigin::Token(Bytes::from_static(text.as_bytes()))
}

#[test]
fn feed_parameters_select_place_content_and_wait() {
    let page = feed("feed HTTP/1.1").expect("a page from the start");
    assert_eq!(page, (FeedQuery::default(), FeedForm::Page, ReadLevel::Consistent));
    let (query, form, _) =
        feed("feed?from=AQ-_&values=true&limit=7&wait_ms=100 HTTP/1.1").expect("a page");
    let (from, events_max) = (token("AQ-_"), Some(7));
    assert_eq!(query, FeedQuery { from, events_max, values: true, wait_ms: 100 });
    assert_eq!(form, FeedForm::Page);
    let from = |request| feed(request).map(|(query, ..)| query.from);
    assert_eq!(from("feed?from=now HTTP/1.1"), Ok(FeedOrigin::Now));
    assert_eq!(from("feed/stream?from=start HTTP/1.1"), Ok(FeedOrigin::Start));
    let level = |request| feed(request).map(|(.., level)| level);
    assert_eq!(level("feed?consistency=dirty HTTP/1.1"), Ok(ReadLevel::Dirty));
    assert_eq!(level("feed/stream?consistency=dirty HTTP/1.1"), Ok(ReadLevel::Dirty));
}

#[test]
fn stream_has_the_form_that_its_client_accepts_and_goes_on_behind_its_last_event() {
    let stream = |headers: &str| {
        let (query, form, _) =
            feed(&format!("feed/stream?from=now HTTP/1.1{headers}")).expect("one");
        (query.from, form)
    };
    assert_eq!(stream(""), (FeedOrigin::Now, FeedForm::Lines));
    assert_eq!(stream("\naccept: */*"), (FeedOrigin::Now, FeedForm::Lines));
    let events = "\naccept: text/event-stream";
    assert_eq!(stream(events), (FeedOrigin::Now, FeedForm::Events));
    let again = format!("{events}\nlast-event-id: AQ-_");
    assert_eq!(stream(&again), (token("AQ-_"), FeedForm::Events));
    // A page has no events of a stream.
    let (query, form, _) = feed(&format!("feed?from=now HTTP/1.1{again}")).expect("a page");
    assert_eq!((query.from, form), (FeedOrigin::Now, FeedForm::Page));
}

#[test]
fn feed_parameters_beyond_their_limits_are_refused() {
    let reason = |request: &str| feed(request).map(|_| ()).map_err(|error| error.reason);
    let page = |parameter: &str, value: u64| reason(&format!("feed?{parameter}={value} HTTP/1.1"));
    for (parameter, most) in [("limit", PAGE_ROWS_MAX as u64), ("wait_ms", PAGE_WAIT_MS_MAX)] {
        assert_eq!(page(parameter, most), Ok(()), "{parameter}");
        assert_eq!(page(parameter, most + 1), Err(Reason::Malformed), "{parameter}");
    }
    assert_eq!(page("limit", 0), Err(Reason::Malformed));
    let from = |bytes| reason(&format!("feed/stream?from={} HTTP/1.1", "x".repeat(bytes)));
    assert_eq!(from(FEED_TOKEN_BYTES_MAX), Ok(()));
    assert_eq!(from(FEED_TOKEN_BYTES_MAX + 1), Err(Reason::MalformedToken));
    for other in ["feed?prefix=a", "feed/stream?limit=1", "feed/stream?wait_ms=1"] {
        assert_eq!(reason(&format!("{other} HTTP/1.1")), Err(Reason::Malformed), "{other}");
    }
}

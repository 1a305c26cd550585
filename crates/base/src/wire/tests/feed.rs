//! Examples of queries of feeds, of their pages, and of descriptions of buckets with feeds.

use super::available::bodies as available_bodies;
use super::counted::audited_bodies;
use super::examples::{ExampleData, bodies as first_bodies, golden_data};
use super::{reply_bytes, request, request_bytes};
use crate::codec::Malformed;
use crate::feed::{FeedEvent, FeedEventKind, FeedOrigin, FeedPage, FeedQuery};
use crate::limits::{FEED_KEEP_BYTES_DEFAULT, FEED_KEEP_MS_DEFAULT, FEED_TOKEN_BYTES_MAX};
use crate::properties::FeedMode;
use crate::reply::{Body, IndexRecord, Reply};
use crate::request::{Call, Read, ReadLevel, Request};
use crate::{LogIndex, Properties, Version};
use bytes::Bytes;

/// Queries, each option in one of them.
pub fn calls(data: &ExampleData) -> Vec<Call> {
    let token = FeedOrigin::Token(data.values[0].clone());
    let events_max = data.flag.then_some(data.numbers[0] as usize);
    let queries = [
        FeedQuery::default(),
        FeedQuery { from: FeedOrigin::Now, wait_ms: data.numbers[1], ..FeedQuery::default() },
        FeedQuery { from: token, events_max, values: data.flag, wait_ms: 0 },
    ];
    let call = |query: FeedQuery| Call::Read(Read::Feed(query.into()), ReadLevel::Consistent);
    queries.map(call).into()
}

/// Pages with every kind of event, and descriptions of buckets with feeds.
pub fn bodies(data: &ExampleData) -> Vec<Body> {
    let row = first_bodies(data).into_iter().find_map(|body| match body {
        Body::Rows(rows) => rows.into_iter().flatten().next(),
        _ => None,
    });
    let siblings = available_bodies(data).into_iter().find_map(|body| match body {
        Body::Siblings(siblings) => Some(siblings),
        _ => None,
    });
    let [key, other] = data.keys.clone();
    let version = Some(Version(data.numbers[0]));
    let event = |kind, version, record| {
        let (key, again) = (key.clone(), data.flag);
        FeedEvent { kind, key, version, record, again }
    };
    let events = vec![
        event(FeedEventKind::Put, version, row.map(IndexRecord::Row)),
        event(FeedEventKind::Put, None, siblings.map(IndexRecord::Siblings)),
        FeedEvent { key: other, ..event(FeedEventKind::Delete, version, None) },
    ];
    let (next, level) = (data.values[1].clone(), data.flag);
    let page = FeedPage { events, next, level, restart: !level };
    let mut bodies = vec![Body::FeedPage(Box::new(page)), Body::FeedPage(Box::default())];
    bodies.extend(fed_bodies(data));
    bodies
}

/// Descriptions of buckets and types of which some have feeds.
pub fn fed_bodies(data: &ExampleData) -> Vec<Body> {
    let (feed, number) = (FeedMode::Keys, data.numbers[0] & 0xFFFF);
    let fed = Properties { feed, feed_keep_ms: number, ..Properties::default() };
    let (feed, feed_keep_bytes) = (FeedMode::Values, number);
    let available = Properties { feed, feed_keep_bytes, ..Properties::available() };
    let mut bodies = audited_bodies(data);
    for body in &mut bodies {
        match body {
            Body::Buckets(buckets) => buckets[1].properties = fed.clone(),
            Body::Types(types) => types[0].1 = available.clone(),
            _ => {}
        }
    }
    bodies
}

#[test]
fn every_kind_of_record_is_among_the_events() {
    let Some(Body::FeedPage(page)) = bodies(&golden_data()).into_iter().next() else {
        panic!("a page")
    };
    assert!(matches!(page.events[0].record, Some(IndexRecord::Row(_))), "{page:?}");
    assert!(matches!(page.events[1].record, Some(IndexRecord::Siblings(_))), "{page:?}");
}

#[test]
fn oversized_token_is_malformed() {
    let token = |length| Bytes::from(vec![b'x'; length]);
    for (length, fits) in [(FEED_TOKEN_BYTES_MAX, true), (FEED_TOKEN_BYTES_MAX + 1, false)] {
        let expected = if fits { Ok(()) } else { Err(Malformed("token")) };
        let from = FeedOrigin::Token(token(length));
        let query = FeedQuery { from, ..FeedQuery::default() };
        let call = Call::Read(Read::Feed(query.into()), ReadLevel::Consistent);
        assert_eq!(Request::read(&request_bytes(&request(call))).map(|_| ()), expected);
        let page = FeedPage { next: token(length), ..FeedPage::default() };
        let reply = Reply::new(LogIndex(1), Body::FeedPage(Box::new(page)));
        assert_eq!(Reply::read(&reply_bytes(&reply)).map(|_| ()), expected);
    }
}

#[test]
fn buckets_with_feeds_use_a_format_of_their_own_that_nothing_else_fits() {
    let number = |body: &Body| reply_bytes(&Reply::new(LogIndex(1), body.clone()))[8];
    let bodies = fed_bodies(&golden_data());
    assert_eq!(bodies.iter().map(number).collect::<Vec<_>>(), [36, 37]);
    for body in bodies {
        let mut bytes = reply_bytes(&Reply::new(LogIndex(1), body)).to_vec();
        // A mode and two numbers of each stand at the end.
        let end = bytes.len() - 2 * 17;
        let (ms, keep) =
            (FEED_KEEP_MS_DEFAULT.to_le_bytes(), FEED_KEEP_BYTES_DEFAULT.to_le_bytes());
        let none = [&[0][..], &ms, &keep].concat().repeat(2);
        let mut unknown = bytes.clone();
        unknown[end] = 3;
        assert!(Reply::read(&Bytes::from(unknown)).is_err(), "a mode of a later version");
        bytes[end..].copy_from_slice(&none);
        assert!(Reply::read(&Bytes::from(bytes)).is_err(), "an older format would do");
    }
}

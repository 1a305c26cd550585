//! Examples of calls, queries and answers about indexes.

use super::available::bodies as available_bodies;
use super::examples::{ExampleData, bodies as first_bodies, golden_data};
use super::{reply_bytes, request, request_bytes};
use crate::codec::Malformed;
use crate::index::{
    BuildProgress, IndexCall, IndexContent, IndexDescription, IndexQuery, IndexReport, IndexSpec,
    IndexState, ReportPlace, ReportedState, TermSelection,
};
use crate::limits::{INDEX_CONTINUATION_BYTES_MAX, INDEX_NAME_BYTES_MAX, INDEXES_PER_BUCKET_MAX};
use crate::quorum::Quorum;
use crate::range::{Bound, Direction};
use crate::reply::{Body, IndexPage, IndexRecord, IndexRow, Reply};
use crate::request::{Call, DirectoryCall, Read, ReadLevel, Request};
use crate::{BucketId, LogIndex, NodeId};
use bytes::Bytes;

fn spec(data: &ExampleData) -> IndexSpec {
    IndexSpec {
        name: "by-count".into(),
        path: "$.count".into(),
        value_type: "int".into(),
        format: "json".into(),
        is_unique: data.flag,
        is_strict: !data.flag,
    }
}

fn progress(data: &ExampleData) -> BuildProgress {
    let [done, total] = data.numbers;
    BuildProgress { done, total }
}

/// Queries, each option in one of them.
fn queries(data: &ExampleData) -> Vec<IndexQuery> {
    let [low, high] = data.keys.clone();
    let plain = IndexQuery { index: Bytes::from_static(b"by-count"), ..IndexQuery::default() };
    let terms = TermSelection::Between(Bound::Included(low.clone()), Bound::Excluded(high));
    vec![
        IndexQuery { terms: TermSelection::Equal(low.clone()), ..plain.clone() },
        IndexQuery {
            terms,
            direction: Direction::Descending,
            after: data.flag.then(|| data.values[0].clone()),
            rows_max: Some(data.numbers[0] as usize),
            want: IndexContent::Terms,
            regex: data.flag.then(|| "^a+$".into()),
            r: Some(Quorum::One),
            allows_partial: data.flag,
            timeout_ms: data.flag.then_some(data.numbers[1]),
            ..plain.clone()
        },
        IndexQuery { terms: TermSelection::Prefix(low), want: IndexContent::Records, ..plain },
    ]
}

/// Calls about indexes, and queries of them.
pub fn calls(data: &ExampleData) -> Vec<Call> {
    let name = || "by-count".to_string();
    let report = |place, state| {
        IndexCall::Report(IndexReport { number: data.numbers[0] as u32, place, state })
    };
    let bucket = ReportPlace::Bucket(BucketId(data.numbers[1] as u32));
    let node = ReportPlace::Node(NodeId(data.numbers[1]));
    let calls = [
        IndexCall::Create(spec(data)),
        IndexCall::Drop { name: name() },
        IndexCall::Describe { name: name() },
        IndexCall::List,
        report(bucket, ReportedState::Building(progress(data))),
        report(node, ReportedState::Complete(data.numbers[1])),
        report(bucket, ReportedState::Failed("two keys".into())),
        report(bucket, ReportedState::Removed),
    ];
    let calls = calls.map(|call| Call::Directory(DirectoryCall::Index(call)));
    let level = ReadLevel::AtLeast(LogIndex(data.numbers[0]));
    let queries =
        queries(data).into_iter().map(|query| Call::Read(Read::Index(query.into()), level));
    calls.into_iter().chain(queries).collect()
}

/// Descriptions of indexes in every state, and pages.
pub fn bodies(data: &ExampleData) -> Vec<Body> {
    let states = [
        IndexState::Building(progress(data)),
        IndexState::Ready,
        IndexState::Failed("two keys".into()),
        IndexState::Dropping,
    ];
    let number = data.numbers[0] as u32;
    let describe = |state| IndexDescription { number, spec: spec(data), state };
    let row = first_bodies(data).into_iter().find_map(|body| match body {
        Body::Rows(rows) => rows.into_iter().flatten().next(),
        _ => None,
    });
    let siblings = available_bodies(data).into_iter().find_map(|body| match body {
        Body::Siblings(siblings) => Some(siblings),
        _ => None,
    });
    let [key, other] = data.keys.clone();
    let term = Some(data.values[0].clone());
    let rows = vec![
        IndexRow { key: key.clone(), term: None, record: None },
        IndexRow { key, term: term.clone(), record: row.map(IndexRecord::Row) },
        IndexRow { key: other, term, record: siblings.map(IndexRecord::Siblings) },
    ];
    let after = data.flag.then(|| data.values[1].clone());
    vec![
        Body::Indexes(states.map(describe).into()),
        Body::IndexPage(Box::new(IndexPage { rows, after, is_partial: data.flag })),
    ]
}

#[test]
fn every_kind_of_record_is_among_the_examples() {
    let Some(Body::IndexPage(page)) = bodies(&golden_data()).pop() else { panic!("a page") };
    assert!(matches!(page.rows[1].record, Some(IndexRecord::Row(_))), "{page:?}");
    assert!(matches!(page.rows[2].record, Some(IndexRecord::Siblings(_))), "{page:?}");
}

#[test]
fn oversized_parts_of_index_queries_and_pages_are_malformed() {
    let read = |query: IndexQuery| {
        let call = Call::Read(Read::Index(query.into()), ReadLevel::Consistent);
        Request::read(&request_bytes(&request(call))).map(|_| ())
    };
    let text = |length| Bytes::from(vec![b'x'; length]);
    let named = |length| IndexQuery { index: text(length), ..IndexQuery::default() };
    assert_eq!(read(named(INDEX_NAME_BYTES_MAX)), Ok(()));
    assert_eq!(read(named(INDEX_NAME_BYTES_MAX + 1)), Err(Malformed("index")));
    let continued = |length| IndexQuery { after: Some(text(length)), ..named(1) };
    assert_eq!(read(continued(INDEX_CONTINUATION_BYTES_MAX)), Ok(()));
    assert_eq!(read(continued(INDEX_CONTINUATION_BYTES_MAX + 1)), Err(Malformed("continuation")));
    let Some(Body::Indexes(all)) = bodies(&golden_data()).into_iter().next() else {
        panic!("descriptions")
    };
    for (count, fits) in [(INDEXES_PER_BUCKET_MAX, true), (INDEXES_PER_BUCKET_MAX + 1, false)] {
        let body = Body::Indexes(vec![all[0].clone(); count]);
        assert_eq!(Reply::read(&reply_bytes(&Reply::new(LogIndex(1), body))).is_ok(), fits);
    }
}

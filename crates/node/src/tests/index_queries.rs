//! Queries of indexes of consistent buckets: pages by terms, continuations, and refusals.

use super::index_upkeep::{directory, fill, name, reaches};
use super::indexed::{create, pause_keeper, spec};
use super::many::{Cluster, ask};
use super::{Place, reason, set};
use crate::Node;
use base::index::{IndexContent, IndexQuery, IndexSpec, TermSelection};
use base::range::Direction;
use base::reply::IndexRecord;
use base::{
    AvailableCall, Body, Bound, BucketName, Call, Content, DirectoryCall, Headers, IndexPage,
    Quorum, Read, ReadLevel, Reason, Result, Store,
};
use bytes::Bytes;

fn all() -> IndexQuery {
    IndexQuery { index: Bytes::from_static(b"by-count"), ..IndexQuery::default() }
}

async fn query(node: &Node, query: IndexQuery) -> Result<IndexPage> {
    query_at(node, &name(), query, ReadLevel::Consistent).await
}

pub(super) async fn query_at(
    node: &Node,
    bucket: &BucketName,
    query: IndexQuery,
    level: ReadLevel,
) -> Result<IndexPage> {
    match ask(node, bucket, Call::Read(Read::Index(query.into()), level)).await?.body {
        Body::IndexPage(page) => Ok(*page),
        other => panic!("a query is answered with a page, not {other:?}"),
    }
}

/// Returns the terms and keys that a query finds, page by page, and the number of pages.
pub(super) async fn pages(
    node: &Node,
    bucket: &BucketName,
    mut asked: IndexQuery,
) -> (Vec<String>, usize) {
    let (mut found, mut count) = (Vec::new(), 0);
    asked.want = IndexContent::Terms;
    loop {
        let page = query_at(node, bucket, asked.clone(), ReadLevel::Consistent).await;
        let page = page.expect("it is ready");
        count += 1;
        assert!(!page.is_partial && asked.rows_max.is_none_or(|most| page.rows.len() <= most));
        found.extend(page.rows.into_iter().map(|row| {
            let term = row.term.expect("terms are asked for");
            format!("{} {}", String::from_utf8_lossy(&term), String::from_utf8_lossy(&row.key))
        }));
        asked.after = page.after;
        if asked.after.is_none() {
            return (found, count);
        }
    }
}

/// Starts a node with ten rows, whose counts are 0 to 4 and whose names begin with `a` or `b`.
async fn filled(place: &Place) -> Node {
    let node = place.start().await;
    directory(&node, DirectoryCall::CreateBucket(vec![])).await;
    fill(&node, 10, |number| {
        let front = ["a", "b"][number % 2];
        format!("{{\"count\":{},\"name\":\"{front}{number}\"}}", number % 5)
    })
    .await;
    create(&node, &name(), spec("by-count")).await.expect("made");
    let names = IndexSpec { path: "$.name".into(), value_type: "string".into(), ..spec("by-name") };
    create(&node, &name(), names).await.expect("made");
    reaches(&node, "by-count", "ready").await;
    reaches(&node, "by-name", "ready").await;
    node
}

#[tokio::test]
async fn index_is_queried_by_terms_in_pages_in_both_directions() {
    let place = Place::new();
    let node = filled(&place).await;
    let equal = TermSelection::Equal(Bytes::from_static(b"3"));
    let found = pages(&node, &name(), IndexQuery { terms: equal, ..all() }).await;
    assert_eq!(found, (vec!["3 0003".into(), "3 0008".into()], 1));
    let expected = [
        "0 0000", "0 0005", "1 0001", "1 0006", "2 0002", "2 0007", "3 0003", "3 0008", "4 0004",
        "4 0009",
    ];
    for (rows_max, page_count) in [(None, 1), (Some(10), 1), (Some(4), 3), (Some(1), 10)] {
        let (found, count) = pages(&node, &name(), IndexQuery { rows_max, ..all() }).await;
        assert_eq!((&found[..], count), (&expected.map(String::from)[..], page_count));
        let direction = Direction::Descending;
        let asked = IndexQuery { rows_max, direction, ..all() };
        let (mut found, _) = pages(&node, &name(), asked).await;
        found.reverse();
        assert_eq!(found, expected);
    }
    let [low, high] = [&b"1"[..], b"3"].map(Bytes::from_static);
    let terms = TermSelection::Between(Bound::Excluded(low), Bound::Included(high));
    let (found, _) = pages(&node, &name(), IndexQuery { terms, rows_max: Some(3), ..all() }).await;
    assert_eq!(found, expected[4..8]);
    let index = Bytes::from_static(b"by-name");
    let terms = TermSelection::Prefix(Bytes::from_static(b"b"));
    let (found, _) = pages(&node, &name(), IndexQuery { index, terms, ..all() }).await;
    assert_eq!(found, ["b1 0001", "b3 0003", "b5 0005", "b7 0007", "b9 0009"]);
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn page_of_an_index_has_what_is_wanted_and_shows_earlier_writes() {
    let place = Place::new();
    let node = filled(&place).await;
    let terms = TermSelection::Equal(Bytes::from_static(b"9"));
    let asked = |want| IndexQuery { terms: terms.clone(), want, ..all() };
    assert_eq!(query(&node, asked(IndexContent::Keys)).await, Ok(IndexPage::default()));
    ask(&node, &name(), Call::Update(set("0004", "{\"count\":9}"))).await.expect("it goes");
    for want in IndexContent::ALL {
        for level in [ReadLevel::Consistent, ReadLevel::Dirty] {
            let page = query_at(&node, &name(), asked(want), level).await.expect("it is ready");
            assert_eq!((page.rows.len(), &page.after), (1, &None));
            let row = &page.rows[0];
            assert_eq!(&row.key[..], b"0004");
            assert_eq!(row.term.is_some(), want != IndexContent::Keys);
            let value = match &row.record {
                Some(IndexRecord::Row(row)) => Some(&row.value[..]),
                Some(IndexRecord::Siblings(_)) => panic!("the bucket is consistent"),
                None => None,
            };
            let expected = (want == IndexContent::Records).then_some(&b"{\"count\":9}"[..]);
            assert_eq!(value, expected);
        }
    }
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn queries_that_an_index_cannot_answer_are_refused_with_their_reason() {
    let place = Place::new();
    let node = filled(&place).await;
    let named = |index: &str| IndexQuery { index: Bytes::from(index.to_string()), ..all() };
    assert_eq!(reason(query(&node, named("other")).await), Reason::NoSuchIndex);
    assert_eq!(query(&node, named("age_int")).await, Ok(IndexPage::default()), "no row has it");
    for refused in [
        IndexQuery { regex: Some("a".into()), ..all() },
        IndexQuery { want: IndexContent::Records, ..named("$key") },
        IndexQuery { r: Some(Quorum::One), ..named("$key") },
        IndexQuery { r: Some(Quorum::One), ..all() },
        IndexQuery { allows_partial: true, ..all() },
        IndexQuery { timeout_ms: Some(1_000), ..all() },
    ] {
        assert_eq!(reason(query(&node, refused).await), Reason::NotSupported);
    }
    let word = TermSelection::Equal(Bytes::from_static(b"word"));
    let refused = IndexQuery { terms: word, ..all() };
    assert_eq!(reason(query(&node, refused).await), Reason::NotANumber);
    let first = query(&node, IndexQuery { rows_max: Some(1), ..all() }).await.expect("a page");
    let other = IndexQuery { after: first.after, ..named("by-name") };
    assert_eq!(reason(query(&node, other).await), Reason::Malformed, "another query's place");
    let unique = IndexSpec { is_unique: true, ..spec("unique") };
    create(&node, &name(), unique).await.expect("made");
    reaches(&node, "unique", "failed").await;
    let refused = query(&node, named("unique")).await.expect_err("two rows have each term");
    assert_eq!(refused.reason, Reason::IndexFailed);
    assert!(refused.text().contains("have the term"), "{refused}");
    pause_keeper(&node);
    create(&node, &name(), spec("late")).await.expect("made");
    assert_eq!(reason(query(&node, named("late")).await), Reason::IndexBuilding);
    node.stop().await.expect("it stops");
}

/// Returns a write of a value with a tag, as a client of Riak sends it.
pub(super) fn tagged(key: &'static str, number: u32) -> Call {
    let tag = (Bytes::from_static(b"age_int"), Bytes::from(number.to_string()));
    let headers = Headers { indexes: vec![tag], ..Headers::default() };
    let content = Content { value: Bytes::from_static(b"{}"), headers };
    Call::Available(AvailableCall::Store(Box::new(Store {
        key: Bytes::from_static(key.as_bytes()),
        content,
        ..Store::default()
    })))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_takes_tags_and_answers_queries_of_tags_and_keys() {
    let cluster = Cluster::new(2).await;
    directory(cluster.node(0), DirectoryCall::CreateBucket(vec![])).await;
    for (at, (key, number)) in [("a", 12), ("b", 7), ("c", 7), ("d", 30)].into_iter().enumerate() {
        let stored = ask(cluster.node(at % 2), &name(), tagged(key, number)).await;
        stored.expect("it is written");
    }
    // A plain write removes the tag of its key.
    let plain = Call::Update(set("d", "{}"));
    ask(cluster.node(1), &name(), plain).await.expect("it is written");
    let named = |index: &'static str| IndexQuery { index: Bytes::from(index), ..all() };
    for nth in 0..2 {
        let node = cluster.node(nth);
        let by_age = ["7 b", "7 c", "12 a"];
        let by_key = ["a a", "b b", "c c", "d d"];
        for rows_max in [None, Some(1), Some(2)] {
            let of_tags = IndexQuery { rows_max, ..named("age_int") };
            assert_eq!(pages(node, &name(), of_tags.clone()).await.0, by_age);
            let direction = Direction::Descending;
            let (mut reverse, _) = pages(node, &name(), IndexQuery { direction, ..of_tags }).await;
            reverse.reverse();
            assert_eq!(reverse, by_age);
            let of_keys = IndexQuery { rows_max, ..named("$key") };
            assert_eq!(pages(node, &name(), of_keys).await.0, by_key);
        }
        let terms = TermSelection::Between(
            Bound::Excluded(Bytes::from_static(b"7")),
            Bound::Included(Bytes::from_static(b"12")),
        );
        let asked = IndexQuery { terms, ..named("age_int") };
        assert_eq!(pages(node, &name(), asked).await.0, ["12 a"]);
        let [low, high] = [&b"a"[..], b"c"].map(Bytes::from_static);
        let terms = TermSelection::Between(Bound::Excluded(low), Bound::Included(high));
        let asked = IndexQuery { terms, rows_max: Some(1), ..named("$key") };
        assert_eq!(pages(node, &name(), asked).await.0, ["b b", "c c"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_answers_a_query_of_an_index() {
    let cluster = Cluster::new(2).await;
    directory(cluster.node(0), DirectoryCall::CreateBucket(vec![])).await;
    fill(cluster.node(0), 4, |number| format!("{{\"count\":{number}}}")).await;
    create(cluster.node(0), &name(), spec("by-count")).await.expect("made");
    for nth in 0..2 {
        reaches(cluster.node(nth), "by-count", "ready").await;
        let page = query(cluster.node(nth), all()).await.expect("the master answers");
        assert_eq!(page.rows.len(), 4);
    }
}

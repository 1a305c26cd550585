//! Tests of the routes of declared indexes: their parameters, their errors, their answers.

use super::planned;
use crate::native::translate::{NativePlan, NativeShape};
use crate::native::{errors, render};
use base::index::{
    BuildProgress, IndexCall, IndexContent, IndexDescription, IndexQuery, IndexSpec, IndexState,
    TermSelection,
};
use base::limits::INDEX_NAME_BYTES_MAX;
use base::range::Direction;
use base::{Body, Bound, BucketName, Call, DirectoryCall, LogIndex, Quorum, Read, Reason, Reply};
use bytes::Bytes;

fn query(parameters: &str) -> Result<IndexQuery, String> {
    let request = format!("GET /v1/buckets/a/b/index/by-name?{parameters} HTTP/1.1");
    let target = super::target(&request);
    if let Err(refusal) = &target {
        return Err(refusal.error.text());
    }
    match planned(&request, "") {
        Ok(NativePlan::Submit(request, _)) => match request.call {
            Call::Read(Read::Index(query), _) => Ok(*query),
            other => panic!("{other:?}"),
        },
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.text()),
    }
}

#[test]
fn index_query_parameters_select_terms_order_and_content() {
    let text = Bytes::from_static;
    let all = query("").expect("all terms");
    let index = text(b"by-name");
    assert_eq!(all, IndexQuery { index: index.clone(), ..IndexQuery::default() });
    for (parameters, terms) in [
        ("equals=a%ff+b", TermSelection::Equal(text(b"a\xff b"))),
        ("equals=", TermSelection::Equal(text(b""))),
        ("prefix=a", TermSelection::Prefix(text(b"a"))),
        (
            "from=-7&to=9",
            TermSelection::Between(Bound::Included(text(b"-7")), Bound::Excluded(text(b"9"))),
        ),
        (
            "from=1&from_exclusive=true&to=2&to_inclusive=true",
            TermSelection::Between(Bound::Excluded(text(b"1")), Bound::Included(text(b"2"))),
        ),
        ("to=2", TermSelection::Between(Bound::Open, Bound::Excluded(text(b"2")))),
    ] {
        assert_eq!(query(parameters).map(|query| query.terms), Ok(terms), "{parameters}");
    }
    let page = query("reverse=true&limit=7&after=AX-_&want=records").expect("a page");
    let expected = IndexQuery {
        index,
        direction: Direction::Descending,
        rows_max: Some(7),
        after: Some(text(b"AX-_")),
        want: IndexContent::Records,
        ..IndexQuery::default()
    };
    assert_eq!(page, expected);
}

#[test]
fn index_query_parameters_of_available_buckets_set_quorum_partiality_and_timeout() {
    for (text, r) in [
        ("one", Quorum::One),
        ("quorum", Quorum::Quorum),
        ("all", Quorum::All),
        ("2", Quorum::Number(2)),
    ] {
        assert_eq!(query(&format!("r={text}")).map(|query| query.r), Ok(Some(r)), "{text}");
    }
    let asked = query("partial=true&timeout_ms=1500&r=2").expect("a query");
    let expected = IndexQuery {
        index: Bytes::from_static(b"by-name"),
        r: Some(Quorum::Number(2)),
        allows_partial: true,
        timeout_ms: Some(1_500),
        ..IndexQuery::default()
    };
    assert_eq!(asked, expected);
    assert_eq!(query("partial=false"), query(""));
}

#[test]
fn refusal_of_an_index_query_names_its_parameter() {
    for (parameters, expected) in [
        ("equals=1&from=2", "`equals` excludes `from` and `to`"),
        ("equals=1&prefix=2", "`equals` excludes `prefix`"),
        ("prefix=1&to=2", "`prefix` excludes `from` and `to`"),
        ("from_exclusive=true", "`from_exclusive` needs `from`"),
        ("from=1&to_inclusive=true", "`to_inclusive` needs `to`"),
        ("limit=0", "`limit` must be 1 to 100000"),
        ("limit=100001", "`limit` must be 1 to 100000"),
        ("limit=x", "`limit` is not a number"),
        ("reverse=1", "`reverse` must be true or false"),
        ("want=entries", "`want` of an index query is `keys`, `terms` or `records`"),
        ("order=desc", "unknown query parameter; this route takes equals, prefix, from, to, "),
        ("equals=1&equals=1", "the query parameter `equals` is repeated"),
        ("r=most", "`r` must be one, quorum, all or a number"),
        ("r=256", "`r` must be one, quorum, all or a number"),
        ("r=1&r=2", "the query parameter `r` is repeated"),
        ("partial=yes", "`partial` must be true or false"),
        ("timeout_ms=1s", "`timeout_ms` is not a number"),
        ("timeout=5", "unknown query parameter; this route takes equals, "),
    ] {
        let text = query(parameters).expect_err(parameters);
        assert!(text.contains(expected), "{parameters}: {text}");
    }
    let long = "x".repeat(INDEX_NAME_BYTES_MAX + 1);
    let refused = planned(&format!("GET /v1/buckets/a/b/index/{long} HTTP/1.1"), "");
    assert_eq!(refused.map_err(|error| error.reason), Err(Reason::TooLarge));
    let refused = super::target("GET /v1/buckets/a/b/index/%ff HTTP/1.1").expect_err("no UTF-8");
    assert!(refused.error.text().contains("name of the index"), "{}", refused.error);
}

fn call(request: &str, body: &str) -> (IndexCall, NativeShape) {
    match planned(request, body) {
        Ok(NativePlan::Submit(request, shape)) => match request.call {
            Call::Directory(DirectoryCall::Index(call)) => (call, shape),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn description(state: IndexState) -> IndexDescription {
    let spec = IndexSpec {
        name: "by-count".into(),
        path: "$['count']".into(),
        value_type: "int".into(),
        format: "json".into(),
        ..IndexSpec::default()
    };
    IndexDescription { number: 4, spec, state }
}

#[test]
fn index_is_created_from_json_and_answered_as_one_object() {
    let post = "POST /v1/buckets/a/b/indexes HTTP/1.1\ncontent-type: application/json";
    let body = r#"{"name":"by-count","path":"$.count","type":"int"}"#;
    let (created, shape) = call(&format!("{post}\ncontent-length: {}", body.len()), body);
    let spec = IndexSpec { path: "$.count".into(), ..description(IndexState::Ready).spec };
    assert_eq!(created, IndexCall::Create(spec));
    let state = IndexState::Building(BuildProgress { done: 0, total: 3 });
    let reply = Ok(Reply::new(LogIndex(5), Body::Indexes(vec![description(state)])));
    let answer = render::answer(&shape, &Bytes::new(), &reply);
    let text = String::from_utf8_lossy(&answer.content.bytes()).into_owned();
    let expected = concat!(
        r#"{"name":"by-count","number":4,"path":"$['count']","type":"int","format":"json","#,
        r#""unique":false,"strict":false,"state":"building","done":0,"total":3}"#
    );
    assert_eq!((answer.status.code(), text.as_str()), (201, expected));
    let (listed, shape) = call("GET /v1/buckets/a/b/indexes HTTP/1.1", "");
    assert_eq!(listed, IndexCall::List);
    let answer = render::answer(&shape, &Bytes::new(), &reply);
    let text = String::from_utf8_lossy(&answer.content.bytes()).into_owned();
    assert_eq!((answer.status.code(), text), (200, format!(r#"{{"indexes":[{expected}]}}"#)));
    let (described, shape) = call("GET /v1/buckets/a/b/indexes/by-count HTTP/1.1", "");
    assert_eq!(described, IndexCall::Describe { name: "by-count".into() });
    assert_eq!(render::answer(&shape, &Bytes::new(), &reply).status.code(), 200);
    let (dropped, shape) = call("DELETE /v1/buckets/a/b/indexes/by-count HTTP/1.1", "");
    assert_eq!(dropped, IndexCall::Drop { name: "by-count".into() });
    let done = Ok(Reply::new(LogIndex(6), Body::Done));
    assert_eq!(render::answer(&shape, &Bytes::new(), &done).status.code(), 204);
    for bad in [
        r#"{"name":"by-count","path":"$.count"}"#,
        r#"{"name":"by-count","path":"$.count","type":"int","order":"desc"}"#,
        r#"["by-count","$.count","int"]"#,
    ] {
        let request = format!("{post}\ncontent-length: {}", bad.len());
        let refused = planned(&request, bad).map_err(|error| error.reason);
        assert_eq!(refused, Err(Reason::Malformed), "{bad}");
    }
}

#[test]
fn query_of_an_index_that_is_built_gets_503_with_its_progress() {
    let error = BuildProgress { done: 7, total: 9 }.error(&BucketName::default(), "by-count");
    let answer = errors::answer(&error);
    let body = answer.content.bytes();
    let reply: api::ErrorReply = serde_json::from_slice(&body).expect("as the schema says");
    assert_eq!(
        (answer.status.code(), reply.error.done, reply.error.total),
        (503, Some(7), Some(9))
    );
    let other = errors::answer(&base::index::no_such_index(&BucketName::default(), "by-count"));
    let reply: api::ErrorReply =
        serde_json::from_slice(&other.content.bytes()).expect("as the schema says");
    assert_eq!((other.status.code(), reply.error.done, reply.error.total), (404, None, None));
}

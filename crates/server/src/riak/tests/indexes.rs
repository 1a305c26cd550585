//! Tests of index queries (2i): requests, refusals, and the bytes of answers and streams.

use super::live::{Client, header};
use super::{build_request, planned_answer, planned_request, render, rendered, reply};
use crate::riak::{RiakRequest, RiakShape, append_page, next_page};
use crate::tests::test_server::TestServer;
use base::index::{IndexContent, IndexQuery, TermSelection};
use base::{
    Body, Bound, Call, Error, IndexPage, IndexRow, Quorum, Read, ReadLevel, Reason, Request,
};
use serde_json::{Value, json};
use std::time::Duration;

const AGES: &str = "GET /buckets/people/index/age_int";

fn get(line: &str) -> RiakRequest {
    build_request(line, &[], "")
}

fn query_of(request: &Request) -> &IndexQuery {
    match &request.call {
        Call::Read(Read::Index(query), ReadLevel::Consistent) => query,
        other => panic!("an index query, not {other:?}"),
    }
}

fn between(low: &'static str, high: &'static str) -> TermSelection {
    TermSelection::Between(Bound::Included(low.into()), Bound::Included(high.into()))
}

fn row(term: Option<&'static str>, key: &'static str) -> IndexRow {
    IndexRow { key: key.into(), term: term.map(Into::into), record: None }
}

fn page(rows: &[IndexRow], after: Option<&'static str>) -> Body {
    let after = after.map(Into::into);
    Body::IndexPage(Box::new(IndexPage { rows: rows.to_vec(), after, is_partial: false }))
}

fn document(line: &str, body: Body) -> String {
    let answer = rendered(&get(line), body);
    let (_, media_type) = &answer.headers[0];
    assert_eq!((answer.status, &media_type[..]), (200, &b"application/json"[..]), "{line}");
    String::from_utf8(answer.body.to_vec()).expect("JSON")
}

#[test]
fn path_forms_of_index_queries_name_bucket_field_and_terms() {
    for (path, bucket, index, terms) in [
        ("/buckets/b/index/age_int/7", "available/b", "age_int", TermSelection::Equal("7".into())),
        ("/buckets/b/index/age_int/-7/%2B9", "available/b", "age_int", between("-7", "+9")),
        ("/types/t/buckets/b/index/Name_BIN/a+b/c%2Fd", "t/b", "name_bin", between("a b", "c/d")),
        ("/types/default/buckets/b/index/x_bin/a/b/", "available/b", "x_bin", between("a", "b")),
        ("/buckets/b/index/%24key/k", "available/b", "$key", TermSelection::Equal("k".into())),
        ("/buckets/b/index/$key/a/z", "available/b", "$key", between("a", "z")),
        ("/buckets/b/index/$bucket/b", "available/b", "$bucket", TermSelection::default()),
        ("/buckets/b/index/$bucket", "available/b", "$bucket", TermSelection::default()),
    ] {
        for method in ["GET", "HEAD"] {
            let (request, shape) = planned_request(&get(&format!("{method} {path}")));
            let terms = terms.clone();
            let expected = IndexQuery { index: index.into(), terms, ..Default::default() };
            assert_eq!((request.bucket.full(), query_of(&request)), (bucket, &expected), "{path}");
            assert!(!shape.is_streamed());
        }
    }
    let other = planned_answer(&get("PUT /buckets/b/index/age_int/7"));
    assert_eq!((other.status, &other.headers[1].1[..]), (405, &b"GET, HEAD"[..]));
    for path in ["/buckets/b/index/age_int/1/2/3", "/buckets/b/index"] {
        assert_eq!(planned_answer(&get(&format!("GET {path}"))).status, 404, "{path}");
    }
    assert_eq!(planned_answer(&get("GET /buckets/b/index/a_bin/%2")).status, 400);
}

#[test]
fn parameters_of_index_queries_are_parsed() {
    let parameters = "?max_results=2&continuation=abc&timeout=500&r=1&pagination_sort=TRUE\
                      &return_terms=true&stream=true&other=x";
    let (request, shape) = planned_request(&get(&format!("{AGES}/1/9{parameters}")));
    let expected = IndexQuery {
        index: "age_int".into(),
        terms: between("1", "9"),
        after: Some("abc".into()),
        rows_max: Some(2),
        want: IndexContent::Terms,
        r: Some(Quorum::Number(1)),
        timeout_ms: Some(500),
        ..Default::default()
    };
    assert_eq!(query_of(&request), &expected);
    assert_eq!((shape.timeout_ms(), shape.is_streamed()), (Some(500), true));
    for (parameters, rows_max, want) in [
        ("", None, IndexContent::Keys),
        ("?return_terms=false&stream=yes&timeout=0", None, IndexContent::Keys),
        ("?max_results=%2B0010", Some(10), IndexContent::Terms),
        ("?max_results=99999999999999999999999", Some(usize::MAX), IndexContent::Terms),
    ] {
        let (request, shape) = planned_request(&get(&format!("{AGES}/1/9{parameters}")));
        let query = query_of(&request);
        assert_eq!((query.rows_max, query.want), (rows_max, want), "{parameters}");
        assert_eq!((query.timeout_ms, shape.timeout_ms()), (None, None));
        assert!(!shape.is_streamed());
    }
}

#[test]
fn malformed_index_queries_are_refused_with_riaks_texts() {
    for (line, text) in [
        ("/age_int/1/9?pagination_sort=x", "Invalid \"pagination_sort\". \"x\" is not a boolean"),
        ("/age_int/1/9?return_terms=1", "Invalid \"return_terms\". \"1\" is not a boolean"),
        ("/age/7", "Invalid query: {unknown_field_type,<<\"age\">>}\n"),
        ("/_int/7", "Invalid query: {unknown_field_type,<<\"_int\">>}\n"),
        ("/$keys/7", "Invalid query: {unknown_field_type,<<\"$keys\">>}\n"),
        ("/age_int/1/abc", "Invalid query: {field_parsing_failed,{<<\"age_int\">>,<<\"abc\">>}}\n"),
        ("/age_int/1.5", "Invalid query: {field_parsing_failed,{<<\"age_int\">>,<<\"1.5\">>}}\n"),
        ("/age_int", "Invalid query: the path has no term: add one, or a lower and an upper one\n"),
        ("/age_int/1/9?term_regex=a", "Can not use term regular expressions on integer queries"),
        (
            "/name_bin/a/z?term_regex=l(2",
            "Invalid term regular expression \"l(2\" : the regular expression is malformed: \
             unclosed group",
        ),
        ("/age_int/7?max_results=x", "Invalid \"max_results\". \"x\" is not a positive integer"),
        ("/age_int/7?max_results=0", "Invalid \"max_results\". 0 is not a positive integer"),
        ("/age_int/7?max_results=-05", "Invalid \"max_results\". -5 is not a positive integer"),
        ("/age_int/7?timeout=abc", "Bad timeout value \"abc\". Must be a non-negative integer\n"),
        ("/age_int/7?timeout=-1", "Bad timeout value -1. Must be a non-negative integer\n"),
        (
            "/age_int/7?r=x",
            "r query parameter must be an integer or one of the following words: 'one', \
             'quorum' or 'all'\n",
        ),
        // The first of several wrong parameters decides, in Riak's order.
        ("/age/7?max_results=x&timeout=x", "Invalid query: {unknown_field_type,<<\"age\">>}\n"),
        (
            "/age_int/7?timeout=x&max_results=x",
            "Invalid \"max_results\". \"x\" is not a positive integer",
        ),
    ] {
        let answer = planned_answer(&get(&format!("GET /buckets/people/index{line}")));
        let found = String::from_utf8_lossy(&answer.body).into_owned();
        assert_eq!((answer.status, &found[..]), (400, text), "{line}");
    }
}

#[test]
fn refusals_of_the_node_are_answered_as_riak_answers_them() {
    let (_, shape) = planned_request(&get(&format!("{AGES}/1/9")));
    for (reason, status, text) in [
        (Reason::Malformed, 400, "Invalid query: why\n"),
        (Reason::NoSuchIndex, 400, "Invalid query: why\n"),
        (Reason::NotSupported, 400, "Invalid query: why\n"),
        (Reason::TooLarge, 413, "why\n"),
        (Reason::DeadlinePassed, 503, "request timed out\n"),
        (Reason::IndexBuilding, 503, "Unable to connect to Riak: why\n"),
    ] {
        let answer = render(&shape, &Err(Error::new(reason, "why")));
        let found = String::from_utf8_lossy(&answer.body).into_owned();
        assert_eq!((answer.status, &found[..]), (status, text), "{reason:?}");
    }
}

#[test]
fn rows_are_keys_or_pairs_of_term_and_key() {
    let rows = [row(Some("7"), "fig"), row(Some("9"), "ki\"wi"), row(Some("9"), "fig")];
    let keys = r#"{"keys":["fig","ki\"wi","fig"]}"#;
    let pairs = r#"{"results":[{"7":"fig"},{"9":"ki\"wi"},{"9":"fig"}]}"#;
    let people = "GET /buckets/people/index";
    for (line, expected) in [
        ("/age_int/1/9", keys),
        ("/age_int/1/9?return_terms=true", pairs),
        ("/age_int/7?return_terms=true", keys),
        ("/$key/a/z?return_terms=true", pairs),
        ("/$bucket/people?return_terms=true", keys),
        ("/$bucket/a/b?return_terms=true", keys),
    ] {
        assert_eq!(document(&format!("{people}{line}"), page(&rows, None)), expected, "{line}");
    }
    assert_eq!(document(&format!("{AGES}/1/9"), page(&[], None)), r#"{"keys":[]}"#);
    let none = document(&format!("{AGES}/1/9?return_terms=true"), page(&[], None));
    assert_eq!(none, r#"{"results":[]}"#);
    // As in lists, what is not UTF-8 is percent-encoded.
    let binary = IndexRow { key: (&b"\xff\0"[..]).into(), ..row(None, "") };
    assert_eq!(document(&format!("{AGES}/7"), page(&[binary], None)), r#"{"keys":["%FF%00"]}"#);
}

#[test]
fn full_page_has_a_continuation_even_if_no_row_follows() {
    let rows = [row(Some("7"), "fig"), row(Some("9"), "kiwi")];
    let line = format!("{AGES}/1/9?max_results=2");
    let expected = r#"{"keys":["fig","kiwi"],"continuation":"next"}"#;
    assert_eq!(document(&line, page(&rows, Some("next"))), expected);
    let (request, _) = planned_request(&get(&line));
    let behind = node::continuation_behind(&request.bucket, query_of(&request), &rows[1]);
    let behind = String::from_utf8(behind.expect("a place").to_vec()).expect("text");
    let found: Value = serde_json::from_str(&document(&line, page(&rows, None))).expect("JSON");
    assert_eq!(found, json!({ "keys": ["fig", "kiwi"], "continuation": behind }));
    let less = document(&line, page(&rows[..1], None));
    assert_eq!(less, r#"{"keys":["fig"]}"#, "the query has ended");
    let all = document(&format!("{AGES}/1/9"), page(&rows, None));
    assert_eq!(all, r#"{"keys":["fig","kiwi"]}"#, "no page was asked for");
    let keys = "GET /buckets/people/index/$key/a/z?max_results=1&return_terms=true";
    let found = document(keys, page(&[row(Some("fig"), "fig")], None));
    assert!(found.starts_with(r#"{"results":[{"fig":"fig"}],"continuation":""#), "{found}");
}

#[test]
fn pages_are_asked_for_until_the_client_has_its_rows() {
    let rows = [row(Some("1"), "a"), row(Some("2"), "b"), row(Some("3"), "c")];
    let (request, _) = planned_request(&get(&format!("{AGES}/1/9?max_results=5")));
    let next = next_page(&request, &page(&rows, Some("c3"))).expect("two are missing");
    let query = query_of(&next);
    assert_eq!((query.rows_max, query.after.as_deref()), (Some(2), Some(&b"c3"[..])));
    assert_eq!(next.bucket, request.bucket);
    assert!(next_page(&next, &page(&rows[..2], Some("c5"))).is_none(), "it has all");
    assert!(next_page(&next, &page(&rows[..1], None)).is_none(), "there are no more");
    let mut first = page(&rows[..2], Some("c2"));
    append_page(&mut first, page(&rows[2..], None));
    assert_eq!(first, page(&rows, None));
    let (all, _) = planned_request(&get(&format!("{AGES}/1/9")));
    let next = next_page(&all, &page(&[], Some("c"))).expect("rows may follow");
    assert_eq!(query_of(&next).rows_max, None);
}

/// Returns a stream of pages as its documents, with `B` for its boundary.
fn streamed(line: &str, pages: &[Body], is_complete: bool) -> String {
    let (mut request, shape): (Request, RiakShape) = planned_request(&get(line));
    let boundary = shape.stream_type();
    let boundary = boundary.strip_prefix("multipart/mixed;boundary=").expect("parts");
    let (mut found, mut continuation) = (Vec::new(), None);
    for page in pages {
        continuation = shape.page_continuation(&request, page).expect("a place");
        found.extend(shape.page_part(reply(page.clone())).into_iter().flatten());
        request = next_page(&request, page).map_or(request, |next| *next);
    }
    found.extend(shape.stream_end(is_complete, continuation.as_ref()));
    String::from_utf8(found).expect("text").replace(boundary, "B")
}

#[test]
fn stream_is_parts_of_rows_and_ends_with_a_continuation_or_an_error() {
    let part = |text: &str| format!("\r\n--B\r\nContent-Type: application/json\r\n\r\n{text}");
    let rows = [row(Some("7"), "a"), row(Some("8"), "b"), row(Some("9"), "c")];
    let pages = [page(&rows[..2], Some("c2")), page(&[], Some("c2")), page(&rows[2..], None)];
    let all = format!("{AGES}/1/9?stream=true");
    let keys = part(r#"{"keys":["a","b"]}"#) + &part(r#"{"keys":["c"]}"#);
    assert_eq!(streamed(&all, &pages, true), format!("{keys}\r\n--B--\r\n"));
    let terms = streamed(&format!("{all}&return_terms=true"), &pages[..1], false);
    let first = part(r#"{"results":[{"7":"a"},{"8":"b"}]}"#);
    let failed = part(r#"{"error":"timeout"}"#);
    assert_eq!(terms, format!("{first}{failed}\r\n--B--\r\n"));
    let full = streamed(&format!("{all}&max_results=2"), &pages[..1], true);
    let (keys, end) = (part(r#"{"keys":["a","b"]}"#), part(r#"{"continuation":"c2"}"#));
    assert_eq!(full, format!("{keys}{end}\r\n--B--\r\n"));
    assert_eq!(streamed(&all, &[page(&[], None)], true), "\r\n--B--\r\n", "no part without rows");
}

/// Asks until the node has begun the index of tags.
fn get_when_built(client: &mut Client, path: &str) -> String {
    for _ in 0..400 {
        let (status, head, body) = client.get(path);
        match status {
            200 => return body,
            503 => std::thread::sleep(Duration::from_millis(50)),
            _ => panic!("{path}: {head}{body}"),
        }
    }
    panic!("{path}: the index is not ready")
}

#[test]
fn client_queries_indexes_page_by_page_and_as_a_stream() {
    let server = TestServer::build();
    let mut client = Client::connect(&server);
    for (key, age) in [("ann", 7), ("bob", 10), ("cid", 7)] {
        let path = format!("/buckets/people/keys/{key}?w=1&dw=1");
        let headers = format!("x-riak-index-age_int: {age}\r\nx-riak-index-name_bin: {key}\r\n");
        assert_eq!(client.put(&path, &headers, "x").0, 204);
    }
    let index = "/buckets/people/index";
    let found = get_when_built(&mut client, &format!("{index}/age_int/7?r=1"));
    assert_eq!(found, r#"{"keys":["ann","cid"]}"#);
    for (path, expected) in [
        ("/age_int/8/100?r=1&return_terms=true", r#"{"results":[{"10":"bob"}]}"#),
        ("/age_int/100/8?r=1", r#"{"keys":[]}"#),
        ("/name_bin/b/cid?r=1", r#"{"keys":["bob","cid"]}"#),
        ("/name_bin/a/z?r=1&term_regex=.b$", r#"{"keys":["bob"]}"#),
        ("/$key/bob", r#"{"keys":["bob"]}"#),
        ("/$key/an/bob?return_terms=true", r#"{"results":[{"ann":"ann"},{"bob":"bob"}]}"#),
        ("/$bucket/people", r#"{"keys":["ann","bob","cid"]}"#),
    ] {
        let (status, head, body) = client.get(&format!("{index}{path}"));
        assert_eq!((status, &body[..]), (200, expected), "{path}: {head}");
    }
    for path in ["/age_int/0/99?r=1&max_results=2", "/$key/a/z?max_results=2"] {
        let mut found: Vec<Value> = Vec::new();
        let mut after = String::new();
        for rows in [2, 1] {
            let (_, _, body) = client.get(&format!("{index}{path}{after}"));
            let page: Value = serde_json::from_str(&body).expect("JSON");
            let keys = page["keys"].as_array().expect("keys");
            assert_eq!((keys.len(), page["continuation"].is_string()), (rows, rows == 2), "{body}");
            after = format!("&continuation={}", page["continuation"].as_str().unwrap_or_default());
            found.extend(keys.iter().cloned());
        }
        found.sort_by_key(|key| key.to_string());
        assert_eq!(Value::from(found), json!(["ann", "bob", "cid"]), "{path}");
        let (status, _, body) = client.get(&format!("{index}{path}&continuation=forged"));
        assert!(status == 400 && body.starts_with("Invalid query: the continuation"), "{body}");
    }
    let (status, head, body) = client.get(&format!("{index}/age_int/0/99?r=1&stream=true"));
    let boundary = header(&head, "Content-Type").strip_prefix("multipart/mixed;boundary=");
    let boundary = boundary.unwrap_or_else(|| panic!("no parts: {head}"));
    let keys = r#"{"keys":["ann","cid","bob"]}"#;
    let part = format!("\r\n--{boundary}\r\nContent-Type: application/json\r\n\r\n{keys}");
    assert!(status == 200 && body.contains(&part), "{body}");
    assert!(body.ends_with(&format!("\r\n--{boundary}--\r\n\r\n0\r\n\r\n")), "{body}");
    assert_eq!(client.get("/ping").2, "OK", "the connection goes on");
}

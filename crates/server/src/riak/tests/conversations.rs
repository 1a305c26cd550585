//! Tests of reads: requests, and the bytes of their answers.

use super::super::negotiate;
use super::{
    build_request, bytes, planned_answer, planned_request, render, rendered, reply, sibling,
    siblings,
};
use base::{
    AvailableCall, Body, BucketName, BucketNames, Call, Error, FetchOptions, Keys, Link, Quorum,
    Reason, Share, Shortfall,
};
use bytes::Bytes;

const FIG: &str = "GET /buckets/fruit/keys/fig";

#[test]
fn url_forms_of_three_generations_address_the_same_object() {
    for path in [
        "/buckets/fruit/keys/a%2Fb+c",
        "/riak/fruit/a%2Fb+c",
        "/types/default/buckets/fruit/keys/a%2Fb%20c",
        "//buckets//fruit/keys/a%2fb+c/",
    ] {
        let (request, _) = planned_request(&build_request(&format!("GET {path}"), &[], ""));
        assert_eq!(request.bucket.full(), "available/fruit", "{path}");
        let Call::Available(AvailableCall::Fetch { key, .. }) = request.call else { panic!() };
        assert_eq!(key, "a/b c");
    }
    let typed =
        planned_request(&build_request("GET /types/plain/buckets/b%C3%A4r/keys/k", &[], "")).0;
    assert_eq!(typed.bucket.full(), "plain/b%C3%A4r");
    let dots = planned_request(&build_request("GET /buckets/%2E%2E/keys/k", &[], "")).0;
    assert_eq!(dots.bucket.full(), "available/%2E.");
    assert_eq!(planned_answer(&build_request("GET /buckets/b/keys/a%2", &[], "")).status, 400);
    assert_eq!(planned_answer(&build_request("GET /nowhere", &[], "")).status, 404);
    let other = planned_answer(&build_request("PATCH /buckets/b/keys/a", &[], ""));
    assert_eq!(
        (other.status, &other.headers[1].1[..]),
        (405, &b"GET, HEAD, POST, PUT, DELETE"[..])
    );
}

#[test]
fn fetch_options_are_parsed_and_each_invalid_option_is_reported() {
    let line = "?r=2&pr=ONE&basic_quorum=TRUE&notfound_ok=false&timeout=500&node_confirms=2&x=y";
    let (request, _) = planned_request(&build_request(&format!("{FIG}{line}"), &[], ""));
    let options = FetchOptions {
        r: Some(Quorum::Number(2)),
        pr: Some(Quorum::One),
        node_confirms: Some(2),
        basic_quorum: Some(true),
        notfound_ok: Some(false),
        timeout_ms: Some(500),
    };
    let call = AvailableCall::Fetch { key: "fig".into(), options };
    assert_eq!(request.call, Call::Available(call));
    let default = planned_request(&build_request(&format!("{FIG}?r=default&timeout=0"), &[], "")).0;
    let call = AvailableCall::Fetch { key: "fig".into(), options: FetchOptions::default() };
    assert_eq!(default.call, Call::Available(call));
    let refused = planned_answer(&build_request(
        &format!("{FIG}?r=abc&basic_quorum=maybe&timeout=abc"),
        &[],
        "",
    ));
    let text = "r query parameter must be an integer or one of the following words: 'one', \
                 'quorum' or 'all'\nbasic_quorum query parameter must be true or false\n\
                 Bad timeout value \"abc\"\n";
    assert_eq!((refused.status, &refused.body[..]), (400, text.as_bytes()));
}

#[test]
fn object_response_carries_all_metadata_headers() {
    let mut value = sibling("{\"kg\":3}", 7);
    let headers = &mut value.content.headers;
    headers.content_type = "application/json".into();
    headers.charset = "utf-8".into();
    headers.encoding = "identity".into();
    headers.meta = vec![("Farm".into(), "west\r\nSet-Cookie: x".into())];
    headers.links = vec![
        Link { bucket: "tree".into(), key: "t,1".into(), tag: "grew_on".into() },
        Link { bucket: "old trees".into(), key: "a+b c".into(), tag: "other tag".into() },
    ];
    headers.indexes = vec![
        ("colour_bin".into(), "green".into()),
        ("colour_bin".into(), "yellow".into()),
        ("ripeness_int".into(), "7".into()),
    ];
    let answer = rendered(&build_request(FIG, &[], ""), Body::Siblings(siblings(vec![value])));
    let expected = "HTTP/1.1 200 OK\r\n\
        X-Riak-Vclock: c2Vlbg==\r\n\
        Vary: Accept-Encoding\r\n\
        ETag: \"0000000000000000000007\"\r\n\
        Last-Modified: Sat, 21 Nov 2026 09:08:22 GMT\r\n\
        Link: </buckets/fruit>; rel=\"up\", </buckets/tree/keys/t%2C1>; riaktag=\"grew_on\", \
        </buckets/old+trees/keys/a%2Bb+c>; riaktag=\"other+tag\"\r\n\
        X-Riak-Meta-Farm: west  Set-Cookie: x\r\n\
        x-riak-index-colour_bin: green, yellow\r\n\
        x-riak-index-ripeness_int: 7\r\n\
        Content-Type: application/json; charset=utf-8\r\n\
        Content-Encoding: identity\r\n\
        Content-Length: 8\r\n\r\n{\"kg\":3}";
    assert_eq!(bytes(&answer), expected);
    let mut head = Vec::new();
    answer.encode(&mut head, true);
    assert!(head.ends_with(b"Content-Length: 8\r\n\r\n"));
}

#[test]
fn siblings_are_encoded_as_multipart_mixed() {
    let mut tombstone = sibling("", 9);
    tombstone.tombstone = true;
    let found = siblings(vec![sibling("a", 7), sibling("b", 8), tombstone]);
    let accept = [("Accept", "multipart/mixed, application/json, */*;q=0.5")];
    let answer = rendered(&build_request(FIG, &accept, ""), Body::Siblings(found));
    let text = bytes(&answer);
    let boundary = text.split("boundary=").nth(1).and_then(|rest| rest.lines().next());
    let boundary = boundary.expect("a boundary");
    let part = |tag: &str, more: &str, value: &str| {
        format!(
            "\r\n--{boundary}\r\nContent-Type: text/plain\r\nLink: </buckets/fruit>; rel=\"up\"\r\n\
             Etag: 000000000000000000000{tag}\r\n\
             Last-Modified: Sat, 21 Nov 2026 09:08:22 GMT\r\n{more}\r\n{value}"
        )
    };
    let parts =
        part("7", "", "a") + &part("8", "", "b") + &part("9", "X-Riak-Deleted: true\r\n", "");
    let expected = parts + &format!("\r\n--{boundary}--\r\n");
    assert_eq!(answer.body, expected);
    assert!(text.starts_with(
        "HTTP/1.1 300 Multiple Choices\r\nX-Riak-Vclock: c2Vlbg==\r\n\
         Vary: Accept, Accept-Encoding\r\nETag: \""
    ));
}

#[test]
fn multipart_boundary_does_not_occur_in_a_value() {
    let first = siblings(vec![sibling("a", 7), sibling("b", 8)]);
    let accept = [("Accept", "multipart/mixed")];
    let boundary = |values| {
        let answer = rendered(&build_request(FIG, &accept, ""), Body::Siblings(values));
        let (_, kind) = answer.headers.last().expect("a type").clone();
        String::from_utf8_lossy(&kind).split_once("boundary=").expect("named").1.to_string()
    };
    let known = boundary(first.clone());
    let mut second = first;
    second.values[1].content.value = format!("--{known}").into();
    assert_ne!(boundary(second), known);
}

#[test]
fn siblings_are_listed_as_vtags_and_vtag_selects_a_sibling() {
    let found = || Body::Siblings(siblings(vec![sibling("a", 7), sibling("b", 8)]));
    for accept in [&[][..], &[("Accept", "*/*")], &[("Accept", "text/plain")]] {
        let answer = rendered(&build_request(FIG, accept, ""), found());
        assert_eq!(answer.status, 300);
        let body = "Siblings:\n0000000000000000000007\n0000000000000000000008\n";
        assert_eq!(answer.body, body);
    }
    let neither = rendered(&build_request(FIG, &[("Accept", "image/png")], ""), found());
    assert_eq!(neither.status, 406);
    let chosen = build_request(&format!("{FIG}?vtag=0000000000000000000008"), &[], "");
    let answer = rendered(&chosen, found());
    assert_eq!((answer.status, &answer.body[..]), (200, &b"b"[..]));
    let absent = build_request(&format!("{FIG}?vtag=8"), &[], "");
    assert_eq!(rendered(&absent, found()).status, 404);
    let json = rendered(
        &build_request(FIG, &[("Accept", "text/html")], ""),
        Body::Siblings(siblings(vec![sibling("a", 7)])),
    );
    assert_eq!(json.status, 406);
}

/// Webmachine's rule, on which Riak's clients rely. The Java client sends `*/*, multipart/mixed`
/// with every read.
#[test]
fn last_of_equally_weighted_accept_ranges_selects_sibling_format() {
    let (tags, parts) = ("text/plain", "multipart/mixed");
    for (accept, read, written) in [
        ("*/*, multipart/mixed", parts, parts),
        ("multipart/mixed, */*", tags, parts),
        ("multipart/mixed, text/plain", tags, tags),
        ("text/plain, multipart/mixed", parts, parts),
        ("multipart/mixed, application/json, */*;q=0.5", parts, parts),
        ("multipart/mixed;q=0.5, text/*", tags, tags),
        ("*/*;q=0.9, multipart/mixed;q=0.3", tags, parts),
        ("application/json, multipart/*", parts, parts),
        ("*/*, multipart/mixed;q=0", tags, tags),
        ("text/plain;q=0, */*", parts, parts),
        ("*", tags, parts),
    ] {
        let found = || Body::Siblings(siblings(vec![sibling("a", 7), sibling("b", 8)]));
        let store = [("Accept", accept), ("Content-Type", "text/plain")];
        for (line, headers, kind) in [
            (FIG, &store[..1], read),
            ("HEAD /buckets/fruit/keys/fig", &store[..1], read),
            ("PUT /buckets/fruit/keys/fig?returnbody=true", &store[..], written),
        ] {
            let answer = rendered(&build_request(line, headers, ""), found());
            let (_, media_type) = answer.headers.last().expect("a type");
            assert!(media_type.starts_with(kind.as_bytes()), "{line}, {accept}: {answer:?}");
            assert_eq!(answer.status, 300);
        }
    }
    // Two headers are one list.
    let lines = [("Accept", "*/*"), ("Accept", "multipart/mixed")];
    let found = Body::Siblings(siblings(vec![sibling("a", 7), sibling("b", 8)]));
    let answer = rendered(&build_request(FIG, &lines, ""), found);
    assert!(answer.headers.last().is_some_and(|(_, kind)| kind.starts_with(b"multipart/mixed")));
    let refused = [("Accept", "text/plain;q=0, multipart/mixed;q=0")];
    let found = Body::Siblings(siblings(vec![sibling("a", 7), sibling("b", 8)]));
    assert_eq!(rendered(&build_request(FIG, &refused, ""), found).status, 406);
}

#[test]
fn missing_key_is_404_and_tombstone_adds_deleted_header() {
    let none = rendered(&build_request(FIG, &[], ""), Body::Siblings(siblings(vec![])));
    let expected = "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\n\
                    Content-Length: 10\r\n\r\nnot found\n";
    assert_eq!(bytes(&none), expected);
    let mut tombstone = sibling("", 9);
    tombstone.tombstone = true;
    let answer = rendered(&build_request(FIG, &[], ""), Body::Siblings(siblings(vec![tombstone])));
    assert_eq!(answer.status, 404);
    let deleted = (Bytes::from_static(b"X-Riak-Deleted"), Bytes::from_static(b"true"));
    let context = (Bytes::from_static(b"X-Riak-Vclock"), Bytes::from_static(b"c2Vlbg=="));
    assert_eq!(answer.headers[1..], [deleted, context]);
}

#[test]
fn read_preconditions_yield_200_304_or_412() {
    let tag = "\"0000000000000000000007\"";
    let (old, new) = ("Sat, 21 Nov 2026 09:08:21 GMT", "Sat, 21 Nov 2026 09:08:22 GMT");
    for (name, value, status) in [
        ("If-None-Match", tag, 304),
        ("If-None-Match", "*", 304),
        ("If-None-Match", "\"other\"", 200),
        ("If-Match", "\"x\", \"0000000000000000000007\"", 200),
        ("If-Match", "\"other\"", 412),
        ("If-Modified-Since", new, 304),
        ("If-Modified-Since", old, 200),
        ("If-Unmodified-Since", new, 200),
        ("If-Unmodified-Since", old, 412),
        ("If-Unmodified-Since", "yesterday", 200),
    ] {
        let found = Body::Siblings(siblings(vec![sibling("a", 7)]));
        assert_eq!(
            rendered(&build_request(FIG, &[(name, value)], ""), found).status,
            status,
            "{name}: {value}"
        );
    }
    let none = Body::Siblings(siblings(vec![]));
    assert_eq!(rendered(&build_request(FIG, &[("If-Match", "*")], ""), none).status, 412);
}

#[test]
fn errors_map_to_riak_status_and_text() {
    let (_, shape) = planned_request(&build_request(FIG, &[], ""));
    let quorum = |share| Shortfall { share, got: 1, needed: 2 }.read_error("wait");
    for (error, status, body) in [
        (quorum(Share::R), 503, "R-value unsatisfied: 1/2\n"),
        (quorum(Share::Pr), 503, "PR-value unsatisfied: 1/2\n"),
        (quorum(Share::Pw), 503, "PW-value unsatisfied: 1/2\n"),
        (quorum(Share::W), 503, "Too Many write failures to satisfy W/DW\n"),
        (quorum(Share::NodeConfirms), 503, "node_confirms-value unsatisfied: 1/2\n"),
        (Error::new(Reason::DeadlinePassed, "late"), 503, "request timed out\n"),
        (Error::new(Reason::NoSuchType, "no `plain`"), 404, "Unknown bucket type: plain\n"),
        (Error::new(Reason::NoSuchBucket, "no `t/b`"), 404, "Unknown bucket type: t\n"),
        (Error::new(Reason::TooLarge, "too large"), 413, "too large\n"),
        (Error::new(Reason::StoreFailed, "disk"), 500, "Error:\ndisk\n"),
    ] {
        let answer = render(&shape, &Err(error));
        assert_eq!((answer.status, &answer.body[..]), (status, body.as_bytes()));
    }
    for reason in Reason::ALL {
        let answer = render(&shape, &Err(Error::new(reason, "words")));
        assert!(answer.status >= 400 && answer.reason() != "OK", "{reason:?}");
    }
}

#[test]
fn key_and_bucket_lists_are_assembled_from_pages() {
    let list = build_request("GET /buckets/people/keys?keys=true", &[], "");
    let page = |keys: &[&'static [u8]], more| {
        let keys = keys.iter().map(|key| Bytes::from_static(key)).collect();
        Body::Keys(Keys { keys, more })
    };
    let answer = rendered(&list, page(&[b"ann", b"b\xff"], false));
    assert_eq!(answer.body, "{\"keys\":[\"ann\",\"b%FF\"]}");
    let (request, shape) =
        planned_request(&build_request("GET /buckets/people/keys?keys=stream", &[], ""));
    assert!(shape.is_streamed());
    let next = super::super::next_page(&request, &page(&[b"ann"], true)).expect("more");
    let Call::Available(AvailableCall::Keys { after, .. }) = next.call else { panic!() };
    assert_eq!(after, Some("ann".into()));
    assert!(super::super::next_page(&request, &page(&[b"ann"], false)).is_none());
    let mut first = page(&[b"ann"], true);
    super::super::append_page(&mut first, page(&[b"bob"], false));
    assert_eq!(first, page(&[b"ann", b"bob"], false));
    let names = |text| BucketName::new("available", text).expect("a name");
    let found = BucketNames { names: vec![names("a%20b"), names("c")], more: false };
    let (request, shape) = planned_request(&build_request("GET /riak?buckets=true", &[], ""));
    assert_eq!(request.bucket.kind(), "available");
    let answer = render(&shape, &Ok(reply(Body::BucketNames(found))));
    assert_eq!(answer.body, "{\"buckets\":[\"a b\",\"c\"]}");
    assert_eq!(planned_answer(&build_request("GET /buckets", &[], "")).body, "{\"buckets\":[]}");
    assert_eq!(planned_answer(&build_request("GET /buckets/b/keys", &[], "")).body, "{}");
    assert_eq!(planned_answer(&build_request("GET /ping", &[], "")).body, "OK");
}

#[test]
fn accept_weight_follows_the_most_specific_media_range() {
    let accept = Some("text/*;q=0.3, text/html;q=0.7, */*;q=0.5");
    for (kind, weight) in [("text/html", 700), ("text/plain", 300), ("image/png", 500)] {
        assert_eq!(negotiate::accept_weight(accept, kind), weight, "{kind}");
    }
    assert_eq!(negotiate::accept_weight(Some("text/html"), "text/plain"), 0);
    assert_eq!(negotiate::accept_weight(None, "text/plain"), 1_000);
}

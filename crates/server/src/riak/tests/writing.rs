//! Tests of writes and deletes: requests, and their answers.

use super::{
    RiakPlan, build_request, bytes, plan, plan_after_read, planned_answer, planned_request, render,
    rendered, reply, sibling, siblings, stored,
};
use base::{
    AvailableCall, Body, Call, Condition, Context, Error, Link, Quorum, Reason, StoreOptions,
};
use bytes::Bytes;

const PEAR: &str = "PUT /buckets/fruit/keys/pear";
const TEXT: (&str, &str) = ("Content-Type", "text/plain; charset=utf-8");

fn stored_reply() -> Body {
    Body::Stored(Context::default())
}

#[test]
fn put_headers_become_value_metadata_and_write_options() {
    let headers = [
        TEXT,
        ("content-encoding", "gzip"),
        ("x-riak-vclock", "c2Vlbg=="),
        ("X-Riak-Meta-Farm", "west"),
        ("X-Riak-Meta-farm", "north"),
        ("X-Riak-Index-Color_BIN", "yellow, green, green"),
        ("x-riak-index-weight_int", "-5"),
        ("Link", "</buckets/fruit>; rel=\"up\", </buckets/tree/keys/t%2C1>;riaktag=\"grew+on\""),
        ("Link", "</riak/tree/t2>; riaktag=\"x\""),
        ("X-Riak-ClientId", "py_b'...'"),
    ];
    let line = format!("{PEAR}?w=all&dw=1&pw=one&returnbody=false");
    let (request, _) = planned_request(&build_request(&line, &headers, "pear"));
    let store = stored(&request);
    assert_eq!((&store.key[..], &store.content.value[..]), (&b"pear"[..], &b"pear"[..]));
    assert_eq!(store.context, Some(Context(Bytes::from_static(b"seen"))));
    let options = StoreOptions {
        w: Some(Quorum::All),
        dw: Some(Quorum::Number(1)),
        pw: Some(Quorum::One),
        ..StoreOptions::default()
    };
    assert_eq!(store.options, options);
    let stored_headers = &store.content.headers;
    assert_eq!(
        (&stored_headers.content_type[..], &stored_headers.charset[..]),
        (&b"text/plain"[..], &b"utf-8"[..])
    );
    assert_eq!(stored_headers.encoding, "gzip");
    assert_eq!(stored_headers.meta, [("Farm".into(), "west, north".into())]);
    let link = |key, tag| Link { bucket: "tree".into(), key, tag };
    assert_eq!(
        stored_headers.links,
        [link("t,1".into(), "grew on".into()), link("t2".into(), "x".into())]
    );
    let index = |field: &'static str, value: &'static str| (field.into(), value.into());
    let expected =
        [index("color_bin", "green"), index("color_bin", "yellow"), index("weight_int", "-5")];
    assert_eq!(stored_headers.indexes, expected);
    assert_eq!(
        bytes(&rendered(&build_request(PEAR, &headers, "pear"), stored_reply())),
        "HTTP/1.1 204 No Content\r\nContent-Type: text/plain\r\n\r\n"
    );
}

#[test]
fn put_with_invalid_header_is_refused_with_riak_error_text() {
    let link = "Invalid Link header. Links must be of the form\n\
                </buckets/BUCKET/keys/KEY>; riaktag=\"TAG\"\n";
    for (headers, status, body) in [
        (vec![], 400, "Missing Content-Type request header"),
        (
            vec![("Content-Type", "text")],
            415,
            "\"text\" is not a valid media type for the Content-type header.\n",
        ),
        (vec![TEXT, ("Link", "</buckets/b/keys/k>; rel=\"x\"")], 400, link),
        (vec![TEXT, ("Link", "</buckets/other>; rel=\"up\"")], 400, link),
        (vec![TEXT, ("Link", "nonsense")], 400, link),
        (
            vec![TEXT, ("X-Riak-Index-x", "1"), ("X-Riak-Index-y_int", "abc")],
            400,
            "Unknown field type for field: 'x'.\nCould not parse field 'y_int', value 'abc'.\n",
        ),
        (
            vec![TEXT, ("X-Riak-Vclock", "?")],
            400,
            "X-Riak-Vclock is not a context that this server returned\n",
        ),
    ] {
        let answer = planned_answer(&build_request(PEAR, &headers, "pear"));
        assert_eq!((answer.status, &answer.body[..]), (status, body.as_bytes()));
    }
}

#[test]
fn returnbody_put_returns_the_value_or_siblings() {
    let put = build_request(&format!("{PEAR}?returnbody=true"), &[TEXT], "pear");
    assert!(stored(&planned_request(&put).0).options.return_body);
    let one = rendered(&put, Body::Siblings(siblings(vec![sibling("pear", 7)])));
    assert_eq!((one.status, &one.body[..]), (200, &b"pear"[..]));
    let empty = rendered(&put, Body::Siblings(siblings(vec![sibling("", 7)])));
    assert_eq!((empty.status, empty.headers.len()), (204, one.headers.len()));
    let both = || Body::Siblings(siblings(vec![sibling("a", 7), sibling("b", 8)]));
    let parts = rendered(&put, both());
    assert!(parts.body.starts_with(b"\r\n--"), "parts where both are as welcome");
    assert_eq!(parts.status, 300);
}

#[test]
fn post_without_key_generates_a_key_and_its_location() {
    for (path, location) in [
        ("/buckets/fruit/keys", "/buckets/fruit/keys/00000000000000000003D7"),
        ("/riak/fruit", "/riak/fruit/00000000000000000003D7"),
        (
            "/types/plain/buckets/f%2Fg/keys",
            "/types/plain/buckets/f%2Fg/keys/00000000000000000003D7",
        ),
    ] {
        let post = build_request(&format!("POST {path}"), &[TEXT], "pear");
        assert_eq!(stored(&planned_request(&post).0).key, "00000000000000000003D7");
        let answer = rendered(&post, stored_reply());
        let header = (Bytes::from_static(b"Location"), Bytes::from(location));
        assert_eq!((answer.status, answer.headers.last()), (201, Some(&header)));
        let with_body = rendered(&post, Body::Siblings(siblings(vec![sibling("pear", 7)])));
        assert_eq!((with_body.status, &with_body.body[..]), (201, &b"pear"[..]));
    }
}

#[test]
fn put_precondition_is_sent_with_the_store_request() {
    let absent = build_request(PEAR, &[TEXT, ("If-None-Match", "*")], "pear");
    let (request, shape) = planned_request(&absent);
    assert_eq!(stored(&request).condition, Some(Condition::Absent));
    let error = Error::new(Reason::AssertionFailed, "it is there");
    assert_eq!(render(&shape, &Err(error)).status, 412);
    let unchanged = build_request(PEAR, &[TEXT, ("X-Riak-If-Not-Modified", "c2Vlbg==")], "pear");
    let (request, shape) = planned_request(&unchanged);
    let seen = Context(Bytes::from_static(b"seen"));
    assert_eq!(stored(&request).condition, Some(Condition::Unchanged(seen)));
    let error = Error::new(Reason::Changed, "it is another");
    assert_eq!(render(&shape, &Err(error)).status, 409);
}

#[test]
fn put_with_if_match_fetches_first_and_overwrites_only_that_version() {
    let tag = "\"0000000000000000000007\"";
    let put = build_request(PEAR, &[TEXT, ("If-Match", tag)], "pear");
    let pending = || match plan(&put) {
        RiakPlan::ReadFirst(request, pending) => {
            let fetch = matches!(request.call, Call::Available(AvailableCall::Fetch { .. }));
            assert!(fetch);
            pending
        }
        other => panic!("{other:?}"),
    };
    let found = |values| Ok(reply(Body::Siblings(siblings(values))));
    let RiakPlan::Submit(request, _) = plan_after_read(pending(), &found(vec![sibling("a", 7)]))
    else {
        panic!()
    };
    let seen = Context(Bytes::from_static(b"seen"));
    assert_eq!(stored(&request).condition, Some(Condition::Unchanged(seen)));
    for values in [vec![], vec![sibling("a", 8)]] {
        let RiakPlan::Answer(answer) = plan_after_read(pending(), &found(values)) else { panic!() };
        assert_eq!(answer.status, 412);
    }
    let failed = Err(Error::new(Reason::DeadlinePassed, "late"));
    let RiakPlan::Answer(answer) = plan_after_read(pending(), &failed) else { panic!() };
    assert_eq!(answer.status, 503);
}

#[test]
fn delete_is_404_if_absent_and_removes_only_the_seen_context() {
    let delete = |headers: &[(&str, &str)]| {
        let line = "DELETE /buckets/fruit/keys/pear?rw=all&w=1";
        let RiakPlan::ReadFirst(request, pending) = plan(&build_request(line, headers, "")) else {
            panic!()
        };
        let Call::Available(AvailableCall::Fetch { options, .. }) = request.call else { panic!() };
        assert_eq!(options.r, Some(Quorum::All));
        pending
    };
    let found = |values| Ok(reply(Body::Siblings(siblings(values))));
    let mut tombstone = sibling("", 9);
    tombstone.tombstone = true;
    for values in [vec![], vec![tombstone]] {
        let RiakPlan::Answer(answer) = plan_after_read(delete(&[]), &found(values)) else {
            panic!()
        };
        assert_eq!((answer.status, &answer.body[..]), (404, &b"not found\n"[..]));
    }
    for (headers, seen) in [(&[][..], "seen"), (&[("X-Riak-Vclock", "b2xk")], "old")] {
        let plan = plan_after_read(delete(headers), &found(vec![sibling("a", 7)]));
        let RiakPlan::Submit(request, shape) = plan else { panic!() };
        let Call::Available(AvailableCall::Remove { context, options, .. }) = request.call else {
            panic!()
        };
        assert_eq!(context, Some(Context(seen.into())));
        assert_eq!(options.w, Some(Quorum::Number(1)));
        assert_eq!(render(&shape, &Ok(reply(stored_reply()))).status, 204);
    }
}

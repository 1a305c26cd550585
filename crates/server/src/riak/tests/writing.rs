//! Tests of writes and deletes: requests, and their answers.

use super::{
    RiakPlan, asked, asks, bytes, go_on, plan, render, reply, says, sibling, siblings, stored, told,
};
use base::{
    AvailableCall, Body, Call, Condition, Context, Error, Link, Quorum, Reason, StoreOptions,
};
use bytes::Bytes;

const PEAR: &str = "PUT /buckets/fruit/keys/pear";
const TEXT: (&str, &str) = ("Content-Type", "text/plain; charset=utf-8");

fn done() -> Body {
    Body::Stored(Context::default())
}

#[test]
fn a_put_brings_all_that_is_said_about_the_value() {
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
    let (request, _) = asks(&asked(&line, &headers, "pear"));
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
    let said = &store.content.headers;
    assert_eq!((&said.content_type[..], &said.charset[..]), (&b"text/plain"[..], &b"utf-8"[..]));
    assert_eq!(said.encoding, "gzip");
    assert_eq!(said.meta, [("Farm".into(), "west, north".into())]);
    let link = |key, tag| Link { bucket: "tree".into(), key, tag };
    assert_eq!(said.links, [link("t,1".into(), "grew on".into()), link("t2".into(), "x".into())]);
    let index = |field: &'static str, value: &'static str| (field.into(), value.into());
    let expected =
        [index("color_bin", "green"), index("color_bin", "yellow"), index("weight_int", "-5")];
    assert_eq!(said.indexes, expected);
    assert_eq!(
        bytes(&told(&asked(PEAR, &headers, "pear"), done())),
        "HTTP/1.1 204 No Content\r\nContent-Type: text/plain\r\n\r\n"
    );
}

#[test]
fn what_a_put_can_not_bring_is_refused_in_riaks_words() {
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
        (vec![TEXT, ("X-Riak-Vclock", "?")], 400, "X-Riak-Vclock is not what was given out\n"),
    ] {
        let answer = says(&asked(PEAR, &headers, "pear"));
        assert_eq!((answer.status, &answer.body[..]), (status, body.as_bytes()));
    }
}

#[test]
fn a_body_may_be_returned_with_its_siblings() {
    let put = asked(&format!("{PEAR}?returnbody=true"), &[TEXT], "pear");
    assert!(stored(&asks(&put).0).options.return_body);
    let one = told(&put, Body::Siblings(siblings(vec![sibling("pear", 7)])));
    assert_eq!((one.status, &one.body[..]), (200, &b"pear"[..]));
    let empty = told(&put, Body::Siblings(siblings(vec![sibling("", 7)])));
    assert_eq!((empty.status, empty.headers.len()), (204, one.headers.len()));
    let both = || Body::Siblings(siblings(vec![sibling("a", 7), sibling("b", 8)]));
    let parts = told(&put, both());
    assert!(parts.body.starts_with(b"\r\n--"), "parts where both are as welcome");
    assert_eq!(parts.status, 300);
}

#[test]
fn a_post_without_a_key_is_given_one() {
    for (path, location) in [
        ("/buckets/fruit/keys", "/buckets/fruit/keys/00000000000000000003D7"),
        ("/riak/fruit", "/riak/fruit/00000000000000000003D7"),
        (
            "/types/plain/buckets/f%2Fg/keys",
            "/types/plain/buckets/f%2Fg/keys/00000000000000000003D7",
        ),
    ] {
        let post = asked(&format!("POST {path}"), &[TEXT], "pear");
        assert_eq!(stored(&asks(&post).0).key, "00000000000000000003D7");
        let answer = told(&post, done());
        let header = (Bytes::from_static(b"Location"), Bytes::from(location));
        assert_eq!((answer.status, answer.headers.last()), (201, Some(&header)));
        let with_body = told(&post, Body::Siblings(siblings(vec![sibling("pear", 7)])));
        assert_eq!((with_body.status, &with_body.body[..]), (201, &b"pear"[..]));
    }
}

#[test]
fn a_write_on_condition_is_judged_where_it_is_written() {
    let absent = asked(PEAR, &[TEXT, ("If-None-Match", "*")], "pear");
    let (request, shape) = asks(&absent);
    assert_eq!(stored(&request).condition, Some(Condition::Absent));
    let error = Error::new(Reason::AssertionFailed, "it is there");
    assert_eq!(render(&shape, &Err(error)).status, 412);
    let unchanged = asked(PEAR, &[TEXT, ("X-Riak-If-Not-Modified", "c2Vlbg==")], "pear");
    let (request, shape) = asks(&unchanged);
    let seen = Context(Bytes::from_static(b"seen"));
    assert_eq!(stored(&request).condition, Some(Condition::Unchanged(seen)));
    let error = Error::new(Reason::Changed, "it is another");
    assert_eq!(render(&shape, &Err(error)).status, 409);
}

#[test]
fn a_write_to_a_named_state_looks_first_and_writes_only_over_what_it_saw() {
    let tag = "\"0000000000000000000007\"";
    let put = asked(PEAR, &[TEXT, ("If-Match", tag)], "pear");
    let look = || match plan(&put) {
        RiakPlan::Look(request, look) => {
            let fetch = matches!(request.call, Call::Available(AvailableCall::Fetch { .. }));
            assert!(fetch);
            look
        }
        other => panic!("{other:?}"),
    };
    let found = |values| Ok(reply(Body::Siblings(siblings(values))));
    let RiakPlan::Ask(request, _) = go_on(look(), &found(vec![sibling("a", 7)])) else { panic!() };
    let seen = Context(Bytes::from_static(b"seen"));
    assert_eq!(stored(&request).condition, Some(Condition::Unchanged(seen)));
    for values in [vec![], vec![sibling("a", 8)]] {
        let RiakPlan::Say(answer) = go_on(look(), &found(values)) else { panic!() };
        assert_eq!(answer.status, 412);
    }
    let failed = Err(Error::new(Reason::DeadlinePassed, "late"));
    let RiakPlan::Say(answer) = go_on(look(), &failed) else { panic!() };
    assert_eq!(answer.status, 503);
}

#[test]
fn a_delete_tells_what_is_not_there_and_removes_what_it_saw() {
    let delete = |headers: &[(&str, &str)]| {
        let line = "DELETE /buckets/fruit/keys/pear?rw=all&w=1";
        let RiakPlan::Look(request, look) = plan(&asked(line, headers, "")) else { panic!() };
        let Call::Available(AvailableCall::Fetch { options, .. }) = request.call else { panic!() };
        assert_eq!(options.r, Some(Quorum::All));
        look
    };
    let found = |values| Ok(reply(Body::Siblings(siblings(values))));
    let mut gone = sibling("", 9);
    gone.tombstone = true;
    for values in [vec![], vec![gone]] {
        let RiakPlan::Say(answer) = go_on(delete(&[]), &found(values)) else { panic!() };
        assert_eq!((answer.status, &answer.body[..]), (404, &b"not found\n"[..]));
    }
    for (headers, seen) in [(&[][..], "seen"), (&[("X-Riak-Vclock", "b2xk")], "old")] {
        let plan = go_on(delete(headers), &found(vec![sibling("a", 7)]));
        let RiakPlan::Ask(request, shape) = plan else { panic!() };
        let Call::Available(AvailableCall::Remove { context, options, .. }) = request.call else {
            panic!()
        };
        assert_eq!(context, Some(Context(seen.into())));
        assert_eq!(options.w, Some(Quorum::Number(1)));
        assert_eq!(render(&shape, &Ok(reply(done()))).status, 204);
    }
}

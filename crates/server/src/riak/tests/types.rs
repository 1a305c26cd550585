//! Tests of data types, legacy counters, properties, and owners of a key.

use super::{RiakPlan, asked, asks, bytes, go_on, plan, render, reply, says, told};
use base::available::TypeFound;
use base::datatype::{ElementStep, FieldKind, TypeOperation, TypeValue};
use base::{
    AvailableCall, Body, BucketDescription, BucketId, BucketName, Call, Context, DirectoryCall,
    Error, GroupId, Owner, Partition, Properties, Reason, Request,
};
use bytes::Bytes;
use serde_json::Value;

const JSON: &[(&str, &str)] = &[("Content-Type", "application/json")];
const SET: &str = "/types/sets/buckets/b/datatypes";

fn found(kind: FieldKind, value: Option<TypeValue>, tombstone: bool) -> Body {
    let context = Context(Bytes::from_static(b"seen"));
    Body::Typed(Box::new(TypeFound { kind, value, context, tombstone }))
}

fn set() -> Option<TypeValue> {
    Some(TypeValue::Set(vec![Bytes::from_static(b"x"), Bytes::from_static(b"y")]))
}

fn changes(request: &Request) -> &base::available::TypeChange {
    match &request.call {
        Call::Available(AvailableCall::Change(change)) => change,
        other => panic!("{other:?}"),
    }
}

fn document(answer: &super::RiakResponse) -> Value {
    serde_json::from_slice(&answer.body).expect("a document")
}

#[test]
fn a_data_type_is_told_with_the_context_that_removes_need() {
    let get = asked(&format!("GET {SET}/k%2F1?r=2"), &[], "");
    let (request, _) = asks(&get);
    let Call::Available(AvailableCall::FetchType { key, .. }) = &request.call else { panic!() };
    assert_eq!((request.bucket.full(), &key[..]), ("sets/b", &b"k/1"[..]));
    let answer = told(&get, found(FieldKind::Set, set(), false));
    let body = r#"{"type":"set","value":["x","y"],"context":"c2Vlbg=="}"#;
    assert_eq!((answer.status, &answer.body[..]), (200, body.as_bytes()));
    let bare = asked(&format!("GET {SET}/k?include_context=false"), &[], "");
    let answer = told(&bare, found(FieldKind::Set, set(), false));
    assert_eq!(answer.body, r#"{"type":"set","value":["x","y"]}"#);
    let counter = told(&get, found(FieldKind::Counter, Some(TypeValue::Counter(5)), false));
    assert_eq!(counter.body, r#"{"type":"counter","value":5}"#);
    for (tombstone, headers) in [(false, 1), (true, 2)] {
        let none = told(&get, found(FieldKind::Set, None, tombstone));
        let body = r#"{"type":"set","error":"notfound"}"#;
        assert_eq!((none.status, &none.body[..]), (404, body.as_bytes()));
        assert_eq!(none.headers.len(), headers);
    }
}

#[test]
fn a_data_type_is_changed_and_what_is_no_change_is_refused() {
    let body = r#"{"add":"x","remove":"y","context":"c2Vlbg=="}"#;
    let post = asked(&format!("POST {SET}/k?returnbody=true"), JSON, body);
    let (request, _) = asks(&post);
    let change = changes(&request);
    let steps = vec![
        ElementStep::Remove(Bytes::from_static(b"y")),
        ElementStep::Add(Bytes::from_static(b"x")),
    ];
    assert_eq!(change.operation, TypeOperation::Elements(steps));
    assert_eq!(change.context, Some(Context(Bytes::from_static(b"seen"))));
    assert!(change.options.return_body);
    assert_eq!(told(&post, found(FieldKind::Set, set(), false)).status, 200);
    let plain = asked(&format!("POST {SET}/k"), JSON, r#"{"add":"x"}"#);
    assert_eq!(told(&plain, Body::Stored(Context::default())).status, 204);
    let fresh = asked(&format!("POST {SET}"), JSON, r#"{"add":"x"}"#);
    let answer = told(&fresh, Body::Stored(Context::default()));
    let location =
        (Bytes::from_static(b"Location"), format!("{SET}/00000000000000000003D7").into());
    assert_eq!((answer.status, answer.headers.last()), (201, Some(&location)));
    let (_, shape) = asks(&plain);
    for (reason, status) in [
        (Reason::NotSupported, 403),
        (Reason::Malformed, 400),
        (Reason::AssertionFailed, 412),
        (Reason::NoSuchBucket, 404),
    ] {
        assert_eq!(render(&shape, &Err(Error::new(reason, "words"))).status, status, "{reason:?}");
    }
    for (line, headers, body, status) in [
        (format!("POST {SET}/k"), &[][..], r#"{"add":"x"}"#, 406),
        (format!("POST {SET}/k"), JSON, r#"{"colour":"x"}"#, 400),
        (format!("PUT {SET}/k"), JSON, r#"{"add":"x"}"#, 405),
    ] {
        assert_eq!(says(&asked(&line, headers, body)).status, status, "{line} {body}");
    }
    let old = says(&asked("GET /types/default/buckets/b/datatypes/k%2F1", &[], ""));
    let there = (Bytes::from_static(b"Location"), "/buckets/b/counters/k%2F1".into());
    assert_eq!((old.status, old.headers.last()), (301, Some(&there)));
}

#[test]
fn a_counter_of_old_is_a_number() {
    let line = "/buckets/b/counters/k";
    let post = asked(&format!("POST {line}?returnvalue=true"), &[], "-5");
    let (request, shape) = asks(&post);
    assert_eq!(changes(&request).operation, TypeOperation::Add(-5));
    let sum = told(&post, found(FieldKind::Counter, Some(TypeValue::Counter(7)), false));
    assert_eq!((sum.status, &sum.body[..]), (200, &b"7"[..]));
    let get = asked(&format!("GET {line}"), &[], "");
    let none = told(&get, found(FieldKind::Counter, None, false));
    assert_eq!((none.status, &none.body[..]), (404, &b"not found\n"[..]));
    assert_eq!(says(&asked(&format!("POST {line}"), &[], "many")).status, 400);
    let refused = render(&shape, &Err(Error::new(Reason::NotSupported, "words")));
    let words = "Counters require bucket property 'allow_mult=true'";
    assert_eq!((refused.status, &refused.body[..]), (409, words.as_bytes()));
}

fn described(name: &str) -> Body {
    let (name, properties) = (BucketName::new("available", name), Properties::available());
    let name = name.expect("a name");
    let (id, group) = (BucketId(0), GroupId(0));
    Body::Buckets(vec![BucketDescription { name, id, group, properties, moving: None }])
}

#[test]
fn properties_are_shown_changed_and_reset() {
    let get = asked("GET /buckets/b%C3%A4r/props", &[], "");
    let answer = document(&told(&get, described("b%C3%A4r")));
    let props = &answer["props"];
    for (name, value) in [
        ("name", "bär".into()),
        ("n_val", 3.into()),
        ("r", "quorum".into()),
        ("pw", 0.into()),
        ("allow_mult", true.into()),
        ("precommit", Value::Array(vec![])),
    ] as [(&str, Value); 6]
    {
        assert_eq!(props[name], value, "{name}");
    }
    // The client may send the document back as it was shown.
    let text: &'static str = Box::leak(answer.to_string().into_boxed_str());
    let (request, shape) = asks(&asked("PUT /buckets/b%C3%A4r/props", JSON, text));
    let Call::Directory(DirectoryCall::AlterBucket(changes)) = &request.call else { panic!() };
    let properties = Properties::available().with(changes).expect("sound");
    assert_eq!(properties, Properties::available());
    assert_eq!(render(&shape, &Ok(reply(Body::Done))).status, 204);
    let refused = Err(Error::new(Reason::NotSupported, "fixed"));
    assert_eq!(document(&render(&shape, &refused))["error"], "fixed");
    for (body, wrong) in [
        (r#"{"props":{"n_val":"x"}}"#, r#"{"n_val":"not_integer"}"#),
        (r#"{"props":{"allow_mult":1}}"#, r#"{"allow_mult":"not_boolean"}"#),
        (r#"{"props":{"pw":"most"}}"#, r#"{"pw":"not_valid_quorum"}"#),
        (r#"{"props":{"precommit":[{"name":"f"}]}}"#, r#"{"precommit":"not_supported"}"#),
        (r#"{"props":{"consistency":"available"}}"#, r#"{"consistency":"unknown_property"}"#),
        (r#"{"props":{"promise":"available"}}"#, r#"{"promise":"unknown_property"}"#),
    ] {
        let answer = says(&asked("PUT /types/plain/buckets/b/props", JSON, body));
        assert_eq!((answer.status, &answer.body[..]), (400, wrong.as_bytes()));
    }
    assert_eq!(says(&asked("PUT /buckets/b/props", JSON, "[]")).status, 400);
    assert_eq!(says(&asked("PUT /buckets/b/props", &[], "{}")).status, 415);
    let (request, _) = asks(&asked("DELETE /buckets/b/props", &[], ""));
    assert_eq!(request.call, Call::Directory(DirectoryCall::ResetBucket));
    assert_eq!(says(&asked("DELETE /riak/b", &[], "")).status, 405);
}

#[test]
fn a_type_s_properties_are_those_of_its_template() {
    let get = asked("GET /types/plain/props", &[], "");
    let types = vec![("plain".to_string(), Properties::available())];
    let answer = told(&get, Body::Types(types.clone()));
    assert_eq!(document(&answer)["props"]["active"], true);
    // The client may send the document back as it was shown, whichever node showed it.
    let (_, mut shape) = asks(&get);
    shape.claimed_by(|| "riak@10.0.0.3".into());
    let answer = document(&render(&shape, &Ok(reply(Body::Types(types.clone())))));
    assert_eq!(answer["props"]["claimant"], "riak@10.0.0.3");
    let text: &'static str = Box::leak(answer.to_string().into_boxed_str());
    let (request, _) = asks(&asked("PUT /types/plain/props", JSON, text));
    let Call::Directory(DirectoryCall::AlterType(changes)) = &request.call else { panic!() };
    assert_eq!(Properties::available().with(changes), Ok(Properties::available()));
    let other = asked("GET /types/other/props", &[], "");
    assert_eq!(told(&other, Body::Types(types)).status, 404);
    let put = asked("PUT /types/plain/props", JSON, r#"{"props":{"n_val":2}}"#);
    let (request, _) = asks(&put);
    let change = vec![("n_val".to_string(), "2".to_string())];
    assert_eq!(request.call, Call::Directory(DirectoryCall::AlterType(change)));
}

#[test]
fn the_old_path_of_a_bucket_shows_properties_and_keys() {
    let keys = |more| Body::Keys(base::Keys { keys: vec![Bytes::from_static(b"ann")], more });
    let both = |query: &str| {
        let RiakPlan::Look(_, look) = plan(&asked(&format!("GET /riak/b?{query}"), &[], "")) else {
            panic!("{query}")
        };
        match go_on(look, &Ok(reply(described("b")))) {
            RiakPlan::Ask(_, shape) => shape,
            other => panic!("{other:?}"),
        }
    };
    let whole = document(&render(&both("keys=true"), &Ok(reply(keys(false)))));
    assert_eq!((&whole["keys"][0], &whole["props"]["n_val"]), (&"ann".into(), &3.into()));
    let mut stream = both("keys=stream");
    assert!(stream.streams() && stream.first_page().is_some_and(|page| page.contains("n_val")));
    let page = render(&stream, &Ok(reply(keys(false))));
    assert_eq!(page.body, r#"{"keys":["ann"]}"#, "only the first document has them");
    let only = asked("GET /riak/b?props=false&keys=true", &[], "");
    assert_eq!(told(&only, keys(false)).body, r#"{"keys":["ann"]}"#);
    let (request, _) = asks(&asked("GET /riak/b", &[], ""));
    assert_eq!(request.call, Call::Directory(DirectoryCall::DescribeBucket));
}

#[test]
fn who_keeps_a_key_is_named_by_its_machine() {
    let get = asked("GET /buckets/b/keys/k/preflist", &[], "");
    let owner = Owner {
        partition: Partition(52),
        node: "n1".into(),
        address: "10.0.0.3:7711".into(),
        primary: true,
    };
    let answer = told(&get, Body::Owners(vec![owner]));
    let body = r#"{"preflist":[{"partition":52,"node":"riak@10.0.0.3","primary":true}]}"#;
    assert_eq!(answer.body, body);
    assert!(bytes(&answer).starts_with("HTTP/1.1 200 OK\r\n"));
}

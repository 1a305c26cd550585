//! Tests of data types, legacy counters, properties, and owners of a key.

use super::{
    RiakPlan, build_request, bytes, plan, plan_after_read, planned_answer, planned_request, render,
    rendered, reply,
};
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
fn data_type_fetch_returns_value_and_context() {
    let get = build_request(&format!("GET {SET}/k%2F1?r=2"), &[], "");
    let (request, _) = planned_request(&get);
    let Call::Available(AvailableCall::FetchType { key, .. }) = &request.call else { panic!() };
    assert_eq!((request.bucket.full(), &key[..]), ("sets/b", &b"k/1"[..]));
    let answer = rendered(&get, found(FieldKind::Set, set(), false));
    let body = r#"{"type":"set","value":["x","y"],"context":"c2Vlbg=="}"#;
    assert_eq!((answer.status, &answer.body[..]), (200, body.as_bytes()));
    let without_context = build_request(&format!("GET {SET}/k?include_context=false"), &[], "");
    let answer = rendered(&without_context, found(FieldKind::Set, set(), false));
    assert_eq!(answer.body, r#"{"type":"set","value":["x","y"]}"#);
    let counter = rendered(&get, found(FieldKind::Counter, Some(TypeValue::Counter(5)), false));
    assert_eq!(counter.body, r#"{"type":"counter","value":5}"#);
    for (tombstone, headers) in [(false, 1), (true, 2)] {
        let none = rendered(&get, found(FieldKind::Set, None, tombstone));
        let body = r#"{"type":"set","error":"notfound"}"#;
        assert_eq!((none.status, &none.body[..]), (404, body.as_bytes()));
        assert_eq!(none.headers.len(), headers);
    }
}

#[test]
fn data_type_update_is_parsed_and_invalid_update_refused() {
    let body = r#"{"add":"x","remove":"y","context":"c2Vlbg=="}"#;
    let post = build_request(&format!("POST {SET}/k?returnbody=true"), JSON, body);
    let (request, _) = planned_request(&post);
    let change = changes(&request);
    let steps = vec![
        ElementStep::Remove(Bytes::from_static(b"y")),
        ElementStep::Add(Bytes::from_static(b"x")),
    ];
    assert_eq!(change.operation, TypeOperation::Elements(steps));
    assert_eq!(change.context, Some(Context(Bytes::from_static(b"seen"))));
    assert!(change.options.return_body);
    assert_eq!(rendered(&post, found(FieldKind::Set, set(), false)).status, 200);
    let without_body = build_request(&format!("POST {SET}/k"), JSON, r#"{"add":"x"}"#);
    assert_eq!(rendered(&without_body, Body::Stored(Context::default())).status, 204);
    let without_key = build_request(&format!("POST {SET}"), JSON, r#"{"add":"x"}"#);
    let answer = rendered(&without_key, Body::Stored(Context::default()));
    let location =
        (Bytes::from_static(b"Location"), format!("{SET}/00000000000000000003D7").into());
    assert_eq!((answer.status, answer.headers.last()), (201, Some(&location)));
    let (_, shape) = planned_request(&without_body);
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
        assert_eq!(
            planned_answer(&build_request(&line, headers, body)).status,
            status,
            "{line} {body}"
        );
    }
    let redirect =
        planned_answer(&build_request("GET /types/default/buckets/b/datatypes/k%2F1", &[], ""));
    let location = (Bytes::from_static(b"Location"), "/buckets/b/counters/k%2F1".into());
    assert_eq!((redirect.status, redirect.headers.last()), (301, Some(&location)));
}

#[test]
fn legacy_counter_is_updated_and_read_as_a_number() {
    let line = "/buckets/b/counters/k";
    let post = build_request(&format!("POST {line}?returnvalue=true"), &[], "-5");
    let (request, shape) = planned_request(&post);
    assert_eq!(changes(&request).operation, TypeOperation::Add(-5));
    let sum = rendered(&post, found(FieldKind::Counter, Some(TypeValue::Counter(7)), false));
    assert_eq!((sum.status, &sum.body[..]), (200, &b"7"[..]));
    let get = build_request(&format!("GET {line}"), &[], "");
    let none = rendered(&get, found(FieldKind::Counter, None, false));
    assert_eq!((none.status, &none.body[..]), (404, &b"not found\n"[..]));
    assert_eq!(planned_answer(&build_request(&format!("POST {line}"), &[], "many")).status, 400);
    let refused = render(&shape, &Err(Error::new(Reason::NotSupported, "words")));
    let text = "Counters require bucket property 'allow_mult=true'";
    assert_eq!((refused.status, &refused.body[..]), (409, text.as_bytes()));
}

fn described(name: &str) -> Body {
    let (name, properties) = (BucketName::new("available", name), Properties::available());
    let name = name.expect("a name");
    let (id, group) = (BucketId(0), GroupId(0));
    Body::Buckets(vec![BucketDescription { name, id, group, properties, moving: None }])
}

#[test]
fn bucket_properties_are_read_altered_and_reset() {
    let get = build_request("GET /buckets/b%C3%A4r/props", &[], "");
    let answer = document(&rendered(&get, described("b%C3%A4r")));
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
    // The client may send the returned document back unchanged.
    let text: &'static str = Box::leak(answer.to_string().into_boxed_str());
    let (request, shape) =
        planned_request(&build_request("PUT /buckets/b%C3%A4r/props", JSON, text));
    let Call::Directory(DirectoryCall::AlterBucket(changes)) = &request.call else { panic!() };
    let properties = Properties::available().with(changes).expect("sound");
    assert_eq!(properties, Properties::available());
    assert_eq!(render(&shape, &Ok(reply(Body::Done))).status, 204);
    let refused = Err(Error::new(Reason::NotSupported, "fixed"));
    assert_eq!(document(&render(&shape, &refused))["error"], "fixed");
    for (body, expected) in [
        (r#"{"props":{"n_val":"x"}}"#, r#"{"n_val":"not_integer"}"#),
        (r#"{"props":{"allow_mult":1}}"#, r#"{"allow_mult":"not_boolean"}"#),
        (r#"{"props":{"pw":"most"}}"#, r#"{"pw":"not_valid_quorum"}"#),
        (r#"{"props":{"precommit":[{"name":"f"}]}}"#, r#"{"precommit":"not_supported"}"#),
        (r#"{"props":{"consistency":"available"}}"#, r#"{"consistency":"unknown_property"}"#),
        (r#"{"props":{"promise":"available"}}"#, r#"{"promise":"unknown_property"}"#),
    ] {
        let answer = planned_answer(&build_request("PUT /types/plain/buckets/b/props", JSON, body));
        assert_eq!((answer.status, &answer.body[..]), (400, expected.as_bytes()));
    }
    assert_eq!(planned_answer(&build_request("PUT /buckets/b/props", JSON, "[]")).status, 400);
    assert_eq!(planned_answer(&build_request("PUT /buckets/b/props", &[], "{}")).status, 415);
    let twice = "{\"props\":{\"n_val\":3,\"allow_mult\":true,\"n_val\":1}}";
    let refused = planned_answer(&build_request("PUT /buckets/b/props", JSON, twice));
    let text = String::from_utf8_lossy(&refused.body).into_owned();
    assert_eq!((refused.status, text.contains("`n_val` stands twice")), (400, true), "{text}");
    let (request, _) = planned_request(&build_request("DELETE /buckets/b/props", &[], ""));
    assert_eq!(request.call, Call::Directory(DirectoryCall::ResetBucket));
    assert_eq!(planned_answer(&build_request("DELETE /riak/b", &[], "")).status, 405);
}

#[test]
fn type_properties_are_read_and_altered() {
    let get = build_request("GET /types/plain/props", &[], "");
    let types = vec![("plain".to_string(), Properties::available())];
    let answer = rendered(&get, Body::Types(types.clone()));
    assert_eq!(document(&answer)["props"]["active"], true);
    // The client may send the returned document back unchanged, whichever node returned it.
    let (_, mut shape) = planned_request(&get);
    shape.set_claimant(|| "riak@10.0.0.3".into());
    let answer = document(&render(&shape, &Ok(reply(Body::Types(types.clone())))));
    assert_eq!(answer["props"]["claimant"], "riak@10.0.0.3");
    let text: &'static str = Box::leak(answer.to_string().into_boxed_str());
    let (request, _) = planned_request(&build_request("PUT /types/plain/props", JSON, text));
    let Call::Directory(DirectoryCall::AlterType(changes)) = &request.call else { panic!() };
    assert_eq!(Properties::available().with(changes), Ok(Properties::available()));
    let other = build_request("GET /types/other/props", &[], "");
    assert_eq!(rendered(&other, Body::Types(types)).status, 404);
    let put = build_request("PUT /types/plain/props", JSON, r#"{"props":{"n_val":2}}"#);
    let (request, _) = planned_request(&put);
    let change = vec![("n_val".to_string(), "2".to_string())];
    assert_eq!(request.call, Call::Directory(DirectoryCall::AlterType(change)));
}

#[test]
fn legacy_bucket_path_returns_properties_and_keys() {
    let keys = |more| Body::Keys(base::Keys { keys: vec![Bytes::from_static(b"ann")], more });
    let shape_after_read = |query: &str| {
        let RiakPlan::ReadFirst(_, pending) =
            plan(&build_request(&format!("GET /riak/b?{query}"), &[], ""))
        else {
            panic!("{query}")
        };
        match plan_after_read(pending, &Ok(reply(described("b")))) {
            RiakPlan::Submit(_, shape) => shape,
            other => panic!("{other:?}"),
        }
    };
    let document_of_all =
        document(&render(&shape_after_read("keys=true"), &Ok(reply(keys(false)))));
    assert_eq!(
        (&document_of_all["keys"][0], &document_of_all["props"]["n_val"]),
        (&"ann".into(), &3.into())
    );
    let mut stream = shape_after_read("keys=stream");
    assert!(stream.is_streamed() && stream.first_page().is_some_and(|page| page.contains("n_val")));
    let page = render(&stream, &Ok(reply(keys(false))));
    assert_eq!(page.body, r#"{"keys":["ann"]}"#, "only the first document has them");
    let keys_only = build_request("GET /riak/b?props=false&keys=true", &[], "");
    assert_eq!(rendered(&keys_only, keys(false)).body, r#"{"keys":["ann"]}"#);
    let (request, _) = planned_request(&build_request("GET /riak/b", &[], ""));
    assert_eq!(request.call, Call::Directory(DirectoryCall::DescribeBucket));
}

#[test]
fn preflist_names_each_owner_by_its_host() {
    let get = build_request("GET /buckets/b/keys/k/preflist", &[], "");
    let owner = Owner {
        partition: Partition(52),
        node: "n1".into(),
        address: "10.0.0.3:7711".into(),
        primary: true,
    };
    let answer = rendered(&get, Body::Owners(vec![owner]));
    let body = r#"{"preflist":[{"partition":52,"node":"riak@10.0.0.3","primary":true}]}"#;
    assert_eq!(answer.body, body);
    assert!(bytes(&answer).starts_with("HTTP/1.1 200 OK\r\n"));
}

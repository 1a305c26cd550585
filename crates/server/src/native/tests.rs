//! Tests of the pure parts of the native front-end: routes, targets, plans, answers, document.

mod calls;
mod confirmations;
mod feeds;
mod generators;
mod import;
mod indexes;
mod requests;
mod route_needs;
mod steps;

use super::target::{self, HttpRefusal, RequestTarget};
use super::translate::{NativePlan, NativeShape, plan};
use super::{errors, openapi, render, routes, table};
use crate::access_control::AccessControl;
use crate::connection::{Access, ListenerKind, ListenerRole};
use crate::http::{Method, Parsed, head};
use base::access::Origin;
use base::request::{Call, DirectoryCall, OnMissing, SequenceMode, When};
use base::{
    Body, BucketName, ClusterCall, Error, LogIndex, Outcome, Reason, Reply, Row, Update, Version,
};
use bytes::Bytes;
use serde_json::Value;
use std::collections::BTreeSet;

fn role(kind: ListenerKind, access: Access) -> ListenerRole {
    ListenerRole { kind, access, origin: Origin::default() }
}

fn target_at(role: ListenerRole, request: &str) -> Result<RequestTarget, HttpRefusal> {
    let text = format!("{}\r\n\r\n", request.replace('\n', "\r\n"));
    let text = if text.contains("host:") {
        text
    } else {
        text.replacen("\r\n", "\r\nhost: localhost\r\n", 1)
    };
    let Ok(Parsed::Head(head, _)) = head::parse(text.as_bytes()) else { panic!("{text:?}") };
    target::parse(&head, &AccessControl::new(&[]), role, &mut BucketName::default())
}

fn target(request: &str) -> Result<RequestTarget, HttpRefusal> {
    target_at(role(ListenerKind::Clients, Access::Operator), request)
}

fn status(request: &str) -> u16 {
    target(request).expect_err(request).status.code()
}

fn planned(request: &str, body: &str) -> Result<NativePlan, Error> {
    match plan(target(request).expect(request), Bytes::copy_from_slice(body.as_bytes()))? {
        NativePlan::Unconfirmed(_, refusal) => Err(refusal),
        plan => Ok(plan),
    }
}

fn update(request: &str) -> Update {
    match planned(request, "v") {
        Ok(NativePlan::Submit(base::Request { call: Call::Update(update), .. }, _)) => update,
        other => panic!("{request}: {other:?}"),
    }
}

#[test]
fn unroutable_or_invalid_request_gets_its_error_status() {
    let cases = [
        ("GET /nowhere HTTP/1.1", 404),
        ("GET /v1/buckets/a/b/keys/c/d HTTP/1.1", 404),
        ("GET /v1/buckets/a/b/keys?reverse=true HTTP/1.1", 400),
        ("DELETE /v1/buckets/a/b/keys HTTP/1.1", 405),
        ("GET /a/b/c/d/e/f/g/h/i/j/k HTTP/1.1", 404),
        ("GET /status/ HTTP/1.1", 404),
        ("POST /v1/buckets/a/b/keys/c HTTP/1.1", 405),
        ("OPTIONS /v1/buckets HTTP/1.1", 405),
        ("GET /status HTTP/1.1\nhost: evil.example", 421),
        ("GET /v1/buckets/A/b/keys/c HTTP/1.1", 400),
        ("GET /v1/buckets/a/../keys/c HTTP/1.1", 400),
        ("GET /v1/buckets/a/%62/keys/c HTTP/1.1", 400),
        ("GET /v1/buckets/a/%25%62/keys/c HTTP/1.1", 400),
        ("GET /v1/buckets/a/b/keys/%zz HTTP/1.1", 400),
        ("GET /v1/buckets/a/b/keys/c?colour=red HTTP/1.1", 400),
        ("GET /v1/buckets/a/b/keys/c HTTP/1.1\ncontent-length: 1", 400),
        ("GET /v1/buckets/a/b/keys/c HTTP/1.1\nif-match: 1", 400),
        ("GET /v1/buckets/a/b/keys/c HTTP/1.1\nx-credenza-session: 1", 400),
        ("GET /status HTTP/1.1\nx-credenza-session: 1\nx-credenza-request: 1", 400),
        ("PUT /v1/buckets/a/b/keys/c HTTP/1.1", 411),
        ("PUT /v1/buckets/a/b/keys/c HTTP/1.1\ncontent-length: 8388609", 413),
        ("PUT /v1/buckets/a/b HTTP/1.1\ncontent-length: 1", 415),
        ("POST /v1/buckets/a/b/update HTTP/1.1\ncontent-length: 1\ncontent-type: text/plain", 415),
        ("POST /v1/buckets/a/b/update HTTP/1.1\ncontent-length: 1", 415),
        ("POST /v1/buckets/a/b/import HTTP/1.1\ncontent-length: 1", 415),
        ("POST /v1/buckets/a/b/import HTTP/1.1\ncontent-type: application/json", 415),
        ("DELETE /v1/sessions/a/b/x HTTP/1.1", 400),
        ("DELETE /v1/buckets/a/b HTTP/1.1\norigin: http://evil.example", 403),
        ("POST /v1/buckets/a/b/clear HTTP/1.1\norigin: null", 403),
    ];
    for (request, code) in cases {
        assert_eq!(status(request), code, "{request}");
    }
    let refused = target("POST /v1/buckets/a/b/keys/c HTTP/1.1").expect_err("no such method");
    assert_eq!(refused.allow.as_deref(), Some("GET, PUT, DELETE, HEAD"));
    for good in [
        "PUT /v1/buckets/a/b/keys/c HTTP/1.1\ncontent-length: 8388608",
        "PUT /v1/buckets/a/b HTTP/1.1",
        "DELETE /v1/buckets/a/b HTTP/1.1\norigin: http://localhost",
        "POST /v1/buckets/a/b/update HTTP/1.1\ncontent-type: Application/JSON; charset=utf-8",
    ] {
        assert!(target(good).is_ok(), "{good}");
    }
}

#[test]
fn path_key_of_maximum_size_is_accepted_and_larger_key_refused() {
    let request = |length| format!("GET /v1/buckets/a/b/keys/{} HTTP/1.1", "%ff".repeat(length));
    let largest = target(&request(base::limits::KEY_BYTES_MAX)).expect("fits");
    assert!(largest.key.len() == base::limits::KEY_BYTES_MAX && largest.key[0] == 0xff);
    assert_eq!(status(&request(base::limits::KEY_BYTES_MAX + 1)), 413);
    assert_eq!(
        target("GET /v1/buckets/a/b/keys/ HTTP/1.1").map(|t| t.key).ok(),
        Some(Bytes::new())
    );
    let any: Vec<u8> = (0..=255).collect();
    let mut text = String::from("GET /v1/buckets/a/b/keys/");
    crate::http::percent::append_encoded(&mut text, &any);
    let key = target(&format!("{text} HTTP/1.1")).expect("fits").key;
    assert_eq!(key, any);
}

#[test]
fn only_health_and_the_document_are_open_and_only_joining_takes_a_join_token() {
    use routes::Admission;
    for route in table::all() {
        let path = route.path.replace(['{', '}'], "").replace("/id", "/1");
        let request = format!(
            "{} {path} HTTP/1.1\ncontent-length: 0\ncontent-type: application/json",
            route.method.name()
        );
        let denied = |access| {
            let target = target_at(role(ListenerKind::Clients, access), &request);
            target.is_err_and(|refused| refused.status.code() == 403)
        };
        assert!(!denied(Access::Operator), "{request}");
        let takes_token = route.admission == Admission::JoinToken;
        assert_eq!(denied(Access::Client), takes_token, "{request}");
        let is_open = ["/live", "/ready", "/openapi.json"].contains(&route.path);
        assert_eq!(route.admission == Admission::Open, is_open, "{request}");
    }
}

#[test]
fn join_token_authorizes_only_the_join_request() {
    let token = base::JoinToken::from_secret([9; 20]);
    let body =
        r#"{"node":"0000000000000001","name":"n1","peer":"a:1","client":"a:2","lease_ms":9}"#;
    let request = |path: &str, header: &str| {
        let json = "content-type: application/json";
        format!("POST {path} HTTP/1.1\ncontent-length: {}\n{json}{header}", body.len())
    };
    let bearer = format!("\nauthorization: Bearer {}", token.text());
    let join = "/v1/cluster/members";
    for kind in [ListenerKind::Clients, ListenerKind::Arakoon, ListenerKind::Riak] {
        let role = role(kind, Access::Client);
        let refused = target_at(role, &request(join, "")).expect_err("no token");
        assert_eq!(refused.status.code(), 403);
        let target = target_at(role, &request(join, &bearer)).expect("a token");
        match plan(target, Bytes::from_static(body.as_bytes())) {
            Ok(NativePlan::Submit(base::Request { call, .. }, _)) => match call {
                Call::Directory(DirectoryCall::Cluster(ClusterCall::WithToken {
                    digest,
                    call,
                })) => {
                    assert!(call.is_join() && digest == token.digest());
                }
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
        // The token allows nothing else.
        let make = target_at(role, &request("/v1/cluster/tokens", &bearer)).expect("a target");
        assert_eq!(make.token_digest, None, "the node decides without it");
    }
    for kind in [ListenerKind::Clients, ListenerKind::Operators] {
        let role = role(kind, Access::Operator);
        let target = target_at(role, &request(join, &bearer)).expect("an operator");
        assert_eq!(target.token_digest, None, "an operator's right is enough");
    }
    let twice = format!("{bearer}{bearer}");
    let text = request(join, &twice).replace('\n', "\r\n").replacen("\r\n", "\r\nhost: a\r\n", 1);
    assert!(head::parse(format!("{text}\r\n\r\n").as_bytes()).is_err(), "which one counts?");
}

#[test]
fn http_preconditions_become_atomic_updates() {
    let put = "PUT /v1/buckets/a/b/keys/k HTTP/1.1\ncontent-length: 1\n";
    let when = |headers: &str| match update(&format!("{put}{headers}")) {
        Update::SetIf { when, .. } => when,
        other => panic!("{other:?}"),
    };
    assert_eq!(when("if-match: \"7\""), When::Unchanged(Version(7)));
    assert_eq!(when("if-match: *"), When::Present);
    assert_eq!(when("if-none-match: *"), When::Absent);
    let fails = planned(&format!("{put}if-match: \"abc\""), "v");
    assert_eq!(fails, Ok(NativePlan::PreconditionFailed), "a version that was never given out");
    let both = planned(&format!("{put}if-match: \"7\"\nif-none-match: *"), "v");
    assert_eq!(both, Ok(NativePlan::PreconditionFailed), "there and absent");
    for bad in ["if-none-match: \"7\"", "if-match: \"1\", \"2\""] {
        assert!(planned(&format!("{put}{bad}"), "v").is_err(), "{bad}");
    }
    let delete = "DELETE /v1/buckets/a/b/keys/k HTTP/1.1";
    let key = Bytes::from_static(b"k");
    let absent_too = Update::Delete { key: key.clone(), missing: OnMissing::Skip };
    assert_eq!(update(delete), absent_too);
    let present = Update::Delete { key: key.clone(), missing: OnMissing::Fail };
    assert_eq!(update(&format!("{delete}\nif-match: *")), present);
    let unchanged = Update::Sequence {
        steps: vec![Update::AssertVersion { key, version: Some(Version(7)) }, present],
        mode: SequenceMode::AllOrNothing,
    };
    assert_eq!(update(&format!("{delete}\nif-match: \"7\"")), unchanged);
}

#[test]
fn retry_is_read_from_session_and_request_headers() {
    let request = "PUT /v1/buckets/a/b/keys/k HTTP/1.1\ncontent-length: 1\n\
                   x-credenza-session: 18446744073709551615\nx-credenza-request: 3";
    let retry = target(request).expect("good").retry.expect("a retry");
    assert_eq!((retry.session.0, retry.number), (u64::MAX, 3));
}

fn status_and_etag(shape: &NativeShape, result: Result<Body, Reason>) -> (u16, Option<u64>) {
    let result = result
        .map(|body| Reply { version: Some(Version(9)), ..Reply::new(LogIndex(5), body) })
        .map_err(|reason| Error::new(reason, "x"));
    let answer = render::answer(shape, &Bytes::from_static(b"k"), &result);
    assert_eq!(answer.index, result.is_ok().then_some(5));
    (answer.status.code(), answer.etag)
}

#[test]
fn read_preconditions_are_evaluated_against_row_version() {
    let row = Row {
        value: Bytes::from_static(b"v"),
        version: Version(7),
        expires_in_ms: None,
        tags: None,
    };
    let read = |headers: &str, row: Option<Row>| {
        let request = format!("GET /v1/buckets/a/b/keys/k HTTP/1.1{headers}");
        let Ok(NativePlan::Submit(_, shape)) = planned(&request, "") else { panic!("{request}") };
        status_and_etag(&shape, Ok(Body::Row(row)))
    };
    let present = Some(row);
    assert_eq!(read("", present.clone()), (200, Some(7)));
    assert_eq!(read("", None), (404, None));
    assert_eq!(read("\nif-none-match: \"7\"", present.clone()), (304, Some(7)));
    assert_eq!(read("\nif-none-match: \"1\", W/\"7\"", present.clone()), (304, Some(7)));
    assert_eq!(read("\nif-none-match: \"8\"", present.clone()), (200, Some(7)));
    assert_eq!(read("\nif-none-match: *", present.clone()), (304, Some(7)));
    assert_eq!(read("\nif-none-match: *", None), (404, None));
    assert_eq!(read("\nif-match: \"7\"", present.clone()), (200, Some(7)));
    assert_eq!(read("\nif-match: \"8\"", present), (412, Some(7)));
    assert_eq!(read("\nif-match: *", None), (412, None));
}

#[test]
fn write_and_delete_outcomes_map_to_http_status() {
    let updated = |outcome| Ok(Body::Updated(outcome));
    let written = |ttl: &str, result| {
        let request = format!("PUT /v1/buckets/a/b/keys/k{ttl} HTTP/1.1\ncontent-length: 1");
        let Ok(NativePlan::Submit(_, shape)) = planned(&request, "v") else { panic!("{request}") };
        status_and_etag(&shape, result)
    };
    assert_eq!(written("", updated(Outcome::Done)), (204, Some(9)));
    assert_eq!(written("?ttl_ms=1", updated(Outcome::Done)), (204, Some(9)));
    assert_eq!(written("?ttl_ms=0", updated(Outcome::Done)), (204, None), "no row is left");
    let swapped = |written| updated(Outcome::Swapped { written, old: None });
    assert_eq!(written("", swapped(true)), (204, Some(9)));
    assert_eq!(written("", swapped(false)), (412, None));
    // The answer to a retry, of an outcome with a large old value: the condition may have failed.
    let lost = updated(Outcome::AppliedAt(LogIndex(5)));
    assert_eq!(written("", lost), (504, None));
    let deleted =
        |has_condition, result| status_and_etag(&NativeShape::Deleted { has_condition }, result).0;
    assert_eq!(deleted(false, updated(Outcome::Existed(true))), 204);
    assert_eq!(deleted(false, updated(Outcome::Existed(false))), 404);
    assert_eq!(deleted(true, Err(Reason::Changed)), 412);
    assert_eq!(deleted(true, Err(Reason::NotFound)), 412);
    assert_eq!(deleted(false, Err(Reason::Overloaded)), 503);
}

#[test]
fn read_sent_as_update_is_rendered_as_an_outcome() {
    let read = Body::Count(3);
    let answer = |body: Body| {
        let result = Ok(Reply::new(LogIndex(5), body));
        let answer = render::answer(&NativeShape::Updated, &Bytes::new(), &result);
        String::from_utf8_lossy(&answer.content.bytes()).into_owned()
    };
    let wrapped = Body::Updated(Outcome::Read(Box::new(read.clone())));
    assert_eq!(answer(read), answer(wrapped.clone()));
    assert_eq!(answer(wrapped), r#"{"outcome":"read","read":{"count":3}}"#);
}

fn document() -> Value {
    serde_json::from_slice(&openapi::document(&["node".into()])).expect("the document is JSON")
}

#[test]
fn openapi_document_and_routes_agree() {
    let document = document();
    let mut documented = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let named = path.replace(['{', '}'], "").replace("/id", "/1");
            let method = method.to_ascii_uppercase();
            let route =
                table::all().find(|route| route.method.name() == method && route.path == path);
            let route = route.unwrap_or_else(|| panic!("{method} {path} is no route"));
            let name = format!("{:?}", route.name);
            assert_eq!(operation["operationId"], Value::from(name.as_str()));
            match routes::find(route.method, &named) {
                routes::Lookup::Found(found) => assert_eq!(found.route.name, route.name),
                _ => panic!("{method} {named} leads nowhere"),
            }
            assert!(documented.insert(name), "{method} {path} stands twice");
        }
    }
    assert_eq!(documented.len(), table::all().count(), "a route is not in the document");
}

#[test]
fn openapi_references_resolve() {
    fn walk(value: &Value, document: &Value) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    if name == "$ref" || name == "mapping" {
                        let texts: Vec<&Value> = match value.as_object() {
                            Some(mapping) => mapping.values().collect(),
                            None => vec![value],
                        };
                        for text in texts {
                            let text = text.as_str().expect("a reference is text");
                            let pointer = text.strip_prefix('#').expect("references are local");
                            assert!(document.pointer(pointer).is_some(), "{text}");
                        }
                    }
                    walk(value, document);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| walk(item, document)),
            _ => {}
        }
    }
    let document = document();
    walk(&document, &document);
}

#[test]
fn every_error_reason_has_a_documented_http_status() {
    let document = document();
    let put = &document["paths"]["/v1/buckets/{type}/{bucket}/keys/{key}"]["put"]["responses"];
    let word = |reason: Reason| reason.name().to_string();
    let reasons =
        document["components"]["schemas"]["ErrorDetail"]["properties"]["reason"]["enum"].clone();
    for reason in Reason::ALL {
        let status = errors::status(reason).code();
        assert!(put.get(status.to_string()).is_some(), "{reason:?} {status}");
        assert!(reasons.as_array().is_some_and(|all| all.contains(&word(reason).into())));
    }
}

#[test]
fn escaped_percent_in_bucket_name_is_decoded_once() {
    let found = target("GET /v1/buckets/available/Caf%25C3%25A9/keys/c HTTP/1.1");
    assert_eq!(found.expect("a bucket").bucket.full(), "available/Caf%C3%A9");
}

#[test]
fn head_method_exists_only_for_key_reads() {
    for route in table::all() {
        let is_key = route.path.ends_with("{key}");
        assert_eq!(
            route.method == Method::Head,
            is_key && route.name == routes::RouteName::HeadKey
        );
    }
}

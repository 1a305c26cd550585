//! Sequences apply completely or not at all; a retry with its session applies once, also after a
//! crash.

use super::{http, resp, start_server};
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use systest::client::{Http, HttpResponse, RespReply};
use systest::server::Server;

const SEQUENCE: &str = "/v1/buckets/default/default/sequence";
const UPDATE: &str = "/v1/buckets/default/default/update";

fn post(web: &mut Http, path: &str, body: serde_json::Value) -> HttpResponse {
    web.request("POST", path, body.to_string().as_bytes()).expect("the server answers")
}

#[test]
fn sequence_applies_completely_or_not_at_all() {
    let (_scratch, server) = start_server("sequences");
    let (mut web, mut redis) = (http(&server), resp(&server));
    let response = post(
        &mut web,
        SEQUENCE,
        json!([
            {"op": "set", "key": "a", "value": "1"},
            {"op": "assert", "key": "a", "expected": "1"},
            {"op": "add", "key": "a", "delta": 4},
            {"op": "sequence", "steps": [{"op": "append", "key": "a", "value": "0"}]},
        ]),
    );
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(redis.call_line("GET a").expect("answers").bytes(), Some(&b"50"[..]));
    let failed = post(
        &mut web,
        SEQUENCE,
        json!([
            {"op": "set", "key": "a", "value": "lost"},
            {"op": "set", "key": "b", "value": "lost"},
            {"op": "sequence", "steps": [{"op": "delete", "key": "a"}]},
            {"op": "assert", "key": "a", "expected": "lost"},
        ]),
    );
    assert_eq!((failed.status, failed.reason()), (409, "assertion_failed".into()));
    assert_eq!(redis.call_line("GET a").expect("answers").bytes(), Some(&b"50"[..]));
    assert_eq!(redis.call_line("GET b").expect("answers"), RespReply::Bulk(None));
}

#[test]
fn readers_never_see_a_partial_sequence() {
    let (_scratch, server) = start_server("half-sequences");
    let stop = AtomicBool::new(false);
    let mut reads = 0;
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut web = http(&server);
            for n in 0..400 {
                let value = n.to_string();
                let response = post(
                    &mut web,
                    SEQUENCE,
                    json!([
                        {"op": "set", "key": "left", "value": value},
                        {"op": "set", "key": "right", "value": value},
                    ]),
                );
                assert_eq!(response.status, 200, "{}", response.text());
            }
            stop.store(true, Ordering::Relaxed);
        });
        let mut redis = resp(&server);
        while !stop.load(Ordering::Relaxed) && !writer.is_finished() {
            let reply = redis.call_line("MGET left right").expect("answers");
            let [left, right] = reply.list() else { panic!("{reply:?}") };
            assert_eq!(left, right, "half a sequence was seen");
            reads += 1;
        }
    });
    assert!(reads > 10, "the reader saw almost nothing");
}

/// Adds one to a counter, as the numbered update of a session.
fn add_in_session(web: &mut Http, session: &str, number: u64) -> HttpResponse {
    let number = number.to_string();
    let headers = [("x-credenza-session", session), ("x-credenza-request", &number)];
    let body = json!({"op": "add", "key": "counter", "delta": 1}).to_string();
    let headers = [&headers[..], &[("content-type", "application/json")]].concat();
    web.request_with_headers("POST", UPDATE, &headers, body.as_bytes()).expect("the server answers")
}

fn open_session(web: &mut Http) -> String {
    let opened = web.request("POST", "/v1/sessions/default/default", b"").expect("answers");
    assert_eq!(opened.status / 100, 2, "{}", opened.text());
    let body = opened.json();
    body["session"].as_str().unwrap_or_else(|| panic!("no session in {body}")).to_string()
}

#[test]
fn session_retry_applies_once_also_after_crash() {
    let (_scratch, mut server) = start_server("retries");
    let mut web = http(&server);
    let session = open_session(&mut web);
    let first = add_in_session(&mut web, &session, 1);
    assert_eq!(first.status, 200, "{}", first.text());
    let retry = add_in_session(&mut web, &session, 1);
    assert_eq!(retry.json(), first.json(), "a retry is answered like the first attempt");
    assert_eq!(add_in_session(&mut web, &session, 2).status, 200);
    server.kill();
    let server = Server::must_start(&server.setup);
    let mut web = http(&server);
    let after_crash = add_in_session(&mut web, &session, 1);
    assert_eq!(
        after_crash.json(),
        first.json(),
        "a retry after a crash is answered like the first"
    );
    assert_eq!(add_in_session(&mut web, &session, 2).status, 200);
    assert_eq!(add_in_session(&mut web, &session, 3).status, 200);
    let counter = resp(&server).call_line("GET counter").expect("answers");
    assert_eq!(counter.bytes(), Some(&b"3"[..]), "three requests, each applied once");
    let unknown_session = add_in_session(&mut web, "999999999", 1);
    assert_eq!(unknown_session.reason(), "session_expired", "{}", unknown_session.text());
    let counter = resp(&server).call_line("GET counter").expect("answers");
    assert_eq!(counter.bytes(), Some(&b"3"[..]), "an unknown session applies nothing");
}

#[test]
fn request_number_behind_session_window_is_refused() {
    let (_scratch, server) = start_server("window");
    let mut web = http(&server);
    let session = open_session(&mut web);
    let window = base::limits::SESSION_WINDOW;
    assert_eq!(add_in_session(&mut web, &session, 1).status, 200);
    assert_eq!(add_in_session(&mut web, &session, 2 + window).status, 200);
    let late = add_in_session(&mut web, &session, 1);
    assert_eq!(late.reason(), "request_expired", "{}", late.text());
    let counter = resp(&server).call_line("GET counter").expect("answers");
    assert_eq!(counter.bytes(), Some(&b"2"[..]));
}

#[test]
fn session_ids_are_not_guessable() {
    let (_scratch, server) = start_server("guessed");
    let mut web = http(&server);
    let ids: Vec<u64> = (0..8).map(|_| open_session(&mut web).parse().expect("a number")).collect();
    let highest = ids.iter().max().expect("eight");
    // Eight draws of 64 bits are all below 2^48 once in 2^128; versions always were.
    assert!(*highest > 1 << 48, "{ids:?}");
    for guess in (0..64).chain(ids.iter().flat_map(|id| [id ^ 1, id.wrapping_add(2)])) {
        let answer = add_in_session(&mut web, &guess.to_string(), 1);
        assert_eq!(answer.reason(), "session_expired", "{guess}: {}", answer.text());
    }
}

#[test]
fn session_request_number_is_bound_to_its_update_and_bucket() {
    let (_scratch, mut server) = start_server("bound");
    let (mut web, mut redis) = (http(&server), resp(&server));
    let session = open_session(&mut web);
    let headers = |number| {
        let json = ("content-type", "application/json");
        [("x-credenza-session", session.as_str()), ("x-credenza-request", number), json]
    };
    let update = |web: &mut Http, bucket: &str, number, body: serde_json::Value| {
        let path = format!("/v1/buckets/default/{bucket}/update");
        web.request_with_headers("POST", &path, &headers(number), body.to_string().as_bytes())
            .expect("answers")
    };
    let update_body = json!({"op": "replace", "key": "k", "wanted": "mine"});
    assert_eq!(redis.call_line("SET k secret").expect("answers"), RespReply::Simple("OK".into()));
    let first = update(&mut web, "default", "1", update_body.clone());
    assert_eq!(first.json()["old"], "secret", "{}", first.text());
    let response = web.request("PUT", "/v1/buckets/default/other", b"{}").expect("answers");
    assert_eq!(response.status, 201, "{}", response.text());
    for incarnation in ["in the first life", "after a crash"] {
        // A used number permits neither a read nor a write of another request.
        let other = update(&mut web, "default", "1", json!({"op": "delete", "key": "k"}));
        let status_and_reason = (other.status, other.reason());
        assert_eq!(
            status_and_reason,
            (400, "retry_mismatch".into()),
            "{incarnation}: {}",
            other.text()
        );
        assert!(!other.text().contains("secret"), "{incarnation}: {}", other.text());
        let foreign = update(&mut web, "other", "2", update_body.clone());
        let status_and_reason = (foreign.status, foreign.reason());
        assert_eq!(
            status_and_reason,
            (400, "session_expired".into()),
            "{incarnation}: {}",
            foreign.text()
        );
        let path = format!("/v1/sessions/default/other/{session}");
        let closed = web.request("DELETE", &path, b"").expect("answers");
        assert_eq!(closed.reason(), "session_expired", "{incarnation}: {}", closed.text());
        assert_eq!(
            update(&mut web, "default", "1", update_body.clone()).json(),
            first.json(),
            "{incarnation}"
        );
        // Redis' clients see the same session: the number is used there, too.
        let reply = redis.call_line(&format!("CREDENZA.SESSION USE {session}")).expect("answers");
        assert_eq!(reply, RespReply::Simple("OK".into()));
        let taken = redis.call_line("CREDENZA.RETRY 1 SET k other").expect("answers");
        let RespReply::Error(taken) = taken else { panic!("{incarnation}: {taken:?}") };
        assert!(taken.starts_with("RETRYMISMATCH "), "{incarnation}: {taken}");
        assert_eq!(
            redis.call_line("GET k").expect("answers").bytes(),
            Some(&b"mine"[..]),
            "{incarnation}"
        );
        server.kill();
        server = Server::must_start(&server.setup);
        (web, redis) = (http(&server), resp(&server));
    }
}

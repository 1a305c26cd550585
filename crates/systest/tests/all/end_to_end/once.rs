//! Sequences apply completely or not at all; a retry with its session applies once, also after a
//! crash.

use super::{fresh, http, resp};
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use systest::client::{Http, HttpResponse, RespReply};
use systest::server::Server;

const SEQUENCE: &str = "/v1/buckets/default/default/sequence";
const UPDATE: &str = "/v1/buckets/default/default/update";

fn post(web: &mut Http, path: &str, body: serde_json::Value) -> HttpResponse {
    web.ask("POST", path, body.to_string().as_bytes()).expect("the server answers")
}

#[test]
fn a_sequence_holds_together_or_not_at_all() {
    let (_scratch, server) = fresh("sequences");
    let (mut web, mut redis) = (http(&server), resp(&server));
    let done = post(
        &mut web,
        SEQUENCE,
        json!([
            {"op": "set", "key": "a", "value": "1"},
            {"op": "assert", "key": "a", "expected": "1"},
            {"op": "add", "key": "a", "delta": 4},
            {"op": "sequence", "steps": [{"op": "append", "key": "a", "value": "0"}]},
        ]),
    );
    assert_eq!(done.status, 200, "{}", done.text());
    assert_eq!(redis.say("GET a").expect("answers").bytes(), Some(&b"50"[..]));
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
    assert_eq!(redis.say("GET a").expect("answers").bytes(), Some(&b"50"[..]));
    assert_eq!(redis.say("GET b").expect("answers"), RespReply::Bulk(None));
}

#[test]
fn readers_never_see_half_a_sequence() {
    let (_scratch, server) = fresh("half-sequences");
    let stop = AtomicBool::new(false);
    let mut seen = 0;
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut web = http(&server);
            for n in 0..400 {
                let value = n.to_string();
                let done = post(
                    &mut web,
                    SEQUENCE,
                    json!([
                        {"op": "set", "key": "left", "value": value},
                        {"op": "set", "key": "right", "value": value},
                    ]),
                );
                assert_eq!(done.status, 200, "{}", done.text());
            }
            stop.store(true, Ordering::Relaxed);
        });
        let mut redis = resp(&server);
        while !stop.load(Ordering::Relaxed) && !writer.is_finished() {
            let both = redis.say("MGET left right").expect("answers");
            let [left, right] = both.list() else { panic!("{both:?}") };
            assert_eq!(left, right, "half a sequence was seen");
            seen += 1;
        }
    });
    assert!(seen > 10, "the reader saw almost nothing");
}

/// Adds one to a counter, as the numbered update of a session.
fn add(web: &mut Http, session: &str, number: u64) -> HttpResponse {
    let number = number.to_string();
    let headers = [("x-credenza-session", session), ("x-credenza-request", &number)];
    let body = json!({"op": "add", "key": "counter", "delta": 1}).to_string();
    let headers = [&headers[..], &[("content-type", "application/json")]].concat();
    web.ask_with("POST", UPDATE, &headers, body.as_bytes()).expect("the server answers")
}

fn open_session(web: &mut Http) -> String {
    let opened = web.ask("POST", "/v1/sessions/default/default", b"").expect("answers");
    assert_eq!(opened.status / 100, 2, "{}", opened.text());
    let body = opened.json();
    body["session"].as_str().unwrap_or_else(|| panic!("no session in {body}")).to_string()
}

#[test]
fn a_retry_with_its_session_applies_once_also_after_a_crash() {
    let (_scratch, mut server) = fresh("retries");
    let mut web = http(&server);
    let session = open_session(&mut web);
    let first = add(&mut web, &session, 1);
    assert_eq!(first.status, 200, "{}", first.text());
    let again = add(&mut web, &session, 1);
    assert_eq!(again.json(), first.json(), "a retry is answered like the first attempt");
    assert_eq!(add(&mut web, &session, 2).status, 200);
    server.kill();
    let server = Server::must(&server.setup);
    let mut web = http(&server);
    let after = add(&mut web, &session, 1);
    assert_eq!(after.json(), first.json(), "a retry after a crash is answered like the first");
    assert_eq!(add(&mut web, &session, 2).status, 200);
    assert_eq!(add(&mut web, &session, 3).status, 200);
    let counter = resp(&server).say("GET counter").expect("answers");
    assert_eq!(counter.bytes(), Some(&b"3"[..]), "three requests, each applied once");
    let strange = add(&mut web, "999999999", 1);
    assert_eq!(strange.reason(), "session_expired", "{}", strange.text());
    let counter = resp(&server).say("GET counter").expect("answers");
    assert_eq!(counter.bytes(), Some(&b"3"[..]), "an unknown session applies nothing");
}

#[test]
fn a_number_behind_the_window_is_refused_and_not_applied() {
    let (_scratch, server) = fresh("window");
    let mut web = http(&server);
    let session = open_session(&mut web);
    let window = base::limits::SESSION_WINDOW;
    assert_eq!(add(&mut web, &session, 1).status, 200);
    assert_eq!(add(&mut web, &session, 2 + window).status, 200);
    let late = add(&mut web, &session, 1);
    assert_eq!(late.reason(), "request_expired", "{}", late.text());
    let counter = resp(&server).say("GET counter").expect("answers");
    assert_eq!(counter.bytes(), Some(&b"2"[..]));
}

#[test]
fn a_session_that_strangers_count_up_to_is_not_there() {
    let (_scratch, server) = fresh("guessed");
    let mut web = http(&server);
    let ids: Vec<u64> = (0..8).map(|_| open_session(&mut web).parse().expect("a number")).collect();
    let highest = ids.iter().max().expect("eight");
    // Eight draws of 64 bits are all below 2^48 once in 2^128; versions always were.
    assert!(*highest > 1 << 48, "{ids:?}");
    for guess in (0..64).chain(ids.iter().flat_map(|id| [id ^ 1, id.wrapping_add(2)])) {
        let answer = add(&mut web, &guess.to_string(), 1);
        assert_eq!(answer.reason(), "session_expired", "{guess}: {}", answer.text());
    }
}

#[test]
fn a_number_of_a_session_answers_its_update_alone_in_its_bucket_alone() {
    let (_scratch, mut server) = fresh("bound");
    let (mut web, mut redis) = (http(&server), resp(&server));
    let session = open_session(&mut web);
    let headers = |number| {
        let json = ("content-type", "application/json");
        [("x-credenza-session", session.as_str()), ("x-credenza-request", number), json]
    };
    let update = |web: &mut Http, bucket: &str, number, body: serde_json::Value| {
        let path = format!("/v1/buckets/default/{bucket}/update");
        web.ask_with("POST", &path, &headers(number), body.to_string().as_bytes()).expect("answers")
    };
    let secret = json!({"op": "replace", "key": "k", "wanted": "mine"});
    assert_eq!(redis.say("SET k secret").expect("answers"), RespReply::Simple("OK".into()));
    let first = update(&mut web, "default", "1", secret.clone());
    assert_eq!(first.json()["old"], "secret", "{}", first.text());
    let made = web.ask("PUT", "/v1/buckets/default/other", b"{}").expect("answers");
    assert_eq!(made.status, 201, "{}", made.text());
    for life in ["in the first life", "after a crash"] {
        // A used number permits neither a read nor a write of another request.
        let other = update(&mut web, "default", "1", json!({"op": "delete", "key": "k"}));
        let said = (other.status, other.reason());
        assert_eq!(said, (400, "retry_mismatch".into()), "{life}: {}", other.text());
        assert!(!other.text().contains("secret"), "{life}: {}", other.text());
        let foreign = update(&mut web, "other", "2", secret.clone());
        let said = (foreign.status, foreign.reason());
        assert_eq!(said, (400, "session_expired".into()), "{life}: {}", foreign.text());
        let path = format!("/v1/sessions/default/other/{session}");
        let closed = web.ask("DELETE", &path, b"").expect("answers");
        assert_eq!(closed.reason(), "session_expired", "{life}: {}", closed.text());
        assert_eq!(update(&mut web, "default", "1", secret.clone()).json(), first.json(), "{life}");
        // Redis' clients see the same session: the number is used there, too.
        let used = redis.say(&format!("CREDENZA.SESSION USE {session}")).expect("answers");
        assert_eq!(used, RespReply::Simple("OK".into()));
        let taken = redis.say("CREDENZA.RETRY 1 SET k other").expect("answers");
        let RespReply::Error(taken) = taken else { panic!("{life}: {taken:?}") };
        assert!(taken.starts_with("RETRYMISMATCH "), "{life}: {taken}");
        assert_eq!(redis.say("GET k").expect("answers").bytes(), Some(&b"mine"[..]), "{life}");
        server.kill();
        server = Server::must(&server.setup);
        (web, redis) = (http(&server), resp(&server));
    }
}

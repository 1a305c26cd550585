//! Every operation by HTTP, against the real node: its answer and its effect.

use super::{get, http, key_path, start_server};
use serde_json::{Value, json};
use systest::client::{Http, HttpResponse};

const BUCKET: &str = "/v1/buckets/default/default";

fn request(web: &mut Http, method: &str, path: &str, body: Value) -> HttpResponse {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    web.request(method, &format!("{BUCKET}{path}"), &body).expect("the server answers")
}

fn index_of(answer: &HttpResponse) -> u64 {
    let index = answer.header("x-credenza-index").and_then(|index| index.parse().ok());
    index.unwrap_or_else(|| panic!("no index: {:?} {}", answer.headers, answer.text()))
}

/// Returns operations in their order, with the answer of each.
fn operations() -> Vec<(Value, Value)> {
    let bytes = json!({"base64": "/wA="});
    let done = json!({"outcome": "done"});
    vec![
        (json!({"op": "nop"}), done.clone()),
        (json!({"op": "set", "key": "a", "value": "1"}), done.clone()),
        (json!({"op": "set", "key": bytes, "value": bytes}), done.clone()),
        (json!({"op": "get", "key": "none"}), json!({"outcome": "read", "read": {"row": null}})),
        (
            json!({"op": "exists", "keys": ["a", "a", "none", bytes]}),
            json!({"outcome": "read", "read": {"count": 3}}),
        ),
        (
            json!({"op": "test_and_set", "key": "a", "expected": "1", "wanted": "2"}),
            json!({"outcome": "old", "old": "1"}),
        ),
        (
            json!({"op": "test_and_set", "key": "a", "expected": "1", "wanted": "lost"}),
            json!({"outcome": "old", "old": "2"}),
        ),
        (
            json!({"op": "test_and_set", "key": "t", "expected": null, "wanted": "made"}),
            json!({"outcome": "old", "old": null}),
        ),
        (
            json!({"op": "replace", "key": "t", "wanted": null}),
            json!({"outcome": "old", "old": "made"}),
        ),
        (json!({"op": "confirm", "key": "a", "value": "2"}), done.clone()),
        (json!({"op": "assert", "key": "a", "expected": "2"}), done.clone()),
        (json!({"op": "assert", "key": "t", "expected": null}), done.clone()),
        (json!({"op": "assert_exists", "key": "a"}), done.clone()),
        (json!({"op": "set", "key": "p1", "value": "x"}), done.clone()),
        (json!({"op": "set", "key": "p2", "value": "y"}), done.clone()),
        (json!({"op": "assert_range", "prefix": "p", "keys": ["p2", "p1"]}), done.clone()),
        (
            json!({"op": "set_if", "key": "p1", "value": "z", "when": "absent"}),
            json!({"outcome": "swapped", "written": false, "old": "x"}),
        ),
        (
            json!({"op": "set_if", "key": "p1", "value": "z", "when": "present"}),
            json!({"outcome": "swapped", "written": true, "old": "x"}),
        ),
    ]
}

/// Returns operations on the rows that the first ones left.
fn more_operations() -> Vec<(Value, Value)> {
    vec![
        (json!({"op": "add", "key": "n", "delta": 40}), json!({"outcome": "number", "number": 40})),
        (json!({"op": "add", "key": "n", "delta": -2}), json!({"outcome": "number", "number": 38})),
        (
            json!({"op": "add_float", "key": "f", "delta": 1.5}),
            json!({"outcome": "text", "text": "1.5"}),
        ),
        (
            json!({"op": "append", "key": "p1", "value": "zz"}),
            json!({"outcome": "length", "length": 3}),
        ),
        (
            json!({"op": "set_range", "key": "p1", "offset": 4, "value": "!"}),
            json!({"outcome": "length", "length": 5}),
        ),
        (
            json!({"op": "rename", "from": "p1", "to": "q1"}),
            json!({"outcome": "applied", "applied": true}),
        ),
        (
            json!({"op": "copy", "from": "q1", "to": "q2", "when": "absent"}),
            json!({"outcome": "applied", "applied": true}),
        ),
        (
            json!({"op": "copy", "from": "q1", "to": "q2", "when": "absent"}),
            json!({"outcome": "applied", "applied": false}),
        ),
        (
            json!({"op": "expire", "key": "q2", "ttl_ms": 1_000_000}),
            json!({"outcome": "applied", "applied": true}),
        ),
        (
            json!({"op": "expire", "key": "q2", "ttl_ms": "never", "only_when": "has_none"}),
            json!({"outcome": "applied", "applied": false}),
        ),
        (json!({"op": "delete", "key": "p2"}), json!({"outcome": "existed", "existed": true})),
        (json!({"op": "delete", "key": "p2"}), json!({"outcome": "existed", "existed": false})),
        (
            json!({"op": "multi_get", "keys": ["none"], "require_all": false}),
            json!({"outcome": "read", "read": {"rows": [null]}}),
        ),
        (
            json!({"op": "range", "prefix": "p"}),
            json!({"outcome": "read", "read": {"entries": [], "more": false, "continue": null}}),
        ),
        (json!({"op": "delete_prefix", "prefix": "q"}), json!({"outcome": "count", "count": 2})),
        (
            json!({"op": "sequence", "mode": "each_alone", "steps": [
                {"op": "set", "key": "word", "value": "w"},
                {"op": "sequence", "steps": [{"op": "append", "key": "word", "value": "x"}]}]}),
            json!({"outcome": "steps", "steps": [{"outcome": "done"},
                {"outcome": "steps", "steps": [{"outcome": "length", "length": 2}]}]}),
        ),
    ]
}

/// Returns operations that must fail without an effect, with status and reason.
fn failures() -> Vec<(Value, u16, &'static str)> {
    vec![
        (json!({"op": "assert", "key": "a", "expected": "9"}), 409, "assertion_failed"),
        (json!({"op": "assert_exists", "key": "none"}), 409, "assertion_failed"),
        (json!({"op": "assert_range", "prefix": "w", "keys": []}), 409, "assertion_failed"),
        (json!({"op": "assert_version", "key": "a", "version": 999_999}), 409, "changed"),
        (json!({"op": "add", "key": "word", "delta": 1}), 400, "not_a_number"),
        (json!({"op": "add", "key": "n", "delta": i64::MAX}), 400, "not_a_number"),
        (json!({"op": "delete", "key": "none", "missing": "fails"}), 404, "not_found"),
        (json!({"op": "rename", "from": "none", "to": "x"}), 404, "not_found"),
        (json!({"op": "multi_get", "keys": ["none"], "require_all": true}), 404, "not_found"),
        (json!({"op": "key_count"}), 400, "malformed"),
        (json!({"op": "no_such_operation"}), 400, "malformed"),
        (json!({"op": "set", "key": "a"}), 400, "malformed"),
    ]
}

#[test]
fn http_operations_answer_equally_alone_and_in_a_sequence() {
    for as_step in [false, true] {
        let (_scratch, server) =
            start_server(if as_step { "operations-steps" } else { "operations" });
        let mut web = http(&server);
        let mut last = 0;
        for (operation, expected) in operations().into_iter().chain(more_operations()) {
            let answer = if as_step {
                request(&mut web, "POST", "/sequence", json!([operation]))
            } else {
                request(&mut web, "POST", "/update", operation.clone())
            };
            assert_eq!(answer.status, 200, "{operation}: {}", answer.text());
            let found = answer.json();
            let found = if as_step { found["steps"][0].clone() } else { found };
            assert_eq!(found, expected, "{operation}");
            assert!(index_of(&answer) >= last, "{operation}: the index goes back");
            last = index_of(&answer);
        }
        for (operation, status, reason) in failures() {
            let answer = if as_step {
                let steps = json!([{"op": "set", "key": "a", "value": "half"}, operation]);
                request(&mut web, "POST", "/sequence", steps)
            } else {
                request(&mut web, "POST", "/update", operation.clone())
            };
            assert_eq!((answer.status, answer.reason()), (status, reason.into()), "{operation}");
            assert_eq!(get(&mut web, b"a").body, b"2", "{operation} left something behind");
        }
        assert_eq!(get(&mut web, b"\xff\0").body, b"\xff\0");
        assert_eq!(get(&mut web, b"word").body, b"wx");
    }
}

#[test]
fn http_reads_honour_the_consistency_parameter() {
    let (_scratch, server) = start_server("freshness");
    let mut web = http(&server);
    let written = super::put(&mut web, b"k", b"v");
    let written_index = index_of(&written);
    for (consistency, status) in [
        ("consistent".to_string(), 200),
        ("dirty".into(), 200),
        (format!("at_least:{written_index}"), 200),
        (format!("at_least:{}", written_index + 1_000), 503),
        ("stale".into(), 400),
    ] {
        for path in ["/keys/k", "/range", "/stream", "/count"] {
            let path = format!("{path}?consistency={consistency}");
            let answer = request(&mut web, "GET", &path, Value::Null);
            assert_eq!(answer.status, status, "{path}: {}", answer.text());
            match status {
                200 => assert!(index_of(&answer) >= written_index, "{path}"),
                503 => assert_eq!(answer.reason(), "stale_replica", "{path}"),
                _ => {}
            }
        }
        for (path, body) in [
            ("/multi_get", json!({"keys": ["k", "none"]})),
            ("/read", json!({"op": "get", "key": "k"})),
        ] {
            let path = format!("{path}?consistency={consistency}");
            assert_eq!(request(&mut web, "POST", &path, body).status, status, "{path}");
        }
    }
    let rows = request(&mut web, "POST", "/multi_get", json!({"keys": ["k", "none"]})).json();
    assert_eq!((&rows["rows"][0]["value"], &rows["rows"][1]), (&json!("v"), &Value::Null));
    let all = json!({"keys": ["k", "none"], "require_all": true});
    let absent = request(&mut web, "POST", "/multi_get", all);
    assert_eq!((absent.status, absent.reason()), (404, "not_found".into()));
}

/// Returns the keys of a page, followed by `+` if there are more.
fn keys_of(answer: &HttpResponse) -> String {
    let json = answer.json();
    let entries = json["entries"].as_array().unwrap_or_else(|| panic!("{}", answer.text()));
    let keys: Vec<&str> = entries.iter().filter_map(|entry| entry["key"].as_str()).collect();
    keys.join(" ") + if json["more"] == true { " +" } else { "" }
}

#[test]
fn ranges_run_in_both_directions_with_any_bounds_and_paging() {
    let (_scratch, server) = start_server("ranges");
    let mut web = http(&server);
    for key in ["a", "b1", "b2", "b3", "c"] {
        super::put(&mut web, key.as_bytes(), key.as_bytes());
    }
    for (query, expected) in [
        ("", "a b1 b2 b3 c"),
        ("reverse=true", "c b3 b2 b1 a"),
        ("prefix=b", "b1 b2 b3"),
        ("prefix=b&reverse=true", "b3 b2 b1"),
        ("from=b1&to=b3", "b1 b2"),
        ("from=b1&to=b3&from_exclusive=true&to_inclusive=true", "b2 b3"),
        ("from=b1&to=b3&reverse=true", "b2 b1"),
        ("from=c&to=a", ""),
        ("from=b2&to=b2", ""),
        ("from=b2&to=b2&to_inclusive=true", "b2"),
        ("prefix=b&limit=2", "b1 b2 +"),
        ("prefix=b&limit=2&after=b2", "b3"),
        ("prefix=b&limit=2&reverse=true", "b3 b2 +"),
        ("prefix=b&limit=2&reverse=true&after=b2", "b1"),
        ("prefix=b&limit=3", "b1 b2 b3"),
        ("prefix=b&after=a", "b1 b2 b3"),
        ("prefix=b&after=zzz", ""),
        ("prefix=%ff", ""),
    ] {
        let answer = request(&mut web, "GET", &format!("/range?{query}"), Value::Null);
        assert_eq!(keys_of(&answer), expected, "{query}: {}", answer.text());
        let first = &answer.json()["entries"][0];
        assert!(first.is_null() || first["value"] == first["key"], "{query}: {first}");
        if !query.contains("limit") {
            let lines = request(&mut web, "GET", &format!("/stream?{query}"), Value::Null).text();
            let lines: Vec<Value> =
                lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
            let keys: Vec<&str> = lines.iter().filter_map(|line| line["key"].as_str()).collect();
            assert_eq!(keys.join(" "), expected, "streamed {query}");
        }
    }
    let keys_only = request(&mut web, "GET", "/range?want=keys&limit=1", Value::Null).json();
    assert_eq!(keys_only["entries"][0], json!({"key": "a"}));
    let deleted = request(&mut web, "POST", "/delete_prefix", json!({"prefix": "b"}));
    assert_eq!(deleted.json()["count"], 3);
    assert_eq!(request(&mut web, "GET", "/count", Value::Null).json()["count"], 2);
}

#[test]
fn conditional_requests_honour_etags() {
    let (_scratch, server) = start_server("conditions");
    let mut web = http(&server);
    let path = key_path(b"c");
    let mut request = |method: &str, headers: &[(&str, &str)], body: &str| {
        web.request_with_headers(method, &path, headers, body.as_bytes()).expect("answers")
    };
    assert_eq!(request("PUT", &[("if-match", "*")], "x").status, 412);
    assert_eq!(request("PUT", &[("if-none-match", "*")], "one").status, 204);
    assert_eq!(request("PUT", &[("if-none-match", "*")], "two").status, 412);
    let response = request("GET", &[], "");
    let tag = response.header("etag").expect("a version").to_string();
    assert_eq!((response.status, response.text()), (200, "one".into()));
    assert_eq!(request("GET", &[("if-none-match", &tag)], "").status, 304);
    assert_eq!(request("HEAD", &[("if-match", &tag)], "").status, 200);
    assert_eq!(request("PUT", &[("if-match", &tag)], "three").status, 204);
    assert_eq!(request("PUT", &[("if-match", &tag)], "four").status, 412);
    assert_eq!(request("DELETE", &[("if-match", &tag)], "").status, 412);
    assert_eq!(request("GET", &[], "").text(), "three");
    let both_headers = [("if-match", "*"), ("if-none-match", "*")];
    assert_eq!(request("PUT", &both_headers, "five").status, 412);
    let current_tag = request("GET", &[], "").header("etag").expect("a version").to_string();
    assert_ne!(current_tag, tag);
    assert_eq!(request("DELETE", &[("if-match", &current_tag)], "").status, 204);
    assert_eq!(request("DELETE", &[("if-match", "*")], "").status, 412);
    assert_eq!(request("DELETE", &[], "").status, 404);
}

#[test]
fn rows_report_remaining_ttl_and_expire() {
    let (_scratch, server) = start_server("expiry");
    let mut web = http(&server);
    let path = key_path(b"short");
    let put = |web: &mut Http, ttl: &str| {
        let answer = web.request("PUT", &format!("{path}?ttl_ms={ttl}"), b"x").expect("answers");
        assert_eq!(answer.status, 204, "{ttl}: {}", answer.text());
        let remaining = get(web, b"short").header("x-credenza-expires-in-ms").map(String::from);
        remaining.and_then(|remaining| remaining.parse::<u64>().ok())
    };
    assert!(put(&mut web, "1000000").is_some_and(|remaining| (1..=1_000_000).contains(&remaining)));
    assert!(put(&mut web, "keep").is_some());
    assert_eq!(put(&mut web, "never"), None);
    web.request("PUT", &format!("{path}?ttl_ms=100"), b"x").expect("answers");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while get(&mut web, b"short").status != 404 {
        assert!(std::time::Instant::now() < deadline, "a row outlives its time");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(request(&mut web, "GET", "/count", Value::Null).json()["count"], 0);
}

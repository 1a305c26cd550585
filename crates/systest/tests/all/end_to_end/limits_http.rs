//! Every limit that a request can reach: one below, exactly at, one above; a refused request leaves
//! no trace in the log.

use super::{fresh, http, resp};
use base::limits::{
    FRAME_BYTES_MAX, HTTP_HEADER_BYTES_MAX, HTTP_HEADERS_MAX, HTTP_LINE_BYTES_MAX,
    HTTP_SMALL_BODY_BYTES_MAX, KEYS_PER_READ_MAX, PAGE_BYTES_MAX, PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX,
    PIPELINE_DEPTH_MAX, SEQUENCE_STEPS_MAX, TTL_MS_MAX, UPDATE_BYTES_MAX,
};
use std::io::Write as _;
use systest::client::{Http, HttpResponse, RespReply};
use systest::rigs::{Scratch, wait};
use systest::server::{Server, Setup};

const BUCKET: &str = "/v1/buckets/default/default";

fn post(server: &Server, path: &str, body: &str) -> HttpResponse {
    let octets = [("content-type", "application/json")];
    let answer = http(server).ask_with("POST", path, &octets, body.as_bytes());
    answer.unwrap_or_else(|error| panic!("{path} with {} bytes: {error}", body.len()))
}

/// Returns the index of the last decided value of each group.
fn decided(server: &Server) -> Vec<u64> {
    // The ring is the last update that a fresh node makes by itself.
    wait("the first ring", || {
        let ring = http(server).ask("GET", "/v1/cluster/ring", b"").expect("answers").json();
        let owners = ring["owners"].as_array().map_or(0, Vec::len);
        if owners > 0 { Ok(()) } else { Err(ring.to_string()) }
    });
    let status = http(server).ask("GET", "/status", b"").expect("answers").json();
    let groups = status["groups"].as_array().expect("groups");
    groups.iter().filter_map(|group| group["decided"].as_u64()).collect()
}

/// Returns the sizes around a limit; true for those that are accepted.
fn around(limit: usize) -> [(usize, bool); 3] {
    [(limit - 1, true), (limit, true), (limit + 1, false)]
}

fn check(what: &str, size: usize, taken: bool, answer: &HttpResponse, refusal: (u16, &str)) {
    if taken {
        assert_eq!(answer.status / 100, 2, "{what} {size}: {}", answer.text());
    } else {
        let seen = (answer.status, answer.reason());
        assert_eq!(seen, (refusal.0, refusal.1.into()), "{what} {size}: {}", answer.text());
    }
}

#[test]
fn steps_and_bytes_of_a_sequence_end_exactly_at_their_limits() {
    let (_scratch, server) = fresh("limit-sequence");
    let sequence = format!("{BUCKET}/sequence");
    for (steps, taken) in around(SEQUENCE_STEPS_MAX) {
        let before = decided(&server);
        let nops = vec![r#"{"op":"nop"}"#; steps - 1].join(",");
        let body = format!(r#"[{{"op":"set","key":"n","value":"{steps}"}},{nops}]"#);
        let answer = post(&server, &sequence, &body);
        check("steps", steps, taken, &answer, (413, "too_large"));
        assert_eq!(decided(&server) == before, !taken, "a refusal is in the log");
    }
    // Nested steps count as others do.
    let half = vec![r#"{"op":"nop"}"#; SEQUENCE_STEPS_MAX / 2].join(",");
    let body = format!(r#"[{half},{{"op":"sequence","steps":[{half}]}}]"#);
    check("nested steps", 0, false, &post(&server, &sequence, &body), (413, "too_large"));
    // Keys k0 to k3 and their values count; a value has at most 8 MiB.
    for (bytes, taken) in around(UPDATE_BYTES_MAX) {
        let before = decided(&server);
        let value = "v".repeat(bytes / 5);
        let last = "v".repeat(bytes / 5 + bytes % 5 - 10);
        let set = |n, value| format!(r#"{{"op":"set","key":"k{n}","value":"{value}"}}"#);
        let steps: Vec<String> =
            (0..5).map(|n| set(n, if n < 4 { &value } else { &last })).collect();
        let answer = post(&server, &sequence, &format!("[{}]", steps.join(",")));
        check("update bytes", bytes, taken, &answer, (413, "too_large"));
        assert_eq!(decided(&server) == before, !taken, "a refusal is in the log");
    }
}

#[test]
fn a_hundred_thousand_keys_in_one_sequence_are_written_together() {
    let (_scratch, server) = fresh("limit-keys-of-sequence");
    let set = |n: usize| format!(r#"{{"op":"set","key":"key{n:06}","value":"{n}"}}"#);
    let steps: Vec<String> = (0..100_000).map(set).collect();
    let answer = post(&server, &format!("{BUCKET}/sequence"), &format!("[{}]", steps.join(",")));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let count = http(&server).ask("GET", &format!("{BUCKET}/count"), b"").expect("answers");
    assert_eq!(count.json()["count"], 100_000);
    assert_eq!(resp(&server).say("DBSIZE").expect("answers"), RespReply::Number(100_000));
}

#[test]
fn keys_of_one_read_end_exactly_at_their_limit() {
    let (_scratch, server) = fresh("limit-multi-get");
    let before = decided(&server);
    for (keys, taken) in around(KEYS_PER_READ_MAX) {
        let list = vec![r#""k""#; keys].join(",");
        let answer =
            post(&server, &format!("{BUCKET}/multi_get"), &format!(r#"{{"keys":[{list}]}}"#));
        check("keys", keys, taken, &answer, (413, "too_large"));
        let body = format!(r#"{{"op":"exists","keys":[{list}]}}"#);
        let answer = post(&server, &format!("{BUCKET}/read"), &body);
        check("keys", keys, taken, &answer, (413, "too_large"));
    }
    assert_eq!(decided(&server), before, "reads are no part of the log");
}

#[test]
fn bodies_end_exactly_at_their_limits() {
    let (_scratch, server) = fresh("limit-bodies");
    let before = decided(&server);
    let padded = |length: usize| format!("[{}]", " ".repeat(length - 2));
    for (length, taken) in around(FRAME_BYTES_MAX) {
        let answer = post(&server, &format!("{BUCKET}/multi_get"), &padded(length));
        // A list is not a multi_get: the body was read, and is malformed.
        let refusal = if taken { (400, "malformed") } else { (413, "too_large") };
        check("body", length, false, &answer, refusal);
    }
    assert_eq!(decided(&server), before);
    for (length, taken) in around(HTTP_SMALL_BODY_BYTES_MAX) {
        let body = format!("{{{}}}", " ".repeat(length - 2));
        let mut web = http(&server);
        let answer = web.ask("PATCH", BUCKET, body.as_bytes()).expect("answers");
        check("properties", length, taken, &answer, (413, "too_large"));
    }
}

/// Sends a head in pieces, so that its end is not in the first one.
fn in_pieces(web: &mut Http, head: &str, step: usize) -> HttpResponse {
    for piece in head.as_bytes().chunks(step) {
        if web.send(piece).is_err() {
            break;
        }
    }
    web.receive(false).expect("it answers before it closes")
}

#[test]
fn heads_end_exactly_at_their_limits() {
    let (_scratch, server) = fresh("limit-heads");
    for step in [usize::MAX, 60_000, 9_001] {
        for (length, taken) in around(HTTP_LINE_BYTES_MAX) {
            let begin = format!("GET {BUCKET}/range?prefix=");
            let end = " HTTP/1.1\r\n";
            // Percent-encoded, so that the decoded key is not too long for a range.
            let room = length - begin.len() - end.len();
            let part = |name: &str, bytes: usize| format!("&{name}={}", "%61".repeat(bytes / 3));
            let third = 3 * 32_000;
            let three = part("from", third) + &part("to", third) + &part("after", third);
            let rest = room - three.len();
            let head = format!("{begin}{}{three}{end}host: localhost\r\n\r\n", "a".repeat(rest));
            let answer = in_pieces(&mut http(&server), &head, step);
            check("line", length, taken, &answer, (414, "too_large"));
        }
        for (length, taken) in around(HTTP_HEADER_BYTES_MAX) {
            let begin = "host: localhost\r\nx-long: ";
            let value = "v".repeat(length - begin.len() - 4);
            let head = format!("GET /live HTTP/1.1\r\n{begin}{value}\r\n\r\n");
            let answer = in_pieces(&mut http(&server), &head, step);
            check("headers", length, taken, &answer, (431, "too_large"));
        }
        for (count, taken) in around(HTTP_HEADERS_MAX) {
            let more = "x-many: 1\r\n".repeat(count - 1);
            let head = format!("GET /live HTTP/1.1\r\nhost: localhost\r\n{more}\r\n");
            let answer = in_pieces(&mut http(&server), &head, step);
            check("header count", count, taken, &answer, (431, "too_large"));
        }
    }
}

#[test]
fn pages_end_exactly_at_their_limits() {
    let (_scratch, server) = fresh("limit-pages");
    let mut web = http(&server);
    let page = |web: &mut Http, query: &str| {
        web.ask("GET", &format!("{BUCKET}/range?{query}"), b"").expect("answers")
    };
    for (rows, taken) in around(PAGE_ROWS_MAX) {
        let answer = page(&mut web, &format!("limit={rows}"));
        check("rows", rows, taken, &answer, (400, "malformed"));
        let body = format!(r#"{{"op":"range","limit":{rows}}}"#);
        let answer = post(&server, &format!("{BUCKET}/read"), &body);
        check("rows", rows, taken, &answer, (400, "malformed"));
    }
    let set = |n: usize| format!(r#"{{"op":"set","key":"small{n:06}","value":"x"}}"#);
    let steps: Vec<String> = (0..=PAGE_ROWS_MAX).map(set).collect();
    let filled = post(&server, &format!("{BUCKET}/sequence"), &format!("[{}]", steps.join(",")));
    assert_eq!(filled.status, 200, "{}", filled.text());
    let count = |answer: HttpResponse| {
        let json = answer.json();
        let entries = json["entries"].as_array().map_or(0, Vec::len);
        (entries, json["more"].as_bool())
    };
    assert_eq!(count(page(&mut web, "prefix=small")), (PAGE_ROWS_DEFAULT, Some(true)));
    let most = page(&mut web, &format!("prefix=small&want=keys&limit={PAGE_ROWS_MAX}"));
    assert_eq!(count(most), (PAGE_ROWS_MAX, Some(true)));
    // A page ends after the row that reaches the limit of bytes.
    let value = vec![b'v'; PAGE_BYTES_MAX / 4];
    for n in 0..6 {
        assert_eq!(super::put(&mut web, format!("large{n}").as_bytes(), &value).status, 204);
    }
    let first = page(&mut web, "prefix=large");
    let json = first.json();
    assert_eq!(count(first), (4, Some(true)));
    assert_eq!(json["continue"], "large3");
    assert_eq!(count(page(&mut web, "prefix=large&after=large3")), (2, Some(false)));
}

#[test]
fn pages_of_buckets_end_exactly_at_their_limit() {
    let (_scratch, server) = fresh("limit-bucket-pages");
    for (limit, taken) in around(1_000) {
        let path = format!("/v1/buckets?limit={limit}");
        let answer = http(&server).ask("GET", &path, b"").expect("answers");
        check("buckets", limit, taken, &answer, (400, "malformed"));
    }
}

#[test]
fn times_to_live_end_exactly_at_their_limit() {
    let (_scratch, server) = fresh("limit-ttl");
    let mut web = http(&server);
    for (ms, taken) in [(TTL_MS_MAX - 1, true), (TTL_MS_MAX, true), (TTL_MS_MAX + 1, false)] {
        let before = decided(&server);
        let path = format!("{}?ttl_ms={ms}", super::key_path(b"short"));
        let answer = web.ask("PUT", &path, b"x").expect("answers");
        check("ttl", ms as usize, taken, &answer, (400, "malformed"));
        assert_eq!(decided(&server) == before, !taken);
    }
}

#[test]
fn a_pipeline_of_any_depth_is_answered_in_order() {
    let (_scratch, server) = fresh("limit-pipeline");
    let mut web = http(&server);
    let depth = PIPELINE_DEPTH_MAX + 1;
    let host = format!("host: {}\r\ncontent-length:", server.address);
    let puts: String = (0..depth)
        .map(|n| format!("PUT {BUCKET}/keys/p HTTP/1.1\r\n{host} 5\r\n\r\n{n:05}"))
        .collect();
    // The requests are written by another thread: the server reads no more while its answers are
    // not read.
    let mut sender = web.sender().expect("a socket has two ends");
    let sent = std::thread::spawn(move || sender.write_all(puts.as_bytes()));
    let mut last = 0;
    for n in 0..depth {
        let answer = web.receive(false).expect("each is answered");
        assert_eq!(answer.status, 204, "{n}");
        let index = answer.header("x-credenza-index").and_then(|index| index.parse().ok());
        let index: u64 = index.expect("an index");
        assert!(index >= last, "{n}: {index} after {last}");
        last = index;
    }
    sent.join().expect("it does not panic").expect("it takes all");
    let value = super::get(&mut web, b"p").body;
    assert_eq!(value, format!("{:05}", depth - 1).as_bytes());
}

#[test]
fn one_connection_too_many_is_told_so_at_both_doors() {
    let scratch = Scratch::new("limit-connections");
    let most = 8;
    let setup = Setup::on(&scratch.join("data")).with(&["--connections-max", "8"]);
    let server = Server::must(&setup);
    let mut kept: Vec<_> = (0..most).map(|_| http(&server)).collect();
    for (n, web) in kept.iter_mut().enumerate() {
        assert_eq!(web.ask("GET", "/live", b"").expect("answers").status, 200, "{n}");
    }
    let refused = http(&server).ask("GET", "/live", b"").expect("it is told so");
    check("connections", most + 1, false, &refused, (503, "too_many"));
    assert!(refused.text().contains("8 connections"), "{}", refused.text());
    let words = resp(&server).say("PING").expect("it is told so");
    assert!(words.error().is_some_and(|error| error.contains("(8)")), "{words:?}");
    for (n, web) in kept.iter_mut().enumerate() {
        assert_eq!(web.ask("GET", "/live", b"").expect("answers").status, 200, "{n}");
    }
    kept.pop();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while http(&server).ask("GET", "/live", b"").map(|answer| answer.status).unwrap_or(0) != 200 {
        assert!(std::time::Instant::now() < until, "a place is never given back");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn a_hundred_times_a_limit_is_refused_by_its_claim_alone() {
    let (_scratch, server) = fresh("limit-hundredfold");
    let before = decided(&server);
    let claim = |method: &str, path: &str, bytes: usize| {
        let mut web = http(&server);
        let head = format!(
            "{method} {BUCKET}{path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: \
             application/json\r\ncontent-length: {bytes}\r\n\r\n"
        );
        web.send(head.as_bytes()).expect("it listens");
        web.receive(false).expect("it answers before the body")
    };
    let value = claim("PUT", "/keys/a", 100 * base::limits::VALUE_BYTES_MAX);
    check("value", 100, false, &value, (413, "too_large"));
    for path in ["/sequence", "/update", "/multi_get", "/read", "/delete_prefix"] {
        let body = claim("POST", path, 100 * FRAME_BYTES_MAX);
        check(path, 100, false, &body, (413, "too_large"));
    }
    let key = "k".repeat(100 * base::limits::KEY_BYTES_MAX);
    let head = format!("GET {BUCKET}/keys/{key} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let answer = in_pieces(&mut http(&server), &head, usize::MAX);
    check("key", 100, false, &answer, (414, "too_large"));
    assert_eq!(decided(&server), before);
}

//! Every limit that a request can reach: one below, exactly at, one above; a refused request leaves
//! no trace in the log.

use super::{http, resp, start_server};
use base::limits::{
    FRAME_BYTES_MAX, HTTP_HEADER_BYTES_MAX, HTTP_HEADERS_MAX, HTTP_LINE_BYTES_MAX,
    HTTP_SMALL_BODY_BYTES_MAX, IMPORT_CHUNK_BYTES_MAX, KEYS_PER_READ_MAX, PAGE_BYTES_MAX,
    PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX, PIPELINE_DEPTH_MAX, SEQUENCE_STEPS_MAX, TTL_MS_MAX,
    UPDATE_BYTES_MAX,
};
use std::io::Write as _;
use systest::client::{Http, HttpResponse, RespReply};
use systest::cluster::wait_until;
use systest::environment::Scratch;
use systest::server::{Server, Setup};

const BUCKET: &str = "/v1/buckets/default/default";

fn post(server: &Server, path: &str, body: &str) -> HttpResponse {
    let headers = [("content-type", "application/json")];
    let answer = http(server).request_with_headers("POST", path, &headers, body.as_bytes());
    answer.unwrap_or_else(|error| panic!("{path} with {} bytes: {error}", body.len()))
}

/// Returns the index of the last decided value of each group.
fn decided_indexes(server: &Server) -> Vec<u64> {
    // The ring is the last update that a new node makes without a request.
    wait_until("the first ring", || {
        let ring = http(server).request("GET", "/v1/cluster/ring", b"").expect("answers").json();
        let owners = ring["owners"].as_array().map_or(0, Vec::len);
        if owners > 0 { Ok(()) } else { Err(ring.to_string()) }
    });
    let status = http(server).request("GET", "/status", b"").expect("answers").json();
    let groups = status["groups"].as_array().expect("groups");
    groups.iter().filter_map(|group| group["decided"].as_u64()).collect()
}

/// Returns the sizes around a limit; true for those that are accepted.
fn sizes_around(limit: usize) -> [(usize, bool); 3] {
    [(limit - 1, true), (limit, true), (limit + 1, false)]
}

fn check_response(
    limit_name: &str,
    size: usize,
    is_accepted: bool,
    answer: &HttpResponse,
    refusal: (u16, &str),
) {
    if is_accepted {
        assert_eq!(answer.status / 100, 2, "{limit_name} {size}: {}", answer.text());
    } else {
        let status_and_reason = (answer.status, answer.reason());
        assert_eq!(
            status_and_reason,
            (refusal.0, refusal.1.into()),
            "{limit_name} {size}: {}",
            answer.text()
        );
    }
}

#[test]
fn sequence_step_and_byte_limits_are_exact() {
    let (_scratch, server) = start_server("limit-sequence");
    let sequence = format!("{BUCKET}/sequence");
    for (steps, is_accepted) in sizes_around(SEQUENCE_STEPS_MAX) {
        let before = decided_indexes(&server);
        let nops = vec![r#"{"op":"nop"}"#; steps - 1].join(",");
        let body = format!(r#"[{{"op":"set","key":"n","value":"{steps}"}},{nops}]"#);
        let answer = post(&server, &sequence, &body);
        check_response("steps", steps, is_accepted, &answer, (413, "too_large"));
        assert_eq!(decided_indexes(&server) == before, !is_accepted, "a refusal is in the log");
    }
    // Nested steps count as others do.
    let half = vec![r#"{"op":"nop"}"#; SEQUENCE_STEPS_MAX / 2].join(",");
    let body = format!(r#"[{half},{{"op":"sequence","steps":[{half}]}}]"#);
    check_response("nested steps", 0, false, &post(&server, &sequence, &body), (413, "too_large"));
    // Keys k0 to k3 and their values count; a value has at most 8 MiB.
    for (bytes, is_accepted) in sizes_around(UPDATE_BYTES_MAX) {
        let before = decided_indexes(&server);
        let value = "v".repeat(bytes / 5);
        let last = "v".repeat(bytes / 5 + bytes % 5 - 10);
        let set = |n, value| format!(r#"{{"op":"set","key":"k{n}","value":"{value}"}}"#);
        let steps: Vec<String> =
            (0..5).map(|n| set(n, if n < 4 { &value } else { &last })).collect();
        let answer = post(&server, &sequence, &format!("[{}]", steps.join(",")));
        check_response("update bytes", bytes, is_accepted, &answer, (413, "too_large"));
        assert_eq!(decided_indexes(&server) == before, !is_accepted, "a refusal is in the log");
    }
}

#[test]
fn sequence_of_hundred_thousand_keys_is_written_whole() {
    let (_scratch, server) = start_server("limit-keys-of-sequence");
    let set = |n: usize| format!(r#"{{"op":"set","key":"key{n:06}","value":"{n}"}}"#);
    let steps: Vec<String> = (0..100_000).map(set).collect();
    let answer = post(&server, &format!("{BUCKET}/sequence"), &format!("[{}]", steps.join(",")));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let count = http(&server).request("GET", &format!("{BUCKET}/count"), b"").expect("answers");
    assert_eq!(count.json()["count"], 100_000);
    assert_eq!(resp(&server).call_line("DBSIZE").expect("answers"), RespReply::Number(100_000));
}

#[test]
fn keys_per_read_limit_is_exact() {
    let (_scratch, server) = start_server("limit-multi-get");
    let before = decided_indexes(&server);
    for (keys, is_accepted) in sizes_around(KEYS_PER_READ_MAX) {
        let list = vec![r#""k""#; keys].join(",");
        let answer =
            post(&server, &format!("{BUCKET}/multi_get"), &format!(r#"{{"keys":[{list}]}}"#));
        check_response("keys", keys, is_accepted, &answer, (413, "too_large"));
        let body = format!(r#"{{"op":"exists","keys":[{list}]}}"#);
        let answer = post(&server, &format!("{BUCKET}/read"), &body);
        check_response("keys", keys, is_accepted, &answer, (413, "too_large"));
    }
    assert_eq!(decided_indexes(&server), before, "reads are no part of the log");
}

#[test]
fn request_body_limits_are_exact() {
    let (_scratch, server) = start_server("limit-bodies");
    let before = decided_indexes(&server);
    let padded = |length: usize| format!("[{}]", " ".repeat(length - 2));
    for (length, is_accepted) in sizes_around(FRAME_BYTES_MAX) {
        let answer = post(&server, &format!("{BUCKET}/multi_get"), &padded(length));
        // A list is not a multi_get: the body was read, and is malformed.
        let refusal = if is_accepted { (400, "malformed") } else { (413, "too_large") };
        check_response("body", length, false, &answer, refusal);
    }
    assert_eq!(decided_indexes(&server), before);
    for (length, is_accepted) in sizes_around(HTTP_SMALL_BODY_BYTES_MAX) {
        let body = format!("{{{}}}", " ".repeat(length - 2));
        let mut web = http(&server);
        let answer = web.request("PATCH", BUCKET, body.as_bytes()).expect("answers");
        check_response("properties", length, is_accepted, &answer, (413, "too_large"));
    }
}

#[test]
fn import_chunk_size_limit_is_exact() {
    let (_scratch, server) = start_server("limit-chunks");
    let octets = [("content-type", "application/octet-stream")];
    for (length, is_accepted) in sizes_around(IMPORT_CHUNK_BYTES_MAX) {
        // A head of 20 bytes, and three records with 9 bytes beside their values.
        let (part, rest) = ((length - 20 - 27) / 3, (length - 20 - 27) % 3);
        let value = vec![b'v'; part + rest];
        let records = [(&b"a"[..], &value[..]), (b"b", &value[..part]), (b"c", &value[..part])];
        let chunk = base::import_chunk::encode(records.into_iter(), length);
        assert_eq!(chunk.len(), length);
        let mut web = http(&server);
        let answer = web.request_with_headers("POST", &format!("{BUCKET}/import"), &octets, &chunk);
        let answer = answer.expect("answers");
        check_response("chunk", length, is_accepted, &answer, (413, "too_large"));
    }
    let count = http(&server).request("GET", &format!("{BUCKET}/count"), b"").expect("answers");
    assert_eq!(count.json()["count"], 3);
}

/// Sends a head in pieces, so that its end is not in the first one.
fn send_in_pieces(web: &mut Http, head: &str, step: usize) -> HttpResponse {
    for piece in head.as_bytes().chunks(step) {
        if web.send(piece).is_err() {
            break;
        }
    }
    web.receive(false).expect("it answers before it closes")
}

#[test]
fn request_line_and_header_limits_are_exact() {
    let (_scratch, server) = start_server("limit-heads");
    for step in [usize::MAX, 60_000, 9_001] {
        for (length, is_accepted) in sizes_around(HTTP_LINE_BYTES_MAX) {
            let begin = format!("GET {BUCKET}/range?prefix=");
            let end = " HTTP/1.1\r\n";
            // Percent-encoded, so that the decoded key is not too long for a range.
            let prefix_and_query_bytes = length - begin.len() - end.len();
            let parameter =
                |name: &str, bytes: usize| format!("&{name}={}", "%61".repeat(bytes / 3));
            let parameter_bytes = 3 * 32_000;
            let parameters = parameter("from", parameter_bytes)
                + &parameter("to", parameter_bytes)
                + &parameter("after", parameter_bytes);
            let rest = prefix_and_query_bytes - parameters.len();
            let head =
                format!("{begin}{}{parameters}{end}host: localhost\r\n\r\n", "a".repeat(rest));
            let answer = send_in_pieces(&mut http(&server), &head, step);
            check_response("line", length, is_accepted, &answer, (414, "too_large"));
        }
        for (length, is_accepted) in sizes_around(HTTP_HEADER_BYTES_MAX) {
            let begin = "host: localhost\r\nx-long: ";
            let value = "v".repeat(length - begin.len() - 4);
            let head = format!("GET /live HTTP/1.1\r\n{begin}{value}\r\n\r\n");
            let answer = send_in_pieces(&mut http(&server), &head, step);
            check_response("headers", length, is_accepted, &answer, (431, "too_large"));
        }
        for (count, is_accepted) in sizes_around(HTTP_HEADERS_MAX) {
            let more = "x-many: 1\r\n".repeat(count - 1);
            let head = format!("GET /live HTTP/1.1\r\nhost: localhost\r\n{more}\r\n");
            let answer = send_in_pieces(&mut http(&server), &head, step);
            check_response("header count", count, is_accepted, &answer, (431, "too_large"));
        }
    }
}

#[test]
fn range_page_row_and_byte_limits_are_exact() {
    let (_scratch, server) = start_server("limit-pages");
    let mut web = http(&server);
    let page = |web: &mut Http, query: &str| {
        web.request("GET", &format!("{BUCKET}/range?{query}"), b"").expect("answers")
    };
    for (rows, is_accepted) in sizes_around(PAGE_ROWS_MAX) {
        let answer = page(&mut web, &format!("limit={rows}"));
        check_response("rows", rows, is_accepted, &answer, (400, "malformed"));
        let body = format!(r#"{{"op":"range","limit":{rows}}}"#);
        let answer = post(&server, &format!("{BUCKET}/read"), &body);
        check_response("rows", rows, is_accepted, &answer, (400, "malformed"));
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
    let largest_page = page(&mut web, &format!("prefix=small&want=keys&limit={PAGE_ROWS_MAX}"));
    assert_eq!(count(largest_page), (PAGE_ROWS_MAX, Some(true)));
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
fn bucket_list_page_limit_is_exact() {
    let (_scratch, server) = start_server("limit-bucket-pages");
    for (limit, is_accepted) in sizes_around(1_000) {
        let path = format!("/v1/buckets?limit={limit}");
        let answer = http(&server).request("GET", &path, b"").expect("answers");
        check_response("buckets", limit, is_accepted, &answer, (400, "malformed"));
    }
}

#[test]
fn ttl_limit_is_exact() {
    let (_scratch, server) = start_server("limit-ttl");
    let mut web = http(&server);
    for (ms, is_accepted) in [(TTL_MS_MAX - 1, true), (TTL_MS_MAX, true), (TTL_MS_MAX + 1, false)] {
        let before = decided_indexes(&server);
        let path = format!("{}?ttl_ms={ms}", super::key_path(b"short"));
        let answer = web.request("PUT", &path, b"x").expect("answers");
        check_response("ttl", ms as usize, is_accepted, &answer, (400, "malformed"));
        assert_eq!(decided_indexes(&server) == before, !is_accepted);
    }
}

#[test]
fn http_pipeline_beyond_depth_limit_is_answered_in_order() {
    let (_scratch, server) = start_server("limit-pipeline");
    let mut web = http(&server);
    let depth = PIPELINE_DEPTH_MAX + 1;
    let host = format!("host: {}\r\ncontent-length:", server.address);
    let puts: String = (0..depth)
        .map(|n| format!("PUT {BUCKET}/keys/p HTTP/1.1\r\n{host} 5\r\n\r\n{n:05}"))
        .collect();
    // The requests are written by another thread: the server reads no more while its answers are
    // not read.
    let mut sender = web.sender().expect("a socket has two ends");
    let writer = std::thread::spawn(move || sender.write_all(puts.as_bytes()));
    let mut last = 0;
    for n in 0..depth {
        let answer = web.receive(false).expect("each is answered");
        assert_eq!(answer.status, 204, "{n}");
        let index = answer.header("x-credenza-index").and_then(|index| index.parse().ok());
        let index: u64 = index.expect("an index");
        assert!(index >= last, "{n}: {index} after {last}");
        last = index;
    }
    writer.join().expect("it does not panic").expect("it takes all");
    let value = super::get(&mut web, b"p").body;
    assert_eq!(value, format!("{:05}", depth - 1).as_bytes());
}

#[test]
fn connection_above_the_limit_is_refused_over_http_and_resp() {
    let scratch = Scratch::new("limit-connections");
    let limit = 8;
    let setup = Setup::new(&scratch.join("data")).with_args(&["--connections-max", "8"]);
    let server = Server::must_start(&setup);
    let mut connections: Vec<_> = (0..limit).map(|_| http(&server)).collect();
    for (n, web) in connections.iter_mut().enumerate() {
        assert_eq!(web.request("GET", "/live", b"").expect("answers").status, 200, "{n}");
    }
    let live = http(&server).request("GET", "/live", b"").expect("health is always told");
    assert_eq!(live.status, 200);
    let path = "/v1/buckets/default/default/keys/k";
    let refused = http(&server).request("GET", path, b"").expect("it is told so");
    check_response("connections", limit + 1, false, &refused, (503, "too_many"));
    assert!(refused.text().contains("8 connections"), "{}", refused.text());
    let reply = resp(&server).call_line("PING").expect("it is told so");
    assert!(reply.error().is_some_and(|error| error.contains("(8)")), "{reply:?}");
    for (n, web) in connections.iter_mut().enumerate() {
        assert_eq!(web.request("GET", "/live", b"").expect("answers").status, 200, "{n}");
    }
    connections.pop();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while http(&server).request("GET", path, b"").map(|answer| answer.status).unwrap_or(0) != 404 {
        assert!(std::time::Instant::now() < deadline, "a place is never given back");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn request_of_hundred_times_a_limit_is_refused_without_log_entry() {
    let (_scratch, server) = start_server("limit-hundredfold");
    let before = decided_indexes(&server);
    let send_claim = |method: &str, path: &str, bytes: usize| {
        let mut web = http(&server);
        let head = format!(
            "{method} {BUCKET}{path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: \
             application/json\r\ncontent-length: {bytes}\r\n\r\n"
        );
        web.send(head.as_bytes()).expect("it listens");
        web.receive(false).expect("it answers before the body")
    };
    let value = send_claim("PUT", "/keys/a", 100 * base::limits::VALUE_BYTES_MAX);
    check_response("value", 100, false, &value, (413, "too_large"));
    for path in ["/sequence", "/update", "/multi_get", "/read", "/delete_prefix"] {
        let body = send_claim("POST", path, 100 * FRAME_BYTES_MAX);
        check_response(path, 100, false, &body, (413, "too_large"));
    }
    let key = "k".repeat(100 * base::limits::KEY_BYTES_MAX);
    let head = format!("GET {BUCKET}/keys/{key} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let answer = send_in_pieces(&mut http(&server), &head, usize::MAX);
    check_response("key", 100, false, &answer, (414, "too_large"));
    assert_eq!(decided_indexes(&server), before);
}

//! Tests of the date in answers: every HTTP answer has the current date.

use super::test_server::TestServer;
use crate::clock::Clock;
use crate::http::date;
use std::io::{Read, Write};
use std::net::TcpStream;

/// Returns all bytes that a connection answers to these requests, of which the last ends it.
fn exchange(server: &TestServer, requests: &str) -> String {
    let mut stream = TcpStream::connect(server.address).expect("it listens");
    stream.write_all(requests.replace('\n', "\r\n").as_bytes()).expect("sent");
    let mut answers = String::new();
    stream.read_to_string(&mut answers).expect("text, and an end");
    answers
}

#[test]
fn every_http_response_has_the_current_date() {
    let server = TestServer::build();
    let key = "/v1/buckets/default/default/keys/k";
    let before = Clock::Wall.unix_ms() / 1_000;
    for (line, status) in [
        (format!("PUT {key} HTTP/1.1\nhost: localhost\ncontent-length: 0"), 204),
        (format!("GET {key} HTTP/1.1\nhost: localhost"), 200),
        (format!("GET {key} HTTP/1.1\nhost: localhost\nif-none-match: *"), 304),
        ("GET /v1/buckets/default/default/stream HTTP/1.1\nhost: localhost".into(), 200),
        ("GET /v1/buckets/default/default/keys/none HTTP/1.1\nhost: localhost".into(), 404),
        ("GET /live HTTP/1.1\nhost: localhost".into(), 200),
        ("GET /live HTTP/1.1\nhost: strange.example".into(), 421),
        ("GET /live HTTP/1.1\nhost: localhost\ncontent-length: x".into(), 400),
        ("GET /ping HTTP/1.1\nhost: localhost".into(), 200),
    ] {
        // The second request on one connection gets the cached date.
        let last = line.replacen("host:", "connection: close\nhost:", 1);
        let said = exchange(&server, &format!("{line}\n\n{last}\n\n"));
        assert!(said.starts_with(&format!("HTTP/1.1 {status} ")), "{line}: {said}");
        let heads = said.split("HTTP/1.1 ").skip(1);
        for head in heads {
            let lower = head.to_ascii_lowercase();
            let from = lower.find("\r\ndate: ").unwrap_or_else(|| panic!("no date: {said}")) + 8;
            let seconds = date::parse(&head[from..from + date::DATE_BYTES]).expect("a date");
            let now = Clock::Wall.unix_ms() / 1_000;
            assert!((before..=now).contains(&seconds), "{line}: {head}");
        }
    }
}

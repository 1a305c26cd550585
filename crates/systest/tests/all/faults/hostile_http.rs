//! F-37 at the HTTP front-end: requests whose framing is malformed or ambiguous.
//!
//! Two readers in a row (a proxy and this server) must never see different ends of one request, so
//! any ambiguity is refused, and the connection ends with the refusal.

use super::small_setup;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use systest::client::Http;
use systest::environment::{Scratch, experiment, resident_bytes};
use systest::report::Figures;
use systest::server::Server;

/// Request that follows each refused request; if it were executed, it would leave a row.
const SMUGGLED: &str = "PUT /v1/buckets/default/default/keys/smuggled HTTP/1.1\r\n\
                        host: localhost\r\ncontent-length: 1\r\n\r\nx";

const PUT: &str = "PUT /v1/buckets/default/default/keys/honest HTTP/1.1\r\nhost: localhost\r\n";

/// Lines of a head that leave the end of the body uncertain, or are malformed.
const HEADER_LINES: [&str; 34] = [
    "content-length: 5\r\ncontent-length: 6",
    "content-length: 5\r\ncontent-length: 5",
    "content-length: 5\r\nContent-Length: 5",
    "content-length: 5, 5",
    "content-length: +5",
    "content-length: -5",
    "content-length: 0x5",
    "content-length: 5 5",
    "content-length: 5;",
    "content-length: \u{661}",
    "content-length:",
    "content-length: 99999999999999999999999",
    "content-length : 5",
    " content-length: 5",
    "content-length: 5\r\ntransfer-encoding: chunked",
    "transfer-encoding: chunked\r\ncontent-length: 5",
    "transfer-encoding: chunked\r\ntransfer-encoding: chunked",
    "transfer-encoding: chunked\r\ntransfer-encoding: identity",
    "transfer-encoding: identity",
    "transfer-encoding: gzip, chunked",
    "transfer-encoding: chunked, identity",
    "transfer-encoding: xchunked",
    "transfer-encoding: chunked;q=1",
    "transfer-encoding: \u{b}chunked",
    "transfer-encoding : chunked",
    "transfer-encoding\r\n : chunked",
    "content-length: 5\r\n folded: line",
    "content-length: 5\nx: bare line feed",
    "content-length: 5\r\nx: bare\rreturn",
    "content-length: 5\r\nx: zero\0byte",
    "content-length: 5\r\nno colon",
    "content-length: 5\r\n: no name",
    "content-length: 5\r\nhost: localhost",
    "content-length: 5\r\nx-credenza-sesion: 5",
];

/// Malformed bodies in chunks.
const CHUNKS: [&str; 18] = [
    "\r\n",
    "g\r\n",
    "-1\r\n",
    "+5\r\nhello\r\n0\r\n\r\n",
    "0x5\r\nhello\r\n0\r\n\r\n",
    " 5\r\nhello\r\n0\r\n\r\n",
    "5 \r\nhello\r\n0\r\n\r\n",
    "5\nhello\n0\n\n",
    "5\r\nhello0\r\n\r\n",
    "5\r\nhello!\r\n0\r\n\r\n",
    "4\r\nhello\r\n0\r\n\r\n",
    "5\r\nhello\n0\r\n\r\n",
    "ffffffffffffffff\r\nhello",
    "10000000000000000\r\nhello",
    "5;ext=\0\r\nhello\r\n0\r\n\r\n",
    "5,5\r\nhello\r\n0\r\n\r\n",
    "0\r\nx: a\nb\r\n\r\n",
    "0\r\nx: \0\r\n\r\n",
];

/// Malformed request lines.
const FIRST_LINES: [&str; 13] = [
    "PUT  /live HTTP/1.1",
    "PUT /live  HTTP/1.1",
    "PUT /live HTTP/1.1 ",
    "PUT /live HTTP/1.2",
    "PUT /live HTTP/2.0",
    "PUT /live http/1.1",
    "PUT /live",
    "PUT live HTTP/1.1",
    "PUT * HTTP/1.1",
    "PUT ftp://localhost/live HTTP/1.1",
    "PUT /live#fragment HTTP/1.1",
    "PUT /li\0ve HTTP/1.1",
    "PUT /li\u{e9}ve HTTP/1.1",
];

fn corpus() -> Vec<Vec<u8>> {
    let mut corpus: Vec<String> = Vec::new();
    corpus.extend(HEADER_LINES.iter().map(|lines| format!("{PUT}{lines}\r\n\r\nhello")));
    let chunked = "transfer-encoding: chunked\r\n\r\n";
    corpus.extend(CHUNKS.iter().map(|chunks| format!("{PUT}{chunked}{chunks}")));
    let rest = "\r\nhost: localhost\r\ncontent-length: 5\r\n\r\nhello";
    corpus.extend(FIRST_LINES.iter().map(|line| format!("{line}{rest}")));
    for claim in ["8388609", "4294967296", "9223372036854775807", "18446744073709551615"] {
        corpus.push(format!("{PUT}content-length: {claim}\r\n\r\nhello"));
    }
    corpus.push("PUT /live HTTP/1.1\r\ncontent-length: 5\r\n\r\nhello".into());
    corpus.push(format!("{PUT}expect: the-impossible\r\ncontent-length: 5\r\n\r\nhello"));
    corpus.push(format!("{PUT}content-encoding: gzip\r\ncontent-length: 5\r\n\r\nhello"));
    corpus.into_iter().map(String::into_bytes).collect()
}

/// Returns everything that the server sends until it closes the connection.
fn read_until_closed(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket has a timeout");
    let _ = stream.write_all(bytes);
    let mut received = Vec::new();
    let mut discarded = [0; 4096];
    loop {
        match stream.read(&mut discarded) {
            Ok(0) => break,
            Ok(length) => received.extend_from_slice(&discarded[..length]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => {
                panic!("never closed after {:?}: {error}", bytes.escape_ascii().to_string())
            }
        }
    }
    String::from_utf8_lossy(&received).into_owned()
}

#[test]
fn ambiguous_http_framing_is_refused_and_closes_the_connection() {
    let _permit = experiment();
    let scratch = Scratch::new("f37-smuggling");
    let mut server = Server::must_start(&small_setup(&scratch.join("data")));
    let mut figures = Figures::start("F-37 HTTP of uncertain end");
    let before = resident_bytes(server.pid());
    for request in corpus() {
        figures.faults += 1;
        let bytes = [&request[..], SMUGGLED.as_bytes()].concat();
        let response = read_until_closed(server.address, &bytes);
        let request_text = request.escape_ascii().to_string();
        let status: u16 = response.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0);
        assert!((400..=505).contains(&status) && status != 500, "{request_text}: {response}");
        assert!(response.contains("connection: close\r\n"), "{request_text}: {response}");
        assert_eq!(
            response.matches("content-length: ").count(),
            1,
            "two answers to {request_text}: {response}"
        );
        assert!(response.contains(r#""reason":""#), "{request_text}: {response}");
    }
    let mut web = Http::connect(server.address).expect("it listens");
    for key in ["smuggled", "honest"] {
        let path = format!("/v1/buckets/default/default/keys/{key}");
        assert_eq!(
            web.request("GET", &path, b"").expect("answers").status,
            404,
            "{key} is written"
        );
    }
    let growth = resident_bytes(server.pid()).saturating_sub(before);
    assert!(growth < 64 << 20, "{growth} bytes more for claims alone");
    server.must_be_healthy();
    figures.print();
}

#[test]
fn http_request_cut_at_any_byte_changes_nothing() {
    let _permit = experiment();
    let scratch = Scratch::new("f37-cut");
    let mut server = Server::must_start(&small_setup(&scratch.join("data")));
    let mut figures = Figures::start("F-37 HTTP cut anywhere");
    let update = r#"{"op":"set","key":"honest","value":"hello"}"#;
    let requests = [
        format!("{PUT}content-length: 5\r\n\r\nhello"),
        format!("{PUT}transfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"),
        format!(
            "POST /v1/buckets/default/default/update HTTP/1.1\r\nhost: localhost\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{update}",
            update.len()
        ),
    ];
    for request in &requests {
        for length in 1..request.len() {
            figures.faults += 1;
            let mut stream = TcpStream::connect(server.address).expect("it listens");
            stream.write_all(&request.as_bytes()[..length]).expect("it takes the beginning");
        }
    }
    let mut web = Http::connect(server.address).expect("it listens");
    let path = "/v1/buckets/default/default/keys/honest";
    assert_eq!(
        web.request("GET", path, b"").expect("answers").status,
        404,
        "half a request is done"
    );
    // The complete requests must succeed: otherwise the test above would prove nothing.
    for request in &requests {
        let mut web = Http::connect(server.address).expect("it listens");
        web.send(request.as_bytes()).expect("it listens");
        let answer = web.receive(false).expect("answers");
        assert_eq!(answer.status / 100, 2, "{}", answer.text());
    }
    assert_eq!(web.request("GET", path, b"").expect("answers").body, b"hello");
    server.must_be_healthy();
    figures.print();
}

#[test]
fn invalid_percent_escape_is_refused_and_writes_no_key() {
    let _permit = experiment();
    let scratch = Scratch::new("f37-escapes");
    let server = Server::must_start(&small_setup(&scratch.join("data")));
    let mut web = Http::connect(server.address).expect("it listens");
    for key in ["%", "%4", "%zz", "%%30", "a%", "%u0041", "%0g", "a%2", "%-1"] {
        let path = format!("/v1/buckets/default/default/keys/{key}");
        let answer = web.request("PUT", &path, b"x").expect("this one keeps its connection");
        assert_eq!((answer.status, answer.reason()), (400, "malformed".into()), "{key}");
        let path = format!("/v1/buckets/default/default/range?prefix={key}");
        let answer = web.request("GET", &path, b"").expect("answers");
        assert_eq!((answer.status, answer.reason()), (400, "malformed".into()), "{key}");
    }
    for path in ["/v1/buckets/%2e%2e/x", "/v1/buckets/..%2f/x", "/v1/buckets/a/../x", "//", "/%00"]
    {
        let status = web.request("PUT", path, b"{}").expect("answers").status;
        assert!((400..500).contains(&status), "{path}: {status}");
    }
    let count = web.request("GET", "/v1/buckets/default/default/count", b"").expect("answers");
    assert_eq!(count.json()["count"], 0);
}

//! Tests of the memory of answers: each front-end counts it before it builds an answer.

use super::test_server::TestServer;
use crate::ServerSettings;
use base::request::Expiry;
use base::{BucketName, Call, Key, Request, Update, Value};

/// Memory that all connections share: less than the large answers below need.
const BUFFER_BYTES_MAX: usize = 256 * 1024;
/// Size of a value whose answer does not fit.
const LARGE_BYTES: usize = 600 * 1024;

fn server() -> TestServer {
    let settings = ServerSettings {
        buffer_bytes_max: BUFFER_BYTES_MAX,
        arakoon_clusters: vec!["ricky".into()],
        ..ServerSettings::default()
    };
    TestServer::with_name("arakoon_0", settings)
}

/// Sets a key at the node itself: a front-end would need memory for the request.
fn set(server: &TestServer, bucket: &BucketName, key: &str, value: Vec<u8>) {
    let key = Key::copy_from_slice(key.as_bytes());
    let update = Update::Set { key, value: Value::from(value), expiry: Expiry::Default };
    let request = Request { bucket: bucket.clone(), call: Call::Update(update), retry: None };
    server.call(request).expect("it is written");
}

/// Returns the beginning of an answer, for messages of failed assertions.
fn excerpt(answer: &str) -> String {
    answer.chars().take(200).collect()
}

#[test]
fn resp_answer_without_memory_is_refused_before_it_is_built() {
    let server = server();
    let bucket = BucketName::default();
    set(&server, &bucket, "large", vec![b'x'; LARGE_BYTES]);
    for number in 0..60 {
        set(&server, &bucket, &format!("part{number}"), vec![b'x'; 10_000]);
    }
    let keys: String = (0..60).map(|number| format!(" part{number}")).collect();
    // Two parts of more than 1,024 keys, each of which is too large.
    let many: String = (0..1_100).map(|number| format!(" part{}", number % 60)).collect();
    for (command, refusals) in
        [("GET large".to_string(), 1), (format!("MGET{keys}"), 1), (format!("MGET{many}"), 1_100)]
    {
        let answer = server.exchange(server.address, format!("{command}\r\n").as_bytes());
        let found = answer.matches("-OVERLOADED").count();
        assert_eq!(found, refusals, "{}: {}", excerpt(&command), excerpt(&answer));
    }
    let answer = server.exchange(server.address, b"GETSET large new\r\nGET large\r\n");
    let (first, second) = answer.split_once("\r\n").expect("two answers");
    assert!(first.starts_with("-APPLIED"), "the update took effect: {first}");
    assert_eq!(second, "$3\r\nnew\r\n");
}

#[test]
fn http_answer_without_memory_is_refused_before_it_is_built() {
    let server = server();
    let bucket = BucketName::default();
    set(&server, &bucket, "large", vec![b'x'; LARGE_BYTES]);
    // Six bytes of JSON for each.
    (0..4).for_each(|number| set(&server, &bucket, &format!("n{number}"), vec![1; 15_000]));
    let get = |path: &str| {
        let line = format!("GET /v1/buckets/default/default/{path} HTTP/1.1");
        server.exchange(server.address, format!("{line}\r\nhost: localhost\r\n\r\n").as_bytes())
    };
    for path in ["keys/large", "range?prefix=n"] {
        let answer = get(path);
        assert!(answer.starts_with("HTTP/1.1 503 "), "{path}: {}", excerpt(&answer));
        assert!(answer.contains("buffer_bytes_max"), "{path}: {}", excerpt(&answer));
    }
    assert!(get("keys/n1").starts_with("HTTP/1.1 200 "));
}

#[test]
fn riak_siblings_without_memory_are_refused_before_they_are_built() {
    let server = server();
    let path = "/buckets/b/keys/k?w=1&dw=1&r=1&pr=0&pw=0";
    let value = "x".repeat(100_000);
    for _ in 0..5 {
        let request = format!(
            "PUT {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n\
             Content-Length: {}\r\n\r\n{value}",
            value.len()
        );
        let answer = server.exchange(server.address, request.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 204 "), "{}", excerpt(&answer));
    }
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: multipart/mixed\r\n\r\n");
    let answer = server.exchange(server.address, request.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 503 "), "{}", excerpt(&answer));
}

#[test]
fn arakoon_answer_without_memory_is_refused_before_it_is_built() {
    let server = server();
    let prologue = b"\x00\x00\xff\xb1\x01\x00\x00\x00\x05\x00\x00\x00ricky";
    // The first client makes the bucket of its cluster.
    let set_small = b"\x09\x00\xff\xb1\x01\x00\x00\x00s\x01\x00\x00\x00v";
    assert_eq!(server.exchange(server.address, &[&prologue[..], set_small].concat()), "\0\0\0\0");
    let bucket = crate::arakoon::bucket_of(b"ricky").expect("a bucket's name");
    set(&server, &bucket, "k", vec![b'x'; LARGE_BYTES]);
    let get = |key: u8| [&prologue[..], b"\x08\x00\xff\xb1\x00\x01\x00\x00\x00", &[key]].concat();
    let answer = server.exchange(server.address, &get(b'k'));
    assert!(answer.contains("buffer_bytes_max"), "{}", excerpt(&answer));
    assert_eq!(server.exchange(server.address, &get(b's')), "\0\0\0\0\u{1}\0\0\0v");
}

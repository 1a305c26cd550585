//! Tests of counted buckets at every front-end: HTTP, Redis' protocol and Arakoon's answer from the
//! bucket's count.

use super::test_server::TestServer;
use crate::ServerSettings;
use base::request::{Expiry, SequenceMode};
use base::{Body, BucketName, Call, DirectoryCall, Read as ReadCall, ReadLevel, Request, Update};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Longest wait for a count.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends bytes over a new connection, closes its sending side, and returns the answers.
fn exchange(address: SocketAddr, request: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("an option");
    stream.write_all(request).expect("sent");
    stream.shutdown(Shutdown::Write).expect("it is connected");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    answer
}

fn http(address: SocketAddr, request: &str) -> String {
    let request = format!("{request} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n");
    let answer = String::from_utf8(exchange(address, request.as_bytes())).expect("text");
    answer.rsplit("\r\n").next().unwrap_or_default().to_string()
}

fn resp(address: SocketAddr, commands: &str) -> String {
    String::from_utf8(exchange(address, commands.as_bytes())).expect("text")
}

fn call(server: &TestServer, bucket: &BucketName, call: Call) -> Body {
    let request = Request { bucket: bucket.clone(), call, retry: None };
    server.call(request).expect("it goes").body
}

fn set(key: &str, value: &str) -> Update {
    let (key, value) = (key.to_string().into(), value.to_string().into());
    Update::Set { key, value, expiry: Expiry::Default }
}

/// Switches counts on, and waits until the count is complete.
fn keep_counts(server: &TestServer, bucket: &BucketName) {
    let changes = vec![("counted".to_string(), "true".to_string())];
    call(server, bucket, Call::Directory(DirectoryCall::AlterBucket(changes)));
    let begun = Instant::now();
    let count = || Call::Read(ReadCall::KeyCount, ReadLevel::Consistent);
    while !matches!(call(server, bucket, count()), Body::Size { .. }) {
        assert!(begun.elapsed() < PATIENCE, "the count is never complete");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn counted_bucket_is_counted_at_once_by_every_front_end() {
    let settings = ServerSettings { arakoon_clusters: vec!["ricky".into()], ..Default::default() };
    let server = TestServer::with_name("arakoon_0", settings);
    let bucket = BucketName::new("arakoon", "ricky").expect("a name");
    let prologue = b"\x00\x00\xff\xb1\x01\x00\x00\x00\x05\x00\x00\x00ricky";
    let key_count = [&prologue[..], b"\x1a\x00\xff\xb1"].concat();
    let counted = |keys: i64| [&[0; 4][..], &keys.to_le_bytes()].concat();
    // Its first client makes the bucket.
    assert_eq!(exchange(server.address, &key_count), counted(0));
    for (key, value) in [("a", "1"), ("bb", "22"), ("c", "")] {
        call(&server, &bucket, Call::Update(set(key, value)));
    }
    let count = "GET /v1/buckets/arakoon/ricky/count";
    assert_eq!(http(server.address, count), r#"{"count":3}"#, "not counted yet");
    keep_counts(&server, &bucket);
    assert_eq!(http(server.address, count), r#"{"count":3,"bytes":7}"#);
    let described = http(server.address, "GET /v1/buckets/arakoon/ricky");
    assert!(described.contains(r#""counted":true"#), "{described}");
    let commands =
        "CREDENZA.BUCKET arakoon/ricky\r\nDBSIZE\r\nSET d 4\r\nDBSIZE\r\nDEL a\r\nDBSIZE\r\n";
    let answers = resp(server.address, commands);
    assert_eq!(answers, "+OK\r\n:3\r\n+OK\r\n:4\r\n:1\r\n:3\r\n");
    assert_eq!(http(server.address, count), r#"{"count":3,"bytes":7}"#);
    assert_eq!(exchange(server.address, &key_count), counted(3));
}

#[test]
fn keyspace_of_a_counted_bucket_is_exact_in_a_large_store() {
    let server = TestServer::build();
    let (large, small) = (BucketName::default(), BucketName::parse("small").expect("a name"));
    for first in (0..120_000).step_by(20_000) {
        let steps = (first..first + 20_000).map(|row| set(&format!("{row:06}"), "v")).collect();
        call(&server, &large, Call::Update(Update::Sequence { steps, mode: SequenceMode::Batch }));
    }
    call(&server, &small, Call::Directory(DirectoryCall::CreateBucket(Vec::new())));
    call(&server, &small, Call::Update(set("a", "1")));
    let keyspace = || resp(server.address, "CREDENZA.BUCKET small\r\nINFO keyspace\r\n");
    assert!(!keyspace().contains("keys=1,"), "an estimate over all buckets: {}", keyspace());
    keep_counts(&server, &small);
    assert!(keyspace().contains("db0:keys=1,"), "{}", keyspace());
}

//! Audited buckets behind the front-ends: each operation of each protocol has its line.

use super::audit::{fact, http, lines};
use super::test_server::{ARAKOON_EXISTS, ARAKOON_HELLO, TestServer};
use base::{BucketName, Call, DirectoryCall, Request};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Sets the property `audit` of a bucket.
fn set_audit(server: &TestServer, bucket: &str, audit: &str) {
    let bucket = BucketName::from_full(bucket).expect("a name");
    let changes = vec![("audit".to_string(), audit.to_string())];
    let call = Call::Directory(DirectoryCall::AlterBucket(changes));
    server.call(Request { bucket, call, retry: None }).expect("altered");
}

/// Returns the lines behind the first `begin` ones once there are so many: that of a write follows
/// its answer.
fn lines_of(server: &TestServer, begin: usize, count: usize) -> Vec<Value> {
    let began = Instant::now();
    loop {
        let found = lines(server, begin);
        if found.len() >= count || began.elapsed() > Duration::from_secs(10) {
            return found;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns how often each fact is among the lines, in order.
fn facts(found: &[Value]) -> Vec<[String; 4]> {
    let mut facts: Vec<_> = found.iter().map(fact).collect();
    facts.sort();
    facts
}

fn expected(all: &[(&str, &str, &str)]) -> Vec<[String; 4]> {
    let fact = |(protocol, operation, outcome): &(&str, &str, &str)| {
        ["(anonymous)", protocol, operation, outcome].map(String::from)
    };
    let mut all: Vec<_> = all.iter().map(fact).collect();
    all.sort();
    all
}

#[test]
fn operations_of_every_protocol_on_audited_buckets_are_recorded_without_keys_and_values() {
    let server = TestServer::with_arakoon_user();
    let ask = |command: &[u8]| server.exchange(server.addresses[1], command);
    assert_eq!(ask(&[ARAKOON_HELLO, ARAKOON_EXISTS].concat()), "\0\0\0\0\0", "it makes the bucket");
    for bucket in ["default/default", "available/b", "arakoon/ricky"] {
        set_audit(&server, bucket, "all");
    }
    let begin = lines(&server, 0).len();
    let commands = "SET secret-a secret-v\r\nGET secret-a\r\nMULTI\r\nSET secret-b secret-v\r\n\
                    DEL secret-a\r\nEXEC\r\nDBSIZE\r\nINCR secret-b\r\n";
    let answers = server.exchange(server.address, commands.as_bytes());
    assert!(answers.starts_with("+OK\r\n$8\r\nsecret-v\r\n"), "{answers}");
    let bucket = "/v1/buckets/default/default";
    let prefix = r#"{"prefix":"secret"}"#;
    for (line, body, status) in [
        (format!("PUT {bucket}/keys/secret-c"), "secret-v", "204"),
        (format!("GET {bucket}/keys/secret-c"), "", "200"),
        (format!("GET {bucket}/range?prefix=secret"), "", "200"),
        (format!("POST {bucket}/delete_prefix"), prefix, "200"),
        ("PUT /buckets/b/keys/secret-d".into(), "secret-v", "204"),
        ("GET /buckets/b/keys/secret-d".into(), "", "200"),
    ] {
        let answer = http(&server, &line, "", body);
        assert_eq!(answer.split(' ').nth(1), Some(status), "{line}: {answer}");
    }
    let set = b"\x09\x00\xff\xb1\x01\x00\x00\x00k\x01\x00\x00\x00v";
    ask(&[ARAKOON_HELLO, &set[..], ARAKOON_EXISTS].concat());
    let expected = expected(&[
        ("resp", "set", "done"),
        ("resp", "get", "done"),
        ("resp", "sequence", "done"),
        ("resp", "key_count", "done"),
        ("resp", "add", "failed"),
        ("http", "set", "done"),
        ("http", "get", "done"),
        ("http", "range", "done"),
        ("http", "delete_prefix", "done"),
        ("riak", "store", "done"),
        ("riak", "fetch", "done"),
        ("arakoon", "set", "done"),
        ("arakoon", "exists", "done"),
    ]);
    let found = lines_of(&server, begin, expected.len());
    assert_eq!(facts(&found), expected);
    let of = |operation: &str| found.iter().find(|line| line["operation"] == operation);
    let sequence = of("sequence").expect("there");
    assert_eq!(sequence["steps"], serde_json::json!({ "delete": 1, "set": 1 }));
    assert_eq!(sequence["keys"].as_array().map(Vec::len), Some(2));
    assert_eq!(of("delete_prefix").expect("there")["scope"], "default/default");
    assert_eq!(of("store").expect("there")["scope"], "available/b");
    assert!(found.iter().all(|line| line["address"] == "127.0.0.1"), "{found:?}");
    assert!(!server.audit_log().contains("secret"), "keys are digests");
}

#[test]
fn pipelined_gets_and_sets_of_an_audited_bucket_have_a_line_each_and_their_answers() {
    let server = TestServer::build();
    let commands = |from: usize| -> String {
        let set = |number: usize| format!("SET k{number} {number}\r\n");
        let get = |number: usize| format!("GET k{number}\r\n");
        (from..from + 50).map(set).chain((from..from + 50).map(get)).collect()
    };
    let ask = |from: usize| {
        let answers = server.exchange(server.address, commands(from).as_bytes());
        let values = (from..from + 50).map(|number| {
            let text = number.to_string();
            format!("${}\r\n{text}\r\n", text.len())
        });
        assert_eq!(answers, "+OK\r\n".repeat(50) + &values.collect::<String>());
    };
    for (audit, count) in [("off", 0), ("writes", 50), ("all", 100), ("off", 0)] {
        set_audit(&server, "default/default", audit);
        let begin = lines(&server, 0).len();
        ask(begin);
        let found = lines_of(&server, begin, count);
        let of = |operation: &str| {
            let is_done = |line: &&Value| line["outcome"] == "done";
            found.iter().filter(is_done).filter(|line| line["operation"] == operation).count()
        };
        assert_eq!(found.len(), count, "{audit}");
        assert_eq!((of("set"), of("get")), (count.min(50), count.saturating_sub(50)), "{audit}");
    }
}

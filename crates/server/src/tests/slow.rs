//! Tests of the slow log: SLOWLOG, and the operators' routes.

use super::test_server::TestServer;
use crate::ServerSettings;
use node::{EntryStages, KeyFingerprint, SlowRequest, SlowStages};
use std::time::Duration;

fn key_digest(bucket: &str, key: &[u8]) -> u64 {
    KeyFingerprint::of(key).digest(bucket)
}

fn request(method: &str) -> Vec<u8> {
    format!("{method} /v1/admin/slow-requests HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes()
}

#[test]
fn slow_requests_are_listed_and_removed_in_both_protocols() {
    let server = TestServer::with_settings(ServerSettings::default());
    server.record_slow(SlowRequest {
        protocol: "resp",
        command: "set",
        bucket: "default/carts".into(),
        key_digest: Some(key_digest("default/carts", b"alice@example.com")),
        requests: 7,
        took: Duration::from_millis(60_000),
        stages: SlowStages {
            evaluate: Duration::from_millis(1_000),
            decide: Duration::from_millis(59_000),
            entry: Some(EntryStages { log_ms: 58_000, replicas_ms: 1_000, ..Default::default() }),
            ..SlowStages::default()
        },
        client: Some(server.address),
    });
    let digest = format!("{:016x}", key_digest("default/carts", b"alice@example.com"));
    let answer = server.exchange(server.address, b"SLOWLOG GET 1\r\nSLOWLOG LEN\r\n");
    let begin = "*1\r\n*6\r\n:0\r\n:";
    assert!(answer.starts_with(begin) && answer.contains(":60000000\r\n*6\r\n"), "{answer}");
    let stages = "stages=evaluate:1000ms,decide:59000ms,log:58000ms,replicas:1000ms\r\n";
    for part in ["set", "default/carts", &format!("key={digest}"), "requests=7", stages] {
        assert!(answer.contains(part), "{part}: {answer}");
    }
    assert!(answer.ends_with(":1\r\n") && !answer.contains("alice"), "{answer}");
    let listed = server.exchange(server.address, &request("GET"));
    assert!(listed.contains(&format!("\"key_digest\":\"{digest}\"")), "{listed}");
    let parts = "\"decide_us\":59000000,\"entry\":{\"batch_ms\":0,\"log_ms\":58000,";
    assert!(listed.contains(parts), "{listed}");
    assert!(listed.contains("\"took_us\":60000000") && !listed.contains("alice"), "{listed}");
    assert_eq!(
        server.exchange(server.address, b"SLOWLOG GET -2\r\nSLOWLOG RESET\r\nSLOWLOG LEN\r\n"),
        "-ERR count should be greater than or equal to -1\r\n+OK\r\n:0\r\n"
    );
    let removed = server.exchange(server.address, &request("DELETE"));
    assert!(removed.starts_with("HTTP/1.1 204 "), "{removed}");
}

#[test]
fn each_protocol_reports_requests_above_the_threshold() {
    // Every request takes longer than none at all.
    let server = TestServer::with_slow_log(Duration::ZERO);
    let sets = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n".repeat(2);
    server.exchange(server.address, sets.as_bytes());
    let get = "GET /v1/buckets/default/default/keys/k HTTP/1.1\r\nhost: localhost\r\n\r\n";
    server.exchange(server.address, get.as_bytes());
    let get = "GET /types/available/buckets/b/keys/k HTTP/1.1\r\nhost: localhost\r\n\r\n";
    server.exchange(server.address, get.as_bytes());
    let found: Vec<_> = server.slow_requests().into_iter().map(|entry| entry.request).collect();
    for (protocol, command, bucket) in [
        ("resp", "set", "default/default"),
        ("http", "get", "default/default"),
        ("riak", "get", "available/b"),
    ] {
        let is_it = |request: &&SlowRequest| {
            (request.protocol, request.command, request.bucket.as_str())
                == (protocol, command, bucket)
        };
        let (request, digest) = (found.iter().find(is_it), key_digest(bucket, b"k"));
        assert_eq!(request.map(|request| request.key_digest), Some(Some(digest)), "{found:?}");
    }
}

#[test]
fn slow_write_waits_for_its_decision_and_a_read_of_many_rows_for_its_reply() {
    let server = TestServer::with_slow_log(Duration::ZERO);
    server.exchange(server.address, b"SET k v\r\n");
    let rows = "GET /v1/buckets/default/default/keys HTTP/1.1\r\nhost: localhost\r\n\r\n";
    server.exchange(server.address, rows.as_bytes());
    let found: Vec<_> = server.slow_requests().into_iter().map(|entry| entry.request).collect();
    let write = found.iter().find(|request| request.command == "set").expect("it is slow");
    assert!(write.stages.decide > Duration::ZERO && write.stages.decide <= write.took, "{write:?}");
    assert_eq!(write.stages.reply, Duration::ZERO, "{write:?}");
    for SlowRequest { took, stages, .. } in &found {
        let SlowStages { evaluate, decide, reply, send, .. } = *stages;
        assert_eq!(evaluate + decide + reply + send, *took, "the stages are all of the time");
    }
}

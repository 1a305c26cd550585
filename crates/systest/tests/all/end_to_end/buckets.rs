//! Buckets are created and dropped with their disk space; rows expire by the group's time.

use super::{http, resp, start_server, tool};
use std::path::Path;
use std::time::{Duration, Instant};
use systest::client::{Http, RespReply};

#[test]
fn row_with_ttl_expires_and_other_rows_remain() {
    let (_scratch, mut server) = start_server("expiry");
    let mut redis = resp(&server);
    redis.call_line("SET short x PX 300").expect("answers");
    redis.call_line("SET long x EX 1000").expect("answers");
    redis.call_line("SET ever x").expect("answers");
    let remaining = redis.call_line("PTTL short").expect("answers");
    assert!(matches!(remaining, RespReply::Number(1..=300)), "{remaining:?}");
    assert_eq!(redis.call_line("TTL ever").expect("answers"), RespReply::Number(-1));
    let deadline = Instant::now() + Duration::from_secs(20);
    while redis.call_line("GET short").expect("answers") != RespReply::Bulk(None) {
        assert!(Instant::now() < deadline, "a row outlives its time");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(redis.call_line("EXISTS short long ever").expect("answers"), RespReply::Number(2));
    server.kill();
    let server = systest::server::Server::must_start(&server.setup);
    let mut redis = resp(&server);
    assert_eq!(redis.call_line("EXISTS short long ever").expect("answers"), RespReply::Number(2));
    let remaining = redis.call_line("TTL long").expect("answers");
    assert!(matches!(remaining, RespReply::Number(900..=1000)), "{remaining:?} after a restart");
}

/// Returns the bytes on disk below a folder.
fn bytes_below(path: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(path) else { return 0 };
    let bytes = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.flatten().map(bytes).sum()
}

fn write_rows(web: &mut Http, bucket: &str, rows: usize) {
    for n in 0..rows {
        let mut random = n as u64 + 1;
        let noise = |_| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) as u8
        };
        let value: Vec<u8> = (0..256 * 1024).map(noise).collect();
        let path = format!("/v1/buckets/default/{bucket}/keys/row{n}");
        let headers = [("content-type", "application/octet-stream")];
        let result = web.request_with_headers("PUT", &path, &headers, &value).expect("answers");
        assert_eq!(result.status / 100, 2, "{}", result.text());
    }
}

#[test]
fn dropped_bucket_vanishes_at_once_and_frees_its_space() {
    let scratch = systest::environment::Scratch::new("drop");
    let setup = systest::server::Setup::new(&scratch.join("data"))
        .with_args(&["--memory-bytes-max", "16MiB", "--segment-bytes", "4MiB"])
        .with_args(&["--log-bytes-max", "128MiB"]);
    let server = systest::server::Server::must_start(&setup);
    let mut web = http(&server);
    tool(&server, &["bucket", "create", "big"]);
    write_rows(&mut web, "big", 400);
    write_rows(&mut web, "default", 4);
    let store = scratch.join("data/store");
    let bytes_before = bytes_below(&store);
    assert!(bytes_before > 50 << 20, "only {bytes_before} bytes reached the store");
    tool(&server, &["bucket", "drop", "big", "--yes"]);
    let after_drop = web.request("GET", "/v1/buckets/default/big/keys/row1", b"").expect("answers");
    assert_eq!((after_drop.status, after_drop.reason()), (404, "no_such_bucket".into()));
    tool(&server, &["bucket", "create", "big"]);
    let after_recreate =
        web.request("GET", "/v1/buckets/default/big/keys/row1", b"").expect("answers");
    assert_eq!(
        (after_recreate.status, after_recreate.reason()),
        (404, "not_found".into()),
        "an old row shows"
    );
    let deadline = Instant::now() + Duration::from_secs(60);
    while bytes_below(&store) > bytes_before / 4 {
        let bytes_left = bytes_below(&store);
        assert!(Instant::now() < deadline, "{bytes_left} of {bytes_before} bytes are still there");
        std::thread::sleep(Duration::from_millis(100));
    }
    for n in 0..4 {
        let path = format!("/v1/buckets/default/default/keys/row{n}");
        let other_row = web.request("GET", &path, b"").expect("answers");
        assert_eq!((other_row.status, other_row.body.len()), (200, 256 * 1024));
    }
}

#[test]
fn bucket_properties_are_validated_and_enforced_after_restart() {
    let (_scratch, mut server) = start_server("properties");
    let mut web = http(&server);
    let path = "/v1/buckets/default/small";
    let created = web.request("PUT", path, br#"{"value_bytes_max":"10","ttl_ms":"60000"}"#);
    assert_eq!(created.expect("answers").status / 100, 2);
    let created_again = web.request("PUT", path, b"{}").expect("answers");
    assert_eq!((created_again.status, created_again.reason()), (409, "already_exists".into()));
    let bad = web.request("PATCH", path, br#"{"colour":"red"}"#).expect("answers");
    assert_eq!((bad.status, bad.reason()), (400, "malformed".into()));
    server.kill();
    let server = systest::server::Server::must_start(&server.setup);
    let mut web = http(&server);
    let headers = [("content-type", "application/octet-stream")];
    let key = format!("{path}/keys/a");
    let fits = web.request_with_headers("PUT", &key, &headers, &[b'x'; 10]).expect("answers");
    assert_eq!(fits.status / 100, 2, "{}", fits.text());
    let large = web.request_with_headers("PUT", &key, &headers, &[b'x'; 11]).expect("answers");
    assert_eq!((large.status, large.reason()), (413, "too_large".into()));
}

//! Buckets are created and dropped with their disk space; rows expire by the group's time.

use super::{fresh, http, resp, tool};
use std::path::Path;
use std::time::{Duration, Instant};
use systest::client::{Http, RespReply};

#[test]
fn a_row_with_a_time_to_live_goes_and_others_stay() {
    let (_scratch, mut server) = fresh("expiry");
    let mut redis = resp(&server);
    redis.say("SET short x PX 300").expect("answers");
    redis.say("SET long x EX 1000").expect("answers");
    redis.say("SET ever x").expect("answers");
    let left = redis.say("PTTL short").expect("answers");
    assert!(matches!(left, RespReply::Number(1..=300)), "{left:?}");
    assert_eq!(redis.say("TTL ever").expect("answers"), RespReply::Number(-1));
    let until = Instant::now() + Duration::from_secs(20);
    while redis.say("GET short").expect("answers") != RespReply::Bulk(None) {
        assert!(Instant::now() < until, "a row outlives its time");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(redis.say("EXISTS short long ever").expect("answers"), RespReply::Number(2));
    server.kill();
    let server = systest::server::Server::must(&server.setup);
    let mut redis = resp(&server);
    assert_eq!(redis.say("EXISTS short long ever").expect("answers"), RespReply::Number(2));
    let left = redis.say("TTL long").expect("answers");
    assert!(matches!(left, RespReply::Number(900..=1000)), "{left:?} after a restart");
}

/// Returns the bytes on disk below a folder.
fn bytes_below(path: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(path) else { return 0 };
    let bytes = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(about) if about.is_dir() => bytes_below(&entry.path()),
        Ok(about) => about.len(),
        Err(_) => 0,
    };
    entries.flatten().map(bytes).sum()
}

fn fill(web: &mut Http, bucket: &str, rows: usize) {
    for n in 0..rows {
        let mut word = n as u64 + 1;
        let noise = |_| {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (word >> 33) as u8
        };
        let value: Vec<u8> = (0..256 * 1024).map(noise).collect();
        let path = format!("/v1/buckets/default/{bucket}/keys/row{n}");
        let octets = [("content-type", "application/octet-stream")];
        let done = web.ask_with("PUT", &path, &octets, &value).expect("answers");
        assert_eq!(done.status / 100, 2, "{}", done.text());
    }
}

#[test]
fn a_dropped_bucket_is_gone_at_once_and_its_space_returns() {
    let scratch = systest::rigs::Scratch::new("drop");
    let setup = systest::server::Setup::on(&scratch.join("data"))
        .with(&["--memory-bytes-max", "16MiB", "--segment-bytes", "4MiB"])
        .with(&["--log-bytes-max", "128MiB"]);
    let server = systest::server::Server::must(&setup);
    let mut web = http(&server);
    tool(&server, &["bucket", "create", "big"]);
    fill(&mut web, "big", 400);
    fill(&mut web, "default", 4);
    let store = scratch.join("data/store");
    let full = bytes_below(&store);
    assert!(full > 50 << 20, "only {full} bytes reached the store");
    tool(&server, &["bucket", "drop", "big", "--yes"]);
    let gone = web.ask("GET", "/v1/buckets/default/big/keys/row1", b"").expect("answers");
    assert_eq!((gone.status, gone.reason()), (404, "no_such_bucket".into()));
    tool(&server, &["bucket", "create", "big"]);
    let fresh = web.ask("GET", "/v1/buckets/default/big/keys/row1", b"").expect("answers");
    assert_eq!((fresh.status, fresh.reason()), (404, "not_found".into()), "an old row shows");
    let until = Instant::now() + Duration::from_secs(60);
    while bytes_below(&store) > full / 4 {
        let left = bytes_below(&store);
        assert!(Instant::now() < until, "{left} of {full} bytes are still there");
        std::thread::sleep(Duration::from_millis(100));
    }
    for n in 0..4 {
        let path = format!("/v1/buckets/default/default/keys/row{n}");
        let kept = web.ask("GET", &path, b"").expect("answers");
        assert_eq!((kept.status, kept.body.len()), (200, 256 * 1024));
    }
}

#[test]
fn properties_are_checked_kept_and_in_force() {
    let (_scratch, mut server) = fresh("properties");
    let mut web = http(&server);
    let path = "/v1/buckets/default/small";
    let made = web.ask("PUT", path, br#"{"value_bytes_max":"10","ttl_ms":"60000"}"#);
    assert_eq!(made.expect("answers").status / 100, 2);
    let again = web.ask("PUT", path, b"{}").expect("answers");
    assert_eq!((again.status, again.reason()), (409, "already_exists".into()));
    let bad = web.ask("PATCH", path, br#"{"colour":"red"}"#).expect("answers");
    assert_eq!((bad.status, bad.reason()), (400, "malformed".into()));
    server.kill();
    let server = systest::server::Server::must(&server.setup);
    let mut web = http(&server);
    let octets = [("content-type", "application/octet-stream")];
    let key = format!("{path}/keys/a");
    let fits = web.ask_with("PUT", &key, &octets, &[b'x'; 10]).expect("answers");
    assert_eq!(fits.status / 100, 2, "{}", fits.text());
    let large = web.ask_with("PUT", &key, &octets, &[b'x'; 11]).expect("answers");
    assert_eq!((large.status, large.reason()), (413, "too_large".into()));
}

//! Old formats are read today: a kept data directory is opened by the current binary. The kept
//! examples of every format on disk are listed in `crates/systest/golden/README.md`.
//!
//! An example is written once, by the first version that has the format, and never again:
//! `CREDENZA_KEEP=golden cargo test -p systest formats` writes it if it is missing.

use std::path::{Path, PathBuf};
use std::time::Duration;
use systest::client::{Http, Resp, RespReply};
use systest::environment::{Scratch, path_str, run_ok};
use systest::server::{Server, Setup, tool};

fn golden_path(name: &str) -> PathBuf {
    systest::tidy::root().join("crates/systest/golden").join(name)
}

fn small_setup(data: &Path) -> Setup {
    Setup::new(data).with_args(&["--segment-bytes", "1MiB", "--memory-bytes-max", "16MiB"])
}

/// Returns a value that is derived from its key, of any length.
fn value(key: u32) -> Vec<u8> {
    (0..key as usize * 13 % 2_000).map(|at| (at * 7 + key as usize) as u8).collect()
}

fn set(redis: &mut Resp, key: u32) {
    let answer = redis.call(&[b"SET", format!("key{key:04}").as_bytes(), &value(key)]);
    assert_eq!(answer.expect("it answers"), RespReply::Simple("OK".into()));
}

/// Runs a node twice. The first run is stopped cleanly, so that its rows are in tables. The second
/// is killed, so that its rows, one delete, one row that expires in a thousand years, a session and
/// a bucket with its properties are only in the log.
fn write_example_data(data: &Path) {
    let mut first = Server::must_start(&small_setup(data));
    let mut redis = Resp::connect(first.address).expect("it listens");
    (0..200).for_each(|key| set(&mut redis, key));
    first.stop(Duration::from_secs(30)).expect("it stops when asked");
    let mut second = Server::must_start(&small_setup(data));
    let mut redis = Resp::connect(second.address).expect("it listens");
    (200..300).for_each(|key| set(&mut redis, key));
    assert_eq!(redis.call_line("DEL key0007").expect("it answers"), RespReply::Number(1));
    let expiring = redis.call_line("SET lasting yes EX 31536000000").expect("it answers");
    assert_eq!(expiring, RespReply::Simple("OK".into()));
    let mut web = Http::connect(second.address).expect("it listens");
    let created = web.request("PUT", "/v1/buckets/default/kept", br#"{"sync":"interval"}"#);
    let created = created.expect("it answers");
    assert_eq!(created.status / 100, 2, "{}", created.text());
    let row = "/v1/buckets/default/kept/keys/row";
    let headers = [("content-type", "application/octet-stream")];
    assert_eq!(
        web.request_with_headers("PUT", row, &headers, b"in it").expect("it answers").status / 100,
        2
    );
    second.kill();
}

/// Copies the kept directory; creates it first, if that is requested and it is missing.
fn copy_golden_data(scratch: &Scratch) -> PathBuf {
    let (archive, data) = (golden_path("data-v1.tar.gz"), scratch.join("data"));
    if !archive.exists() && std::env::var("CREDENZA_KEEP").is_ok_and(|mode| mode == "golden") {
        write_example_data(&data);
        std::fs::remove_file(data.join("LOCK")).expect("it is there");
        run_ok(&["tar", "-czf", path_str(&archive), "-C", path_str(scratch.path()), "data"]);
        std::fs::remove_dir_all(&data).expect("ours");
    }
    assert!(archive.exists(), "{} is missing: a kept example is kept for ever", archive.display());
    run_ok(&["tar", "-xzf", path_str(&archive), "-C", path_str(scratch.path())]);
    data
}

#[test]
fn data_directory_of_version_1_opens_with_all_its_contents() {
    let scratch = Scratch::new("golden-data");
    let data = copy_golden_data(&scratch);
    let result = tool(&["verify", path_str(&data)]).output().expect("it runs");
    assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stdout));
    let server = Server::must_start(&small_setup(&data));
    let mut redis = Resp::connect(server.address).expect("it listens");
    for key in 0..300 {
        let found = redis.call_line(&format!("GET key{key:04}")).expect("it answers");
        let expected = (key != 7).then(|| value(key));
        assert_eq!(found, RespReply::Bulk(expected), "key {key}");
    }
    assert_eq!(redis.call_line("DBSIZE").expect("it answers"), RespReply::Number(300));
    let RespReply::Number(ttl_seconds) = redis.call_line("TTL lasting").expect("it answers") else {
        panic!("a number is wanted")
    };
    assert!(ttl_seconds > 30_000_000_000, "{ttl_seconds} seconds are left");
    let mut web = Http::connect(server.address).expect("it listens");
    let row = web.request("GET", "/v1/buckets/default/kept/keys/row", b"").expect("it answers");
    assert_eq!(row.body, b"in it");
    let bucket = web.request("GET", "/v1/buckets/default/kept", b"").expect("it answers");
    assert!(bucket.text().contains("interval"), "{}", bucket.text());
    set(&mut redis, 300);
}

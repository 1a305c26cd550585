//! Old formats are read today: a kept data directory is opened by the current binary. The kept
//! examples of every format on disk are listed in `crates/systest/golden/README.md`.
//!
//! An example is written once, by the first version that has the format, and never again:
//! `CREDENZA_KEEP=golden cargo test -p systest formats` writes it if it is missing.

use std::path::{Path, PathBuf};
use std::time::Duration;
use systest::client::{Http, Resp, RespReply};
use systest::rigs::{Scratch, must, text};
use systest::server::{Server, Setup, tool};

fn golden(name: &str) -> PathBuf {
    systest::tidy::root().join("crates/systest/golden").join(name)
}

fn small(data: &Path) -> Setup {
    Setup::on(data).with(&["--segment-bytes", "1MiB", "--memory-bytes-max", "16MiB"])
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
fn live_twice(data: &Path) {
    let mut first = Server::must(&small(data));
    let mut redis = Resp::connect(first.address).expect("it listens");
    (0..200).for_each(|key| set(&mut redis, key));
    first.stop(Duration::from_secs(30)).expect("it stops when asked");
    let mut second = Server::must(&small(data));
    let mut redis = Resp::connect(second.address).expect("it listens");
    (200..300).for_each(|key| set(&mut redis, key));
    assert_eq!(redis.say("DEL key0007").expect("it answers"), RespReply::Number(1));
    let far = redis.say("SET lasting yes EX 31536000000").expect("it answers");
    assert_eq!(far, RespReply::Simple("OK".into()));
    let mut web = Http::connect(second.address).expect("it listens");
    let made = web.ask("PUT", "/v1/buckets/default/kept", br#"{"sync":"interval"}"#);
    let made = made.expect("it answers");
    assert_eq!(made.status / 100, 2, "{}", made.text());
    let row = "/v1/buckets/default/kept/keys/row";
    let octets = [("content-type", "application/octet-stream")];
    assert_eq!(web.ask_with("PUT", row, &octets, b"in it").expect("it answers").status / 100, 2);
    second.kill();
}

/// Copies the kept directory; creates it first, if that is requested and it is missing.
fn copy_of_the_kept(scratch: &Scratch) -> PathBuf {
    let (kept, data) = (golden("data-v1.tar.gz"), scratch.join("data"));
    if !kept.exists() && std::env::var("CREDENZA_KEEP").is_ok_and(|word| word == "golden") {
        live_twice(&data);
        std::fs::remove_file(data.join("LOCK")).expect("it is there");
        must(&["tar", "-czf", text(&kept), "-C", text(scratch.path()), "data"]);
        std::fs::remove_dir_all(&data).expect("ours");
    }
    assert!(kept.exists(), "{} is missing: a kept example is kept for ever", kept.display());
    must(&["tar", "-xzf", text(&kept), "-C", text(scratch.path())]);
    data
}

#[test]
fn a_data_directory_of_version_1_is_opened_and_holds_what_it_held() {
    let scratch = Scratch::new("golden-data");
    let data = copy_of_the_kept(&scratch);
    let checked = tool(&["verify", text(&data)]).output().expect("it runs");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    let server = Server::must(&small(&data));
    let mut redis = Resp::connect(server.address).expect("it listens");
    for key in 0..300 {
        let found = redis.say(&format!("GET key{key:04}")).expect("it answers");
        let wanted = (key != 7).then(|| value(key));
        assert_eq!(found, RespReply::Bulk(wanted), "key {key}");
    }
    assert_eq!(redis.say("DBSIZE").expect("it answers"), RespReply::Number(300));
    let RespReply::Number(left) = redis.say("TTL lasting").expect("it answers") else {
        panic!("a number is wanted")
    };
    assert!(left > 30_000_000_000, "{left} seconds are left");
    let mut web = Http::connect(server.address).expect("it listens");
    let row = web.ask("GET", "/v1/buckets/default/kept/keys/row", b"").expect("it answers");
    assert_eq!(row.body, b"in it");
    let bucket = web.ask("GET", "/v1/buckets/default/kept", b"").expect("it answers");
    assert!(bucket.text().contains("interval"), "{}", bucket.text());
    set(&mut redis, 300);
}

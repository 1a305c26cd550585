//! Data directories that no node has open: verified, copied, and refused with a reason.

use super::{fresh, output, resp, tool};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;
use systest::client::RespReply;
use systest::rigs::{Scratch, text};
use systest::server::{Server, Setup};

/// Runs the tool without a node; returns exit code, stdout, stderr.
fn run(words: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = output(systest::server::tool(words));
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.code().unwrap_or(-1), text(stdout), text(stderr))
}

fn json(words: &[&str]) -> (i32, Value) {
    let (code, said, complained) = run(words);
    let json = serde_json::from_str(&said);
    (code, json.unwrap_or_else(|error| panic!("{error}: {said} {complained}")))
}

/// Starts a node, writes 300 rows and takes the checkpoint `one`.
fn with_checkpoint(name: &str) -> (Scratch, Server, PathBuf) {
    let (scratch, server) = fresh(name);
    let mut redis = resp(&server);
    for n in 0..300 {
        let done = redis.say(&format!("SET key{n:03} canary-{n:03}")).expect("answers");
        assert_eq!(done, RespReply::Simple("OK".into()));
    }
    let said = tool(&server, &["checkpoint", "one"]);
    let one = scratch.join("data/checkpoints/one");
    assert!(said.contains("checkpoints/one") && one.is_dir(), "{said}");
    (scratch, server, one)
}

#[test]
fn a_checkpoint_is_verified_and_restored_into_a_new_directory_of_the_same_node() {
    let (scratch, mut server, one) = with_checkpoint("restore");
    let before = resp(&server).say("SET late 1").expect("answers");
    assert_eq!(before, RespReply::Simple("OK".into()));
    let (code, report) = json(&["verify", text(&one), "--json"]);
    assert_eq!((code, &report["sound"]), (0, &Value::Bool(true)), "{report}");
    assert!(report["disk"]["fdatasync_us_p50"].as_f64().is_some_and(|us| us > 0.0), "{report}");
    assert!(report["store"]["rows"].as_u64().is_some_and(|rows| rows >= 300), "{report}");
    let copy = scratch.join("copy");
    let (code, said, complained) = run(&["restore", text(&one), "--data", text(&copy)]);
    assert_eq!(code, 0, "{complained}");
    assert!(said.contains("verified"), "{said}");
    let again = run(&["restore", text(&one), "--data", text(&copy)]);
    assert!(again.0 == 2 && again.2.contains("is not empty"), "{again:?}");
    let identity = |data: &Path| fs::read(data.join("IDENTITY")).expect("it has one");
    assert_eq!(identity(&copy), identity(&server.setup.data), "it is another node's");
    // A member does not start without its list of members, so `verify` must report its damage.
    fs::write(copy.join("MEMBERS"), "credenza members 1\nrubbish\n").expect("ours");
    let (code, report) = json(&["verify", text(&copy), "--json"]);
    assert_eq!((code, &report["sound"]), (7, &Value::Bool(false)), "{report}");
    assert!(report["damage"][0]["file"].as_str().is_some_and(|file| file.ends_with("MEMBERS")));
    fs::remove_file(copy.join("MEMBERS")).expect("ours");
    assert!(server.stop(Duration::from_secs(30)).is_some());
    let restored = Server::must(&Setup::on(&copy));
    let mut redis = resp(&restored);
    for n in 0..300 {
        let found = redis.say(&format!("GET key{n:03}")).expect("answers");
        assert_eq!(found, RespReply::Bulk(Some(format!("canary-{n:03}").into_bytes())));
    }
    assert_eq!(
        redis.say("GET late").expect("answers"),
        RespReply::Bulk(None),
        "not of that moment"
    );
    assert_eq!(redis.say("SET late 2").expect("it takes writes"), RespReply::Simple("OK".into()));
}

#[test]
fn a_directory_that_a_node_has_open_is_refused_and_one_that_is_none_too() {
    let (scratch, server) = fresh("check-locked");
    let data = scratch.join("data");
    for words in [vec!["verify", text(&data)], vec!["restore", text(&data), "--data", "nowhere"]] {
        let (code, _, complained) = run(&words);
        assert_eq!(code, 5, "{words:?}: {complained}");
        assert!(complained.contains(&server.pid().to_string()), "{complained}");
        assert!(complained.contains("stop the node first"), "{complained}");
        assert_eq!(complained.lines().count(), 1, "{complained}");
    }
    let nothing = scratch.join("nothing");
    let (code, _, complained) = run(&["verify", text(&nothing)]);
    assert!(code == 2 && complained.contains("no data directory"), "{code} {complained}");
    assert!(!nothing.exists(), "a check made a directory");
}

/// Returns every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("it is there").flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(files(&path)),
            path => found.push(path),
        }
    }
    found
}

/// Flips one bit in the middle of the first place where a file contains these bytes; returns the
/// file and the offset.
fn damage(folder: &Path, bytes: &[u8]) -> (PathBuf, u64) {
    for path in files(folder) {
        let mut held = fs::read(&path).expect("readable");
        if let Some(at) = held.windows(bytes.len()).position(|window| window == bytes) {
            let at = at + bytes.len() / 2;
            held[at] ^= 0x10;
            fs::write(&path, held).expect("ours");
            return (path, at as u64);
        }
    }
    panic!("no file below {} holds it", folder.display())
}

/// Checks that `verify` finds the damage: exit code 7, the file, and an offset at or before the
/// bit.
fn must_be_found(data: &Path, (path, at): &(PathBuf, u64)) {
    let name = path.file_name().expect("a file").to_str().expect("ours");
    let (code, report) = json(&["verify", text(data), "--json"]);
    assert_eq!((code, &report["sound"]), (7, &Value::Bool(false)), "{report}");
    let first = &report["damage"][0];
    assert!(first["file"].as_str().is_some_and(|file| file.ends_with(name)), "{name}: {report}");
    assert!(first["offset"].as_u64().is_some_and(|offset| offset <= *at), "{at}: {report}");
    let (code, said, complained) = run(&["verify", text(data)]);
    assert_eq!(code, 7);
    assert!(said.contains("DAMAGED") && said.contains(name), "{said}");
    assert!(complained.contains(name) && complained.contains("byte"), "{complained}");
    assert_eq!(complained.lines().count(), 1, "{complained}");
}

#[test]
fn damage_in_log_and_store_is_named_with_file_and_place() {
    let (scratch, mut server, one) = with_checkpoint("check-damage");
    for n in 0..100 {
        resp(&server).say(&format!("SET late{n} later-{n:03}")).expect("answers");
    }
    assert!(server.stop(Duration::from_secs(30)).is_some());
    let data = scratch.join("data");
    let (code, said, _) = run(&["verify", text(&data)]);
    assert!(code == 0 && said.contains("sound"), "{said}");
    let bit = damage(&data.join("log"), b"later-050");
    must_be_found(&data, &bit);
    let table = files(&one.join("store"))
        .into_iter()
        .max_by_key(|path| path.metadata().expect("it is there").len());
    let table = table.expect("a table");
    let mut held = fs::read(&table).expect("readable");
    held[100] ^= 0x10;
    fs::write(&table, held).expect("ours");
    must_be_found(&one, &(table, 100));
    let target = scratch.join("copy");
    let (code, _, complained) = run(&["restore", text(&one), "--data", text(&target)]);
    assert_eq!(code, 7, "{complained}");
    assert!(!target.exists(), "half a copy is left");
}

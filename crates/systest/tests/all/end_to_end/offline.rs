//! Data directories that no node has open: verified, copied, and refused with a reason.

use super::{output, resp, start_server, tool};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;
use systest::client::RespReply;
use systest::environment::{Scratch, path_str};
use systest::server::{Server, Setup};

/// Runs the tool without a node; returns exit code, stdout, stderr.
fn run(args: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = output(systest::server::tool(args));
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.code().unwrap_or(-1), text(stdout), text(stderr))
}

fn run_json(args: &[&str]) -> (i32, Value) {
    let (code, stdout, stderr) = run(args);
    let json = serde_json::from_str(&stdout);
    (code, json.unwrap_or_else(|error| panic!("{error}: {stdout} {stderr}")))
}

/// Starts a node, writes 300 rows and takes the checkpoint `checkpoint`.
fn start_with_checkpoint(name: &str) -> (Scratch, Server, PathBuf) {
    let (scratch, server) = start_server(name);
    let mut redis = resp(&server);
    for n in 0..300 {
        let reply = redis.call_line(&format!("SET key{n:03} canary-{n:03}")).expect("answers");
        assert_eq!(reply, RespReply::Simple("OK".into()));
    }
    let stdout = tool(&server, &["checkpoint", "one"]);
    let checkpoint = scratch.join("data/checkpoints/one");
    assert!(stdout.contains("checkpoints/one") && checkpoint.is_dir(), "{stdout}");
    (scratch, server, checkpoint)
}

#[test]
fn checkpoint_is_verified_and_restored_under_the_same_identity() {
    let (scratch, mut server, checkpoint) = start_with_checkpoint("restore");
    let reply = resp(&server).call_line("SET late 1").expect("answers");
    assert_eq!(reply, RespReply::Simple("OK".into()));
    let (code, report) = run_json(&["verify", path_str(&checkpoint), "--json"]);
    assert_eq!((code, &report["sound"]), (0, &Value::Bool(true)), "{report}");
    assert!(report["disk"]["fdatasync_us_p50"].as_f64().is_some_and(|us| us > 0.0), "{report}");
    assert!(report["store"]["rows"].as_u64().is_some_and(|rows| rows >= 300), "{report}");
    let copy = scratch.join("copy");
    let (code, stdout, stderr) =
        run(&["restore", path_str(&checkpoint), "--data", path_str(&copy)]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("verified"), "{stdout}");
    let second_run = run(&["restore", path_str(&checkpoint), "--data", path_str(&copy)]);
    assert!(second_run.0 == 2 && second_run.2.contains("is not empty"), "{second_run:?}");
    let identity = |data: &Path| fs::read(data.join("IDENTITY")).expect("it has one");
    assert_eq!(identity(&copy), identity(&server.setup.data), "it is another node's");
    // A member does not start without its list of members, so `verify` must report its damage.
    fs::write(copy.join("MEMBERS"), "credenza members 1\nrubbish\n").expect("ours");
    let (code, report) = run_json(&["verify", path_str(&copy), "--json"]);
    assert_eq!((code, &report["sound"]), (7, &Value::Bool(false)), "{report}");
    assert!(report["damage"][0]["file"].as_str().is_some_and(|file| file.ends_with("MEMBERS")));
    fs::remove_file(copy.join("MEMBERS")).expect("ours");
    assert!(server.stop(Duration::from_secs(30)).is_some());
    let restored = Server::must_start(&Setup::new(&copy));
    let mut redis = resp(&restored);
    for n in 0..300 {
        let found = redis.call_line(&format!("GET key{n:03}")).expect("answers");
        assert_eq!(found, RespReply::Bulk(Some(format!("canary-{n:03}").into_bytes())));
    }
    assert_eq!(
        redis.call_line("GET late").expect("answers"),
        RespReply::Bulk(None),
        "not of that moment"
    );
    assert_eq!(
        redis.call_line("SET late 2").expect("it takes writes"),
        RespReply::Simple("OK".into())
    );
}

#[test]
fn verify_and_restore_refuse_open_and_missing_data_directories() {
    let (scratch, server) = start_server("check-locked");
    let data = scratch.join("data");
    for args in
        [vec!["verify", path_str(&data)], vec!["restore", path_str(&data), "--data", "nowhere"]]
    {
        let (code, _, stderr) = run(&args);
        assert_eq!(code, 5, "{args:?}: {stderr}");
        assert!(stderr.contains(&server.pid().to_string()), "{stderr}");
        assert!(stderr.contains("stop the node first"), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
    let nothing = scratch.join("nothing");
    let (code, _, stderr) = run(&["verify", path_str(&nothing)]);
    assert!(code == 2 && stderr.contains("no data directory"), "{code} {stderr}");
    assert!(!nothing.exists(), "a check made a directory");
}

/// Returns every file below a folder.
fn list_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("it is there").flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(list_files(&path)),
            path => found.push(path),
        }
    }
    found
}

/// Flips one bit in the middle of the first place where a file contains these bytes; returns the
/// file and the offset.
fn flip_bit(folder: &Path, bytes: &[u8]) -> (PathBuf, u64) {
    for path in list_files(folder) {
        let mut contents = fs::read(&path).expect("readable");
        if let Some(at) = contents.windows(bytes.len()).position(|window| window == bytes) {
            let at = at + bytes.len() / 2;
            contents[at] ^= 0x10;
            fs::write(&path, contents).expect("ours");
            return (path, at as u64);
        }
    }
    panic!("no file below {} holds it", folder.display())
}

/// Checks that `verify` finds the damage: exit code 7, the file, and an offset at or before the
/// bit.
fn must_report_damage(data: &Path, (path, at): &(PathBuf, u64)) {
    let name = path.file_name().expect("a file").to_str().expect("ours");
    let (code, report) = run_json(&["verify", path_str(data), "--json"]);
    assert_eq!((code, &report["sound"]), (7, &Value::Bool(false)), "{report}");
    let first_damage = &report["damage"][0];
    assert!(
        first_damage["file"].as_str().is_some_and(|file| file.ends_with(name)),
        "{name}: {report}"
    );
    assert!(first_damage["offset"].as_u64().is_some_and(|offset| offset <= *at), "{at}: {report}");
    let (code, stdout, stderr) = run(&["verify", path_str(data)]);
    assert_eq!(code, 7);
    assert!(stdout.contains("DAMAGED") && stdout.contains(name), "{stdout}");
    assert!(stderr.contains(name) && stderr.contains("byte"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn verify_reports_log_and_table_damage_with_file_and_offset() {
    let (scratch, mut server, checkpoint) = start_with_checkpoint("check-damage");
    for n in 0..100 {
        resp(&server).call_line(&format!("SET late{n} later-{n:03}")).expect("answers");
    }
    assert!(server.stop(Duration::from_secs(30)).is_some());
    let data = scratch.join("data");
    let (code, stdout, _) = run(&["verify", path_str(&data)]);
    assert!(code == 0 && stdout.contains("sound"), "{stdout}");
    let bit = flip_bit(&data.join("log"), b"later-050");
    must_report_damage(&data, &bit);
    let table = list_files(&checkpoint.join("store"))
        .into_iter()
        .max_by_key(|path| path.metadata().expect("it is there").len());
    let table = table.expect("a table");
    let mut contents = fs::read(&table).expect("readable");
    contents[100] ^= 0x10;
    fs::write(&table, contents).expect("ours");
    must_report_damage(&checkpoint, &(table, 100));
    let target = scratch.join("copy");
    let (code, _, stderr) = run(&["restore", path_str(&checkpoint), "--data", path_str(&target)]);
    assert_eq!(code, 7, "{stderr}");
    assert!(!target.exists(), "half a copy is left");
}

//! Mistakes of users, with the one line that says how to correct each.

use super::{fresh, http, output, put};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use systest::report::skipped;
use systest::rigs::{Scratch, find, text};
use systest::server::{Server, Setup, StartRefusal};

/// Checks a refused start: its exit code, and one line that contains all these words.
fn refused(setup: &Setup, code: i32, words: &[&str]) {
    let StartRefusal { code: given, words: said } = Server::start(setup).expect_err("it started");
    let lines: Vec<_> = said.lines().filter(|line| line.starts_with("credenza: ")).collect();
    assert_eq!(lines.len(), 1, "not one line: {said}");
    for word in words {
        assert!(lines[0].contains(word), "`{word}` is not said: {said}");
    }
    assert_eq!(given, Some(code), "{said}");
}

#[test]
fn a_taken_port_is_named_with_its_setting() {
    let (scratch, server) = fresh("port-taken");
    let address = server.address.to_string();
    let setup = Setup { listen: address.clone(), ..Setup::on(&scratch.join("other")) };
    refused(&setup, 5, &[&address, "in use", "listen"]);
    assert_eq!(put(&mut http(&server), b"a", b"b").status / 100, 2, "the first is unhurt");
}

#[test]
fn a_wrong_settings_file_is_named_with_its_line() {
    let scratch = Scratch::new("wrong-settings");
    let file = scratch.join("node.toml");
    let with = Setup::on(&scratch.join("data")).with(&["--config", text(&file)]);
    for (content, words) in [
        ("name = \"a\"\n\nlog_bites_max = \"1GiB\"\n", ["node.toml:3", "log_bytes_max"]),
        ("name = \"a\"\nmemory_bytes_max = \"much\"\n", ["node.toml:2", "memory_bytes_max"]),
        ("name = \"a\"\nname = \"b\"\n", ["node.toml:2", "duplicate"]),
        ("name = \n", ["node.toml:1", ""]),
        ("[log]\nlevel = \"info\"\n", ["node.toml:1", "log"]),
    ] {
        fs::write(&file, content).expect("ours");
        refused(&with, 2, &words);
    }
    fs::remove_file(&file).expect("ours");
    refused(&with, 2, &["node.toml", "No such file"]);
    let variable = Setup::on(&scratch.join("data")).env("CREDENZA_THREADS", "many");
    refused(&variable, 2, &["CREDENZA_THREADS", "`many`"]);
    assert!(!scratch.join("data").exists(), "a wrong setting made a data directory");
}

#[test]
fn a_data_directory_that_is_none_is_refused_and_left_alone() {
    let scratch = Scratch::new("strange-data");
    let strange = scratch.join("strange");
    fs::create_dir(&strange).expect("ours");
    fs::write(strange.join("letter.txt"), "dear").expect("ours");
    refused(&Setup::on(&strange), 2, &["strange", "other files", "empty or new"]);
    assert_eq!(fs::read_dir(&strange).expect("ours").count(), 1, "something was written");
    refused(&Setup::on(&strange.join("letter.txt")), 2, &["letter.txt"]);
    refused(&Setup::on(&scratch.join("no/such/folder")), 2, &["no/such/folder"]);
}

#[test]
fn a_data_directory_that_may_not_be_read_is_named() {
    let scratch = Scratch::new("unreadable");
    let data = scratch.join("data");
    fs::create_dir(&data).expect("ours");
    let mut setup = Setup::on(&data);
    if rustix::process::geteuid().is_root() {
        // Root reads everything, unless it drops that capability.
        let words = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"];
        let may = |words: &[&str]| {
            let mut command = std::process::Command::new(words[0]);
            command.args(&words[1..]).arg("true");
            find(words[0]).is_some() && output(command).status.success()
        };
        if !may(&words) {
            return skipped("unreadable directory", "root can't lay down its rights here");
        }
        setup = setup.under(&words);
    }
    fs::set_permissions(&data, fs::Permissions::from_mode(0o000)).expect("ours");
    refused(&setup, 3, &["data", "ermission denied"]);
    fs::set_permissions(&data, fs::Permissions::from_mode(0o700)).expect("ours");
}

#[test]
fn commands_say_what_is_wrong_in_a_line_and_by_their_exit_code() {
    let (scratch, server) = fresh("wrong-words");
    let says = |words: &[&str], code: i32, wanted: &[&str]| {
        let done = output(server.tool(words));
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(code), "{words:?}: {said}");
        for word in wanted {
            assert!(said.contains(word), "{words:?}: `{word}` is not said: {said}");
        }
    };
    says(&["get", "-b", "cellar", "a"], 2, &["no_such_bucket", "cellar"]);
    says(&["bucket", "create", "default"], 4, &["already_exists"]);
    says(&["put", "a", "1", "--if-absent"], 0, &[]);
    says(&["put", "a", "2", "--if-absent"], 4, &["a"]);
    says(&["import", text(&scratch.join("none.tsv"))], 2, &["none.tsv", "No such file"]);
    says(&["get", "a", "--consistency", "soon"], 2, &["consistency"]);
    // An error of the command line is one line, too, with a suggestion.
    for (words, meant) in [(&["gett", "a"][..], "'get'"), (&["get", "--hexx", "a"], "'--hex'")] {
        let done = output(server.tool(words));
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!((done.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.starts_with("credenza: ") && said.contains(meant), "{said}");
        assert!(said.contains("--help"), "{said}");
    }
    let nobody = output(systest::server::tool(&["get", "a", "--url", "http://127.0.0.1:1"]));
    let said = String::from_utf8_lossy(&nobody.stderr).into_owned();
    assert_eq!(nobody.status.code(), Some(5), "{said}");
    assert!(said.contains("credenza serve") && said.contains("--url"), "{said}");
}

#[test]
fn with_json_every_failure_is_one_object_on_standard_error() {
    let (_scratch, server) = fresh("json-errors");
    for (words, code, kind, reason, says) in [
        (&["get", "-b", "cellar", "a"][..], 2, "invalid", Some("no_such_bucket"), "cellar"),
        (&["get", "nothing"], 1, "no", None, "no such key"),
        (&["bucket", "create", "default"], 4, "conflict", Some("already_exists"), "default"),
        (&["cluster", "remove", "n9"], 2, "invalid", None, "n9"),
        (&["cluster", "move-master", "n9"], 2, "invalid", None, "n9"),
        (&["import", "/nowhere.tsv"], 2, "invalid", None, "/nowhere.tsv"),
        (&["gett", "a"], 2, "invalid", None, "'get'"),
        (&["put", "a"], 2, "invalid", None, "usage: credenza put"),
        (&["cluster"], 2, "invalid", None, "credenza cluster --help"),
    ] {
        let mut command = systest::server::tool(words);
        command.env("CREDENZA_URL", server.url()).arg("--json");
        let done = output(command);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(code), "{words:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{words:?}: {said}");
        let failure: Value = serde_json::from_str(&said).expect("one object");
        assert_eq!((&failure["kind"], &failure["exit_code"]), (&kind.into(), &code.into()));
        assert_eq!(failure["reason"].as_str(), reason, "{words:?}: {said}");
        assert!(failure["text"].as_str().is_some_and(|text| text.contains(says)), "{said}");
    }
}

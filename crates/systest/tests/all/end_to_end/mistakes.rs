//! Mistakes of users, with the one line that says how to correct each.

use super::{http, output, put, start_server};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use systest::environment::{Scratch, find_tool, path_str};
use systest::report::skipped;
use systest::server::{Server, Setup, StartRefusal};

/// Checks a refused start: its exit code, and one line that contains all these words.
fn must_refuse_start(setup: &Setup, code: i32, expected: &[&str]) {
    let StartRefusal { code: exit_code, output: stderr } =
        Server::start(setup).expect_err("it started");
    let lines: Vec<_> = stderr.lines().filter(|line| line.starts_with("credenza: ")).collect();
    assert_eq!(lines.len(), 1, "not one line: {stderr}");
    for text in expected {
        assert!(lines[0].contains(text), "`{text}` is not said: {stderr}");
    }
    assert_eq!(exit_code, Some(code), "{stderr}");
}

#[test]
fn port_in_use_error_names_address_and_setting() {
    let (scratch, server) = start_server("port-taken");
    let address = server.address.to_string();
    let setup = Setup { listen: address.clone(), ..Setup::new(&scratch.join("other")) };
    must_refuse_start(&setup, 5, &[&address, "in use", "listen"]);
    assert_eq!(put(&mut http(&server), b"a", b"b").status / 100, 2, "the first is unhurt");
}

#[test]
fn invalid_settings_file_error_names_file_and_line() {
    let scratch = Scratch::new("wrong-settings");
    let file = scratch.join("node.toml");
    let setup = Setup::new(&scratch.join("data")).with_args(&["--config", path_str(&file)]);
    for (content, expected) in [
        ("name = \"a\"\n\nlog_bites_max = \"1GiB\"\n", ["node.toml:3", "log_bytes_max"]),
        ("name = \"a\"\nmemory_bytes_max = \"much\"\n", ["node.toml:2", "memory_bytes_max"]),
        ("name = \"a\"\nname = \"b\"\n", ["node.toml:2", "duplicate"]),
        ("name = \n", ["node.toml:1", ""]),
        ("[log]\nlevel = \"info\"\n", ["node.toml:1", "log"]),
    ] {
        fs::write(&file, content).expect("ours");
        must_refuse_start(&setup, 2, &expected);
    }
    fs::remove_file(&file).expect("ours");
    must_refuse_start(&setup, 2, &["node.toml", "No such file"]);
    let variable = Setup::new(&scratch.join("data")).env("CREDENZA_THREADS", "many");
    must_refuse_start(&variable, 2, &["CREDENZA_THREADS", "`many`"]);
    assert!(!scratch.join("data").exists(), "a wrong setting made a data directory");
}

#[test]
fn directory_with_foreign_files_is_refused_and_left_unchanged() {
    let scratch = Scratch::new("strange-data");
    let foreign = scratch.join("strange");
    fs::create_dir(&foreign).expect("ours");
    fs::write(foreign.join("letter.txt"), "dear").expect("ours");
    must_refuse_start(&Setup::new(&foreign), 2, &["strange", "other files", "empty or new"]);
    assert_eq!(fs::read_dir(&foreign).expect("ours").count(), 1, "something was written");
    must_refuse_start(&Setup::new(&foreign.join("letter.txt")), 2, &["letter.txt"]);
    must_refuse_start(&Setup::new(&scratch.join("no/such/folder")), 2, &["no/such/folder"]);
}

#[test]
fn unreadable_data_directory_error_names_the_directory() {
    let scratch = Scratch::new("unreadable");
    let data = scratch.join("data");
    fs::create_dir(&data).expect("ours");
    let mut setup = Setup::new(&data);
    if rustix::process::geteuid().is_root() {
        // Root reads everything, unless it drops that capability.
        let args = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"];
        let can_run = |args: &[&str]| {
            let mut command = std::process::Command::new(args[0]);
            command.args(&args[1..]).arg("true");
            find_tool(args[0]).is_some() && output(command).status.success()
        };
        if !can_run(&args) {
            return skipped("unreadable directory", "root can't lay down its rights here");
        }
        setup = setup.with_wrapper(&args);
    }
    fs::set_permissions(&data, fs::Permissions::from_mode(0o000)).expect("ours");
    must_refuse_start(&setup, 3, &["data", "ermission denied"]);
    fs::set_permissions(&data, fs::Permissions::from_mode(0o700)).expect("ours");
}

#[test]
fn command_errors_name_the_cause_and_set_the_exit_code() {
    let (scratch, server) = start_server("wrong-words");
    let must_fail_with = |args: &[&str], code: i32, expected: &[&str]| {
        let result = output(server.tool(args));
        let stderr = String::from_utf8_lossy(&result.stderr).into_owned();
        assert_eq!(result.status.code(), Some(code), "{args:?}: {stderr}");
        for text in expected {
            assert!(stderr.contains(text), "{args:?}: `{text}` is not said: {stderr}");
        }
    };
    must_fail_with(&["get", "-b", "cellar", "a"], 2, &["no_such_bucket", "cellar"]);
    must_fail_with(&["bucket", "create", "default"], 4, &["already_exists"]);
    must_fail_with(&["put", "a", "1", "--if-absent"], 0, &[]);
    must_fail_with(&["put", "a", "2", "--if-absent"], 4, &["a"]);
    must_fail_with(
        &["import", path_str(&scratch.join("none.tsv"))],
        2,
        &["none.tsv", "No such file"],
    );
    must_fail_with(&["get", "a", "--consistency", "soon"], 2, &["consistency"]);
    // An error of the command line is one line, too, with a suggestion.
    for (args, suggestion) in [(&["gett", "a"][..], "'get'"), (&["get", "--hexx", "a"], "'--hex'")]
    {
        let result = output(server.tool(args));
        let stderr = String::from_utf8_lossy(&result.stderr).into_owned();
        assert_eq!((result.status.code(), stderr.lines().count()), (Some(2), 1), "{stderr}");
        assert!(stderr.starts_with("credenza: ") && stderr.contains(suggestion), "{stderr}");
        assert!(stderr.contains("--help"), "{stderr}");
    }
    let unreachable = output(systest::server::tool(&["get", "a", "--url", "http://127.0.0.1:1"]));
    let stderr = String::from_utf8_lossy(&unreachable.stderr).into_owned();
    assert_eq!(unreachable.status.code(), Some(5), "{stderr}");
    assert!(stderr.contains("credenza serve") && stderr.contains("--url"), "{stderr}");
}

#[test]
fn json_flag_prints_each_failure_as_one_object_on_stderr() {
    let (_scratch, server) = start_server("json-errors");
    for (args, code, kind, reason, expected) in [
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
        let mut command = systest::server::tool(args);
        command.env("CREDENZA_URL", server.url()).arg("--json");
        let result = output(command);
        let stderr = String::from_utf8_lossy(&result.stderr).into_owned();
        assert_eq!(result.status.code(), Some(code), "{args:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{args:?}: {stderr}");
        let failure: Value = serde_json::from_str(&stderr).expect("one object");
        assert_eq!((&failure["kind"], &failure["exit_code"]), (&kind.into(), &code.into()));
        assert_eq!(failure["reason"].as_str(), reason, "{args:?}: {stderr}");
        assert!(failure["text"].as_str().is_some_and(|text| text.contains(expected)), "{stderr}");
    }
}

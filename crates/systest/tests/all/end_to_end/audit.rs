//! The audit log of the real binary: what its commands show and verify, and what a kill leaves.

use super::{output, start_server, tool};
use std::fs::OpenOptions;
use std::io::Write;
use std::time::Duration;
use systest::environment::path_str;
use systest::server::Server;

/// Runs a command that needs no address. Returns its exit code, and what it printed.
fn local(args: &[&str]) -> (Option<i32>, String, String) {
    let result = output(systest::server::tool(args));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (result.status.code(), text(&result.stdout), text(&result.stderr))
}

/// Runs such a command, which must succeed. Returns what it printed.
fn must(args: &[&str]) -> String {
    let (code, stdout, stderr) = local(args);
    assert_eq!(code, Some(0), "credenza {}: {stderr}", args.join(" "));
    stdout
}

#[test]
fn audit_log_of_a_killed_node_verifies_and_its_torn_line_is_reported() {
    let (scratch, mut server) = start_server("audit");
    let data = scratch.join("data");
    let data = path_str(&data);
    must(&["access", "init", "--data", data]);
    must(&["access", "off", "--confirm", "off", "--data", data]);
    tool(&server, &["bucket", "create", "carts"]);
    let shown = must(&["audit", "tail", "--data", data]);
    for words in
        ["(local) (local) init_access cluster admin allowed", "init_access cluster admin done"]
    {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert!(shown.contains("create_bucket default/carts done"), "{shown}");
    let verified = must(&["audit", "verify", "--data", data]);
    assert!(verified.ends_with("sound\n"), "{verified}");
    let last = verified.lines().find_map(|line| line.strip_prefix("last line  "));
    let last = last.expect("it is printed").to_string();
    server.kill();
    // As if it had been killed in the middle of a line.
    let file = scratch.join("data/audit/audit-0000000001.jsonl");
    let mut torn = OpenOptions::new().append(true).open(&file).expect("it is there");
    torn.write_all(b"{\"before\":\"00").expect("ours");
    let setup = server.setup.clone();
    drop(server);
    let mut server = Server::must_start(&setup);
    let verified = must(&["audit", "verify", "--data", data, "--expect", &last]);
    assert!(verified.contains("a crash left 13 bytes") && verified.ends_with("sound\n"));
    server.stop(Duration::from_secs(30)).expect("it stops");
    // Somebody changes a name.
    let text = std::fs::read_to_string(&file).expect("text");
    std::fs::write(&file, text.replace("carts", "other")).expect("ours");
    let (code, _, refused) = local(&["audit", "verify", "--data", data]);
    assert_eq!(code, Some(7), "{refused}");
    assert!(refused.contains("the audit log is broken at line "), "{refused}");
    assert!(refused.contains("its hash does not match its bytes"), "{refused}");
    let (_, json, _) = local(&["audit", "verify", "--data", data, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((&json["sound"], &json["unfinished_bytes"]), (&false.into(), &0.into()));
    let (code, _, missing) = local(&["audit", "tail", "--data", "nowhere"]);
    assert_eq!(code, Some(2), "{missing}");
    assert!(missing.contains("nowhere/audit"), "{missing}");
}

//! A checkpoint taken during writes is a state that existed, and serves like any other data.

use super::{http, must_fail, resp, start_server, tool};
use std::time::Duration;
use systest::client::RespReply;
use systest::environment::{StopOnDrop, path_str};
use systest::report::Figures;
use systest::server::{Server, Setup};
use systest::workload::Load;
use systest::workload::ledger::{ClientProtocol, WriterPlan};

#[test]
fn checkpoint_under_writes_restores_to_a_state_without_gaps() {
    let (scratch, server) = start_server("checkpoint");
    let mut figures = Figures::start("checkpoint while writing");
    let plan = |client| WriterPlan {
        client,
        keys: 200,
        depth: 8,
        bytes: 400,
        protocol: ClientProtocol::Resp,
    };
    let load_before = Load::start(server.address, &[plan(1)]);
    std::thread::sleep(Duration::from_millis(500));
    let ledger_before = load_before.stop();
    ledger_before.judge(server.address).expect("readable").must_be_clean();
    let load_during = Load::start(server.address, &[plan(2), plan(3)]);
    // One writer numbers its keys: in a state that existed, the numbers have no gap.
    let stop = std::sync::atomic::AtomicBool::new(false);
    let target = scratch.join("data/checkpoints/now");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut redis = resp(&server);
            for n in 0.. {
                if stop.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
                let _ = redis.call_line(&format!("SET chain{n:08} {n}")).expect("answers");
            }
        });
        let _stop = StopOnDrop(&stop);
        std::thread::sleep(Duration::from_millis(300));
        let body = serde_json::json!({ "target": target }).to_string();
        let response = http(&server).request("POST", "/v1/admin/checkpoint", body.as_bytes());
        let response = response.expect("answers");
        assert_eq!(response.status / 100, 2, "{}", response.text());
    });
    let ledger_during = load_during.stop();
    ledger_during.judge(server.address).expect("readable").must_be_clean();
    let restored = scratch.join("restored");
    let args = ["restore", path_str(&target), "--data", path_str(&restored)];
    let result = systest::server::tool(&args).output().expect("the tool runs");
    assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
    let copy = Server::must_start(&Setup::new(&restored));
    let verdict = ledger_before.judge(copy.address).expect("readable");
    verdict.must_be_clean();
    let length = chain_length(&copy);
    assert!(length > 0, "nothing that was written before the checkpoint is in it");
    figures.ok = ledger_before.ok + ledger_during.ok;
    figures.faults = 1;
    figures.add("compared", verdict.checked);
    figures.add("chain", length);
    figures.print();
}

/// Returns the number of numbered keys, which must be consecutive from the first.
fn chain_length(server: &Server) -> usize {
    let output = tool(server, &["range", "--prefix", "chain", "--keys", "--json"]);
    let length = output.matches("chain0").count();
    let mut redis = resp(server);
    for n in 0..length {
        let found = redis.call_line(&format!("GET chain{n:08}")).expect("answers");
        assert_eq!(
            found,
            RespReply::Bulk(Some(n.to_string().into_bytes())),
            "a hole at {n} of {length}"
        );
    }
    length
}

#[test]
fn checkpoint_outside_data_directory_is_refused() {
    let (scratch, server) = start_server("checkpoint-outside");
    for target in ["/tmp/credenza-outside", "../../outside", "checkpoints/../../outside"] {
        let body = serde_json::json!({ "target": target }).to_string();
        let answer = http(&server).request("POST", "/v1/admin/checkpoint", body.as_bytes());
        let answer = answer.expect("answers");
        assert!((400..500).contains(&answer.status), "{target}: {}", answer.status);
    }
    assert!(!scratch.join("outside").exists());
}

#[test]
fn checkpoints_are_listed_and_removed_only_by_plain_name() {
    let (scratch, server) = start_server("checkpoint-list");
    assert_eq!(tool(&server, &["checkpoint", "list", "--json"]).trim(), "[]");
    tool(&server, &["put", "a", "1"]);
    tool(&server, &["checkpoint", "monday"]);
    tool(&server, &["checkpoint", "create", "list"]);
    let error = must_fail(&server, &["checkpoint", "monday"], 4);
    assert!(error.contains("already_exists"), "{error}");
    let table = tool(&server, &["checkpoint", "list"]);
    let rows: Vec<&str> = table.lines().skip(1).collect();
    assert_eq!(rows.len(), 2, "{table}");
    assert!(rows[0].starts_with("list ") && rows[1].starts_with("monday "), "{table}");
    assert!(rows.iter().all(|row| row.ends_with("whole") && row.contains("iB")), "{table}");

    let other_folder = scratch.join("data/kept");
    std::fs::create_dir(&other_folder).expect("ours");
    let folder = scratch.join("data/checkpoints");
    std::os::unix::fs::symlink(&other_folder, folder.join("link")).expect("ours");
    let mut connection = http(&server);
    for name in ["..", "../kept", "%2e%2e", "..%2fkept", "%2E%2E%2Fkept", "link", "", ".", "a%00"] {
        let path = format!("/v1/admin/checkpoints/{name}?confirm={name}");
        let answer = connection.request("DELETE", &path, b"").expect("answers");
        assert!((400..500).contains(&answer.status), "{name}: {}", answer.status);
    }
    assert!(other_folder.exists() && folder.join("link").exists());
    must_fail(&server, &["checkpoint", "remove", "../kept"], 3);
    let missing = must_fail(&server, &["checkpoint", "remove", "friday"], 2);
    assert!(missing.contains("credenza checkpoint list"), "{missing}");
    tool(&server, &["checkpoint", "remove", "monday"]);
    assert!(!folder.join("monday").exists());
    let remaining = tool(&server, &["checkpoint", "list"]);
    assert!(remaining.contains("list ") && !remaining.contains("monday"), "{remaining}");
    // The node and the other checkpoint are undamaged: hard links share no changes.
    assert_eq!(tool(&server, &["get", "a"]), "1");
    let result = systest::server::tool(&["verify", path_str(&folder.join("list"))]).output();
    assert!(result.expect("the tool runs").status.success());
}

//! A checkpoint taken during writes is a state that existed, and serves like any other data.

use super::{fails, fresh, http, resp, tool};
use std::time::Duration;
use systest::client::RespReply;
use systest::report::Figures;
use systest::rigs::StopOnDrop;
use systest::server::{Server, Setup};
use systest::workload::Load;
use systest::workload::ledger::{ClientProtocol, Writing};

#[test]
fn a_checkpoint_while_writing_restores_to_a_state_that_once_was() {
    let (scratch, server) = fresh("checkpoint");
    let mut figures = Figures::begin("checkpoint while writing");
    let how = |client| Writing {
        client,
        keys: 200,
        depth: 8,
        bytes: 400,
        protocol: ClientProtocol::Resp,
    };
    let before = Load::start(server.address, &[how(1)]);
    std::thread::sleep(Duration::from_millis(500));
    let settled = before.stop();
    settled.judge(server.address).expect("readable").must_be_clean();
    let during = Load::start(server.address, &[how(2), how(3)]);
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
                let _ = redis.say(&format!("SET chain{n:08} {n}")).expect("answers");
            }
        });
        let _stop = StopOnDrop(&stop);
        std::thread::sleep(Duration::from_millis(300));
        let body = serde_json::json!({ "target": target }).to_string();
        let made = http(&server).ask("POST", "/v1/admin/checkpoint", body.as_bytes());
        let made = made.expect("answers");
        assert_eq!(made.status / 100, 2, "{}", made.text());
    });
    let after = during.stop();
    after.judge(server.address).expect("readable").must_be_clean();
    let restored = scratch.join("restored");
    let words = ["restore", systest::rigs::text(&target), "--data", systest::rigs::text(&restored)];
    let done = systest::server::tool(&words).output().expect("the tool runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let copy = Server::must(&Setup::on(&restored));
    let verdict = settled.judge(copy.address).expect("readable");
    verdict.must_be_clean();
    let length = chain(&copy);
    assert!(length > 0, "nothing that was written before the checkpoint is in it");
    figures.ok = settled.ok + after.ok;
    figures.faults = 1;
    figures.also("compared", verdict.checked);
    figures.also("chain", length);
    figures.print();
}

/// Returns the number of numbered keys, which must be consecutive from the first.
fn chain(server: &Server) -> usize {
    let listed = tool(server, &["range", "--prefix", "chain", "--keys", "--json"]);
    let length = listed.matches("chain0").count();
    let mut redis = resp(server);
    for n in 0..length {
        let found = redis.say(&format!("GET chain{n:08}")).expect("answers");
        assert_eq!(
            found,
            RespReply::Bulk(Some(n.to_string().into_bytes())),
            "a hole at {n} of {length}"
        );
    }
    length
}

#[test]
fn a_checkpoint_outside_the_data_directory_is_refused() {
    let (scratch, server) = fresh("checkpoint-outside");
    for target in ["/tmp/credenza-outside", "../../outside", "checkpoints/../../outside"] {
        let body = serde_json::json!({ "target": target }).to_string();
        let answer = http(&server).ask("POST", "/v1/admin/checkpoint", body.as_bytes());
        let answer = answer.expect("answers");
        assert!((400..500).contains(&answer.status), "{target}: {}", answer.status);
    }
    assert!(!scratch.join("outside").exists());
}

#[test]
fn checkpoints_are_listed_and_removed_by_their_names_alone() {
    let (scratch, server) = fresh("checkpoint-list");
    assert_eq!(tool(&server, &["checkpoint", "list", "--json"]).trim(), "[]");
    tool(&server, &["put", "a", "1"]);
    tool(&server, &["checkpoint", "monday"]);
    tool(&server, &["checkpoint", "create", "list"]);
    let again = fails(&server, &["checkpoint", "monday"], 4);
    assert!(again.contains("already_exists"), "{again}");
    let table = tool(&server, &["checkpoint", "list"]);
    let rows: Vec<&str> = table.lines().skip(1).collect();
    assert_eq!(rows.len(), 2, "{table}");
    assert!(rows[0].starts_with("list ") && rows[1].starts_with("monday "), "{table}");
    assert!(rows.iter().all(|row| row.ends_with("whole") && row.contains("iB")), "{table}");

    let kept = scratch.join("data/kept");
    std::fs::create_dir(&kept).expect("ours");
    let folder = scratch.join("data/checkpoints");
    std::os::unix::fs::symlink(&kept, folder.join("link")).expect("ours");
    let mut connection = http(&server);
    for name in ["..", "../kept", "%2e%2e", "..%2fkept", "%2E%2E%2Fkept", "link", "", ".", "a%00"] {
        let path = format!("/v1/admin/checkpoints/{name}");
        let answer = connection.ask("DELETE", &path, b"").expect("answers");
        assert!((400..500).contains(&answer.status), "{name}: {}", answer.status);
    }
    assert!(kept.exists() && folder.join("link").exists());
    fails(&server, &["checkpoint", "remove", "../kept"], 3);
    let missing = fails(&server, &["checkpoint", "remove", "friday"], 2);
    assert!(missing.contains("credenza checkpoint list"), "{missing}");
    tool(&server, &["checkpoint", "remove", "monday"]);
    assert!(!folder.join("monday").exists());
    let left = tool(&server, &["checkpoint", "list"]);
    assert!(left.contains("list ") && !left.contains("monday"), "{left}");
    // The node and the other checkpoint are undamaged: hard links share no changes.
    assert_eq!(tool(&server, &["get", "a"]), "1");
    let checked =
        systest::server::tool(&["verify", systest::rigs::text(&folder.join("list"))]).output();
    assert!(checked.expect("the tool runs").status.success());
}

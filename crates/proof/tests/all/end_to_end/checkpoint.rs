//! A checkpoint taken while clients write is a state that once was, and serves like any other data.

use super::{fresh, http, resp, tool};
use proof::client::Word;
use proof::history::{Tongue, Writing};
use proof::load::Load;
use proof::report::Figures;
use proof::rigs::StopOnDrop;
use proof::server::{Server, Setup};
use std::time::Duration;

#[test]
fn a_checkpoint_while_writing_restores_to_a_state_that_once_was() {
    let (scratch, server) = fresh("checkpoint");
    let mut figures = Figures::begin("checkpoint while writing");
    let how = |client| Writing { client, keys: 200, depth: 8, bytes: 400, tongue: Tongue::Resp };
    let before = Load::start(server.address, &[how(1)]);
    std::thread::sleep(Duration::from_millis(500));
    let settled = before.stop();
    settled.judge(server.address).expect("readable").must_be_clean();
    let during = Load::start(server.address, &[how(2), how(3)]);
    // One writer numbers its keys: in a state that once was, the numbers have no hole.
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
    let words = ["restore", proof::rigs::text(&target), "--data", proof::rigs::text(&restored)];
    let done = proof::server::tool(&words).output().expect("the tool runs");
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

/// How many numbered keys there are; they must be the first ones, without a hole.
fn chain(server: &Server) -> usize {
    let listed = tool(server, &["range", "--prefix", "chain", "--keys", "--json"]);
    let length = listed.matches("chain0").count();
    let mut redis = resp(server);
    for n in 0..length {
        let found = redis.say(&format!("GET chain{n:08}")).expect("answers");
        assert_eq!(
            found,
            Word::Bulk(Some(n.to_string().into_bytes())),
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

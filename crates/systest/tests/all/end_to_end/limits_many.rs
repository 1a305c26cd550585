//! Large counts: a hundred thousand sessions and buckets are really created.

use super::{http, put, resp, tool};
use base::limits::{BUCKETS_MAX, SESSIONS_MAX};
use std::time::Duration;
use systest::client::{HttpResponse, Resp, RespReply, encode_command};
use systest::environment::Scratch;
use systest::report::{is_long_form, skipped};
use systest::server::{Server, Setup};

/// Number of commands sent before their answers are read.
const BATCH: usize = 1_000;

/// Sends all commands; returns their answers.
fn run_all(redis: &mut Resp, commands: impl Iterator<Item = Vec<u8>>) -> Vec<RespReply> {
    let commands: Vec<_> = commands.collect();
    let mut answers = Vec::with_capacity(commands.len());
    for batch in commands.chunks(BATCH) {
        redis.send(&batch.concat()).expect("it listens");
        answers.extend(batch.iter().map(|_| redis.receive().expect("it answers")));
    }
    answers
}

fn must_exceed_limit(reply: &RespReply, limit: &str) {
    let error = reply.error().unwrap_or_else(|| panic!("one too many was taken: {reply:?}"));
    assert!(error.starts_with("TOOMANY ") && error.contains(limit), "{error}");
}

fn must_be_refused(answer: &HttpResponse, limit: &str) {
    let status_and_reason = (answer.status, answer.reason());
    assert_eq!(status_and_reason, (503, "too_many".into()), "{}", answer.text());
    assert!(answer.text().contains(limit) && answer.header("retry-after").is_some());
}

#[test]
fn session_limit_is_exact_also_after_restart() {
    let scratch = Scratch::new("limit-sessions");
    let setup = Setup::new(&scratch.join("data"));
    let mut server = Server::must_start(&setup);
    let mut redis = resp(&server);
    let open = || encode_command(&[b"CREDENZA.SESSION", b"OPEN"]);
    let opened = run_all(&mut redis, (0..SESSIONS_MAX).map(|_| open()));
    assert_eq!(opened.iter().find_map(RespReply::error), None, "all of them fit");
    let sessions = "/v1/sessions/default/default";
    for session in &opened[..2] {
        let (mut redis, mut web) = (resp(&server), http(&server));
        must_exceed_limit(
            &redis.call_line("CREDENZA.SESSION OPEN").expect("answers"),
            "sessions_max",
        );
        must_be_refused(&web.request("POST", sessions, b"").expect("answers"), "sessions_max");
        // A session that is closed makes space for one, at either front-end.
        let id = session.bytes().map(String::from_utf8_lossy).expect("a session's id");
        let closed = web.request("DELETE", &format!("{sessions}/{id}"), b"").expect("answers");
        assert_eq!(closed.status / 100, 2, "{}", closed.text());
        let reopened = web.request("POST", sessions, b"").expect("answers");
        assert_eq!(reopened.status / 100, 2, "{}", reopened.text());
        must_exceed_limit(
            &redis.call_line("CREDENZA.SESSION OPEN").expect("answers"),
            "sessions_max",
        );
        assert_eq!(put(&mut web, b"k", b"v").status, 204, "the others are served as before");
        server.kill();
        server = Server::must_start(&setup);
    }
}

#[test]
fn bucket_limit_is_exact_also_after_restart() {
    let name = "a hundred thousand buckets";
    // Each creation is a change of the directory with its own sync: minutes on a disk.
    let scratch = match Scratch::in_memory("limit-buckets") {
        Some(scratch) => scratch,
        None if is_long_form() => Scratch::new("limit-buckets"),
        None => return skipped(name, "needs /dev/shm, or minutes: `make test-long`"),
    };
    let setup = Setup::new(&scratch.join("data"));
    let mut server = Server::must_start(&setup);
    let create = |n: usize| encode_command(&[b"CREDENZA.CREATE", format!("b{n:06}").as_bytes()]);
    // `default/default` exists already.
    let replies = run_all(&mut resp(&server), (1..BUCKETS_MAX).map(create));
    assert_eq!(replies.iter().find_map(RespReply::error), None, "all of them fit");
    for round in 0..2 {
        let (mut redis, mut web) = (resp(&server), http(&server));
        let extra = format!("/v1/buckets/default/extra{round}");
        must_exceed_limit(
            &redis.call_line("CREDENZA.CREATE extra").expect("answers"),
            "buckets_max",
        );
        must_be_refused(&web.request("PUT", &extra, b"{}").expect("answers"), "buckets_max");
        // A bucket that is dropped makes space for one, at either front-end.
        tool(&server, &["bucket", "drop", &format!("b{:06}", 1 + round), "--yes"]);
        let recreated = web.request("PUT", &extra, b"{}").expect("answers");
        assert_eq!(recreated.status / 100, 2, "{}", recreated.text());
        must_exceed_limit(
            &redis.call_line("CREDENZA.CREATE extra").expect("answers"),
            "buckets_max",
        );
        assert_eq!(put(&mut web, b"k", b"v").status, 204, "the others are served as before");
        let status = web.request("GET", "/status", b"").expect("answers").json();
        assert_eq!(status["buckets"], BUCKETS_MAX);
        server.stop(Duration::from_secs(60)).expect("it stops");
        server = Server::must_start(&setup);
    }
}

//! Large counts: a hundred thousand sessions and buckets are really created.

use super::{http, put, resp, tool};
use base::limits::{BUCKETS_MAX, SESSIONS_MAX};
use std::time::Duration;
use systest::client::{HttpResponse, Resp, RespReply, command};
use systest::report::{long, skipped};
use systest::rigs::Scratch;
use systest::server::{Server, Setup};

/// Number of commands sent before their answers are read.
const BATCH: usize = 1_000;

/// Sends all commands; returns their answers.
fn say_all(redis: &mut Resp, words: impl Iterator<Item = Vec<u8>>) -> Vec<RespReply> {
    let words: Vec<_> = words.collect();
    let mut answers = Vec::with_capacity(words.len());
    for part in words.chunks(BATCH) {
        redis.send(&part.concat()).expect("it listens");
        answers.extend(part.iter().map(|_| redis.receive().expect("it answers")));
    }
    answers
}

fn is_one_too_many(word: &RespReply, limit: &str) {
    let error = word.error().unwrap_or_else(|| panic!("one too many was taken: {word:?}"));
    assert!(error.starts_with("TOOMANY ") && error.contains(limit), "{error}");
}

fn refused(answer: &HttpResponse, limit: &str) {
    let seen = (answer.status, answer.reason());
    assert_eq!(seen, (503, "too_many".into()), "{}", answer.text());
    assert!(answer.text().contains(limit) && answer.header("retry-after").is_some());
}

#[test]
fn sessions_end_exactly_at_their_limit_and_so_they_do_after_a_restart() {
    let scratch = Scratch::new("limit-sessions");
    let setup = Setup::on(&scratch.join("data"));
    let mut server = Server::must(&setup);
    let mut redis = resp(&server);
    let open = || command(&[b"CREDENZA.SESSION", b"OPEN"]);
    let opened = say_all(&mut redis, (0..SESSIONS_MAX).map(|_| open()));
    assert_eq!(opened.iter().find_map(RespReply::error), None, "all of them fit");
    let sessions = "/v1/sessions/default/default";
    for session in &opened[..2] {
        let (mut redis, mut web) = (resp(&server), http(&server));
        is_one_too_many(&redis.say("CREDENZA.SESSION OPEN").expect("answers"), "sessions_max");
        refused(&web.ask("POST", sessions, b"").expect("answers"), "sessions_max");
        // A session that is closed makes space for one, at either front-end.
        let id = session.bytes().map(String::from_utf8_lossy).expect("a session's id");
        let closed = web.ask("DELETE", &format!("{sessions}/{id}"), b"").expect("answers");
        assert_eq!(closed.status / 100, 2, "{}", closed.text());
        let again = web.ask("POST", sessions, b"").expect("answers");
        assert_eq!(again.status / 100, 2, "{}", again.text());
        is_one_too_many(&redis.say("CREDENZA.SESSION OPEN").expect("answers"), "sessions_max");
        assert_eq!(put(&mut web, b"k", b"v").status, 204, "the others are served as before");
        server.kill();
        server = Server::must(&setup);
    }
}

#[test]
fn buckets_end_exactly_at_their_limit_and_so_they_do_after_a_restart() {
    let name = "a hundred thousand buckets";
    // Each creation is a change of the directory with its own sync: minutes on a disk.
    let scratch = match Scratch::in_memory("limit-buckets") {
        Some(scratch) => scratch,
        None if long() => Scratch::new("limit-buckets"),
        None => return skipped(name, "needs /dev/shm, or minutes: `make test-long`"),
    };
    let setup = Setup::on(&scratch.join("data"));
    let mut server = Server::must(&setup);
    let create = |n: usize| command(&[b"CREDENZA.CREATE", format!("b{n:06}").as_bytes()]);
    // `default/default` exists already.
    let made = say_all(&mut resp(&server), (1..BUCKETS_MAX).map(create));
    assert_eq!(made.iter().find_map(RespReply::error), None, "all of them fit");
    for round in 0..2 {
        let (mut redis, mut web) = (resp(&server), http(&server));
        let extra = format!("/v1/buckets/default/extra{round}");
        is_one_too_many(&redis.say("CREDENZA.CREATE extra").expect("answers"), "buckets_max");
        refused(&web.ask("PUT", &extra, b"{}").expect("answers"), "buckets_max");
        // A bucket that is dropped makes space for one, at either front-end.
        tool(&server, &["bucket", "drop", &format!("b{:06}", 1 + round), "--yes"]);
        let again = web.ask("PUT", &extra, b"{}").expect("answers");
        assert_eq!(again.status / 100, 2, "{}", again.text());
        is_one_too_many(&redis.say("CREDENZA.CREATE extra").expect("answers"), "buckets_max");
        assert_eq!(put(&mut web, b"k", b"v").status, 204, "the others are served as before");
        let status = web.ask("GET", "/status", b"").expect("answers").json();
        assert_eq!(status["buckets"], BUCKETS_MAX);
        server.stop(Duration::from_secs(60)).expect("it stops");
        server = Server::must(&setup);
    }
}

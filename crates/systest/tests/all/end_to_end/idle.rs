//! Connections that are idle for too long are closed, at each front-end by its own setting; those
//! that send requests in time stay open.

use super::{http, resp};
use std::time::{Duration, Instant};
use systest::client::{Http, Resp, RespReply};
use systest::rigs::Scratch;
use systest::server::{Server, Setup};

const LIMIT: Duration = Duration::from_secs(2);
/// Tolerance for the clocks of a busy machine: a connection is not closed earlier than this before
/// its time.
const EARLY_MAX: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends requests, never idle for as long as the limit; fails if the connection is closed.
fn stays(mut ask: impl FnMut() -> bool) {
    let begun = Instant::now();
    while begun.elapsed() < LIMIT * 5 / 2 {
        let asked = Instant::now();
        std::thread::sleep(LIMIT / 8);
        // A machine that delayed this thread for so long has proved nothing.
        if asked.elapsed() > LIMIT - EARLY_MAX {
            return;
        }
        assert!(ask(), "closed {:?} after the last answer", asked.elapsed());
    }
}

fn live(web: &mut Http) -> bool {
    web.ask("GET", "/live", b"").is_ok_and(|answer| answer.status == 200)
}

fn ping(redis: &mut Resp) -> bool {
    redis.say("PING").is_ok_and(|word| word == RespReply::Simple("PONG".into()))
}

#[test]
fn idle_connections_are_closed_at_http_and_kept_at_resp_unless_told_otherwise() {
    let scratch = Scratch::new("idle-http");
    let setup = Setup::on(&scratch.join("data")).with(&["--http-idle-ms-max", "2s"]);
    let server = Server::must(&setup);
    let (mut kept, mut redis) = (http(&server), resp(&server));
    assert!(ping(&mut redis));
    std::thread::scope(|scope| {
        scope.spawn(|| stays(|| live(&mut kept)));
        scope.spawn(|| {
            let mut silent = http(&server);
            assert!(live(&mut silent));
            let since = Instant::now();
            assert!(silent.closed_within(PATIENCE), "an idle connection stays open");
            assert!(since.elapsed() > LIMIT - EARLY_MAX, "closed after {:?}", since.elapsed());
        });
    });
    assert!(ping(&mut redis), "Redis' clients keep connections for later");
    assert_eq!(
        redis.say("CONFIG GET timeout").expect("answers").list()[1].bytes(),
        Some(&b"0"[..])
    );
}

#[test]
fn idle_connections_of_redis_protocol_are_closed_when_a_limit_is_set() {
    let scratch = Scratch::new("idle-resp");
    let setup = Setup::on(&scratch.join("data")).with(&["--resp-idle-ms-max", "2s"]);
    let server = Server::must(&setup);
    let (mut kept, mut web) = (resp(&server), http(&server));
    assert!(live(&mut web));
    std::thread::scope(|scope| {
        scope.spawn(|| stays(|| ping(&mut kept)));
        scope.spawn(|| {
            let mut silent = resp(&server);
            assert!(ping(&mut silent));
            let since = Instant::now();
            assert!(silent.closed_within(PATIENCE), "an idle connection stays open");
            assert!(since.elapsed() > LIMIT - EARLY_MAX, "closed after {:?}", since.elapsed());
        });
    });
    assert!(live(&mut web), "HTTP has a limit of its own");
    let told = resp(&server).say("CONFIG GET timeout").expect("answers");
    assert_eq!(told.list()[1].bytes(), Some(&b"2"[..]));
}

#[test]
fn less_than_a_second_of_patience_is_refused_in_words() {
    let scratch = Scratch::new("idle-short");
    for (flag, value, taken) in [
        ("--http-idle-ms-max", "999ms", false),
        ("--http-idle-ms-max", "1s", true),
        ("--http-idle-ms-max", "1001ms", true),
        ("--resp-idle-ms-max", "999ms", false),
        ("--resp-idle-ms-max", "off", true),
    ] {
        let setup = Setup::on(&scratch.join("data")).with(&[flag, value]);
        match Server::start(&setup) {
            Ok(_) => assert!(taken, "{flag} {value}"),
            Err(refusal) => {
                assert!(!taken && refusal.words.contains("at least 1s"), "{refusal}");
                assert_eq!(refusal.code, Some(2));
            }
        }
    }
}

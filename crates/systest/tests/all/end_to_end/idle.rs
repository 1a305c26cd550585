//! Connections that are idle for too long are closed, at each front-end by its own setting; those
//! that send requests in time stay open.

use super::{http, resp};
use std::time::{Duration, Instant};
use systest::client::{Http, Resp, RespReply};
use systest::environment::Scratch;
use systest::server::{Server, Setup};

const LIMIT: Duration = Duration::from_secs(2);
/// Tolerance for the clocks of a busy machine: a connection is not closed earlier than this before
/// its time.
const EARLY_TOLERANCE: Duration = Duration::from_millis(500);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(60);

/// Sends requests, never idle for as long as the limit; fails if the connection is closed.
fn must_stay_open(mut request: impl FnMut() -> bool) {
    let started = Instant::now();
    while started.elapsed() < LIMIT * 5 / 2 {
        let requested_at = Instant::now();
        std::thread::sleep(LIMIT / 8);
        // If the machine delayed this thread for so long, the run is inconclusive.
        if requested_at.elapsed() > LIMIT - EARLY_TOLERANCE {
            return;
        }
        assert!(request(), "closed {:?} after the last answer", requested_at.elapsed());
    }
}

fn is_http_open(web: &mut Http) -> bool {
    web.request("GET", "/live", b"").is_ok_and(|answer| answer.status == 200)
}

fn is_resp_open(redis: &mut Resp) -> bool {
    redis.call_line("PING").is_ok_and(|reply| reply == RespReply::Simple("PONG".into()))
}

#[test]
fn idle_http_connections_are_closed_and_resp_kept_by_default() {
    let scratch = Scratch::new("idle-http");
    let setup = Setup::new(&scratch.join("data")).with_args(&["--http-idle-ms-max", "2s"]);
    let server = Server::must_start(&setup);
    let (mut active, mut redis) = (http(&server), resp(&server));
    assert!(is_resp_open(&mut redis));
    std::thread::scope(|scope| {
        scope.spawn(|| must_stay_open(|| is_http_open(&mut active)));
        scope.spawn(|| {
            let mut idle = http(&server);
            assert!(is_http_open(&mut idle));
            let idle_since = Instant::now();
            assert!(idle.closed_within(CLOSE_TIMEOUT), "an idle connection stays open");
            assert!(
                idle_since.elapsed() > LIMIT - EARLY_TOLERANCE,
                "closed after {:?}",
                idle_since.elapsed()
            );
        });
    });
    assert!(is_resp_open(&mut redis), "Redis' clients keep connections for later");
    assert_eq!(
        redis.call_line("CONFIG GET timeout").expect("answers").list()[1].bytes(),
        Some(&b"0"[..])
    );
}

#[test]
fn idle_resp_connections_are_closed_when_a_limit_is_set() {
    let scratch = Scratch::new("idle-resp");
    let setup = Setup::new(&scratch.join("data")).with_args(&["--resp-idle-ms-max", "2s"]);
    let server = Server::must_start(&setup);
    let (mut active, mut web) = (resp(&server), http(&server));
    assert!(is_http_open(&mut web));
    std::thread::scope(|scope| {
        scope.spawn(|| must_stay_open(|| is_resp_open(&mut active)));
        scope.spawn(|| {
            let mut idle = resp(&server);
            assert!(is_resp_open(&mut idle));
            let idle_since = Instant::now();
            assert!(idle.closed_within(CLOSE_TIMEOUT), "an idle connection stays open");
            assert!(
                idle_since.elapsed() > LIMIT - EARLY_TOLERANCE,
                "closed after {:?}",
                idle_since.elapsed()
            );
        });
    });
    assert!(is_http_open(&mut web), "HTTP has a limit of its own");
    let reply = resp(&server).call_line("CONFIG GET timeout").expect("answers");
    assert_eq!(reply.list()[1].bytes(), Some(&b"2"[..]));
}

#[test]
fn idle_limit_below_one_second_is_refused() {
    let scratch = Scratch::new("idle-short");
    for (flag, value, is_accepted) in [
        ("--http-idle-ms-max", "999ms", false),
        ("--http-idle-ms-max", "1s", true),
        ("--http-idle-ms-max", "1001ms", true),
        ("--resp-idle-ms-max", "999ms", false),
        ("--resp-idle-ms-max", "off", true),
    ] {
        let setup = Setup::new(&scratch.join("data")).with_args(&[flag, value]);
        match Server::start(&setup) {
            Ok(_) => assert!(is_accepted, "{flag} {value}"),
            Err(refusal) => {
                assert!(!is_accepted && refusal.output.contains("at least 1s"), "{refusal}");
                assert_eq!(refusal.code, Some(2));
            }
        }
    }
}

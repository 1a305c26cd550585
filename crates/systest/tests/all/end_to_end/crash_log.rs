//! Crash log: written on request, at a panic and at a failure that ends the node; and the levels of
//! the log, changed at run time.

use super::{fresh, http, resp, tool};
use rustix::process::Signal;
use std::path::Path;
use std::time::{Duration, Instant};
use systest::client::RespReply;
use systest::report::skipped;
use systest::rigs::{Root, Scratch, Trace, experiment, missing};
use systest::server::{Server, Setup, signal, tells_of_panic};

/// Returns the text of the only crash log, once it is complete.
fn crash_log(data: &Path) -> String {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let entries = std::fs::read_dir(data.join("crash")).into_iter().flatten().flatten();
        let paths: Vec<_> = entries.map(|entry| entry.path()).collect();
        assert!(paths.len() < 2, "{paths:?}");
        let text = paths.first().map(|path| std::fs::read_to_string(path).unwrap_or_default());
        let is_whole = |text: &String| {
            announced(text).is_some_and(|events| events + 2 == text.lines().count())
        };
        if let Some(text) = text.filter(is_whole) {
            return text;
        }
        assert!(Instant::now() < until, "no crash log is written");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the number of events that the first line announces. `None`: it announces none.
fn announced(text: &str) -> Option<usize> {
    text.lines().next()?.split("the last ").nth(1)?.split(' ').next()?.parse().ok()
}

fn write_rows(server: &Server, rows: usize) {
    let mut redis = resp(server);
    for n in 0..rows {
        let done = redis.say(&format!("SET key{n} secret-value")).expect("answers");
        assert_eq!(done, RespReply::Simple("OK".into()));
    }
}

#[test]
fn a_signal_writes_the_last_thousand_events_and_the_node_goes_on() {
    let (scratch, server) = fresh("crash-signal");
    write_rows(&server, 800);
    signal(server.pid(), Signal::USR2);
    let text = crash_log(&scratch.join("data"));
    assert!(text.contains("SIGUSR2") && text.starts_with("credenza "), "{text}");
    assert_eq!(announced(&text), Some(1_000), "three events a row and 800 rows fill the ring");
    for section in ["debug log synced", "debug consensus decided", "debug resp answered"] {
        assert!(text.contains(section), "no `{section}` in {text}");
    }
    assert!(!text.contains("secret-value"), "a value stands in the crash log");
    assert!(!server.said().contains("debug"), "events were shown: {}", server.said());
    write_rows(&server, 1);
}

#[test]
fn a_panic_writes_it_and_ends_the_node() {
    let scratch = Scratch::new("crash-panic");
    let setup = Setup::on(&scratch.join("data")).env("CREDENZA_FAILPOINT", "apply.after=panic@60");
    let mut server = Server::must(&setup);
    let mut redis = resp(&server);
    let mut told = 0;
    while told < 1_000 && redis.say(&format!("SET key{told} x")).is_ok() {
        told += 1;
    }
    let status = server.wait(Duration::from_secs(20)).expect("a panic ends the process");
    assert!(!status.success() && (1..1_000).contains(&told), "{status} after {told}");
    let text = crash_log(&scratch.join("data"));
    assert!(text.contains("panic in thread") && text.contains("a test wanted"), "{text}");
    assert!(text.contains("debug log synced"), "{text}");
    let said = server.said();
    assert!(said.contains("crash log: ") && said.contains("panic in thread"), "{said}");
    let server = Server::must(&Setup::on(&scratch.join("data")));
    let mut redis = resp(&server);
    for n in 0..told {
        let kept = redis.say(&format!("GET key{n}")).expect("answers");
        assert_eq!(kept, RespReply::Bulk(Some(b"x".to_vec())), "acknowledged before the panic");
    }
}

#[test]
fn a_failure_that_ends_the_node_writes_it() {
    if let Some(why) = missing(Root::Needed, &["strace"]) {
        return skipped("crash log at a failed sync", &why);
    }
    let _permit = experiment();
    let (scratch, mut server) = fresh("crash-failure");
    write_rows(&server, 20);
    let record = scratch.join("record");
    let _trace = Trace::attach(server.pid(), "fdatasync", "error=EIO:when=1", record);
    let answer = resp(&server).say("SET one more");
    assert!(!matches!(answer, Ok(RespReply::Simple(_))), "acknowledged without a sync: {answer:?}");
    let status = server.wait(Duration::from_secs(20)).expect("a failed sync ends the node");
    assert_eq!(status.code(), Some(7), "{}", server.said());
    let text = crash_log(&scratch.join("data"));
    assert!(text.contains("reason: store_failed") && text.contains("debug log synced"), "{text}");
}

#[test]
fn switched_off_nothing_is_kept_and_the_log_says_so() {
    let scratch = Scratch::new("crash-off");
    let setup = Setup::on(&scratch.join("data")).with(&["--crash-log", "off"]);
    let server = Server::must(&setup);
    write_rows(&server, 3);
    signal(server.pid(), Signal::USR2);
    let until = Instant::now() + Duration::from_secs(20);
    while !server.said().contains("crash_log is off") {
        assert!(Instant::now() < until, "{}", server.said());
        std::thread::sleep(Duration::from_millis(10));
    }
    let kept = std::fs::read_dir(scratch.join("data/crash")).map_or(0, Iterator::count);
    assert_eq!(kept, 0);
}

#[test]
fn levels_are_shown_and_changed_while_it_runs_by_http_and_by_the_command_line() {
    let (_scratch, server) = fresh("levels");
    let shown = tool(&server, &["log-levels"]);
    assert!(shown.lines().any(|line| line.split_whitespace().eq(["resp", "info"])), "{shown}");
    write_rows(&server, 1);
    assert!(!server.said().contains("debug"), "{}", server.said());
    // The verb is optional.
    tool(&server, &["log-levels", "set", "resp=info"]);
    let changed = tool(&server, &["log-levels", "resp=debug", "http=off", "--json"]);
    assert!(changed.contains("\"resp\": \"debug\""), "{changed}");
    write_rows(&server, 1);
    let until = Instant::now() + Duration::from_secs(20);
    while !server.said().contains("debug resp answered") {
        assert!(Instant::now() < until, "{}", server.said());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!server.said().contains("debug log"), "another section was changed too");
    let mut web = http(&server);
    let wrong = web.ask("PUT", "/v1/admin/log-levels", br#"{"resp":"info","cellar":"debug"}"#);
    let wrong = wrong.expect("answers");
    assert!(wrong.status == 400 && wrong.text().contains("no section"), "{}", wrong.text());
    let now = web.ask("GET", "/v1/admin/log-levels", b"").expect("answers").text();
    let now: serde_json::Value = serde_json::from_str(&now).expect("JSON");
    assert_eq!((&now["resp"], &now["http"]), (&"debug".into(), &"off".into()), "all or nothing");
    let set = web.ask("PUT", "/v1/admin/log-levels", br#"{"resp":"info"}"#).expect("answers");
    assert_eq!(set.status, 200);
    assert!(tool(&server, &["log-levels", "--json"]).contains("\"resp\": \"info\""));
}

/// The crate below the store panics at malformed bytes. The hook that ends the process at any other
/// panic spares it: only that read is answered as damaged.
#[test]
fn a_panic_below_the_store_is_damage_of_one_read() {
    const ROWS: usize = 3_000;
    let scratch = Scratch::new("crash-spared");
    let setup = Setup::on(&scratch.join("data"))
        .with(&["--memory-bytes-max", "16MiB"])
        .env("CREDENZA_FAILPOINT", "row.read=panic");
    let mut server = Server::must(&setup);
    let mut redis = resp(&server);
    let value = vec![b'v'; 16 << 10];
    for n in 0..ROWS {
        let key = format!("key{n:05}");
        let done = redis.call(&[b"SET", key.as_bytes(), &value]).expect("answers");
        assert_eq!(done, RespReply::Simple("OK".into()));
    }
    // More than memory and caches hold: the oldest rows are read from disk.
    let mut read = |n| redis.say(&format!("GET key{n:05}")).expect("it lives on");
    let refused = |word: RespReply| word.error().map(String::from);
    let damaged = (0..ROWS).find_map(|n| refused(read(n))).expect("a row is on disk");
    assert!(damaged.starts_with("CORRUPT"), "{damaged}");
    let after: Vec<_> = (0..ROWS).map(&mut read).collect();
    assert!(after.iter().all(|word| *word == RespReply::Bulk(Some(value.clone()))), "only once");
    assert!(server.alive(), "{}", server.said());
    let said = server.said();
    assert!(said.contains("taken for damage") && said.contains("a test wanted"), "{said}");
    assert!(!tells_of_panic(&said), "{said}");
    let kept = std::fs::read_dir(scratch.join("data/crash")).map_or(0, Iterator::count);
    assert_eq!(kept, 0, "a crash log of a node that lives");
}

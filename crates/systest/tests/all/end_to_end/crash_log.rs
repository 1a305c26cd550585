//! Crash log: written on request, at a panic and at a failure that ends the node; and the levels of
//! the log, changed at run time.

use super::{http, resp, start_server, tool};
use rustix::process::Signal;
use std::path::Path;
use std::time::{Duration, Instant};
use systest::client::RespReply;
use systest::environment::{Root, Scratch, experiment, missing};
use systest::fault_injection::Trace;
use systest::report::skipped;
use systest::server::{Server, Setup, reports_panic, signal};

/// Returns the text of the only crash log, once it is complete.
fn read_crash_log(data: &Path) -> String {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let entries = std::fs::read_dir(data.join("crash")).into_iter().flatten().flatten();
        let paths: Vec<_> = entries.map(|entry| entry.path()).collect();
        assert!(paths.len() < 2, "{paths:?}");
        let text = paths.first().map(|path| std::fs::read_to_string(path).unwrap_or_default());
        let is_complete = |text: &String| {
            announced_events(text).is_some_and(|events| events + 2 == text.lines().count())
        };
        if let Some(text) = text.filter(is_complete) {
            return text;
        }
        assert!(Instant::now() < deadline, "no crash log is written");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Parses the number of events in the first line. `None`: it has none.
fn announced_events(text: &str) -> Option<usize> {
    text.lines().next()?.split("the last ").nth(1)?.split(' ').next()?.parse().ok()
}

fn write_rows(server: &Server, rows: usize) {
    let mut redis = resp(server);
    for n in 0..rows {
        let reply = redis.call_line(&format!("SET key{n} secret-value")).expect("answers");
        assert_eq!(reply, RespReply::Simple("OK".into()));
    }
}

#[test]
fn sigusr2_writes_crash_log_of_last_1000_events_and_node_continues() {
    let (scratch, server) = start_server("crash-signal");
    write_rows(&server, 800);
    signal(server.pid(), Signal::USR2);
    let text = read_crash_log(&scratch.join("data"));
    assert!(text.contains("SIGUSR2") && text.starts_with("credenza "), "{text}");
    assert_eq!(
        announced_events(&text),
        Some(1_000),
        "three events a row and 800 rows fill the ring"
    );
    for section in ["debug log synced", "debug consensus decided", "debug resp answered"] {
        assert!(text.contains(section), "no `{section}` in {text}");
    }
    assert!(!text.contains("secret-value"), "a value stands in the crash log");
    assert!(!server.stderr_text().contains("debug"), "events were shown: {}", server.stderr_text());
    write_rows(&server, 1);
}

#[test]
fn panic_writes_crash_log_and_ends_the_node() {
    let scratch = Scratch::new("crash-panic");
    let setup = Setup::new(&scratch.join("data")).env("CREDENZA_FAILPOINT", "apply.after=panic@60");
    let mut server = Server::must_start(&setup);
    let mut redis = resp(&server);
    let mut acknowledged = 0;
    while acknowledged < 1_000 && redis.call_line(&format!("SET key{acknowledged} x")).is_ok() {
        acknowledged += 1;
    }
    let status = server.wait(Duration::from_secs(20)).expect("a panic ends the process");
    assert!(
        !status.success() && (1..1_000).contains(&acknowledged),
        "{status} after {acknowledged}"
    );
    let text = read_crash_log(&scratch.join("data"));
    assert!(text.contains("panic in thread") && text.contains("a test wanted"), "{text}");
    assert!(text.contains("debug log synced"), "{text}");
    let stderr = server.stderr_text();
    assert!(stderr.contains("crash log: ") && stderr.contains("panic in thread"), "{stderr}");
    let server = Server::must_start(&Setup::new(&scratch.join("data")));
    let mut redis = resp(&server);
    for n in 0..acknowledged {
        let found = redis.call_line(&format!("GET key{n}")).expect("answers");
        assert_eq!(found, RespReply::Bulk(Some(b"x".to_vec())), "acknowledged before the panic");
    }
}

#[test]
fn failed_log_sync_writes_crash_log_and_ends_the_node() {
    if let Some(reason) = missing(Root::Needed, &["strace"]) {
        return skipped("crash log at a failed sync", &reason);
    }
    let _permit = experiment();
    let (scratch, mut server) = start_server("crash-failure");
    write_rows(&server, 20);
    let record = scratch.join("record");
    let _trace = Trace::attach(server.pid(), "fdatasync", "error=EIO:when=1", record);
    let answer = resp(&server).call_line("SET one more");
    assert!(!matches!(answer, Ok(RespReply::Simple(_))), "acknowledged without a sync: {answer:?}");
    let status = server.wait(Duration::from_secs(20)).expect("a failed sync ends the node");
    assert_eq!(status.code(), Some(7), "{}", server.stderr_text());
    let text = read_crash_log(&scratch.join("data"));
    assert!(text.contains("reason: store_failed") && text.contains("debug log synced"), "{text}");
}

#[test]
fn disabled_crash_log_writes_no_file_and_logs_a_notice() {
    let scratch = Scratch::new("crash-off");
    let setup = Setup::new(&scratch.join("data")).with_args(&["--crash-log", "off"]);
    let server = Server::must_start(&setup);
    write_rows(&server, 3);
    signal(server.pid(), Signal::USR2);
    let deadline = Instant::now() + Duration::from_secs(20);
    while !server.stderr_text().contains("crash_log is off") {
        assert!(Instant::now() < deadline, "{}", server.stderr_text());
        std::thread::sleep(Duration::from_millis(10));
    }
    let files = std::fs::read_dir(scratch.join("data/crash")).map_or(0, Iterator::count);
    assert_eq!(files, 0);
}

#[test]
fn log_levels_change_at_run_time_by_http_and_command_line() {
    let (_scratch, server) = start_server("levels");
    let shown = tool(&server, &["log-levels"]);
    assert!(shown.lines().any(|line| line.split_whitespace().eq(["resp", "info"])), "{shown}");
    write_rows(&server, 1);
    assert!(!server.stderr_text().contains("debug"), "{}", server.stderr_text());
    // The verb is optional.
    tool(&server, &["log-levels", "set", "resp=info"]);
    let changed = tool(&server, &["log-levels", "resp=debug", "http=off", "--json"]);
    assert!(changed.contains("\"resp\": \"debug\""), "{changed}");
    write_rows(&server, 1);
    let deadline = Instant::now() + Duration::from_secs(20);
    while !server.stderr_text().contains("debug resp answered") {
        assert!(Instant::now() < deadline, "{}", server.stderr_text());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!server.stderr_text().contains("debug log"), "another section was changed too");
    let mut web = http(&server);
    let refused =
        web.request("PUT", "/v1/admin/log-levels", br#"{"resp":"info","cellar":"debug"}"#);
    let refused = refused.expect("answers");
    assert!(refused.status == 400 && refused.text().contains("no section"), "{}", refused.text());
    let levels = web.request("GET", "/v1/admin/log-levels", b"").expect("answers").text();
    let levels: serde_json::Value = serde_json::from_str(&levels).expect("JSON");
    assert_eq!(
        (&levels["resp"], &levels["http"]),
        (&"debug".into(), &"off".into()),
        "all or nothing"
    );
    let response =
        web.request("PUT", "/v1/admin/log-levels", br#"{"resp":"info"}"#).expect("answers");
    assert_eq!(response.status, 200);
    assert!(tool(&server, &["log-levels", "--json"]).contains("\"resp\": \"info\""));
}

/// The LSM library below the store panics on malformed bytes. The panic hook ends the process at
/// any other panic; this one fails only the read, as damaged.
#[test]
fn panic_below_store_fails_one_read_as_corrupt_and_node_continues() {
    const ROWS: usize = 3_000;
    let scratch = Scratch::new("crash-spared");
    let setup = Setup::new(&scratch.join("data"))
        .with_args(&["--memory-bytes-max", "16MiB"])
        .env("CREDENZA_FAILPOINT", "row.read=panic");
    let mut server = Server::must_start(&setup);
    let mut redis = resp(&server);
    let value = vec![b'v'; 16 << 10];
    for n in 0..ROWS {
        let key = format!("key{n:05}");
        let reply = redis.call(&[b"SET", key.as_bytes(), &value]).expect("answers");
        assert_eq!(reply, RespReply::Simple("OK".into()));
    }
    // More than memory and caches hold: the oldest rows are read from disk.
    let mut read = |n| redis.call_line(&format!("GET key{n:05}")).expect("it lives on");
    let error_text = |reply: RespReply| reply.error().map(String::from);
    let first_error = (0..ROWS).find_map(|n| error_text(read(n))).expect("a row is on disk");
    assert!(first_error.starts_with("CORRUPT"), "{first_error}");
    let after: Vec<_> = (0..ROWS).map(&mut read).collect();
    assert!(after.iter().all(|reply| *reply == RespReply::Bulk(Some(value.clone()))), "only once");
    assert!(server.is_alive(), "{}", server.stderr_text());
    let stderr = server.stderr_text();
    assert!(stderr.contains("taken for damage") && stderr.contains("a test wanted"), "{stderr}");
    assert!(!reports_panic(&stderr), "{stderr}");
    let files = std::fs::read_dir(scratch.join("data/crash")).map_or(0, Iterator::count);
    assert_eq!(files, 0, "a crash log of a node that lives");
}

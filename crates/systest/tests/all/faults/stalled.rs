//! A task that stands still: the log writer, whose sync does not return for longer than a minute.

use std::time::{Duration, Instant};
use systest::client::Http;
use systest::environment::{Root, Scratch, experiment, missing};
use systest::fault_injection::Trace;
use systest::report::skipped;
use systest::server::{Server, Setup};

/// Waits until the node shows the alarm `stalled`, or no longer shows it; returns its text.
fn wait_for_alarm(server: &Server, is_raised: bool, limit: Duration) -> String {
    let deadline = Instant::now() + limit;
    let mut web = Http::connect(server.address).expect("it listens");
    loop {
        let status = web.request("GET", "/status", b"").expect("it answers").json();
        let alarms = status["alarms"].as_array().expect("a list").clone();
        let stalled = alarms.iter().find(|alarm| alarm["code"] == "stalled");
        if stalled.is_some() == is_raised {
            let text = stalled.and_then(|alarm| alarm["text"].as_str());
            return text.unwrap_or_default().to_string();
        }
        assert!(Instant::now() < deadline, "not {is_raised}: {alarms:?}");
        std::thread::sleep(Duration::from_millis(500));
    }
}

#[test]
fn log_writer_that_stands_still_is_an_alarm_and_fails_the_liveness_check() {
    if let Some(reason) = missing(Root::Needed, &["strace"]) {
        return skipped("a task that stands still", &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("stalled");
    let server = Server::must_start(&Setup::new(&scratch.join("data")));
    assert_eq!(wait_for_alarm(&server, false, Duration::from_secs(5)), "");
    // By then the audit log has synced its first line, and syncs nothing more.
    std::thread::sleep(Duration::from_secs(3));
    let fault = [("fdatasync", "delay_enter=80000000:when=1")];
    let mut trace = Trace::attach_each(server.pid(), &fault, scratch.join("record"));
    let mut writer = Http::connect(server.address).expect("it listens");
    let headers = "content-length: 1\r\nhost: localhost\r\n\r\nv";
    let request = format!("PUT /v1/buckets/default/default/keys/k HTTP/1.1\r\n{headers}");
    writer.send(request.as_bytes()).expect("it listens");
    let text = wait_for_alarm(&server, true, Duration::from_secs(75));
    assert!(text.contains("threads: log writer stands still"), "{text}");
    assert!(text.contains("every write of this node waits for it"), "{text}");
    let mut web = Http::connect(server.address).expect("it listens");
    let live = web.request("GET", "/live", b"").expect("it answers");
    assert_eq!(live.status, 503, "{}", live.text());
    assert!(live.text().contains("log writer"), "{}", live.text());
    wait_for_alarm(&server, false, Duration::from_secs(40));
    assert_eq!(web.request("GET", "/live", b"").expect("it answers").status, 200);
    drop(server);
    trace.wait(Duration::from_secs(10));
}

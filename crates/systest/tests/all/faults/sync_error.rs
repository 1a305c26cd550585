//! F-25 to F-27: system calls that fail under a running node.

use super::{add_counts, judge, load_for_a_while, small_setup};
use std::time::Duration;
use systest::client::{Resp, RespReply};
use systest::environment::{Root, Scratch, experiment, missing, path_str};
use systest::fault_injection::{FileSystem, Mount, Trace};
use systest::report::{Figures, skipped};
use systest::server::Server;

/// Time limit for a node whose log can't be synced to end, on a busy machine.
const SECONDS_TO_STOP_MAX: f64 = 10.0;

/// Makes a call fail under load; the node must end with code 7, and a restart must have every
/// acknowledged write.
fn must_stop_on_failed_call(name: &str, scratch_name: &str, calls: &str, injection: &str) {
    if let Some(reason) = missing(Root::Needed, &["strace"]) {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new(scratch_name);
    let setup = small_setup(&scratch.join("data"));
    let mut figures = Figures::start(name);
    let mut server = Server::must_start(&setup);
    let load = load_for_a_while(&server, 0);
    let mut trace = Trace::attach(server.pid(), calls, injection, scratch.join("record"));
    let status = server.wait(Duration::from_secs(20));
    let ledger = load.stop();
    trace.wait(Duration::from_secs(5));
    figures.faults = trace.injections();
    add_counts(&mut figures, &ledger);
    let status = status.unwrap_or_else(|| {
        panic!("it lives on after {} failed calls: {}", trace.injections(), server.stderr_text())
    });
    assert_eq!(status.code(), Some(7), "{}", server.stderr_text());
    let last = server.stderr_text().lines().last().unwrap_or_default().to_string();
    assert!(last.starts_with("credenza: "), "no reason is given: {}", server.stderr_text());
    let seconds = trace.seconds_to_exit().expect("the record holds the call and the end");
    figures.add("seconds_to_stop", format!("{seconds:.3}"));
    assert!(seconds < SECONDS_TO_STOP_MAX, "{seconds} seconds to stop: {}", trace.record());
    let server = Server::must_start(&setup);
    judge(&mut figures, &ledger, &server);
    figures.print();
}

#[test]
fn failed_log_sync_stops_the_node_and_loses_nothing() {
    must_stop_on_failed_call("F-25 failed fdatasync", "f25", "fdatasync", "error=EIO:when=1");
}

#[test]
fn log_sync_failing_with_enospc_stops_the_node_and_loses_nothing() {
    must_stop_on_failed_call(
        "F-25 fdatasync ENOSPC",
        "f25-full",
        "fdatasync",
        "error=ENOSPC:when=1",
    );
}

#[test]
fn failed_log_write_stops_the_node_and_loses_nothing() {
    must_stop_on_failed_call(
        "F-25 failed log write",
        "f25-write",
        "pwrite64,pwritev",
        "error=EIO:when=1",
    );
}

#[test]
fn failed_store_sync_stops_the_node_and_loses_nothing() {
    must_stop_on_failed_call("F-26 failed store sync", "f26-sync", "fsync", "error=EIO:when=1");
}

#[test]
fn interrupted_and_slow_system_calls_fail_no_write() {
    let name = "F-27 interrupted and slow calls";
    if let Some(reason) = missing(Root::Needed, &["strace"]) {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("f27");
    let setup = small_setup(&scratch.join("data"));
    let mut figures = Figures::start(name);
    // Not `write`: the runtime uses it for wakeups, on a file on which signals never interrupt it.
    let calls = "pwrite64,pwritev,fdatasync,fsync,fallocate,ftruncate";
    for (round, injection) in
        ["error=EINTR:when=2+5", "delay_enter=20000:when=1+3"].into_iter().enumerate()
    {
        let mut server = Server::must_start(&setup);
        let record = scratch.join("record");
        let mut trace = Trace::attach(server.pid(), calls, injection, record);
        let load = load_for_a_while(&server, round);
        std::thread::sleep(Duration::from_millis(700));
        let ledger = load.stop();
        figures.faults += trace.injections();
        trace.detach();
        add_counts(&mut figures, &ledger);
        assert!(server.is_alive(), "{injection}: {}", server.stderr_text());
        assert_eq!((ledger.fail, ledger.info), (0, 0), "{injection}: {:?}", ledger.refusals);
        judge(&mut figures, &ledger, &server);
        server.kill();
        judge(&mut figures, &ledger, &Server::must_start(&setup));
    }
    assert!(figures.faults > 10, "almost nothing was interrupted");
    figures.print();
}

#[test]
fn failed_store_read_is_an_error_and_never_an_empty_answer() {
    let name = "F-26 failed store read";
    if let Some(reason) = missing(Root::Needed, &["strace"]) {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("f26-read");
    let setup = small_setup(&scratch.join("data"));
    let mut figures = Figures::start(name);
    let mut server = Server::must_start(&setup);
    let mut redis = Resp::connect(server.address).expect("it listens");
    let value = vec![b'x'; 64 * 1024];
    for n in 0..600 {
        let key = format!("key{n}");
        assert_eq!(redis.call(&[b"SET", key.as_bytes(), &value]).expect("answers").error(), None);
    }
    server.stop(Duration::from_secs(30)).expect("it stops when asked");
    let server = Server::must_start(&setup); // with empty caches
    let mut redis = Resp::connect(server.address).expect("it listens");
    let trace = Trace::attach(server.pid(), "pread64", "error=EIO:when=1+", scratch.join("record"));
    for n in 0..600 {
        match redis.call_line(&format!("GET key{n}")) {
            Ok(RespReply::Bulk(Some(found))) => {
                figures.ok += 1;
                assert_eq!(found.len(), value.len());
            }
            Ok(RespReply::Error(_)) => figures.fail += 1,
            Ok(other) => panic!("key{n} was acknowledged and is answered {other:?}"),
            Err(_) => {
                figures.info += 1;
                match Resp::connect(server.address) {
                    Ok(connection) => redis = connection,
                    Err(_) => break,
                }
            }
        }
    }
    figures.faults = trace.injections();
    figures.print();
    assert!(figures.faults > 0, "no read reached the disk");
    assert!(figures.fail + figures.info > 0, "failed reads were answered as if they had not");
}

#[test]
fn short_writes_are_completed() {
    let name = "F-27 short writes";
    let tools = [FileSystem::Ext4.tools(), &["strace"]].concat();
    if let Some(reason) = missing(Root::Needed, &tools) {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("f27-short");
    let mount = Mount::new(scratch.path(), FileSystem::Ext4, 512);
    let helper = systest::environment::compile_helper("shortwrite");
    let prefix = mount.point().to_path_buf();
    let args = [path_str(&helper), "3", path_str(&prefix)];
    let setup = small_setup(&mount.point().join("data")).with_wrapper(&args);
    let mut figures = Figures::start(name);
    let mut server = Server::must_start(&setup);
    let load = load_for_a_while(&server, 0);
    std::thread::sleep(Duration::from_millis(700));
    let ledger = load.stop();
    add_counts(&mut figures, &ledger);
    assert!(server.is_alive(), "{}", server.stderr_text());
    assert_eq!((ledger.fail, ledger.info), (0, 0), "{:?}", ledger.refusals);
    judge(&mut figures, &ledger, &server);
    server.stop(Duration::from_secs(30)).expect("it stops when asked");
    let stderr = server.stderr_text();
    let count_text = stderr.lines().find_map(|line| line.strip_prefix("shortwrite: cut "));
    figures.faults = count_text.and_then(|count| count.trim().parse().ok()).unwrap_or(0);
    assert!(figures.faults > 10, "almost no write was short: {stderr}");
    let mut server = Server::must_start(&small_setup(&mount.point().join("data")));
    judge(&mut figures, &ledger, &server);
    server.kill();
    figures.print();
}

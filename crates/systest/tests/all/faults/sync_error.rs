//! F-25 to F-27: system calls that fail under a running node.

use super::{count, judge, load_for_a_while, small};
use std::time::Duration;
use systest::client::{Resp, RespReply};
use systest::report::{Figures, skipped};
use systest::rigs::{Mount, Root, Scratch, System, Trace, experiment, missing};
use systest::server::Server;

/// Time limit for a node whose log can't be synced to end, on a busy machine.
const SECONDS_TO_STOP_MAX: f64 = 10.0;

/// Makes a call fail under load; the node must end with code 7, and a restart must have every
/// acknowledged write.
fn fails_and_stops(name: &str, short: &str, calls: &str, what: &str) {
    if let Some(why) = missing(Root::Needed, &["strace"]) {
        return skipped(name, &why);
    }
    let _permit = experiment();
    let scratch = Scratch::new(short);
    let setup = small(&scratch.join("data"));
    let mut figures = Figures::begin(name);
    let mut server = Server::must(&setup);
    let load = load_for_a_while(&server, 0);
    let mut trace = Trace::attach(server.pid(), calls, what, scratch.join("record"));
    let status = server.wait(Duration::from_secs(20));
    let ledger = load.stop();
    trace.wait(Duration::from_secs(5));
    figures.faults = trace.injections();
    count(&mut figures, &ledger);
    let status = status.unwrap_or_else(|| {
        panic!("it lives on after {} failed calls: {}", trace.injections(), server.said())
    });
    assert_eq!(status.code(), Some(7), "{}", server.said());
    let last = server.said().lines().last().unwrap_or_default().to_string();
    assert!(last.starts_with("credenza: "), "no reason is given: {}", server.said());
    let seconds = trace.seconds_to_exit().expect("the record holds the call and the end");
    figures.also("seconds_to_stop", format!("{seconds:.3}"));
    assert!(seconds < SECONDS_TO_STOP_MAX, "{seconds} seconds to stop: {}", trace.record());
    let server = Server::must(&setup);
    judge(&mut figures, &ledger, &server);
    figures.print();
}

#[test]
fn a_failed_sync_of_the_log_stops_the_node_and_loses_nothing() {
    fails_and_stops("F-25 failed fdatasync", "f25", "fdatasync", "error=EIO:when=1");
}

#[test]
fn a_sync_that_fails_for_lack_of_space_stops_the_node_too() {
    fails_and_stops("F-25 fdatasync ENOSPC", "f25-full", "fdatasync", "error=ENOSPC:when=1");
}

#[test]
fn a_failed_write_of_the_log_stops_the_node_and_loses_nothing() {
    fails_and_stops("F-25 failed log write", "f25-write", "pwrite64,pwritev", "error=EIO:when=1");
}

#[test]
fn a_failed_sync_of_the_store_stops_the_node_and_loses_nothing() {
    fails_and_stops("F-26 failed store sync", "f26-sync", "fsync", "error=EIO:when=1");
}

#[test]
fn interrupted_and_slow_calls_change_nothing() {
    let name = "F-27 interrupted and slow calls";
    if let Some(why) = missing(Root::Needed, &["strace"]) {
        return skipped(name, &why);
    }
    let _permit = experiment();
    let scratch = Scratch::new("f27");
    let setup = small(&scratch.join("data"));
    let mut figures = Figures::begin(name);
    // Not `write`: the runtime wakes itself by it, on a file that no signal ever interrupts.
    let calls = "pwrite64,pwritev,fdatasync,fsync,fallocate,ftruncate";
    for (round, what) in
        ["error=EINTR:when=2+5", "delay_enter=20000:when=1+3"].into_iter().enumerate()
    {
        let mut server = Server::must(&setup);
        let record = scratch.join("record");
        let mut trace = Trace::attach(server.pid(), calls, what, record);
        let load = load_for_a_while(&server, round);
        std::thread::sleep(Duration::from_millis(700));
        let ledger = load.stop();
        figures.faults += trace.injections();
        trace.release();
        count(&mut figures, &ledger);
        assert!(server.alive(), "{what}: {}", server.said());
        assert_eq!((ledger.fail, ledger.info), (0, 0), "{what}: {:?}", ledger.refusals);
        judge(&mut figures, &ledger, &server);
        server.kill();
        judge(&mut figures, &ledger, &Server::must(&setup));
    }
    assert!(figures.faults > 10, "almost nothing was interrupted");
    figures.print();
}

#[test]
fn a_read_that_fails_is_an_error_and_never_an_empty_answer() {
    let name = "F-26 failed store read";
    if let Some(why) = missing(Root::Needed, &["strace"]) {
        return skipped(name, &why);
    }
    let _permit = experiment();
    let scratch = Scratch::new("f26-read");
    let setup = small(&scratch.join("data"));
    let mut figures = Figures::begin(name);
    let mut server = Server::must(&setup);
    let mut redis = Resp::connect(server.address).expect("it listens");
    let value = vec![b'x'; 64 * 1024];
    for n in 0..600 {
        let key = format!("key{n}");
        assert_eq!(redis.call(&[b"SET", key.as_bytes(), &value]).expect("answers").error(), None);
    }
    server.stop(Duration::from_secs(30)).expect("it stops when asked");
    let server = Server::must(&setup); // with empty caches
    let mut redis = Resp::connect(server.address).expect("it listens");
    let trace = Trace::attach(server.pid(), "pread64", "error=EIO:when=1+", scratch.join("record"));
    for n in 0..600 {
        match redis.say(&format!("GET key{n}")) {
            Ok(RespReply::Bulk(Some(found))) => {
                figures.ok += 1;
                assert_eq!(found.len(), value.len());
            }
            Ok(RespReply::Error(_)) => figures.fail += 1,
            Ok(other) => panic!("key{n} was acknowledged and is answered {other:?}"),
            Err(_) => {
                figures.info += 1;
                match Resp::connect(server.address) {
                    Ok(again) => redis = again,
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
    let tools = [System::Ext4.tools(), &["strace"]].concat();
    if let Some(why) = missing(Root::Needed, &tools) {
        return skipped(name, &why);
    }
    let _permit = experiment();
    let scratch = Scratch::new("f27-short");
    let mount = Mount::new(scratch.path(), System::Ext4, 512);
    let shorten = systest::rigs::compiled("shortwrite");
    let prefix = mount.point().to_path_buf();
    let words = [systest::rigs::text(&shorten), "3", systest::rigs::text(&prefix)];
    let setup = small(&mount.point().join("data")).under(&words);
    let mut figures = Figures::begin(name);
    let mut server = Server::must(&setup);
    let load = load_for_a_while(&server, 0);
    std::thread::sleep(Duration::from_millis(700));
    let ledger = load.stop();
    count(&mut figures, &ledger);
    assert!(server.alive(), "{}", server.said());
    assert_eq!((ledger.fail, ledger.info), (0, 0), "{:?}", ledger.refusals);
    judge(&mut figures, &ledger, &server);
    server.stop(Duration::from_secs(30)).expect("it stops when asked");
    let said = server.said();
    let cut = said.lines().find_map(|line| line.strip_prefix("shortwrite: cut "));
    figures.faults = cut.and_then(|count| count.trim().parse().ok()).unwrap_or(0);
    assert!(figures.faults > 10, "almost no write was short: {said}");
    let mut server = Server::must(&small(&mount.point().join("data")));
    judge(&mut figures, &ledger, &server);
    server.kill();
    figures.print();
}

//! F-28, F-29: no space, no inodes, a disk that became read-only.

use super::{add_counts, judge, small_setup};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use systest::client::{Http, Resp, RespReply};
use systest::environment::{Root, Scratch, experiment, missing};
use systest::fault_injection::{FileSystem, Mount};
use systest::report::{Figures, skipped};
use systest::server::{Server, Setup};
use systest::workload::Load;
use systest::workload::ledger::{ClientProtocol, Ledger, WriterPlan};

/// Time limit for accepting writes again once space is free.
const RECOVER_MAX: Duration = Duration::from_secs(20);

fn writer_plan(client: usize) -> WriterPlan {
    WriterPlan { client, keys: 300, depth: 4, bytes: 8_000, protocol: ClientProtocol::Resp }
}

/// Lets clients write until they are refused, or the time limit passes.
fn write_until_refused(server: &Server, first: usize, figures: &mut Figures) -> Ledger {
    let load = Load::start(server.address, &[writer_plan(first), writer_plan(first + 1)]);
    let deadline = Instant::now() + Duration::from_secs(15);
    let mut web = Http::connect(server.address).expect("it listens");
    while Instant::now() < deadline {
        let headers = [("content-type", "application/octet-stream")];
        let path = "/v1/buckets/default/default/keys/probe";
        let answer = web.request_with_headers("PUT", path, &headers, b"x").expect("it answers");
        if answer.reason() == "out_of_space" {
            assert_eq!(answer.status, 503, "{}", answer.text());
            figures.add("refused_after_ms", figures.milliseconds());
            break;
        }
        assert_eq!(answer.status / 100, 2, "{}", answer.text());
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(300));
    let ledger = load.stop();
    add_counts(figures, &ledger);
    ledger
}

/// Fills the space that the node frees by truncating its log, until it refuses permanently.
fn fill_until_refused(mount: &Mount, redis: &mut Resp) {
    let deadline = Instant::now() + Duration::from_secs(15);
    let mut refused = 0;
    while refused < 20 {
        mount.fill(2 << 20);
        let answer = redis.call_line("SET during lost").expect("it answers");
        let is_refused = answer.error().is_some_and(|text| text.starts_with("NOSPACE"));
        assert!(is_refused || answer.error().is_none(), "{answer:?}");
        refused = if is_refused { refused + 1 } else { 0 };
        assert!(Instant::now() < deadline, "writes are taken on a full disk");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Waits until the node shows the alarm `disk_full`, or no longer shows it.
fn wait_for_alarm(server: &Server, is_raised: bool) {
    let deadline = Instant::now() + RECOVER_MAX;
    let mut web = Http::connect(server.address).expect("it listens");
    loop {
        let status = web.request("GET", "/status", b"").expect("it answers").json();
        let alarms = status["alarms"].as_array().expect("a list").iter();
        let codes: Vec<_> = alarms.filter_map(|alarm| alarm["code"].as_str()).collect();
        if codes.contains(&"disk_full") == is_raised {
            return;
        }
        assert!(Instant::now() < deadline, "disk_full is not {is_raised}: {codes:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn must_recover(server: &Server, figures: &mut Figures) {
    let started = Instant::now();
    let mut redis = Resp::connect(server.address).expect("it listens");
    loop {
        let answer = redis.call_line("SET recovered yes").expect("it answers");
        if answer.error().is_none() {
            break;
        }
        assert!(started.elapsed() < RECOVER_MAX, "space is back, and still {answer:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    figures.add("recovered_ms", started.elapsed().as_millis());
}

/// Returns a setup for a disk of 64 MiB.
fn small_disk_setup(data: &std::path::Path) -> Setup {
    Setup::new(data)
        .with_args(&["--memory-bytes-max", "16MiB", "--segment-bytes", "1MiB"])
        .with_args(&["--log-bytes-max", "128MiB", "--disk-reserve-bytes", "12MiB"])
}

#[test]
fn full_disk_refuses_writes_allows_reads_and_deletes_and_recovers() {
    let name = "F-28 disk full";
    if let Some(reason) = missing(Root::Needed, FileSystem::Ext4.tools()) {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("f28");
    let mount = Mount::new(scratch.path(), FileSystem::Ext4, 64);
    let setup = small_disk_setup(&mount.point().join("data"));
    let mut figures = Figures::start(name);
    let mut server = Server::must_start(&setup);
    let mut redis = Resp::connect(server.address).expect("it listens");
    assert_eq!(redis.call_line("SET before kept").expect("answers").error(), None);
    let mut total = Ledger::default();
    for round in 0..2 {
        // First a file from outside, down to below the reserve; then the node's own writes.
        let filler = mount.fill(if round == 0 { 16 << 20 } else { 2 << 20 });
        figures.faults += 1;
        total.join(write_until_refused(&server, round * 10, &mut figures));
        assert!(server.is_alive(), "a full disk ended it: {}", server.stderr_text());
        fill_until_refused(&mount, &mut redis);
        wait_for_alarm(&server, true);
        assert_eq!(redis.call_line("GET before").expect("reads go on").bytes(), Some(&b"kept"[..]));
        let deleted = redis.call_line("DEL probe").expect("answers");
        assert!(deleted.error().is_none(), "deletes do not go on: {deleted:?}");
        judge(&mut figures, &total, &server);
        std::fs::remove_file(filler).expect("the filler is ours");
        must_recover(&server, &mut figures);
        wait_for_alarm(&server, false);
        judge(&mut figures, &total, &server);
    }
    server.kill();
    let server = Server::must_start(&setup);
    judge(&mut figures, &total, &server);
    figures.print();
}

/// Fills a node's disk to the last block during writes, until its log has no space; returns the
/// filler file, too.
fn fill_under_load(mount: &Mount) -> (Setup, Server, Load, PathBuf) {
    // No reserve: the file system itself refuses.
    let setup =
        small_disk_setup(&mount.point().join("data")).with_args(&["--disk-reserve-bytes", "0"]);
    let server = Server::must_start(&setup);
    let load = Load::start(server.address, &[writer_plan(1), writer_plan(2)]);
    std::thread::sleep(Duration::from_millis(300));
    let filler = mount.fill(0);
    std::thread::sleep(Duration::from_secs(3));
    (setup, server, load, filler)
}

#[test]
fn disk_filled_to_the_last_block_loses_nothing_and_recovers() {
    let name = "F-28 disk full to the last block";
    if let Some(reason) = missing(Root::Needed, FileSystem::Ext4.tools()) {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("f28-last");
    let mount = Mount::new(scratch.path(), FileSystem::Ext4, 64);
    let mut figures = Figures::start(name);
    let (setup, mut server, load, filler) = fill_under_load(&mount);
    figures.faults += 1;
    let ledger = load.stop();
    add_counts(&mut figures, &ledger);
    figures.add("alive", server.is_alive());
    if server.is_alive() {
        judge(&mut figures, &ledger, &server);
        std::fs::remove_file(&filler).expect("the filler is ours");
        must_recover(&server, &mut figures);
    } else {
        let status = server.wait(Duration::from_secs(1)).expect("it is gone");
        assert!(matches!(status.code(), Some(5 | 7)), "{status}: {}", server.stderr_text());
        std::fs::remove_file(&filler).expect("the filler is ours");
    }
    server.kill();
    let server = Server::must_start(&setup);
    judge(&mut figures, &ledger, &server);
    figures.print();
}

/// The log has accepted writes that can't be finished, and the node is stopped: it must not wait
/// for free space.
#[test]
fn node_on_full_disk_stops_on_sigterm() {
    let name = "F-28 SIGTERM on a full disk";
    if let Some(reason) = missing(Root::Needed, FileSystem::Ext4.tools()) {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("f28-stop");
    let mount = Mount::new(scratch.path(), FileSystem::Ext4, 64);
    let mut figures = Figures::start(name);
    let (setup, mut server, load, filler) = fill_under_load(&mount);
    figures.faults += 1;
    figures.add("alive", server.is_alive());
    let stop_started = Instant::now();
    let exit_status = server.stop(Duration::from_secs(60));
    assert!(exit_status.is_some(), "it goes on: {}", server.stderr_text());
    figures.add("ended_after_ms", stop_started.elapsed().as_millis());
    let ledger = load.stop();
    add_counts(&mut figures, &ledger);
    std::fs::remove_file(&filler).expect("the filler is ours");
    let server = Server::must_start(&setup);
    judge(&mut figures, &ledger, &server);
    figures.print();
}

#[test]
fn inode_exhaustion_loses_nothing_and_node_recovers() {
    let name = "F-29 inodes full";
    let system = FileSystem::Memory { files: 40 };
    if let Some(reason) = missing(Root::Needed, system.tools()) {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("f29-inodes");
    let mount = Mount::new(scratch.path(), system, 512);
    let setup = small_disk_setup(&mount.point().join("data"));
    let mut figures = Figures::start(name);
    let mut server = Server::must_start(&setup);
    let files: Vec<_> = (0..60)
        .map(|n| mount.point().join(format!("inode{n}")))
        .take_while(|path| std::fs::write(path, b"").is_ok())
        .collect();
    figures.faults = 1;
    figures.add("taken", files.len());
    let load = Load::start(server.address, &[writer_plan(1), writer_plan(2)]);
    std::thread::sleep(Duration::from_secs(4));
    let ledger = load.stop();
    add_counts(&mut figures, &ledger);
    figures.add("alive", server.is_alive());
    if server.is_alive() {
        judge(&mut figures, &ledger, &server);
    }
    for path in files {
        std::fs::remove_file(path).expect("the files are ours");
    }
    if server.is_alive() {
        must_recover(&server, &mut figures);
    }
    server.kill();
    let server = Server::must_start(&setup);
    judge(&mut figures, &ledger, &server);
    figures.print();
}

#[test]
fn read_only_disk_stops_the_node_and_loses_nothing() {
    let name = "F-29 read-only disk";
    if let Some(reason) = missing(Root::Needed, FileSystem::Ext4.tools()) {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("f29-read-only");
    let mut mount = Mount::new(scratch.path(), FileSystem::Ext4, 256);
    let setup = small_setup(&mount.point().join("data"));
    let mut figures = Figures::start(name);
    let mut server = Server::must_start(&setup);
    let load = super::load_for_a_while(&server, 0);
    mount.inject_error();
    figures.faults = 1;
    let status = server.wait(Duration::from_secs(20));
    let ledger = load.stop();
    add_counts(&mut figures, &ledger);
    let status = status.unwrap_or_else(|| {
        let mut redis = Resp::connect(server.address).expect("it listens");
        let answer = redis.call_line("SET a b");
        panic!("it lives on a read-only disk and answers {answer:?}: {}", server.stderr_text())
    });
    assert_eq!(status.code(), Some(7), "{}", server.stderr_text());
    drop(server);
    mount.restore_power();
    let server = Server::must_start(&setup);
    judge(&mut figures, &ledger, &server);
    let mut redis = Resp::connect(server.address).expect("it listens");
    assert_eq!(redis.call_line("SET a b").expect("answers"), RespReply::Simple("OK".into()));
    drop(server);
    figures.print();
}

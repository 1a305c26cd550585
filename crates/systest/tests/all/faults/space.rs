//! F-28, F-29: no space, no inodes, a disk that became read-only.

use super::{count, judge, small};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use systest::client::{Http, Resp, RespReply};
use systest::report::{Figures, skipped};
use systest::rigs::{Mount, Root, Scratch, System, experiment, missing};
use systest::server::{Server, Setup};
use systest::workload::Load;
use systest::workload::ledger::{ClientProtocol, Ledger, Writing};

/// Time limit for accepting writes again once space is free.
const RECOVER_MAX: Duration = Duration::from_secs(20);

fn writing(client: usize) -> Writing {
    Writing { client, keys: 300, depth: 4, bytes: 8_000, protocol: ClientProtocol::Resp }
}

/// Lets clients write until every client is refused or gone, or the time limit passes.
fn write_until_refused(server: &Server, first: usize, figures: &mut Figures) -> Ledger {
    let load = Load::start(server.address, &[writing(first), writing(first + 1)]);
    let until = Instant::now() + Duration::from_secs(15);
    let mut web = Http::connect(server.address).expect("it listens");
    while Instant::now() < until {
        let octets = [("content-type", "application/octet-stream")];
        let path = "/v1/buckets/default/default/keys/probe";
        let answer = web.ask_with("PUT", path, &octets, b"x").expect("it answers");
        if answer.reason() == "out_of_space" {
            assert_eq!(answer.status, 503, "{}", answer.text());
            figures.also("refused_after_ms", figures.milliseconds());
            break;
        }
        assert_eq!(answer.status / 100, 2, "{}", answer.text());
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(300));
    let ledger = load.stop();
    count(figures, &ledger);
    ledger
}

/// Takes the space that the node frees by truncating its log, until it refuses for good.
fn keep_full(mount: &Mount, redis: &mut Resp) {
    let until = Instant::now() + Duration::from_secs(15);
    let mut refused = 0;
    while refused < 20 {
        mount.fill(2 << 20);
        let answer = redis.say("SET during lost").expect("it answers");
        let is_refused = answer.error().is_some_and(|text| text.starts_with("NOSPACE"));
        assert!(is_refused || answer.error().is_none(), "{answer:?}");
        refused = if is_refused { refused + 1 } else { 0 };
        assert!(Instant::now() < until, "writes are taken on a full disk");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn must_recover(server: &Server, figures: &mut Figures) {
    let begun = Instant::now();
    let mut redis = Resp::connect(server.address).expect("it listens");
    loop {
        let answer = redis.say("SET recovered yes").expect("it answers");
        if answer.error().is_none() {
            break;
        }
        assert!(begun.elapsed() < RECOVER_MAX, "space is back, and still {answer:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    figures.also("recovered_ms", begun.elapsed().as_millis());
}

/// Returns a setup for a disk of 64 MiB.
fn tiny(data: &std::path::Path) -> Setup {
    Setup::on(data).with(&["--memory-bytes-max", "16MiB", "--segment-bytes", "1MiB"]).with(&[
        "--log-bytes-max",
        "128MiB",
        "--disk-reserve-bytes",
        "12MiB",
    ])
}

#[test]
fn a_full_disk_refuses_writes_and_goes_on_reading_deleting_and_recovers_by_itself() {
    let name = "F-28 disk full";
    if let Some(why) = missing(Root::Needed, System::Ext4.tools()) {
        return skipped(name, &why);
    }
    let _permit = experiment();
    let scratch = Scratch::new("f28");
    let mount = Mount::new(scratch.path(), System::Ext4, 64);
    let setup = tiny(&mount.point().join("data"));
    let mut figures = Figures::begin(name);
    let mut server = Server::must(&setup);
    let mut redis = Resp::connect(server.address).expect("it listens");
    assert_eq!(redis.say("SET before kept").expect("answers").error(), None);
    let mut told = Ledger::default();
    for round in 0..2 {
        // First a file from outside, down to below the reserve; then the node's own writes.
        let filler = mount.fill(if round == 0 { 16 << 20 } else { 2 << 20 });
        figures.faults += 1;
        told.join(write_until_refused(&server, round * 10, &mut figures));
        assert!(server.alive(), "a full disk ended it: {}", server.said());
        keep_full(&mount, &mut redis);
        assert_eq!(redis.say("GET before").expect("reads go on").bytes(), Some(&b"kept"[..]));
        let deleted = redis.say("DEL probe").expect("answers");
        assert!(deleted.error().is_none(), "deletes do not go on: {deleted:?}");
        judge(&mut figures, &told, &server);
        std::fs::remove_file(filler).expect("the filler is ours");
        must_recover(&server, &mut figures);
        judge(&mut figures, &told, &server);
    }
    server.kill();
    let server = Server::must(&setup);
    judge(&mut figures, &told, &server);
    figures.print();
}

/// Fills a node's disk to the last block during writes, until its log has no space; returns the
/// file that fills it, too.
fn filled_under_load(mount: &Mount) -> (Setup, Server, Load, PathBuf) {
    // No reserve: the file system itself refuses.
    let setup = tiny(&mount.point().join("data")).with(&["--disk-reserve-bytes", "0"]);
    let server = Server::must(&setup);
    let load = Load::start(server.address, &[writing(1), writing(2)]);
    std::thread::sleep(Duration::from_millis(300));
    let filler = mount.fill(0);
    std::thread::sleep(Duration::from_secs(3));
    (setup, server, load, filler)
}

#[test]
fn a_disk_that_is_truly_full_loses_nothing_and_starts_again_when_there_is_space() {
    let name = "F-28 disk full to the last block";
    if let Some(why) = missing(Root::Needed, System::Ext4.tools()) {
        return skipped(name, &why);
    }
    let _permit = experiment();
    let scratch = Scratch::new("f28-last");
    let mount = Mount::new(scratch.path(), System::Ext4, 64);
    let mut figures = Figures::begin(name);
    let (setup, mut server, load, filler) = filled_under_load(&mount);
    figures.faults += 1;
    let ledger = load.stop();
    count(&mut figures, &ledger);
    figures.also("alive", server.alive());
    if server.alive() {
        judge(&mut figures, &ledger, &server);
        std::fs::remove_file(&filler).expect("the filler is ours");
        must_recover(&server, &mut figures);
    } else {
        let status = server.wait(Duration::from_secs(1)).expect("it is gone");
        assert!(matches!(status.code(), Some(5 | 7)), "{status}: {}", server.said());
        std::fs::remove_file(&filler).expect("the filler is ours");
    }
    server.kill();
    let server = Server::must(&setup);
    judge(&mut figures, &ledger, &server);
    figures.print();
}

/// The log has accepted writes that can't be finished, and the node is stopped: it does not wait
/// for space that may never come.
#[test]
fn a_node_on_a_truly_full_disk_ends_when_it_is_told_to() {
    let name = "F-28 SIGTERM on a full disk";
    if let Some(why) = missing(Root::Needed, System::Ext4.tools()) {
        return skipped(name, &why);
    }
    let _permit = experiment();
    let scratch = Scratch::new("f28-stop");
    let mount = Mount::new(scratch.path(), System::Ext4, 64);
    let mut figures = Figures::begin(name);
    let (setup, mut server, load, filler) = filled_under_load(&mount);
    figures.faults += 1;
    figures.also("alive", server.alive());
    let asked = Instant::now();
    let ended = server.stop(Duration::from_secs(60));
    assert!(ended.is_some(), "it goes on: {}", server.said());
    figures.also("ended_after_ms", asked.elapsed().as_millis());
    let ledger = load.stop();
    count(&mut figures, &ledger);
    std::fs::remove_file(&filler).expect("the filler is ours");
    let server = Server::must(&setup);
    judge(&mut figures, &ledger, &server);
    figures.print();
}

#[test]
fn no_inodes_left_is_a_full_disk() {
    let name = "F-29 inodes full";
    let system = System::Memory { files: 40 };
    if let Some(why) = missing(Root::Needed, system.tools()) {
        return skipped(name, &why);
    }
    let _permit = experiment();
    let scratch = Scratch::new("f29-inodes");
    let mount = Mount::new(scratch.path(), system, 512);
    let setup = tiny(&mount.point().join("data"));
    let mut figures = Figures::begin(name);
    let mut server = Server::must(&setup);
    let taken: Vec<_> = (0..60)
        .map(|n| mount.point().join(format!("inode{n}")))
        .take_while(|path| std::fs::write(path, b"").is_ok())
        .collect();
    figures.faults = 1;
    figures.also("taken", taken.len());
    let load = Load::start(server.address, &[writing(1), writing(2)]);
    std::thread::sleep(Duration::from_secs(4));
    let ledger = load.stop();
    count(&mut figures, &ledger);
    figures.also("alive", server.alive());
    if server.alive() {
        judge(&mut figures, &ledger, &server);
    }
    for path in taken {
        std::fs::remove_file(path).expect("the files are ours");
    }
    if server.alive() {
        must_recover(&server, &mut figures);
    }
    server.kill();
    let server = Server::must(&setup);
    judge(&mut figures, &ledger, &server);
    figures.print();
}

#[test]
fn a_disk_that_turns_read_only_stops_the_node_and_loses_nothing() {
    let name = "F-29 read-only disk";
    if let Some(why) = missing(Root::Needed, System::Ext4.tools()) {
        return skipped(name, &why);
    }
    let _permit = experiment();
    let scratch = Scratch::new("f29-read-only");
    let mut mount = Mount::new(scratch.path(), System::Ext4, 256);
    let setup = small(&mount.point().join("data"));
    let mut figures = Figures::begin(name);
    let mut server = Server::must(&setup);
    let load = super::load_for_a_while(&server, 0);
    mount.find_an_error();
    figures.faults = 1;
    let status = server.wait(Duration::from_secs(20));
    let ledger = load.stop();
    count(&mut figures, &ledger);
    let status = status.unwrap_or_else(|| {
        let mut redis = Resp::connect(server.address).expect("it listens");
        let answer = redis.say("SET a b");
        panic!("it lives on a read-only disk and answers {answer:?}: {}", server.said())
    });
    assert_eq!(status.code(), Some(7), "{}", server.said());
    drop(server);
    mount.power_again();
    let server = Server::must(&setup);
    judge(&mut figures, &ledger, &server);
    let mut redis = Resp::connect(server.address).expect("it listens");
    assert_eq!(redis.say("SET a b").expect("answers"), RespReply::Simple("OK".into()));
    drop(server);
    figures.print();
}

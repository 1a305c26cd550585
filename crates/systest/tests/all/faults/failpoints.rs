//! F-07: the process dies at every fail point.

use super::{count, judge, small};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use systest::client::Http;
use systest::report::{Figures, times};
use systest::rigs::{Scratch, experiment};
use systest::server::{Server, Setup, StartRefusal, tells_of_panic};
use systest::workload::Load;
use systest::workload::ledger::Ledger;

/// Fail point of a read, which leaves nothing half done.
pub(crate) const READ: &str = "row.read";
/// Longest wait until a fail point is reached.
const REACHED_MAX: Duration = Duration::from_secs(40);

/// Runs all operations that reach a fail point: writes, deletes, a bucket that is created and
/// dropped, a checkpoint. Returns true when the server is gone, false if that never happens.
fn provoke(server: &mut Server, round: usize, told: &mut Ledger, figures: &mut Figures) -> bool {
    let until = Instant::now() + REACHED_MAX;
    let load = Load::mix(server.address, round, 4, 6_000);
    let mut turn = 0;
    while server.alive() && Instant::now() < until {
        turn += 1;
        let _ = make_and_drop(server, turn);
        let _ = take_checkpoint(server, turn);
        let _ = server.wait(Duration::from_millis(100));
    }
    let gone = !server.alive();
    let ledger = load.stop();
    count(figures, &ledger);
    told.join(ledger);
    gone
}

pub(crate) fn make_and_drop(server: &Server, turn: usize) -> std::io::Result<()> {
    let mut web = Http::connect(server.address)?;
    let path = format!("/v1/buckets/default/passing{turn}");
    web.ask("PUT", &path, b"{}")?;
    let octets = [("content-type", "application/octet-stream")];
    for n in 0..8 {
        let row = format!("{path}/keys/row{n}");
        web.ask_with("PUT", &row, &octets, &vec![n as u8; 300_000])?;
    }
    web.ask("DELETE", &path, b"").map(|_| ())
}

pub(crate) fn take_checkpoint(server: &Server, turn: usize) -> std::io::Result<()> {
    let mut web = Http::connect(server.address)?;
    let target = server.setup.data.join(format!("checkpoints/point{turn}"));
    let body = serde_json::json!({ "target": target }).to_string();
    web.ask("POST", "/v1/admin/checkpoint", body.as_bytes())?;
    let _ = std::fs::remove_dir_all(target);
    Ok(())
}

#[test]
fn it_opens_again_whereever_it_died() {
    let _permit = experiment();
    let mut figures = Figures::begin("F-07 death at every failpoint");
    let (mut missed, mut rare) = (Vec::new(), BTreeSet::new());
    let points = store::failpoint::POINTS;
    let laps = (1..).take(times(1, 8));
    let deaths = laps.flat_map(|nth| points.iter().map(move |(_, name)| (nth * nth, *name)));
    for (round, (nth, name)) in deaths.enumerate() {
        // A single node gets no snapshot: the store's own test covers that. A read leaves nothing
        // half done.
        if name.starts_with("install.") || name == READ {
            continue;
        }
        // A process reaches the fail points of a first start once, and some others only a few times
        // within the wait.
        if nth > 1 && name.starts_with("first_start.") || rare.contains(name) {
            continue;
        }
        // A first start needs an empty directory; every other fail point gets data of an earlier
        // run.
        let scratch = Scratch::new("f07");
        let plain = small(&scratch.join("data"));
        let mut told = Ledger::default();
        if !name.starts_with("first_start.") {
            let mut server = Server::must(&plain);
            let load = super::load_for_a_while(&server, round + 50);
            server.kill();
            told.join(load.stop());
        }
        if !dies_at(name, nth, &plain, round, &mut told, &mut figures) {
            // Only the first occurrence is required.
            if nth == 1 {
                missed.push(name);
            }
            rare.insert(name);
            continue;
        }
        figures.faults += 1;
        let server = Server::start(&plain).unwrap_or_else(|refusal| {
            panic!("it does not start again after dying at {name}: {refusal}")
        });
        let verdict = told.judge(server.address).expect("every key can be read");
        assert!(verdict.lost.is_empty(), "after dying at {name}: {:?}", verdict.lost);
        judge(&mut figures, &told, &server);
        checkpoints_are_whole_or_refused(&plain, name);
    }
    figures.also("known", points.len());
    figures.print();
    assert!(missed.is_empty(), "never reached: {missed:?}");
}

/// Runs until it dies at this fail point. Returns false if it never does.
fn dies_at(
    name: &str,
    nth: u64,
    plain: &Setup,
    round: usize,
    told: &mut Ledger,
    figures: &mut Figures,
) -> bool {
    let armed = plain.clone().env("CREDENZA_FAILPOINT", &format!("{name}=abort@{nth}"));
    match Server::start(&armed) {
        Err(refusal) => {
            refusal.must_have_died_armed();
            true
        }
        Ok(mut server) => {
            let gone = provoke(&mut server, round, told, figures);
            if gone {
                server.must_have_died_armed(Duration::from_secs(5));
            }
            gone
        }
    }
}

/// Checks that an interrupted checkpoint is refused as a data directory, or complete.
fn checkpoints_are_whole_or_refused(plain: &Setup, name: &str) {
    let folder = plain.data.join("checkpoints");
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match Server::start(&Setup::on(&entry.path())) {
            Ok(mut server) => {
                let mut redis = systest::client::Resp::connect(server.address).expect("it listens");
                let size = redis.say("DBSIZE").expect("it answers");
                assert_eq!(size.error(), None, "{name}: {size:?}");
                server.kill();
            }
            Err(refusal) => assert!(
                refusal.code.is_some_and(|code| code > 1),
                "{name}: a half checkpoint is refused without a reason: {refusal}"
            ),
        }
    }
}

/// Returns the message of a failed assertion. `None`: it holds.
fn complaint(judges: impl FnOnce()) -> Option<String> {
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(judges)).err()?;
    panic.downcast::<String>().ok().map(|words| *words)
}

/// Positive control of the assertions "nothing panicked" and "it died at the armed fail point": a
/// real panic of the binary, at its start and at run time, is found by each of them, and does not
/// count as such a death.
#[test]
fn a_panic_is_seen_and_is_no_death_at_the_armed_place() {
    let scratch = Scratch::new("f07-panic");
    // Each has its own directory: replayed entries count as applied, too.
    let armed = |folder, words| small(&scratch.join(folder)).env("CREDENZA_FAILPOINT", words);
    let refusal = Server::start(&armed("first", "first_start.after=panic")).expect_err("it panics");
    assert!(tells_of_panic(&refusal.words) && refusal.words.contains("a test wanted"), "{refusal}");
    for seen in
        [complaint(|| refusal.must_not_panic()), complaint(|| refusal.must_have_died_armed())]
    {
        assert!(seen.is_some_and(|words| words.contains("a thread panicked")), "not seen");
    }
    // A silent abort does not count as a death at the armed fail point either.
    let mute = StartRefusal { code: None, words: String::new() };
    assert!(complaint(|| mute.must_have_died_armed()).is_some(), "any end counts");
    let at_work = |folder, words| {
        let mut server = Server::must(&armed(folder, words));
        let load = Load::mix(server.address, 0, 2, 100);
        assert!(server.wait(REACHED_MAX).is_some(), "it never gets there");
        load.stop();
        server
    };
    type Judge = fn(&mut Server);
    let judges: [Judge; 2] =
        [Server::must_be_unhurt, |server| server.must_have_died_armed(REACHED_MAX)];
    let mut panicked = at_work("panics", "apply.after=panic@20");
    for judge in judges {
        let seen = complaint(|| judge(&mut panicked));
        assert!(seen.is_some_and(|words| words.contains("a thread panicked")), "not seen");
    }
    // A test that never checks fails, too: the server's output is checked on drop.
    panicked.setup.environment.clear();
    let seen = complaint(|| drop(panicked));
    assert!(seen.is_some_and(|words| words.contains("a thread panicked")), "not seen");
    let mut dead = at_work("dies", "apply.after=abort@20");
    dead.must_have_died_armed(REACHED_MAX);
    assert!(!tells_of_panic(&dead.said()), "{}", dead.said());
}

//! F-07: the process dies at every fail point.

use super::{add_counts, judge, small_setup};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use systest::client::Http;
use systest::environment::{Scratch, experiment};
use systest::report::{Figures, short_or_long};
use systest::server::{Server, Setup, StartRefusal, reports_panic};
use systest::workload::Load;
use systest::workload::ledger::Ledger;

/// Fail point of a read, which leaves no partial effect.
pub(crate) const READ: &str = "row.read";
/// Longest wait until a fail point is reached.
const REACHED_MAX: Duration = Duration::from_secs(40);

/// Runs all operations that reach a fail point: writes, deletes, a bucket that is created and
/// dropped, a checkpoint. Returns true once the server has died, false at the time limit.
fn run_until_death(
    server: &mut Server,
    round: usize,
    total: &mut Ledger,
    figures: &mut Figures,
) -> bool {
    let deadline = Instant::now() + REACHED_MAX;
    let load = Load::start_mix(server.address, round, 4, 6_000);
    let mut step = 0;
    while server.is_alive() && Instant::now() < deadline {
        step += 1;
        let _ = create_and_drop_bucket(server, step);
        let _ = take_checkpoint(server, step);
        let _ = server.wait(Duration::from_millis(100));
    }
    let has_ended = !server.is_alive();
    let ledger = load.stop();
    add_counts(figures, &ledger);
    total.join(ledger);
    has_ended
}

pub(crate) fn create_and_drop_bucket(server: &Server, number: usize) -> std::io::Result<()> {
    let mut web = Http::connect(server.address)?;
    let path = format!("/v1/buckets/default/passing{number}");
    web.request("PUT", &path, b"{}")?;
    let headers = [("content-type", "application/octet-stream")];
    for n in 0..8 {
        let row = format!("{path}/keys/row{n}");
        web.request_with_headers("PUT", &row, &headers, &vec![n as u8; 300_000])?;
    }
    let answer = web.request("DELETE", &format!("{path}?confirm=default/passing{number}"), b"")?;
    assert_ne!(answer.status, 400, "{}", answer.text());
    Ok(())
}

pub(crate) fn take_checkpoint(server: &Server, number: usize) -> std::io::Result<()> {
    let mut web = Http::connect(server.address)?;
    let target = server.setup.data.join(format!("checkpoints/point{number}"));
    let body = serde_json::json!({ "target": target }).to_string();
    web.request("POST", "/v1/admin/checkpoint", body.as_bytes())?;
    let _ = std::fs::remove_dir_all(target);
    Ok(())
}

#[test]
fn node_killed_at_every_failpoint_opens_again_without_loss() {
    let _permit = experiment();
    let mut figures = Figures::start("F-07 death at every failpoint");
    let (mut unreached, mut rarely_reached) = (Vec::new(), BTreeSet::new());
    let points = store::failpoint::POINTS;
    let rounds = (1..).take(short_or_long(1, 8));
    let deaths = rounds.flat_map(|nth| points.iter().map(move |(_, name)| (nth * nth, *name)));
    for (round, (nth, name)) in deaths.enumerate() {
        // A single node gets no snapshot: the store's own test covers that. A read leaves no
        // partial effect.
        if name.starts_with("install.") || name == READ {
            continue;
        }
        // A process reaches the fail points of a first start once, and some others only a few times
        // within the wait.
        if nth > 1 && name.starts_with("first_start.") || rarely_reached.contains(name) {
            continue;
        }
        // A first start needs an empty directory; every other fail point gets data of an earlier
        // run.
        let scratch = Scratch::new("f07");
        let setup = small_setup(&scratch.join("data"));
        let mut total = Ledger::default();
        if !name.starts_with("first_start.") {
            let mut server = Server::must_start(&setup);
            let load = super::load_for_a_while(&server, round + 50);
            server.kill();
            total.join(load.stop());
        }
        if !dies_at_failpoint(name, nth, &setup, round, &mut total, &mut figures) {
            // Only the first occurrence is required.
            if nth == 1 {
                unreached.push(name);
            }
            rarely_reached.insert(name);
            continue;
        }
        figures.faults += 1;
        let server = Server::start(&setup).unwrap_or_else(|refusal| {
            panic!("it does not start again after dying at {name}: {refusal}")
        });
        let verdict = total.judge(server.address).expect("every key can be read");
        assert!(verdict.lost.is_empty(), "after dying at {name}: {:?}", verdict.lost);
        judge(&mut figures, &total, &server);
        checkpoints_must_be_complete_or_refused(&setup, name);
    }
    figures.add("known", points.len());
    figures.print();
    assert!(unreached.is_empty(), "never reached: {unreached:?}");
}

/// Runs a server until it dies at this fail point. Returns false at the time limit.
fn dies_at_failpoint(
    name: &str,
    nth: u64,
    setup: &Setup,
    round: usize,
    total: &mut Ledger,
    figures: &mut Figures,
) -> bool {
    let armed = setup.clone().env("CREDENZA_FAILPOINT", &format!("{name}=abort@{nth}"));
    match Server::start(&armed) {
        Err(refusal) => {
            refusal.must_have_died_at_failpoint();
            true
        }
        Ok(mut server) => {
            let has_ended = run_until_death(&mut server, round, total, figures);
            if has_ended {
                server.must_have_died_at_failpoint(Duration::from_secs(5));
            }
            has_ended
        }
    }
}

/// Checks that an interrupted checkpoint is refused as a data directory, or complete.
fn checkpoints_must_be_complete_or_refused(setup: &Setup, name: &str) {
    let folder = setup.data.join("checkpoints");
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match Server::start(&Setup::new(&entry.path())) {
            Ok(mut server) => {
                let mut redis = systest::client::Resp::connect(server.address).expect("it listens");
                let size = redis.call_line("DBSIZE").expect("it answers");
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

/// Returns the message of a failed assertion. `None`: the assertion passed.
fn assertion_message(assertions: impl FnOnce()) -> Option<String> {
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(assertions)).err()?;
    panic.downcast::<String>().ok().map(|message| *message)
}

/// Positive control of the assertions "nothing panicked" and "it died at the armed fail point": a
/// real panic of the binary, at its start and at run time, is found by each of them, and does not
/// count as such a death.
#[test]
fn panic_is_detected_and_not_counted_as_failpoint_death() {
    let scratch = Scratch::new("f07-panic");
    // Each has its own directory: replayed entries count as applied, too.
    let armed = |folder, spec| small_setup(&scratch.join(folder)).env("CREDENZA_FAILPOINT", spec);
    let refusal = Server::start(&armed("first", "first_start.after=panic")).expect_err("it panics");
    assert!(
        reports_panic(&refusal.output) && refusal.output.contains("a test wanted"),
        "{refusal}"
    );
    for message in [
        assertion_message(|| refusal.must_not_panic()),
        assertion_message(|| refusal.must_have_died_at_failpoint()),
    ] {
        assert!(message.is_some_and(|text| text.contains("a thread panicked")), "not seen");
    }
    // A silent abort does not count as a death at the armed fail point either.
    let silent = StartRefusal { code: None, output: String::new() };
    assert!(assertion_message(|| silent.must_have_died_at_failpoint()).is_some(), "any end counts");
    let run_until_exit = |folder, spec| {
        let mut server = Server::must_start(&armed(folder, spec));
        let load = Load::start_mix(server.address, 0, 2, 100);
        assert!(server.wait(REACHED_MAX).is_some(), "it never gets there");
        load.stop();
        server
    };
    type Check = fn(&mut Server);
    let checks: [Check; 2] =
        [Server::must_be_healthy, |server| server.must_have_died_at_failpoint(REACHED_MAX)];
    let mut panicked = run_until_exit("panics", "apply.after=panic@20");
    for check in checks {
        let message = assertion_message(|| check(&mut panicked));
        assert!(message.is_some_and(|text| text.contains("a thread panicked")), "not seen");
    }
    // A test that never checks fails, too: the server's output is checked on drop.
    panicked.setup.environment.clear();
    let message = assertion_message(|| drop(panicked));
    assert!(message.is_some_and(|text| text.contains("a thread panicked")), "not seen");
    let mut dead = run_until_exit("dies", "apply.after=abort@20");
    dead.must_have_died_at_failpoint(REACHED_MAX);
    assert!(!reports_panic(&dead.stderr_text()), "{}", dead.stderr_text());
}

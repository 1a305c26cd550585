//! Flood of wrong logins: verifying a password costs much memory and time, so many at a time must
//! take neither from other clients.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use systest::access::AccessAdmin;
use systest::bystanders::{BystanderReport, resp_bystander, run_bystanders};
use systest::client::Resp;
use systest::environment::{Scratch, StopOnDrop, experiment, resident_bytes};
use systest::report::{BoundChecks, Figures, short_or_long};
use systest::server::{Server, Setup};

const PASSWORD: &str = "bystander-password";
/// Logins that are tried at a time.
const GUESSERS: usize = 100;
/// Pause of a guesser that was refused at once.
const PAUSE: Duration = Duration::from_millis(20);
/// Memory of one verification, MiB (`docs/run/access.md`).
const VERIFICATION_MIB: u64 = 19;
/// Memory beside it: connections, buffers, the allocator's reserve, MiB.
const RESERVE_MIB: u64 = 48;
/// Longest p99 of other clients, milliseconds: less than one verification takes, so that nobody
/// waits behind one.
const P99_MS_MAX: f64 = 50.0;

/// Guesses passwords until it is told to stop; returns the refusals by their first word.
fn guess(address: SocketAddr, guesser: usize, stop: &AtomicBool) -> BTreeMap<String, u64> {
    let mut refusals = BTreeMap::new();
    let mut client = None;
    for at in 0_u64.. {
        if stop.load(SeqCst) {
            break;
        }
        // Names of their own, or an address would soon be refused for one name without any work.
        let name = format!("guess{guesser}-{at}");
        let word = match try_one(&mut client, address, &name) {
            Ok(word) => word,
            Err(error) => {
                client = None;
                error.kind().to_string()
            }
        };
        if word != "WRONGPASS" {
            std::thread::sleep(PAUSE);
        }
        *refusals.entry(word).or_default() += 1;
    }
    refusals
}

/// Tries one wrong login; returns the first word of its refusal.
fn try_one(client: &mut Option<Resp>, address: SocketAddr, name: &str) -> io::Result<String> {
    if client.is_none() {
        // Verifications wait for each other.
        *client = Some(Resp::with_timeout(address, Duration::from_secs(60))?);
    }
    let client = client.as_mut().expect("it was set");
    let reply = client.call_line(&format!("AUTH {name} wrong-password"))?;
    let error = reply.error().unwrap_or_else(|| panic!("{name} is logged in: {reply:?}"));
    Ok(error.split(' ').next().unwrap_or_default().to_string())
}

/// Runs two bystanders for a time.
fn watch_others(address: SocketAddr, time: Duration) -> BystanderReport {
    let calls = (0..2).map(|_| resp_bystander(address, Some(("ada", PASSWORD)), None));
    run_bystanders(calls.collect(), time)
}

#[test]
fn hundred_wrong_logins_at_a_time_leave_other_clients_served_and_memory_bounded() {
    let _permit = experiment();
    let scratch = Scratch::new("login-flood");
    let mut server = Server::must_start(&Setup::new(&scratch.join("data")));
    let admin = AccessAdmin::new(&server.setup.data);
    admin.set_role("data", &["read,write:default/default"]);
    admin.add_user("ada", PASSWORD, "data");
    admin.turn_on();
    let (address, pid) = (server.address, server.pid());
    let time = Duration::from_secs(short_or_long(4, 30) as u64);
    let mut figures = Figures::start("S6 a hundred wrong logins at a time");
    let before = watch_others(address, time);
    let resident_before = resident_bytes(pid);
    let stop = &AtomicBool::new(false);
    let (during, peak, refusals) = std::thread::scope(|threads| {
        let _stopped = StopOnDrop(stop);
        let guessers: Vec<_> = (0..GUESSERS)
            .map(|guesser| threads.spawn(move || guess(address, guesser, stop)))
            .collect();
        let memory = threads.spawn(move || {
            let mut peak = 0;
            while !stop.load(SeqCst) {
                peak = peak.max(resident_bytes(pid));
                std::thread::sleep(Duration::from_millis(10));
            }
            peak
        });
        let during = watch_others(address, time);
        stop.store(true, SeqCst);
        let mut refusals: BTreeMap<String, u64> = BTreeMap::new();
        for guesser in guessers {
            for (word, count) in guesser.join().expect("it does not panic") {
                *refusals.entry(word).or_default() += count;
            }
        }
        (during, memory.join().expect("it does not panic"), refusals)
    });
    let grown_mib = peak.saturating_sub(resident_before) >> 20;
    figures.ok = (before.latencies.count() + during.latencies.count()) as u64;
    figures.fail = refusals.values().sum();
    figures.add("refusals", format!("{refusals:?}").replace(' ', ""));
    figures.add("p99_ms_before", format!("{:.2}", before.latencies.per_mille_ms(990)));
    figures.add("p99_ms_during", format!("{:.2}", during.latencies.per_mille_ms(990)));
    figures.add("grown_mib", grown_mib);
    figures.print();
    before.must_be_served("before the flood");
    during.must_be_served("during the flood");
    // Control: passwords were verified all the time. All guessers have places to wait in.
    let count = |word: &str| refusals.get(word).copied().unwrap_or(0);
    assert!(count("WRONGPASS") > 0, "{refusals:?}");
    let known = ["WRONGPASS", "OVERLOADED", "TOOMANY"].iter().map(|word| count(word)).sum::<u64>();
    assert_eq!(known, refusals.values().sum::<u64>(), "{refusals:?}");
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let allowed_mib = VERIFICATION_MIB * (threads / 2).max(1) + RESERVE_MIB;
    assert!(grown_mib <= allowed_mib, "{grown_mib} MiB more, {allowed_mib} are allowed");
    server.must_be_healthy();
    let mut bounds = BoundChecks::default();
    let p99 = during.latencies.per_mille_ms(990);
    bounds.check("S6 p99 of others during a hundred wrong logins, ms", p99, P99_MS_MAX);
    bounds.assert_bounds();
}

//! A follower that was down for longer than the log reaches back catches up by a snapshot, also
//! when it, or the sender, dies during the transfer.

use super::{DAMAGED, SECOND, Trial, plan, waits_for_the_long_tests};
use std::time::{Duration, Instant};
use systest::client::{Resp, RespReply};
use systest::report::skipped;
use systest::rigs::{Cluster, Options, Root, Scratch, Trace, experiment, missing};

/// Number of writes: more than the log keeps for lagging members, which is half of its limit.
const WRITES: usize = 2_400;
const KEYS: usize = 400;
const VALUE_BYTES: usize = 48 << 10;
const RECEIVED: &str = "credenza_snapshots_received_total";

/// Node that dies during the transfer of a snapshot.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Nobody,
    Receiver,
    Master,
}

#[test]
fn a_follower_that_was_away_too_long_comes_back_by_a_snapshot() {
    let _permit = experiment();
    let scratch = Scratch::new("cluster-snapshots");
    let mut options = Options::of(3);
    options.words.extend(["--log-bytes-max", "128MiB"].map(String::from));
    let mut cluster = Cluster::start(&scratch, options);
    let mut trial = Trial::begin("F-06 a follower away too long", &cluster, plan(6));
    trial.log_from = None;
    let (mut received, mut slowest) = (0.0, Duration::ZERO);
    for victim in [Victim::Nobody, Victim::Receiver, Victim::Master] {
        let follower = cluster.follower();
        trial.fault(&mut cluster, |cluster| {
            cluster.kill(follower);
            write_much(cluster);
            let begun = Instant::now();
            cluster.begin(follower);
            kill(cluster, victim, follower);
            cluster.must_catch_up(follower);
            slowest = slowest.max(begun.elapsed());
            received += cluster.metric(follower, RECEIVED);
        });
    }
    trial.figures.also("snapshots_received", received);
    trial.figures.also("slowest_ms", slowest.as_millis());
    trial.end(&cluster);
    assert!(received >= 3.0, "the log reached back far enough: no snapshot was needed");
}

/// Writes so much that no log reaches back to the applied index of a member that is down.
pub(super) fn write_much(cluster: &Cluster) {
    let mut redis = Resp::connect(cluster.client(cluster.master())).expect("it listens");
    for at in 0..WRITES {
        let key = format!("much{:04}", at % KEYS);
        let value = vec![b'a' + (at % 23) as u8; VALUE_BYTES];
        write(&mut redis, &key, &value);
    }
}

/// Writes a key; retries while the node is overloaded.
fn write(redis: &mut Resp, key: &str, value: &[u8]) {
    loop {
        match redis.call(&[b"SET", key.as_bytes(), value]).expect("it answers") {
            RespReply::Simple(_) => break,
            RespReply::Error(text) if text.starts_with("OVERLOADED") => {}
            other => panic!("{other:?}"),
        }
        std::thread::sleep(SECOND / 100);
    }
}

fn kill(cluster: &mut Cluster, victim: Victim, follower: usize) {
    let victim = match victim {
        Victim::Nobody => return,
        Victim::Receiver => follower,
        Victim::Master => cluster.master(),
    };
    std::thread::sleep(SECOND / 5);
    cluster.kill(victim);
    cluster.begin(victim);
}

/// Stops and restarts a follower a hundred times, between writes of a few bytes and then of many.
#[test]
fn a_shaky_follower_has_what_the_others_have() {
    let name = "F-06 a shaky follower";
    if waits_for_the_long_tests(name) {
        return;
    }
    const ROUNDS: usize = 50;
    let _permit = experiment();
    let scratch = Scratch::new("cluster-shaky");
    let mut cluster = Cluster::start(&scratch, Options::of(3));
    let mut trial = Trial::begin(name, &cluster, plan(63));
    trial.log_from = None;
    for (word, bytes) in [("thin", 10), ("fat", 100_000)] {
        let begun = Instant::now();
        for round in 0..ROUNDS {
            let follower = cluster.follower();
            trial.fault(&mut cluster, |cluster| {
                assert_eq!(cluster.stop(follower), Some(0));
                write_some(cluster, round, bytes);
                cluster.begin(follower);
                write_some(cluster, round + 1, bytes);
            });
        }
        let each = begun.elapsed() / ROUNDS as u32;
        trial.figures.also(&format!("ms_a_cycle_{word}"), each.as_millis());
    }
    trial.end(&cluster);
}

/// Writes two hundred rows.
fn write_some(cluster: &Cluster, round: usize, bytes: usize) {
    let mut redis = Resp::connect(cluster.client(cluster.master())).expect("it listens");
    for at in 0..200 {
        let value = vec![b'a' + (round % 23) as u8; bytes];
        write(&mut redis, &format!("shaky{at:03}"), &value);
    }
}

/// A disk that fails while a snapshot is written to it: the node ends, and restarts with another
/// snapshot.
#[test]
fn a_follower_whose_disk_fails_under_a_snapshot_stops_and_fetches_another() {
    let name = "F-26 failed sync under a snapshot";
    if waits_for_the_long_tests(name) {
        return;
    }
    if let Some(why) = missing(Root::Needed, &["strace"]) {
        return skipped(name, &why);
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-snapshot-sync");
    let mut options = Options::of(3);
    options.words.extend(["--log-bytes-max", "128MiB"].map(String::from));
    let mut cluster = Cluster::start(&scratch, options);
    let mut trial = Trial::begin(name, &cluster, plan(64));
    trial.log_from = None;
    let mut received = 0.0;
    for call in ["fsync", "fdatasync"] {
        let follower = cluster.follower();
        let record = scratch.join(call);
        trial.fault(&mut cluster, |cluster| {
            cluster.kill(follower);
            write_much(cluster);
            cluster.begin(follower);
            let pid = cluster.server(follower).pid();
            let mut trace = Trace::attach(pid, call, "error=EIO:when=1", record);
            let status = cluster.server(follower).wait(30 * SECOND);
            trace.wait(SECOND);
            let said = cluster.server(follower).said();
            assert!(trace.injections() > 0, "nothing was synced: {said}");
            let status = status.unwrap_or_else(|| panic!("it lives on: {said}"));
            assert_eq!(status.code(), Some(DAMAGED), "{said}");
            cluster.kill(follower);
            cluster.begin(follower);
            cluster.must_catch_up(follower);
            received += cluster.metric(follower, RECEIVED);
        });
    }
    trial.figures.also("snapshots_received", received);
    trial.end(&cluster);
    assert!(received >= 1.0, "no snapshot was needed after a failure");
}

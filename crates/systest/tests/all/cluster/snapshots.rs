//! A follower that was down for longer than the log reaches back catches up by a snapshot, also
//! when it, or the sender, dies during the transfer.

use super::{DAMAGED, SECOND, Trial, is_left_to_long_form, plan};
use std::time::{Duration, Instant};
use systest::client::{Resp, RespReply};
use systest::cluster::{Cluster, Options};
use systest::environment::{Root, Scratch, experiment, missing};
use systest::fault_injection::Trace;
use systest::report::skipped;

/// Number of writes: more than the log keeps for lagging members, which is half of its limit.
const WRITES: usize = 2_400;
const KEYS: usize = 400;
const VALUE_BYTES: usize = 48 << 10;
const SNAPSHOTS_RECEIVED: &str = "credenza_snapshots_received_total";

/// Node that dies during the transfer of a snapshot.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Nobody,
    Receiver,
    Master,
}

#[test]
fn follower_behind_log_start_catches_up_by_snapshot_despite_kills() {
    let _permit = experiment();
    let scratch = Scratch::new("cluster-snapshots");
    let mut options = Options::new(3);
    options.args.extend(["--log-bytes-max", "128MiB"].map(String::from));
    let mut cluster = Cluster::start(&scratch, options);
    let mut trial = Trial::start("F-06 a follower away too long", &cluster, plan(6));
    trial.log_from = None;
    let (mut received, mut slowest_catch_up) = (0.0, Duration::ZERO);
    for victim in [Victim::Nobody, Victim::Receiver, Victim::Master] {
        let follower = cluster.follower();
        trial.fault(&mut cluster, |cluster| {
            cluster.kill(follower);
            write_past_log_limit(cluster);
            let started = Instant::now();
            cluster.start_node(follower);
            kill_and_restart(cluster, victim, follower);
            cluster.must_catch_up(follower);
            slowest_catch_up = slowest_catch_up.max(started.elapsed());
            received += cluster.metric(follower, SNAPSHOTS_RECEIVED);
        });
    }
    trial.figures.add("snapshots_received", received);
    trial.figures.add("slowest_ms", slowest_catch_up.as_millis());
    trial.end(&cluster);
    assert!(received >= 3.0, "the log reached back far enough: no snapshot was needed");
}

/// Writes so much that no log reaches back to the applied index of a member that is down.
pub(super) fn write_past_log_limit(cluster: &Cluster) {
    let mut redis = Resp::connect(cluster.client_address(cluster.master())).expect("it listens");
    for at in 0..WRITES {
        let key = format!("much{:04}", at % KEYS);
        let value = vec![b'a' + (at % 23) as u8; VALUE_BYTES];
        write_with_retry(&mut redis, &key, &value);
    }
}

/// Writes a key; retries while the node is overloaded.
fn write_with_retry(redis: &mut Resp, key: &str, value: &[u8]) {
    loop {
        match redis.call(&[b"SET", key.as_bytes(), value]).expect("it answers") {
            RespReply::Simple(_) => break,
            RespReply::Error(text) if text.starts_with("OVERLOADED") => {}
            other => panic!("{other:?}"),
        }
        std::thread::sleep(SECOND / 100);
    }
}

fn kill_and_restart(cluster: &mut Cluster, victim: Victim, follower: usize) {
    let victim = match victim {
        Victim::Nobody => return,
        Victim::Receiver => follower,
        Victim::Master => cluster.master(),
    };
    std::thread::sleep(SECOND / 5);
    cluster.kill(victim);
    cluster.start_node(victim);
}

/// Stops and restarts a follower a hundred times, between writes of a few bytes and then of many.
#[test]
fn repeatedly_restarted_follower_matches_the_other_nodes() {
    let name = "F-06 a shaky follower";
    if is_left_to_long_form(name) {
        return;
    }
    const ROUNDS: usize = 50;
    let _permit = experiment();
    let scratch = Scratch::new("cluster-shaky");
    let mut cluster = Cluster::start(&scratch, Options::new(3));
    let mut trial = Trial::start(name, &cluster, plan(63));
    trial.log_from = None;
    for (label, bytes) in [("thin", 10), ("fat", 100_000)] {
        let started = Instant::now();
        for round in 0..ROUNDS {
            let follower = cluster.follower();
            trial.fault(&mut cluster, |cluster| {
                assert_eq!(cluster.stop(follower), Some(0));
                write_small_rows(cluster, round, bytes);
                cluster.start_node(follower);
                write_small_rows(cluster, round + 1, bytes);
            });
        }
        let cycle = started.elapsed() / ROUNDS as u32;
        trial.figures.add(&format!("ms_a_cycle_{label}"), cycle.as_millis());
    }
    trial.end(&cluster);
}

/// Writes two hundred rows.
fn write_small_rows(cluster: &Cluster, round: usize, bytes: usize) {
    let mut redis = Resp::connect(cluster.client_address(cluster.master())).expect("it listens");
    for at in 0..200 {
        let value = vec![b'a' + (round % 23) as u8; bytes];
        write_with_retry(&mut redis, &format!("shaky{at:03}"), &value);
    }
}

/// A disk that fails while a snapshot is written to it: the node ends, and restarts with another
/// snapshot.
#[test]
fn follower_stops_on_disk_error_in_snapshot_and_fetches_another() {
    let name = "F-26 failed sync under a snapshot";
    if is_left_to_long_form(name) {
        return;
    }
    if let Some(reason) = missing(Root::Needed, &["strace"]) {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-snapshot-sync");
    let mut options = Options::new(3);
    options.args.extend(["--log-bytes-max", "128MiB"].map(String::from));
    let mut cluster = Cluster::start(&scratch, options);
    let mut trial = Trial::start(name, &cluster, plan(64));
    trial.log_from = None;
    let mut received = 0.0;
    for call in ["fsync", "fdatasync"] {
        let follower = cluster.follower();
        let record = scratch.join(call);
        trial.fault(&mut cluster, |cluster| {
            cluster.kill(follower);
            write_past_log_limit(cluster);
            cluster.start_node(follower);
            let pid = cluster.server(follower).pid();
            let mut trace = Trace::attach(pid, call, "error=EIO:when=1", record);
            let status = cluster.server(follower).wait(30 * SECOND);
            trace.wait(SECOND);
            let stderr = cluster.server(follower).stderr_text();
            assert!(trace.injections() > 0, "nothing was synced: {stderr}");
            let status = status.unwrap_or_else(|| panic!("it lives on: {stderr}"));
            assert_eq!(status.code(), Some(DAMAGED), "{stderr}");
            cluster.kill(follower);
            cluster.start_node(follower);
            cluster.must_catch_up(follower);
            received += cluster.metric(follower, SNAPSHOTS_RECEIVED);
        });
    }
    trial.figures.add("snapshots_received", received);
    trial.end(&cluster);
    assert!(received >= 1.0, "no snapshot was needed after a failure");
}

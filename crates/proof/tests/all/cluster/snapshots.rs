//! A follower that was away for longer than the log reaches back comes back by a snapshot, also
//! when it, or who sends it, dies on the way.

use super::{SECOND, Trial, plan};
use proof::client::{Resp, Word};
use proof::rigs::{Cluster, Options, Scratch, alone};
use std::time::{Duration, Instant};

/// More than the log keeps for members that are behind: half of its limit.
const WRITES: usize = 2_400;
const KEYS: usize = 400;
const VALUE_BYTES: usize = 48 << 10;
const RECEIVED: &str = "credenza_snapshots_received_total";

/// Who dies while a snapshot is under way.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Nobody,
    Receiver,
    Master,
}

#[test]
fn a_follower_that_was_away_too_long_comes_back_by_a_snapshot() {
    let _alone = alone();
    let scratch = Scratch::new("cluster-snapshots");
    let mut options = Options::of(3);
    options.words.extend(["--log-bytes-max", "128MiB"].map(String::from));
    let mut cluster = Cluster::start(&scratch, options);
    let mut trial = Trial::begin("F-06 a follower away too long", &cluster, plan(6));
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

/// So much that no log reaches back to where a member was that is away.
pub(super) fn write_much(cluster: &Cluster) {
    let mut redis = Resp::connect(cluster.client(cluster.master())).expect("it listens");
    for at in 0..WRITES {
        let key = format!("much{:04}", at % KEYS);
        let value = vec![b'a' + (at % 23) as u8; VALUE_BYTES];
        loop {
            match redis.call(&[b"SET", key.as_bytes(), &value]).expect("it answers") {
                Word::Simple(_) => break,
                Word::Error(text) if text.starts_with("OVERLOADED") => {}
                other => panic!("{other:?}"),
            }
            std::thread::sleep(SECOND / 100);
        }
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

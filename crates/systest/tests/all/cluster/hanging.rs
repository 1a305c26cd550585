//! F-65: disks that hang: no call on a node's file system returns for a while.

use super::{SECOND, Trial, plan};
use std::time::{Duration, Instant};
use systest::client::{Resp, RespReply};
use systest::report::{bound, skipped, times};
use systest::rigs::{Cluster, Options, Root, Scratch, System, experiment, missing, wait};

/// Longest pause of writes at any node, besides the two leases after which a disk counts as
/// hanging.
const ELECTION_MAX: Duration = Duration::from_millis(800);
const LEASE: Duration = Duration::from_millis(600);

/// The master of the data's group, which is the preferred master, can't save anything. Another
/// leads for as long as that lasts, though the preferred one is connected and votes. Then it
/// follows, catches up, and becomes master again. A follower whose disk hangs delays no other node.
#[test]
fn another_is_master_while_the_disk_of_the_preferred_one_hangs() {
    let name = "F-65 hanging disk";
    let tools = [System::Ext4.tools(), &["fsfreeze"]].concat();
    if let Some(why) = missing(Root::Needed, &tools) {
        return skipped(name, &why);
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-hanging");
    let words =
        ["--preferred-masters", "n1", "--preferred-master-delay-ms", "1s"].map(String::from);
    let mut options = Options { disk: Some((System::Ext4, 512)), lease: LEASE, ..Options::of(3) };
    options.words.extend(words);
    let mut cluster = Cluster::start(&scratch, options);
    cluster.lead(1);
    let mut trial = Trial::begin(name, &cluster, plan(65));
    let frozen = times(5, 20) as u32 * SECOND;
    let (mut gap, mut written) = (Duration::ZERO, 0);
    for node in [1, 3] {
        trial.fault(&mut cluster, |cluster| {
            let frozen_disk = cluster.disk(node).freeze();
            let begun = Instant::now();
            let (longest, many) = writes_for(cluster, node, frozen);
            (gap, written) = (gap.max(longest), written + many);
            assert!(many > 20, "node {node} hangs, and nobody takes writes: {}", cluster.words());
            let master = cluster.master();
            assert_ne!(master, node, "it leads, and its disk hangs: {}", cluster.words());
            must_say_so(cluster, node);
            let most = 4 * frozen;
            assert!(begun.elapsed() < most, "the machine was too busy to tell");
            drop(frozen_disk);
        });
    }
    wait("the preferred master", || match cluster.master() {
        1 => Ok(()),
        other => Err(format!("n{other} leads")),
    });
    trial.figures.also("writes_while_it_hung", written);
    trial.figures.also("longest_gap_of_writes_ms", gap.as_millis());
    trial.end(&cluster);
    let most = 2 * LEASE + ELECTION_MAX;
    bound("F-65 longest gap of writes, s", gap.as_secs_f64(), most.as_secs_f64());
}

/// Writes at all nodes but one for this time; returns the longest time without an acknowledgement,
/// and the number of acknowledgements.
fn writes_for(cluster: &Cluster, but: usize, time: Duration) -> (Duration, u64) {
    let begun = Instant::now();
    let (mut last, mut longest, mut many) = (begun, Duration::ZERO, 0);
    for number in 0.. {
        if begun.elapsed() > time {
            break;
        }
        let others = cluster.nodes().filter(|node| *node != but);
        let node = others.cycle().nth(number).expect("there are others");
        let redis = Resp::with_patience(cluster.client(node), SECOND / 2);
        let answer = redis.and_then(|mut redis| redis.say(&format!("SET hanging{number} taken")));
        if matches!(answer, Ok(RespReply::Simple(_))) {
            longest = longest.max(last.elapsed());
            (last, many) = (Instant::now(), many + 1);
        }
        std::thread::sleep(SECOND / 50);
    }
    (longest.max(last.elapsed()), many)
}

/// Checks that the node's status and its metrics report the hanging disk.
fn must_say_so(cluster: &Cluster, node: usize) {
    let status = cluster.status(node).expect("it answers");
    assert_eq!(status["log"]["hangs"], true, "it says nothing of its disk: {}", status["log"]);
    let warnings = status["warnings"].to_string();
    assert!(warnings.contains("the disk hangs"), "{warnings}");
    assert!(cluster.metric(node, "credenza_log_hangs") > 0.0);
}

//! F-65: disks that hang: no call on a node's file system returns for a while.

use super::{SECOND, Trial, plan};
use std::time::{Duration, Instant};
use systest::client::{Resp, RespReply};
use systest::cluster::{Cluster, Options, wait_until};
use systest::environment::{Root, Scratch, experiment, missing};
use systest::fault_injection::FileSystem;
use systest::report::{check_bound, short_or_long, skipped};

/// Longest pause of writes at any node, besides the two leases after which a disk counts as
/// hanging.
const ELECTION_MAX: Duration = Duration::from_millis(800);
const LEASE: Duration = Duration::from_millis(600);

/// The master of the data's group, which is the preferred master, can't save anything. Another
/// leads for as long as that lasts, though the preferred one is connected and votes. Then it
/// follows, catches up, and becomes master again. A follower whose disk hangs delays no other node.
#[test]
fn preferred_master_with_hanging_disk_yields_until_disk_recovers() {
    let name = "F-65 hanging disk";
    let tools = [FileSystem::Ext4.tools(), &["fsfreeze"]].concat();
    if let Some(reason) = missing(Root::Needed, &tools) {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-hanging");
    let args = ["--preferred-masters", "n1", "--preferred-master-delay-ms", "1s"].map(String::from);
    let mut options =
        Options { disk: Some((FileSystem::Ext4, 512)), lease: LEASE, ..Options::new(3) };
    options.args.extend(args);
    let mut cluster = Cluster::start(&scratch, options);
    cluster.make_master(1);
    let mut trial = Trial::start(name, &cluster, plan(65));
    let hang_time = short_or_long(5, 20) as u32 * SECOND;
    let (mut longest_gap, mut writes) = (Duration::ZERO, 0);
    for node in [1, 3] {
        trial.fault(&mut cluster, |cluster| {
            let frozen_disk = cluster.disk(node).freeze();
            let (gap, count) = write_for(cluster, node, hang_time);
            (longest_gap, writes) = (longest_gap.max(gap), writes + count);
            assert!(
                count > 20,
                "node {node} hangs, and nobody takes writes: {}",
                cluster.describe()
            );
            let master = cluster.master();
            assert_ne!(master, node, "it leads, and its disk hangs: {}", cluster.describe());
            must_report_hang(cluster, node);
            drop(frozen_disk);
        });
    }
    wait_until("the preferred master", || match cluster.master() {
        1 => Ok(()),
        other => Err(format!("n{other} leads")),
    });
    trial.figures.add("writes_while_it_hung", writes);
    trial.figures.add("longest_gap_of_writes_ms", longest_gap.as_millis());
    trial.end(&cluster);
    let limit = 2 * LEASE + ELECTION_MAX;
    check_bound("F-65 longest gap of writes, s", longest_gap.as_secs_f64(), limit.as_secs_f64());
}

/// Writes at all nodes but one for this time; returns the longest time without an acknowledgement,
/// and the number of acknowledgements.
fn write_for(cluster: &Cluster, excluded: usize, time: Duration) -> (Duration, u64) {
    let started = Instant::now();
    let (mut last_ack, mut longest, mut count) = (started, Duration::ZERO, 0);
    for number in 0.. {
        if started.elapsed() > time {
            break;
        }
        let others = cluster.nodes().filter(|node| *node != excluded);
        let node = others.cycle().nth(number).expect("there are others");
        let redis = Resp::with_timeout(cluster.client_address(node), SECOND / 2);
        let answer =
            redis.and_then(|mut redis| redis.call_line(&format!("SET hanging{number} taken")));
        if matches!(answer, Ok(RespReply::Simple(_))) {
            longest = longest.max(last_ack.elapsed());
            (last_ack, count) = (Instant::now(), count + 1);
        }
        std::thread::sleep(SECOND / 50);
    }
    (longest.max(last_ack.elapsed()), count)
}

/// Waits until the node's status and its metrics report the hanging disk.
fn must_report_hang(cluster: &Cluster, node: usize) {
    wait_until("word of the hanging disk", || {
        let status = cluster.status(node).ok_or("the node does not answer")?;
        let alarms = status["alarms"].to_string();
        let is_told = status["log"]["hangs"] == true
            && alarms.contains("the disk hangs")
            && cluster.metric(node, "credenza_log_hangs") > 0.0;
        if is_told { Ok(()) } else { Err(format!("{}, {alarms}", status["log"])) }
    });
}

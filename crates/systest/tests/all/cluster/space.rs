//! F-29 and F-30: disks without inodes, disks that turn read-only, and disks that are slow.

use super::{SECOND, Trial, is_left_to_long_form, percentile, plan};
use std::path::PathBuf;
use std::time::Duration;
use systest::client::{Resp, RespReply};
use systest::cluster::{Cluster, Options, wait_until};
use systest::environment::{Root, Scratch, experiment, missing};
use systest::fault_injection::{DiskGroup, FileSystem};
use systest::report::{check_bound, print_line, ratio, skipped};

const EXIT_TIMEOUT: Duration = Duration::from_secs(30);
const DAMAGED: i32 = 7;
/// Writes a second of a slow disk.
const SLOW_IOPS: u32 = 20;

#[test]
fn inode_exhaustion_refuses_writes_only_at_all_nodes_and_loses_nothing() {
    let name = "F-29 inodes full in a cluster";
    if is_left_to_long_form(name) {
        return;
    }
    let system = FileSystem::Memory { files: 200 };
    if let Some(reason) = missing(Root::Needed, system.tools()) {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-inodes");
    let mut options = Options { disk: Some((system, 512)), ..Options::new(3) };
    options.args.extend(["--log-bytes-max", "128MiB", "--segment-bytes", "1MiB"].map(String::from));
    let mut cluster = Cluster::start(&scratch, options);
    let mut trial = Trial::start(name, &cluster, plan(29));
    let (mut outcomes, mut ended_nodes) = (Vec::new(), 0);
    for target in ["follower", "master", "all"] {
        let nodes = match target {
            "follower" => vec![cluster.follower()],
            "master" => vec![cluster.master()],
            _ => cluster.nodes().collect(),
        };
        trial.fault(&mut cluster, |cluster| {
            let files: Vec<_> =
                nodes.iter().flat_map(|node| exhaust_inodes(cluster, *node)).collect();
            assert!(files.len() > nodes.len(), "there were no inodes to take");
            write_until_segments_needed(cluster);
            let answer = write_outcome(cluster);
            let expected = if target == "all" { "NOSPACE" } else { "taken" };
            assert_eq!(answer, expected, "no inodes at {target}");
            outcomes.push(format!("{target}:{answer}"));
            files.iter().for_each(|path| {
                std::fs::remove_file(path).expect("the files are ours");
            });
            ended_nodes += cluster.restart_ended();
        });
    }
    trial.figures.add("writes_meanwhile", outcomes.join(","));
    trial.figures.add("nodes_that_ended", ended_nodes);
    trial.end(&cluster);
}

/// Creates empty files until no more can be created.
fn exhaust_inodes(cluster: &mut Cluster, node: usize) -> Vec<PathBuf> {
    let point = cluster.disk(node).point().to_path_buf();
    let paths = (0..).map(|number| point.join(format!("inode{number}")));
    paths.take_while(|path| std::fs::write(path, b"").is_ok()).collect()
}

/// Writes for a few seconds, so much that each log needs new segments.
fn write_until_segments_needed(cluster: &Cluster) {
    let mut redis = Resp::with_timeout(cluster.client_address(cluster.master()), SECOND);
    let deadline = std::time::Instant::now() + 6 * SECOND;
    for number in 0.. {
        if std::time::Instant::now() > deadline {
            return;
        }
        let key = format!("fat{}", number % 50);
        let reply = redis.as_mut().ok();
        let reply =
            reply.and_then(|redis| redis.call(&[b"SET", key.as_bytes(), &[b'f'; 40_000]]).ok());
        if !matches!(reply, Some(RespReply::Simple(_))) {
            std::thread::sleep(SECOND / 10);
            redis = Resp::with_timeout(cluster.client_address(number % cluster.size() + 1), SECOND);
        }
    }
}

/// Returns the answer to a write now: success, or the error code.
fn write_outcome(cluster: &Cluster) -> String {
    for node in cluster.nodes() {
        let redis = Resp::with_timeout(cluster.client_address(node), 2 * SECOND);
        match redis.and_then(|mut redis| redis.call_line("SET inodes taken")) {
            Ok(RespReply::Error(text)) => return text.split(' ').next().unwrap_or_default().into(),
            Ok(_) => return "taken".into(),
            Err(_) => {}
        }
    }
    "silence".into()
}

#[test]
fn node_with_read_only_disk_stops_and_peers_continue() {
    let name = "F-29 read-only disk in a cluster";
    if is_left_to_long_form(name) {
        return;
    }
    if let Some(reason) = missing(Root::Needed, FileSystem::Ext4.tools()) {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-read-only");
    let options = Options { disk: Some((FileSystem::Ext4, 512)), ..Options::new(3) };
    let mut cluster = Cluster::start(&scratch, options);
    let mut trial = Trial::start(name, &cluster, plan(30));
    for pick_node in [Cluster::follower, Cluster::master] {
        let node = pick_node(&cluster);
        trial.fault(&mut cluster, |cluster| {
            cluster.disk(node).inject_error();
            let status = cluster.server(node).wait(EXIT_TIMEOUT);
            let stderr = cluster.server(node).stderr_text();
            let status = status.unwrap_or_else(|| panic!("it lives on: {stderr}"));
            assert_eq!(status.code(), Some(DAMAGED), "{stderr}");
            cluster.kill(node);
            cluster.must_serve();
            cluster.disk(node).restore_power();
            cluster.start_node(node);
        });
    }
    trial.end(&cluster);
}

#[test]
fn slow_follower_disk_delays_no_client_and_slow_master_hands_over() {
    let name = "F-30 slow disk";
    if is_left_to_long_form(name) {
        return;
    }
    let missing_tool = missing(Root::Needed, FileSystem::Ext4.tools()).or_else(DiskGroup::missing);
    if let Some(reason) = missing_tool {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-slow-disk");
    let options = Options { disk: Some((FileSystem::Ext4, 512)), ..Options::new(3) };
    let mut cluster = Cluster::start(&scratch, options);
    let groups: Vec<_> = cluster
        .nodes()
        .map(|node| {
            let group = DiskGroup::new(&format!("n{node}"), &cluster.disk(node).device());
            group.add_process(cluster.server(node).pid());
            group
        })
        .collect();
    let mut trial = Trial::start(name, &cluster, plan(31));
    let started = trial.recorder.now();
    std::thread::sleep(4 * SECOND);
    let baseline = (started, trial.recorder.now());
    let (follower, master) = (cluster.follower(), cluster.master());
    let (mut counts, mut slow_master_time) = (Vec::new(), Duration::ZERO);
    for node in [follower, master] {
        let disk_group = &groups[node - 1];
        trial.fault(&mut cluster, |cluster| {
            disk_group.limit_writes_per_second(SLOW_IOPS);
            let before = syncs(cluster, node);
            std::thread::sleep(8 * SECOND);
            counts.push((syncs(cluster, node) - before) / 8);
            let log = cluster.status(node).expect("it answers")["log"].clone();
            assert_eq!(log["slow"], true, "it says nothing of its disk: {log}");
            if node == follower {
                return disk_group.limit_writes_per_second(0);
            }
            wait_until("a master with a faster disk", || match cluster.master() {
                current if current == master => Err("the slow one keeps its place".into()),
                _ => Ok(()),
            });
        });
        slow_master_time = trial.faults.last().map_or(slow_master_time, |(from, to)| *to - *from);
    }
    // It goes on as a slow follower.
    trial.fault(&mut cluster, |_| {
        std::thread::sleep(4 * SECOND);
        groups[master - 1].limit_writes_per_second(0);
    });
    trial.figures.add("syncs_a_second_of_the_slow", format!("{counts:?}"));
    trial.figures.add("slow_master_for_ms", slow_master_time.as_millis());
    let spans = [baseline, trial.faults[0], trial.faults[1], trial.faults[2]];
    let history = trial.end(&cluster);
    let p99 = |(from, to): (Duration, Duration)| {
        let others = cluster.nodes().filter(|node| *node != follower);
        let times = others.flat_map(|node| history.durations(from, to, node - 1)).collect();
        percentile(times, 99)
    };
    let [before, slow_follower, slow_master, after] = spans.map(p99);
    print_line(&format!(
        "F-30 p99 of the others' clients before={before:?} slow follower={slow_follower:?} \
         slow master={slow_master:?}, handed over={after:?}"
    ));
    check_bound("F-30 p99 with a slow follower, times", ratio(slow_follower, before), 2.0);
    // The control: the disks were slow in fact.
    assert!(counts.iter().all(|n| *n <= 2 * u64::from(SLOW_IOPS)), "{counts:?} syncs a second");
}

fn syncs(cluster: &Cluster, node: usize) -> u64 {
    let status = cluster.status(node).expect("it answers");
    status["log"]["syncs"].as_u64().expect("a number")
}

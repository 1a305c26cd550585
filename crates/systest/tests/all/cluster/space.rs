//! F-29 and F-30: disks without inodes, disks that turn read-only, and disks that are slow.

use super::{SECOND, Trial, percentile, plan, waits_for_the_long_tests};
use std::path::PathBuf;
use std::time::Duration;
use systest::client::{Resp, RespReply};
use systest::report::{bound, ratio, say, skipped};
use systest::rigs::{
    Cluster, DiskGroup, Options, Root, Scratch, System, experiment, missing, wait,
};

const END_MAX: Duration = Duration::from_secs(30);
const DAMAGED: i32 = 7;
/// Writes a second of a slow disk.
const SLOW: u32 = 20;

#[test]
fn disks_without_inodes_lose_nothing_and_recover_by_themselves() {
    let name = "F-29 inodes full in a cluster";
    if waits_for_the_long_tests(name) {
        return;
    }
    let system = System::Memory { files: 200 };
    if let Some(why) = missing(Root::Needed, system.tools()) {
        return skipped(name, &why);
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-inodes");
    let mut options = Options { disk: Some((system, 512)), ..Options::of(3) };
    options
        .words
        .extend(["--log-bytes-max", "128MiB", "--segment-bytes", "1MiB"].map(String::from));
    let mut cluster = Cluster::start(&scratch, options);
    let mut trial = Trial::begin(name, &cluster, plan(29));
    let (mut answers, mut ended) = (Vec::new(), 0);
    for who in ["follower", "master", "all"] {
        let nodes = match who {
            "follower" => vec![cluster.follower()],
            "master" => vec![cluster.master()],
            _ => cluster.nodes().collect(),
        };
        trial.fault(&mut cluster, |cluster| {
            let taken: Vec<_> = nodes.iter().flat_map(|node| take_all(cluster, *node)).collect();
            assert!(taken.len() > nodes.len(), "there were no inodes to take");
            fatten(cluster);
            let answer = answer_of_a_write(cluster);
            let fits = if who == "all" { "NOSPACE" } else { "taken" };
            assert_eq!(answer, fits, "no inodes at {who}");
            answers.push(format!("{who}:{answer}"));
            taken.iter().for_each(|path| {
                std::fs::remove_file(path).expect("the files are ours");
            });
            ended += cluster.begin_ended();
        });
    }
    trial.figures.also("writes_meanwhile", answers.join(","));
    trial.figures.also("nodes_that_ended", ended);
    trial.end(&cluster);
}

/// Creates empty files until no more can be created.
fn take_all(cluster: &mut Cluster, node: usize) -> Vec<PathBuf> {
    let point = cluster.disk(node).point().to_path_buf();
    let paths = (0..).map(|number| point.join(format!("inode{number}")));
    paths.take_while(|path| std::fs::write(path, b"").is_ok()).collect()
}

/// Writes for a few seconds, so much that each log needs new segments.
fn fatten(cluster: &Cluster) {
    let mut redis = Resp::with_patience(cluster.client(cluster.master()), SECOND);
    let until = std::time::Instant::now() + 6 * SECOND;
    for number in 0.. {
        if std::time::Instant::now() > until {
            return;
        }
        let key = format!("fat{}", number % 50);
        let answer = redis.as_mut().ok();
        let answer =
            answer.and_then(|redis| redis.call(&[b"SET", key.as_bytes(), &[b'f'; 40_000]]).ok());
        if !matches!(answer, Some(RespReply::Simple(_))) {
            std::thread::sleep(SECOND / 10);
            redis = Resp::with_patience(cluster.client(number % cluster.size() + 1), SECOND);
        }
    }
}

/// Returns the answer to a write now: success, or the error code.
fn answer_of_a_write(cluster: &Cluster) -> String {
    for node in cluster.nodes() {
        let redis = Resp::with_patience(cluster.client(node), 2 * SECOND);
        match redis.and_then(|mut redis| redis.say("SET inodes taken")) {
            Ok(RespReply::Error(text)) => return text.split(' ').next().unwrap_or_default().into(),
            Ok(_) => return "taken".into(),
            Err(_) => {}
        }
    }
    "silence".into()
}

#[test]
fn a_node_whose_disk_turns_read_only_stops_and_the_others_go_on() {
    let name = "F-29 read-only disk in a cluster";
    if waits_for_the_long_tests(name) {
        return;
    }
    if let Some(why) = missing(Root::Needed, System::Ext4.tools()) {
        return skipped(name, &why);
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-read-only");
    let options = Options { disk: Some((System::Ext4, 512)), ..Options::of(3) };
    let mut cluster = Cluster::start(&scratch, options);
    let mut trial = Trial::begin(name, &cluster, plan(30));
    for who in [Cluster::follower, Cluster::master] {
        let node = who(&cluster);
        trial.fault(&mut cluster, |cluster| {
            cluster.disk(node).find_an_error();
            let status = cluster.server(node).wait(END_MAX);
            let said = cluster.server(node).said();
            let status = status.unwrap_or_else(|| panic!("it lives on: {said}"));
            assert_eq!(status.code(), Some(DAMAGED), "{said}");
            cluster.kill(node);
            cluster.must_serve();
            cluster.disk(node).power_again();
            cluster.begin(node);
        });
    }
    trial.end(&cluster);
}

#[test]
fn a_slow_disk_of_a_follower_holds_nobody_up_and_of_a_master_not_for_long() {
    let name = "F-30 slow disk";
    if waits_for_the_long_tests(name) {
        return;
    }
    let without = missing(Root::Needed, System::Ext4.tools()).or_else(DiskGroup::missing);
    if let Some(why) = without {
        return skipped(name, &why);
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-slow-disk");
    let options = Options { disk: Some((System::Ext4, 512)), ..Options::of(3) };
    let mut cluster = Cluster::start(&scratch, options);
    let groups: Vec<_> = cluster
        .nodes()
        .map(|node| {
            let group = DiskGroup::new(&format!("n{node}"), &cluster.disk(node).device());
            group.hold(cluster.server(node).pid());
            group
        })
        .collect();
    let mut trial = Trial::begin(name, &cluster, plan(31));
    let begun = trial.recorder.now();
    std::thread::sleep(4 * SECOND);
    let good = (begun, trial.recorder.now());
    let (follower, master) = (cluster.follower(), cluster.master());
    let (mut counts, mut took) = (Vec::new(), Duration::ZERO);
    for node in [follower, master] {
        let slow = &groups[node - 1];
        trial.fault(&mut cluster, |cluster| {
            slow.writes_a_second(SLOW);
            let before = syncs(cluster, node);
            std::thread::sleep(8 * SECOND);
            counts.push((syncs(cluster, node) - before) / 8);
            let log = cluster.status(node).expect("it answers")["log"].clone();
            assert_eq!(log["slow"], true, "it says nothing of its disk: {log}");
            if node == follower {
                return slow.writes_a_second(0);
            }
            wait("a quicker master", || match cluster.master() {
                still if still == master => Err("the slow one keeps its place".into()),
                _ => Ok(()),
            });
        });
        took = trial.faults.last().map_or(took, |(from, to)| *to - *from);
    }
    // It goes on as a slow follower.
    trial.fault(&mut cluster, |_| {
        std::thread::sleep(4 * SECOND);
        groups[master - 1].writes_a_second(0);
    });
    trial.figures.also("syncs_a_second_of_the_slow", format!("{counts:?}"));
    trial.figures.also("slow_master_for_ms", took.as_millis());
    let spans = [good, trial.faults[0], trial.faults[1], trial.faults[2]];
    let history = trial.end(&cluster);
    let p99 = |(from, to): (Duration, Duration)| {
        let others = cluster.nodes().filter(|node| *node != follower);
        let times = others.flat_map(|node| history.times(from, to, node - 1)).collect();
        percentile(times, 99)
    };
    let [before, slow_follower, slow_master, after] = spans.map(p99);
    say(&format!(
        "F-30 p99 of the others' clients before={before:?} slow follower={slow_follower:?} \
         slow master={slow_master:?}, handed over={after:?}"
    ));
    bound("F-30 p99 with a slow follower, times", ratio(slow_follower, before), 2.0);
    // The control: the disks were slow in fact.
    assert!(counts.iter().all(|count| *count <= 2 * u64::from(SLOW)), "{counts:?} syncs a second");
}

fn syncs(cluster: &Cluster, node: usize) -> u64 {
    let status = cluster.status(node).expect("it answers");
    status["log"]["syncs"].as_u64().expect("a number")
}

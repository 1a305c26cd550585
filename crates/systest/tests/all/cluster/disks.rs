//! F-20, F-25 and F-28: disks that lose power, fail or fill up at nodes of a cluster.

use super::{SECOND, Trial, plan, writers};
use std::time::{Duration, Instant};
use systest::client::{Resp, RespReply};
use systest::cluster::{Cluster, Options, wait_until};
use systest::environment::{Root, Scratch, experiment, missing};
use systest::fault_injection::FileSystem;
use systest::report::{Figures, is_long_form, short_or_long, skipped};
use systest::workload::Load;
use systest::workload::ledger::Ledger;

/// Time limit for a node whose disk fails to end by itself.
const EXIT_TIMEOUT: Duration = Duration::from_secs(20);

fn options(system: FileSystem, mib: usize) -> Options {
    Options { disk: Some((system, mib)), ..Options::new(3) }
}

/// Cuts the power of these nodes' disks at one moment during writes, and restores it.
///
/// A machine without power sends nothing more. A process whose file system is shut down does: a
/// sync in progress may still return 0 (see `Workload::distrust_acknowledgements`), and if two of
/// three nodes trust such a sync, they acknowledge for a majority a write that none of them has. So
/// the processes are stopped first.
fn cut_power_under_load(cluster: &mut Cluster, nodes: &[usize], round: u64) -> Ledger {
    let load = Load::with_failover(&cluster.client_addresses(), &writers(200 + round), SECOND);
    std::thread::sleep(2 * SECOND);
    nodes.iter().for_each(|node| cluster.pause(*node));
    nodes.iter().for_each(|node| cluster.disk(*node).cut_power());
    nodes.iter().for_each(|node| cluster.kill(*node));
    std::thread::sleep(SECOND);
    let ledger = load.stop();
    for node in nodes {
        cluster.disk(*node).restore_power();
    }
    cluster.start_all();
    cluster.must_serve();
    ledger
}

#[test]
fn power_loss_of_some_or_all_nodes_loses_nothing_acknowledged() {
    power_loss("F-20 power loss of a cluster", FileSystem::Ext4);
}

#[test]
fn power_loss_on_xfs_loses_nothing_acknowledged() {
    let name = "F-20 power loss of a cluster on XFS";
    if !is_long_form() {
        return skipped(name, "takes its time: CREDENZA_TEST_LONG=1");
    }
    power_loss(name, FileSystem::Xfs);
}

fn power_loss(name: &str, system: FileSystem) {
    let tools = [system.tools(), &["eatmydata"]].concat();
    if let Some(reason) = missing(Root::Needed, &tools) {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new(&format!("cluster-power-{}", system.mount_type()));
    let mut figures = Figures::start(name);
    let mut cluster = Cluster::start(&scratch, options(system, 512));
    let mut ledger_of_all = Ledger::default();
    for round in 0..short_or_long(3, 20) as u64 {
        let follower = cluster.follower();
        let nodes = match round % 3 {
            0 => vec![follower],
            1 => vec![follower, cluster.master()],
            _ => cluster.nodes().collect(),
        };
        let ledger = cut_power_under_load(&mut cluster, &nodes, round);
        figures.faults += nodes.len() as u64;
        assert!(ledger.ok > 20, "round {round}: almost nothing was written: {ledger:?}");
        (figures.ok, figures.fail) = (figures.ok + ledger.ok, figures.fail + ledger.fail);
        figures.info += ledger.info;
        ledger_of_all.join(ledger);
        for node in cluster.nodes() {
            let verdict =
                ledger_of_all.judge(cluster.client_address(node)).expect("it is readable");
            figures.lost += verdict.lost.len() as u64;
            if !verdict.lost.is_empty() || !verdict.unexpected.is_empty() {
                figures.print();
            }
            verdict.must_be_clean();
        }
        cluster.must_have_equal_rows();
    }
    drop(cluster);
    figures.add("control_lost", lose_writes_without_sync(&scratch, system));
    figures.print();
}

/// Positive control with syncs that return 0 and do nothing: a write must be lost, or the data must
/// not open. Returns the number of losses.
fn lose_writes_without_sync(scratch: &Scratch, system: FileSystem) -> usize {
    let wrapper = vec!["eatmydata".into()];
    let mut cluster = Cluster::start(scratch, Options { wrapper, ..options(system, 512) });
    let load = Load::with_failover(&cluster.client_addresses(), &writers(300), SECOND);
    std::thread::sleep(2 * SECOND);
    load.distrust_acknowledgements();
    let nodes: Vec<_> = cluster.nodes().collect();
    nodes.iter().for_each(|node| cluster.disk(*node).cut_power());
    std::thread::sleep(SECOND);
    let ledger = load.stop();
    for node in &nodes {
        cluster.kill(*node);
        cluster.disk(*node).restore_power();
        cluster.setup_mut(*node).wrapper.clear();
    }
    let all_started = nodes.iter().all(|node| cluster.try_start(*node).is_ok());
    let lost = match all_started.then(|| count_lost_writes(&cluster, &ledger)).flatten() {
        Some(lost) => lost,
        None => ledger.keys(),
    };
    assert!(lost > 0, "nothing was lost although no sync was done: the experiment proves nothing");
    lost
}

/// Returns the number of writes that the nodes have lost. `None`: they can't serve at all.
fn count_lost_writes(cluster: &Cluster, ledger: &Ledger) -> Option<usize> {
    let deadline = Instant::now() + 20 * SECOND;
    while Instant::now() < deadline {
        let mut redis = Resp::connect(cluster.client_address(1)).ok()?;
        if redis.call_line("GET probe").ok()?.error().is_none() {
            let verdict = ledger.judge(cluster.client_address(1)).ok()?;
            return Some(verdict.lost.len() + verdict.unexpected.len());
        }
        std::thread::sleep(SECOND);
    }
    None
}

#[test]
fn node_with_failed_log_sync_stops_and_peers_continue() {
    let name = "F-25 failed fdatasync in a cluster";
    if let Some(reason) = missing(Root::Needed, &["strace"]) {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-sync");
    let mut cluster = Cluster::start(&scratch, Options::new(3));
    let mut trial = Trial::start(name, &cluster, plan(25));
    trial.fail_next_sync(&mut cluster, ("fdatasync", EXIT_TIMEOUT), &scratch, |_| ());
    trial.end(&cluster);
}

#[test]
fn full_disks_in_cluster_lose_nothing_and_recover_with_free_space() {
    let name = "F-28 disks full in a cluster";
    if let Some(describe) = missing(Root::Needed, FileSystem::Ext4.tools()) {
        return skipped(name, &describe);
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-space");
    let mut options = options(FileSystem::Ext4, 128);
    options
        .args
        .extend(["--log-bytes-max", "128MiB", "--disk-reserve-bytes", "12MiB"].map(String::from));
    let mut cluster = Cluster::start(&scratch, options);
    let mut trial = Trial::start(name, &cluster, plan(28));
    let (mut outcomes, mut ended_nodes) = (Vec::new(), 0);
    for target in ["follower", "master", "all"] {
        // A follower's disk is filled to the last block, for it can't refuse its master's writes; a
        // master's to below its reserve.
        let (nodes, leave) = match target {
            "follower" => (vec![cluster.follower()], 0),
            "master" => (vec![cluster.master()], 4 << 20),
            _ => (cluster.nodes().collect(), 4 << 20),
        };
        trial.fault(&mut cluster, |cluster| {
            let fillers: Vec<_> =
                nodes.iter().map(|node| cluster.disk(*node).fill(leave)).collect();
            std::thread::sleep(4 * SECOND);
            let mut answer = String::new();
            wait_until("what a full disk leads to", || {
                answer = write_outcome(cluster);
                // If only the master's disk is full, a node with space leads in the end.
                let is_led_elsewhere = !nodes.contains(&cluster.master());
                let moved_to_other_node = answer == "taken" && is_led_elsewhere;
                let is_expected =
                    if target == "all" { answer == "NOSPACE" } else { moved_to_other_node };
                let describe = || format!("{target} full: {answer}, led by {}", cluster.master());
                if is_expected { Ok(()) } else { Err(describe()) }
            });
            outcomes.push(format!("{target}:{answer}"));
            must_answer_reads(cluster);
            fillers.iter().for_each(|filler| {
                std::fs::remove_file(filler).expect("the filler is ours");
            });
            ended_nodes += cluster.restart_ended();
        });
    }
    trial.figures.add("writes_meanwhile", outcomes.join(","));
    trial.figures.add("nodes_that_ended", ended_nodes);
    trial.end(&cluster);
}

/// Returns the master's answer to a write: success, or the error code of a refusal.
fn write_outcome(cluster: &Cluster) -> String {
    let mut redis = Resp::connect(cluster.client_address(cluster.master())).expect("it listens");
    match redis.call(&[b"SET", b"full", &[b'x'; 4096]]).expect("it answers") {
        RespReply::Error(text) => text.split(' ').next().unwrap_or_default().into(),
        _ => "taken".into(),
    }
}

fn must_answer_reads(cluster: &Cluster) {
    let mut redis = Resp::connect(cluster.client_address(cluster.master())).expect("it listens");
    let answer = redis.call_line("GET probe").expect("it answers");
    assert_eq!(answer.bytes(), Some(&b"served"[..]), "{answer:?}");
}

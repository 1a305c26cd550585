//! F-20, F-25 and F-28: disks that lose power, fail or fill up at nodes of a cluster.

use super::{SECOND, Trial, plan, writing};
use std::time::{Duration, Instant};
use systest::client::{Resp, RespReply};
use systest::report::{Figures, long, skipped, times};
use systest::rigs::{Cluster, Options, Root, Scratch, System, experiment, missing, wait};
use systest::workload::Load;
use systest::workload::ledger::Ledger;

/// Time limit for a node whose disk fails to end by itself.
const END_MAX: Duration = Duration::from_secs(20);

fn options(system: System, mib: usize) -> Options {
    Options { disk: Some((system, mib)), ..Options::of(3) }
}

/// Cuts the power of these nodes' disks at one moment during writes, and restores it.
///
/// A machine without power sends nothing more. A process whose file system is shut down does: a
/// sync in progress may still return 0 (see `Load::doubt`), and if two of three nodes trust such a
/// sync, they acknowledge for a majority a write that none of them has. So the processes are
/// stopped first.
fn cut(cluster: &mut Cluster, nodes: &[usize], round: u64) -> Ledger {
    let load = Load::roam(&cluster.clients(), &writing(200 + round), SECOND);
    std::thread::sleep(2 * SECOND);
    nodes.iter().for_each(|node| cluster.pause(*node));
    nodes.iter().for_each(|node| cluster.disk(*node).cut());
    nodes.iter().for_each(|node| cluster.kill(*node));
    std::thread::sleep(SECOND);
    let ledger = load.stop();
    for node in nodes {
        cluster.disk(*node).power_again();
    }
    cluster.begin_all();
    cluster.must_serve();
    ledger
}

#[test]
fn power_loss_of_some_and_of_all_nodes_loses_nothing_acknowledged() {
    power_loss("F-20 power loss of a cluster", System::Ext4);
}

#[test]
fn power_loss_on_xfs_loses_nothing_acknowledged() {
    let name = "F-20 power loss of a cluster on XFS";
    if !long() {
        return skipped(name, "takes its time: CREDENZA_TEST_LONG=1");
    }
    power_loss(name, System::Xfs);
}

fn power_loss(name: &str, system: System) {
    let tools = [system.tools(), &["eatmydata"]].concat();
    if let Some(why) = missing(Root::Needed, &tools) {
        return skipped(name, &why);
    }
    let _permit = experiment();
    let scratch = Scratch::new(&format!("cluster-power-{}", system.word()));
    let mut figures = Figures::begin(name);
    let mut cluster = Cluster::start(&scratch, options(system, 512));
    let mut told = Ledger::default();
    for round in 0..times(3, 20) as u64 {
        let follower = cluster.follower();
        let nodes = match round % 3 {
            0 => vec![follower],
            1 => vec![follower, cluster.master()],
            _ => cluster.nodes().collect(),
        };
        let ledger = cut(&mut cluster, &nodes, round);
        figures.faults += nodes.len() as u64;
        assert!(ledger.ok > 20, "round {round}: almost nothing was written: {ledger:?}");
        (figures.ok, figures.fail) = (figures.ok + ledger.ok, figures.fail + ledger.fail);
        figures.info += ledger.info;
        told.join(ledger);
        for node in cluster.nodes() {
            let verdict = told.judge(cluster.client(node)).expect("it is readable");
            figures.lost += verdict.lost.len() as u64;
            if !verdict.lost.is_empty() || !verdict.strange.is_empty() {
                figures.print();
            }
            verdict.must_be_clean();
        }
        cluster.must_be_level();
    }
    drop(cluster);
    figures.also("control_lost", control(&scratch, system));
    figures.print();
}

/// Positive control with syncs that return 0 and do nothing: a write must be lost, or the data must
/// not open. Returns the number of losses.
fn control(scratch: &Scratch, system: System) -> usize {
    let wrapper = vec!["eatmydata".into()];
    let mut cluster = Cluster::start(scratch, Options { wrapper, ..options(system, 512) });
    let load = Load::roam(&cluster.clients(), &writing(300), SECOND);
    std::thread::sleep(2 * SECOND);
    load.doubt();
    let nodes: Vec<_> = cluster.nodes().collect();
    nodes.iter().for_each(|node| cluster.disk(*node).cut());
    std::thread::sleep(SECOND);
    let ledger = load.stop();
    for node in &nodes {
        cluster.kill(*node);
        cluster.disk(*node).power_again();
        cluster.how(*node).wrapper.clear();
    }
    let began = nodes.iter().all(|node| cluster.try_to_begin(*node).is_ok());
    let lost = match began.then(|| read_some(&cluster, &ledger)).flatten() {
        Some(lost) => lost,
        None => ledger.keys(),
    };
    assert!(lost > 0, "nothing was lost although no sync was done: the experiment proves nothing");
    lost
}

/// Returns the number of writes that the nodes have lost. `None`: they can't serve at all.
fn read_some(cluster: &Cluster, ledger: &Ledger) -> Option<usize> {
    let until = Instant::now() + 20 * SECOND;
    while Instant::now() < until {
        let mut redis = Resp::connect(cluster.client(1)).ok()?;
        if redis.say("GET probe").ok()?.error().is_none() {
            let verdict = ledger.judge(cluster.client(1)).ok()?;
            return Some(verdict.lost.len() + verdict.strange.len());
        }
        std::thread::sleep(SECOND);
    }
    None
}

#[test]
fn a_node_whose_log_can_not_be_synced_stops_and_the_others_go_on() {
    let name = "F-25 failed fdatasync in a cluster";
    if let Some(why) = missing(Root::Needed, &["strace"]) {
        return skipped(name, &why);
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-sync");
    let mut cluster = Cluster::start(&scratch, Options::of(3));
    let mut trial = Trial::begin(name, &cluster, plan(25));
    trial.syncs_fail(&mut cluster, ("fdatasync", END_MAX), &scratch, |_| ());
    trial.end(&cluster);
}

#[test]
fn full_disks_refuse_writes_lose_nothing_and_recover_by_themselves() {
    let name = "F-28 disks full in a cluster";
    if let Some(why) = missing(Root::Needed, System::Ext4.tools()) {
        return skipped(name, &why);
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-space");
    let mut options = options(System::Ext4, 128);
    options
        .words
        .extend(["--log-bytes-max", "128MiB", "--disk-reserve-bytes", "12MiB"].map(String::from));
    let mut cluster = Cluster::start(&scratch, options);
    let mut trial = Trial::begin(name, &cluster, plan(28));
    let (mut refused, mut ended) = (Vec::new(), 0);
    for who in ["follower", "master", "all"] {
        // A follower's disk is filled to the last block, for it can't refuse its master's writes; a
        // master's to below its reserve.
        let (nodes, leave) = match who {
            "follower" => (vec![cluster.follower()], 0),
            "master" => (vec![cluster.master()], 4 << 20),
            _ => (cluster.nodes().collect(), 4 << 20),
        };
        trial.fault(&mut cluster, |cluster| {
            let fillers: Vec<_> =
                nodes.iter().map(|node| cluster.disk(*node).fill(leave)).collect();
            std::thread::sleep(4 * SECOND);
            let mut answer = String::new();
            wait("what a full disk leads to", || {
                answer = answer_of_a_write(cluster);
                // If only the master's disk is full, a node with space leads in the end.
                let led = !nodes.contains(&cluster.master());
                let elsewhere = answer == "taken" && led;
                let fits = if who == "all" { answer == "NOSPACE" } else { elsewhere };
                let why = || format!("{who} full: {answer}, led by {}", cluster.master());
                if fits { Ok(()) } else { Err(why()) }
            });
            refused.push(format!("{who}:{answer}"));
            reads_go_on(cluster);
            fillers.iter().for_each(|filler| {
                std::fs::remove_file(filler).expect("the filler is ours");
            });
            ended += cluster.begin_ended();
        });
    }
    trial.figures.also("writes_meanwhile", refused.join(","));
    trial.figures.also("nodes_that_ended", ended);
    trial.end(&cluster);
}

/// Returns the master's answer to a write: success, or the error code of a refusal.
fn answer_of_a_write(cluster: &Cluster) -> String {
    let mut redis = Resp::connect(cluster.client(cluster.master())).expect("it listens");
    match redis.call(&[b"SET", b"full", &[b'x'; 4096]]).expect("it answers") {
        RespReply::Error(text) => text.split(' ').next().unwrap_or_default().into(),
        _ => "taken".into(),
    }
}

fn reads_go_on(cluster: &Cluster) {
    let mut redis = Resp::connect(cluster.client(cluster.master())).expect("it listens");
    let answer = redis.say("GET probe").expect("it answers");
    assert_eq!(answer.bytes(), Some(&b"served"[..]), "{answer:?}");
}

//! F-24: the remains of an unfinished write are cut off; a hole in finished writes never is. If the
//! last write was acknowledged and then damaged, which looks the same, the other nodes decide.

use super::damage::{damage_value, read_marked_row, run_tool, run_verify, write_marked_row};
use super::{DAMAGED, SECOND, Trial, is_left_to_long_form, plan};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Instant;
use systest::client::{Resp, RespReply};
use systest::cluster::{Cluster, Options, wait_until};
use systest::environment::{Scratch, experiment, path_str};
use systest::fault_injection::file_damage::{Damage, damage_file, list_files, log_tail};
use systest::report::Figures;
use systest::server::{Server, StartRefusal};

/// Damage to the log of a node that was killed.
#[derive(Clone, Copy, Debug)]
enum LogDamage {
    /// Bytes after its end: garbage if 1 or even, otherwise the beginning of a valid frame.
    Torn(usize),
    /// A bit changes, at this many percent of the written part.
    Hole(usize),
}

/// Alternately at a follower and at the master.
const LOG_DAMAGES: [LogDamage; 10] = [
    LogDamage::Torn(1),
    LogDamage::Torn(7),
    LogDamage::Hole(20),
    LogDamage::Hole(50),
    LogDamage::Torn(64),
    LogDamage::Torn(511),
    LogDamage::Hole(80),
    LogDamage::Hole(95),
    LogDamage::Torn(4_096),
    LogDamage::Torn(70_000),
];
/// Offset of a segment's first frame.
const FIRST_FRAME_OFFSET: usize = 4_096;
/// Bytes that must be written in the newest segment, and that must be free: one that has just begun
/// has no place for a hole and no valid frame to tear, and after a full one nothing is read.
const SEGMENT_MARGIN_BYTES: usize = 128 << 10;

/// Number of each of the three outcomes.
#[derive(Clone, Copy, Debug, Default)]
struct OutcomeCounts {
    truncated: usize,
    refused: usize,
    repaired: usize,
}

#[test]
fn torn_log_tails_are_truncated_and_holes_refused_or_repaired() {
    let name = "F-24 torn tails and holes in a cluster";
    if is_left_to_long_form(name) {
        return;
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-torn");
    let mut cluster = Cluster::start(&scratch, Options::new(3));
    let mut trial = Trial::start(name, &cluster, plan(24));
    let mut outcomes = OutcomeCounts::default();
    for (turn, damage) in LOG_DAMAGES.into_iter().enumerate() {
        let victim = if turn % 2 == 0 { cluster.follower() } else { cluster.master() };
        trial.fault(&mut cluster, |cluster| damage_log(cluster, victim, damage, &mut outcomes));
    }
    trial.figures.add("tails_cut", outcomes.truncated);
    trial.figures.add("holes_refused", outcomes.refused);
    trial.figures.add("holes_mended", outcomes.repaired);
    trial.end(&cluster);
    assert_eq!(
        (outcomes.truncated, outcomes.refused, outcomes.repaired),
        (6, 4, 4),
        "of {LOG_DAMAGES:?}"
    );
}

/// Runs one damage. While nothing may be fetched from the others, a torn tail does not keep the
/// node from starting, and a hole does; then the node fetches the missing entries from the others.
fn damage_log(
    cluster: &mut Cluster,
    victim: usize,
    damage: LogDamage,
    outcomes: &mut OutcomeCounts,
) {
    let (segment, end) = kill_within_segment(cluster, victim);
    let usual_setup = cluster.setup_mut(victim).clone();
    *cluster.setup_mut(victim) = usual_setup.clone().with_args(&["--auto-repair", "off"]);
    match damage {
        LogDamage::Torn(bytes) => {
            append_torn_write(&segment, end, bytes);
            let (code, output) = run_verify(&usual_setup.data);
            assert!(
                code == Some(0) && output.contains("torn tail of"),
                "{damage:?}: {code:?} {output}"
            );
            let start_result = cluster.try_start(victim);
            start_result
                .unwrap_or_else(|refusal| panic!("{damage:?} keeps it from starting: {refusal}"));
            *cluster.setup_mut(victim) = usual_setup;
            outcomes.truncated += 1;
        }
        LogDamage::Hole(percent) => {
            damage_file(
                &segment,
                FIRST_FRAME_OFFSET + (end - FIRST_FRAME_OFFSET) * percent / 100,
                Damage::Flip,
            );
            let start_result = cluster.try_start(victim);
            let refusal = start_result.expect_err("a hole is passed over");
            assert_eq!(refusal.code, Some(DAMAGED), "{damage:?}: {refusal}");
            let name = segment.file_name().expect("a file has a name").to_string_lossy();
            assert!(
                refusal.output.contains(&*name),
                "{damage:?}: the file is not named: {refusal}"
            );
            outcomes.refused += 1;
            *cluster.setup_mut(victim) = usual_setup;
            cluster.start_node(victim);
            outcomes.repaired += 1;
        }
    }
}

/// Kills a node while the end of its log is well within a segment; returns that segment, and the
/// end of its frames.
fn kill_within_segment(cluster: &mut Cluster, victim: usize) -> (PathBuf, usize) {
    loop {
        cluster.kill(victim);
        let log = cluster.setup_mut(victim).data.join("log");
        let (segment, end) = log_tail(&log);
        let is_segment = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "log");
        let newest = list_files(&log).into_iter().rfind(is_segment);
        let length = segment.metadata().expect("it is there").len() as usize;
        let has_margin = end >= FIRST_FRAME_OFFSET + SEGMENT_MARGIN_BYTES
            && end + SEGMENT_MARGIN_BYTES <= length;
        if newest.is_some_and(|newest| newest == segment) && has_margin {
            return (segment, end);
        }
        cluster.start_node(victim);
        std::thread::sleep(SECOND);
    }
}

/// Writes the remains of a write after the end of a segment.
fn append_torn_write(segment: &Path, end: usize, bytes: usize) {
    let mut contents = std::fs::read(segment).expect("ours to read");
    let from = end.next_multiple_of(8);
    let to = (from + bytes).min(contents.len());
    assert!(from < to, "the segment is full to its last byte");
    if bytes == 1 || bytes.is_multiple_of(2) {
        contents[from..to].fill(0xA5);
    } else {
        contents.copy_within(FIRST_FRAME_OFFSET..FIRST_FRAME_OFFSET + to - from, from);
    }
    std::fs::write(segment, contents).expect("ours to write");
}

/// Number of attempts to kill a node before its log states that its last write is durable.
const ATTEMPTS_MAX: usize = 20;

/// Two of three nodes acknowledge a value; at one of them it is the last entry on disk and gets
/// damaged. When the other one dies, too, the two that are left are a majority, and one of them
/// never had the value: they must wait, and name the node they wait for.
#[test]
fn acknowledged_value_damaged_at_one_of_two_nodes_is_never_lost() {
    let _permit = experiment();
    let scratch = Scratch::new("cluster-acknowledged");
    let mut figures = Figures::start("F-24 the last acknowledged write damaged at one of two");
    let mut cluster = Cluster::start(&scratch, Options::new(3));
    cluster.must_converge();
    let (master, victim, third, value) = damage_last_acknowledged_write(&mut cluster);
    figures.faults += 1;
    cluster.kill(master);
    let starts = [victim, third].map(|node| start_on_thread(&mut cluster, node));
    let started = Instant::now();
    let has_alarm = || {
        let alarms_of = |node| cluster.status(node).map(|status| status["alarms"].to_string());
        let alarms_of: Vec<_> = [victim, third].into_iter().filter_map(alarms_of).collect();
        match alarms_of.iter().any(|alarms| alarms.contains("trust-log")) {
            true => Ok(()),
            false => Err(format!("no word of a torn log: {alarms_of:?}")),
        }
    };
    wait_until("an alarm", has_alarm);
    figures.add("warned_ms", started.elapsed().as_millis());
    while started.elapsed() < 8 * SECOND {
        for node in [victim, third] {
            let role = cluster.group_status(node, 1).map(|said| said.role);
            assert_ne!(role.as_deref(), Some("master"), "it leads without node {master}'s log");
        }
        std::thread::sleep(SECOND / 10);
    }
    let started = Instant::now();
    cluster.start_node(master);
    for (node, start) in [victim, third].into_iter().zip(starts) {
        drop(start.join().expect("a start does not panic").expect("it starts"));
        cluster.start_node(node);
    }
    cluster.must_converge();
    figures.add("led_again_ms", started.elapsed().as_millis());
    for node in cluster.nodes() {
        assert_eq!(read_marked_row(&cluster, node, &value), "right", "at node {node}");
        assert_eq!(cluster.metric(node, "credenza_may_lack_total"), 0.0, "at node {node}");
    }
    figures.print();
    cluster.must_have_equal_rows();
}

/// Starts a node on a thread, because it is not ready before there is a master.
fn start_on_thread(cluster: &mut Cluster, node: usize) -> JoinHandle<Result<Server, StartRefusal>> {
    let setup = cluster.setup_mut(node).clone();
    std::thread::spawn(move || Server::start(&setup))
}

/// Lets an operator trust the log, when the node that has the value is lost for good.
#[test]
fn torn_log_trusted_by_operator_lets_two_nodes_accept_writes() {
    let _permit = experiment();
    let scratch = Scratch::new("cluster-trusted");
    let mut cluster = Cluster::start(&scratch, Options::new(3));
    cluster.must_converge();
    let (master, victim, third, _) = damage_last_acknowledged_write(&mut cluster);
    cluster.kill(master);
    let data = cluster.setup_mut(victim).data.clone();
    let trust_args = ["cluster", "trust-log", "--data", path_str(&data)];
    let (code, output) = run_tool(&trust_args);
    assert!(code != Some(0) && output.contains("--yes-lose-what-the-others-had"), "{output}");
    let confirmed_args = [&trust_args[..], &["--yes-lose-what-the-others-had"]].concat();
    let (code, output) = run_tool(&confirmed_args);
    assert!(code == Some(0) && output.contains("counts as whole"), "{output}");
    let (code, output) = run_tool(&confirmed_args);
    assert!(code == Some(0) && output.contains("nothing was changed"), "{output}");
    let starts = [victim, third].map(|node| start_on_thread(&mut cluster, node));
    let servers = starts.map(|start| start.join().expect("no panic").expect("it starts"));
    for server in &servers {
        let write = || Resp::connect(server.address)?.call_line("SET k v");
        wait_until("a write", || match write() {
            Ok(RespReply::Simple(_)) => Ok(()),
            other => Err(format!("{other:?}")),
        });
    }
}

/// Creates the situation; returns the master, the victim and the third node, which are down, and
/// the value.
fn damage_last_acknowledged_write(cluster: &mut Cluster) -> (usize, usize, usize, String) {
    for turn in 0..ATTEMPTS_MAX {
        let master = cluster.master();
        let others: Vec<_> = cluster.nodes().filter(|node| *node != master).collect();
        let (victim, third) = (others[0], others[1]);
        let value = format!("marked-{turn}-{}", "x".repeat(2_000));
        cluster.kill(third);
        write_marked_row(cluster, master, &value);
        cluster.kill(victim);
        let (file, bytes) = damage_value(cluster, victim, &value);
        let (code, output) = run_verify(&cluster.setup_mut(victim).data.clone());
        if code == Some(0) && output.contains("torn tail of") {
            return (master, victim, third, value);
        }
        // The log states already that this value is durable: try again.
        std::fs::write(file, bytes).expect("ours to write");
        cluster.start_all();
        cluster.must_converge();
    }
    panic!("each of {ATTEMPTS_MAX} times the log had stated before that all of it is durable");
}

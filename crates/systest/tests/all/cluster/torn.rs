//! F-24: the remains of an unfinished write are cut off; a hole in finished writes never is. If the
//! last write was acknowledged and then damaged, which looks the same, the other nodes decide.

use super::damage::{ask, checked, mark, spoil_value, told};
use super::{DAMAGED, SECOND, Trial, plan, waits_for_the_long_tests};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Instant;
use systest::client::{Resp, RespReply};
use systest::report::Figures;
use systest::rigs::rot::{Rot, files, spoil, tail};
use systest::rigs::{Cluster, Options, Scratch, experiment, text, wait};
use systest::server::{Server, StartRefusal};

/// Damage to the log of a node that was killed.
#[derive(Clone, Copy, Debug)]
enum Harm {
    /// Bytes after its end: garbage if 1 or even, otherwise the beginning of a valid frame.
    Torn(usize),
    /// A bit changes, at this many percent of the written part.
    Hole(usize),
}

/// Alternately at a follower and at the master.
const HARMS: [Harm; 10] = [
    Harm::Torn(1),
    Harm::Torn(7),
    Harm::Hole(20),
    Harm::Hole(50),
    Harm::Torn(64),
    Harm::Torn(511),
    Harm::Hole(80),
    Harm::Hole(95),
    Harm::Torn(4_096),
    Harm::Torn(70_000),
];
/// Offset of a segment's first frame.
const FRAMES: usize = 4_096;
/// Bytes that must be written in the newest segment, and that must be free: one that has just begun
/// has no place for a hole and no valid frame to tear, and after a full one nothing is read.
const ROOM: usize = 128 << 10;

/// Number of times that each of the three outcomes came.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    cut: usize,
    refused: usize,
    mended: usize,
}

#[test]
fn torn_tails_in_a_cluster_are_cut_and_holes_never_are() {
    let name = "F-24 torn tails and holes in a cluster";
    if waits_for_the_long_tests(name) {
        return;
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-torn");
    let mut cluster = Cluster::start(&scratch, Options::of(3));
    let mut trial = Trial::begin(name, &cluster, plan(24));
    let mut ends = Ends::default();
    for (turn, harm) in HARMS.into_iter().enumerate() {
        let victim = if turn % 2 == 0 { cluster.follower() } else { cluster.master() };
        trial.fault(&mut cluster, |cluster| befalls(cluster, victim, harm, &mut ends));
    }
    trial.figures.also("tails_cut", ends.cut);
    trial.figures.also("holes_refused", ends.refused);
    trial.figures.also("holes_mended", ends.mended);
    trial.end(&cluster);
    assert_eq!((ends.cut, ends.refused, ends.mended), (6, 4, 4), "of {HARMS:?}");
}

/// Runs one damage. While nothing may be fetched from the others, a torn tail does not keep the
/// node from starting, and a hole does; then the node fetches the missing entries from the others.
fn befalls(cluster: &mut Cluster, victim: usize, harm: Harm, ends: &mut Ends) {
    let (segment, end) = killed_within_a_segment(cluster, victim);
    let as_ever = cluster.how(victim).clone();
    *cluster.how(victim) = as_ever.clone().with(&["--auto-repair", "off"]);
    match harm {
        Harm::Torn(bytes) => {
            tear(&segment, end, bytes);
            let (code, said) = checked(&as_ever.data);
            assert!(code == Some(0) && said.contains("torn tail of"), "{harm:?}: {code:?} {said}");
            let begun = cluster.try_to_begin(victim);
            begun.unwrap_or_else(|refusal| panic!("{harm:?} keeps it from starting: {refusal}"));
            *cluster.how(victim) = as_ever;
            ends.cut += 1;
        }
        Harm::Hole(percent) => {
            spoil(&segment, FRAMES + (end - FRAMES) * percent / 100, Rot::Flip);
            let begun = cluster.try_to_begin(victim);
            let refusal = begun.expect_err("a hole is passed over");
            assert_eq!(refusal.code, Some(DAMAGED), "{harm:?}: {refusal}");
            let name = segment.file_name().expect("a file has a name").to_string_lossy();
            assert!(refusal.words.contains(&*name), "{harm:?}: the file is not named: {refusal}");
            ends.refused += 1;
            *cluster.how(victim) = as_ever;
            cluster.begin(victim);
            ends.mended += 1;
        }
    }
}

/// Kills a node while the end of its log is well within a segment; returns that segment, and the
/// end of its frames.
fn killed_within_a_segment(cluster: &mut Cluster, victim: usize) -> (PathBuf, usize) {
    loop {
        cluster.kill(victim);
        let log = cluster.how(victim).data.join("log");
        let (segment, end) = tail(&log);
        let named = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "log");
        let newest = files(&log).into_iter().rfind(named);
        let length = segment.metadata().expect("it is there").len() as usize;
        let has_room = end >= FRAMES + ROOM && end + ROOM <= length;
        if newest.is_some_and(|newest| newest == segment) && has_room {
            return (segment, end);
        }
        cluster.begin(victim);
        std::thread::sleep(SECOND);
    }
}

/// Writes the remains of a write after the end of a segment.
fn tear(segment: &Path, end: usize, bytes: usize) {
    let mut torn = std::fs::read(segment).expect("ours to read");
    let from = end.next_multiple_of(8);
    let to = (from + bytes).min(torn.len());
    assert!(from < to, "the segment is full to its last byte");
    if bytes == 1 || bytes.is_multiple_of(2) {
        torn[from..to].fill(0xA5);
    } else {
        torn.copy_within(FRAMES..FRAMES + to - from, from);
    }
    std::fs::write(segment, torn).expect("ours to write");
}

/// Number of attempts to kill a node before its log states that its last write is durable.
const TRIES: usize = 20;

/// Two of three nodes acknowledge a value; at one of them it is the last entry on disk and gets
/// damaged. When the other one dies, too, the two that are left are a majority, and one of them
/// never had the value: they must wait, and name the node they wait for.
#[test]
fn an_acknowledged_value_damaged_at_one_of_two_is_never_lost() {
    let _permit = experiment();
    let scratch = Scratch::new("cluster-acknowledged");
    let mut figures = Figures::begin("F-24 the last acknowledged write damaged at one of two");
    let mut cluster = Cluster::start(&scratch, Options::of(3));
    cluster.must_settle();
    let (master, victim, third, value) = damaged_at_its_end(&mut cluster);
    figures.faults += 1;
    cluster.kill(master);
    let starts = [victim, third].map(|node| started(&mut cluster, node));
    let begun = Instant::now();
    let warned = || {
        let told = |node| cluster.status(node).map(|status| status["warnings"].to_string());
        let told: Vec<_> = [victim, third].into_iter().filter_map(told).collect();
        match told.iter().any(|warnings| warnings.contains("trust-log")) {
            true => Ok(()),
            false => Err(format!("no word of a torn log: {told:?}")),
        }
    };
    wait("a warning", warned);
    figures.also("warned_ms", begun.elapsed().as_millis());
    while begun.elapsed() < 8 * SECOND {
        for node in [victim, third] {
            let role = cluster.said(node, 1).map(|said| said.role);
            assert_ne!(role.as_deref(), Some("master"), "it leads without node {master}'s log");
        }
        std::thread::sleep(SECOND / 10);
    }
    let begun = Instant::now();
    cluster.begin(master);
    for (node, start) in [victim, third].into_iter().zip(starts) {
        drop(start.join().expect("a start does not panic").expect("it starts"));
        cluster.begin(node);
    }
    cluster.must_settle();
    figures.also("led_again_ms", begun.elapsed().as_millis());
    for node in cluster.nodes() {
        assert_eq!(ask(&cluster, node, &value), "right", "at node {node}");
        assert_eq!(cluster.metric(node, "credenza_may_lack_total"), 0.0, "at node {node}");
    }
    figures.print();
    cluster.must_be_level();
}

/// Starts a node on a thread, because it is not ready before there is a master.
fn started(cluster: &mut Cluster, node: usize) -> JoinHandle<Result<Server, StartRefusal>> {
    let setup = cluster.how(node).clone();
    std::thread::spawn(move || Server::start(&setup))
}

/// Lets an operator trust the log, when the node that has the value is lost for good.
#[test]
fn a_torn_log_that_a_person_trusts_keeps_nobody_waiting() {
    let _permit = experiment();
    let scratch = Scratch::new("cluster-trusted");
    let mut cluster = Cluster::start(&scratch, Options::of(3));
    cluster.must_settle();
    let (master, victim, third, _) = damaged_at_its_end(&mut cluster);
    cluster.kill(master);
    let data = cluster.how(victim).data.clone();
    let asked = ["cluster", "trust-log", "--data", text(&data)];
    let (code, said) = told(&asked);
    assert!(code != Some(0) && said.contains("--yes-lose-what-the-others-had"), "{said}");
    let meant = [&asked[..], &["--yes-lose-what-the-others-had"]].concat();
    let (code, said) = told(&meant);
    assert!(code == Some(0) && said.contains("counts as whole"), "{said}");
    let (code, said) = told(&meant);
    assert!(code == Some(0) && said.contains("nothing was changed"), "{said}");
    let starts = [victim, third].map(|node| started(&mut cluster, node));
    let servers = starts.map(|start| start.join().expect("no panic").expect("it starts"));
    for server in &servers {
        let write = || Resp::connect(server.address)?.say("SET k v");
        wait("a write", || match write() {
            Ok(RespReply::Simple(_)) => Ok(()),
            other => Err(format!("{other:?}")),
        });
    }
}

/// Creates the situation; returns the master, the victim and the third node, which are down, and
/// the value.
fn damaged_at_its_end(cluster: &mut Cluster) -> (usize, usize, usize, String) {
    for turn in 0..TRIES {
        let master = cluster.master();
        let others: Vec<_> = cluster.nodes().filter(|node| *node != master).collect();
        let (victim, third) = (others[0], others[1]);
        let value = format!("marked-{turn}-{}", "x".repeat(2_000));
        cluster.kill(third);
        mark(cluster, master, &value);
        cluster.kill(victim);
        let (file, bytes) = spoil_value(cluster, victim, &value);
        let (code, said) = checked(&cluster.how(victim).data.clone());
        if code == Some(0) && said.contains("torn tail of") {
            return (master, victim, third, value);
        }
        // The log states already that this value is durable: try again.
        std::fs::write(file, bytes).expect("ours to write");
        cluster.begin_all();
        cluster.must_settle();
    }
    panic!("each of {TRIES} times the log had stated before that all of it is durable");
}

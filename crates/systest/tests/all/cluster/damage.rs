//! F-22 and F-23: bytes that change in files of one node, of two, of all, while it is down.
//!
//! A node that finds damage names the file; it serves nothing of it. It fetches from the others the
//! entries that its log lost, or rejoins as another node; if it can do neither, it stops.

use super::{DAMAGED, SECOND, writing};
use std::path::{Path, PathBuf};
use std::time::Instant;
use systest::client::{Resp, RespReply};
use systest::report::{Figures, long};
use systest::rigs::rot::{Rot, end, files, spoil, tail};
use systest::rigs::{Cluster, Options, Scratch, experiment, wait};
use systest::server::StartRefusal;
use systest::workload::Load;
use systest::workload::ledger::{ClientProtocol, Ledger, Writing};

/// A damage: a file of the data directory, the place in percent of its contents, and the kind.
#[derive(Clone, Copy, Debug)]
struct Harm {
    name: &'static str,
    file: fn(&Path) -> PathBuf,
    percent: usize,
    rot: Rot,
}

const fn harm(name: &'static str, file: fn(&Path) -> PathBuf, percent: usize, rot: Rot) -> Harm {
    Harm { name, file, percent, rot }
}

/// Damage of a bit in the last written value, which only the value's checksum reveals.
const VALUE: &str = "log_value";
/// All damages; the short form takes the first `SHORT`.
const HARMS: [Harm; 17] = [
    harm(VALUE, newest_segment, 0, Rot::Flip),
    harm("log_middle", newest_segment, 50, Rot::Flip),
    harm("table", a_table, 50, Rot::Flip),
    harm("table_list", table_list, 50, Rot::Flip),
    harm("members", |data| data.join("MEMBERS"), 50, Rot::Flip),
    harm("log_header", oldest_segment, 0, Rot::Flip),
    harm("log_head", newest_segment, 5, Rot::Flip),
    harm("log_zeros", newest_segment, 40, Rot::Zeros),
    harm("log_cut", newest_segment, 60, Rot::Cut),
    harm("log_oldest", oldest_segment, 50, Rot::Flip),
    harm("table_head", a_table, 2, Rot::Flip),
    harm("table_end", a_table, 98, Rot::Flip),
    harm("table_zeros", a_table, 40, Rot::Zeros),
    harm("table_cut", a_table, 60, Rot::Cut),
    harm("table_current", |data| data.join("store/current"), 50, Rot::Flip),
    harm("identity", |data| data.join("IDENTITY"), 50, Rot::Flip),
    harm("members_cut", |data| data.join("MEMBERS"), 60, Rot::Cut),
];
/// Number of damages in the short form (`make test`).
const SHORT: usize = 5;

fn segments(data: &Path) -> Vec<PathBuf> {
    let all = files(&data.join("log")).into_iter();
    all.filter(|path| path.extension().is_some_and(|word| word == "log")).collect()
}

fn newest_segment(data: &Path) -> PathBuf {
    tail(&data.join("log")).0
}

fn oldest_segment(data: &Path) -> PathBuf {
    segments(data).first().expect("there is always one").clone()
}

/// Returns the newest table, which no merge has replaced yet.
fn a_table(data: &Path) -> PathBuf {
    let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u64>().ok();
    let all = files(&data.join("store/tables")).into_iter();
    all.max_by_key(number).expect("something was flushed")
}

/// Returns the newest list of tables.
fn table_list(data: &Path) -> PathBuf {
    let all = files(&data.join("store")).into_iter();
    let name = |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let lists = all.filter(|path| name(path).is_some_and(|name| name.starts_with('v')));
    lists.max_by_key(|path| path.metadata().and_then(|about| about.modified()).ok()).expect("one")
}

/// Writes enough data that tables are flushed and segments are full.
fn fill(cluster: &Cluster, first: usize) -> Ledger {
    let one = |at: usize| Writing {
        client: first + at,
        keys: 400,
        depth: 8,
        bytes: 20_000,
        protocol: ClientProtocol::Resp,
    };
    let load = Load::roam(&cluster.clients(), &(0..4).map(one).collect::<Vec<_>>(), 5 * SECOND);
    std::thread::sleep(2 * SECOND);
    load.stop()
}

/// Outcome of one damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The node did not start, and named the file.
    Stopped,
    /// The node served, and answered reads of the damage with an error, or ended when it read it.
    Refused,
    /// The node repaired itself, and served the same rows as the others.
    Mended,
}

#[test]
fn damage_at_one_node_is_found_and_never_served() {
    let _permit = experiment();
    let scratch = Scratch::new("cluster-damage");
    let mut figures = Figures::begin("F-22 damage at one node of a cluster");
    let mut cluster = Cluster::start(&scratch, Options::of(3));
    let mut told = fill(&cluster, 700);
    let mut ends = Vec::new();
    let count = if long() { HARMS.len() } else { SHORT };
    for (round, harm) in HARMS.iter().take(count).enumerate() {
        // The others join node 1 when they start, so it is never damaged.
        let victim = if cluster.master() == 3 { 2 } else { 3 };
        told.join(fill_up(&mut cluster, victim, 710 + 10 * round));
        figures.faults += 1;
        let end = suffers(&mut cluster, victim, harm, &mut told, round);
        ends.push((harm.name, end));
        cluster.must_settle();
    }
    (figures.ok, figures.fail, figures.info) = (told.ok, told.fail, told.info);
    for node in cluster.nodes() {
        let verdict = told.judge(cluster.client(node)).expect("it is readable");
        figures.lost += verdict.lost.len() as u64;
        verdict.must_be_clean();
    }
    for end in [End::Stopped, End::Refused, End::Mended] {
        let names = ends.iter().filter(|(_, one)| *one == end).map(|(name, _)| *name);
        figures.also(&format!("{end:?}").to_lowercase(), names.collect::<Vec<_>>().join(","));
    }
    figures.print();
    cluster.must_be_level();
}

/// Writes data until the victim, which may be a fresh node, has tables and a log to damage.
pub(super) fn fill_up(cluster: &mut Cluster, victim: usize, first: usize) -> Ledger {
    let data = cluster.how(victim).data.clone();
    let mut told = Ledger::default();
    while files(&data.join("store/tables")).is_empty() || segments(&data).len() < 2 {
        told.join(fill(cluster, first));
    }
    told
}

/// Damages a file of a node that was killed, while the others go on, and restarts it.
fn suffers(
    cluster: &mut Cluster,
    victim: usize,
    harm: &Harm,
    told: &mut Ledger,
    round: usize,
) -> End {
    let data = cluster.how(victim).data.clone();
    let value = format!("marked-{round}-{}", "x".repeat(2_000));
    if harm.name == VALUE {
        mark(cluster, 1, &value);
        cluster.must_be_level();
        // The log repeats its decided indexes every second.
        std::thread::sleep(3 * SECOND);
    }
    // The unfinished write of a killed process is no damage.
    if harm.name.starts_with("table") {
        assert_eq!(cluster.stop(victim), Some(0));
    } else {
        cluster.kill(victim);
    }
    let file = if harm.name == VALUE {
        spoil_value(cluster, victim, &value).0
    } else {
        let file = (harm.file)(&data);
        spoil(&file, end(&file) * harm.percent / 100, harm.rot);
        file
    };
    if harm.name.starts_with("table") || harm.name.starts_with("log") {
        let (code, said) = checked(&data);
        assert_eq!(code, Some(DAMAGED), "{harm:?}: `credenza verify` finds nothing: {said}");
        let name = file.file_name().expect("a file has a name").to_string_lossy();
        assert!(said.contains(&*name), "{harm:?}: the file is not named: {said}");
    }
    // The others go on writing.
    let load = Load::roam(&cluster.clients(), &writing(70 + round as u64), SECOND);
    std::thread::sleep(SECOND / 2);
    let begun = cluster.try_to_begin(victim);
    std::thread::sleep(SECOND / 2);
    let ledger = load.stop();
    assert!(ledger.ok > 20, "{harm:?}: the others took almost nothing: {ledger:?}");
    told.join(ledger);
    let end = match begun {
        Err(refusal) => {
            must_name(&refusal, &file, harm);
            End::Stopped
        }
        Ok(()) => at_work(cluster, victim, &file, harm),
    };
    if end != End::Mended {
        cluster.replace(victim);
    }
    end
}

fn must_name(refusal: &StartRefusal, file: &Path, harm: &Harm) {
    assert_eq!(refusal.code, Some(DAMAGED), "{harm:?}: {refusal}");
    refusal.must_not_panic();
    let name = file.file_name().expect("a file has a name").to_string_lossy();
    assert!(refusal.words.contains(&*name), "{harm:?}: the file is not named: {refusal}");
}

/// Returns exit code and output of `credenza verify` on a directory.
pub(super) fn checked(data: &Path) -> (Option<i32>, String) {
    told(&["verify", systest::rigs::text(data)])
}

/// Returns exit code and output of the command line tool.
pub(super) fn told(words: &[&str]) -> (Option<i32>, String) {
    let output = systest::server::tool(words).output().expect("the tool runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

/// Checks a victim that started: its rows must equal those of the others, or be errors.
fn at_work(cluster: &mut Cluster, victim: usize, file: &Path, harm: &Harm) -> End {
    let wanted = cluster.said(cluster.master(), 1).expect("a master answers").applied;
    let mut rows = Err(String::new());
    wait("an end", || {
        if !cluster.server(victim).alive() {
            rows = Err("it has ended".into());
            return Ok(());
        }
        let applied = cluster.said(victim, 1).map_or(0, |said| said.applied);
        rows = cluster.try_store(victim);
        match &rows {
            // A member that has not applied the creation of the bucket yet answers that the bucket
            // does not exist, or that the replica is stale.
            Err(said) if ["no_such_bucket", "stale_replica"].iter().any(|it| said.contains(it)) => {
                Err(format!("{harm:?}: {said}"))
            }
            Ok(_) if applied < wanted => Err(format!("{harm:?}: {applied} of {wanted}")),
            _ => Ok(()),
        }
    });
    if let Ok(rows) = &rows {
        let expected = cluster.store(cluster.master());
        assert!(*rows == expected, "{harm:?}: damaged rows were served");
    }
    let data = cluster.how(victim).data.clone();
    if cluster.server(victim).alive() {
        cluster.stop(victim);
    } else {
        let said = cluster.server(victim).said();
        assert!(said.contains("damage"), "{harm:?}: it ended for another reason: {said}");
        cluster.kill(victim);
    }
    let (code, said) = checked(&data);
    match (rows, code) {
        // All rows are served and no file is damaged any more: the entries were fetched from the
        // others.
        (Ok(_), Some(0)) => {
            cluster.begin(victim);
            End::Mended
        }
        (_, Some(DAMAGED)) => {
            let name = file.file_name().expect("a file has a name").to_string_lossy();
            assert!(said.contains(&*name), "{harm:?}: the file is not named: {said}");
            End::Refused
        }
        (rows, code) => panic!("{harm:?}: found and forgotten: {rows:?}, {code:?}: {said}"),
    }
}

/// Damages one value at two of three nodes, of which each fetches it from the third, then at all
/// three, of which none starts; after one has its value back, the others repair themselves from it.
#[test]
fn one_value_damaged_at_two_nodes_is_mended_and_at_all_of_them_never_served() {
    let _permit = experiment();
    let scratch = Scratch::new("cluster-damage-many");
    let mut figures = Figures::begin("F-23 one value damaged at several nodes");
    let mut cluster = Cluster::start(&scratch, Options::of(3));
    let load = Load::roam(&cluster.clients(), &writing(750), SECOND);
    std::thread::sleep(SECOND);
    let mut told = load.stop();
    for victims in [&[2, 3][..], &[1, 2, 3]] {
        figures.faults += victims.len() as u64;
        let value = format!("marked-{}-{}", victims.len(), "x".repeat(2_000));
        mark(&cluster, 1, &value);
        let load = Load::roam(&cluster.clients(), &writing(751 + victims.len() as u64), SECOND);
        std::thread::sleep(SECOND);
        told.join(load.stop());
        cluster.must_be_level();
        let ids = ids(&cluster);
        // The log repeats its decided indexes every second.
        std::thread::sleep(3 * SECOND);
        cluster.nodes().for_each(|node| cluster.kill(node));
        let spoilt = |node: &usize| (*node, spoil_value(&mut cluster, *node, &value));
        let kept: Vec<Kept> = victims.iter().map(spoilt).collect();
        if victims.len() == 3 {
            must_all_refuse(&mut cluster, &kept);
            let (_, (file, bytes)) = &kept[0];
            std::fs::write(file, bytes).expect("ours to write");
        }
        let begun = Instant::now();
        cluster.begin_all();
        cluster.must_settle();
        figures.also(&format!("mended_{}_ms", victims.len()), begun.elapsed().as_millis());
        cluster.must_serve();
        for node in cluster.nodes() {
            assert_eq!(ask(&cluster, node, &value), "right", "at node {node}");
        }
        assert_eq!(self::ids(&cluster), ids, "nobody came back as another node");
    }
    (figures.ok, figures.fail, figures.info) = (told.ok, told.fail, told.info);
    for node in cluster.nodes() {
        told.judge(cluster.client(node)).expect("it is readable").must_be_clean();
    }
    figures.print();
    cluster.must_be_level();
    for node in cluster.nodes() {
        assert_eq!(cluster.stop(node), Some(0));
        let (code, said) = checked(&cluster.how(node).data.clone());
        assert_eq!(code, Some(0), "nothing damaged is left: {said}");
    }
}

/// A node, the file that was damaged there, and its contents before.
type Kept = (usize, (PathBuf, Vec<u8>));

/// Checks that nodes without automatic repair name the damaged file, and end.
fn must_all_refuse(cluster: &mut Cluster, kept: &[Kept]) {
    let off = ["--auto-repair", "off"].map(String::from);
    cluster.nodes().for_each(|node| cluster.how(node).words.extend(off.clone()));
    let refusals = cluster.try_to_begin_all(&[1, 2, 3]);
    assert_eq!(refusals.len(), 3, "somebody serves without the value");
    for (node, refusal) in &refusals {
        let (_, (file, _)) = kept.iter().find(|(victim, _)| victim == node).expect("damaged");
        assert_eq!(refusal.code, Some(DAMAGED), "{refusal}");
        let name = file.file_name().expect("a file has a name").to_string_lossy();
        assert!(refusal.words.contains(&*name), "{refusal}");
    }
    for node in cluster.nodes() {
        let words = &mut cluster.how(node).words;
        words.truncate(words.len() - off.len());
    }
}

/// Returns the ids of the nodes.
fn ids(cluster: &Cluster) -> Vec<serde_json::Value> {
    let id = |node| cluster.status(node).expect("it answers")["node"].clone();
    cluster.nodes().map(id).collect()
}

pub(super) fn mark(cluster: &Cluster, node: usize, value: &str) {
    let mut redis = Resp::connect(cluster.client(node)).expect("it listens");
    let answer = redis.say(&format!("SET marked {value}")).expect("it answers");
    assert_eq!(answer, RespReply::Simple("OK".into()));
}

/// Flips a bit of the value in a node's log; returns the file with its contents before.
pub(super) fn spoil_value(cluster: &mut Cluster, node: usize, value: &str) -> (PathBuf, Vec<u8>) {
    let data = cluster.how(node).data.clone();
    for file in segments(&data).into_iter().rev() {
        let bytes = std::fs::read(&file).expect("ours to read");
        let at = bytes.windows(64).position(|bytes| *bytes == value.as_bytes()[..64]);
        if let Some(at) = at {
            spoil(&file, at + 30, Rot::Flip);
            return (file, bytes);
        }
    }
    panic!("node {node} has no such value in its log");
}

/// Returns a serving node's answer for the marked row; it must not be wrong.
pub(super) fn ask(cluster: &Cluster, node: usize, value: &str) -> &'static str {
    let mut redis = Resp::with_patience(cluster.client(node), 5 * SECOND).expect("it listens");
    match redis.say("GET marked") {
        Ok(RespReply::Bulk(Some(found))) => {
            assert_eq!(String::from_utf8_lossy(&found), value, "damage was served");
            "right"
        }
        Ok(RespReply::Error(_)) | Err(_) => "refused",
        other => panic!("an acknowledged row is answered {other:?}"),
    }
}

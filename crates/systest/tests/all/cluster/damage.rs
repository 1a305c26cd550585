//! F-22 and F-23: bytes that change in files of one node, of two, of all, while it is down.
//!
//! A node that finds damage names the file; it serves nothing of it. It fetches from the others the
//! entries that its log lost, or rejoins as another node; if it can do neither, it stops.

use super::{DAMAGED, SECOND, writers};
use std::path::{Path, PathBuf};
use std::time::Instant;
use systest::client::{Resp, RespReply};
use systest::cluster::{Cluster, Options, wait_until};
use systest::environment::{Scratch, experiment};
use systest::fault_injection::file_damage::{Damage, damage_file, data_end, list_files, log_tail};
use systest::report::{Figures, is_long_form};
use systest::server::StartRefusal;
use systest::workload::Load;
use systest::workload::ledger::{ClientProtocol, Ledger, WriterPlan};

/// Damage of a file of the data directory: the offset in percent of its contents, and the kind.
#[derive(Clone, Copy, Debug)]
struct DamageCase {
    name: &'static str,
    file: fn(&Path) -> PathBuf,
    percent: usize,
    damage: Damage,
}

const fn damage_case(
    name: &'static str,
    file: fn(&Path) -> PathBuf,
    percent: usize,
    damage: Damage,
) -> DamageCase {
    DamageCase { name, file, percent, damage }
}

/// Bit flip in the last written value, which only the value's checksum reveals.
const VALUE: &str = "log_value";
/// All cases; the short form runs the first `SHORT_FORM_CASES`.
const DAMAGE_CASES: [DamageCase; 17] = [
    damage_case(VALUE, newest_segment, 0, Damage::Flip),
    damage_case("log_middle", newest_segment, 50, Damage::Flip),
    damage_case("table", newest_table, 50, Damage::Flip),
    damage_case("table_list", table_list, 50, Damage::Flip),
    damage_case("members", |data| data.join("MEMBERS"), 50, Damage::Flip),
    damage_case("log_header", oldest_segment, 0, Damage::Flip),
    damage_case("log_head", newest_segment, 5, Damage::Flip),
    damage_case("log_zeros", newest_segment, 40, Damage::Zeros),
    damage_case("log_cut", newest_segment, 60, Damage::Cut),
    damage_case("log_oldest", oldest_segment, 50, Damage::Flip),
    damage_case("table_head", newest_table, 2, Damage::Flip),
    damage_case("table_end", newest_table, 98, Damage::Flip),
    damage_case("table_zeros", newest_table, 40, Damage::Zeros),
    damage_case("table_cut", newest_table, 60, Damage::Cut),
    damage_case("table_current", |data| data.join("store/current"), 50, Damage::Flip),
    damage_case("identity", |data| data.join("IDENTITY"), 50, Damage::Flip),
    damage_case("members_cut", |data| data.join("MEMBERS"), 60, Damage::Cut),
];
/// Number of damages in the short form (`make test`).
const SHORT_FORM_CASES: usize = 5;

fn segments(data: &Path) -> Vec<PathBuf> {
    let all = list_files(&data.join("log")).into_iter();
    all.filter(|path| path.extension().is_some_and(|word| word == "log")).collect()
}

fn newest_segment(data: &Path) -> PathBuf {
    log_tail(&data.join("log")).0
}

fn oldest_segment(data: &Path) -> PathBuf {
    segments(data).first().expect("there is always one").clone()
}

/// Returns the newest table, which no merge has replaced yet.
fn newest_table(data: &Path) -> PathBuf {
    let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u64>().ok();
    let all = list_files(&data.join("store/tables")).into_iter();
    all.max_by_key(number).expect("something was flushed")
}

/// Returns the newest list of tables.
fn table_list(data: &Path) -> PathBuf {
    let all = list_files(&data.join("store")).into_iter();
    let name = |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let lists = all.filter(|path| name(path).is_some_and(|name| name.starts_with('v')));
    lists.max_by_key(|path| path.metadata().and_then(|meta| meta.modified()).ok()).expect("one")
}

/// Writes enough data that tables are flushed and segments are full.
fn write_load(cluster: &Cluster, first: usize) -> Ledger {
    let one = |at: usize| WriterPlan {
        client: first + at,
        keys: 400,
        depth: 8,
        bytes: 20_000,
        protocol: ClientProtocol::Resp,
    };
    let load = Load::with_failover(
        &cluster.client_addresses(),
        &(0..4).map(one).collect::<Vec<_>>(),
        5 * SECOND,
    );
    std::thread::sleep(2 * SECOND);
    load.stop()
}

/// Reaction of a node to the damage of one case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reaction {
    /// The node did not start, and named the file.
    Stopped,
    /// The node served, and answered reads of the damage with an error, or ended when it read it.
    Refused,
    /// The node repaired itself, and served the same rows as the others.
    Mended,
}

#[test]
fn damaged_file_at_one_node_is_detected_and_never_served() {
    let _permit = experiment();
    let scratch = Scratch::new("cluster-damage");
    let mut figures = Figures::start("F-22 damage at one node of a cluster");
    let mut cluster = Cluster::start(&scratch, Options::new(3));
    let mut ledger = write_load(&cluster, 700);
    let mut outcomes = Vec::new();
    let count = if is_long_form() { DAMAGE_CASES.len() } else { SHORT_FORM_CASES };
    for (round, case) in DAMAGE_CASES.iter().take(count).enumerate() {
        // The others join node 1 when they start, so it is never damaged.
        let victim = if cluster.master() == 3 { 2 } else { 3 };
        ledger.join(fill_until_tables(&mut cluster, victim, 710 + 10 * round));
        figures.faults += 1;
        let end = damage_and_restart(&mut cluster, victim, case, &mut ledger, round);
        outcomes.push((case.name, end));
        cluster.must_converge();
    }
    (figures.ok, figures.fail, figures.info) = (ledger.ok, ledger.fail, ledger.info);
    for node in cluster.nodes() {
        let verdict = ledger.judge(cluster.client_address(node)).expect("it is readable");
        figures.lost += verdict.lost.len() as u64;
        verdict.must_be_clean();
    }
    for end in [Reaction::Stopped, Reaction::Refused, Reaction::Mended] {
        let names = outcomes.iter().filter(|(_, one)| *one == end).map(|(name, _)| *name);
        figures.add(&format!("{end:?}").to_lowercase(), names.collect::<Vec<_>>().join(","));
    }
    figures.print();
    cluster.must_have_equal_rows();
}

/// Writes data until the victim, which may be a fresh node, has tables and a log to damage.
pub(super) fn fill_until_tables(cluster: &mut Cluster, victim: usize, first: usize) -> Ledger {
    let data = cluster.setup_mut(victim).data.clone();
    let mut ledger = Ledger::default();
    while list_files(&data.join("store/tables")).is_empty() || segments(&data).len() < 2 {
        ledger.join(write_load(cluster, first));
    }
    ledger
}

/// Damages a file of a node that was killed, while the others go on, and restarts it.
fn damage_and_restart(
    cluster: &mut Cluster,
    victim: usize,
    harm: &DamageCase,
    total_ledger: &mut Ledger,
    round: usize,
) -> Reaction {
    let data = cluster.setup_mut(victim).data.clone();
    let value = format!("marked-{round}-{}", "x".repeat(2_000));
    if harm.name == VALUE {
        write_marked_row(cluster, 1, &value);
        cluster.must_have_equal_rows();
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
        damage_value(cluster, victim, &value).0
    } else {
        let file = (harm.file)(&data);
        damage_file(&file, data_end(&file) * harm.percent / 100, harm.damage);
        file
    };
    if harm.name.starts_with("table") || harm.name.starts_with("log") {
        let (code, said) = run_verify(&data);
        assert_eq!(code, Some(DAMAGED), "{harm:?}: `credenza verify` finds nothing: {said}");
        let name = file.file_name().expect("a file has a name").to_string_lossy();
        assert!(said.contains(&*name), "{harm:?}: the file is not named: {said}");
    }
    // The others go on writing.
    let load =
        Load::with_failover(&cluster.client_addresses(), &writers(70 + round as u64), SECOND);
    std::thread::sleep(SECOND / 2);
    let start_result = cluster.try_start(victim);
    std::thread::sleep(SECOND / 2);
    let ledger = load.stop();
    assert!(ledger.ok > 20, "{harm:?}: the others took almost nothing: {ledger:?}");
    total_ledger.join(ledger);
    let outcome = match start_result {
        Err(refusal) => {
            must_name(&refusal, &file, harm);
            Reaction::Stopped
        }
        Ok(()) => check_running(cluster, victim, &file, harm),
    };
    if outcome != Reaction::Mended {
        cluster.replace(victim);
    }
    outcome
}

fn must_name(refusal: &StartRefusal, file: &Path, harm: &DamageCase) {
    assert_eq!(refusal.code, Some(DAMAGED), "{harm:?}: {refusal}");
    refusal.must_not_panic();
    let name = file.file_name().expect("a file has a name").to_string_lossy();
    assert!(refusal.output.contains(&*name), "{harm:?}: the file is not named: {refusal}");
}

/// Returns exit code and output of `credenza verify` on a directory.
pub(super) fn run_verify(data: &Path) -> (Option<i32>, String) {
    run_tool(&["verify", systest::environment::path_str(data)])
}

/// Returns exit code and output of the command line tool.
pub(super) fn run_tool(args: &[&str]) -> (Option<i32>, String) {
    let output = systest::server::tool(args).output().expect("the tool runs");
    let output_bytes = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&output_bytes).into_owned())
}

/// Checks a victim that started: its rows must equal those of the others, or be errors.
fn check_running(cluster: &mut Cluster, victim: usize, file: &Path, harm: &DamageCase) -> Reaction {
    let wanted = cluster.group_status(cluster.master(), 1).expect("a master answers").applied;
    let mut rows = Err(String::new());
    wait_until("an end", || {
        if !cluster.server(victim).is_alive() {
            rows = Err("it has ended".into());
            return Ok(());
        }
        let applied = cluster.group_status(victim, 1).map_or(0, |said| said.applied);
        rows = cluster.try_read_rows(victim);
        match &rows {
            // A member that has not applied the creation of the bucket yet refuses the read.
            Err(said) if ["no_such_bucket", "stale_replica"].iter().any(|it| said.contains(it)) => {
                Err(format!("{harm:?}: {said}"))
            }
            Ok(_) if applied < wanted => Err(format!("{harm:?}: {applied} of {wanted}")),
            _ => Ok(()),
        }
    });
    if let Ok(rows) = &rows {
        let expected = cluster.read_rows(cluster.master());
        assert!(*rows == expected, "{harm:?}: damaged rows were served");
    }
    let data = cluster.setup_mut(victim).data.clone();
    if cluster.server(victim).is_alive() {
        cluster.stop(victim);
    } else {
        let said = cluster.server(victim).stderr_text();
        assert!(said.contains("damage"), "{harm:?}: it ended for another reason: {said}");
        cluster.kill(victim);
    }
    let (code, said) = run_verify(&data);
    match (rows, code) {
        // All rows are served and no file is damaged any more: the entries were fetched from the
        // others.
        (Ok(_), Some(0)) => {
            cluster.start_node(victim);
            Reaction::Mended
        }
        (_, Some(DAMAGED)) => {
            let name = file.file_name().expect("a file has a name").to_string_lossy();
            assert!(said.contains(&*name), "{harm:?}: the file is not named: {said}");
            Reaction::Refused
        }
        (rows, code) => panic!("{harm:?}: found and forgotten: {rows:?}, {code:?}: {said}"),
    }
}

/// Damages one value at two of three nodes, of which each fetches it from the third, then at all
/// three, of which none starts; after one has its value back, the others repair themselves from it.
#[test]
fn value_damaged_at_two_nodes_is_repaired_and_at_all_three_refused() {
    let _permit = experiment();
    let scratch = Scratch::new("cluster-damage-many");
    let mut figures = Figures::start("F-23 one value damaged at several nodes");
    let mut cluster = Cluster::start(&scratch, Options::new(3));
    let load = Load::with_failover(&cluster.client_addresses(), &writers(750), SECOND);
    std::thread::sleep(SECOND);
    let mut ledger = load.stop();
    for victims in [&[2, 3][..], &[1, 2, 3]] {
        figures.faults += victims.len() as u64;
        let value = format!("marked-{}-{}", victims.len(), "x".repeat(2_000));
        write_marked_row(&cluster, 1, &value);
        let plans = writers(751 + victims.len() as u64);
        let load = Load::with_failover(&cluster.client_addresses(), &plans, SECOND);
        std::thread::sleep(SECOND);
        ledger.join(load.stop());
        cluster.must_have_equal_rows();
        let ids = ids(&cluster);
        // The log repeats its decided indexes every second.
        std::thread::sleep(3 * SECOND);
        cluster.nodes().for_each(|node| cluster.kill(node));
        let damage_at = |node: &usize| (*node, damage_value(&mut cluster, *node, &value));
        let damaged_files: Vec<DamagedFile> = victims.iter().map(damage_at).collect();
        if victims.len() == 3 {
            must_refuse_without_repair(&mut cluster, &damaged_files);
            let (_, (file, bytes)) = &damaged_files[0];
            std::fs::write(file, bytes).expect("ours to write");
        }
        let started = Instant::now();
        cluster.start_all();
        cluster.must_converge();
        figures.add(&format!("mended_{}_ms", victims.len()), started.elapsed().as_millis());
        cluster.must_serve();
        for node in cluster.nodes() {
            assert_eq!(read_marked_row(&cluster, node, &value), "right", "at node {node}");
        }
        assert_eq!(self::ids(&cluster), ids, "nobody came back as another node");
    }
    (figures.ok, figures.fail, figures.info) = (ledger.ok, ledger.fail, ledger.info);
    for node in cluster.nodes() {
        ledger.judge(cluster.client_address(node)).expect("it is readable").must_be_clean();
    }
    figures.print();
    cluster.must_have_equal_rows();
    for node in cluster.nodes() {
        assert_eq!(cluster.stop(node), Some(0));
        let (code, said) = run_verify(&cluster.setup_mut(node).data.clone());
        assert_eq!(code, Some(0), "nothing damaged is left: {said}");
    }
}

/// A node, the file that was damaged there, and its contents before.
type DamagedFile = (usize, (PathBuf, Vec<u8>));

/// Checks that nodes without automatic repair name the damaged file, and end.
fn must_refuse_without_repair(cluster: &mut Cluster, damaged: &[DamagedFile]) {
    let no_repair = ["--auto-repair", "off"].map(String::from);
    cluster.nodes().for_each(|node| cluster.setup_mut(node).args.extend(no_repair.clone()));
    let refusals = cluster.try_start_all(&[1, 2, 3]);
    assert_eq!(refusals.len(), 3, "somebody serves without the value");
    for (node, refusal) in &refusals {
        let (_, (file, _)) = damaged.iter().find(|(victim, _)| victim == node).expect("damaged");
        assert_eq!(refusal.code, Some(DAMAGED), "{refusal}");
        let name = file.file_name().expect("a file has a name").to_string_lossy();
        assert!(refusal.output.contains(&*name), "{refusal}");
    }
    for node in cluster.nodes() {
        let args = &mut cluster.setup_mut(node).args;
        args.truncate(args.len() - no_repair.len());
    }
}

/// Returns the ids of the nodes.
fn ids(cluster: &Cluster) -> Vec<serde_json::Value> {
    let id = |node| cluster.status(node).expect("it answers")["node"].clone();
    cluster.nodes().map(id).collect()
}

pub(super) fn write_marked_row(cluster: &Cluster, node: usize, value: &str) {
    let mut redis = Resp::connect(cluster.client_address(node)).expect("it listens");
    let answer = redis.call_line(&format!("SET marked {value}")).expect("it answers");
    assert_eq!(answer, RespReply::Simple("OK".into()));
}

/// Flips a bit of the value in a node's log; returns the file with its contents before.
pub(super) fn damage_value(cluster: &mut Cluster, node: usize, value: &str) -> (PathBuf, Vec<u8>) {
    let data = cluster.setup_mut(node).data.clone();
    for file in segments(&data).into_iter().rev() {
        let bytes = std::fs::read(&file).expect("ours to read");
        let at = bytes.windows(64).position(|bytes| *bytes == value.as_bytes()[..64]);
        if let Some(at) = at {
            damage_file(&file, at + 30, Damage::Flip);
            return (file, bytes);
        }
    }
    panic!("node {node} has no such value in its log");
}

/// Returns a serving node's answer for the marked row; it must not be wrong.
pub(super) fn read_marked_row(cluster: &Cluster, node: usize, value: &str) -> &'static str {
    let mut redis =
        Resp::with_timeout(cluster.client_address(node), 5 * SECOND).expect("it listens");
    match redis.call_line("GET marked") {
        Ok(RespReply::Bulk(Some(found))) => {
            assert_eq!(String::from_utf8_lossy(&found), value, "damage was served");
            "right"
        }
        Ok(RespReply::Error(_)) | Err(_) => "refused",
        other => panic!("an acknowledged row is answered {other:?}"),
    }
}

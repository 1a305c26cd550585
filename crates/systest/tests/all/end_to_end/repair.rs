//! A member whose log was damaged while it was down reports it, and repairs itself: under its own
//! id, if a later part of the log contains its promises, and otherwise as another node.
//! A node without peers stops.

use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use systest::cluster::{Cluster, Options, wait_until};
use systest::environment::Scratch;
use systest::workload::CallOutcome;
use systest::workload::siblings::{ManualClient, ReadValues};

/// Number of values written, so that the log has a head, a middle and an end.
const VALUES: usize = 300;

/// Returns the segment with the most data.
fn largest_segment(data: &Path) -> PathBuf {
    let entries = std::fs::read_dir(data.join("log")).expect("a log");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let segments =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
    segments.max_by_key(|path| last_data_byte(path)).expect("a segment")
}

/// Returns the offset of a segment's last byte of data: the rest of the file is zeros.
fn last_data_byte(segment: &Path) -> u64 {
    let mut bytes = Vec::new();
    std::fs::File::open(segment).and_then(|mut file| file.read_to_end(&mut bytes)).expect("read");
    bytes.iter().rposition(|byte| *byte != 0).expect("something was written") as u64
}

/// Changes one byte of the log, at this percentage of its length.
pub fn flip_byte(data: &Path, percent: u64) {
    let segment = largest_segment(data);
    let offset = last_data_byte(&segment) * percent / 100;
    let mut file =
        std::fs::OpenOptions::new().read(true).write(true).open(segment).expect("it is there");
    let mut byte = [0];
    file.seek(SeekFrom::Start(offset)).expect("it is that long");
    file.read_exact(&mut byte).expect("a byte");
    file.seek(SeekFrom::Start(offset)).expect("it is that long");
    file.write_all(&[byte[0] ^ 0x20]).expect("written");
}

fn put(cluster: &Cluster, node: usize, round: u64) {
    put_values(cluster, node, round, VALUES);
}

fn put_values(cluster: &Cluster, node: usize, round: u64, values: usize) {
    let mut client =
        systest::client::Resp::connect(cluster.client_address(node)).expect("it listens");
    for number in 0..values {
        let value = "v".repeat(400);
        client.call_line(&format!("SET k{number} {round}{value}")).expect("it answers");
    }
}

/// Returns the folder that damaged data was moved to.
fn damaged_folder(data: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(data).expect("a directory");
    let mut paths = entries.map(|entry| entry.expect("an entry").path());
    let is_damaged = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("damaged-"))
    };
    paths.find(is_damaged)
}

#[test]
fn member_with_damaged_log_repairs_itself() {
    let scratch = Scratch::new("repair");
    let options = Options { lease: Duration::from_millis(600), ..Options::new(3) };
    let mut cluster = Cluster::start(&scratch, options);
    for (round, percent, keeps_id) in [(1, 1, false), (2, 50, true), (3, 20, true)] {
        put(&cluster, 1, round);
        let victim = if cluster.master() == 3 { 2 } else { 3 };
        let before = cluster.status(victim).expect("it answers")["node"].clone();
        // The log repeats its decided indexes every second; after that it contains only these.
        std::thread::sleep(Duration::from_secs(3));
        put_values(&cluster, 1, round, 20);
        cluster.kill(victim);
        let data = cluster.setup_mut(victim).data.clone();
        flip_byte(&data, percent);
        put(&cluster, 1, round + 10);
        cluster.start_node(victim);
        cluster.must_converge();
        cluster.must_have_equal_rows();
        let after = cluster.status(victim).expect("it answers")["node"].clone();
        if keeps_id {
            assert_eq!(before, after, "it knows what it promised");
            assert_eq!(damaged_folder(&data), None);
            continue;
        }
        assert_ne!(before, after, "the old id may have promised something, and is silent for good");
        let damaged = damaged_folder(&data).expect("nothing was deleted");
        assert!(largest_segment(&damaged).exists());
        wait_until("the old id to be forgotten", || {
            let members = cluster.status(1).expect("it answers")["members"].clone();
            let count = members.as_array().map_or(0, Vec::len);
            if count == 3 { Ok(()) } else { Err(members.to_string()) }
        });
        // It votes: with one node down it still completes a majority.
        let other = cluster.nodes().find(|node| *node != victim && *node != 1).expect("three");
        cluster.kill(other);
        put(&cluster, 1, round + 20);
        cluster.start_node(other);
        cluster.must_converge();
        std::fs::remove_dir_all(damaged).expect("nobody needs it");
    }
    // With repair off it stops, and reports the damage.
    put(&cluster, 1, 9);
    let victim = if cluster.master() == 3 { 2 } else { 3 };
    cluster.kill(victim);
    flip_byte(&cluster.setup_mut(victim).data.clone(), 50);
    cluster.setup_mut(victim).args.extend(["--auto-repair".into(), "off".into()]);
    let refusal = cluster.try_start(victim).expect_err("it is damaged");
    assert_eq!(refusal.code, Some(7), "{refusal}");
    assert!(refusal.output.contains("is damaged at byte"), "{refusal}");
}

#[test]
fn cluster_recover_lets_sole_survivor_of_three_continue() {
    let scratch = Scratch::new("recover");
    let options = Options { lease: Duration::from_millis(600), ..Options::new(3) };
    let mut cluster = Cluster::start(&scratch, options);
    put(&cluster, 1, 1);
    cluster.must_have_equal_rows();
    for node in 1..=3 {
        cluster.kill(node);
    }
    for lost in [2, 3] {
        std::fs::remove_dir_all(&cluster.setup_mut(lost).data).expect("its disk is gone");
    }
    let data = cluster.setup_mut(1).data.display().to_string();
    let recover = |flags: &[&str]| {
        let args = [&["cluster", "recover", "--data", &data], flags].concat();
        let output = systest::server::tool(&args).output().expect("the tool runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let dry_run = recover(&[]);
    assert!(dry_run.contains("Nothing was changed"), "{dry_run}");
    let report = recover(&["--yes-lose-what-the-others-had"]);
    assert!(report.contains("the only member"), "{report}");
    // The others are new nodes with the old names.
    for node in 1..=3 {
        cluster.start_node(node);
    }
    cluster.must_converge();
    cluster.must_have_equal_rows();
    cluster.kill(1);
    cluster.must_converge();
    let mut client = systest::client::Resp::connect(cluster.client_address(2)).expect("it listens");
    for number in 0..VALUES {
        let found = client.call_line(&format!("GET k{number}")).expect("it answers");
        let expected = format!("1{}", "v".repeat(400)).into_bytes();
        assert_eq!(found, systest::client::RespReply::Bulk(Some(expected)), "k{number}");
    }
}

#[test]
fn cluster_recover_lets_survivor_of_five_serve_its_available_copies() {
    const KEYS: usize = 200;
    let scratch = Scratch::new("recover-ring");
    let options = Options { lease: Duration::from_millis(600), ..Options::new(5) };
    let mut cluster = Cluster::start(&scratch, options);
    cluster.init_ring();
    let mut client = ManualClient::new(&cluster.client_addresses(), "available/left", "hand");
    let key = |at: usize| format!("k{at:03}");
    let no_context = ReadValues::default();
    for at in 0..KEYS {
        assert_eq!(
            client.put(1 + at % 5, &key(at), &no_context, "w=all"),
            CallOutcome::Acknowledged(())
        );
    }
    cluster.must_finish_repair();
    cluster.nodes().for_each(|node| cluster.kill(node));
    for lost in 2..=5 {
        std::fs::remove_dir_all(&cluster.setup_mut(lost).data).expect("its disk is gone");
    }
    let data = cluster.setup_mut(1).data.display().to_string();
    let recover = |flags: &[&str]| {
        let args = [&["cluster", "recover", "--json", "--data", &data], flags].concat();
        let output = systest::server::tool(&args).output().expect("the tool runs");
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("JSON")
    };
    let ring = recover(&[])["ring"].clone();
    assert_eq!((&ring["partitions"], &ring["others"]), (&64.into(), &4.into()));
    let copied = ring["copied"].as_u64().expect("a number");
    assert!((30..=48).contains(&copied), "three copies of 64 on five nodes: {ring}");
    for _ in 0..2 {
        assert_eq!(recover(&["--yes-lose-what-the-others-had"])["taken_over"], true);
    }
    assert_eq!(
        recover(&[])["ring"],
        serde_json::json!({
            "partitions": 64, "copied": 64, "others": 0,
        })
    );
    cluster.start_node(1);
    client.drop_connections();
    let keys_found = |client: &mut ManualClient, node: usize| -> Vec<bool> {
        let has = |at: usize, client: &mut ManualClient| {
            !client.get(node, &key(at), "").expect("it is read").values.is_empty()
        };
        (0..KEYS).map(|at| has(at, client)).collect()
    };
    let survived = keys_found(&mut client, 1);
    let count = survived.iter().filter(|found| **found).count();
    let share = KEYS * copied as usize / 64;
    assert!(count.abs_diff(share) < KEYS / 5, "{count} of {KEYS} with {copied} of 64 partitions");
    // It serves again: everything is rewritten, and joining nodes receive all of it.
    for at in 0..KEYS {
        let ring = client.get(1, &key(at), "").expect("it is read");
        assert_eq!(client.put(1, &key(at), &ring, ""), CallOutcome::Acknowledged(()));
    }
    for node in [2, 3] {
        cluster.start_node(node);
    }
    for node in ["n2", "n3"] {
        cluster.run_tool(&["cluster", "ring", "join", node]);
    }
    cluster.run_tool(&["cluster", "ring", "commit", "--wait"]);
    client.drop_connections();
    for node in [2, 3] {
        assert!(keys_found(&mut client, node).iter().all(|found| *found), "at n{node}");
    }
}

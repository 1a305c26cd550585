//! A member whose log was damaged while it was down reports it, and repairs itself: under its own
//! id, if a later part of the log shows which promises must be kept, and otherwise as another node.
//! A node without peers stops.

use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use systest::rigs::{Cluster, Options, Scratch, wait};
use systest::workload::CallOutcome;
use systest::workload::siblings::{ManualClient, ShownValues};

/// Number of values written, so that the log has a head, a middle and an end.
const VALUES: usize = 300;

/// Returns the segment with the most data.
fn segment(data: &Path) -> PathBuf {
    let entries = std::fs::read_dir(data.join("log")).expect("a log");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let logs = paths.filter(|path| path.extension().is_some_and(|word| word == "log"));
    logs.max_by_key(|path| end(path)).expect("a segment")
}

/// Returns the offset of a segment's last byte of data: the rest of the file is zeros.
fn end(segment: &Path) -> u64 {
    let mut bytes = Vec::new();
    std::fs::File::open(segment).and_then(|mut file| file.read_to_end(&mut bytes)).expect("read");
    bytes.iter().rposition(|byte| *byte != 0).expect("something was written") as u64
}

/// Changes one byte of the log, at this many percent of it.
pub fn damage(data: &Path, percent: u64) {
    let segment = segment(data);
    let at = end(&segment) * percent / 100;
    let mut file =
        std::fs::OpenOptions::new().read(true).write(true).open(segment).expect("it is there");
    let mut byte = [0];
    file.seek(SeekFrom::Start(at)).expect("it is that long");
    file.read_exact(&mut byte).expect("a byte");
    file.seek(SeekFrom::Start(at)).expect("it is that long");
    file.write_all(&[byte[0] ^ 0x20]).expect("written");
}

fn put(cluster: &Cluster, node: usize, round: u64) {
    put_some(cluster, node, round, VALUES);
}

fn put_some(cluster: &Cluster, node: usize, round: u64, values: usize) {
    let mut redis = systest::client::Resp::connect(cluster.client(node)).expect("it listens");
    for number in 0..values {
        let value = "v".repeat(400);
        redis.say(&format!("SET k{number} {round}{value}")).expect("it answers");
    }
}

/// Returns the folder that damaged data were moved to.
fn aside(data: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(data).expect("a directory");
    let mut paths = entries.map(|entry| entry.expect("an entry").path());
    let is_aside = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("damaged-"))
    };
    paths.find(is_aside)
}

#[test]
fn a_member_with_a_damaged_log_is_whole_again_by_itself() {
    let scratch = Scratch::new("repair");
    let quick = Options { lease: Duration::from_millis(600), ..Options::of(3) };
    let mut cluster = Cluster::start(&scratch, quick);
    for (round, percent, in_place) in [(1, 1, false), (2, 50, true), (3, 20, true)] {
        put(&cluster, 1, round);
        let victim = if cluster.master() == 3 { 2 } else { 3 };
        let before = cluster.status(victim).expect("it answers")["node"].clone();
        // The log repeats its decided indexes every second; after that it contains only these.
        std::thread::sleep(Duration::from_secs(3));
        put_some(&cluster, 1, round, 20);
        cluster.kill(victim);
        let data = cluster.how(victim).data.clone();
        damage(&data, percent);
        put(&cluster, 1, round + 10);
        cluster.begin(victim);
        cluster.must_settle();
        cluster.must_be_level();
        let after = cluster.status(victim).expect("it answers")["node"].clone();
        if in_place {
            assert_eq!(before, after, "it knows what it promised");
            assert_eq!(aside(&data), None);
            continue;
        }
        assert_ne!(before, after, "the old id may have promised something, and is silent for good");
        let aside = aside(&data).expect("nothing was deleted");
        assert!(segment(&aside).exists());
        wait("the old id to be forgotten", || {
            let members = cluster.status(1).expect("it answers")["members"].clone();
            let count = members.as_array().map_or(0, Vec::len);
            if count == 3 { Ok(()) } else { Err(members.to_string()) }
        });
        // It votes: with one node down it still completes a majority.
        let other = cluster.nodes().find(|node| *node != victim && *node != 1).expect("three");
        cluster.kill(other);
        put(&cluster, 1, round + 20);
        cluster.begin(other);
        cluster.must_settle();
        std::fs::remove_dir_all(aside).expect("nobody needs it");
    }
    // With repair off it stops, and reports the damage.
    put(&cluster, 1, 9);
    let victim = if cluster.master() == 3 { 2 } else { 3 };
    cluster.kill(victim);
    damage(&cluster.how(victim).data.clone(), 50);
    cluster.how(victim).words.extend(["--auto-repair".into(), "off".into()]);
    let refusal = cluster.try_to_begin(victim).expect_err("it is damaged");
    assert_eq!(refusal.code, Some(7), "{refusal}");
    assert!(refusal.words.contains("is damaged at byte"), "{refusal}");
}

#[test]
fn two_of_three_are_lost_for_good_and_the_third_goes_on_with_all_it_had() {
    let scratch = Scratch::new("recover");
    let quick = Options { lease: Duration::from_millis(600), ..Options::of(3) };
    let mut cluster = Cluster::start(&scratch, quick);
    put(&cluster, 1, 1);
    cluster.must_be_level();
    for node in 1..=3 {
        cluster.kill(node);
    }
    for lost in [2, 3] {
        std::fs::remove_dir_all(&cluster.how(lost).data).expect("its disk is gone");
    }
    let data = cluster.how(1).data.display().to_string();
    let recover = |sure: &[&str]| {
        let words = [&["cluster", "recover", "--data", &data], sure].concat();
        let output = systest::server::tool(&words).output().expect("the tool runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let seen = recover(&[]);
    assert!(seen.contains("Nothing was changed"), "{seen}");
    let done = recover(&["--yes-lose-what-the-others-had"]);
    assert!(done.contains("the only member"), "{done}");
    // The others are fresh nodes of the old names.
    for node in 1..=3 {
        cluster.begin(node);
    }
    cluster.must_settle();
    cluster.must_be_level();
    cluster.kill(1);
    cluster.must_settle();
    let mut redis = systest::client::Resp::connect(cluster.client(2)).expect("it listens");
    for number in 0..VALUES {
        let found = redis.say(&format!("GET k{number}")).expect("it answers");
        let wanted = format!("1{}", "v".repeat(400)).into_bytes();
        assert_eq!(found, systest::client::RespReply::Bulk(Some(wanted)), "k{number}");
    }
}

#[test]
fn who_is_left_of_five_serves_available_buckets_with_the_copies_it_has() {
    const KEYS: usize = 200;
    let scratch = Scratch::new("recover-ring");
    let quick = Options { lease: Duration::from_millis(600), ..Options::of(5) };
    let mut cluster = Cluster::start(&scratch, quick);
    cluster.share_ring();
    let mut hand = ManualClient::new(&cluster.clients(), "available/left", "hand");
    let key = |at: usize| format!("k{at:03}");
    let nothing = ShownValues::default();
    for at in 0..KEYS {
        assert_eq!(
            hand.put(1 + at % 5, &key(at), &nothing, "w=all"),
            CallOutcome::Acknowledged(())
        );
    }
    cluster.must_be_quiet();
    cluster.nodes().for_each(|node| cluster.kill(node));
    for lost in 2..=5 {
        std::fs::remove_dir_all(&cluster.how(lost).data).expect("its disk is gone");
    }
    let data = cluster.how(1).data.display().to_string();
    let recover = |sure: &[&str]| {
        let words = [&["cluster", "recover", "--json", "--data", &data], sure].concat();
        let output = systest::server::tool(&words).output().expect("the tool runs");
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("JSON")
    };
    let seen = recover(&[])["ring"].clone();
    assert_eq!((&seen["partitions"], &seen["others"]), (&64.into(), &4.into()));
    let copied = seen["copied"].as_u64().expect("a number");
    assert!((30..=48).contains(&copied), "three copies of 64 on five nodes: {seen}");
    for _ in 0..2 {
        assert_eq!(recover(&["--yes-lose-what-the-others-had"])["taken_over"], true);
    }
    assert_eq!(
        recover(&[])["ring"],
        serde_json::json!({
            "partitions": 64, "copied": 64, "others": 0,
        })
    );
    cluster.begin(1);
    hand.connect_anew();
    let found = |hand: &mut ManualClient, node: usize| -> Vec<bool> {
        let has = |at: usize, hand: &mut ManualClient| {
            !hand.get(node, &key(at), "").expect("it is read").values.is_empty()
        };
        (0..KEYS).map(|at| has(at, hand)).collect()
    };
    let left = found(&mut hand, 1);
    let count = left.iter().filter(|found| **found).count();
    let wanted = KEYS * copied as usize / 64;
    assert!(count.abs_diff(wanted) < KEYS / 5, "{count} of {KEYS} with {copied} of 64 partitions");
    // It goes on: everything is written anew, and others join and get all of it.
    for at in 0..KEYS {
        let seen = hand.get(1, &key(at), "").expect("it is read");
        assert_eq!(hand.put(1, &key(at), &seen, ""), CallOutcome::Acknowledged(()));
    }
    for node in [2, 3] {
        cluster.begin(node);
    }
    for node in ["n2", "n3"] {
        cluster.operate(&["cluster", "ring", "join", node]);
    }
    cluster.operate(&["cluster", "ring", "commit", "--wait"]);
    hand.connect_anew();
    for node in [2, 3] {
        assert!(found(&mut hand, node).iter().all(|found| *found), "at n{node}");
    }
}
